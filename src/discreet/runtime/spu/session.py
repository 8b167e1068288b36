"""A session: what three parties, the owners and the analyst agree on beforehand.

The digest binds every package and every agreement to these terms, except to the
addresses: where a party is reached may look different from two networks.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, Literal, TypeAlias, get_args

from discreet.entropy import Entropy
from discreet.errors import InputError, PlanError
from discreet.exact.model import ExactMPC, Ties
from discreet.exact.program import AREAS, Program
from discreet.metrics.table import Metric
from discreet.privacy.loss import decimal_text
from discreet.runtime.spu.shares import PARTIES

Scores: TypeAlias = Literal["probability", "logit"]
VERSION: Final = 1
MAX_OWNERS: Final = 1000
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a process listens."""

    host: str
    port: int

    def __post_init__(self) -> None:
        if not _HOST.fullmatch(self.host) or not 0 < self.port < 2**16:
            raise PlanError("an address is host:port with a port from 1 to 65535")

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read ``host:port``."""
        host, _, port = text.rpartition(":")
        if not port.isdecimal():
            raise PlanError("an address is host:port with a port from 1 to 65535")
        return cls(host, int(port))


@dataclass(frozen=True, slots=True)
class PartyEntry:
    """One compute party: its name is the name in its certificate."""

    name: str
    intake: Address
    link: Address


@dataclass(frozen=True, slots=True)
class OwnerEntry:
    """One data owner, and how many rows everybody sees of it."""

    name: str
    rows: int

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise PlanError(f"an owner has at least one row, got {self.rows}")


@dataclass(frozen=True)
class Session:
    """The agreed terms of one run; validated, hashable by ``digest``."""

    id: str
    parties: tuple[PartyEntry, ...]
    owners: tuple[OwnerEntry, ...]
    metrics: tuple[Metric, ...] = AREAS
    scores: Scores = "probability"
    ties: Ties = "exact"
    hide_sizes: bool = False
    epsilon: Fraction | None = None
    analyst: str = "analyst"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[0-9a-f]{32}", self.id):
            raise PlanError("a session's id is 32 hexadecimal digits, fresh each time")
        if len(self.parties) != PARTIES:
            raise PlanError(
                f"a session has {PARTIES} compute parties, got {len(self.parties)}"
            )
        if not 1 <= len(self.owners) <= MAX_OWNERS:
            raise PlanError(
                f"a session has 1 to {MAX_OWNERS} owners, got {len(self.owners)}"
            )
        names = self.names
        if any(not _NAME.fullmatch(name) for name in names):
            raise PlanError(
                "names are lower-case letters, digits and hyphens, at most 63"
            )
        if len(set(names)) != len(names):
            raise PlanError("two members of the session have the same name")
        if self.scores not in get_args(Scores):
            raise PlanError('scores are "probability" or "logit"')
        self.program()  # refuses what cannot be computed
        self.model()

    @classmethod
    def fresh(
        cls,
        parties: Sequence[PartyEntry],
        owners: Sequence[OwnerEntry],
        model: ExactMPC,
        *,
        entropy: Entropy,
        scores: Scores = "probability",
    ) -> Session:
        """Return a session that was never run before."""
        return cls(
            entropy(16).hex(),
            tuple(parties),
            tuple(owners),
            metrics=AREAS if model.epsilon is None else ("auc",),
            scores=scores,
            ties=model.ties,
            hide_sizes=model.hide_sizes,
            epsilon=None if model.epsilon is None else Fraction(model.epsilon),
        )

    def program(self) -> Program:
        """Return what the parties compute."""
        return Program(
            tuple(owner.rows for owner in self.owners),
            self.metrics,
            self.ties,
            self.hide_sizes,
            self.epsilon,
        )

    def model(self) -> ExactMPC:
        """Return the privacy model that the claim of the result comes from."""
        return ExactMPC(self.ties, self.hide_sizes, self.epsilon)

    def values(self, owner: int) -> int:
        """Count the values that an owner shares: keys, labels, perhaps its count."""
        return 2 * self.owners[owner].rows + (1 if self.hide_sizes else 0)

    @property
    def names(self) -> tuple[str, ...]:
        """Everybody's name: parties, owners, the analyst."""
        parties = (party.name for party in self.parties)
        return (*parties, *(owner.name for owner in self.owners), self.analyst)

    @property
    def rows(self) -> int:
        """The public number of rows in all, padding included."""
        return sum(owner.rows for owner in self.owners)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the canonical terms, addresses left out."""
        terms = {
            "version": VERSION,
            "id": self.id,
            "metrics": list(self.metrics),
            "scores": self.scores,
            "ties": self.ties,
            "hide_sizes": self.hide_sizes,
            "epsilon": None if self.epsilon is None else decimal_text(self.epsilon),
            "analyst": self.analyst,
            "parties": [party.name for party in self.parties],
            "owners": [[owner.name, owner.rows] for owner in self.owners],
        }
        text = json.dumps(terms, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(b"discreet exact session\0" + text.encode()).digest()

    def party_index(self, name: str) -> int:
        """Return the number of a compute party."""
        return _index([p.name for p in self.parties], name, "compute party")

    def owner_index(self, name: str) -> int:
        """Return the number of an owner."""
        return _index([o.name for o in self.owners], name, "owner")


def _index(names: list[str], name: str, what: str) -> int:
    if name not in names:
        raise InputError(f"the session names no {what} {name!r}")
    return names.index(name)

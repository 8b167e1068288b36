"""A session: a plan, and where its parties, owners and analyst are.

The digest binds every package and every agreement to these terms, except to the
addresses: where a party is reached may look different from two networks.

The file is TOML, the same text everywhere:

    version = 1
    id = "8f0c..."                     # 16 random bytes, fresh for every run
    metrics = ["auc", "average_precision", "aupr"]
    scores = "probability"             # or "logit": any real number
    ties = "exact"                     # or "none"
    hide_sizes = false                 # true: rows are padded sizes
    interval = true                    # also reveal the positives and two sums of squares
    analyst = "analyst"                # to whom the value is revealed
    model = "sepsis-xgb"               # which classifier is measured, for owners' policies
    epsilon = "1"                      # only for a noisy AUC
    [[party]]                          # three of them, in order
    name = "party-0"
    intake = "mpc0.example.org:7100"   # owners, the analyst, other parties
    link = "mpc0.example.org:7101"     # the engines' own link
    [[owner]]
    name = "owner-1"
    rows = 1000                        # exact, or the padded size
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, cast

import tomli_w

from discreet.codec import parsing
from discreet.codec.documents import Text, from_table, to_table
from discreet.codec.parsing import read_toml, whole
from discreet.data.scores import ScoreRange
from discreet.entropy import Entropy
from discreet.errors import InputError, PlanError
from discreet.metrics.table import Metric
from discreet.mpc.model import ExactMPC, areas_plan
from discreet.mpc.program import Program
from discreet.mpc.shares import PARTIES
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import Plan

VERSION: Final = 1
"""Changes with what is computed."""
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
        host, _, port = str(text).rpartition(":")
        known = port.isdecimal() and len(port) <= len("65535")
        return cls(host, int(port) if known else 0)


_ADDRESS: Final = Text(str, Address.parse)


@dataclass(frozen=True, slots=True)
class PartyEntry:
    """One compute party: its name is the name in its certificate."""

    name: str
    intake: Annotated[Address, _ADDRESS]
    link: Annotated[Address, _ADDRESS]


@dataclass(frozen=True, slots=True)
class OwnerEntry:
    """One data owner, and how many rows everybody sees of it."""

    name: str
    rows: int

    def __post_init__(self) -> None:
        whole(self.rows, "an owner's number of rows", least=1)


@dataclass(frozen=True, slots=True)
class _SessionFile:
    """The keys of a session's file beside those of its privacy model."""

    version: int
    id: str
    party: tuple[PartyEntry, ...]
    owner: tuple[OwnerEntry, ...]
    metrics: tuple[str, ...] | None = None
    scores: str = "probability"
    analyst: str = "analyst"
    model: str = ""


@dataclass(frozen=True)
class MpcSession:
    """The agreed terms of one run; validated, hashable by ``digest``."""

    id: str
    parties: tuple[PartyEntry, ...]
    owners: tuple[OwnerEntry, ...]
    plan: Plan
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
        if any(not _NAME.fullmatch(each) for each in self.names):
            raise PlanError(
                "names are lower-case letters, digits and hyphens, at most 63"
            )
        if len(set(self.names)) != len(self.names):
            raise PlanError("two members of the session have the same name")
        program = self.program()  # refuses what cannot be computed
        if program.model.interval and not program.interval_sums:
            raise PlanError("an interval is revealed beside the AUC; ask for that too")

    @classmethod
    def fresh(
        cls,
        parties: Sequence[PartyEntry],
        owners: Sequence[OwnerEntry],
        model: ExactMPC,
        *,
        entropy: Entropy,
        scores: str = "probability",
        measured: str = "",
    ) -> MpcSession:
        """Return a session that was never run before."""
        plan = _plan(model, owners, scores, model.areas, measured)
        return cls(entropy(16).hex(), tuple(parties), tuple(owners), plan)

    def program(self) -> Program:
        """Return what the parties compute."""
        return Program.of(self.plan, [owner.rows for owner in self.owners])

    @property
    def names(self) -> tuple[str, ...]:
        """Everybody's name: parties, owners, the analyst."""
        parties = (party.name for party in self.parties)
        return (*parties, *(owner.name for owner in self.owners), self.analyst)

    @property
    def rows(self) -> int:
        """The public number of rows in all, padding included."""
        return sum(owner.rows for owner in self.owners)

    def _terms(self) -> dict[str, Any]:
        """Return what the file and the digest have in common."""
        program = self.program()
        return {
            "version": VERSION,
            "id": self.id,
            "metrics": list(program.metrics),
            "scores": self.plan.facts.scores.kind,
            **to_table(program.model),
            "analyst": self.analyst,
            "model": self.plan.model.name,
        }

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the canonical terms, addresses left out."""
        terms = {
            "epsilon": None,
            **self._terms(),
            "parties": [party.name for party in self.parties],
            "owners": [[owner.name, owner.rows] for owner in self.owners],
        }
        text = json.dumps(terms, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(b"discreet exact session\0" + text.encode()).digest()

    def to_toml(self) -> str:
        """Return the session's file."""
        parties, owners = map(to_table, self.parties), map(to_table, self.owners)
        members = {"party": list(parties), "owner": list(owners)}
        return tomli_w.dumps({**self._terms(), **members})

    @classmethod
    def from_toml(cls, text: str) -> MpcSession:
        """Read a session's file; ``PlanError`` for anything else."""
        raw = read_toml(text, "the session")
        if raw.get("version") != VERSION:
            raise PlanError(f"the session is not of version {VERSION}")
        names = {each.name for each in fields(ExactMPC)} & set(raw)
        own = {"interval": False} | {name: raw.pop(name) for name in names}
        model = from_table(ExactMPC, own, "the session", defaults=True)
        file = from_table(_SessionFile, raw, "the session", defaults=True)
        metrics = model.areas if file.metrics is None else file.metrics
        plan = _plan(model, file.owner, file.scores, metrics, file.model)
        return cls(file.id, file.party, file.owner, plan, file.analyst)

    @classmethod
    def read(cls, path: Path) -> MpcSession:
        """Read a session file."""
        try:
            return cls.from_toml(parsing.read_text(path, "a session"))
        except InputError:
            raise PlanError("the session is not a TOML file") from None

    def party_index(self, name: str) -> int:
        """Return the number of a compute party."""
        return _index(self.parties, name, "compute party")

    def owner_index(self, name: str) -> int:
        """Return the number of an owner."""
        return _index(self.owners, name, "owner")


def _plan(
    model: ExactMPC,
    owners: Sequence[OwnerEntry],
    scores: str,
    metrics: Sequence[str],
    measured: str,
) -> Plan:
    if scores not in {"probability", "logit"}:
        raise PlanError('scores are "probability" or "logit"')
    rows = sum(owner.rows for owner in owners)
    facts = PublicFacts(rows, None, ScoreRange.declare(scores))  # type: ignore[arg-type]
    areas = cast("tuple[Metric, ...]", tuple(metrics))
    return areas_plan(
        model, facts, owners=len(owners), metrics=areas, measured=measured
    )


def _index(entries: Sequence[PartyEntry | OwnerEntry], name: str, what: str) -> int:
    names = [each.name for each in entries]
    if name not in names:
        raise InputError(f"the session names no {what} {name!r}")
    return names.index(name)

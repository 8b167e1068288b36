"""A session: what three parties, the owners and the analyst agree on beforehand.

The digest binds every package and every agreement to these terms, except to the
addresses: where a party is reached may look different from two networks.

The file is TOML, the same text everywhere:

    version = 3
    id = "8f0c..."                     # 16 random bytes, fresh for every run
    metrics = ["auc", "average_precision", "aupr"]
    scores = "probability"             # or "logit": any real number
    ties = "exact"                     # or "none"
    hide_sizes = false                 # true: rows are padded sizes
    interval = true                    # also open the positives and two sums of squares
    analyst = "analyst"                # whom the value is opened to
    model = "sepsis-xgb"               # which classifier is measured, for the owners' policies
    epsilon = "1"                      # only for a noisy opening, which is an AUC
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
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import tomli_w

from discreet import parsing
from discreet.data.scores import ScoreRange
from discreet.entropy import Entropy
from discreet.errors import InputError, PlanError
from discreet.metrics.table import Metric
from discreet.mpc.model import AREAS, ExactMPC, Ties, areas_plan
from discreet.mpc.packages import PARTIES
from discreet.mpc.program import Program
from discreet.parsing import read_toml, whole
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import Plan
from discreet.privacy.loss import amount_from_text, decimal_text

Scores: TypeAlias = Literal["probability", "logit"]
VERSION: Final = 3
"""Moves with what is computed; 3 since an AUC may be opened with its spread."""
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
        if not port.isdecimal() or len(port) > len("65535"):
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
        whole(self.rows, "an owner's number of rows", least=1)


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
    interval: bool = False
    analyst: str = "analyst"
    model: str = ""

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
        if any(not _NAME.fullmatch(each) for each in names):
            raise PlanError(
                "names are lower-case letters, digits and hyphens, at most 63"
            )
        if len(set(names)) != len(names):
            raise PlanError("two members of the session have the same name")
        parsing.name(self.model, "the name of the model")
        if self.scores not in get_args(Scores):
            raise PlanError('scores are "probability" or "logit"')
        self.program()  # refuses what cannot be computed

    @classmethod
    def fresh(
        cls,
        parties: Sequence[PartyEntry],
        owners: Sequence[OwnerEntry],
        model: ExactMPC,
        *,
        entropy: Entropy,
        scores: Scores = "probability",
        measured: str = "",
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
            interval=bool(model.interval),
            model=measured,
        )

    def program(self) -> Program:
        """Return what the parties compute."""
        return Program(
            tuple(owner.rows for owner in self.owners),
            self.metrics,
            self.ties,
            self.hide_sizes,
            self.epsilon,
            self.interval,
        )

    def plan(self, *, prevalence: float | None = None) -> Plan:
        """Return what is agreed on beside who computes: the same plan in every run."""
        facts = PublicFacts(self.rows, prevalence, ScoreRange.declare(self.scores))
        return areas_plan(
            self.program().model,
            facts,
            owners=len(self.owners),
            metrics=self.metrics,
            measured=self.model,
        )

    def values(self, owner: int) -> int:
        """Count the values that an owner shares: one word a row."""
        return self.owners[owner].rows

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
        """Return what the file and the digest say alike."""
        return {
            "version": VERSION,
            "id": self.id,
            "metrics": list(self.metrics),
            "scores": self.scores,
            "ties": self.ties,
            "hide_sizes": self.hide_sizes,
            "interval": self.interval,
            "analyst": self.analyst,
            "model": self.model,
        }

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the canonical terms, addresses left out."""
        terms = {
            **self._terms(),
            "epsilon": None if self.epsilon is None else decimal_text(self.epsilon),
            "parties": [party.name for party in self.parties],
            "owners": [[owner.name, owner.rows] for owner in self.owners],
        }
        text = json.dumps(terms, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(b"discreet exact session\0" + text.encode()).digest()

    def to_toml(self) -> str:
        """Return the session's file."""
        epsilon = self.epsilon
        return tomli_w.dumps(
            {
                **self._terms(),
                **({} if epsilon is None else {"epsilon": decimal_text(epsilon)}),
                "party": [
                    {"name": p.name, "intake": str(p.intake), "link": str(p.link)}
                    for p in self.parties
                ],
                "owner": [{"name": o.name, "rows": o.rows} for o in self.owners],
            }
        )

    @classmethod
    def from_toml(cls, text: str) -> Session:
        """Read a session's file; ``PlanError`` for anything else."""
        raw = read_toml(text, "the session")
        if raw.get("version") != VERSION:
            raise PlanError(f"the session is not of version {VERSION}")
        unknown = sorted(set(raw) - _KEYS)
        if unknown:
            raise PlanError(f"the session has unknown keys: {', '.join(unknown)}")
        try:
            return _session(raw)
        except PlanError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as err:
            raise PlanError(f"the session lacks or garbles {err}") from None

    @classmethod
    def read(cls, path: Path) -> Session:
        """Read a session file."""
        try:
            return cls.from_toml(parsing.read_text(path, "a session"))
        except InputError:
            raise PlanError("the session is not a TOML file") from None

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


_KEYS: Final = {
    *("version", "id", "metrics", "scores", "ties", "hide_sizes", "analyst"),
    *("model", "epsilon", "interval", "party", "owner"),
}


def _session(raw: dict[str, Any]) -> Session:
    epsilon = amount_from_text(_text(raw["epsilon"])) if "epsilon" in raw else None
    return Session(
        id=_text(raw["id"]),
        parties=tuple(
            PartyEntry(
                _text(p["name"]),
                Address.parse(_text(p["intake"])),
                Address.parse(_text(p["link"])),
            )
            for p in raw["party"]
        ),
        owners=tuple(OwnerEntry(_text(o["name"]), o["rows"]) for o in raw["owner"]),
        metrics=tuple(raw.get("metrics", AREAS)),
        scores=raw.get("scores", "probability"),
        ties=raw.get("ties", "exact"),
        hide_sizes=_flag(raw.get("hide_sizes", False)),
        epsilon=epsilon,
        interval=_flag(raw.get("interval", False)),
        analyst=_text(raw.get("analyst", "analyst")),
        model=_text(raw.get("model", "")),
    )


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("true or false")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text")
    return value

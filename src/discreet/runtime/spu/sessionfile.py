"""Sessions as TOML: the small file that every member has, the same text everywhere.

version = 1
id = "8f0c..."                     # 16 random bytes, fresh for every run
metrics = ["auc", "average_precision", "aupr"]
scores = "probability"             # or "logit": any real number
ties = "exact"                     # or "none"
hide_sizes = false                 # true: rows are padded sizes
analyst = "analyst"                # whom the value is opened to
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

import tomllib
from pathlib import Path
from typing import Any, Final

import tomli_w

from discreet.errors import PlanError
from discreet.exact.program import AREAS
from discreet.privacy.loss import amount_from_text, decimal_text
from discreet.runtime.spu.session import (
    VERSION,
    Address,
    OwnerEntry,
    PartyEntry,
    Session,
)

_KEYS: Final = {
    *("version", "id", "metrics", "scores", "ties", "hide_sizes", "analyst"),
    *("epsilon", "party", "owner"),
}


def dumps(session: Session) -> str:
    """Write a session as TOML."""
    epsilon = session.epsilon
    return tomli_w.dumps(
        {
            "version": VERSION,
            "id": session.id,
            "metrics": list(session.metrics),
            "scores": session.scores,
            "ties": session.ties,
            "hide_sizes": session.hide_sizes,
            "analyst": session.analyst,
            **({} if epsilon is None else {"epsilon": decimal_text(epsilon)}),
            "party": [
                {"name": p.name, "intake": str(p.intake), "link": str(p.link)}
                for p in session.parties
            ],
            "owner": [{"name": o.name, "rows": o.rows} for o in session.owners],
        }
    )


def loads(text: str) -> Session:
    """Read a session from TOML; ``PlanError`` for anything else."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise PlanError("the session is not a TOML file") from None
    if raw.get("version") != VERSION:
        raise PlanError(f"the session is not of version {VERSION}")
    unknown = sorted(set(raw) - _KEYS)
    if unknown:
        raise PlanError(f"the session has unknown keys: {', '.join(unknown)}")
    try:
        return _session(raw)
    except (KeyError, TypeError) as err:
        raise PlanError(f"the session lacks or garbles {err}") from None


def read(path: Path) -> Session:
    """Read a session file."""
    try:
        return loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise PlanError("the session is not a TOML file") from None


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
        owners=tuple(
            OwnerEntry(_text(o["name"]), _count(o["rows"])) for o in raw["owner"]
        ),
        metrics=tuple(raw.get("metrics", AREAS)),
        scores=raw.get("scores", "probability"),
        ties=raw.get("ties", "exact"),
        hide_sizes=_flag(raw.get("hide_sizes", False)),
        epsilon=epsilon,
        analyst=_text(raw.get("analyst", "analyst")),
    )


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("true or false")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("a whole number")
    return value

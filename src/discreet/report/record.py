"""What a result rests on, written into its report: enough to compute every number again.

The record holds the plan's file, the opened totals, and when and with which versions the
report was made; no example and nothing that was not released. Its digest covers all of
it, and the coordinator signs the digest. ``discreet verify`` reads it back, checks both,
and computes the result anew.

When a report was made and with which versions: a part of what is signed.

A report prints its day and its versions. Both are in its record, below the digest, so
that nobody can change them unnoticed, and a reader with other versions computes the same
page again.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, get_args

import numpy as np

from discreet.codec.documents import to_table
from discreet.errors import DiscreetError, ReleaseError
from discreet.estimate.fit import Estimator, Fit
from discreet.plan.file import dumps, loads
from discreet.plan.plan import Plan
from discreet.plan.rounds import Release
from discreet.privacy.claim import Setting
from discreet.registry import Registry

if TYPE_CHECKING:
    from discreet.report.build import Result
    from discreet.report.evaluation import Evaluation
    from discreet.report.receipt import Receipt

_VERSION: Final = re.compile(r"[0-9A-Za-z.+!_-]{1,40}")
"""No spaces: a record that nobody signed cannot put a sentence there."""


@cache
def _installed() -> dict[str, str]:
    return {
        "discreet": str(sys.modules["discreet"].__version__),
        "NumPy": version("numpy"),
        "SciPy": version("scipy"),
        "matplotlib": version("matplotlib"),
        "Python": platform.python_version(),
    }


@dataclass(frozen=True)
class Made:
    """The day on which a report was made, and the versions that made it."""

    on: str = ""
    """ISO 8601, UTC; empty where a result is shown without a day."""
    versions: Mapping[str, str] = field(default_factory=_installed)

    @classmethod
    def today(cls) -> Self:
        """Return today, with the versions that are installed here."""
        return cls(f"{datetime.now(UTC):%Y-%m-%d}")

    @classmethod
    def from_dict(cls, table: object) -> Self:
        """Read what ``to_dict`` wrote.

        Raises:
            ReleaseError: if it holds anything but a day and versions.
        """
        if not isinstance(table, dict) or set(table) != {"on", *_installed()}:
            raise ReleaseError("the record's day and versions were damaged")
        versions = {name: table[name] for name in _installed()}
        if not _is_day(table["on"]) or not all(map(_is_version, versions.values())):
            raise ReleaseError("the record's day and versions were damaged")
        return cls(table["on"], versions)

    def to_dict(self) -> dict[str, str]:
        """Return plain values for JSON."""
        return {"on": self.on, **self.versions}

    @property
    def discreet(self) -> str:
        """The version of this package that made it."""
        return self.versions["discreet"]

    def others(self) -> list[str]:
        """Say which of its versions are not those that are installed here."""
        return [
            f"{name} {found} instead of {_installed()[name]}"
            for name, found in self.versions.items()
            if found != _installed()[name]
        ]


def _is_day(text: object) -> bool:
    try:
        return isinstance(text, str) and text in ("", str(date.fromisoformat(text)))
    except ValueError:
        return text == ""


def _is_version(text: object) -> bool:
    return isinstance(text, str) and _VERSION.fullmatch(text) is not None


Sign: TypeAlias = Callable[[bytes], bytes]
"""The coordinator's Ed25519 key at work."""
RECORD_VERSION: Final = 1
MOST_RELEASES: Final = 1024
"""Of one record, whatever number of random groups its plan names."""
READERS: Final = Registry[Callable[..., Estimator]](
    "estimator",
    {
        "flat": "discreet.estimate.fit:Flat",
        "smooth": "discreet.estimate.smooth_fit:Smooth",
        "public totals": "discreet.estimate.fit:PublicTotals",
        "fedcurve": "discreet.published.xu2025.fedcurve:FedCurve",
        "range queries": "discreet.published.xu2025.range_queries:RangeQueries",
    },
)
"""What may have read a release besides the plan's own estimator; a stranger adds theirs."""
SIGNED: Final = b"discreet report 2\n"
"""What stands before a record's digest when the coordinator signs it."""
ADDED: Final = ("digest", "signature", "receipts")
"""What the digest does not cover: itself, and what is added later and checked apart."""
_KINDS: Final[Mapping[str, type]] = {
    "record": int,
    "made": dict,
    "plan": str,
    "setting": str,
    "estimator": str,
    "sites": list,
    "models": list,
    "releases": list,
    "digest": str,
}
_OPTIONAL: Final[Mapping[str, type]] = {
    "reader": dict,
    "signature": str,
    "receipts": list,
}


def record_of(
    result: Evaluation, made: Made, names: tuple[str, ...] = ()
) -> dict[str, Any] | None:
    """Return the record of a release; None where nothing was counted.

    ``result`` is any of the evaluations that were read from it, ``names`` what two
    models are called.
    """
    if result.plan is None or not result.source.releases:
        return None
    if not isinstance(result.fit, Fit):
        return None
    found = {
        "record": RECORD_VERSION,
        "made": made.to_dict(),
        "plan": dumps(result.plan),
        "setting": result.claim.setting,
        "estimator": result.fit.estimator,
        "sites": list(result.source.site_names),
        "models": list(names),
        "releases": [
            {
                "session": release.session.hex(),
                "round": release.round,
                "contributors": release.contributors,
                "expected": release.expected,
                "members": list(release.members),
                "total": release.total.tolist(),
            }
            for release in _opened(result)
        ],
    }
    if result.source.estimator is not None:
        found["reader"] = _written(result.source.estimator)
    return found | {"digest": digest(found)}


def _written(reader: Any) -> dict[str, Any]:
    """Return an estimator as plain values: its name among the readers and its fields."""
    name = next((n for n in READERS if READERS[n] is type(reader)), None)
    return {} if name is None else {"name": name, **asdict(reader)}


def _reader(written: Mapping[str, Any] | None) -> Estimator | None:
    if written is None:
        return None
    fields = dict(written)
    name = fields.pop("name", None)
    if name not in READERS:
        raise ReleaseError(
            "this release was read by an estimator that is not known here: add it to "
            "discreet.report.record.READERS"
        )
    return READERS[name](**fields)


def _opened(result: Evaluation) -> Sequence[Release]:
    """Return what was opened: with random groups, each group's own sum."""
    if result.heterogeneity.random_groups is None:
        return result.source.releases
    return [
        part.source.releases[0] for part in result.heterogeneity.random_groups.alone
    ]


def digest(record: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a record's canonical JSON, without what is added later."""
    kept = {k: v for k, v in record.items() if k not in ADDED}
    plain = json.dumps(kept, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"sha256:{hashlib.sha256(plain.encode()).hexdigest()}"


def marked(
    record: Mapping[str, Any], sign: Sign | None, receipts: Sequence[Receipt] = ()
) -> dict[str, Any]:
    """Add what is not part of the release: who signed it, who was charged."""
    marks: dict[str, Any] = {}
    if sign is not None:
        marks["signature"] = sign(SIGNED + str(record["digest"]).encode()).hex()
    if receipts:
        marks["receipts"] = [to_table(receipt) for receipt in receipts]
    return {**record, **marks}


def plan_of(record: Mapping[str, Any]) -> Plan:
    """Return the plan of a record after checking the record's digest.

    Nothing is computed of the releases: who signed the record can be checked first.

    Raises:
        ReleaseError: if the record was changed, or is none.
    """
    kinds = {**_KINDS, **{k: v for k, v in _OPTIONAL.items() if k in record}}
    if set(record) != set(kinds) or not all(
        type(record[name]) is kind for name, kind in kinds.items()
    ):
        raise ReleaseError("this is no record of a release: it was damaged")
    if record["digest"] != digest(record):
        raise ReleaseError("the record's digest does not match: it was changed")
    return loads(record["plan"])


def result_from(record: Mapping[str, Any], plan: Plan) -> Result:
    """Compute the result of a record again, from its plan and its totals alone.

    Raises:
        ReleaseError: if the record is none of this plan.
    """
    from discreet.report.build import result_of  # noqa: PLC0415 - it makes evaluations
    from discreet.report.comparison import ModelComparison  # noqa: PLC0415 - likewise

    tables, names = record["releases"], [*record["sites"], *record["models"]]
    most = min(max(len(plan.rounds), plan.cohort.random_groups), MOST_RELEASES)
    if not 1 <= len(tables) <= most:
        raise ReleaseError("the record has more or fewer releases than its plan")
    if record["setting"] not in get_args(Setting) or not all(
        isinstance(name, str) for name in names
    ):
        raise ReleaseError("this is no record of a release: it was damaged")
    try:
        releases = [_release(plan, table) for table in tables]
        claim = plan.claim(
            record["setting"], sites=min(r.contributors for r in releases)
        )
        found = result_of(
            plan,
            releases,
            claim,
            estimator=_reader(record.get("reader")),
            site_names=record["sites"],
        )
        if isinstance(found, ModelComparison) and len(record["models"]) == 2:
            found = replace(found, names=tuple(record["models"]))
    except DiscreetError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ReleaseError("this is no record of a release: it was damaged") from None
    return found


def _release(plan: Plan, table: Mapping[str, Any]) -> Release:
    return Release(
        plan.digest(),
        bytes.fromhex(table["session"]),
        int(table["round"]),
        np.array(table["total"], dtype=np.int64),
        int(table["contributors"]),
        int(table["expected"]),
        plan.privacy.loss,
        tuple(int(m) for m in table["members"]),
    )

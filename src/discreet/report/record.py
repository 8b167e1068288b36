"""The record of a release inside its report, and the sites' receipts.

The record holds the plan's file, the revealed totals, and the day and versions with which
the report was made: enough to compute every number again, and no example. Its digest
covers all of it, and the coordinator signs the digest (``discreet verify``).

A receipt is a site's signed statement that its ledger was charged for a plan: the loss,
the unit, when, and the ledger's name of that joining; nothing about its data. It shows
that the holder of the roster's key said so. It does not show that the ledger is whole
(``discreet ledger verify``, at the site), nor for which of several sessions of one plan
it was charged.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, get_args

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from discreet.codec.documents import canonical, from_table, to_table
from discreet.errors import DiscreetError, ReleaseError
from discreet.estimate.fit import Estimator, Fit
from discreet.plan.file import dumps, loads
from discreet.plan.plan import Plan
from discreet.plan.rounds import Release
from discreet.privacy.account import Use
from discreet.privacy.claim import Setting
from discreet.privacy.loss import fraction_of
from discreet.registry import Registry

if TYPE_CHECKING:
    from discreet.report.build import Result
    from discreet.report.evaluation import Evaluation

_VERSION: Final = re.compile(r"[0-9A-Za-z.+!_-]{1,40}")
"""No spaces: a record that nobody signed cannot put a sentence there."""
DAMAGED: Final = "this is no record of a release: it was damaged"


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
        if isinstance(table, dict) and set(table) == {"on", *_installed()}:
            versions = {name: table[name] for name in _installed()}
            if _is_day(table["on"]) and all(map(_is_version, versions.values())):
                return cls(table["on"], versions)
        raise ReleaseError("the record's day and versions were damaged")

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
            f"{name} {theirs} instead of {_installed()[name]}"
            for name, theirs in self.versions.items()
            if theirs != _installed()[name]
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
    record = {
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
            for release in _revealed(result)
        ],
    }
    reader: Any = result.source.estimator
    if reader is not None:
        name = next((n for n in READERS if READERS[n] is type(reader)), None)
        record["reader"] = {} if name is None else {"name": name, **asdict(reader)}
    return record | {"digest": digest(record)}


def _reader(table: Mapping[str, Any] | None) -> Estimator | None:
    """Return the estimator that a record names, None for the plan's own."""
    if table is None:
        return None
    fields = dict(table)
    name = fields.pop("name", None)
    if name not in READERS:
        raise ReleaseError(
            "this release was read by an estimator that is not known here: add it to "
            "discreet.report.record.READERS"
        )
    return READERS[name](**fields)


def _revealed(result: Evaluation) -> Sequence[Release]:
    """Return what was revealed: with random groups, each group's own sum."""
    groups = result.heterogeneity.random_groups
    if groups is None:
        return result.source.releases
    return [part.source.releases[0] for part in groups.alone]


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
        raise ReleaseError(DAMAGED)
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
    from discreet.report.group_comparison import GroupedComparison  # noqa: PLC0415

    tables, names = record["releases"], [*record["sites"], *record["models"]]
    most = min(max(len(plan.rounds), plan.cohort.random_groups), MOST_RELEASES)
    if not 1 <= len(tables) <= most:
        raise ReleaseError("the record has more or fewer releases than its plan")
    if record["setting"] not in get_args(Setting) or not all(
        isinstance(name, str) for name in names
    ):
        raise ReleaseError(DAMAGED)
    try:
        releases = [_release(plan, table) for table in tables]
        result = result_of(
            plan,
            releases,
            plan.claim(record["setting"], sites=min(r.contributors for r in releases)),
            estimator=_reader(record.get("reader")),
            site_names=record["sites"],
        )
        if len(record["models"]) == 2:
            first, second = record["models"]
            if isinstance(result, ModelComparison):
                return replace(result, names=(first, second))
            if isinstance(result, GroupedComparison):
                return result.named((first, second))
    except DiscreetError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ReleaseError(DAMAGED) from None
    return result


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


SIGNED_RECEIPT: Final = b"discreet receipt 1\n"
MOST_RECEIPTS: Final = 4096
"""Of one report: each has a signature to be checked."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a site says that its ledger was charged, and its signature."""

    site: str
    plan: str
    joining: str
    """What the ledger calls this joining of a session."""
    round: int
    loss: str
    unit: str
    at: str
    """When it was charged, UTC."""
    signature: str = ""

    def __post_init__(self) -> None:
        texts = (value for value in astuple(self) if isinstance(value, str))
        if not all(text.isprintable() for text in texts):
            raise ReleaseError("this is no receipt of a ledger: it was damaged")

    @classmethod
    def of(cls, use: Use, at: str, site: str) -> Self:
        """Return the receipt of a charge, not signed yet."""
        return cls(
            site,
            use.plan.hex(),
            use.session.hex(),
            use.round,
            str(use.loss),
            str(use.unit or ""),
            at,
        )

    def _message(self) -> bytes:
        return SIGNED_RECEIPT + canonical(to_table(replace(self, signature="")))

    def signed(self, sign: Sign) -> Self:
        """Return it with the site's signature."""
        return replace(self, signature=sign(self._message()).hex())

    def check(self, plan: Plan) -> None:
        """Refuse what is not of this plan, or not signed by its site.

        Raises:
            ReleaseError: says what does not fit.
        """
        if self.plan != plan.digest().hex():
            raise ReleaseError("a receipt is for another plan than the report's")
        keys = {} if plan.roster is None else {m.name: m.key for m in plan.roster.sites}
        if self.site not in keys:
            raise ReleaseError(
                "a receipt is of a site that is not in the plan's roster"
            )
        if not 0 <= self.round < len(plan.rounds):
            raise ReleaseError("a receipt is of a round that the plan does not have")
        share = plan.rounds[self.round].budget
        if self.loss != str(fraction_of(plan.privacy.loss, share)):
            raise ReleaseError("a receipt says another loss than the plan")
        if self.unit != str(plan.privacy.protects or ""):
            raise ReleaseError("a receipt says another unit than the plan")
        try:
            key = Ed25519PublicKey.from_public_bytes(keys[self.site])
            signature = bytes.fromhex(self.signature)
            key.verify(signature, self._message())
        except (InvalidSignature, ValueError):
            raise ReleaseError("a receipt's signature does not fit") from None
        if signature.hex() != self.signature:  # fromhex takes spaces and capitals too
            raise ReleaseError("a receipt's signature does not fit")


def read_receipts(tables: Sequence[object], plan: Plan) -> tuple[Receipt, ...]:
    """Return the receipts of a report, each checked, by site and round."""
    if len(tables) > MOST_RECEIPTS:
        raise ReleaseError(f"a report holds at most {MOST_RECEIPTS:,} receipts")
    receipts = [
        from_table(Receipt, table, "a receipt", error=ReleaseError) for table in tables
    ]
    if len(set(receipts)) != len(receipts):
        raise ReleaseError("the report holds a receipt twice")
    for receipt in receipts:
        receipt.check(plan)
    return tuple(sorted(receipts, key=lambda r: (r.site, r.round, r.at)))

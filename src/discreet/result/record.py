"""What a result rests on, written into its report: enough to compute every number again.

The record holds the plan's file and the opened totals, no example and nothing that was
not released. ``discreet verify`` reads it back, checks the totals against the plan's
digest, and computes the result anew.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from discreet.errors import DiscreetError, ReleaseError
from discreet.estimate.reading import Estimator, Reading
from discreet.plan.file import dumps, loads
from discreet.plan.release import Release
from discreet.registry import Registry

if TYPE_CHECKING:
    from discreet.result.build import Result
    from discreet.result.evaluation import Evaluation

Sign: TypeAlias = Callable[[bytes], bytes]
"""The coordinator's Ed25519 key at work."""
RECORD_VERSION: Final = 1
READERS: Final = Registry[Callable[..., Estimator]](
    "estimator",
    {
        "flat": "discreet.estimate.reading:Flat",
        "smooth": "discreet.estimate.smooth_reading:Smooth",
        "public totals": "discreet.estimate.public_totals:PublicTotals",
        "fedcurve": "discreet.estimate.fedcurve:FedCurve",
        "range queries": "discreet.estimate.range_queries:RangeQueries",
    },
)
"""What may have read a release besides the plan's own estimator; a stranger adds theirs."""
SIGNED: Final = b"discreet report 1\n"
"""What stands before a record's digest when the coordinator signs it."""


def record_of(result: Evaluation, names: tuple[str, ...] = ()) -> dict[str, Any] | None:
    """Return the record of a release; None where nothing was counted.

    ``result`` is any of the evaluations that were read from it, ``names`` what two
    models are called.
    """
    if result.plan is None or not result.releases:
        return None
    if not isinstance(result.reading, Reading):
        return None
    found = {
        "record": RECORD_VERSION,
        "discreet": sys.modules["discreet"].__version__,
        "plan": dumps(result.plan),
        "setting": result.claim.setting,
        "estimator": result.reading.estimator,
        "sites": list(result.site_names),
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
    if result.reader is not None:
        found["reader"] = _written(result.reader)
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
            "discreet.result.record.READERS"
        )
    return READERS[name](**fields)


def _opened(result: Evaluation) -> Sequence[Release]:
    """Return what was opened: with random groups, each group's own sum."""
    if result.random_groups is None:
        return result.releases
    return [part.releases[0] for part in result.random_groups.alone]


def digest(record: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a record's canonical JSON, without what is added later."""
    added = ("digest", "signature", "made", "receipts")
    kept = {k: v for k, v in record.items() if k not in added}
    plain = json.dumps(kept, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"sha256:{hashlib.sha256(plain.encode()).hexdigest()}"


def signature_of(record: Mapping[str, Any] | None, sign: Sign | None) -> str | None:
    """Return a signature of a record's digest, where there are both."""
    if record is None or sign is None:
        return None
    return sign(SIGNED + str(record["digest"]).encode()).hex()


def result_from(record: Mapping[str, Any]) -> Result:
    """Compute the result of a record again, from its plan and its totals alone.

    Raises:
        ReleaseError: if the record was changed, or is none.
    """
    from discreet.result.build import result_of  # noqa: PLC0415 - it makes evaluations
    from discreet.result.comparison import ModelComparison  # noqa: PLC0415 - likewise

    try:
        if record["record"] != RECORD_VERSION:
            raise ReleaseError("this record is of another version of discreet")
        if record["digest"] != digest(record):
            raise ReleaseError("the record's digest does not match: it was changed")
        plan = loads(record["plan"])
        releases = [
            Release(
                plan.digest(),
                bytes.fromhex(each["session"]),
                int(each["round"]),
                np.array(each["total"], dtype=np.int64),
                int(each["contributors"]),
                int(each["expected"]),
                plan.privacy.loss,
                tuple(int(m) for m in each["members"]),
            )
            for each in record["releases"]
        ]
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
            found = found.called(*record["models"])
    except DiscreetError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ReleaseError("this is no record of a release: it was damaged") from None
    return found

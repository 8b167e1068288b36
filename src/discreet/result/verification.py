"""Checking a report: every number on it computed again from the release that it holds.

A report is believed because its numbers follow from the plan and the opened totals, and
these from the sites' agreement. What is checked, in this order: the record's digest; the
plan's; the coordinator's signature, where a trusted plan with a roster names its key; then
every number in the file against a result that is computed anew.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from discreet.errors import ReleaseError
from discreet.plan.plan import Plan
from discreet.result.page import render
from discreet.result.receipt import Receipt, read_receipts
from discreet.result.record import SIGNED, result_from

if TYPE_CHECKING:
    from discreet.result.build import Result

_RECORD: Final = re.compile(
    r'<script type="application/json" id="release-record">(.*?)</script>', re.DOTALL
)
_CLOSE: Final = 1e-9


@dataclass(frozen=True)
class Verified:
    """What was found to hold."""

    numbers: int
    same_bytes: bool
    """Whether the whole page was made again byte by byte."""
    signed: bool
    plan_digest: str
    receipts: tuple[str, ...] = ()
    """The sites whose receipts fit, by the roster of the reader's plan."""
    unpaid: tuple[str, ...] = ()
    """The sites of that roster without a receipt for every round."""
    unchecked: int = 0
    """Receipts in the report that no trusted roster could check."""

    def sentences(self) -> list[str]:
        """Say what was checked."""
        found = [f"{self.numbers:,} numbers follow from the release."]
        if self.same_bytes:
            found.append("The page is, byte by byte, what this release gives.")
        found.append(f"The plan is sha256:{self.plan_digest}.")
        found.append(
            "The coordinator of the roster signed it."
            if self.signed
            else "No signature was checked: it needs a plan with a roster that you trust."
        )
        if self.receipts:
            found.append(
                f"The receipts of {', '.join(self.receipts)} fit: each says, signed, that "
                "its ledger was charged for this plan."
            )
        if self.receipts and self.unpaid:
            missing = ", ".join(self.unpaid)
            found.append(f"There is no receipt of every round of {missing}.")
        if self.unchecked:
            found.append(
                f"{self.unchecked} receipts were not checked: who signed them says the "
                "report alone. Give the plan whose roster you trust."
            )
        return found


def verify(text: str, *, trusted: Plan | None = None) -> Verified:
    """Check a report, .html or .json.

    Args:
        text: the file.
        trusted: the plan that the reader agreed to, with its roster.

    Raises:
        ReleaseError: names the first thing that does not hold.
    """
    page = _RECORD.search(text)
    document = _parsed(page.group(1) if page else text)
    record = document if page else document.get("release")
    if not isinstance(record, dict):
        raise ReleaseError(
            "this file holds no release: only results of counted examples can be "
            "computed again"
        )
    result = result_from(record)
    plan = _plan(result)
    if trusted is not None and trusted.digest() != plan.digest():
        raise ReleaseError("the report was made under another plan than the one given")
    signed = _signed(record, trusted)
    receipts = read_receipts(record.get("receipts", ()), plan)
    if page:
        found = _check_page(text, record, result, receipts)
    else:
        again = json.loads(result.to_json())
        found = _check_numbers(document, again)
    digest = plan.digest().hex()
    if trusted is None or trusted.roster is None:
        return Verified(*found, signed, digest, unchecked=len(receipts))
    rounds = {(r.site, r.round) for r in receipts}
    paid = tuple(dict.fromkeys(r.site for r in receipts))
    unpaid = tuple(
        member.name
        for member in trusted.roster.sites
        if not all((member.name, k) in rounds for k in range(len(plan.rounds)))
    )
    return Verified(*found, signed, digest, paid, unpaid)


def attach(text: str, tables: Sequence[object]) -> str:
    """Return a report, .html or .json, with the sites' receipts in it.

    Raises:
        ReleaseError: if the report does not hold, or a receipt does not fit.
    """
    verify(text)
    page = _RECORD.search(text)
    document = _parsed(page.group(1) if page else text)
    record = document if page else document["release"]
    result = result_from(record)
    kept = [*record.get("receipts", ()), *tables]
    fresh = [table for k, table in enumerate(kept) if table not in kept[:k]]
    receipts = read_receipts(fresh, _plan(result))
    if not page:
        record["receipts"] = [r.to_dict() for r in receipts]
        return json.dumps(document, indent=1, allow_nan=False)
    shown = result.page(str(record.get("made", "")))
    return render(shown, signature=record.get("signature"), receipts=receipts)


def _parsed(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ReleaseError(
            "this is no report of discreet: it holds no record"
        ) from None
    if not isinstance(found, dict):
        raise ReleaseError("this is no report of discreet: it holds no record")
    return found


def _plan(result: Result) -> Plan:
    part = result if hasattr(result, "plan") else next(iter(result.values()))
    plan: Plan | None = part.plan
    if plan is None:
        raise ReleaseError("the record has no plan")
    return plan


def _signed(record: dict[str, Any], trusted: Plan | None) -> bool:
    """Check the coordinator's signature with the key that the reader's plan names."""
    roster = None if trusted is None else trusted.roster
    if roster is None or roster.coordinator is None:
        return False
    signature = record.get("signature")
    if not isinstance(signature, str):
        raise ReleaseError(
            "the coordinator did not sign this report, and the plan's roster names one"
        )
    key = Ed25519PublicKey.from_public_bytes(roster.coordinator)
    try:
        key.verify(bytes.fromhex(signature), SIGNED + str(record["digest"]).encode())
    except (InvalidSignature, ValueError):
        raise ReleaseError("the coordinator's signature does not fit") from None
    return True


def _check_page(
    text: str, record: dict[str, Any], result: Result, receipts: Sequence[Receipt]
) -> tuple[int, bool]:
    made = str(record.get("made", ""))
    again = render(
        result.page(made), signature=record.get("signature"), receipts=receipts
    )
    if again == text:
        return len(_NUMBER.findall(text)), True
    ours = sys.modules["discreet"].__version__
    if record["discreet"] == ours and _versions(text) == _versions(again):
        raise ReleaseError(
            "the page is not what its release gives: something on it was changed"
        )
    return _check_texts(text, again), False


_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
_VERSIONS: Final = re.compile(r"<dt>(?:discreet|NumPy|SciPy|Python)</dt><dd>[^<]*</dd>")


def _versions(text: str) -> list[str]:
    return _VERSIONS.findall(text)


def _check_texts(text: str, again: str) -> int:
    """Compare the numbers of two pages that other versions may have laid out."""
    theirs, ours = (
        [float(n) for n in _NUMBER.findall(_VERSIONS.sub("", page))]
        for page in (text, again)
    )
    if len(theirs) != len(ours):
        raise ReleaseError(
            "this page was laid out by another version of discreet: verify its .json, or "
            "use that version"
        )
    if not all(
        math.isclose(a, b, rel_tol=1e-6, abs_tol=_CLOSE)
        for a, b in zip(theirs, ours, strict=True)
    ):
        raise ReleaseError("a number on the page does not follow from its release")
    return len(ours)


def _check_numbers(document: Any, again: Any) -> tuple[int, bool]:
    theirs, ours = dict(_leaves(document)), dict(_leaves(again))
    wrong = [
        path
        for path, value in theirs.items()
        if path in ours and not _same(value, ours[path])
    ]
    missing = [path for path in theirs if path not in ours]
    if wrong or missing:
        where = (wrong or missing)[0]
        raise ReleaseError(f"{where} does not follow from the release")
    return sum(isinstance(v, int | float) for v in theirs.values()), False


def _same(theirs: Any, ours: Any) -> bool:
    if isinstance(theirs, int | float) and isinstance(ours, int | float):
        return math.isclose(theirs, ours, rel_tol=1e-6, abs_tol=_CLOSE)
    return bool(theirs == ours)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every plain value by where it stands; the record itself is checked apart."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if path or key != "release":
                yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for k, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{k}]")
    else:
        yield path, value

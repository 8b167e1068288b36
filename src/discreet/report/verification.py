"""Checks a report by computing all of it again from the release that it holds.

Checked are, in this order: the record's digest; the plan; the coordinator's signature,
where a trusted plan with a roster names its key; the sites' receipts; then, computed
again with the record's day and versions, every word and number of the file. A report
holds, does not hold (:class:`ReleaseError`), or could not be compared here
(:attr:`Verified.not_compared`).

Two documents agree when they have the same keys at every level and values of the same
types that are equal; floats may differ by one part in a million, since another NumPy
rounds otherwise. A page is split into numbers with a fraction and the text between them:
all text must be equal, and numbers agree as the floats of a document do.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from discreet.codec.parsing import MOST_BYTES, read_json, shown
from discreet.errors import DiscreetError, ReleaseError
from discreet.plan.plan import Plan
from discreet.plan.revocation import RevokedKeys
from discreet.report.record import (
    DAMAGED,
    RECORD_VERSION,
    SIGNED,
    Made,
    Receipt,
    plan_of,
    read_receipts,
    result_from,
)

TOLERANCE: Final = 1e-6
NEGLIGIBLE: Final = 1e-9
_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+(?:e[+-]?[0-9]{1,4})?|e-[0-9]{1,4})")
"""A number with a fraction; whole ones, as in dates and digests, are text."""
_LONGEST_KEY: Final = 60


@dataclass(frozen=True)
class Agreement:
    """What agrees in two reports, and where the rest stands."""

    numbers: int
    """How many agree."""
    words: tuple[str, ...] = ()
    """Where words, whole numbers, keys or types differ, or something is missing."""
    wrong: tuple[str, ...] = ()
    """Where numbers with a fraction differ."""
    same_bytes: bool = False


def compare_documents(theirs: Any, ours: Any) -> Agreement:
    """Compare two documents of JSON, both ways."""
    words: list[str] = []
    wrong: list[str] = []
    numbers = _walk(theirs, ours, "", words, wrong)
    return Agreement(numbers, tuple(words), tuple(wrong))


def _walk(theirs: Any, ours: Any, path: str, words: list[str], wrong: list[str]) -> int:
    """Note where two values differ; return how many numbers agree."""
    if type(theirs) is not type(ours):  # true is no 1, and 1 no 1.0
        words.append(path or "the report")
        return 0
    if isinstance(ours, dict):
        words += [_at(path, key) for key in ours if key not in theirs]
        words += [_at(path, key) for key in theirs if key not in ours]
        return sum(
            _walk(theirs[key], ours[key], _at(path, key), words, wrong)
            for key in ours
            if key in theirs
        )
    if isinstance(ours, list):
        if len(theirs) != len(ours):
            words.append(path)
            return 0
        return sum(
            _walk(one, other, f"{path}[{k}]", words, wrong)
            for k, (one, other) in enumerate(zip(theirs, ours, strict=True))
        )
    if isinstance(ours, float):
        agrees = _close(theirs, ours)
        wrong += [] if agrees else [path]
        return int(agrees)
    words += [] if theirs == ours else [path]
    return int(theirs == ours and type(ours) is int)


def _at(path: str, key: str) -> str:
    """Return the place of a key, which somebody else may have written."""
    name = shown(key[:_LONGEST_KEY])
    return f"{path}.{name}" if path else name


def compare_pages(theirs: str, ours: str) -> Agreement:
    """Compare two pages: their numbers and all text between these."""
    every = len(_NUMBER.findall(ours))
    if theirs == ours:
        return Agreement(every, same_bytes=True)
    lines = [page.split("\n") for page in (theirs, ours)]
    if len(lines[0]) != len(lines[1]):
        return Agreement(0, ("the page",))
    words: list[str] = []
    wrong: list[str] = []
    for place, (one, other) in enumerate(zip(*lines, strict=True), 1):
        if one == other:
            continue
        if _NUMBER.split(one) != _NUMBER.split(other):
            words.append(f"line {place} of the page")
            every -= len(_NUMBER.findall(other))
            continue
        pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
        moved = sum(not _same_number(*pair) for pair in pairs)
        wrong += [f"a number in line {place} of the page"] * moved
    return Agreement(every - len(wrong), tuple(words), tuple(wrong))


def _same_number(theirs: str, ours: str) -> bool:
    """Compare two printed numbers.

    They agree within the tolerance, where both are printed with the same number of
    digits or in full.
    """
    if theirs == ours:
        return True
    one, other = float(theirs), float(ours)
    places = [_places(text) for text in (theirs, ours)]
    full = theirs == repr(one) and ours == repr(other)
    alike = places[0] == places[1] or full
    return alike and _close(one, other)


def _places(text: str) -> int:
    """Return how many digits a printed number has after its point."""
    mantissa, _, power = text.partition("e")
    return len(mantissa.partition(".")[2]) + max(-int(power or 0), 0)


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=NEGLIGIBLE)


_RECORD: Final = re.compile(
    r'<script type="application/json" id="release-record">(.*?)</script>', re.DOTALL
)
_SIGNATURE: Final = re.compile(r"[0-9a-f]{128}")
_NO_RECORD: Final = (
    "It holds no record of a release, so nothing in it could be checked: ask for the "
    "report with its record, .html or .json."
)
_OTHER_RECORD: Final = (
    "Its record has another form than this version of discreet reads, so nothing in it "
    "could be checked: verify it with the version that made it."
)


@dataclass(frozen=True)
class Verified:
    """What was found to hold, and what could not be checked."""

    numbers: int = 0
    """How many numbers agree with those that were computed again."""
    same_bytes: bool = False
    """Whether the whole page was made again byte by byte."""
    signed: bool = False
    plan_digest: str = ""
    receipts: tuple[str, ...] = ()
    """The sites whose receipts fit, by the roster of the reader's plan."""
    unpaid: tuple[str, ...] = ()
    """The sites of that roster without a receipt for every round."""
    unchecked: int = 0
    """Receipts in the report that no trusted roster could check."""
    not_compared: tuple[str, ...] = ()
    """What could not be checked here, and why; a report holds only without any."""

    @property
    def holds(self) -> bool:
        """Whether everything was compared and agrees."""
        return not self.not_compared

    def sentences(self) -> list[str]:
        """Say what was checked."""
        sentences = [*self.not_compared]
        if self.same_bytes:
            sentences.append("The page is, byte by byte, what this release gives.")
        elif self.holds:
            sentences.append(
                "Every word is what this release gives, and the numbers agree to one "
                "part in a million."
            )
        if self.numbers:
            sentences.append(f"{self.numbers:,} numbers follow from the release.")
        if not self.plan_digest:
            return sentences
        sentences += [
            f"The plan is sha256:{self.plan_digest}.",
            "The coordinator of the roster signed it."
            if self.signed
            else "No signature was checked: it needs a plan with a roster that you trust.",
        ]
        if self.receipts:
            sentences.append(
                f"The receipts of {', '.join(self.receipts)} fit: each says, signed, that "
                "its ledger was charged for this plan."
            )
        if self.receipts and self.unpaid:
            missing = ", ".join(self.unpaid)
            sentences.append(f"There is no receipt of every round of {missing}.")
        if self.unchecked:
            sentences.append(
                f"{self.unchecked} receipts were not checked: who signed them says the "
                "report alone. Give the plan whose roster you trust."
            )
        return sentences


@dataclass(frozen=True)
class _Report:
    """A file that somebody sent: its text, and what of it is JSON."""

    text: str
    document: dict[str, Any] | None
    """All of a .json; None for a page."""
    record: dict[str, Any] | None

    @classmethod
    def read(cls, text: str) -> _Report:
        if len(text) > MOST_BYTES:
            raise ReleaseError(f"a report has at most {MOST_BYTES:,} bytes")
        page = _RECORD.search(text)
        if page is not None:
            return cls(text, None, _table(page.group(1), "the page's record"))
        if not text.lstrip().startswith("{"):
            return cls(text, None, None)
        document = _table(text, "the report")
        record = document.get("release")
        if record is not None and not isinstance(record, dict):
            raise ReleaseError(DAMAGED)
        return cls(text, document, record)

    def again(
        self, record: Mapping[str, Any], plan: Plan, receipts: Sequence[Receipt]
    ) -> Any:
        """Compute the file again: the text of a page, or the document of a .json."""
        signature = record.get("signature")
        sign = None if signature is None else lambda _: bytes.fromhex(signature)
        try:
            made = Made.from_dict(record["made"])
            exports = result_from(record, plan).exports
            if self.document is None:
                return exports.html(made, sign=sign, receipts=receipts)
            values = exports.to_dict(made, sign=sign, receipts=receipts)
            return json.loads(json.dumps(values, allow_nan=False))
        except ReleaseError:
            raise
        except DiscreetError as err:
            raise ReleaseError(f"the record gives no result: {err}") from None
        except (ArithmeticError, LookupError, TypeError, ValueError):
            raise ReleaseError("the record gives no result: it was damaged") from None

    def compare(self, again: Any) -> Agreement:
        """Compare the file with what was computed again."""
        if self.document is None:
            return compare_pages(self.text, again)
        return compare_documents(self.document, again)


def verify(
    text: str, *, trusted: Plan | None = None, revoked: RevokedKeys | None = None
) -> Verified:
    """Check a report, .html or .json.

    Args:
        text: the file.
        trusted: the plan that the reader agreed to, with its roster.
        revoked: keys whose signatures are no evidence any more.

    Returns:
        What holds; ``holds`` is false where something could not be compared.

    Raises:
        ReleaseError: names the first thing that does not hold.
    """
    report = _Report.read(text)
    record = report.record
    if record is None:
        return Verified(not_compared=(_NO_RECORD,))
    if type(record.get("record")) is not int:
        raise ReleaseError(DAMAGED)
    if record["record"] != RECORD_VERSION:
        return Verified(not_compared=(_OTHER_RECORD,))
    plan, signed, receipts = _authentic(record, trusted)
    agreement = report.compare(report.again(record, plan, receipts))
    reason = _judge(agreement, Made.from_dict(record["made"]))
    signers = _revoked_signers(trusted or plan, {r.site for r in receipts}, revoked)
    not_compared = (*((reason,) if reason else ()), *signers)
    known = agreement.numbers, agreement.same_bytes, signed, plan.digest().hex()
    if trusted is None or trusted.roster is None:
        return Verified(*known, unchecked=len(receipts), not_compared=not_compared)
    rounds = {(r.site, r.round) for r in receipts}
    paid = tuple(dict.fromkeys(r.site for r in receipts))
    unpaid = tuple(
        member.name
        for member in trusted.roster.sites
        if not all((member.name, k) in rounds for k in range(len(plan.rounds)))
    )
    return Verified(*known, paid, unpaid, not_compared=not_compared)


def attach(text: str, tables: Sequence[object]) -> str:
    """Return a report, .html or .json, with the sites' receipts in it.

    Raises:
        ReleaseError: if the report does not hold, or a receipt does not fit.
    """
    if reasons := verify(text).not_compared:
        raise ReleaseError(
            "receipts are attached to a report that holds, and this one could not be "
            f"fully checked: {reasons[0].removesuffix('.')}"
        )
    report = _Report.read(text)
    record = dict(report.record or {})
    plan = plan_of(record)
    kept = [*record.get("receipts", ()), *tables]
    fresh = [table for k, table in enumerate(kept) if table not in kept[:k]]
    again = report.again(record, plan, read_receipts(fresh, plan))
    if report.document is None:
        return str(again)
    return json.dumps(again, indent=1, allow_nan=False)


def _table(text: str, what: str) -> dict[str, Any]:
    table = read_json(text, what, error=ReleaseError)
    if not isinstance(table, dict):
        raise ReleaseError(DAMAGED)
    return table


def _authentic(
    record: Mapping[str, Any], trusted: Plan | None
) -> tuple[Plan, bool, tuple[Receipt, ...]]:
    """Check what needs no result: the digest, the plan, who signed, who was charged.

    A stranger's record may take long to compute, so nothing is computed before.
    """
    try:
        plan = plan_of(record)
    except ReleaseError:
        raise
    except DiscreetError as err:
        raise ReleaseError(f"the plan in the report is none: {err}") from None
    if trusted is not None and trusted.digest() != plan.digest():
        raise ReleaseError("the report was made under another plan than the one given")
    signed = _signed(record, trusted)
    return plan, signed, read_receipts(record.get("receipts", ()), plan)


def _signed(record: Mapping[str, Any], trusted: Plan | None) -> bool:
    """Check the coordinator's signature with the key that the reader's plan names."""
    signature = record.get("signature")
    if signature is not None and not _SIGNATURE.fullmatch(signature):
        raise ReleaseError("the coordinator's signature was damaged")
    roster = None if trusted is None else trusted.roster
    if roster is None or roster.coordinator is None:
        return False
    if signature is None:
        raise ReleaseError(
            "the coordinator did not sign this report, and the plan's roster names one"
        )
    key = Ed25519PublicKey.from_public_bytes(roster.coordinator)
    try:
        key.verify(bytes.fromhex(signature), SIGNED + str(record["digest"]).encode())
    except InvalidSignature:
        raise ReleaseError("the coordinator's signature does not fit") from None
    return True


def _revoked_signers(
    plan: Plan, receipts: Collection[str], revoked: RevokedKeys | None
) -> Iterator[str]:
    """Yield whose signature in a report is by a key that counts no longer."""
    if plan.roster is None or revoked is None:
        return
    signers = {"It": plan.roster.coordinator}
    for site in plan.roster.sites:
        if site.name in receipts:
            signers[f"The receipt of {site.name}"] = site.key
    for what, key in signers.items():
        revocation = revoked.of(key)
        if revocation is not None:
            yield (
                f"{what} is signed by {revocation}: whoever stole the key could have "
                "signed it, with any date. Believe it only if you had it before that day."
            )


def _judge(agreement: Agreement, made: Made) -> str:
    """Return what could not be compared, '' if nothing; refuse what does not follow.

    Another version of discreet may write other words and compute other numbers. Another
    NumPy changes no word. What it rounds otherwise is told, since nobody can tell it from
    a forgery.
    """
    here, words, wrong = Made(), agreement.words, agreement.wrong
    if not (words or wrong):
        return ""
    if made.discreet != here.discreet:
        return (
            f"It was made with discreet {made.discreet}, and this is {here.discreet}: "
            f"{_compared(agreement)}. Verify it with discreet {made.discreet}."
        )
    others = ", ".join(made.others())
    if words or not others:
        first = (*words, *wrong)[0]
        raise ReleaseError(f"{first} does not follow from the release")
    return (
        f"Computed here, {len(wrong):,} of its numbers, first {wrong[0]} came out "
        f"otherwise; all words agree. It was made with {others}: verify it with these "
        "versions."
    )


def _compared(agreement: Agreement) -> str:
    """Say what of a report of another version could be compared."""
    words, wrong = agreement.words, agreement.wrong
    if not agreement.numbers:
        return "neither its words nor its numbers could be compared"
    numbers = (
        f"{len(wrong):,} of its numbers are not what this version computes"
        if wrong
        else f"{agreement.numbers:,} of its numbers agree to one part in a million"
    )
    if not words:
        return f"{numbers}, and its words agree"
    places = "place" if len(words) == 1 else "places"
    return (
        f"{numbers}, and its words differ in {len(words):,} {places}, first {words[0]}"
    )

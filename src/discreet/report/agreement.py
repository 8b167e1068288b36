"""Whether a report agrees, as a whole, with the one that was computed again.

A document agrees when both have the same keys at every level, values of the same types,
and equal values; floats may differ by one part in a million, since another NumPy rounds
otherwise. A page is cut into numbers with a fraction and the text between them: tags,
attributes, words, whole numbers, pictures, styles and scripts. All text must be equal,
and the numbers agree as the floats of a document do.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Final

from discreet.parsing import shown

TOLERANCE: Final = 1e-6
NEGLIGIBLE: Final = 1e-9
_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+(?:e[+-]?[0-9]{1,4})?|e-[0-9]{1,4})")
"""A number with a fraction; whole ones, as in dates and digests, are text."""
_PICTURE: Final = re.compile(r'(src="data:image/png;base64,)([A-Za-z0-9+/=]*)"')
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
    pictures: int = 0
    """Pictures that differ."""
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
    """Compare two pages: their pictures, their numbers and all text between these."""
    every = len(_NUMBER.findall(ours))
    if theirs == ours:
        return Agreement(every, same_bytes=True)
    pictures = [_PICTURE.findall(page) for page in (theirs, ours)]
    drawn = sum(one != other for one, other in zip(*pictures, strict=False))
    # What is left of a picture stays text: one that was deleted or added is missed there.
    lines = [_PICTURE.sub(r"\1", page).split("\n") for page in (theirs, ours)]
    if len(lines[0]) != len(lines[1]):
        return Agreement(0, ("the page",), pictures=drawn)
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
    return Agreement(every - len(wrong), tuple(words), tuple(wrong), drawn)


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

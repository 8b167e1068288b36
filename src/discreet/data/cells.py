r"""A cell's text and a cell's number: what one value means, whatever the other rows hold.

Groups, subjects and labels are compared by their text. A container (a frame, a list, a
file) may change the type of a whole column for one row's sake: whole numbers become
floats where one is missing, and all becomes text where one is. So the text of a value
does not depend on its type:

==========================  ====================================================
value                       text
==========================  ====================================================
1, 1.0, "1", "1.0", True    ``1``: a whole number has no point, a truth is 1 or 0
0.1, "0.10", "1e-1"         ``0.1``: the shortest text of the nearest double
"true", "False"             ``1``, ``0``, in any case
"007", "1E5"                itself: no number is written like this, a name may be
2025-01-31 00:00            ``2025-01-31``: midnight is the day, no zone is UTC
" ward a "                  ``ward a``: spaces around it are no part of it
None, NaN, "", "NA"         none: missing, as are Arrow's other words for it, lists,
                            and bytes that are no UTF-8
==========================  ====================================================

The text of a text is that text again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import FloatVector

_MISSING: Final = frozenset(
    {"", "#n/a", "#n/a n/a", "#na", "-1.#ind", "-1.#qnan", "-nan", "1.#ind", "1.#qnan"}
    | {"n/a", "na", "nan", "null", "<na>", "nat"}
)
"""Words for what is not there: Arrow's, and how pandas prints its own."""
_TRUTHS: Final = {"true": "1", "false": "0"}
_DIGITS: Final = re.compile(r"-?[0-9]{1,20}")
_WHOLE: Final = re.compile(r"([+-]?)(0|[1-9][0-9]*)(?:\.0*)?")
_NUMBER: Final = re.compile(
    r"[+-]?(?:(?:0|[1-9][0-9]*)?\.[0-9]+(?:[eE][+-]?[0-9]+)?"
    r"|(?:0|[1-9][0-9]*)\.?[eE][+-][0-9]+)"
)
"""How programs write numbers: no zeros before the others, a sign or a point beside an
exponent. What does not look like this may be a name, and two names must not be one."""
_MOMENT: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?"
)
_MOST_BITS: Final = 2**12
"""Larger whole numbers are written in hexadecimal digits: Python limits the decimal ones."""
_MOST_DIGITS: Final = 400


def canonical(value: object) -> str | None:
    r"""Return the text of a value; None where it is missing.

    >>> [canonical(v) for v in (1, 1.0, True, "1.0", np.float32(1), Decimal("1.00"))]
    ['1', '1', '1', '1', '1', '1']
    >>> [canonical(v) for v in (0.25, "007", " a ", math.nan, None, "", b"a", b"\xff")]
    ['0.25', '007', 'a', None, None, None, 'a', None]
    """
    for kinds, rule in _RULES:
        if isinstance(value, kinds):
            return rule(value)
    return _of_object(value)


def number(value: object) -> float:
    """Return a value as a number; NaN where it is none.

    >>> [number(v) for v in (" 0.25", "1e3", "n.a.", "1_000", True, 10**400)]
    [0.25, 1000.0, nan, nan, 1.0, inf]
    """
    try:
        match value:
            case float() | np.floating() | np.bool_():
                return float(value)
            case int() | np.integer() | Fraction() | Decimal():
                try:
                    return float(value)
                except OverflowError:
                    return math.inf if value > 0 else -math.inf
            case str():  # Python's numbers and Arrow's have other spaces around them
                return float(value.strip()) if "_" not in value else math.nan
            case bytes():
                return number(value.decode())
            case _:
                pass
    except (ValueError, TypeError):  # no number, no UTF-8, or a span of time
        pass
    return math.nan


def texts(column: NDArray[Any]) -> NDArray[Any]:
    """Return the text of every cell, None where one is missing: an array of objects."""
    whole = np.empty(len(column), dtype=object)
    match column.dtype.kind:
        case "i" | "u":
            whole[:] = list(map(str, column.tolist()))
        case "f":
            whole[:] = _each(column.tolist(), _of_float)
        case "M" | "m":
            whole[:] = _each(column.astype(str).tolist(), _of_text)
        case _:
            whole[:] = _each(column.tolist(), canonical)
    return whole


def numbers(column: NDArray[Any]) -> FloatVector:
    """Return every cell as a number, NaN where it is none."""
    if column.dtype.kind in "fiub":
        return column.astype(np.float64, copy=False)
    if column.dtype.kind not in "OUS":
        return np.full(len(column), np.nan)
    return np.array([number(cell) for cell in column.tolist()], dtype=np.float64)


def equal(column: NDArray[Any], text: str) -> NDArray[np.bool_]:
    """Mark the cells with a text; no text is made of columns of numbers."""
    kind = column.dtype.kind
    if kind not in "iufb":
        return np.asarray(texts(column) == text, dtype=np.bool_)
    if kind == "f":
        value = number(text)
        same: NDArray[np.bool_] = column.astype(np.float64, copy=False) == value
        return same if _of_float(value) == text else np.zeros_like(same)
    least, most = 0, 1
    if kind != "b":
        least, most = np.iinfo(column.dtype).min, np.iinfo(column.dtype).max
    whole = int(text) if _DIGITS.fullmatch(text) else -1
    if str(whole) != text or not least <= whole <= most:
        return np.zeros(column.shape, dtype=np.bool_)
    return np.asarray(column == column.dtype.type(whole), dtype=np.bool_)


class _Known(dict[Any, "str | None"]):
    """Texts of the values of one type that were met: equal ones have the same text."""

    def __init__(self, rule: Callable[[Any], str | None]) -> None:
        super().__init__()
        self._rule = rule

    def __missing__(self, value: object) -> str | None:
        text = self[value] = self._rule(value)
        return text


def _each(cells: list[Any], rule: Callable[[Any], str | None]) -> list[str | None]:
    known = _Known(rule)
    try:
        # Equal values of two types may have two texts, and so have equal moments in a
        # zone: an hour apart, when a clock was put back.
        kinds = set(map(type, cells)) - {type(None)}
        if len(kinds) <= 1 and not any(issubclass(k, datetime) for k in kinds):
            return [known[cell] for cell in cells]
        return [rule(cell) for cell in cells]
    except TypeError:  # some cell cannot be looked up: a list, say
        return [rule(cell) for cell in cells]


def _of_text(text: str) -> str | None:
    text = text.strip()
    word = text.lower()
    if word in _MISSING or word in _TRUTHS:
        return _TRUTHS.get(word)
    if text[0] in "+-.0123456789":
        if whole := _WHOLE.fullmatch(text):
            sign, digits = whole.groups()
            return f"-{digits}" if sign == "-" and digits != "0" else digits
        if _NUMBER.fullmatch(text) and math.isfinite(value := float(text)):
            return _of_float(value)
        if moment := _MOMENT.fullmatch(text):
            return _of_moment(*moment.groups())
    try:
        text.encode()
    except UnicodeEncodeError:
        return None
    return text


def _of_moment(day: str, minutes: str, seconds: str | None, rest: str | None) -> str:
    rest = (rest or "").rstrip("0")
    time = f"{minutes}:{seconds or '00'}"
    if time == "00:00:00" and not rest:
        return day
    return f"{day} {time}.{rest}" if rest else f"{day} {time}"


def _of_int(value: int) -> str:
    return str(value) if value.bit_length() <= _MOST_BITS else hex(value)


def _of_float(value: float) -> str | None:
    if math.isfinite(value):
        return str(int(value)) if value.is_integer() else repr(value)
    return None if math.isnan(value) else str(value)


def _of_decimal(value: Decimal) -> str | None:
    if not value.is_finite():
        return None if value.is_nan() else _of_float(float(value))
    few = -_MOST_DIGITS < value.adjusted() < _MOST_DIGITS
    return _of_text(format(value, "f") if few else str(value))


def _of_bytes(value: bytes) -> str | None:
    try:
        return _of_text(value.decode())
    except UnicodeDecodeError:
        return None


def _of_moment_in_a_zone(value: datetime) -> str | None:
    if value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return _of_object(value)


def _of_object(value: object) -> str | None:
    """Return the text of what is neither text nor number."""
    try:
        # What is not equal to itself is missing: NaT, and pandas' NA, which has no truth.
        known = bool(value == value)  # noqa: PLR0124
        return _of_text(str(value)) if known else None
    except Exception:  # noqa: BLE001 - a cell that has no text is missing, and no refusal
        return None


_RULES: Final[tuple[tuple[Any, Callable[[Any], str | None]], ...]] = (
    (str, _of_text),
    ((bool, np.bool_), lambda value: str(int(value))),
    (np.timedelta64, _of_object),  # an integer to NumPy
    ((int, np.integer), lambda value: _of_int(int(value))),
    ((float, np.floating), lambda value: _of_float(float(value))),
    (bytes, _of_bytes),
    (Decimal, _of_decimal),
    (complex, lambda value: None if value.imag else _of_float(value.real)),
    (Fraction, lambda value: _of_float(number(value))),
    (datetime, _of_moment_in_a_zone),
    # Equal ones may be of different texts: (1,) and (1.0,).
    ((type(None), list, tuple, dict, set, frozenset, np.ndarray), lambda _: None),
)
"""The first that fits."""

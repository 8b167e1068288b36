"""Bounded readers: numbers, names, amounts, TOML and JSON that others wrote.

A plan, a policy, a session or a ledger entry may come from anybody. Reading it takes
little time and memory, and a value of the wrong kind is refused with one sentence that
quotes nothing: a truth value is no integer, and ``1e999999999`` is not worked out.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, TypeAlias

from discreet.errors import DiscreetError, InputError, PlanError

_PLACE: Final = re.compile(r"\(at (line \d+, column \d+|end of document)\)$")
_MOST_DIGITS: Final = 50
"""Of an amount that somebody writes; more are a mistake or an attack."""
MOST_BYTES: Final = 2**23
"""Of one document: a plan with a million listed edges does not fit, and need not."""
LONGEST_NAME: Final = 200
MOST: Final = 2**53
"""The largest integer of a plan, which a float still holds exactly."""

Amount: TypeAlias = int | float | str | Decimal | Fraction
"""How a caller may write an epsilon; 0.1 means one tenth, not its nearest float."""


def whole(
    value: object,
    what: str,
    *,
    least: int = 0,
    most: int = MOST,
    error: type[DiscreetError] = PlanError,
) -> int:
    """Return an exact integer within limits; a truth value or a float is none.

    >>> whole(3, "the number of sites")
    3
    """
    if type(value) is not int:
        raise error(f"{what} must be a whole number")
    if not least <= value <= most:
        raise error(f"{what} must be between {least:,} and {most:,}")
    return value


def number(
    value: object,
    what: str,
    *,
    least: float,
    most: float,
    error: type[DiscreetError] = PlanError,
) -> float:
    """Return a float within limits; a truth value, a text or NaN is none.

    Every float of a document has a range of its own, narrow enough that nothing
    computed from it overflows.

    >>> number(0.5, "the anchor", least=0, most=100)
    0.5
    """
    if type(value) not in (int, float):
        raise error(f"{what} must be a number")
    if not least <= value <= most:  # type: ignore[operator]
        raise error(f"{what} must be a number between {least:g} and {most:g}")
    return float(value)  # type: ignore[arg-type]


def name(
    value: object,
    what: str,
    *,
    most: int = LONGEST_NAME,
    error: type[DiscreetError] = PlanError,
) -> str:
    """Return a name that a terminal, a page and a log can show as it is."""
    if not isinstance(value, str) or not value.isprintable() or len(value) > most:
        raise error(f"{what} has at most {most} printable characters")
    return value


def shown(text: str) -> str:
    r"""Keep what others wrote from steering the terminal that shows it.

    >>> shown("sepsis\x1b[2J\nmodel")
    'sepsis?[2J?model'
    """
    return "".join(c if c.isprintable() else "?" for c in text)


def exact(amount: Amount, *, name: str = "epsilon") -> Fraction:
    """Read an amount as the decimal number that was written.

    >>> exact(0.1)
    Fraction(1, 10)
    """
    if isinstance(amount, Fraction):
        return _few_digits(amount, name)
    # An over-long text is as little a number as a truth value.
    text = "" if isinstance(amount, bool) else str(amount)[: _MOST_DIGITS + 1]
    try:
        decimal = Decimal(text if len(text) <= _MOST_DIGITS else "")
    except InvalidOperation:
        raise PlanError(f"{name} must be a decimal number of few digits") from None
    if not decimal.is_finite():
        raise PlanError(f"{name} must be finite")
    # Before it is worked out: 1e999999999 has a billion digits.
    if decimal and not -_MOST_DIGITS <= decimal.adjusted() <= _MOST_DIGITS:
        raise PlanError(f"{name} is too large or too small to be meant")
    return Fraction(decimal)


def _few_digits(amount: Fraction, name: str) -> Fraction:
    if max(abs(amount.numerator), amount.denominator) >= 10 ** (2 * _MOST_DIGITS):
        raise PlanError(f"{name} needs fewer digits: round it")
    return amount


def decimal_text(amount: Fraction) -> str:
    """Write an amount as an exact decimal where it is one, else as a ratio.

    >>> decimal_text(Fraction(1, 10)), decimal_text(Fraction(1, 3))
    ('0.1', '1/3')
    """
    rest = amount.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest != 1:
        return f"{amount.numerator}/{amount.denominator}"
    # Scaled integers, not Decimal division, which rounds to its context.
    digits = 0
    while (amount * 10**digits).denominator != 1:
        digits += 1
    before, after = divmod(int(amount * 10**digits), 10**digits)
    return f"{before}.{after:0{digits}d}" if digits else str(before)


def amount_from_text(text: object, *, name: str = "epsilon") -> Fraction:
    """Read what ``decimal_text`` wrote."""
    if not isinstance(text, str):
        raise PlanError(f"{name} is written as a text, such as '1.5'")
    if "/" in text and len(text) <= 4 * _MOST_DIGITS:
        try:
            return _few_digits(Fraction(text), name)
        except (ValueError, ZeroDivisionError):
            raise PlanError(f"{name} must be a decimal number or a ratio") from None
    return exact(text, name=name)


def read_text(path: Path, what: str) -> str:
    """Read a file of UTF-8 text that should hold ``what``, such as "a plan".

    Somebody may name a file of scores where a plan belongs: the error names the file
    and quotes nothing of it.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
        _check_size(len(raw), what, InputError)
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(
            f"{path.name} is not UTF-8 text and so not {what}; check the order of the "
            "files, or save it as UTF-8"
        ) from None


def read_toml(
    text: str, what: str, *, error: type[DiscreetError] = PlanError
) -> dict[str, Any]:
    """Read TOML of bounded size and depth, and quote nothing of it."""
    _check_size(len(text), what, error)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as err:
        # The rest of its message quotes the text.
        place = _PLACE.search(str(err))
        where = place.group(1) if place else "a place that is not known"
        raise error(f"{what} is not valid TOML at {where}") from None
    except (RecursionError, ValueError):
        raise error(f"{what} is nested too deeply or holds no number") from None


def read_json(
    text: str | bytes, what: str, *, error: type[DiscreetError] = PlanError
) -> Any:
    """Read JSON of bounded size and depth, with finite numbers and no key twice.

    Of a doubled key readers take the first or the last: two of them may see two
    documents in one text.
    """
    _check_size(len(text), what, error)
    try:
        return json.loads(
            text,
            object_pairs_hook=_no_key_twice,
            parse_constant=_finite,
            parse_float=_finite,
        )
    except (RecursionError, ValueError):
        raise error(
            f"{what} is not valid JSON: it is damaged, nested too deeply, or has a key "
            "twice"
        ) from None


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError
    return table


def _finite(text: str) -> float:
    """Return a number of JSON; NaN, Infinity and 1e999 are none."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value


def _check_size(size: int, what: str, error: type[DiscreetError]) -> None:
    if size > MOST_BYTES:
        raise error(f"{what} has more than the {MOST_BYTES:,} bytes it may have")

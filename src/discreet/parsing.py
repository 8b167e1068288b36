"""Bounded reading of what strangers write: numbers, names, TOML and JSON.

A plan, a policy, a session or a ledger entry may come from anybody. Whatever it
holds, reading it takes little time and memory, and a value of the wrong kind is
refused with one sentence: a truth value is no integer, 3.5 sites are none, and
``1e999999999`` is not worked out.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any, Final

from discreet.errors import DiscreetError, InputError, PlanError

_PLACE: Final = re.compile(r"\(at (line \d+, column \d+|end of document)\)$")
MOST_BYTES: Final = 2**23
"""Of one document: a plan with a million listed edges does not fit, and need not."""
LONGEST_NAME: Final = 200
MOST: Final = 2**53
"""The largest integer of a plan, which a float still holds exactly."""


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
    """Return a finite float within limits; a truth value, a text or NaN is none.

    Every float that strangers write has a range of its own, narrow enough that nothing
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


def read_text(path: Path, what: str) -> str:
    """Read a file of UTF-8 text that should hold ``what``, such as "a plan".

    Somebody may name a file of scores where a plan belongs: what is said then is
    which file it was, never what stood there.
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
        raise error(f"{what} is not valid TOML at {_toml_place(err)}") from None
    except (RecursionError, ValueError):
        raise error(f"{what} is nested too deeply or holds no number") from None


def read_json(
    text: str | bytes, what: str, *, error: type[DiscreetError] = PlanError
) -> Any:
    """Read JSON of bounded size and depth, with finite numbers and no key twice.

    Of a doubled key readers take the first or the last, so that two of them may see two
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


def _toml_place(error: tomllib.TOMLDecodeError) -> str:
    """Say where a text stopped being TOML; the rest of the message quotes it."""
    found = _PLACE.search(str(error))
    return found.group(1) if found else "a place that is not known"

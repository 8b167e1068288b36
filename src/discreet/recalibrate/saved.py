"""Maps in files: JSON with a version, checked when it is read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from discreet.data.scores import ScoreRange
from discreet.errors import InputError
from discreet.parsing import read_text
from discreet.recalibrate.curve import LogCurve
from discreet.recalibrate.identity import Identity
from discreet.recalibrate.protocol import MAP_VERSION, CalibrationMap
from discreet.recalibrate.steps import Steps


def save(fitted: CalibrationMap, path: str | Path) -> None:
    """Write a map to a file."""
    Path(path).write_text(fitted.to_json() + "\n", encoding="utf-8")


def load(path: str | Path) -> CalibrationMap:
    """Read a map from a file."""
    return from_json(read_text(Path(path), "a saved map"))


def from_json(text: str) -> CalibrationMap:
    """Read a map from its saved form.

    >>> fitted = from_json(Steps("binning", (0.5,), (0.1, 0.8)).to_json())
    >>> fitted.apply([0.6]).tolist()
    [0.8]
    """
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"a saved map is JSON, and this is not: {error.msg}") from None
    if not isinstance(found, dict):
        raise InputError("a saved map is a JSON object")
    if found.get("version") != MAP_VERSION:
        raise InputError(
            f"this map was saved in another version than {MAP_VERSION}; fit it again "
            "or install the release of discreet that wrote it"
        )
    try:
        return _from_dict(found)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"a field of the saved map is missing or malformed ({error}); fit it again"
        ) from None


def _from_dict(found: Mapping[str, Any]) -> CalibrationMap:
    name, reason = _text(found["name"]), _text(found["reason"])
    fields = found["scores"]
    scores = ScoreRange.declare(fields["kind"], fields.get("low"), fields.get("high"))
    match found["form"]:
        case "steps":
            return Steps(
                name, _numbers(found["cuts"]), _numbers(found["rates"]), scores, reason
            )
        case "curve":
            c, a, b = _numbers([found[k] for k in ("intercept", "on_log", "on_rest")])
            return LogCurve(name, c, a, b, scores, reason)
        case "identity":
            return Identity(reason, scores)
        case _:
            raise InputError("the form of a saved map is steps, curve or identity")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a name or a reason is text")
    return value


def _numbers(values: object) -> tuple[float, ...]:
    if not isinstance(values, list):
        raise TypeError("a list of numbers is needed")
    found = tuple(float(v) for v in values)
    if not all(map(math.isfinite, found)):
        raise ValueError("a number is not finite")
    return found

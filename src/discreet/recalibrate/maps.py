"""Calibration maps: what every one offers, the three forms, and JSON files of them.

A map is steps, a curve by a formula, or the identity. It holds no example. Saved
maps carry a version and are checked when they are read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.data.scores import ScoreRange
from discreet.errors import InputError
from discreet.metrics.logistic import CLOSEST, sigmoid
from discreet.parsing import read_json, read_text

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MAP_VERSION: Final = 1
"""Version of the saved form; a reader refuses versions that it does not know."""


class CalibrationMap(Protocol):
    """A fitted map from scores to probabilities."""

    @property
    def name(self) -> str:
        """Which kind of map it is."""
        ...

    @property
    def reason(self) -> str:
        """Why this map was taken, in a sentence."""
        ...

    @property
    def scores(self) -> ScoreRange:
        """The kind of scores that it maps."""
        ...

    @property
    def monotone(self) -> bool:
        """Whether a higher score never gets a lower probability."""
        ...

    def apply(self, scores: ArrayLike) -> FloatVector:
        """Return the probability of each score, in the scores' shape."""
        ...

    def to_dict(self) -> Mapping[str, Any]:
        """Return plain values, with the version."""
        ...

    def to_json(self) -> str:
        """Return the saved form."""
        ...


class _Written:
    """How every form of a map is written: its fields, with the version."""

    form: ClassVar[str]

    def to_dict(self: Any) -> Mapping[str, Any]:
        """Return plain values, with the version."""
        scores = {"kind": self.scores.kind}
        if self.scores.kind == "other":  # only this kind has limits of its own
            scores |= {"low": self.scores.low, "high": self.scores.high}
        common = {"name": self.name, "reason": self.reason, "scores": scores}
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        own = {k: list(v) if isinstance(v, tuple) else v for k, v in own.items()}
        return {"version": MAP_VERSION, "form": self.form} | common | (own | common)

    def to_json(self) -> str:
        """Return the saved form."""
        return json.dumps(self.to_dict(), allow_nan=False)


@dataclass(frozen=True)
class Identity(_Written):
    """Scores as they are, and logits as the probabilities that they say."""

    form: ClassVar = "identity"
    reason: str = "asked for"
    scores: ScoreRange = field(default_factory=ScoreRange)

    @property
    def name(self) -> str:
        """It has one name."""
        return "identity"

    @property
    def monotone(self) -> bool:
        """It keeps every order."""
        return True

    def apply(self, scores: ArrayLike) -> FloatVector:
        """Return the scores as probabilities."""
        return as_probabilities(checked_scores(scores, self.scores).copy(), self.scores)


@dataclass(frozen=True)
class Steps(_Written):
    """Probabilities between cuts: a score at a cut belongs to the upper step.

    >>> steps = Steps("binning", (0.5,), (0.1, 0.8))
    >>> steps.apply([0.2, 0.5, 1.0]).tolist()
    [0.1, 0.8, 0.8]
    """

    form: ClassVar = "steps"
    name: str
    cuts: tuple[float, ...]
    rates: tuple[float, ...]
    scores: ScoreRange = field(default_factory=ScoreRange)
    reason: str = "asked for"

    def __post_init__(self) -> None:
        if len(self.rates) != len(self.cuts) + 1:
            raise InputError(
                f"{len(self.cuts)} cuts make {len(self.cuts) + 1} steps, got "
                f"{len(self.rates)}"
            )
        if not all(0 <= rate <= 1 for rate in self.rates):
            raise InputError("every step of a calibration map is a probability")
        if not (np.diff(self.cuts) > 0).all():
            raise InputError("the cuts of a calibration map increase strictly")

    @classmethod
    def between(
        cls, name: str, edges: Edges, starts: IntVector, rates: FloatVector
    ) -> Steps:
        """Put a rate on each run of bins; ``starts`` are the runs' first bins."""
        cuts = tuple(float(edges.values[k]) for k in starts[1:])
        within = np.clip(rates, 0.0, 1.0)
        return cls(name, cuts, tuple(within.tolist()), edges.scores)

    @property
    def monotone(self) -> bool:
        """Whether the steps rise."""
        return bool((np.diff(self.rates) >= 0).all())

    def apply(self, scores: ArrayLike) -> FloatVector:
        """Return the step of each score."""
        values = checked_scores(scores, self.scores)
        found: FloatVector = np.asarray(self.rates)[
            np.searchsorted(np.asarray(self.cuts), values, side="right")
        ]
        return found


@dataclass(frozen=True)
class LogCurve(_Written):
    r""":math:`\operatorname{logit} q = c + a \log s - b \log(1 - s)`, a and b not negative.

    With a = b it is Platt's map of the log-odds; in general beta calibration
    (Kull, Silva Filho and Flach 2017). Logits are taken through the sigmoid.

    >>> LogCurve("platt", 0.0, 1.0, 1.0).apply([0.25, 0.5]).round(6).tolist()
    [0.25, 0.5]
    """

    form: ClassVar = "curve"
    name: str
    intercept: float
    on_log: float
    on_rest: float
    scores: ScoreRange = field(default_factory=ScoreRange)
    reason: str = "asked for"

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (self.intercept, self.on_log, self.on_rest))):
            raise InputError("the coefficients of a calibration map are finite numbers")
        if self.on_log < 0 or self.on_rest < 0:
            raise InputError("a calibration curve does not fall: a, b are 0 or more")

    @property
    def monotone(self) -> bool:
        """Both logarithms rise with the score."""
        return True

    def apply(self, scores: ArrayLike) -> FloatVector:
        """Return the probability of each score."""
        s = as_probabilities(checked_scores(scores, self.scores), self.scores)
        s = np.clip(s, CLOSEST, 1 - CLOSEST)
        odds = self.intercept + self.on_log * np.log(s) - self.on_rest * np.log1p(-s)
        return sigmoid(odds)


def checked_scores(scores: ArrayLike, allowed: ScoreRange) -> FloatVector:
    """Return scores as numbers, or say how many are outside of the range."""
    values = np.asarray(scores, dtype=np.float64)
    outside = allowed.outside(values)
    if outside:
        raise InputError(
            f"{outside} of {values.size} scores are missing or outside of {allowed}, "
            "the range that this map was fitted for"
        )
    return values


def as_probabilities(values: FloatVector, scores: ScoreRange) -> FloatVector:
    """Return probabilities as they are and logits through the sigmoid."""
    match scores.kind:
        case "probability":
            return values
        case "logit":
            return sigmoid(values)
        case "other":
            raise InputError("scores of kind 'other' are not probabilities")


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
    found = read_json(text, "a saved map", error=InputError)
    if not isinstance(found, dict):
        raise InputError("a saved map is a JSON object")
    if found.get("version") != MAP_VERSION:
        raise InputError(
            f"this map was saved in another version than {MAP_VERSION}; fit it again "
            "or install the release of discreet that wrote it"
        )
    try:
        return _from_dict(found)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"a field of the saved map is missing or malformed ({error}); fit it again"
        ) from None


def _from_dict(found: Mapping[str, Any]) -> CalibrationMap:
    name, reason = _text(found["name"]), _text(found["reason"])
    limits = found["scores"]
    scores = ScoreRange.declare(limits["kind"], limits.get("low"), limits.get("high"))
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

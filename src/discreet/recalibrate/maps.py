"""Calibration maps: the three forms, JSON files of them, a scikit-learn transformer.

A map is steps, a curve by a formula, or the identity. It holds no example. Saved
maps carry a version and are checked when they are loaded.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.codec.parsing import read_json, read_text
from discreet.data.edges import Edges
from discreet.data.scores import ScoreRange
from discreet.errors import InputError, MissingExtraError
from discreet.metrics.logistic import CLOSEST, sigmoid

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MAP_VERSION: Final = 1
"""Version of the saved form; other versions are refused."""


@dataclass(frozen=True)
class CalibrationMap(ABC):
    """A fitted map from scores to probabilities."""

    form: ClassVar[str]
    name: str
    """Which kind of map it is."""
    scores: ScoreRange = field(default_factory=ScoreRange, kw_only=True)
    """The kind of scores that it maps."""
    reason: str = field(default="asked for", kw_only=True)
    """Why this map was taken, in a sentence."""

    @property
    def monotone(self) -> bool:
        """Whether a higher score never gets a lower probability."""
        return True

    @abstractmethod
    def apply(self, scores: ArrayLike) -> FloatVector:
        """Return the probability of each score, in the scores' shape."""

    def to_dict(self) -> Mapping[str, Any]:
        """Return plain values, with the version."""
        scores: dict[str, Any] = {"kind": self.scores.kind}
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
class Identity(CalibrationMap):
    """Scores as they are, and logits as the probabilities that they stand for."""

    form: ClassVar = "identity"
    name: str = field(default="identity", init=False)

    def apply(self, scores: ArrayLike) -> FloatVector:
        """Return the scores as probabilities."""
        return _probabilities(scores, self.scores).copy()


@dataclass(frozen=True)
class Steps(CalibrationMap):
    """Probabilities between cuts: a score at a cut belongs to the upper step.

    >>> steps = Steps("binning", (0.5,), (0.1, 0.8))
    >>> steps.apply([0.2, 0.5, 1.0]).tolist()
    [0.1, 0.8, 0.8]
    """

    form: ClassVar = "steps"
    cuts: tuple[float, ...]
    rates: tuple[float, ...]

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
        within = tuple(np.clip(rates, 0.0, 1.0).tolist())
        return cls(name, cuts, within, scores=edges.scores)

    @property
    def monotone(self) -> bool:
        """Whether the steps rise."""
        return bool((np.diff(self.rates) >= 0).all())

    def apply(self, scores: ArrayLike) -> FloatVector:
        """Return the step of each score."""
        values = _checked(scores, self.scores)
        step = np.searchsorted(np.asarray(self.cuts), values, side="right")
        return np.asarray(self.rates)[step]


@dataclass(frozen=True)
class LogCurve(CalibrationMap):
    r""":math:`\operatorname{logit} q = c + a \log s - b \log(1 - s)`, a and b not negative.

    With a = b it is Platt's map of the log-odds; in general beta calibration
    (Kull, Silva Filho and Flach 2017). Logits are taken through the sigmoid.

    >>> LogCurve("platt", 0.0, 1.0, 1.0).apply([0.25, 0.5]).round(6).tolist()
    [0.25, 0.5]
    """

    form: ClassVar = "curve"
    intercept: float
    on_log: float
    on_rest: float

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (self.intercept, self.on_log, self.on_rest))):
            raise InputError("the coefficients of a calibration map are finite numbers")
        if self.on_log < 0 or self.on_rest < 0:
            raise InputError("a calibration curve does not fall: a, b are 0 or more")

    def apply(self, scores: ArrayLike) -> FloatVector:
        """Return the probability of each score."""
        s = np.clip(_probabilities(scores, self.scores), CLOSEST, 1 - CLOSEST)
        odds = self.intercept + self.on_log * np.log(s) - self.on_rest * np.log1p(-s)
        return sigmoid(odds)


def _checked(scores: ArrayLike, allowed: ScoreRange) -> FloatVector:
    """Return scores as numbers, or refuse with how many are outside of the range."""
    values = np.asarray(scores, dtype=np.float64)
    outside = allowed.outside(values)
    if outside:
        raise InputError(
            f"{outside} of {values.size} scores are missing or outside of {allowed}, "
            "the range that this map was fitted for"
        )
    return values


def _probabilities(scores: ArrayLike, allowed: ScoreRange) -> FloatVector:
    """Return probabilities as they are and logits through the sigmoid."""
    values = _checked(scores, allowed)
    if allowed.kind == "other":
        raise InputError("scores of kind 'other' are not probabilities")
    return sigmoid(values) if allowed.kind == "logit" else values


def save(fitted: CalibrationMap, path: str | Path) -> None:
    """Write a map to a file."""
    Path(path).write_text(fitted.to_json() + "\n", encoding="utf-8")


def load(path: str | Path) -> CalibrationMap:
    """Load a map from a file."""
    return from_json(read_text(Path(path), "a saved map"))


def from_json(text: str) -> CalibrationMap:
    """Return a map from its saved form.

    >>> fitted = from_json(Steps("binning", (0.5,), (0.1, 0.8)).to_json())
    >>> fitted.apply([0.6]).tolist()
    [0.8]
    """
    saved = read_json(text, "a saved map", error=InputError)
    if not isinstance(saved, dict):
        raise InputError("a saved map is a JSON object")
    if saved.get("version") != MAP_VERSION:
        raise InputError(
            f"this map was saved in another version than {MAP_VERSION}; fit it again "
            "or install the release of discreet that wrote it"
        )
    try:
        return _from_dict(saved)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"a field of the saved map is missing or malformed ({error}); fit it again"
        ) from None


def _from_dict(saved: Mapping[str, Any]) -> CalibrationMap:
    name, limits = _text(saved["name"]), saved["scores"]
    scores = ScoreRange.declare(limits["kind"], limits.get("low"), limits.get("high"))
    common: dict[str, Any] = {"scores": scores, "reason": _text(saved["reason"])}
    match saved["form"]:
        case "steps":
            cuts, rates = _numbers(saved["cuts"]), _numbers(saved["rates"])
            return Steps(name, cuts, rates, **common)
        case "curve":
            c, a, b = _numbers([saved[k] for k in ("intercept", "on_log", "on_rest")])
            return LogCurve(name, c, a, b, **common)
        case "identity":
            return Identity(**common)
        case _:
            raise InputError("the form of a saved map is steps, curve or identity")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a name or a reason is text")
    return value


def _numbers(values: object) -> tuple[float, ...]:
    if not isinstance(values, list):
        raise TypeError("a list of numbers is needed")
    numbers = tuple(float(v) for v in values)
    if not all(map(math.isfinite, numbers)):
        raise ValueError("a number is not finite")
    return numbers


def as_transformer(fitted: CalibrationMap) -> Any:
    """Return a scikit-learn transformer that applies the map to one column.

    It has nothing to learn: ``fit`` only checks the shape. It can be cloned and
    pickled, and be the last step of a pipeline.
    """
    return _transformer_class()(fitted)


@cache
def _transformer_class() -> Any:
    """Make the class when it is first asked for: its parents are an extra's."""
    try:
        from sklearn.base import (  # noqa: PLC0415 - an extra
            BaseEstimator,
            OneToOneFeatureMixin,
            TransformerMixin,
        )
    except ImportError:
        raise MissingExtraError("a scikit-learn transformer", "demo") from None

    class CalibrationTransformer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
        """Scores in, probabilities out, one column."""

        def __init__(self, fitted: CalibrationMap) -> None:
            self.fitted = fitted

        def __sklearn_is_fitted__(self) -> bool:
            return True

        def __reduce__(self) -> tuple[Any, ...]:
            # The class has no name that a pickle could find; the function has.
            return as_transformer, (self.fitted,), dict(vars(self))

        def fit(self, X: ArrayLike, y: object = None) -> CalibrationTransformer:  # noqa: N803
            """Check the shape; the map is fitted already."""
            del y
            self.n_features_in_ = _column(X).shape[1]
            return self

        def transform(self, X: ArrayLike) -> FloatArray:  # noqa: N803
            """Return the probabilities in one column."""
            return self.fitted.apply(_column(X))

    return CalibrationTransformer


def _column(scores: ArrayLike) -> FloatArray:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim == 1:
        return values[:, None]
    if values.ndim != 2 or values.shape[1] != 1:
        raise InputError(f"scores are one column, got the shape {values.shape}")
    return values

"""What every calibration map offers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from discreet.arrays import FloatVector
from discreet.data.scores import ScoreRange
from discreet.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MAP_VERSION: Final = 1
"""Version of the saved form; a reader refuses versions that it does not know."""


class CalibrationMap(Protocol):
    """A fitted map from scores to probabilities. It holds no example."""

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


def score_fields(scores: ScoreRange) -> dict[str, Any]:
    """Return a range as plain values; only ``other`` has limits of its own."""
    if scores.kind == "other":
        return {"kind": scores.kind, "low": scores.low, "high": scores.high}
    return {"kind": scores.kind}

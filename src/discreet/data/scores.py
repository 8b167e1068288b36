"""What kind of number a score is, and the range it is declared to lie in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias

import numpy as np

from discreet.arrays import BoolVector, FloatVector
from discreet.data.cells import numbers
from discreet.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

ScoreKind: TypeAlias = Literal["probability", "logit", "other"]
FARTHEST: Final = 1e100
"""Of a limit: differences, squares and their products stay finite."""
_NUMBERS: Final = (int, float, np.integer, np.floating, Decimal)


@dataclass(frozen=True, slots=True)
class ScoreRange:
    """The declared kind and closed range of the scores. Public, never measured.

    A *probability* lies in [0, 1]; a *logit* anywhere on the real line; *other*
    needs explicit finite limits, because a range taken from the data would be a
    release of its extreme values.
    """

    kind: ScoreKind = "probability"
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        limits = (self.low, self.high)
        if self.kind not in ("probability", "logit", "other"):
            raise InputError("the kind of scores is 'probability', 'logit' or 'other'")
        if self.kind == "probability" and limits != (0.0, 1.0):
            raise InputError("probabilities range from 0 to 1; omit the limits")
        if self.kind == "logit" and limits != (-math.inf, math.inf):
            raise InputError("logits range over the real line; omit the limits")
        if self.kind == "other" and not all(abs(v) <= FARTHEST for v in limits):
            raise InputError(
                "scores of kind 'other' need finite low and high, of at most "
                f"{FARTHEST:g}"
            )
        if not self.low < self.high:
            raise InputError("low must be less than high")

    @classmethod
    def declare(
        cls, kind: ScoreKind, low: float | None = None, high: float | None = None
    ) -> Self:
        """Build a range from what a caller declares; limits only for ``other``."""
        if kind == "other" and (low is None or high is None):
            raise InputError(
                "scores of kind 'other' need their public range: low and high"
            )
        least, most = (-math.inf, math.inf) if kind == "logit" else (0.0, 1.0)
        return cls(
            kind,
            least if low is None else float(low),
            most if high is None else float(high),
        )

    def outside(self, scores: FloatVector) -> int:
        """Count the scores that are NaN or outside the range."""
        if scores.size == 0:
            return 0
        if self.low == 0 and scores.dtype == np.float64 and scores.flags.c_contiguous:
            # Read as whole numbers, floats from 0 on keep their order, and negative
            # ones and NaN lie above: one maximum tells. (-0.0 is judged below.)
            highest = np.float64(self.high).view(np.uint64)
            if scores.view(np.uint64).max() <= highest:
                return 0
        # NaN poisons min and max and fails both comparisons.
        if scores.min() >= self.low and scores.max() <= self.high:
            return 0
        return int(scores.size - np.count_nonzero(self.inside(scores)))

    def inside(self, scores: FloatVector) -> BoolVector:
        """Mark the scores in the range; NaN is in none."""
        return (scores >= self.low) & (scores <= self.high)

    def __str__(self) -> str:
        return f"[{self.low:g}, {self.high:g}]"


def floats(column: NDArray[Any]) -> FloatVector | None:
    """Return a column as floats; None when it holds anything but numbers."""
    if column.dtype == np.float64:
        return column
    if column.dtype.kind in "fiub":
        return column.astype(np.float64)
    if column.dtype.kind == "O":
        cells = column.tolist()
        if all(v is None or isinstance(v, _NUMBERS) for v in cells):
            return numbers(column)
    return None

r"""Which point of an estimated ROC curve a threshold gives, and the reverse.

At an edge the counts say it. Inside a bin an estimator draws the curve as functions of
:math:`w = (F + T)/2`, which fixes the curve's shape but not its thresholds. These come
from w itself: it is known at every edge, and PCHIP on the scale of the logit (of the
score where it is no probability) joins its values. Rates at a threshold are then the
curve's rates at w(t), and every point of the curve has a threshold.

The outermost bins of probabilities and logits have no finite logit at their far end. In
them w is a straight line in the probability.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import expit, logit

from discreet.arrays import BoolVector, FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.estimate.curves import Curves, RocPath

if TYPE_CHECKING:
    from scipy.interpolate import PchipInterpolator

_HALVINGS: Final = 60


@dataclass(frozen=True, eq=False)
class ThresholdPath:
    """An ROC curve by threshold: ``fpr`` and ``tpr`` are its rates at ascending edges."""

    edges: Edges
    fpr: FloatVector
    tpr: FloatVector
    path: RocPath

    @classmethod
    def of(cls, curves: Curves, edges: Edges) -> ThresholdPath:
        """Return the thresholds of a curve; edges without a point add no examples."""
        above = np.searchsorted(-curves.thresholds, -edges.array, side="right") - 1
        return cls(edges, curves.fpr[above], curves.tpr[above], curves.roc)

    @cached_property
    def w(self) -> FloatVector:
        """Return (F + T)/2 at each edge, ascending."""
        found: FloatVector = (self.fpr + self.tpr) / 2
        return found

    def at(self, thresholds: FloatVector) -> tuple[FloatVector, FloatVector]:
        """Return F and T when ``score >= threshold`` is positive."""
        k = self._bins(thresholds)
        f, t = self.path.at(self.places(thresholds))
        # The curve passes through its edges' points up to rounding only.
        return (
            np.clip(f, self.fpr[k + 1], self.fpr[k]),
            np.clip(t, self.tpr[k + 1], self.tpr[k]),
        )

    def places(self, thresholds: FloatVector) -> FloatVector:
        """Return w at thresholds."""
        k = self._bins(thresholds)
        found = np.empty(thresholds.shape)
        inner = self._inner[k]
        if inner.any():
            found[inner] = self._joined(self._scale(thresholds[inner]))
        far, k_far = thresholds[~inner], k[~inner]
        low, high = self.w[k_far + 1], self.w[k_far]
        found[~inner] = low + (high - low) * self._share_above(far, k_far)
        return np.clip(found, self.w[k + 1], self.w[k])

    def thresholds(self, places: FloatVector, bins: IntVector) -> FloatVector:
        """Return the thresholds that give places w, each in a known bin."""
        found = np.empty(places.shape)
        inner = self._inner[bins]
        if inner.any():
            found[inner] = self._solved(places[inner], bins[inner])
        k = bins[~inner]
        share = (places[~inner] - self.w[k + 1]) / (self.w[k] - self.w[k + 1])
        found[~inner] = self._cut_at(share, k)
        return np.clip(found, self.edges.array[bins], self.edges.array[bins + 1])

    def _bins(self, thresholds: FloatVector) -> IntVector:
        k = np.searchsorted(self.edges.array, thresholds, side="right") - 1
        return np.clip(k, 0, len(self.edges) - 1).astype(np.int64)

    @cached_property
    def _z(self) -> FloatVector:
        return self._scale(self.edges.array)

    def _scale(self, scores: FloatVector) -> FloatVector:
        if self.edges.scores.kind != "probability":
            return scores
        found: FloatVector = logit(scores)
        return found

    @cached_property
    def _inner(self) -> BoolVector:
        """Say which bins have two finite ends on the scale."""
        known = np.isfinite(self._z)
        found: BoolVector = known[:-1] & known[1:]
        return found

    @cached_property
    def _joined(self) -> PchipInterpolator:
        from scipy.interpolate import PchipInterpolator  # noqa: PLC0415 - slow

        known = np.isfinite(self._z)
        return PchipInterpolator(self._z[known], self.w[known])

    def _solved(self, places: FloatVector, bins: IntVector) -> FloatVector:
        """Invert the falling w(z) by bisection."""
        low, high = self._z[bins], self._z[bins + 1]
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            above = self._joined(middle) >= places
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return expit(low) if self.edges.scores.kind == "probability" else low

    def _share_above(self, t: FloatVector, bins: IntVector) -> FloatVector:
        """Return the share of an outermost bin's w at or above t."""
        edges = self.edges.array
        last = bins == len(self.edges) - 1
        return np.where(
            last,
            self._rest(t) / self._rest(edges[bins]),
            1.0 - self._unit(t) / self._unit(edges[bins + 1]),
        )

    def _cut_at(self, share: FloatVector, bins: IntVector) -> FloatVector:
        """Return the threshold with this share of an outermost bin above it."""
        edges = self.edges.array
        last = bins == len(self.edges) - 1
        rest, unit = (
            share * self._rest(edges[bins]),
            (1.0 - share) * self._unit(edges[bins + 1]),
        )
        high, low = 1.0 - rest, unit
        if self.edges.scores.kind == "logit":
            high, low = -logit(rest), logit(unit)
        found: FloatVector = np.where(last, high, low)
        return found

    def _unit(self, t: FloatVector) -> FloatVector:
        """Return scores as probabilities."""
        found: FloatVector = expit(t) if self.edges.scores.kind == "logit" else t
        return found

    def _rest(self, t: FloatVector) -> FloatVector:
        """Return 1 less the probability, without cancellation."""
        found: FloatVector = expit(-t) if self.edges.scores.kind == "logit" else 1.0 - t
        return found

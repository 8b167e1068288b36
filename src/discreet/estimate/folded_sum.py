r"""The interval of a sum of absolute deviations, such as the expected calibration error.

Each deviation is known up to a normal error, and an absolute value turns every error
upwards: a sum of many is above 0 for a perfect model too, the more so the more terms
there are. How errors of different terms go together decides how far the sum strays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from statistics import NormalDist
from typing import Final

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.estimate.intervals import Ends

_DRAWS: Final = 1000
_SEED: Final = 2026
_HALVINGS: Final = 24
_SURE: Final = 2.0
"""A deviation beyond this many spreads is not taken for scatter."""
_FARTHEST: Final = 2.5
"""So many spreads out draws still show a quantile; beyond it is stretched."""


@dataclass(frozen=True, eq=False)
class FoldedShape:
    r"""The sum of absolute values of deviations with a known covariance of errors.

    Truths of one pattern are tried, from none of it to as much as it takes: a total is
    kept when what would be seen of it, the sum over draws of truth and errors, agrees
    with the value seen (Neyman's construction). The draws are the same for every
    release, so that a release has one interval.

    How much of a value is scatter depends on how the truth is spread over the terms:
    most when few terms hold it all. So the lower end takes the deviations beyond two
    spreads as all there is, the upper end takes the pattern that was seen. The interval
    may lie below the value itself: that much is scatter.

    Deviations that a smooth model found have lost part of their scatter already, an
    unknown part: a value below what scatter would make says nothing then, and the
    interval reaches to the value at least, and ``reach`` z standard errors above it,
    signs kept.
    """

    deviations: FloatVector
    covariance: FloatArray
    reach: float | None = None

    def ends(self, value: float, sampling: float, noise: float, z: float) -> Ends:
        """Solve for the two ends; the covariance holds sampling and noise already."""
        del sampling, noise
        d, own = self.deviations, np.diag(self.covariance)
        surely = np.where(d**2 > _SURE**2 * own, d, 0.0)
        low, high = self._end(surely, value, z), self._end(d, value, -z)
        if self.reach is not None:
            sign = np.sign(d)
            spread = math.sqrt(max(float(sign @ self.covariance @ sign), 0.0))
            high = max(high, value + self.reach * z * spread)
        return min(low, high), high

    @cached_property
    def _errors(self) -> FloatArray:
        """Draws of the errors, one a row."""
        sizes, axes = np.linalg.eigh(self.covariance)
        root = axes * np.sqrt(np.maximum(sizes, 0.0))
        found: FloatArray = _normal(len(self.deviations)) @ root.T
        return found

    def _end(self, pattern: FloatVector, value: float, z: float) -> float:
        """Return the total, spread like the pattern, whose quantile is the value."""
        whole = float(np.abs(pattern).sum())
        if whole <= 0 or self._quantile(0 * pattern, z) >= value:
            return 0.0
        each = pattern / whole
        near, far = 0.0, value
        while self._quantile(far * each, z) < value:
            near, far = far, 2 * far
        for _ in range(_HALVINGS):
            middle = (near + far) / 2
            if self._quantile(middle * each, z) < value:
                near = middle
            else:
                far = middle
        return far

    def _quantile(self, truth: FloatVector, z: float) -> float:
        """Return where the sum seen of a truth lies, z spreads from its middle."""
        sums = np.abs(truth + self._errors).sum(axis=1)
        shown = min(abs(z), _FARTHEST)
        at = float(np.quantile(sums, NormalDist().cdf(math.copysign(shown, z))))
        if abs(z) <= _FARTHEST:
            return at
        middle = float(np.median(sums))
        return middle + (at - middle) * abs(z) / _FARTHEST


@cache
def _normal(terms: int) -> FloatArray:
    rng = np.random.default_rng(_SEED)
    half = rng.standard_normal((_DRAWS // 2, terms))
    found: FloatArray = np.concatenate([half, -half])
    found.setflags(write=False)
    return found

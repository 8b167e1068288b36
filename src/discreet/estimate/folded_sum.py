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
from typing import Final, NamedTuple

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

    How far a value strays depends on how the truth is spread over the terms. Scatter is
    most where few terms hold all of the truth: the lower end takes the deviations d
    beyond two spreads as all there is. The upper end takes what makes so low a value
    less of a surprise: with covariance C and signs s, the pattern

    .. math:: d + C s/\sqrt{s^\top C s},

    the deviations moved by one spread of their sum in the least favourable direction
    (Stein 1956). The deviations alone are too uneven where small ones are scattered, and
    miss a wide term that was seen too small. The interval may lie below the value
    itself: that much is scatter.

    A model that smoothed the deviations took part of their scatter off, an unknown part
    of which is its bias. At the lower end the covariance ``below`` is scatter as the
    rest is. At the upper end nobody may count on a bias to have raised the sum:
    with A the covariance ``above``, :math:`s^\top A s` is the variance of an error that
    shifts the sum and is not turned upwards.
    """

    deviations: FloatVector
    covariance: FloatArray
    below: FloatArray | None = None
    above: FloatArray | None = None
    reaches: bool = False
    """Whether the upper end is the value at least: counts that were held at 0 scatter
    less than their covariance says."""

    def ends(self, value: float, sampling: float, noise: float, z: float) -> Ends:
        """Solve for the two ends; the covariance holds sampling and noise already."""
        del sampling, noise
        d = self.deviations
        scatter = (
            self.covariance if self.below is None else self.covariance + self.below
        )
        surely = np.where(d**2 > _SURE**2 * np.diag(scatter), d, 0.0)
        low = _end(_Law.of(scatter), surely, value, z)
        distribution = _Law.of(self.covariance, self._shift)
        high = _end(distribution, self._unlucky, value, -z)
        if self.reaches:
            high = max(high, value)
        return min(low, high), high

    @cached_property
    def _signs(self) -> FloatVector:
        """Where the deviations point, those of no size upwards."""
        return np.where(self.deviations < 0, -1.0, 1.0)

    @property
    def _shift(self) -> float:
        """Spread of what moves the sum at the upper end and is not turned upwards."""
        if self.above is None:
            return 0.0
        return math.sqrt(max(float(self._signs @ self.above @ self._signs), 0.0))

    @property
    def _unlucky(self) -> FloatVector:
        """The deviations moved by one spread in the least favourable direction."""
        towards = self.covariance @ self._signs
        size = float(self._signs @ towards)
        if size <= 0:
            return self.deviations
        found: FloatVector = self.deviations + towards / math.sqrt(size)
        return found


class _Law(NamedTuple):
    """Draws of errors, one a row, and of what shifts their folded sum."""

    errors: FloatArray
    shifts: FloatVector

    @classmethod
    def of(cls, covariance: FloatArray, shift: float = 0.0) -> _Law:
        sizes, axes = np.linalg.eigh(covariance)
        root = axes * np.sqrt(np.maximum(sizes, 0.0))
        draws = _normal(len(covariance) + 1)
        return cls(draws[:, :-1] @ root.T, shift * draws[:, -1])

    def quantile(self, truth: FloatVector, z: float) -> float:
        """Return where the sum seen of a truth lies, z spreads from its middle."""
        sums = np.abs(truth + self.errors).sum(axis=1) + self.shifts
        shown = min(abs(z), _FARTHEST)
        at = float(np.quantile(sums, NormalDist().cdf(math.copysign(shown, z))))
        if abs(z) <= _FARTHEST:
            return at
        middle = float(np.median(sums))
        return middle + (at - middle) * abs(z) / _FARTHEST


def _end(noise: _Law, pattern: FloatVector, value: float, z: float) -> float:
    """Return the total, spread like the pattern, whose quantile is the value."""
    whole = float(np.abs(pattern).sum())
    if whole <= 0 or noise.quantile(0 * pattern, z) >= value:
        return 0.0
    each = pattern / whole
    near, far = 0.0, value
    while noise.quantile(far * each, z) < value:
        near, far = far, 2 * far
    for _ in range(_HALVINGS):
        middle = (near + far) / 2
        if noise.quantile(middle * each, z) < value:
            near = middle
        else:
            far = middle
    return far


@cache
def _normal(terms: int) -> FloatArray:
    rng = np.random.default_rng(_SEED)
    half = rng.standard_normal((_DRAWS // 2, terms))
    found: FloatArray = np.concatenate([half, -half])
    found.setflags(write=False)
    return found

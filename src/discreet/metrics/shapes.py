"""Shapes of intervals that measures of validation need beside those of rates and areas.

A measure that is a ratio of two rates errs by a factor, not by an amount: its interval
is made on the logarithm's scale. A measure that is folded at zero, such as a mean
distance between two curves, is too large on average by what its scatter adds; draws
of it show by how much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np

from discreet.estimate.intervals import Ends, Shape

_FARTHEST: Final = 100.0
"""A factor of e to this power says nothing; a larger one would not be a number."""


@dataclass(frozen=True, slots=True)
class Logarithmic:
    r"""A positive ratio: :math:`v\,e^{\pm z\sigma/v}`, as for odds ratios (Woolf 1955)."""

    def ends(self, value: float, sampling: float, noise: float, z: float) -> Ends:
        """Return the two ends; a value of 0 has none on this scale, so a normal's."""
        reach = z * math.hypot(sampling, noise)
        if not value > 0:
            return value - reach, value + reach
        factor = math.exp(min(reach / value, _FARTHEST))
        return value / factor, value * factor


LOGARITHMIC: Final = Logarithmic()


@dataclass(frozen=True, slots=True)
class Linear:
    """The shape of a quantity that is a x + b of another, a > 0, such as Gini of AUC."""

    inner: Shape
    factor: float
    offset: float

    def ends(self, value: float, sampling: float, noise: float, z: float) -> Ends:
        """Return the other quantity's ends, mapped."""
        f = self.factor
        x = (value - self.offset) / f
        low, high = self.inner.ends(x, sampling / f, noise / f, z)
        return low * f + self.offset, high * f + self.offset


@dataclass(frozen=True, slots=True)
class Folded:
    r"""A measure that errors can only raise, from draws of it around the estimate.

    With v seen and draws v* of the measure where the estimate is the truth, the
    interval is the reverse percentile's, :math:`[2v - q_{hi}(v^*), 2v - q_{lo}(v^*)]`
    (Davison and Hinkley 1997, section 5.2): what scatter adds is taken off once. The
    lower end is 0 where the draws say that all of v may be scatter.
    """

    draws: tuple[float, ...]

    def ends(self, value: float, sampling: float, noise: float, z: float) -> Ends:
        """Return the ends; the draws hold sampling and noise already."""
        del sampling, noise
        tail = NormalDist().cdf(-z)
        low, high = np.quantile(np.asarray(self.draws), [tail, 1 - tail])
        return max(2 * value - float(high), 0.0), max(2 * value - float(low), 0.0)

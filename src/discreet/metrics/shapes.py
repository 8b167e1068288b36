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

from discreet.arrays import FloatArray, FloatVector
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


@dataclass(frozen=True, eq=False)
class Folded:
    """A measure that errors can only raise, such as a mean distance of two curves.

    Its value at a truth of no distance is above 0, and no normal interval knows that.
    Truths of the estimate's own pattern are tried, from none of it to several times as
    much: ``totals`` is the measure of each, ``draws`` what would be seen of it, sampling
    and noise together. The interval holds the truths that what was seen does not
    contradict, from 0 where all of it may be scatter, and reaches the value itself.
    """

    totals: FloatVector
    draws: FloatArray
    """A row a truth, rising with ``totals``."""

    def ends(self, value: float, sampling: float, noise: float, z: float) -> Ends:
        """Return the ends; the draws hold sampling and noise already."""
        del sampling, noise
        tail = NormalDist().cdf(-z)
        least, most = np.maximum.accumulate(
            np.quantile(self.draws, [tail, 1 - tail], axis=1), axis=1
        )
        low = 0.0
        if value > most[0]:
            low = float(np.interp(value, most, self.totals))
        high = float(np.interp(value, least, self.totals))
        return min(low, value), max(high, value)

r"""Intervals of a released value: noise of a known law convolved with sampling.

The interval holds every A for which the released value v is not in a tail of

.. math:: A + e + \sigma(A) Z,

e the release's noise, Z standard normal, :math:`\sigma(A)` the sampling deviation if A
were the truth: a score-type interval, which keeps its coverage near 0 and 1 where
:math:`v \pm 1.96\,\sigma(v)` does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

import numpy as np
from scipy.special import ndtr

from discreet.arrays import FloatVector
from discreet.curator.grid import ScaledNoise
from discreet.curator.weighted_count import WeightedCount, WeightTable
from discreet.estimate.estimate import Interval

_NODES: Final = 256
"""Quantiles that stand for one law of noise."""
_THIN: Final = 32
_HALVINGS: Final = 50
_ONE_SD: Final = 0.15865525393145707
"""Probability beyond one standard deviation of a normal law."""


class Sampling(Protocol):
    """How far the metric of a sample lies from that of its population."""

    def sd(self, value: float) -> float:
        """Return the standard deviation if this were the population's value."""
        ...


@dataclass(frozen=True, slots=True)
class AucSampling:
    r"""Hanley and McNeil's variance with Newcombe's symmetric size (2006, method 5).

    .. math::
        \frac{A(1-A)}{nm}\Big[1 + \Big(\frac{n+m}{2} - 1\Big)
        \Big(\frac{1-A}{2-A} + \frac{A}{1+A}\Big)\Big]
    """

    positives: float
    negatives: float

    def sd(self, value: float) -> float:
        """Return the standard deviation."""
        n, m = max(self.positives, 1.0), max(self.negatives, 1.0)
        shape = (1.0 - value) / (2.0 - value) + value / (1.0 + value)
        size = 1.0 + ((n + m) / 2.0 - 1.0) * shape
        return math.sqrt(max(value * (1.0 - value) * size / (n * m), 0.0))


@dataclass(frozen=True, slots=True)
class ApSampling:
    r"""The binomial variance :math:`A(1-A)/n` of Boyd, Eng and Page (2013)."""

    positives: float

    def sd(self, value: float) -> float:
        """Return the standard deviation."""
        n = max(self.positives, 1.0)
        return math.sqrt(max(value * (1.0 - value) / n, 0.0))


@dataclass(frozen=True, slots=True)
class NoSampling:
    """Sampling is left out: its size would need the private class counts."""

    def sd(self, value: float) -> float:
        """Return 0."""
        del value
        return 0.0


SamplingLaw: TypeAlias = AucSampling | ApSampling | NoSampling
Source: TypeAlias = Literal["both", "noise", "sampling"]


@dataclass(frozen=True, eq=False)
class ReleasedScalar:
    """A released number, equally likely errors in it, and the sampling law.

    ``errors`` are released minus true values; infinite where the release says
    nothing. ``value`` is the number before it is cut to 0 .. 1.
    """

    value: float
    errors: FloatVector
    sampling: SamplingLaw

    @property
    def noise_sd(self) -> float:
        """Half the width that holds 68% of the noise; it may have no variance."""
        low, high = np.quantile(self.errors, [_ONE_SD, 1.0 - _ONE_SD], method="nearest")
        return float(high - low) / 2.0

    def interval(self, level: float) -> Interval:
        """Return the values that the release does not contradict."""
        outside = (1.0 - level) / 2.0
        return Interval(self._crossing(outside), self._crossing(1.0 - outside))

    def _at_least(self, truth: float) -> float:
        """Return the chance to see this number or a larger one."""
        gap = truth + self.errors - self.value
        sd = self.sampling.sd(truth)
        if sd < 1e-12:
            return float(np.mean((gap > 0) + 0.5 * (gap == 0)))
        return float(np.mean(ndtr(gap / sd)))

    def _crossing(self, chance: float) -> float:
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            if self._at_least(middle) < chance:
                low = middle
            else:
                high = middle
        # An end that was never moved is the end of the support.
        return 0.0 if low == 0.0 else (1.0 if high == 1.0 else low)


def symmetric_errors(noise: ScaledNoise) -> FloatVector:
    """Return equally likely errors of noise of a known scale."""
    tails = (np.arange(_NODES // 2) + 0.5) / _NODES
    half = float(noise.scale) * noise.tail.quantile(tails)
    return np.append(-half, half[::-1])


def weighted_count_errors(
    released: WeightedCount, table: WeightTable
) -> tuple[float, FloatVector]:
    """Return the value of a weighted count before cutting, and its likely errors.

    Every pair of likely noises is taken off the two integers and the value that is
    left compared with the released one.
    """
    tails = (np.arange(_NODES // 4) + 0.5) / (_NODES // 2)
    half = -float(released.scale) * np.log(2.0 * tails)
    noise = np.append(-half, half[::-1])
    code = float(released.code)
    weight = float(table.weights_of(table.counts_of(np.array([code])))[0])
    if weight <= 0:
        return 0.5, np.repeat([-np.inf, np.inf], _NODES // 2)
    value = 0.5 + released.weighted / weight
    weights = table.weights_of(table.counts_of(code - noise))[:, None]
    left = np.tile(released.weighted - noise, (noise.size, 1))
    # A weight of 0 says nothing: the truth may lie anywhere beyond.
    beyond = np.where(left >= 0, np.inf, -np.inf)
    truth = 0.5 + np.divide(left, weights, out=beyond, where=weights > 0)
    # The middle of every 32 neighbours stands for them.
    return value, np.sort((value - truth).ravel())[_THIN // 2 :: _THIN]

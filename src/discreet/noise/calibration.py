"""How much noise a budget asks for: tables of integer noise, and Renyi bounds.

Tables serve accounting and error bars. They never draw noise to release.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, Self

import numpy as np

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.errors import InputError, PlanError
from discreet.statistic.observed import BinCovariance

_NEGLIGIBLE: Final = 1e-60
"""Cells below this are cut off; a table has far fewer than 1e20 cells."""


@dataclass(frozen=True, eq=False)
class SymmetricTable:
    """Probabilities of the integers -reach .. reach; what is cut off is nothing.

    It is also the law of noise that is drawn independently in each cell.
    """

    probabilities: FloatVector

    def __post_init__(self) -> None:
        if self.probabilities.ndim != 1 or self.probabilities.size % 2 == 0:
            raise InputError("a symmetric table has a middle")

    @classmethod
    def from_log_weights(cls, logs: FloatVector) -> Self:
        """Normalise the log weights of 0, 1, 2, ... and mirror them."""
        half = np.exp(logs - logs.max())
        full = np.concatenate([half[:0:-1], half])
        return cls(_trimmed(full / full.sum()))

    @property
    def reach(self) -> int:
        """The largest integer in the table."""
        return self.probabilities.size // 2

    @cached_property
    def variance(self) -> float:
        """The variance of the distribution."""
        k = np.arange(-self.reach, self.reach + 1, dtype=np.float64)
        return float(self.probabilities @ k**2)

    @property
    def scale(self) -> float:
        """The standard deviation."""
        return float(np.sqrt(self.variance))

    def pmf(self, noise: IntVector) -> FloatVector:
        """Return the probability of each integer."""
        inside = np.abs(noise) <= self.reach
        place = np.where(inside, noise, 0) + self.reach
        return np.where(inside, self.probabilities[place], 0.0)

    def times(self, count: int) -> SymmetricTable:
        """Return the distribution of a sum of independent copies.

        Sums of products of positive numbers only: every cell keeps its relative
        precision, which a Fourier transform would lose in the tails.
        """
        if count < 1:
            raise InputError("a sum has at least 1 term")
        result = np.ones(1)
        square = self.probabilities
        while count:
            if count % 2:
                result = _trimmed(np.convolve(result, square))
            count //= 2
            if count:
                square = _trimmed(np.convolve(square, square))
        return SymmetricTable(result)

    def hockey_stick(self, epsilon: float, *, shift: int) -> float:
        r"""Return the exact delta at epsilon when one cell moves by ``shift``.

        .. math:: \delta(\varepsilon) = \sum_x
                  \max\{0,\ p(x) - e^{\varepsilon} p(x - \text{shift})\}

        By symmetry both directions agree.
        """
        p = np.pad(self.probabilities, (0, abs(shift)))
        moved = np.pad(self.probabilities, (abs(shift), 0))
        return float(np.maximum(p - np.exp(epsilon) * moved, 0.0).sum())

    def covariance(self, at: FloatVector) -> BinCovariance:
        """The same variance everywhere, nothing across the classes."""
        return BinCovariance.everywhere(self.variance, at)

    def sample(
        self, at: FloatVector, size: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draw simulated noise."""
        return self.simulate((size, at.size), rng)

    def simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Draw by inversion, fast and *not secretly*: simulation only."""
        running = np.cumsum(self.probabilities)
        place = np.searchsorted(running, rng.random(shape) * running[-1], "right")
        drawn: FloatArray = (place - self.reach).astype(np.float64)
        return drawn


def _trimmed(table: FloatVector) -> FloatVector:
    """Cut negligible cells off both ends."""
    beyond = int(np.argmax(table > _NEGLIGIBLE))  # the first cell that counts
    return table[beyond : table.size - beyond]


RenyiCurve = Callable[[FloatVector], FloatVector]
"""The divergence bound at each order alpha > 1."""

ORDERS: Final[FloatVector] = 1.0 + np.geomspace(1e-2, 1e6, 4000)
"""Real orders: any subset of orders gives a valid bound, a fine one a tight one."""
INTEGER_ORDERS: Final[FloatVector] = np.unique(
    np.round(np.geomspace(2, 1e6, 4000))
).astype(np.float64)

_CAUTION: Final = 1e-9
"""Relative room for the rounding of the bound's own arithmetic."""


def delta_from_renyi(
    epsilon: float, curve: RenyiCurve, *, orders: FloatVector = ORDERS
) -> float:
    r"""Return a delta at which the curve implies (epsilon, delta)-DP.

    Proposition 12 of Canonne, Kamath and Steinke (2020): for every order,

    .. math:: \delta \le \frac{e^{(\alpha-1)(\varepsilon_\alpha-\varepsilon)}}{\alpha}
              \Bigl(1 - \frac1\alpha\Bigr)^{\alpha-1}.
    """
    gap = orders - 1.0
    logs = gap * (curve(orders) - epsilon + np.log(gap / orders)) - np.log(orders)
    return float(min(1.0, math.exp(min(0.0, float(logs.min())))))


def least_variance(
    holds: Callable[[Fraction], bool], *, limit: Fraction = Fraction(2**40)
) -> Fraction:
    """Return a variance at which a claim holds, within 2^-11 of the least one.

    ``holds`` must stay true once it is true. The answer is a fraction with few
    digits, checked itself, so that nothing rests on the search.
    """
    high = Fraction(1, 1024)
    while not holds(high):
        high *= 2
        if high > limit:
            raise PlanError("no noise that can be drawn keeps so small a budget")
    low = high / 2
    step = low / 1024
    first, last = 0, 1024  # low may fail, high holds
    while last - first > 1:
        middle = (first + last) // 2
        if holds(low + middle * step):
            last = middle
        else:
            first = middle
    return low + last * step


def within(delta: float, budget: Fraction) -> bool:
    """Whether a computed delta is inside a budget, with room for its rounding."""
    return delta <= float(budget) * (1.0 - _CAUTION)

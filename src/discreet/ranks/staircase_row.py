r"""Staircase noise on the integers: the least variance that a pure epsilon allows.

Geng and Viswanath (2016), for a sum that moves by at most :math:`\Delta` (integer):
with a width w of 1 .. :math:`\Delta`, the probability of x is proportional to
:math:`e^{-\varepsilon k}`, where k = 0 for :math:`|x| < w` and
:math:`k = 1 + \lfloor (|x| - w)/\Delta \rfloor` beyond. A move by at most
:math:`\Delta` changes k by at most one: the ratio is at most :math:`e^\varepsilon`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.entropy import Entropy
from discreet.errors import PlanError
from discreet.noise.coins import bernoulli_exp_ratio, uniform_below

_BATCH: Final = 64
"""Proposals drawn at once: one call then nearly always suffices."""


@dataclass(frozen=True, slots=True)
class StaircaseNoise:
    """Staircase noise for a sum that moves by at most ``step``."""

    step: int
    width: int
    epsilon: Fraction

    def __post_init__(self) -> None:
        if self.epsilon <= 0:
            raise PlanError("epsilon must be positive")
        if not 1 <= self.width <= self.step:
            raise PlanError("the width of a staircase lies between 1 and its step")

    @classmethod
    def narrowest(cls, step: int, epsilon: Fraction) -> StaircaseNoise:
        """Return the staircase of the least variance."""
        # The middle holds 2w - 1 integers, which is twice the share of the reals.
        width = round(best_width(float(epsilon)) * step + 0.5)
        return cls(step, min(max(width, 1), step), epsilon)

    @property
    def variance(self) -> float:
        """The variance, summed over the levels in closed form."""
        return staircase_variance(self.step, self.width, float(self.epsilon))

    def loss(self, distance: int) -> Fraction:
        """Return the epsilon spent when the sum moves by a distance."""
        return self.epsilon * -(-abs(distance) // self.step)

    def level(self, noise: IntVector) -> IntVector:
        """Return how many steps down each noise value lies."""
        beyond = np.abs(noise) - self.width
        return np.where(beyond < 0, 0, 1 + beyond // self.step)

    def draw(self, entropy: Entropy) -> int:
        """Draw once, with secret bytes; see ``draws``."""
        return int(self.draws(1, entropy)[0])

    def draws(self, size: int, entropy: Entropy) -> IntVector:
        r"""Draw by rejection, with integers only.

        A level k is proposed with probability :math:`(1-b) b^k`,
        :math:`b = e^{-\varepsilon}`, and one of :math:`2\Delta` places uniformly.
        Level 0 keeps its 2w - 1 integers, any other level all its places.
        """
        found = np.zeros(0, dtype=np.int64)
        while found.size < size:
            count = max(_BATCH, 2 * (size - found.size))
            level = self._levels(count, entropy)
            bound = np.full(count, 2 * self.step, dtype=np.uint64)
            place = uniform_below(bound, entropy).astype(np.int64)
            inner = place - (self.width - 1)
            side = np.where(place < self.step, -1, 1)
            outer = self.width + self.step * (level - 1) + place % self.step
            noise = np.where(level == 0, inner, side * outer)
            kept = (level > 0) | (place < 2 * self.width - 1)
            found = np.concatenate([found, noise[kept]])
        return found[:size]

    def _levels(self, size: int, entropy: Entropy) -> IntVector:
        """Count coins of probability exp(-epsilon) until one fails."""
        levels = np.zeros(size, dtype=np.int64)
        running = np.arange(size)
        while running.size:
            top = np.full(running.size, self.epsilon.numerator, dtype=np.int64)
            won = bernoulli_exp_ratio(top, self.epsilon.denominator, entropy)
            running = running[won]
            levels[running] += 1
        return levels


def best_width(epsilon: float) -> float:
    r"""Return the width over the step that has the least variance.

    .. math:: -\frac{b}{1-b} + \frac{(b - 2b^2 + 2b^4 - b^5)^{1/3}}
              {2^{1/3}(1-b)^2}, \qquad b = e^{-\varepsilon}

    (Geng and Viswanath 2016, for the squared error); one half as epsilon goes to 0,
    where the formula cancels.
    """
    if epsilon < 1e-2:
        return 0.5
    b = math.exp(-epsilon)
    root = math.cbrt((b - 2 * b**2 + 2 * b**4 - b**5) / 2)
    return min(max(root / (1 - b) ** 2 - b / (1 - b), 0.0), 1.0)


def staircase_variance(step: int, width: int, epsilon: float) -> float:
    r"""Return the variance of staircase noise.

    Level k >= 1 holds the magnitudes :math:`m_k + j`, j = 0 .. step - 1,
    :math:`m_k = w + \Delta(k-1)`, on both sides. Their squares sum to
    :math:`\Delta m_k^2 + \Delta(\Delta-1) m_k + (\Delta-1)\Delta(2\Delta-1)/6`,
    and :math:`\sum_i b^i, \sum_i i b^i, \sum_i i^2 b^i` (i = k - 1) are elementary.
    """
    d, w = float(step), float(width)
    b, u = math.exp(-epsilon), -math.expm1(-epsilon)
    zeroth, first, second = 1 / u, b / u**2, b * (1 + b) / u**3
    ones = w * w * zeroth + 2 * w * d * first + d * d * second
    line = w * zeroth + d * first
    rest = (d - 1) * d * (2 * d - 1) / 6
    outside = 2 * b * (d * ones + d * (d - 1) * line + rest * zeroth)
    inside = 2 * (w - 1) * w * (2 * w - 1) / 6
    mass = 2 * w - 1 + 2 * d * b / u
    return (inside + outside) / mass


def simulate_staircase(
    step: ArrayLike,
    width: ArrayLike,
    epsilon: ArrayLike,
    size: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Draw staircase noise of one law a column, fast and *not secretly*."""
    d, w, e = (np.asarray(a, dtype=np.float64) for a in (step, width, epsilon))
    shape = (size, d.size)
    outside = 2 * d / np.expm1(e)
    centre = rng.random(shape) * (2 * w - 1 + outside) < 2 * w - 1
    inner = np.floor(rng.random(shape) * (2 * w - 1)) - (w - 1)
    level = np.floor(rng.standard_exponential(shape) / e)
    outer = w + d * level + np.floor(rng.random(shape) * d)
    sign = np.where(rng.random(shape) < 0.5, -1.0, 1.0)
    drawn: FloatArray = np.where(centre, inner, sign * outer)
    return drawn


def staircase_pmf(noise: StaircaseNoise, values: IntVector) -> FloatVector:
    """Return the probability of each integer, for audits."""
    e = float(noise.epsilon)
    mass = 2 * noise.width - 1 + 2 * noise.step / math.expm1(e)
    probability: FloatVector = np.exp(-e * noise.level(values)) / mass
    return probability

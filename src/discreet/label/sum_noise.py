r"""Integer noise on one released sum: Laplace, Gaussian, staircase.

**Gaussian.** The calibration is that of Balle and Wang (2018) for continuous Gaussian
noise, with :math:`\mu^2 = \sum_j \Delta_j^2/\sigma_j^2` over the released sums:

.. math:: \delta(\varepsilon, \mu) = \Phi\Bigl(\frac\mu2 - \frac\varepsilon\mu\Bigr)
          - e^\varepsilon \Phi\Bigl(-\frac\mu2 - \frac\varepsilon\mu\Bigr).

The noise that is drawn is discrete, and covered as follows. A discrete Gaussian
puts :math:`e^{-x^2/2\sigma^2}/Z` on the integer x. By Jensen's inequality the
continuous density integrates to at least :math:`e^{-1/(24\sigma^2)}` times its middle
value over the unit cell around x, and :math:`Z \ge \sqrt{2\pi}\sigma` (Poisson
summation): a discrete probability is at most :math:`e^{1/(24\sigma^2)}` times that
of the cell. The privacy loss is the same linear function of x for both, and changes
within a cell by at most :math:`h = \frac12 \sum_j |\Delta_j|/\sigma_j^2`. So

.. math:: \delta_{discrete}(\varepsilon) \le e^{\sum_j 1/(24\sigma_j^2)}\,
          \delta(\varepsilon - h, \mu),

which is what a mechanism is held to; with sigma in the thousands it costs nothing.

**Staircase.** The least variance that a pure epsilon allows (Geng and Viswanath
2016), for a sum that moves by at most :math:`\Delta` (integer): with a width w of 1 .. :math:`\Delta`, the probability of x is proportional to
:math:`e^{-\varepsilon k}`, where k = 0 for :math:`|x| < w` and
:math:`k = 1 + \lfloor (|x| - w)/\Delta \rfloor` beyond. A move by at most
:math:`\Delta` changes k by at most one: the ratio is at most :math:`e^\varepsilon`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np

from discreet.arrays import IntVector
from discreet.entropy import Entropy
from discreet.errors import PlanError
from discreet.noise.coins import bernoulli_exp_ratio, uniform_below
from discreet.noise.laplace import discrete_laplace

_MAX_NUMERATOR: Final = 2**39
_ROOM: Final = 1.0 - 2.0**-10
"""Calibrated for a little less than the budget: discrete noise needs some."""
_PROPOSALS: Final = 8
_BATCH: Final = 64
"""Proposals drawn at once: one call then nearly always suffices."""


def drawable(scale: Fraction) -> Fraction:
    """Round a scale up to one that the exact sampler can draw.

    More noise than needed is still as private; it is more by at most one
    part in two to the 36th.

    >>> drawable(Fraction(10, 3)) >= Fraction(10, 3)
    True
    """
    if scale <= 0:
        raise PlanError("the scale of the noise must be positive")
    if max(scale.numerator, scale.denominator) < _MAX_NUMERATOR:
        return scale
    spare = math.floor(_MAX_NUMERATOR / scale)
    bits = min(max(0, spare.bit_length() - 2), 39)
    return Fraction(math.ceil(scale * 2**bits), 2**bits)


@dataclass(frozen=True, slots=True)
class LaplaceSumNoise:
    r"""Discrete Laplace noise: :math:`\Pr[x] \propto e^{-|x|/s}` on the integers."""

    scale: Fraction

    @property
    def variance(self) -> float:
        r"""The variance :math:`2a/(1-a)^2`, :math:`a = e^{-1/s}`."""
        inverse = 1.0 / float(self.scale)
        return 2.0 * math.exp(-inverse) / math.expm1(-inverse) ** 2

    def loss(self, distance: int) -> Fraction:
        """Return the epsilon spent when the sum moves by a distance."""
        return Fraction(abs(distance) * self.scale.denominator, self.scale.numerator)

    def draws(self, size: int, entropy: Entropy) -> IntVector:
        """Draw so many times, with secret bytes."""
        return discrete_laplace(self.scale, size, entropy)


@dataclass(frozen=True, slots=True)
class GaussianSumNoise:
    """Discrete Gaussian noise with the parameter sigma squared, an integer."""

    sigma_squared: int

    def __post_init__(self) -> None:
        if self.sigma_squared < 1:
            raise PlanError("the variance of Gaussian noise is at least 1 on a grid")

    @property
    def variance(self) -> float:
        """The variance; for sigma above 1 it is the parameter to ten digits."""
        return float(self.sigma_squared)

    def draws(self, size: int, entropy: Entropy) -> IntVector:
        """Draw so many times, with secret bytes."""
        return np.array([self._draw(entropy) for _ in range(size)], dtype=np.int64)

    def _draw(self, entropy: Entropy) -> int:
        r"""Draw once, with integers of any size.

        Algorithm 3 of Canonne, Kamath and Steinke (2020): discrete Laplace noise Y
        of scale t, t the integer above sigma, is kept with probability
        :math:`\exp(-(|Y| t - \sigma^2)^2 / (2 \sigma^2 t^2))`.
        """
        t = math.isqrt(self.sigma_squared) + 1
        while True:
            for y in discrete_laplace(Fraction(t), _PROPOSALS, entropy).tolist():
                top = (abs(y) * t - self.sigma_squared) ** 2
                if _coin_exp(top, 2 * self.sigma_squared * t * t, entropy):
                    return int(y)


def _coin_exp(numerator: int, denominator: int, entropy: Entropy) -> bool:
    """Flip a coin of probability exp(-numerator/denominator), integers of any size."""
    whole, rest = divmod(numerator, denominator)
    if not _coin_exp_below_one(rest, denominator, entropy):
        return False
    return all(_coin_exp_below_one(1, 1, entropy) for _ in range(whole))


def _coin_exp_below_one(numerator: int, denominator: int, entropy: Entropy) -> bool:
    """Von Neumann's series; see ``discreet.noise.coins.bernoulli_exp``."""
    k = 1
    while _below(denominator * k, entropy) < numerator:
        k += 1
    return k % 2 == 1


def _below(bound: int, entropy: Entropy) -> int:
    """Draw an integer of 0 .. bound - 1, by rejection."""
    bits = bound.bit_length()
    while True:
        drawn = int.from_bytes(entropy((bits + 7) // 8), "big") >> (-bits % 8)
        if drawn < bound:
            return drawn


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the delta of continuous Gaussian noise (Balle and Wang 2018).

    >>> round(gaussian_delta(1.0, 1.0), 4)
    0.1269
    """
    from scipy.special import log_ndtr  # noqa: PLC0415 - slow to import, seldom needed

    if epsilon < 0:
        return 1.0
    upper = float(log_ndtr(mu / 2 - epsilon / mu))
    lower = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    # exp(a) - exp(b) without cancelling more than the two logarithms do.
    return max(0.0, -math.exp(upper) * math.expm1(min(0.0, lower - upper)))


def calibrated_mu(epsilon: Fraction, delta: Fraction) -> float:
    """Return the largest mu at a little less than the budget, by bisection."""
    wanted = float(delta) * _ROOM
    e = float(epsilon) * _ROOM
    low, high = 0.0, 1.0
    while gaussian_delta(e, high) < wanted:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        if gaussian_delta(e, middle) < wanted:
            low = middle
        else:
            high = middle
    if low == 0.0:
        raise PlanError("no Gaussian noise that can be drawn keeps so small a budget")
    return low


def discrete_delta(
    epsilon: float, moves: Sequence[Sequence[int]], noises: Sequence[GaussianSumNoise]
) -> float:
    """Bound the delta of discrete noises over several moves of the sums; see above.

    The largest mu and the largest h are taken apart, so that the bound also holds
    for every move between two of the list.
    """
    variances = [noise.variance for noise in noises]
    mu = max(
        math.sqrt(math.fsum(m * m / v for m, v in zip(move, variances, strict=True)))
        for move in moves
    )
    if mu == 0:
        return 0.0
    h = max(
        math.fsum(abs(m) / v for m, v in zip(move, variances, strict=True)) / 2
        for move in moves
    )
    stretch = math.exp(math.fsum(1 / (24 * v) for v in variances))
    return min(1.0, stretch * gaussian_delta(epsilon - h, mu))


@dataclass(frozen=True, slots=True)
class StaircaseSumNoise:
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
    def narrowest(cls, step: int, epsilon: Fraction) -> StaircaseSumNoise:
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

    def draws(self, size: int, entropy: Entropy) -> IntVector:
        r"""Draw by rejection, with integers only.

        A level k is proposed with probability :math:`(1-b) b^k`,
        :math:`b = e^{-\varepsilon}`, and one of :math:`2\Delta` places uniformly.
        Level 0 keeps its 2w - 1 integers, any other level all its places.
        """
        drawn = np.zeros(0, dtype=np.int64)
        while drawn.size < size:
            count = max(_BATCH, 2 * (size - drawn.size))
            level = self._levels(count, entropy)
            bound = np.full(count, 2 * self.step, dtype=np.uint64)
            place = uniform_below(bound, entropy).astype(np.int64)
            inner = place - (self.width - 1)
            side = np.where(place < self.step, -1, 1)
            outer = self.width + self.step * (level - 1) + place % self.step
            noise = np.where(level == 0, inner, side * outer)
            kept = (level > 0) | (place < 2 * self.width - 1)
            drawn = np.concatenate([drawn, noise[kept]])
        return drawn[:size]

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


RowNoise: TypeAlias = LaplaceSumNoise | StaircaseSumNoise | GaussianSumNoise

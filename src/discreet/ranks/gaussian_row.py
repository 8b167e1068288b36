r"""Gaussian noise on integer sums: its calibration, and exact draws of any size.

The calibration is that of Balle and Wang (2018) for continuous Gaussian noise,
with :math:`\mu^2 = \sum_j \Delta_j^2/\sigma_j^2` over the released sums:

.. math:: \delta(\varepsilon, \mu) = \Phi\Bigl(\frac\mu2 - \frac\varepsilon\mu\Bigr)
          - e^\varepsilon \Phi\Bigl(-\frac\mu2 - \frac\varepsilon\mu\Bigr).

The noise that is drawn is discrete, and covered as follows. A discrete Gaussian
puts :math:`e^{-x^2/2\sigma^2}/Z` on the integer x. By Jensen's inequality the
continuous density integrates to at least :math:`e^{-1/(24\sigma^2)}` times its middle
value over the unit cell around x, and :math:`Z \ge \sqrt{2\pi}\sigma` (Poisson
summation): a discrete probability is at most :math:`e^{1/(24\sigma^2)}` times that
of the cell. The privacy loss is the same linear function of x for both laws, and
changes within a cell by at most :math:`h = \frac12 \sum_j |\Delta_j|/\sigma_j^2`. So

.. math:: \delta_{discrete}(\varepsilon) \le e^{\sum_j 1/(24\sigma_j^2)}\,
          \delta(\varepsilon - h, \mu),

which is what a mechanism is held to; with sigma in the thousands it costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from discreet.arrays import FloatArray
from discreet.entropy import Entropy
from discreet.errors import PlanError
from discreet.noise.laplace import discrete_laplace

ROOM: Final = 1.0 - 2.0**-10
"""Calibrated for a little less than the budget: the discrete law needs some."""
_PROPOSALS: Final = 8


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """Discrete Gaussian noise with the parameter sigma squared, an integer."""

    sigma_squared: int

    def __post_init__(self) -> None:
        if self.sigma_squared < 1:
            raise PlanError("the variance of Gaussian noise is at least 1 on a grid")

    @property
    def variance(self) -> float:
        """The variance; for sigma above 1 it is the parameter to ten digits."""
        return float(self.sigma_squared)

    def draw(self, entropy: Entropy) -> int:
        r"""Draw once, with secret bytes and integers of any size.

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
    """Flip a coin of probability exp(-numerator/denominator)."""
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
    if epsilon < 0:
        return 1.0
    upper = float(log_ndtr(mu / 2 - epsilon / mu))
    lower = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    # exp(a) - exp(b) without cancelling more than the two logarithms do.
    return max(0.0, -math.exp(upper) * math.expm1(min(0.0, lower - upper)))


def calibrated_mu(epsilon: Fraction, delta: Fraction) -> float:
    """Return the largest mu at a little less than the budget, by bisection."""
    wanted = float(delta) * ROOM
    e = float(epsilon) * ROOM
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
    epsilon: float, moves: Sequence[Sequence[int]], noises: Sequence[GaussianNoise]
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


def simulate_gaussian(
    sigma_squared: ArrayLike, shape: tuple[int, ...], rng: np.random.Generator
) -> FloatArray:
    """Draw the nearest integers to normal variables, fast and *not secretly*."""
    sd = np.sqrt(np.asarray(sigma_squared, dtype=np.float64))
    drawn: FloatArray = np.rint(rng.standard_normal(shape) * sd)
    return drawn

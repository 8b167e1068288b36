"""Discrete Gaussian noise, exact and vectorised, and shares of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.entropy import Entropy
from discreet.errors import PlanError
from discreet.noise.bernoulli import bernoulli_exp_parts
from discreet.noise.laplace import discrete_laplace
from discreet.noise.renyi import delta_from_renyi, least_variance, within
from discreet.noise.shares import check_contributors, check_honest
from discreet.noise.stream import stretched
from discreet.noise.table import SymmetricTable
from discreet.privacy.loss import ZCDP, ApproxDP, Loss
from discreet.privacy.unit import Sensitivity

_MAX_DENOMINATOR: Final = 2**52
"""Keeps sigma below some thousands, and squares of 60 sigma within 63 bits."""
_MAX_ROOT: Final = 3 * 10**9
"""Squares of integers up to this fit 63 bits."""


def discrete_gaussian(variance: Fraction, size: int, entropy: Entropy) -> IntVector:
    r"""Draw from the discrete Gaussian distribution with secret bytes.

    .. math:: \Pr[X = x] \propto e^{-x^2/(2\sigma^2)}, \qquad x \in \mathbb Z.

    Algorithm 3 of Canonne, Kamath and Steinke (2020) on whole arrays: with t the
    integer above sigma, Y discrete Laplace of scale t, accepted with probability
    :math:`\exp(-(|Y| - \sigma^2/t)^2 / (2\sigma^2))`. ``variance`` is the
    parameter sigma squared; the distribution's own variance is a little less.
    """
    if variance <= 0:
        raise PlanError("the variance of the noise must be positive")
    p, q = variance.numerator, variance.denominator
    t = math.isqrt(p // q) + 1
    if 2 * p * q * t * t >= _MAX_DENOMINATOR:
        raise PlanError("the variance of the noise is too large or has too many digits")
    accepted = np.zeros(0, dtype=np.int64)
    while accepted.size < size:
        # More than are missing: rounds over a few cells cost more than draws.
        y = discrete_laplace(Fraction(t), 2 * (size - accepted.size) + 32, entropy)
        whole, rest = _exponent(np.abs(y), p, q, t)
        kept = bernoulli_exp_parts(whole, rest, 2 * p * q * t * t, entropy)
        accepted = np.concatenate([accepted, y[kept]])
    return accepted[:size]


def _exponent(
    distance: IntVector, p: int, q: int, t: int
) -> tuple[IntVector, IntVector]:
    """Divide (distance t q - p)^2 by 2 p q t^2, with whole part and remainder."""
    denominator = 2 * p * q * t * t
    if int(distance.max(initial=0)) * t * q < _MAX_ROOT:
        whole, rest = np.divmod((distance * (t * q) - p) ** 2, denominator)
        return whole, rest
    # More than 60 sigma out, so that a square may not fit.
    pairs = [divmod((d * t * q - p) ** 2, denominator) for d in distance.tolist()]
    most = np.iinfo(np.int64).max
    # A coin of probability e^-whole beyond that many flips is never finished.
    whole = np.array([min(w, most) for w, _ in pairs], dtype=np.int64)
    return whole, np.array([r for _, r in pairs], dtype=np.int64)


@lru_cache(maxsize=64)
def gaussian_table(variance: Fraction) -> SymmetricTable:
    """Return the probabilities of one discrete Gaussian share."""
    sigma = math.sqrt(variance)
    x = np.arange(math.ceil(17.0 * sigma) + 2, dtype=np.float64)
    return SymmetricTable.from_log_weights(-(x**2) / (2.0 * float(variance)))


@dataclass(frozen=True, slots=True)
class GaussianShares:
    r"""Each site adds a discrete Gaussian share to each of its counts.

    A sum of n shares is nearly, not exactly, discrete Gaussian. The parameter of
    a share is the least at which the budget is kept by the ``honest`` shares
    alone (min_survivors minus colluders):

    - a single cell that moves by 1 (L1 sensitivity 1), (epsilon, delta): the
      exact delta of the sum, from its table of probabilities;
    - else the Renyi bound of Kairouz, Liu and Steinke (2021) for
      :math:`\sigma \ge 1/2`, with :math:`\tau = 10 \sum_{k<n} e^{-2\pi^2\sigma^2
      k/(k+1)}`: the least of :math:`\frac{\alpha}{2} \frac{\Delta_2^2}{n\sigma^2}
      + \tau d`, :math:`\frac{\alpha}{2} (\frac{\Delta_2^2}{n\sigma^2} +
      \frac{2\tau\Delta_1}{\sqrt n\,\sigma} + \tau^2 d)` and :math:`\frac{\alpha}{2}
      (\frac{\Delta_2}{\sqrt n\,\sigma} + \tau\sqrt d)^2`, where d is not the
      number of cells but of those that one unit can touch, at most
      :math:`\Delta_1`: the noise of all others is the same on both sides.
    """

    budget: ApproxDP | ZCDP
    sensitivity: Sensitivity
    honest: int

    def __post_init__(self) -> None:
        check_honest(self.honest)

    @property
    def variance(self) -> Fraction:
        """The parameter sigma squared of one share."""
        return _calibrated(self.budget, self.sensitivity, self.honest)

    def protect(self, exact: IntVector, *, entropy: Entropy) -> IntVector:
        """Return the counts with this site's share of the noise."""
        return exact + discrete_gaussian(self.variance, exact.size, stretched(entropy))

    def loss(self) -> Loss:
        """The whole budget, once, for the opened sum."""
        return self.budget

    def decode(self, total: IntVector, contributors: int) -> FloatVector:
        """The noise has mean zero: nothing to undo."""
        check_contributors(contributors, self.honest)
        return total.astype(np.float64)

    def law(self, contributors: int) -> SymmetricTable:
        """Return the law of the noise in a sum of that many shares."""
        check_contributors(contributors, self.honest)
        return gaussian_table(self.variance).times(contributors)


@lru_cache(maxsize=64)
def _calibrated(
    budget: ApproxDP | ZCDP, sensitivity: Sensitivity, honest: int
) -> Fraction:
    """Return the least share parameter at which the budget is kept."""
    match budget:
        case ZCDP(rho):
            return least_variance(
                lambda v: (
                    sum_of_gaussians_rho(v, sensitivity, honest) <= float(rho) * _ROOM
                )
            )
        case ApproxDP(epsilon, delta) if sensitivity.l1 == 1:
            return least_variance(
                lambda v: within(_exact_delta(v, honest, float(epsilon)), delta)
            )
        case ApproxDP(epsilon, delta):
            return least_variance(
                lambda v: within(
                    sum_of_gaussians_delta(v, sensitivity, honest, float(epsilon)),
                    delta,
                )
            )


_ROOM: Final = 1.0 - 1e-9


def _exact_delta(variance: Fraction, honest: int, epsilon: float) -> float:
    return gaussian_table(variance).times(honest).hockey_stick(epsilon, shift=1)


def _tau(variance: float, honest: int) -> float:
    k = np.arange(1, honest, dtype=np.float64)
    return float(10.0 * np.exp(-2.0 * math.pi**2 * variance * k / (k + 1.0)).sum())


def sum_of_gaussians_rho(
    variance: Fraction, sensitivity: Sensitivity, honest: int
) -> float:
    """Return the zCDP bound of the sum of discrete Gaussian shares."""
    if 4 * variance < 1:
        return math.inf
    tau = _tau(float(variance), honest)
    cells = sensitivity.l1
    total = float(honest * variance)
    joint = sensitivity.l2_squared / total
    mixed = joint + 2.0 * tau * sensitivity.l1 / math.sqrt(total) + tau**2 * cells
    apart = (math.sqrt(joint) + tau * math.sqrt(cells)) ** 2
    return 0.5 * min(mixed, apart)


def sum_of_gaussians_delta(
    variance: Fraction, sensitivity: Sensitivity, honest: int, epsilon: float
) -> float:
    """Return a delta of the sum of discrete Gaussian shares, from its Renyi bound."""
    if 4 * variance < 1:
        return 1.0
    rho = sum_of_gaussians_rho(variance, sensitivity, honest)
    plain = sensitivity.l2_squared / (2.0 * float(honest * variance))
    constant = _tau(float(variance), honest) * sensitivity.l1
    return delta_from_renyi(
        epsilon, lambda order: np.minimum(order * rho, order * plain + constant)
    )

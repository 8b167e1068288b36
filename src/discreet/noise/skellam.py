"""Skellam shares: noise whose sums are again Skellam, exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.entropy import Entropy
from discreet.errors import PlanError
from discreet.noise.calibration import (
    INTEGER_ORDERS,
    SymmetricTable,
    delta_from_renyi,
    least_variance,
    within,
)
from discreet.noise.coins import stretched
from discreet.noise.mechanism import AdditiveNoise, check_contributors, check_honest
from discreet.noise.poisson import poisson
from discreet.privacy.loss import ApproxDP, Loss
from discreet.privacy.unit import Sensitivity


def skellam(variance: Fraction, size: int, entropy: Entropy) -> IntVector:
    r"""Draw the difference of two Poisson counts of mean variance/2, exactly.

    .. math:: \Pr[X = x] = e^{-v} I_{|x|}(v), \qquad v = \text{variance}.
    """
    if variance <= 0:
        raise PlanError("the variance of the noise must be positive")
    each = poisson(variance / 2, 2 * size, entropy)
    return each[:size] - each[size:]


@lru_cache(maxsize=64)
def skellam_table(variance: Fraction) -> SymmetricTable:
    r"""Return the probabilities of the Skellam distribution.

    The ratios of successive Bessel functions obey :math:`I_{k-1}/I_k = 2k/v +
    I_{k+1}/I_k`; taken downwards from far out, every error shrinks.
    """
    v = float(variance)
    reach = math.ceil(18.0 * math.sqrt(v)) + 60
    logs = np.zeros(reach)
    ratio = 0.0  # I_{k+1}/I_k, nothing far out
    for k in range(2 * reach, 0, -1):
        ratio = 1.0 / (2.0 * k / v + ratio)
        if k < reach:
            logs[k] = math.log(ratio)
    return SymmetricTable.from_log_weights(np.cumsum(logs))


@dataclass(frozen=True, slots=True)
class SkellamShares(AdditiveNoise):
    r"""Each site adds a Skellam share to each of its counts.

    The sum of the ``honest`` shares (min_survivors minus colluders) is Skellam of
    ``honest`` times the variance, exactly, however small a share is: so it suits
    many sites, where discrete Gaussian shares do not add up to one. The variance
    is the least at which the budget is kept by these shares alone:

    - a single cell that moves by 1 (L1 sensitivity 1): the exact delta, from the
      table of probabilities;
    - else the Renyi bound of Agarwal, Kairouz and Liu (2021) at
      integer orders: :math:`\varepsilon_\alpha \le \frac{\alpha\Delta_2^2}{2v} +
      \min\bigl\{\frac{(2\alpha-1)\Delta_2^2 + 6\Delta_1}{4v^2},
      \frac{3\Delta_1}{2v}\bigr\}`, v the variance of the sum.
    """

    budget: ApproxDP
    sensitivity: Sensitivity
    honest: int

    def __post_init__(self) -> None:
        check_honest(self.honest)

    @property
    def variance(self) -> Fraction:
        """The variance of one share."""
        return _calibrated(self.budget, self.sensitivity) / self.honest

    def protect(self, exact: IntVector, *, entropy: Entropy) -> IntVector:
        """Return the counts with this site's share of the noise."""
        return exact + skellam(self.variance, exact.size, stretched(entropy))

    def loss(self) -> Loss:
        """The whole budget, once, for the opened sum."""
        return self.budget

    def noise(self, contributors: int) -> SymmetricTable:
        """Return the law of the noise in a sum of that many shares."""
        check_contributors(contributors, self.honest)
        return skellam_table(self.variance * contributors)


@lru_cache(maxsize=64)
def _calibrated(budget: ApproxDP, sensitivity: Sensitivity) -> Fraction:
    """Return the least variance of the honest sum at which the budget is kept."""
    epsilon = float(budget.epsilon)

    def delta(variance: Fraction) -> float:
        if sensitivity.l1 == 1:
            return skellam_table(variance).hockey_stick(epsilon, shift=1)
        return skellam_delta(variance, sensitivity, epsilon)

    return least_variance(lambda v: within(delta(v), budget.delta))


def skellam_delta(
    variance: Fraction, sensitivity: Sensitivity, epsilon: float
) -> float:
    """Return a delta of Skellam noise from its Renyi bound."""
    return delta_from_renyi(
        epsilon,
        lambda order: skellam_renyi(order, float(variance), sensitivity),
        orders=INTEGER_ORDERS,
    )


def skellam_renyi(
    order: FloatVector, variance: float, sensitivity: Sensitivity
) -> FloatVector:
    """Return the Renyi bound at integer orders; see ``SkellamShares``."""
    l1, l2_squared = sensitivity.l1, sensitivity.l2_squared
    near = ((2.0 * order - 1.0) * l2_squared + 6.0 * l1) / (4.0 * variance**2)
    far = 3.0 * l1 / (2.0 * variance)
    bound: FloatVector = order * l2_squared / (2.0 * variance)
    bound += np.minimum(near, far)
    return bound

"""Skellam shares: noise whose sums are again Skellam, exactly, and its calibration.

Tables of probabilities serve accounting and error bars. They never draw noise to release.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final

import numpy as np

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.entropy import Entropy
from discreet.errors import InputError, PlanError
from discreet.noise.coins import poisson, stretched
from discreet.noise.mechanism import (
    AdditiveNoise,
    IndependentNoise,
    check_contributors,
    check_honest,
)
from discreet.privacy.loss import ApproxDP
from discreet.privacy.unit import Sensitivity

ORDERS: Final[FloatVector] = np.unique(np.round(np.geomspace(2, 1e6, 4000)))
"""Renyi orders. Integers, as Skellam's bound needs them; any subset is valid."""
_MOST_VARIANCE: Final = 2**40
_NEGLIGIBLE: Final = 1e-60
"""Cells below this are cut off; a table has far fewer than 1e20 cells."""
_CAUTION: Final = 1e-9
"""Relative room for the rounding of the bound's own arithmetic."""


def skellam(variance: Fraction, size: int, entropy: Entropy) -> IntVector:
    r"""Draw the difference of two Poisson counts of mean variance/2, exactly.

    .. math:: \Pr[X = x] = e^{-v} I_{|x|}(v), \qquad v = \text{variance}.
    """
    if variance <= 0:
        raise PlanError("the variance of the noise must be positive")
    each = poisson(variance / 2, 2 * size, entropy)
    return each[:size] - each[size:]


@dataclass(frozen=True, eq=False)
class SymmetricTable(IndependentNoise):
    """Probabilities of the integers -reach .. reach; what is cut off is nothing."""

    probabilities: FloatVector

    def __post_init__(self) -> None:
        if self.probabilities.ndim != 1 or self.probabilities.size % 2 == 0:
            raise InputError("a symmetric table has a middle")

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

    def hockey_stick(self, epsilon: float, *, shift: int) -> float:
        r"""Return the exact delta at epsilon when one cell moves by ``shift``.

        .. math:: \delta(\varepsilon) = \sum_x
                  \max\{0,\ p(x) - e^{\varepsilon} p(x - \text{shift})\}

        By symmetry both directions agree.
        """
        p = np.pad(self.probabilities, (0, abs(shift)))
        moved = np.pad(self.probabilities, (abs(shift), 0))
        return float(np.maximum(p - np.exp(epsilon) * moved, 0.0).sum())

    def simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Draw by inversion, fast and *not secretly*: simulation only."""
        running = np.cumsum(self.probabilities)
        place = np.searchsorted(running, rng.random(shape) * running[-1], "right")
        drawn: FloatArray = (place - self.reach).astype(np.float64)
        return drawn


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
    weights = np.cumsum(logs)
    half = np.exp(weights - weights.max())
    full = np.concatenate([half[:0:-1], half])
    table = full / full.sum()
    beyond = int(np.argmax(table > _NEGLIGIBLE))  # the first cell that counts
    return SymmetricTable(table[beyond : table.size - beyond])


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

    def noise(self, contributors: int) -> SymmetricTable:
        """Return the distribution of the noise in a sum of that many shares."""
        check_contributors(contributors, self.honest)
        return skellam_table(self.variance * contributors)


@lru_cache(maxsize=64)
def _calibrated(budget: ApproxDP, sensitivity: Sensitivity) -> Fraction:
    """Return the least variance of the honest sum at which the budget is kept."""
    epsilon = float(budget.epsilon)

    def delta(variance: Fraction) -> float:
        if sensitivity.l1 == 1:
            return skellam_table(variance).hockey_stick(epsilon, shift=1)
        bound = skellam_renyi(ORDERS, float(variance), sensitivity)
        return delta_from_renyi(epsilon, bound)

    return least_variance(lambda v: within(delta(v), budget.delta))


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


def delta_from_renyi(epsilon: float, divergences: FloatVector) -> float:
    r"""Return a delta at which divergences at ``ORDERS`` imply (epsilon, delta)-DP.

    Proposition 12 of Canonne, Kamath and Steinke (2020): for every order
    :math:`\alpha > 1` with the divergence bound :math:`\varepsilon_\alpha`,

    .. math:: \delta \le \frac{e^{(\alpha-1)(\varepsilon_\alpha-\varepsilon)}}{\alpha}
              \Bigl(1 - \frac1\alpha\Bigr)^{\alpha-1}.
    """
    gap = ORDERS - 1.0
    logs = gap * (divergences - epsilon + np.log(gap / ORDERS)) - np.log(ORDERS)
    return float(min(1.0, math.exp(min(0.0, float(logs.min())))))


def least_variance(holds: Callable[[Fraction], bool]) -> Fraction:
    """Return a variance at which a claim holds, within 2^-11 of the least one.

    ``holds`` must stay true once it is true. The answer is a fraction with few
    digits, checked itself, so that nothing rests on the search.
    """
    high = Fraction(1, 1024)
    while not holds(high):
        high *= 2
        if high > _MOST_VARIANCE:
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

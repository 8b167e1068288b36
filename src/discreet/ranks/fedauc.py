r"""The Laplace and Gaussian mechanisms of Sun et al. (2022), section 5.

- ``global_noise`` (section N): every site takes M - 1 as the sensitivity of S.
- ``local_noise`` (section 5.2): a site takes its own greatest rank. Both split the
  budget, a share alpha for S and the rest for P.
- ``orthogonal_noise`` (section 5.3): :math:`r = u' + v'` with u' the site's mean
  rank; P gets a share beta and :math:`V = \sum v'_i y_i` the rest, and
  :math:`S = u' P + V`, so that the draw for P serves both sums. Where all ranks of
  a site agree v' is zero, and P gets everything.
- ``adaptive_share``: beta of the least variance of S,
  :math:`u^{2/3}/(u^{2/3} + v^{2/3})` for Laplace noise, with u and v the largest
  entries of u' and v'. For Gaussian noise the same argument gives u/(u + v).

The paper's noise is real-valued. Here the weights are integers on a grid so fine that
the law is the same to three digits. A share of a Gaussian budget is a share of
:math:`\mu^2` (see :mod:`discreet.ranks.gaussian_row`), which wastes nothing.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from discreet.errors import PlanError
from discreet.privacy.loss import ApproxDP, PureDP
from discreet.ranks.gaussian_row import GaussianNoise, calibrated_mu
from discreet.ranks.laplace_row import LaplaceNoise, drawable
from discreet.ranks.linear import Budget, LinearSums, Row
from discreet.ranks.ranks import SiteRanks

CENTRE_STEPS: Final = 8
"""Centres of ranks are multiples of an eighth of a doubled rank."""
SHARE_STEPS: Final = 10_000
"""Shares of a budget are multiples of one in that many."""
FINE: Final = 2**16
"""The least weight of the heaviest example: noise is then nearly continuous."""


def noisy_row(
    slope: int, offset: int, heaviest: int, budget: Budget, share: Fraction
) -> Row:
    """Return a sum whose weights are at most ``heaviest``, with its share of budget."""
    factor = -(-FINE // max(heaviest, 1))
    top = factor * max(heaviest, 1)
    match budget:
        case PureDP(epsilon):
            scale = drawable(Fraction(top) / (share * epsilon))
            return Row(factor * slope, factor * offset, LaplaceNoise(scale))
        case ApproxDP(epsilon, delta):
            mu = calibrated_mu(epsilon, delta)
            sigma_squared = math.ceil(top * top / (float(share) * mu * mu))
            noise = GaussianNoise(sigma_squared)
            return Row(factor * slope, factor * offset, noise)


def _split(share: Fraction) -> tuple[Fraction, Fraction]:
    if not 0 < share < 1:
        raise PlanError("a share of the budget lies strictly between 0 and 1")
    return share, 1 - share


def _two_sums(
    ranks: SiteRanks, greatest: int, budget: Budget, alpha: Fraction
) -> LinearSums:
    for_sum, for_count = _split(alpha)
    if not len(ranks):
        return LinearSums(ranks, (), budget)
    sum_row = noisy_row(1, 0, greatest, budget, for_sum)
    count_row = noisy_row(0, 1, 1, budget, for_count)
    return LinearSums(ranks, (sum_row, count_row), budget)


def global_noise(
    ranks: SiteRanks, budget: Budget, *, alpha: Fraction = Fraction(1, 2)
) -> LinearSums:
    """Noise for the greatest rank that any example could have."""
    return _two_sums(ranks, max(ranks.top, 1), budget, alpha)


def local_noise(
    ranks: SiteRanks, budget: Budget, *, alpha: Fraction = Fraction(1, 2)
) -> LinearSums:
    """Noise for the greatest rank of this site."""
    return _two_sums(ranks, max(ranks.high, 1) if len(ranks) else 1, budget, alpha)


def mean_centre(ranks: SiteRanks) -> int:
    """Return the mean doubled rank, in eighths, rounded."""
    total = int(ranks.doubled.sum())
    return round(Fraction(CENTRE_STEPS * total, len(ranks)))


def orthogonal_noise(
    ranks: SiteRanks, budget: Budget, *, beta: Fraction, centre: int
) -> LinearSums:
    """Noise on P and on the sum of what is left of the ranks around a centre.

    The centre may be any public number, in eighths of a doubled rank; the paper's
    is the mean.
    """
    if not len(ranks):
        return LinearSums(ranks, (), budget)
    spread = spread_around(ranks, centre)
    if not spread:
        return one_count(ranks, budget)
    for_count, for_rest = _split(beta)
    count_row = noisy_row(0, 1, 1, budget, for_count)
    rest_row = noisy_row(CENTRE_STEPS, -centre, spread, budget, for_rest)
    return LinearSums(ranks, (count_row, rest_row), budget)


def one_count(ranks: SiteRanks, budget: Budget) -> LinearSums:
    """All ranks agree: one noisy count gives both sums."""
    row = noisy_row(0, 1, 1, budget, Fraction(1))
    return LinearSums(ranks, (row,), budget)


def spread_around(ranks: SiteRanks, centre: int) -> int:
    """Return the largest distance of a rank from a centre, in eighths."""
    ends = (ranks.low, ranks.high)
    return max(abs(CENTRE_STEPS * end - centre) for end in ends)


def adaptive_share(ranks: SiteRanks, budget: Budget) -> Fraction:
    """Return the share of P at which S has the least variance."""
    if not len(ranks):
        return Fraction(1)
    centre = mean_centre(ranks)
    u, v = float(centre), float(spread_around(ranks, centre))
    if v == 0:
        return Fraction(1)
    power = 2 / 3 if isinstance(budget, PureDP) else 1.0
    beta = u**power / (u**power + v**power)
    steps = min(max(round(beta * SHARE_STEPS), 1), SHARE_STEPS - 1)
    return Fraction(steps, SHARE_STEPS)


def adaptive_noise(ranks: SiteRanks, budget: Budget) -> LinearSums:
    """Noise by the paper's adaptive allocation, without anything to tune."""
    centre = mean_centre(ranks) if len(ranks) else 0
    share = adaptive_share(ranks, budget)
    return orthogonal_noise(ranks, budget, beta=share, centre=centre)

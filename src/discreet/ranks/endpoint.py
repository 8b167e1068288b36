r"""The endpoint mechanism: two sums whose budget need not be split.

With w running from 0 at a site's lowest rank to 1 at its highest one, release
:math:`W_1 = \sum w_i y_i` and :math:`W_0 = \sum (1 - w_i) y_i`. A flipped label moves
them by w and 1 - w: by exactly 1 *together*, in L1. So each gets noise for the
whole epsilon, and :math:`P = W_1 + W_0`, :math:`S = r_{max} W_1 + r_{min} W_0`.

On doubled ranks the weights :math:`R - R_{min}` and :math:`R_{max} - R` are
integers already: the grid is the range of the ranks, and nothing is rounded.
"""

from __future__ import annotations

from fractions import Fraction

from discreet.errors import PlanError
from discreet.privacy.loss import ApproxDP, PureDP
from discreet.ranks.fedauc import noisy_row, one_count
from discreet.ranks.laplace_row import LaplaceNoise, drawable
from discreet.ranks.linear import Budget, LinearSums, Row
from discreet.ranks.ranks import SiteRanks


def endpoint(ranks: SiteRanks, budget: Budget) -> LinearSums:
    """Weigh a site's positives towards the two ends of its own ranks."""
    if not len(ranks):
        return LinearSums(ranks, (), budget)
    if ranks.low == ranks.high:
        return one_count(ranks, budget)
    return LinearSums(ranks, endpoint_rows(ranks.low, ranks.high, budget), budget)


def endpoint_rows(low: int, high: int, budget: Budget) -> tuple[Row, Row]:
    """Return the two sums between two doubled ranks.

    Their noise is that of one sum that moves by the whole range: the joint L1
    sensitivity. For Gaussian noise the joint L2 sensitivity is the same, reached at
    the two ends.
    """
    if low >= high:
        raise PlanError("the two ends of the ranks must differ")
    reach = high - low
    match budget:
        case PureDP(epsilon):
            noise = LaplaceNoise(drawable(Fraction(reach) / epsilon))
            return Row(1, -low, noise), Row(-1, high, noise)
        case ApproxDP():
            whole = Fraction(1)
            upper = noisy_row(1, -low, reach, budget, whole)
            return upper, noisy_row(-1, high, reach, budget, whole)

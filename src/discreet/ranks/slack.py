r"""The slack mechanism: weigh P by what the rank sum leaves of the budget.

With a centre c', :math:`T = S - c'P` moves by :math:`|r - c'|`, at most d, reached at
the far end of the site's ranks. An example near the centre leaves most of the
budget unused; a second sum takes it up. Release

.. math:: (1 - \tau)\,T/d \quad\text{and}\quad \sum b(r_i)\,y_i,

b linear with :math:`b(far) = \tau` and :math:`b(near) = 1 - (1-\tau)\,d_n/d`, where
d_n is the distance of the near end. Each gets noise for the whole epsilon: the joint
L1 move :math:`(1-\tau)|r - c'|/d + b(r)` is 1 at both ends, and convex between them.
The endpoint mechanism is the case c' = lowest rank, tau = 0.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np

from discreet.arrays import FloatArray
from discreet.errors import PlanError
from discreet.privacy.loss import PureDP
from discreet.ranks.fedauc import CENTRE_STEPS, one_count, spread_around
from discreet.ranks.laplace_row import LaplaceNoise, drawable
from discreet.ranks.linear import LinearSums, Row
from discreet.ranks.ranks import SiteRanks

_GRID: Final = 2**30
"""The weight of the far end is at least this: the slope of b is rounded on it."""


def slack(
    ranks: SiteRanks, budget: PureDP, *, centre: int, tau: Fraction
) -> LinearSums:
    """Release T and the slack; the centre is in eighths of a doubled rank.

    The slope of b is rounded to an integer. The noise is sized by what the rounded
    weights really move, so this costs a thousandth of accuracy and no privacy.
    """
    if not 0 <= tau < 1:
        raise PlanError("tau lies in [0, 1)")
    if not len(ranks):
        return LinearSums(ranks, (), budget)
    if ranks.low == ranks.high:
        return one_count(ranks, budget)
    d = spread_around(ranks, centre)
    high_is_far = abs(CENTRE_STEPS * ranks.high - centre) == d
    far, near = (ranks.high, ranks.low) if high_is_far else (ranks.low, ranks.high)
    d_near = abs(CENTRE_STEPS * near - centre)
    factor = -(-_GRID // d)
    whole = factor * d / (1 - tau)  # the weight that stands for 1
    at_far, at_near = tau, 1 - (1 - tau) * Fraction(d_near, d)
    slope = round(whole * (at_far - at_near) / (far - near))
    offset = round(whole * at_far - slope * far)

    rank_weights = (factor * CENTRE_STEPS, -factor * centre)
    moves = [
        abs(rank_weights[0] * end + rank_weights[1]) + abs(slope * end + offset)
        for end in (far, near)
    ]
    noise = LaplaceNoise(drawable(Fraction(max(moves)) / budget.epsilon))
    rows = (Row(*rank_weights, noise), Row(slope, offset, noise))
    return LinearSums(ranks, rows, budget)


def predicted_slack(
    low: FloatArray,
    high: FloatArray,
    *,
    centre: FloatArray,
    tau: FloatArray,
    epsilon: float,
    prior_mean: float,
    prior_sd: float,
) -> FloatArray:
    r"""Return the expected variance of S - cP for a random c, ranks as floats.

    With :math:`\beta = b(c')`, b_1 the slope of b, and x = (c' - c)/beta, the error
    is :math:`(1 - x b_1) e_T + x\,e_2`: its variance is :math:`\frac{2}{\varepsilon^2}
    (E(1 - x b_1)^2\,d^2/(1-\tau)^2 + E x^2)`.
    """
    up, down = np.abs(high - centre), np.abs(centre - low)
    d, d_near = np.maximum(up, down), np.minimum(up, down)
    far, near = np.where(up >= down, high, low), np.where(up >= down, low, high)
    slope = (tau - 1 + (1 - tau) * d_near / d) / (far - near)
    # Zero where T alone is released, which says nothing of P: infinitely bad.
    beta = np.maximum(tau + slope * (centre - far), 1e-12)
    mean = (centre - prior_mean) / beta
    square = mean**2 + (prior_sd / beta) ** 2
    rank_part = (1 - 2 * mean * slope + square * slope**2) * (d / (1 - tau)) ** 2
    predicted: FloatArray = 2 / epsilon**2 * (rank_part + square)
    return predicted

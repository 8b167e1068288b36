r"""The staircase mechanism: a split budget, and the least noise for each part.

:math:`T = S - c'P` moves by at most d, the largest distance of the site's ranks from
the centre c', and gets staircase noise for a share of epsilon. P is an integer that
moves by 1, for which discrete Laplace noise *is* the best staircase, and gets the
rest. At large epsilon both have far less variance than Laplace noise on the reals.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from discreet.arrays import FloatArray
from discreet.errors import PlanError
from discreet.privacy.loss import PureDP
from discreet.ranks.fedauc import CENTRE_STEPS, spread_around
from discreet.ranks.laplace_row import LaplaceNoise, drawable
from discreet.ranks.linear import LinearSums, Row
from discreet.ranks.ranks import SiteRanks
from discreet.ranks.staircase_row import (
    StaircaseNoise,
    best_width,
    staircase_variance,
)


def staircase(
    ranks: SiteRanks, budget: PureDP, *, centre: int, share: Fraction
) -> LinearSums:
    """Release T with a share of epsilon and P with the rest.

    The centre is in eighths of a doubled rank. Where all ranks agree T is known from
    P, which gets everything.
    """
    if not 0 < share < 1:
        raise PlanError("a share of the budget lies strictly between 0 and 1")
    if not len(ranks):
        return LinearSums(ranks, (), budget)
    if ranks.low == ranks.high:
        noise = LaplaceNoise(drawable(1 / budget.epsilon))
        return LinearSums(ranks, (Row(0, 1, noise),), budget)
    step = spread_around(ranks, centre)
    for_rank = StaircaseNoise.narrowest(step, share * budget.epsilon)
    for_count = LaplaceNoise(drawable(1 / ((1 - share) * budget.epsilon)))
    rows = (Row(CENTRE_STEPS, -centre, for_rank), Row(0, 1, for_count))
    return LinearSums(ranks, rows, budget)


def relative_variance(epsilon: float) -> float:
    """Return the variance of the best staircase over the squared step."""
    step = 1 << 20  # fine enough to stand for the reals
    width = min(max(round(best_width(epsilon) * step), 1), step)
    return staircase_variance(step, width, epsilon) / step**2


def count_variance(epsilon: float) -> float:
    """Return the variance of discrete Laplace noise of scale 1/epsilon."""
    return LaplaceNoise(1 / Fraction(epsilon)).variance


def predicted_staircase(
    low: FloatArray,
    high: FloatArray,
    *,
    centre: FloatArray,
    rank_variance: FloatArray,
    count_variance: FloatArray,
    prior_mean: float,
    prior_sd: float,
) -> FloatArray:
    """Return the expected variance of S - cP = T + (c' - c)P for a random c.

    ``rank_variance`` is that of T over the squared step, ``count_variance`` of P.
    """
    d = np.abs(centre - (low + high) / 2) + (high - low) / 2
    away = (centre - prior_mean) ** 2 + prior_sd**2
    predicted: FloatArray = rank_variance * d**2 + count_variance * away
    return predicted

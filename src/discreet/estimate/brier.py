"""The Brier score from counts per bin."""

from __future__ import annotations

import numpy as np

from discreet.arrays import FloatVector
from discreet.data.edges import unit_edges
from discreet.estimate.estimate import Binning, Estimate, NotYet, Zero
from discreet.statistic.observed import NoisyHistogram


def brier_score(observed: NoisyHistogram) -> Estimate:
    r"""Estimate the mean squared error of the probabilities.

    .. math::
        \frac1M \sum_b p_b\,E[(1-s)^2 \mid b] + n_b\,E[s^2 \mid b]

    Inside a bin of middle m and width w a class's density is a straight line
    whose slope r, relative to its height, is that of the neighbouring bins:
    :math:`E[s] = m + r w^2/12`, :math:`E[(s-m)^2] = w^2/12`. (Flat densities
    overrate the score: positives lie higher in their bin than negatives.) The
    limits put every score at its better or worse end; the typical error is a
    quarter of what the slopes change.
    """
    if observed.edges.atoms:
        low = high = _atoms(observed)
    else:
        edges = unit_edges(observed.edges)
        low, high = edges[:-1], edges[1:]
    middle, spread = (low + high) / 2, (high - low) ** 2 / 12
    p, n = observed.positives, observed.negatives
    total = float(p.sum() + n.sum())
    if total <= 0:
        return Estimate.undefined("there are no examples")

    def mean(miss: FloatVector, hit: FloatVector) -> float:
        return float(p @ miss + n @ hit) / total

    even = mean((1 - middle) ** 2 + spread, middle**2 + spread)
    tilt = mean(
        -2 * (1 - middle) * _shift(p, middle, high - low),
        2 * middle * _shift(n, middle, high - low),
    )
    best, worst = mean((1 - high) ** 2, low**2), mean((1 - low) ** 2, high**2)
    value = min(max(even + tilt, best), worst)
    return Estimate(value, NotYet(), Zero(), Binning(best, worst, abs(tilt) / 4))


def _shift(counts: FloatVector, middle: FloatVector, width: FloatVector) -> FloatVector:
    """Return how far the mean score of a bin lies above its middle."""
    if counts.size < 2 or not width.all():
        return np.zeros_like(counts)
    density = counts / width
    rise = np.append(density[1:], density[-1]) - np.append(density[0], density[:-1])
    run = np.append(middle[1:], middle[-1]) - np.append(middle[0], middle[:-1])
    slope = np.divide(rise, run * density, out=np.zeros_like(rise), where=density > 0)
    # A density cannot fall below zero at the bin's lower end.
    found: FloatVector = np.clip(slope, -2 / width, 2 / width) * width**2 / 12
    return found


def _atoms(observed: NoisyHistogram) -> FloatVector:
    values = observed.edges.array[:-1]
    if observed.edges.scores.kind == "logit":
        with np.errstate(over="ignore"):
            return 1.0 / (1.0 + np.exp(-values))
    return values

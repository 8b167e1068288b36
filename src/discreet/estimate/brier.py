"""The Brier score from counts per bin."""

from __future__ import annotations

import numpy as np

from discreet.arrays import FloatVector
from discreet.edges import unit_edges
from discreet.estimate.estimate import Binning, Estimate, NotYet, Zero
from discreet.estimate.observation import NoisyHistogram


def brier_score(observed: NoisyHistogram) -> Estimate:
    r"""Estimate the mean squared error of the probabilities.

    .. math::
        \frac1M \sum_b p_b\,E[(1-s)^2 \mid b] + n_b\,E[s^2 \mid b]

    with scores spread evenly over their bin, :math:`E[s^2] = m^2 + w^2/12` for
    middle m and width w. The limits put every score at its better or worse end.
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

    value = mean((1 - middle) ** 2 + spread, middle**2 + spread)
    binning = Binning(
        mean((1 - high) ** 2, low**2),
        mean((1 - low) ** 2, high**2),
        mean(spread, spread),
    )
    return Estimate(value, NotYet(), Zero(), binning)


def _atoms(observed: NoisyHistogram) -> FloatVector:
    values = observed.edges.array[:-1]
    if observed.edges.scores.kind == "logit":
        with np.errstate(over="ignore"):
            return 1.0 / (1.0 + np.exp(-values))
    return values

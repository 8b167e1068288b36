r"""Bayesian binning into quantiles (Naeini, Cooper and Hauskrecht 2015).

Many binnings are averaged, each with B groups of about equal mass and B from
:math:`M^{1/3}/10` to :math:`10\,M^{1/3}`. A binning's weight is its marginal
likelihood under beta priors of total strength 2, spread over the groups:

.. math::
    \prod_b \frac{\Gamma(2/B)}{\Gamma(t_b + 2/B)}
            \frac{\Gamma(p_b + \alpha_b)}{\Gamma(\alpha_b)}
            \frac{\Gamma(n_b + \beta_b)}{\Gamma(\beta_b)},
    \qquad \alpha_b = \tfrac2B m_b,\ \beta_b = \tfrac2B (1 - m_b),

m the middle of the group's scores, and its prediction is
:math:`(p_b + \alpha_b)/(t_b + 2/B)`. Weights are worked out in log space: their
ratios are far beyond the range of a float. Noisy counts are clipped at 0 and
enter as they are: the score does not know of noise, and takes it for detail
(Cormode and Markov 2023, section 7.3), so it asks for too many groups when
noise is large.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.data.edges import unit_edges
from discreet.errors import InputError
from discreet.metrics.logistic import CLOSEST
from discreet.recalibrate.binning import quantile_starts
from discreet.recalibrate.steps import Steps
from discreet.statistic.observed import NoisyHistogram


def fit_bbq(observed: NoisyHistogram) -> Steps:
    """Average the binnings of a release by their scores."""
    n, p = (np.maximum(c, 0.0) for c in (observed.negatives, observed.positives))
    total = float((n + p).sum())
    if total <= 0:
        raise InputError("there are no examples to group; calibration needs some")
    places = unit_edges(observed.edges)
    binnings = {
        tuple(quantile_starts(n + p, groups).tolist()): None
        for groups in numbers_of_groups(total, bins=n.size)
    }
    each = [np.asarray(starts, dtype=np.int64) for starts in binnings]
    logs = np.array([log_score(n, p, starts, places) for starts in each])
    weights = np.exp(logs - logs.max())
    rates = np.zeros(n.size)
    for weight, starts in zip(weights / weights.sum(), each, strict=True):
        alpha, strength = _prior(starts, places)
        positives, totals = np.add.reduceat(p, starts), np.add.reduceat(n + p, starts)
        means = (positives + alpha) / (totals + strength)
        rates += weight * np.repeat(means, np.diff(np.append(starts, n.size)))
    changes = np.flatnonzero(np.diff(rates) != 0) + 1
    runs = np.append(0, changes).astype(np.int64)
    return Steps.between("bbq", observed.edges, runs, rates[runs])


def numbers_of_groups(examples: float, *, bins: int) -> range:
    """Return the numbers of groups that are averaged, at most one a bin."""
    root = math.cbrt(examples)
    most = min(math.floor(10 * root), bins)
    return range(min(max(math.floor(root / 10), 1), most), most + 1)


def log_score(
    negatives: FloatVector,
    positives: FloatVector,
    starts: IntVector,
    places: FloatVector,
) -> float:
    """Return the logarithm of a binning's marginal likelihood."""
    from scipy.special import gammaln  # noqa: PLC0415 - slow to import

    p, n = np.add.reduceat(positives, starts), np.add.reduceat(negatives, starts)
    alpha, strength = _prior(starts, places)
    beta = strength - alpha
    parts = (
        gammaln(strength)
        - gammaln(p + n + strength)
        + gammaln(p + alpha)
        - gammaln(alpha)
        + gammaln(n + beta)
        - gammaln(beta)
    )
    return float(parts.sum())


def _prior(starts: IntVector, places: FloatVector) -> tuple[FloatVector, float]:
    """Return each group's alpha and the strength 2/B of its prior."""
    ends = np.append(starts[1:], places.size - 1)
    middle = np.clip((places[starts] + places[ends]) / 2, CLOSEST, 1 - CLOSEST)
    strength = 2 / starts.size
    alpha: FloatVector = strength * middle
    return alpha, strength

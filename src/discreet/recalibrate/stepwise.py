r"""Maps in steps: rates of groups of bins, by four ways to choose the groups.

**Quantile binning** takes B groups of about equal mass,

.. math::
    B = \min\{M^{1/3},\ \sqrt{M/\sigma}\}

with M examples and :math:`\sigma` the noise's standard deviation in one count. A
group hides a shift of order 1/B. Sampling adds :math:`\sqrt{B/M}`, which balances
it at :math:`M^{1/3}` (Cormode and Markov 2023, theorem 7); noise adds
:math:`B\sigma/M`, which balances it at :math:`\sqrt{M/\sigma}`. Under local
privacy, :math:`\sigma = \sqrt M/\varepsilon`, this is their
:math:`\sqrt{\varepsilon\sqrt M}` (theorem 8); under distributed noise the first
bound is the smaller one.

**Bayesian binning into quantiles** (Naeini, Cooper and Hauskrecht 2015) averages
many binnings, B from :math:`M^{1/3}/10` to :math:`10\,M^{1/3}`. A binning's weight is
its marginal likelihood under beta priors of total strength 2, spread over the groups:

.. math::
    \prod_b \frac{\Gamma(2/B)}{\Gamma(t_b + 2/B)}
            \frac{\Gamma(p_b + \alpha_b)}{\Gamma(\alpha_b)}
            \frac{\Gamma(n_b + \beta_b)}{\Gamma(\beta_b)},
    \qquad \alpha_b = \tfrac2B m_b,\ \beta_b = \tfrac2B (1 - m_b),

m the middle of the group's scores, and its prediction is
:math:`(p_b + \alpha_b)/(t_b + 2/B)`. Weights are worked out in log space: their
ratios are far beyond the range of a float. Noisy counts are clipped at 0 and
enter as they are: the score takes noise for detail (Cormode and Markov 2023, section
7.3), so it asks for too many groups when noise is large.

**Isotonic regression** gives the nearest rates, weighted by examples, that never
fall as scores rise (pool adjacent violators). It follows every upward wiggle of
sampling and noise.

**Levels** are isotonic rates in as few levels as the release can tell apart:
neighbours are pooled, the least different first, until each differs from the next by

.. math::
    \frac{|r_k - r_{k+1}|}{\operatorname{sd}(r_k - r_{k+1})} > 3,

where the standard deviation holds sampling and the release's noise: the reduced
monotonic regression of Schell and Singh (1997) with noisy counts. At 3 standard
deviations, 20 comparisons of equal rates leave a false level in one release of 20.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.data.edges import unit_edges
from discreet.errors import InputError
from discreet.metrics.logistic import CLOSEST
from discreet.recalibrate.maps import Steps
from discreet.recalibrate.rates import Rates
from discreet.statistic.observed import NoisyHistogram


def fit_binning(counts: NoisyHistogram, *, bins: int | None = None) -> Steps:
    """Group the release's bins by mass and give each group its rate."""
    n, p = _clipped(counts)
    wanted = bins_for(counts) if bins is None else bins
    starts = quantile_starts(n + p, wanted)
    positives, totals = np.add.reduceat(p, starts), np.add.reduceat(n + p, starts)
    return Steps.between("binning", counts.edges, starts, positives / totals)


def _clipped(counts: NoisyHistogram) -> tuple[FloatVector, FloatVector]:
    return np.maximum(counts.negatives, 0.0), np.maximum(counts.positives, 0.0)


def bins_for(counts: NoisyHistogram) -> int:
    """Return the number of groups by the written rule."""
    examples = max(counts.total_negatives + counts.total_positives, 1.0)
    wanted = math.cbrt(examples)
    if counts.noise.scale > 0:
        wanted = min(wanted, math.sqrt(examples / counts.noise.scale))
    return max(int(np.rint(wanted)), 1)


def quantile_starts(totals: FloatVector, groups: int) -> IntVector:
    r"""Return the first bins of groups of about equal mass.

    The cut for :math:`j/B` is the edge whose mass below is nearest to it (the
    lower of two); cuts that fall on one edge are one, so there may be fewer
    groups than asked for, and none is empty.
    """
    if groups < 1:
        raise InputError(f"need at least 1 group of bins, got {groups}")
    below = np.cumsum(totals)
    whole = float(below[-1])
    if whole <= 0:
        raise InputError("there are no examples to group; calibration needs some")
    targets = whole * np.arange(1, groups) / groups
    right = np.minimum(np.searchsorted(below, targets), below.size - 1)
    left = np.maximum(right - 1, 0)
    nearer = np.abs(below[left] - targets) <= np.abs(below[right] - targets)
    cuts = np.where(nearer, left, right) + 1
    # A cut with nothing below it or nothing above it makes an empty group.
    some = (below[cuts - 1] > 0) & (below[cuts - 1] < whole)
    first = np.searchsorted(below, below[cuts[some] - 1]) + 1
    starts: IntVector = np.append(0, np.unique(first)).astype(np.int64)
    return starts


def fit_bbq(observed: NoisyHistogram) -> Steps:
    """Average the binnings of a release by their scores."""
    n, p = _clipped(observed)
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


def fit_isotonic(observed: NoisyHistogram, counts: NoisyHistogram) -> Steps:
    """Return the isotonic rates of the release's bins."""
    rates = Rates.of(observed, counts)
    found = rates.merged(isotonic_levels(rates.values, rates.totals))
    return Steps.between("isotonic", counts.edges, found.starts, found.values)


def isotonic_levels(values: FloatVector, weights: FloatVector) -> IntVector:
    """Return where the levels of the isotonic regression start."""
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - slow to import

    blocks = isotonic_regression(values, weights=weights).blocks
    starts: IntVector = blocks[:-1].astype(np.int64)
    return starts


APART: Final = 3.0
"""Standard deviations between neighbouring levels: ``docs/calibration.md``."""


def fit_levels(observed: NoisyHistogram, counts: NoisyHistogram) -> Steps:
    """Return isotonic rates in as many levels as can be told apart."""
    return steps_of(Rates.of(observed, counts), counts)


def steps_of(rates: Rates, counts: NoisyHistogram) -> Steps:
    """Return the map in levels of rates that are worked out already."""
    found = levels(rates)
    return Steps.between("levels", counts.edges, found.starts, found.safe_values)


def levels(rates: Rates, *, apart: float = APART) -> Rates:
    """Pool isotonic rates until neighbours differ by ``apart`` deviations."""
    found = rates.merged(isotonic_levels(rates.values, rates.totals))
    while found.starts.size > 1:
        squared = _differences(found)
        nearest = int(np.argmin(squared))
        if squared[nearest] > apart**2:
            break
        found = found.merged(np.delete(np.arange(found.starts.size), nearest + 1))
    return found


def _differences(rates: Rates) -> FloatVector:
    """Return the squared differences of neighbours, in variances.

    Both rates take the variance that they would have if they were equal.
    """
    t, p = rates.totals, rates.positives
    overall = p.sum() / t.sum()
    common = (p[1:] + p[:-1] + overall) / (t[1:] + t[:-1] + 1)
    size = t.size
    slope = np.zeros((size - 1, 2 * size))
    k = np.arange(size - 1)
    for side, sign in ((k, -1.0), (k + 1, 1.0)):
        slope[k, side] = -sign * common / t[side]
        slope[k, size + side] = sign * (1 - common) / t[side]
    noise = ((slope @ rates.noise) * slope).sum(axis=1)
    sampling = common * (1 - common) * (1 / t[1:] + 1 / t[:-1])
    found: FloatVector = np.diff(rates.values) ** 2 / (sampling + noise)
    return found

r"""Maps in steps: rates of groups of bins, by four ways to choose the groups.

**Quantile binning** takes :math:`B = \min\{M^{1/3},\ \sqrt{M/\sigma}\}` groups of about
equal mass, with M examples and :math:`\sigma` the noise's standard deviation in one
count. A group hides a shift of order 1/B. Sampling adds :math:`\sqrt{B/M}` (Cormode and
Markov 2023, theorem 7), noise :math:`B\sigma/M`; each bound balances one of them. Under
local privacy, :math:`\sigma = \sqrt M/\varepsilon`, this is their
:math:`\sqrt{\varepsilon\sqrt M}` (theorem 8).

**Bayesian binning into quantiles** (Naeini, Cooper and Hauskrecht 2015) averages
many binnings, B from :math:`M^{1/3}/10` to :math:`10\,M^{1/3}`. A binning's weight is
its marginal likelihood under beta priors of total strength 2, spread over the groups:

.. math::
    \prod_b \frac{\Gamma(2/B)}{\Gamma(t_b + 2/B)}
            \frac{\Gamma(p_b + \alpha_b)}{\Gamma(\alpha_b)}
            \frac{\Gamma(n_b + \beta_b)}{\Gamma(\beta_b)},
    \qquad \alpha_b = \tfrac2B m_b,\ \beta_b = \tfrac2B (1 - m_b),

m the middle of the group's scores, and its prediction is
:math:`(p_b + \alpha_b)/(t_b + 2/B)`. Noisy counts are clipped at 0: the score takes noise
for detail (Cormode and Markov 2023, section 7.3), so it asks for too many groups when
noise is large.

**Isotonic regression** gives the nearest rates, weighted by examples, that never
fall as scores rise. It follows every upward wiggle of sampling and noise.

**Levels** are isotonic rates in as few levels as the release can tell apart:
neighbours are pooled, the least different first, until each differs from the next by
more than 3 standard deviations of their difference, sampling and noise together: the
reduced monotonic regression of Schell and Singh (1997) with noisy counts. At 3, 20
comparisons of equal rates leave a false level in one release of 20.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.data.edges import unit_edges
from discreet.errors import InputError
from discreet.estimate.slopes import covariance_of
from discreet.estimate.sub_bins import cell_scores
from discreet.metrics.logistic import CLOSEST
from discreet.recalibrate.maps import Steps
from discreet.statistic.observed import NoisyHistogram

_BINS_PER_ROOT: Final = 2.5
"""Runs that a map starts from, in units of the cube root of the examples: enough
that none of them hides a bend, few enough that each holds examples."""
APART: Final = 3.0
"""Standard deviations between neighbouring levels: ``docs/calibration.md``."""


@dataclass(frozen=True, eq=False)
class Rates:
    r"""Counts of runs of bins, and the noise's covariance (negatives, positives).

    To first order a rate r = P/T moves by :math:`((1-r)\,dP - r\,dN)/T`, so two rates
    have the covariance of these combinations of noisy counts; sampling adds
    :math:`r(1-r)/T` to each variance.
    """

    starts: IntVector
    negatives: FloatVector
    positives: FloatVector
    noise: FloatArray
    scores: FloatVector
    """The mean score of each run, on the probability scale."""

    @classmethod
    def of(cls, observed: NoisyHistogram, counts: NoisyHistogram) -> Rates:
        """Run the bins of a release together; no run is empty.

        ``counts`` are those that an estimator found behind the release; the noise
        is the release's own, which an estimator can only make smaller.
        """
        n, p = _clipped(counts)
        total = float((n + p).sum())
        if total <= 0:
            raise InputError("there are no examples to calibrate with")
        wanted = max(round(_BINS_PER_ROOT * math.cbrt(total)), 1)
        runs = np.arange(n.size) * min(wanted, n.size) // n.size
        starts = np.flatnonzero(np.diff(runs, prepend=-1)).astype(np.int64)
        # A run that holds nothing joins the run before it, or the next.
        starts = starts[np.add.reduceat(n + p, starts) > 1e-9 * total]
        starts[0] = 0
        bins = np.arange(n.size)
        members = np.zeros((starts.size, n.size))
        members[np.searchsorted(starts, bins, side="right") - 1, bins] = 1
        means = cell_scores(counts.edges).mean(axis=1)
        return cls(
            starts,
            np.add.reduceat(n, starts),
            np.add.reduceat(p, starts),
            covariance_of(observed, np.kron(np.eye(2), members).astype(np.float64)),
            np.add.reduceat((n + p) * means, starts) / np.add.reduceat(n + p, starts),
        )

    @cached_property
    def totals(self) -> FloatVector:
        """Examples of each run."""
        return self.negatives + self.positives

    @cached_property
    def shares(self) -> FloatVector:
        """Share of all examples in each run."""
        return self.totals / float(self.totals.sum())

    @cached_property
    def values(self) -> FloatVector:
        """The rate of positives in each run."""
        return self.positives / self.totals

    @cached_property
    def safe_values(self) -> FloatVector:
        """Rates as if one more example had been seen: none is 0 or 1."""
        overall = float(self.positives.sum() / self.totals.sum())
        return (self.positives + overall) / (self.totals + 1)

    @cached_property
    def noise_part(self) -> FloatArray:
        """The covariance that the noise gives the rates."""
        r, t = self.safe_values, self.totals
        slope = np.stack([-r / t, (1 - r) / t])
        noise = self.noise.reshape(2, t.size, 2, t.size)
        part: FloatArray = np.einsum("ai,aibj,bj->ij", slope, noise, slope)
        return part

    @cached_property
    def covariance(self) -> FloatArray:
        """The covariance of the rates: sampling and noise."""
        r = self.safe_values
        return self.noise_part + np.diag(r * (1 - r) / self.totals)

    def merged(self, keep: IntVector) -> Rates:
        """Join runs; ``keep`` are the positions of the runs that still start one."""
        runs = self.starts.size
        noise = self.noise.reshape(2, runs, 2, runs)
        noise = np.add.reduceat(np.add.reduceat(noise, keep, axis=1), keep, axis=3)
        weighted = np.add.reduceat(self.totals * self.scores, keep)
        return Rates(
            self.starts[keep],
            np.add.reduceat(self.negatives, keep),
            np.add.reduceat(self.positives, keep),
            noise.reshape(2 * keep.size, 2 * keep.size),
            weighted / np.add.reduceat(self.totals, keep),
        )


def _clipped(counts: NoisyHistogram) -> tuple[FloatVector, FloatVector]:
    return np.maximum(counts.negatives, 0.0), np.maximum(counts.positives, 0.0)


def fit_binning(counts: NoisyHistogram, *, bins: int | None = None) -> Steps:
    """Group the release's bins by mass and give each group its rate."""
    n, p = _clipped(counts)
    wanted = bins_for(counts) if bins is None else bins
    starts = quantile_starts(n + p, wanted)
    positives, totals = np.add.reduceat(p, starts), np.add.reduceat(n + p, starts)
    return Steps.between("binning", counts.edges, starts, positives / totals)


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
    return np.append(0, np.unique(first)).astype(np.int64)


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
    """Return the numbers of groups that are averaged, at most one per bin."""
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
    return strength * middle, strength


def fit_isotonic(observed: NoisyHistogram, counts: NoisyHistogram) -> Steps:
    """Return the isotonic rates of the release's bins."""
    rates = _isotonic(Rates.of(observed, counts))
    return Steps.between("isotonic", counts.edges, rates.starts, rates.values)


def _isotonic(rates: Rates) -> Rates:
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - slow to import

    blocks = isotonic_regression(rates.values, weights=rates.totals).blocks
    return rates.merged(blocks[:-1].astype(np.int64))


def fit_levels(observed: NoisyHistogram, counts: NoisyHistogram) -> Steps:
    """Return isotonic rates in as many levels as can be told apart."""
    return steps_of(levels(Rates.of(observed, counts)), counts)


def steps_of(pooled: Rates, counts: NoisyHistogram) -> Steps:
    """Return the map in levels of rates that are pooled already."""
    return Steps.between("levels", counts.edges, pooled.starts, pooled.safe_values)


def levels(rates: Rates) -> Rates:
    """Pool isotonic rates until neighbours differ by ``APART`` deviations."""
    pooled = _isotonic(rates)
    while pooled.starts.size > 1:
        squared = _differences(pooled)
        nearest = int(np.argmin(squared))
        if squared[nearest] > APART**2:
            break
        pooled = pooled.merged(np.delete(np.arange(pooled.starts.size), nearest + 1))
    return pooled


def _differences(rates: Rates) -> FloatVector:
    """Return the squared differences of neighbours, in variances.

    Both rates take the variance that they would have if they were equal.
    """
    t, p = rates.totals, rates.positives
    overall = p.sum() / t.sum()
    common = (p[1:] + p[:-1] + overall) / (t[1:] + t[:-1] + 1)
    size = t.size
    k = np.arange(size - 1)
    # The four counts of two neighbours, and how their difference moves with each.
    places = np.stack([k, k + 1, size + k, size + k + 1])
    slope = np.stack([common, -common, common - 1, 1 - common])
    slope /= np.concatenate([t, t])[places]
    covariance = rates.noise[places[:, None], places[None]]
    noise = np.einsum("ik,ijk,jk->k", slope, covariance, slope)
    sampling = common * (1 - common) * (1 / t[1:] + 1 / t[:-1])
    squared: FloatVector = np.diff(rates.values) ** 2 / (sampling + noise)
    return squared

r"""Rates of positives in runs of bins, and how far sampling and noise move them.

To first order a rate r = P/T moves by :math:`((1-r)\,dP - r\,dN)/T`, so two rates
have the covariance of these combinations of noisy counts; sampling adds
:math:`r(1-r)/T` to each variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.errors import InputError
from discreet.estimate.slopes import covariance_of
from discreet.estimate.sub_bins import cell_scores
from discreet.statistic.observed import NoisyHistogram

BINS_PER_ROOT: Final = 2.5
"""Runs that a map starts from, in units of the cube root of the examples: enough
that none of them hides a bend, few enough that each holds examples."""


@dataclass(frozen=True, eq=False)
class Rates:
    """Counts of runs of bins, and the noise's covariance (negatives, positives)."""

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
        n, p = (np.maximum(c, 0.0) for c in (counts.negatives, counts.positives))
        total = float((n + p).sum())
        if total <= 0:
            raise InputError("there are no examples to calibrate with")
        wanted = max(round(BINS_PER_ROOT * math.cbrt(total)), 1)
        runs = np.arange(n.size) * min(wanted, n.size) // n.size
        starts = np.flatnonzero(np.diff(runs, prepend=-1))
        starts = _without_empty(starts, n + p, least=1e-9 * total)
        means = cell_scores(counts.edges).mean(axis=1)
        t = np.add.reduceat(n + p, starts)
        return cls(
            starts.astype(np.int64),
            np.add.reduceat(n, starts),
            np.add.reduceat(p, starts),
            _noise_of_runs(observed, starts),
            np.add.reduceat((n + p) * means, starts) / t,
        )

    @cached_property
    def totals(self) -> FloatVector:
        """Examples of each run."""
        return self.negatives + self.positives

    @cached_property
    def shares(self) -> FloatVector:
        """Share of all examples in each run."""
        found: FloatVector = self.totals / self.totals.sum()
        return found

    @cached_property
    def values(self) -> FloatVector:
        """The rate of positives in each run."""
        found: FloatVector = self.positives / self.totals
        return found

    @cached_property
    def safe_values(self) -> FloatVector:
        """Rates as if one more example had been seen: none is 0 or 1."""
        overall = self.positives.sum() / self.totals.sum()
        found: FloatVector = (self.positives + overall) / (self.totals + 1)
        return found

    @cached_property
    def noise_part(self) -> FloatArray:
        """The covariance that the noise gives the rates."""
        r, t = self.safe_values, self.totals
        slope = np.hstack([np.diag(-r / t), np.diag((1 - r) / t)])
        found: FloatArray = slope @ self.noise @ slope.T
        return found

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


def _noise_of_runs(observed: NoisyHistogram, starts: IntVector) -> FloatArray:
    runs = starts.size
    if observed.exact:
        return np.zeros((2 * runs, 2 * runs))
    bins = len(observed.edges)
    groups = np.zeros((runs, bins))
    groups[np.searchsorted(starts, np.arange(bins), side="right") - 1, range(bins)] = 1
    return covariance_of(observed, np.kron(np.eye(2), groups).astype(np.float64))


def _without_empty(
    starts: IntVector, totals: FloatVector, *, least: float
) -> IntVector:
    """Join every run that holds nothing to the run before it, or to the next."""
    filled = np.add.reduceat(totals, starts) > least
    kept = starts[filled]
    kept[0] = 0
    return kept

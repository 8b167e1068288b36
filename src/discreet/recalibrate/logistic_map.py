r"""Maps by logistic regression on the counts: Platt's and beta calibration.

- Platt (1999) fitted a sigmoid to margins, and a probability's margin is its
  log-odds: :math:`\operatorname{logit} q = c + a \operatorname{logit} s`.
- Beta calibration (Kull, Silva Filho and Flach 2017),
  :math:`\operatorname{logit} q = c + a \log s - b \log(1 - s)`, is the right family
  when scores of both classes have beta distributions, and bends differently at both
  ends.

Both hold the identity (c = 0, slopes 1). As beta calibration's authors do, a slope
that comes out negative is held at 0 and the rest is fitted again: the curve rises,
whatever the counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.estimate.sub_bins import cell_scores
from discreet.metrics.logistic import CLOSEST, LogisticFit, fit_logistic
from discreet.recalibrate.maps import LogCurve
from discreet.recalibrate.rates import Rates
from discreet.statistic.observed import NoisyHistogram


@dataclass(frozen=True, eq=False)
class LogisticMap:
    """A fitted curve with what its risk is worked out from."""

    name: str
    counts: NoisyHistogram
    features: FloatArray
    """One row a coefficient, one column a cell of a bin."""
    fit: LogisticFit
    free: tuple[int, ...]
    """Which coefficients were fitted; the others are held at 0."""

    @classmethod
    def fitted(
        cls, name: str, counts: NoisyHistogram, features: FloatArray
    ) -> LogisticMap:
        """Fit an intercept, the first feature, and a slope on each other one."""
        pieces = features.shape[1] // len(counts.edges)
        n, p = (
            np.repeat(np.maximum(c, 0.0) / pieces, pieces)
            for c in (counts.negatives, counts.positives)
        )
        free = tuple(range(features.shape[0]))
        while True:
            chosen = features[list(free)]
            # The map that changes nothing: no intercept, every slope 1.
            start = np.array([0.0 if k == 0 else 1.0 for k in free])
            fit = fit_logistic(chosen, n, p, start=start)
            lowest = int(np.argmin(fit.coefficients[1:])) + 1 if len(free) > 1 else 0
            if lowest == 0 or fit.coefficients[lowest] >= 0:
                return cls(name, counts, chosen, fit, free)
            free = tuple(k for i, k in enumerate(free) if i != lowest)

    @cached_property
    def curve(self) -> LogCurve:
        """The map."""
        found = dict(zip(self.free, self.fit.coefficients.tolist(), strict=True))
        on_log = found.get(1, 0.0)
        on_rest = on_log if self.name == "platt" else found.get(2, 0.0)
        return LogCurve(self.name, found[0], on_log, on_rest, self.counts.edges.scores)

    def on(self, rates: Rates) -> tuple[FloatVector, FloatArray]:
        r"""Return the map's mean in each run and its slopes in the runs' rates.

        With x the features, t the examples of a cell and I the information,
        :math:`dq_g = \overline{q(1-q)x}_g^T\, I^{-1} \sum_h T_h \bar x_h\, dr_h`.
        """
        bins = len(self.counts.edges)
        pieces = self.features.shape[1] // bins
        t = np.maximum(self.counts.negatives, 0) + np.maximum(self.counts.positives, 0)
        cells = np.repeat(t / pieces, pieces)
        starts = rates.starts * pieces
        q = self.fit.rates
        whole = np.add.reduceat(cells, starts)
        mean = np.add.reduceat(cells * q, starts) / whole
        bend = np.add.reduceat(cells * q * (1 - q) * self.features, starts, axis=1)
        pull = np.add.reduceat(cells * self.features, starts, axis=1)
        return mean, (bend / whole).T @ self.fit.spread @ pull


def logarithms(counts: NoisyHistogram) -> tuple[FloatVector, FloatVector]:
    """Return log s and -log(1 - s) in every cell: both rise with the score."""
    s = np.clip(cell_scores(counts.edges).ravel(), CLOSEST, 1 - CLOSEST)
    return np.log(s), -np.log1p(-s)


def fit_platt(counts: NoisyHistogram) -> LogisticMap:
    """Fit an intercept and one slope."""
    log, rest = logarithms(counts)
    return LogisticMap.fitted(
        "platt", counts, np.stack([np.ones_like(log), log + rest])
    )


def fit_beta(counts: NoisyHistogram) -> LogisticMap:
    """Fit an intercept and a slope on each logarithm."""
    log, rest = logarithms(counts)
    return LogisticMap.fitted("beta", counts, np.stack([np.ones_like(log), log, rest]))

"""The default estimator under noise: curves from a smooth model of both classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from discreet.estimate.areas import (
    auc_limits,
    aupr_limits,
    average_precision_limits,
    pr_area,
    roc_area,
)
from discreet.estimate.brier import brier_score
from discreet.estimate.curves import Curves, RocPath
from discreet.estimate.estimate import Binning, Estimate, Normal, NotYet
from discreet.estimate.estimator import Flat
from discreet.estimate.noise_spread import (
    auc_noise_sd,
    average_precision_noise_sd,
    brier_noise_sd,
)
from discreet.estimate.reading import Reading, noise_of, read
from discreet.metrics.names import Metric
from discreet.statistic.observed import NoisyHistogram


@dataclass(frozen=True, slots=True)
class Smooth:
    """A joint empirical-Bayes model of both classes, with fallbacks to ``Flat``.

    - exact counts, known score values, fewer than 4 bins, or noise shared by the
      classes: as ``Flat`` reads them;
    - ties (heavy bins between empty ones): gaps are emptied, points joined by
      straight lines;
    - counts that the model cannot follow: ``Flat`` with PCHIP;
    - a class total that its noise could have made alone, or half of all pairs
      inside one bin: unusable, with the reason, and no curve.
    """

    @property
    def name(self) -> str:
        """What the result calls it."""
        return "smooth, joint empirical-Bayes model of both classes"

    def read(self, observed: NoisyHistogram) -> Reading:
        """Read a release: the same release always gives the same reading."""
        return read(observed)

    def counts(self, observed: NoisyHistogram) -> NoisyHistogram:
        """Return the counts per bin, none of them negative."""
        return read(observed).counts

    def notes(self, observed: NoisyHistogram) -> tuple[str, ...]:
        """Return what came with the release and what its reading shows."""
        return observed.notes + read(observed).notes

    def curves(self, observed: NoisyHistogram) -> Curves:
        """Return the curves; a single undefined point when there are none."""
        return read(observed).curves

    def metrics(
        self, observed: NoisyHistogram, wanted: Iterable[Metric]
    ) -> Mapping[Metric, Estimate]:
        """Return the metrics with their binning limits and noise."""
        if observed.exact:
            return Flat().metrics(observed, wanted)
        reading = read(observed)
        return {m: _metric(m, observed, reading) for m in sorted(wanted)}


def _metric(metric: Metric, observed: NoisyHistogram, reading: Reading) -> Estimate:
    counts = reading.counts
    if metric == "brier":
        noise = Normal(brier_noise_sd(counts, noise_of(observed)))
        return replace(brier_score(counts), noise=noise)
    if reading.way == "unusable":
        return Estimate.undefined(reading.notes[0])
    spread = auc_noise_sd if metric == "auc" else average_precision_noise_sd
    noise = Normal(spread(counts.negatives, counts.positives, noise_of(observed)))
    if reading.bent is None:
        way = Flat(reading.curves.interpolation)
        return replace(way.metrics(counts, (metric,))[metric], noise=noise)
    value = _area(metric, reading.curves.roc, counts)
    typical = abs(value - _area(metric, reading.bent, counts)) / 3
    # Limits are made for whole counts; fractions of one can turn them around.
    low, high = sorted(_LIMITS[metric](counts.negatives, counts.positives))
    value = min(max(value, low), high)
    return Estimate(value, NotYet(), noise, Binning(low, high, typical))


def _area(metric: Metric, path: RocPath, counts: NoisyHistogram) -> float:
    if metric == "auc":
        return roc_area(path)
    return pr_area(path, counts.total_positives, counts.total_negatives)


_LIMITS: Final = {
    "auc": auc_limits,
    "average_precision": average_precision_limits,
    "aupr": aupr_limits,
}

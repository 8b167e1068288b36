"""Estimators: from one observed histogram to curves and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np

from discreet.arrays import FloatVector
from discreet.estimate.areas import (
    auc_limits,
    aupr_limits,
    average_precision_limits,
    pr_area,
    roc_area,
    step_area,
    trapezoid_area,
)
from discreet.estimate.brier import brier_score
from discreet.estimate.curves import (
    Curves,
    Interpolation,
    RocPath,
    choose_interpolation,
)
from discreet.estimate.estimate import Binning, Estimate, NotYet, ScalarLaw, Zero
from discreet.estimate.noise_error import covariance_of, propagated
from discreet.metrics.names import Metric
from discreet.statistic.observed import NoisyHistogram


class Estimator(Protocol):
    """Reads a released histogram; never examples."""

    @property
    def name(self) -> str:
        """How the result names it."""
        ...

    def counts(self, observed: NoisyHistogram) -> NoisyHistogram:
        """Return the counts per bin that thresholded metrics are read from."""
        ...

    def notes(self, observed: NoisyHistogram) -> tuple[str, ...]:
        """Return what a reader should know about this release."""
        ...

    def curves(self, observed: NoisyHistogram) -> Curves:
        """Return the curves."""
        ...

    def metrics(
        self, observed: NoisyHistogram, wanted: Iterable[Metric]
    ) -> Mapping[Metric, Estimate]:
        """Return the metrics; undefined ones are NaN with their cause."""
        ...


@dataclass(frozen=True, slots=True)
class Flat:
    """Curves through the bins' cumulative counts.

    ``linear`` counts pairs inside a bin as ties and equals scikit-learn on the
    binned scores. ``pchip`` follows the curve's bend inside the bins. None
    chooses from the release.
    """

    interpolation: Interpolation | None = None

    @property
    def name(self) -> str:
        """The interpolation, or that it is chosen from the release."""
        return f"flat, {self.interpolation or 'interpolation chosen from the release'}"

    def counts(self, observed: NoisyHistogram) -> NoisyHistogram:
        """Return the projected counts."""
        return observed.projected()

    def notes(self, observed: NoisyHistogram) -> tuple[str, ...]:
        """Pass on what came with the release."""
        return observed.notes

    def curves(self, observed: NoisyHistogram) -> Curves:
        """Return the curves through the projected counts."""
        chosen = self.interpolation or choose_interpolation(observed)
        return Curves.from_histogram(observed.projected(), chosen)

    def metrics(
        self, observed: NoisyHistogram, wanted: Iterable[Metric]
    ) -> Mapping[Metric, Estimate]:
        """Return the metrics with their binning limits."""
        counts = observed.projected()
        curves = self.curves(observed)
        found: dict[Metric, Estimate] = {}
        for metric in sorted(wanted):
            if metric == "brier":
                found[metric] = brier_score(counts)
            elif observed.missing_class is not None:
                found[metric] = Estimate.undefined(
                    f"the pooled data hold no {observed.missing_class}"
                )
            else:
                found[metric] = _AREAS[metric](counts, curves)
        if observed.exact:
            return found
        return {m: replace(e, noise=_noise(m, observed)) for m, e in found.items()}


def _noise(metric: Metric, observed: NoisyHistogram) -> ScalarLaw:
    """Return what the noise does to a metric of the counts joined linearly."""
    counts = observed.projected()
    at = np.concatenate([counts.negatives, counts.positives])

    def value(vector: FloatVector) -> float:
        # A step from an empty bin must not make the curve run backwards.
        negatives, positives = np.split(np.maximum(vector, 0.0), 2)
        moved = replace(counts, negatives=negatives, positives=positives)
        if metric == "brier":
            return brier_score(moved).value
        if metric == "auc":
            return _linear_auc(moved)
        path = Curves.from_histogram(moved, "linear").roc
        return pr_area(path, moved.total_positives, moved.total_negatives)

    return propagated(value, at, covariance_of(observed, np.eye(at.size)))


def _auc(counts: NoisyHistogram, curves: Curves) -> Estimate:
    value, other = _both(curves, roc_area)
    if curves.interpolation == "linear":
        value = _linear_auc(counts)
    low, high = auc_limits(counts.negatives, counts.positives)
    return _with_binning(value, other, low, high, counts, curves)


def _linear_auc(counts: NoisyHistogram) -> float:
    """Pairs won plus half the pairs tied: no rounding from the curve's knots."""
    low, high = auc_limits(counts.negatives, counts.positives)
    return (low + high) / 2


def _average_precision(counts: NoisyHistogram, curves: Curves) -> Estimate:
    p, n = counts.total_positives, counts.total_negatives
    value, other = _both(curves, lambda roc: pr_area(roc, p, n))
    if curves.interpolation == "linear":
        value = step_area(curves.tpr, curves.precision)
    low, high = average_precision_limits(counts.negatives, counts.positives)
    return _with_binning(value, other, low, high, counts, curves)


def _aupr(counts: NoisyHistogram, curves: Curves) -> Estimate:
    p, n = counts.total_positives, counts.total_negatives
    value, other = _both(curves, lambda roc: pr_area(roc, p, n))
    if curves.interpolation == "linear":
        value = trapezoid_area(curves.tpr, curves.precision)
    low, high = aupr_limits(counts.negatives, counts.positives)
    return _with_binning(value, other, low, high, counts, curves)


def _both(curves: Curves, area: Callable[[RocPath], float]) -> tuple[float, float]:
    """Return the area of the curve as drawn and with the other interpolation."""
    other: Interpolation = "linear" if curves.interpolation == "pchip" else "pchip"
    return area(curves.roc), area(RocPath(curves.fpr, curves.tpr, other))


def _with_binning(
    value: float,
    other: float,
    low: float,
    high: float,
    counts: NoisyHistogram,
    curves: Curves,
) -> Estimate:
    """Attach the limits; the typical error is what the interpolation changes."""
    if counts.edges.atoms:
        return Estimate(value, NotYet(), Zero(), Binning(value, value, 0.0))
    inside = min(max(value, low), high)
    typical = 0.0 if curves.interpolation == "linear" else abs(value - other)
    return Estimate(inside, NotYet(), Zero(), Binning(low, high, typical))


_AREAS: Final[dict[Metric, Callable[[NoisyHistogram, Curves], Estimate]]] = {
    "auc": _auc,
    "average_precision": _average_precision,
    "aupr": _aupr,
}

"""Precision, recall, specificity, accuracy and F1 at a threshold."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.data.edges import Edges
from discreet.errors import InputError
from discreet.estimate.estimate import (
    UNIT,
    Binning,
    Estimate,
    Interval,
    NotYet,
)
from discreet.estimate.noise_error import covariance_of, propagated
from discreet.statistic.observed import NoisyHistogram


@dataclass(frozen=True, slots=True)
class AtThreshold:
    """The confusion counts and rates when ``score >= threshold`` is positive."""

    threshold: float
    precision: Estimate
    recall: Estimate
    specificity: Estimate
    accuracy: Estimate
    f1: Estimate
    true_positives: Estimate
    false_positives: Estimate
    false_negatives: Estimate
    true_negatives: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        found: dict[str, Any] = {"threshold": self.threshold}
        for f in fields(self)[1:]:
            found[f.name] = getattr(self, f.name).to_dict()
        return found

    def rates(self) -> dict[str, Estimate]:
        """Return the rates by the names that people use."""
        return {
            "precision": self.precision,
            "recall": self.recall,
            "specificity": self.specificity,
            "accuracy": self.accuracy,
            "F1": self.f1,
        }

    def undefined(self) -> tuple[str, ...]:
        """Name the metrics that are NaN."""
        named = ((f.name, getattr(self, f.name)) for f in fields(self)[1:])
        return tuple(name for name, found in named if math.isnan(found.value))


def at_threshold(observed: NoisyHistogram, threshold: float) -> AtThreshold:
    """Estimate every thresholded metric.

    At an edge the counts are those of the release. Between two edges the bin's
    examples are taken as spread evenly over it; the limits take all of them
    above, or none.
    """
    if math.isnan(threshold):
        raise InputError("the threshold is NaN; give a number")
    value, least, most = shares_above(observed.edges, threshold)
    best = _confusion(observed, most, least)
    worst = _confusion(observed, least, most)
    counts = _confusion(observed, value, value)
    noise = covariance_of(observed, confusion_weights(value))

    def estimate(metric: _Metric, low: FloatVector, high: FloatVector) -> Estimate:
        found = metric(counts)
        support = UNIT if metric in _RATES else Interval(0.0, math.inf)
        if math.isnan(found):
            return Estimate.undefined("nothing to divide by at this threshold", support)
        # A limit that is undefined (nothing predicted positive) bounds nothing.
        lower, upper = metric(low), metric(high)
        lower = 0.0 if math.isnan(lower) else lower
        upper = 1.0 if math.isnan(upper) else upper
        # Spread evenly over the bin, the error is usually a quarter of its reach.
        binning = Binning(lower, upper, (upper - lower) / 4)
        law = propagated(metric, counts, noise)
        return Estimate(found, NotYet(), law, binning, support=support)

    return AtThreshold(
        threshold=threshold,
        precision=estimate(_precision, worst, best),
        recall=estimate(_recall, worst, best),
        specificity=estimate(_specificity, worst, best),
        accuracy=estimate(_accuracy, worst, best),
        f1=estimate(_f1, worst, best),
        true_positives=estimate(lambda c: float(c[0]), worst, best),
        false_positives=estimate(lambda c: float(c[2]), best, worst),
        false_negatives=estimate(lambda c: float(c[1]), best, worst),
        true_negatives=estimate(lambda c: float(c[3]), worst, best),
    )


_Metric: TypeAlias = Callable[[FloatVector], float]
"""A function of the confusion counts TP, FN, FP, TN."""


def _ratio(top: float, under: float) -> float:
    return top / under if under > 0 else math.nan


def _precision(c: FloatVector) -> float:
    return _ratio(c[0], c[0] + c[2])


def _recall(c: FloatVector) -> float:
    return _ratio(c[0], c[0] + c[1])


def _specificity(c: FloatVector) -> float:
    return _ratio(c[3], c[2] + c[3])


def _accuracy(c: FloatVector) -> float:
    return _ratio(c[0] + c[3], float(c.sum()))


def _f1(c: FloatVector) -> float:
    return _ratio(2 * c[0], 2 * c[0] + c[1] + c[2])


_RATES: Final = (_precision, _recall, _specificity, _accuracy, _f1)
"""All rise with TP and fall with FP: their limits are at the same two corners."""


def _confusion(
    observed: NoisyHistogram, positives: FloatVector, negatives: FloatVector
) -> FloatVector:
    """Return TP, FN, FP, TN with these shares of each bin above the threshold."""
    tp, fp = positives @ observed.positives, negatives @ observed.negatives
    p, n = observed.total_positives, observed.total_negatives
    return np.array([tp, p - tp, fp, n - fp])


def confusion_weights(above: FloatVector) -> FloatArray:
    """Return TP, FN, FP, TN as sums over the negatives', then the positives' bins."""
    none = np.zeros_like(above)
    return np.stack(
        [
            np.append(none, above),
            np.append(none, 1 - above),
            np.append(above, none),
            np.append(1 - above, none),
        ]
    )


def shares_above(
    edges: Edges, t: float
) -> tuple[FloatVector, FloatVector, FloatVector]:
    """Return the share of each bin at or above t: as a guess, at least, at most."""
    values = edges.array
    if edges.atoms:
        exact = (values[:-1] >= t).astype(np.float64)
        return exact, exact, exact
    most = (np.append(values[1:-1], np.inf) > t).astype(np.float64)
    if t > values[-1]:
        most[:] = 0.0
    least = (values[:-1] >= t).astype(np.float64)
    cut = np.flatnonzero(most != least)
    guess = least.copy()
    if cut.size:
        (k,) = cut
        width = values[k + 1] - values[k]
        guess[k] = (values[k + 1] - t) / width if math.isfinite(width) else 0.5
    return guess, least, most

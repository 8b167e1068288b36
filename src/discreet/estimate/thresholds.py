"""Precision, recall, specificity, accuracy and F1 at a threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np

from discreet.arrays import FloatVector
from discreet.edges import Edges
from discreet.errors import InputError
from discreet.estimate.estimate import (
    UNIT,
    Binning,
    Estimate,
    Interval,
    NotYet,
    Zero,
)
from discreet.estimate.observation import NoisyHistogram


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

    def undefined(self) -> tuple[str, ...]:
        """Name the metrics that are NaN."""
        named = ((f.name, getattr(self, f.name)) for f in fields(self)[1:])
        return tuple(name for name, found in named if math.isnan(found.value))


_Three: TypeAlias = tuple[float, float, float]
"""A value, its lower and its upper limit."""


@dataclass(frozen=True, slots=True)
class _Above:
    """How many of a class score at or above a threshold: value and limits."""

    value: float
    low: float
    high: float


def at_threshold(observed: NoisyHistogram, threshold: float) -> AtThreshold:
    """Estimate every thresholded metric.

    At an edge the counts are those of the release. Between two edges the bin's
    examples are taken as spread evenly over it; the limits take all of them
    above, or none.
    """
    if math.isnan(threshold):
        raise InputError("the threshold is NaN; give a number")
    tp = _above(observed.edges, observed.positives, threshold)
    fp = _above(observed.edges, observed.negatives, threshold)
    p, n = observed.total_positives, observed.total_negatives

    def ratio(top: _Three, under: _Three) -> Estimate:
        """Divide value, lower and upper limit."""
        value, low, high = (
            a / b if b > 0 else math.nan for a, b in zip(top, under, strict=True)
        )
        if math.isnan(value):
            return Estimate.undefined("nothing to divide by at this threshold")
        # A limit that is undefined (nothing predicted positive) bounds nothing.
        low = 0.0 if math.isnan(low) else low
        high = 1.0 if math.isnan(high) else high
        return _estimate(value, low, high, UNIT)

    def count(found: _Above, of: float, *, below: bool = False) -> Estimate:
        support = Interval(0.0, math.inf)
        if below:
            return _estimate(of - found.value, of - found.high, of - found.low, support)
        return _estimate(found.value, found.low, found.high, support)

    return AtThreshold(
        threshold=threshold,
        precision=ratio(
            (tp.value, tp.low, tp.high),
            (tp.value + fp.value, tp.low + fp.high, tp.high + fp.low),
        ),
        recall=ratio((tp.value, tp.low, tp.high), (p, p, p)),
        specificity=ratio((n - fp.value, n - fp.high, n - fp.low), (n, n, n)),
        accuracy=ratio(
            (tp.value + n - fp.value, tp.low + n - fp.high, tp.high + n - fp.low),
            (p + n, p + n, p + n),
        ),
        # F1 = 2 TP/(TP + FP + P) rises with TP and falls with FP.
        f1=ratio(
            (2 * tp.value, 2 * tp.low, 2 * tp.high),
            (tp.value + fp.value + p, tp.low + fp.high + p, tp.high + fp.low + p),
        ),
        true_positives=count(tp, p),
        false_positives=count(fp, n),
        false_negatives=count(tp, p, below=True),
        true_negatives=count(fp, n, below=True),
    )


def _estimate(value: float, low: float, high: float, support: Interval) -> Estimate:
    # Spread evenly over the bin, the error is usually a quarter of its reach.
    typical = (high - low) / 4
    return Estimate(
        value, NotYet(), Zero(), Binning(low, high, typical), support=support
    )


def _above(edges: Edges, counts: FloatVector, t: float) -> _Above:
    values = edges.array
    if edges.atoms:
        exact = float(counts[values[:-1] >= t].sum())
        return _Above(exact, exact, exact)
    if t <= values[0]:
        whole = float(counts.sum())
        return _Above(whole, whole, whole)
    if t > values[-1]:
        return _Above(0.0, 0.0, 0.0)
    k = min(int(np.searchsorted(values, t, side="right")) - 1, len(edges) - 1)
    high = float(counts[k:].sum())
    if t == values[k]:
        return _Above(high, high, high)
    low = high - float(counts[k])
    width = values[k + 1] - values[k]
    share = (values[k + 1] - t) / width if math.isfinite(width) else 0.5
    return _Above(low + share * float(counts[k]), low, high)

r"""What a map does to the model: its metrics after the map, from the same counts.

The map was fitted to these counts, so their ECE after it is next to nothing and
says nothing. What a reader wants is the error on *new* examples: a group's rate
is known up to its own sampling error and noise, so the map misses the true rate by
:math:`N(d, v)`, d the difference that is left and v the rate's variance, and

.. math::
    E\,|N(d, v)| = \sqrt{\tfrac{2v}{\pi}}\, e^{-d^2/2v}
        + d \left(2\Phi(d/\sqrt v) - 1\right).

Its mean over the examples is the ECE that is expected of the map itself. A measured
ECE on m new examples is larger by their own sampling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.data.edges import Edges
from discreet.estimate.estimate import Estimate
from discreet.estimate.slopes import covariance_of
from discreet.estimate.sub_bins import cell_scores
from discreet.metrics.brier import brier_score
from discreet.metrics.calibration import (
    DEFAULT_BINS,
    Grouping,
    Groups,
    Predictions,
    expected_calibration_error,
    mean_squared_error,
    raw_predictions,
)
from discreet.metrics.logistic import logit
from discreet.recalibrate.maps import CalibrationMap, Identity
from discreet.statistic.observed import NoisyHistogram


@dataclass(frozen=True, slots=True)
class Effect:
    """ECE and Brier score before and after a map."""

    ece_before: Estimate
    ece_after: Estimate
    """Expected on new examples, not on those that the map was fitted to."""
    brier_before: float
    brier_after: float


def effect(
    counts: NoisyHistogram,
    fitted: CalibrationMap,
    *,
    bins: int = DEFAULT_BINS,
    kind: Grouping = "width",
    response: FloatArray | None = None,
) -> Effect:
    """Return the model's calibration before and after a map.

    ``response`` says how the counts moved with the released ones, where a smooth
    model read them.
    """
    before = expected_calibration_error(counts, bins, kind, response=response)
    if math.isnan(before.value):
        return Effect(before, before, math.nan, math.nan)
    score = brier_score(counts).value
    if isinstance(fitted, Identity):  # nothing was fitted: nothing to discount
        return Effect(before, before, score, score)
    raw = raw_predictions(counts)
    said = mapped_predictions(counts.edges, fitted)
    after = expected_calibration_error(counts, bins, kind, predictions=said)
    expected = min(_expected_error(Groups.of(counts, bins, kind, said)), 1.0)
    return Effect(
        before,
        replace(
            after, value=expected, binning=replace(after.binning, low=0.0, high=1.0)
        ),
        score,
        # Scores are spread over their bins alike: what that misses goes for both.
        score + mean_squared_error(counts, said) - mean_squared_error(counts, raw),
    )


def mapped_predictions(edges: Edges, fitted: CalibrationMap) -> Predictions:
    """Return what a map says in the cells and at the ends of every bin."""
    cells = cell_scores(edges)
    if edges.scores.kind == "logit":
        cells = logit(cells)
    inside = fitted.apply(cells)
    if edges.atoms:
        return Predictions(inside, inside[:, 0], inside[:, 0])
    ends = edges.array
    first = fitted.apply(ends[:-1])
    last = fitted.apply(np.nextafter(ends[1:], -np.inf))
    every = np.column_stack([first, inside, last])
    return Predictions(inside, every.min(axis=1), every.max(axis=1))


def _expected_error(groups: Groups) -> float:
    off = np.abs(groups.positives - groups.predicted)
    spread = np.sqrt(_variances(groups))
    each = [_folded(float(d), float(sd)) for d, sd in zip(off, spread, strict=True)]
    return sum(each) / groups.examples


def _variances(groups: Groups) -> FloatVector:
    """Return the variance of each group's positives minus predictions."""
    p, t = groups.positives, groups.totals
    sampling: FloatVector = p * (t - p) / np.where(t > 0, t, 1.0)
    if groups.counts.exact:
        return sampling
    weights = groups.of_positives - groups.sums
    noise = np.diag(covariance_of(groups.counts, weights))
    found: FloatVector = sampling + np.maximum(noise, 0.0)
    return found


def _folded(mean: float, sd: float) -> float:
    """Return the mean of the absolute value of a normal variable."""
    if sd == 0:
        return mean
    z = mean / sd
    bell = sd * math.sqrt(2 / math.pi) * math.exp(-z * z / 2)
    return bell + mean * (2 * NormalDist().cdf(z) - 1)

r"""Calibration of a model from counts per bin: the curve and its errors.

Predictions are put into G groups after the fact, of equal width or of equal mass.
With P positives, T examples and F the sum of the predictions in a group, and M
examples in all,

.. math::
    \mathrm{ECE} = \frac1M \sum_g |P_g - F_g|, \qquad
    \mathrm{MCE} = \max_g \frac{|P_g - F_g|}{T_g},

for the positive class (not the top label).

Everything is a function of the sums (P, T, F), which are linear in the counts: its
slopes give sampling error and noise by the delta method. An absolute value cannot
fall below 0, so ECE of a finite sample is above 0 for a perfect model too, and the
more so the more groups there are (:func:`sampling_floor`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.estimate.estimate import Binning, Estimate
from discreet.estimate.intervals import FoldedShape, LargestShape, RatioShape
from discreet.estimate.slopes import covariance_of
from discreet.metrics.score_groups import Groups, Kind, Predictions, totals_of
from discreet.statistic.observed import NoisyHistogram

DEFAULT_BINS: Final = 15
_Z: Final = 1.959963984540054


def expected_calibration_error(
    counts: NoisyHistogram,
    bins: int = DEFAULT_BINS,
    kind: Kind = "width",
    *,
    predictions: Predictions | None = None,
    response: FloatArray | None = None,
) -> Estimate:
    """Return ECE of the positive class, in groups of equal width or mass.

    ``predictions`` are the model's after a map; without them, the scores.
    ``response`` says how the counts moved with the released ones, where a smooth
    model read them: their scatter is what it passed on.
    """
    if totals_of(counts).sum() <= 0:
        return Estimate.undefined("there are no examples")
    groups = Groups.of(counts, bins, kind, predictions, response)
    off = groups.deviations
    value = float(np.abs(off).sum()) / groups.examples
    sign = np.sign(off) / groups.examples
    slopes = groups.slopes(sign, np.full(bins, -value / groups.examples), -sign)
    low, high = _error_limits(groups)
    binning = Binning(min(low, value), max(high, value), groups.typical_binning)
    shape = _folded(groups)
    return groups.estimate(value, slopes, binning, shape)


def _folded(groups: Groups) -> FoldedShape:
    """Return the law of the groups' deviations, as shares of all examples."""
    square = groups.examples**2
    below, above = groups.hidden or (None, None)
    return FoldedShape(
        groups.deviations / groups.examples,
        groups.covariance / square,
        None if below is None else below / square,
        None if above is None else above / square,
        reaches=groups.held_at_zero,
    )


def maximum_calibration_error(
    counts: NoisyHistogram, bins: int = DEFAULT_BINS, kind: Kind = "width"
) -> Estimate:
    """Return the largest error of a group whose examples stand out of the noise."""
    if totals_of(counts).sum() <= 0:
        return Estimate.undefined("there are no examples")
    groups = Groups.of(counts, bins, kind)
    off = groups.deviations
    safe = np.where(groups.filled, groups.totals, 1.0)
    each = np.where(groups.filled, np.abs(off) / safe, -1.0)
    worst = int(np.argmax(each))
    if each[worst] < 0:
        return Estimate.undefined("no group of scores stands out of the noise")
    one = np.zeros(bins)
    one[worst] = 1 / groups.totals[worst]
    sign = np.sign(off[worst]) * one
    slopes = groups.slopes(sign, -each[worst] * one, -sign)
    kept = groups.filled
    shape = LargestShape(
        tuple(each[kept]), tuple(groups.spreads[kept] / groups.totals[kept])
    )
    binning = Binning(0.0, 1.0, groups.typical_binning)
    return groups.estimate(float(each[worst]), slopes, binning, shape)


def sampling_floor(
    counts: NoisyHistogram, bins: int = DEFAULT_BINS, kind: Kind = "width"
) -> float:
    r"""Return the ECE that a perfect model would show on so many examples.

    :math:`\frac1M\sum_g \sqrt{2 T_g r_g(1-r_g)/\pi}`: the mean of the absolute
    value of a normal error in every group.
    """
    groups = Groups.of(counts, bins, kind)
    rate = groups.positives / np.maximum(groups.totals, 1e-300)
    spread = np.sqrt(2 / math.pi * groups.totals * rate * (1 - rate))
    return float(spread.sum()) / groups.examples


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Rates of positives against mean predictions, with 95% bands.

    Bands are of score type (Wilson's, with noise) and of each point on its own.
    """

    predicted: FloatVector
    rate: FloatVector
    low: FloatVector
    high: FloatVector
    share: FloatVector
    """Share of all examples at each point."""


def calibration_curve(
    counts: NoisyHistogram,
    bins: int = DEFAULT_BINS,
    kind: Kind = "width",
    *,
    predictions: Predictions | None = None,
) -> ReliabilityCurve:
    """Return the reliability curve; groups without examples have no point."""
    groups = Groups.of(counts, bins, kind, predictions)
    kept = np.flatnonzero(groups.filled)
    p, t = groups.positives[kept], groups.totals[kept]
    ours = groups.of_positives[kept]
    weights = np.vstack([ours, groups.shares[kept] - ours])
    noise = np.zeros((2 * kept.size, 2 * kept.size))
    if not counts.exact:
        noise = covariance_of(counts, weights)
    ends = []
    for k in range(kept.size):
        other = kept.size + k
        shape = RatioShape(
            float(p[k]),
            float(t[k] - p[k]),
            float(t[k]),
            max(float(noise[k, k]), 0.0),
            max(float(noise[other, other]), 0.0),
            float(noise[k, other]),
        )
        ends.append(shape.ends(float(p[k] / t[k]), 0.0, 0.0, _Z))
    low, high = np.array(ends).reshape(-1, 2).T
    return ReliabilityCurve(
        groups.predicted[kept] / t, p / t, low, high, t / groups.examples
    )


def mean_squared_error(counts: NoisyHistogram, predictions: Predictions) -> float:
    """Return the Brier score of predictions inside the bins."""
    q = predictions.cells
    n, p = (np.maximum(c, 0.0) for c in (counts.negatives, counts.positives))
    total = float(n.sum() + p.sum())
    return float(p @ ((1 - q) ** 2).mean(axis=1) + n @ (q**2).mean(axis=1)) / total


def _error_limits(groups: Groups) -> tuple[float, float]:
    """Return limits of ECE, wherever scores lie inside their bins.

    Groups of equal mass are taken as they were cut.

    In a bin that lies in one group, examples move the group's error between the
    bin's two ends. Examples of a bin across two groups may fall on either side:
    together they add at most what each misses its label by.
    """
    said, t = groups.predictions, totals_of(groups.counts)
    p = np.maximum(groups.counts.positives, 0.0)
    held = np.array(
        [(groups.placed == k).any(axis=1) for k in range(len(groups.totals))]
    )
    across = held.sum(axis=0) > 1
    if groups.kind == "width":
        # A cut may pass between a bin's end and its outermost cell.
        bins, last = groups.shares.shape[0], np.nextafter(said.high, 0.0)
        across |= np.floor(said.low * bins) < np.floor(last * bins)
    inside = held * ~across
    low = inside @ (p - t * said.high)
    high = inside @ (p - t * said.low)
    loose = float(across @ (p * (1 - said.low) + (t - p) * said.high))
    farthest = float(np.maximum(np.abs(low), np.abs(high)).sum()) + loose
    nearest = float(np.maximum(np.maximum(low, -high), 0.0).sum()) - loose
    return max(nearest, 0.0) / groups.examples, farthest / groups.examples

r"""Bands around the ROC and PR curves: point by point, and for the curve as a whole.

*Pointwise*: at each threshold of the release, an interval that holds the
population's curve there with the stated probability. For ROC it is vertical, at
the estimated false positive rate F: an error of F moves along the curve and
counts with the curve's slope,

.. math::
    \operatorname{Var} = \frac{T(1-T)}{P} + T'(F)^2\,\frac{F(1-F)}{N} + \text{noise}.

For PR it is the interval of the precision at each threshold. Above the first
threshold whose examples stand out of the noise (``Curves.lead``), and at recall 0,
there is no count to bound: the interval is that of this threshold, open to 1. A
stricter threshold is taken to be no less precise there; no release could show it.

*Simultaneous*: the same intervals, with z raised until the whole curve is inside at
once (equal-precision bands, Nair 1984). The z is the quantile of the largest
standardised deviation over all thresholds, in simulated sampling errors plus
simulated noise. The draws are seeded by the release: two readers get the same band.
Between thresholds the curve's shape is the estimator's; what bins hide is not in the
band.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Literal, TypeAlias

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.errors import InputError
from discreet.estimate.curves import Curves
from discreet.estimate.fit import Fit
from discreet.estimate.intervals import RatioShape
from discreet.estimate.slopes import covariance_of
from discreet.metrics.cuts import confusion_weights
from discreet.statistic.observed import NoisyHistogram

BandKind: TypeAlias = Literal["roc", "pr"]
_DRAWS: Final = 2000
_STILL: Final = 1e-9
"""A threshold where nothing moves, such as the last, has no deviation."""
_STEEPEST: Final = 1e3
"""A vertical piece of the curve: F is exact enough there, or T is unknown."""


@dataclass(frozen=True, eq=False)
class Band:
    """Limits of a curve at the release's thresholds, from the highest down.

    For ROC ``x`` is the false positive rate and the limits are true positive
    rates; for PR ``x`` is the recall and the limits are precisions.
    """

    thresholds: FloatVector
    x: FloatVector
    value: FloatVector
    low: FloatVector
    high: FloatVector
    level: float
    simultaneous: bool


def band(
    fit: Fit,
    kind: BandKind,
    *,
    level: float = 0.95,
    simultaneous: bool = False,
) -> Band:
    """Return the curve's limits at each threshold, or for the whole curve at once."""
    if not 0 < level < 1:
        raise InputError("the level of a band lies strictly between 0 and 1")
    if simultaneous:
        z = _largest_deviation(fit, kind, level)
    else:
        z = NormalDist().inv_cdf(0.5 + level / 2)
    low, high = _limits(fit, kind, z)
    x, value = _curve(fit.curves, kind)
    return Band(fit.curves.thresholds, x, value, low, high, level, simultaneous)


def _limits(fit: Fit, kind: BandKind, z: float) -> tuple[FloatVector, FloatVector]:
    """Return the ends of the interval at each threshold."""
    observed, curves = fit.observed, fit.curves
    released, read = _confusions(observed), _confusions(fit.counts)
    slopes = _roc_slopes(read)
    ends = []
    for threshold in curves.thresholds:
        above = int(np.count_nonzero(observed.edges.array[:-1] >= threshold))
        noise = _confusion_noise(observed, above)
        shape = (
            _precision_shape(released[above], read[above], noise)
            if kind == "pr"
            else _recall_shape(released[above], read[above], noise, slopes[above])
        )
        ends.append(shape.shares(z))
    low, high = np.array(ends).T
    if kind == "pr":
        first = max(curves.lead, min(1, low.size - 1))
        low[:first], high[:first] = low[first], 1.0
    value = _curve(curves, kind)[1]
    return np.minimum(low, value), np.maximum(high, value)


def _curve(curves: Curves, kind: BandKind) -> tuple[FloatVector, FloatVector]:
    if kind == "roc":
        return curves.fpr, curves.tpr
    return curves.tpr, curves.precision


def _confusions(counts: NoisyHistogram) -> FloatArray:
    """Return TP, FN, FP, TN at every edge from the highest score down."""
    tp = np.append(0.0, np.cumsum(counts.positives[::-1]))
    fp = np.append(0.0, np.cumsum(counts.negatives[::-1]))
    return np.column_stack([tp, tp[-1] - tp, fp, fp[-1] - fp])


def _roc_slopes(read: FloatArray) -> FloatVector:
    """Return dT/dF at every edge: the mean of the bins on both sides."""
    tpr, fpr = read[:, 0] / read[-1, 0], read[:, 2] / read[-1, 2]
    rise, run = np.diff(tpr), np.diff(fpr)
    around_rise = np.append(rise, 0.0) + np.append(0.0, rise)
    around_run = np.append(run, 0.0) + np.append(0.0, run)
    steep = np.full_like(around_rise, _STEEPEST)
    np.divide(around_rise, around_run, out=steep, where=around_run > 0)
    found: FloatVector = np.minimum(steep, _STEEPEST)
    return found


def _precision_shape(
    released: FloatVector, read: FloatVector, noise: FloatArray
) -> RatioShape:
    predicted = max(float(read[0] + read[2]), 0.0)
    return RatioShape(
        *(released[0], released[2], predicted),
        *(noise[0, 0], noise[2, 2], noise[0, 2]),
    )


def _recall_shape(
    released: FloatVector, read: FloatVector, noise: FloatArray, slope: float
) -> RatioShape:
    positives, negatives = read[0] + read[1], read[2] + read[3]
    f = read[2] / negatives
    # An error of F is, along the curve, an error of T: it moves TP against FN. Under
    # label privacy the two are one error: what one class gains the other loses.
    moved = positives * slope / negatives * np.array([0.0, 0.0, 1 - f, -f])
    both = np.eye(4)[:2] + np.stack([-moved, moved])
    own = both @ noise @ both.T
    along = (positives * slope) ** 2 * f * (1 - f) / negatives
    return RatioShape(
        *(released[0], released[1], positives),
        *(own[0, 0] + along, own[1, 1] + along, own[0, 1] - along),
    )


def _confusion_noise(observed: NoisyHistogram, row: int) -> FloatArray:
    """Return the noise's covariance of TP, FN, FP, TN."""
    if observed.exact:
        return np.zeros((4, 4))
    bins = len(observed.edges)
    above = np.zeros(bins)
    above[bins - row :] = 1.0
    return covariance_of(observed, confusion_weights(above))


def _largest_deviation(fit: Fit, kind: BandKind, level: float) -> float:
    """Return the quantile of the curve's largest standardised deviation."""
    observed, counts = fit.observed, fit.counts
    rng = _seeded(observed)
    at = np.concatenate([observed.negatives, observed.positives])
    noise = np.split(observed.noise.sample(at, _DRAWS, rng), 2, axis=1)
    fp, tp = (
        _accumulated(rng.normal(size=own.shape) * np.sqrt(np.maximum(cells, 0)) + own)
        for cells, own in zip((counts.negatives, counts.positives), noise, strict=True)
    )
    read = _confusions(counts)[1:]
    positives, negatives = read[-1, 0], read[-1, 2]
    if kind == "roc":
        in_t = (tp - read[:, 0] / positives * tp[:, -1:]) / positives
        in_f = (fp - read[:, 2] / negatives * fp[:, -1:]) / negatives
        moved = in_t - _roc_slopes(_confusions(counts))[1:] * in_f
    else:
        predicted = np.maximum(read[:, 0] + read[:, 2], 1e-9)
        precision = read[:, 0] / predicted
        moved = (1 - precision) * tp - precision * fp
    sd = np.sqrt(np.mean(moved**2, axis=0))
    some = sd > _STILL * max(float(sd.max()), 1.0 / (positives + negatives))
    if not some.any():  # perfect separation shows no spread: Bonferroni's z
        return NormalDist().inv_cdf(1 - (1 - level) / (2 * sd.size))
    largest = np.abs(moved[:, some] / sd[some]).max(axis=1)
    return float(np.quantile(largest, level))


def _accumulated(cells: FloatArray) -> FloatArray:
    """Add up from the highest score down."""
    return np.cumsum(cells[:, ::-1], axis=1)


def _seeded(observed: NoisyHistogram) -> np.random.Generator:
    released = np.concatenate([observed.negatives, observed.positives])
    digest = hashlib.sha256(np.ascontiguousarray(released).tobytes()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))

r"""The points of the ROC, PR and DET curves as scikit-learn returns them, and bands.

Straight lines between the points are the curve that is drawn and whose area is quoted.
Where pairs inside a bin count as ties, these are the points at the edges. Elsewhere each
bin is cut into pieces of at most 1/2048 of :math:`w = (F + T)/2`, at the path's own knots
where it has some, and every point has the threshold that ``at`` gives these rates for. A
tie is one piece: no threshold parts it.

``drop_intermediate`` leaves out points that a drawn curve does not show: inside straight
lines of the ROC curve, and where the true positives stand still in the PR and DET
curves. Unlike scikit-learn's, it is off unless asked for.

**Bands** are limits point by point, or for the curve as a whole.

*Pointwise*: at each threshold of the release, an interval that holds the population's
curve there. For ROC it is vertical, at the estimated false positive rate F: an error of
F moves along the curve and counts with the curve's slope,

.. math::
    \operatorname{Var} = \frac{T(1-T)}{P} + T'(F)^2\,\frac{F(1-F)}{N} + \text{noise}.

For PR it is the interval of the precision at each threshold. Above the first threshold
whose examples stand out of the noise (``Curves.lead``), and at recall 0, it is that of
this threshold, open to 1: no release could show that a stricter one is less precise.

*Simultaneous*: the same intervals, with z raised until the whole curve is inside at
once (equal-precision bands, Nair 1984). The z is the quantile of the largest
standardised deviation over all thresholds, in simulated sampling errors plus simulated
noise, drawn from a seed of the release. What bins hide is not in the band.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from discreet.arrays import BoolVector, FloatArray, FloatVector, IntVector
from discreet.errors import InputError
from discreet.estimate.curves import (
    Curves,
    Polyline,
    ThresholdPath,
    Traced,
    precision_of,
)
from discreet.estimate.fit import Fit
from discreet.estimate.intervals import RatioShape
from discreet.metrics.measure import Share, seeded_by
from discreet.metrics.thresholds import confusion_noise, confusions, share_shape

_PIECES: Final = 2048
"""So many pieces of a whole curve, at least: the area of what they cut off is below 1e-6."""
_FEWEST: Final = 512
"""Few bins have so many pieces together even where they hold little."""
_HALVED: Final = 10
"""How often the first piece is halved: precision may change fast at recall 0."""
_APART: Final = 1e-11
"""Places that are closer are one place and its rounding."""
_STRAIGHT: Final = 1e-9
"""Sine of an angle between two pieces that nobody sees."""

BandKind: TypeAlias = Literal["roc", "pr"]
_DRAWS: Final = 2000
_STILL: Final = 1e-9
"""A threshold where nothing moves, such as the last, has no deviation."""
_STEEPEST: Final = 1e3
"""A vertical piece of the curve: F is exact enough there, or T is unknown."""
_PRECISION: Final = Share((1, 0, 0, 0), (0, 0, 1, 0))


class Points(NamedTuple):
    """Two rates and the thresholds that give them."""

    x: FloatVector
    y: FloatVector
    thresholds: FloatVector


class _CurvePoints(NamedTuple):
    """Points of a curve from the threshold infinity down."""

    thresholds: FloatVector
    false_positives: FloatVector
    true_positives: FloatVector
    fpr: FloatVector
    tpr: FloatVector
    precision: FloatVector

    def taken(self, kept: BoolVector | IntVector) -> _CurvePoints:
        """Return some of the points."""
        return _CurvePoints(*(each[kept] for each in self))


def roc_points(
    fit: Fit,
    *,
    drop_intermediate: bool = False,
    thresholds: Iterable[float] = (),
    inside_bins: bool = True,
) -> Points:
    """Return false and true positive rates by falling threshold, from infinity.

    Each of ``thresholds`` has a point unless points are dropped. ``inside_bins=False``
    returns the points at the edges alone.
    """
    line = _line(fit, thresholds, inside_bins=inside_bins, drop=drop_intermediate)
    if drop_intermediate:
        line = line.taken(_bends(line, counted=_at_edges(fit)))
    return Points(line.fpr, line.tpr, line.thresholds)


def pr_points(
    fit: Fit,
    *,
    drop_intermediate: bool = False,
    thresholds: Iterable[float] = (),
    inside_bins: bool = True,
) -> Points:
    """Return precision and recall by rising threshold, to precision 1 at recall 0.

    Without positives recall is 1 at every threshold, as scikit-learn has it.
    """
    line = _line(fit, thresholds, inside_bins=inside_bins, drop=drop_intermediate)
    if drop_intermediate:
        moving = _moving(line.true_positives[1:])
        line = line.taken(np.append(True, moving))
    recall = line.tpr
    if line.true_positives[-1] <= 0:
        recall = np.append(0.0, np.ones(recall.size - 1))
    return Points(line.precision[::-1], recall[::-1], line.thresholds[:0:-1])


def det_points(
    fit: Fit,
    *,
    drop_intermediate: bool = False,
    thresholds: Iterable[float] = (),
    inside_bins: bool = True,
) -> Points:
    """Return false positive and negative rates by rising threshold.

    From the highest threshold that misses nothing to the lowest without a false alarm,
    which is infinity where the highest score is a negative's.
    """
    line = _line(fit, thresholds, inside_bins=inside_bins, drop=drop_intermediate)
    if drop_intermediate:
        line = line.taken(_moving(line.true_positives))
    fpr, tpr = line.fpr, line.tpr
    first = max(int(np.searchsorted(fpr, fpr[0], side="right")) - 1, 0)
    last = int(np.searchsorted(tpr, tpr[-1])) + 1
    ends = slice(first, last)
    return Points(fpr[ends][::-1], (1.0 - tpr[ends])[::-1], line.thresholds[ends][::-1])


def drawn_points(fit: Fit) -> tuple[Polyline, Polyline]:
    """Return the ROC and PR curves that a reader of the points draws.

    Points are joined by straight lines. A PR curve with ties is drawn in steps, as
    scikit-learn's display draws every PR curve.
    """
    fpr, tpr, _ = roc_points(fit)
    precision, recall, _ = pr_points(fit)
    tied = fit.curves.joined_for_ties or bool(fit.curves.roc.tied.any())
    join = Polyline.steps if tied else Polyline.of
    return Polyline.of(fpr, tpr), join(recall, precision)


def _at_edges(fit: Fit) -> bool:
    """Say whether the points at the edges, joined by straight lines, are the curve."""
    return fit.along is None and fit.curves.traced is None


def _line(
    fit: Fit, declared: Iterable[float], *, inside_bins: bool, drop: bool
) -> _CurvePoints:
    """Return the curve's points and, unless points are dropped, declared thresholds'."""
    curves, traced = fit.curves, fit.curves.traced
    if inside_bins and fit.along is not None:
        traced = _cut(fit.along, curves)
    if inside_bins and traced is not None:
        line = _weighed(curves, traced)
    else:
        line = _CurvePoints(
            curves.thresholds,
            curves.false_positives,
            curves.true_positives,
            curves.fpr,
            curves.tpr,
            curves.precision,
        )
    # Exact counts joined for ties are scikit-learn's points, and no others.
    if drop or (_at_edges(fit) and fit.observed.exact):
        return line
    return _with_thresholds(line, declared, fit.counts.edges.scores.high)


def _with_thresholds(
    line: _CurvePoints, declared: Iterable[float], high: float
) -> _CurvePoints:
    """Add thresholds without a point: nothing lies between them and the next point."""
    wanted = np.unique([float(t) for t in declared if t < high])
    missing = np.setdiff1d(wanted, line.thresholds)
    if not missing.size:
        return line
    above = np.searchsorted(-line.thresholds, -missing) - 1
    places = np.append(np.arange(line.thresholds.size), above)
    thresholds = np.append(line.thresholds, missing)
    order = np.argsort(-thresholds)
    return line.taken(places[order])._replace(thresholds=thresholds[order])


def _cut(along: ThresholdPath, curves: Curves) -> Traced:
    """Cut the curve into pieces between the edges, from the highest threshold down."""
    knots = (curves.fpr + curves.tpr) / 2
    bounds = _places(along, knots)
    segment = np.searchsorted(knots, bounds, side="right") - 1
    inner = bounds[np.minimum(bounds - knots[segment], knots[segment + 1] - bounds) > 0]
    segment = np.searchsorted(knots, inner, side="right") - 1
    edges = along.edges.array
    # A segment of the curve is the bin that starts at the threshold of its lower end.
    bins = np.searchsorted(edges, curves.thresholds[segment + 1])
    inner = along.thresholds(inner, bins.astype(np.int64))
    inside = (inner > edges[bins]) & (inner < edges[bins + 1])
    inner = np.unique(inner[inside])[::-1]
    f, t = along.at(inner)
    thresholds = np.append(curves.thresholds, inner)
    order = np.argsort(-thresholds)
    return Traced(
        thresholds[order],
        np.maximum.accumulate(np.append(curves.fpr, f)[order]),
        np.maximum.accumulate(np.append(curves.tpr, t)[order]),
    )


def _places(along: ThresholdPath, knots: FloatVector) -> FloatVector:
    """Return where the curve is cut between its knots at the edges."""
    path = along.path
    own = path.knots[0]
    bounds = np.unique(np.append(knots, own)) if path.piecewise_linear else knots
    gaps = np.diff(bounds)
    middle = bounds[:-1] + gaps / 2
    k = np.clip(np.searchsorted(own, middle, side="right") - 1, 0, path.tied.size - 1)
    least = np.ceil(_FEWEST / gaps.size)
    each = np.maximum(np.ceil(gaps * _PIECES), least)
    each[path.tied[k] | (gaps <= _APART)] = 1
    cut = np.repeat(bounds[:-1], each.astype(np.int64))
    step = np.repeat(gaps / each, each.astype(np.int64))
    index = np.concatenate([np.arange(n) for n in each])
    places = cut + step * index
    if not path.tied[k[0]]:
        first = gaps[0] / each[0] / 2.0 ** np.arange(1, _HALVED + 1)
        places = np.append(places, first)
    near = np.searchsorted(knots, places).clip(1, knots.size - 1)
    off = np.minimum(abs(places - knots[near - 1]), abs(knots[near] - places))
    return np.asarray(np.unique(places[off > _APART]))


def _weighed(curves: Curves, traced: Traced) -> _CurvePoints:
    """Add the counts and the precision at points of the path."""
    thresholds, fpr, tpr, precision = traced
    fp = fpr * float(curves.false_positives[-1])
    tp = tpr * float(curves.true_positives[-1])
    if precision is None:
        counted = precision_of(tp, fp)
        precision = curves.no_less_than_lead((fpr + tpr) / 2, counted)
        precision[np.isnan(precision) | np.isinf(thresholds)] = 1.0
    return _CurvePoints(thresholds, fp, tp, fpr, tpr, precision)


def _bends(line: _CurvePoints, *, counted: bool) -> BoolVector:
    """Say which points a drawn ROC curve shows."""
    kept = np.ones(line.fpr.size, dtype=np.bool_)
    if kept.size <= 3:
        return kept
    if counted:
        # The point at infinity is added after trimming, as scikit-learn does.
        fp, tp = line.false_positives, line.true_positives
        kept[2:-1] = (np.diff(fp[1:], 2) != 0) | (np.diff(tp[1:], 2) != 0)
        return kept
    run, rise = np.diff(line.fpr), np.diff(line.tpr)
    kept[:-1] = (run > 0) | (rise > 0)
    kept[0] = True
    at = np.flatnonzero(kept)
    run, rise = np.diff(line.fpr[at]), np.diff(line.tpr[at])
    turn = run[:-1] * rise[1:] - run[1:] * rise[:-1]
    size = np.hypot(run, rise)
    kept[at[1:-1]] = abs(turn) > _STRAIGHT * size[:-1] * size[1:]
    return kept


def _moving(counts: FloatVector) -> BoolVector:
    """Say where a running count differs from the one before or the one after."""
    moving = np.ones(counts.size, dtype=np.bool_)
    moves = np.diff(counts) != 0
    moving[1:-1] = moves[:-1] | moves[1:]
    return moving


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
    observed, curves = fit.observed, fit.curves
    released, fitted = confusions(observed), confusions(fit.counts)
    slopes = _roc_slopes(fitted)
    ends = []
    for threshold in curves.thresholds:
        above = int(np.count_nonzero(observed.edges.array[:-1] >= threshold))
        noise = confusion_noise(observed, above)
        shape = (
            share_shape(_PRECISION, released[above], fitted[above], noise)
            if kind == "pr"
            else _recall_shape(released[above], fitted[above], noise, slopes[above])
        )
        ends.append(shape.shares(z))
    low, high = np.array(ends).T
    if kind == "pr":
        first = max(curves.lead, min(1, low.size - 1))
        low[:first], high[:first] = low[first], 1.0
    x, value = (
        (curves.fpr, curves.tpr) if kind == "roc" else (curves.tpr, curves.precision)
    )
    low, high = np.minimum(low, value), np.maximum(high, value)
    return Band(curves.thresholds, x, value, low, high, level, simultaneous)


def _roc_slopes(fitted: FloatArray) -> FloatVector:
    """Return dT/dF at every edge: the mean of the bins on both sides."""
    tpr, fpr = fitted[:, 0] / fitted[-1, 0], fitted[:, 2] / fitted[-1, 2]
    rise, run = np.diff(tpr), np.diff(fpr)
    around_rise = np.append(rise, 0.0) + np.append(0.0, rise)
    around_run = np.append(run, 0.0) + np.append(0.0, run)
    steep = np.full_like(around_rise, _STEEPEST)
    np.divide(around_rise, around_run, out=steep, where=around_run > 0)
    return np.asarray(np.minimum(steep, _STEEPEST))


def _recall_shape(
    released: FloatVector, fitted: FloatVector, noise: FloatArray, slope: float
) -> RatioShape:
    positives, negatives = fitted[0] + fitted[1], fitted[2] + fitted[3]
    f = fitted[2] / negatives
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


def _largest_deviation(fit: Fit, kind: BandKind, level: float) -> float:
    """Return the quantile of the curve's largest standardised deviation."""
    observed, counts = fit.observed, fit.counts
    rng = seeded_by(observed)
    noise = np.split(observed.noise.sample(observed.vector, _DRAWS, rng), 2, axis=1)
    fp, tp = (
        np.cumsum(
            (rng.normal(size=own.shape) * np.sqrt(np.maximum(cells, 0)) + own)[:, ::-1],
            axis=1,
        )
        for cells, own in zip((counts.negatives, counts.positives), noise, strict=True)
    )
    fitted = confusions(counts)[1:]
    positives, negatives = fitted[-1, 0], fitted[-1, 2]
    if kind == "roc":
        in_t = (tp - fitted[:, 0] / positives * tp[:, -1:]) / positives
        in_f = (fp - fitted[:, 2] / negatives * fp[:, -1:]) / negatives
        moved = in_t - _roc_slopes(confusions(counts))[1:] * in_f
    else:
        predicted = np.maximum(fitted[:, 0] + fitted[:, 2], 1e-9)
        precision = fitted[:, 0] / predicted
        moved = (1 - precision) * tp - precision * fp
    sd = np.sqrt(np.mean(moved**2, axis=0))
    some = sd > _STILL * max(float(sd.max()), 1.0 / (positives + negatives))
    if not some.any():  # perfect separation shows no spread: Bonferroni's z
        return NormalDist().inv_cdf(1 - (1 - level) / (2 * sd.size))
    largest = np.abs(moved[:, some] / sd[some]).max(axis=1)
    return float(np.quantile(largest, level))

"""ROC, PR and DET curves from cumulative counts, with two interpolations.

Every curve derives from one pair of cumulative counts, true and false positives
above each threshold, from the highest threshold down.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from discreet.arrays import BoolVector, FloatVector
from discreet.errors import InputError
from discreet.estimate.slopes import noise_above
from discreet.statistic.observed import NoisyHistogram

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from scipy.interpolate import PPoly

Interpolation: TypeAlias = Literal["linear", "pchip"]
_TINY: Final = 1e-9
"""Knots nearer than this are one. PCHIP's tangents beside a bin depend on its slope however
thin it is, and the slope of a thinner bin is mostly rounding."""
_TOLD: Final = 6.0
"""So many deviations of its noise a count holds before its classes are told apart."""


class Curve(Protocol):
    """A curve that can be drawn as a polyline, as finely as asked."""

    @property
    def piecewise_linear(self) -> bool:
        """Whether the polyline is the curve itself."""
        ...

    def polyline(self, pieces: int) -> Polyline:
        """Cut each segment into ``pieces`` straight ones."""
        ...


@dataclass(frozen=True, eq=False)
class Polyline:
    """A piecewise-linear function with jumps: x never falls, y is free.

    Two points with the same x are a jump.
    """

    x: FloatVector
    y: FloatVector

    def __post_init__(self) -> None:
        if self.x.shape != self.y.shape or self.x.ndim != 1 or self.x.size < 2:
            raise InputError("a curve is two equally long vectors of 2 points or more")
        if not (np.isfinite(self.x).all() and np.isfinite(self.y).all()):
            raise InputError("a curve's points must be finite")
        if (np.diff(self.x) < 0).any():
            raise InputError("a curve's x values must not fall")

    @classmethod
    def of(cls, x: ArrayLike, y: ArrayLike) -> Polyline:
        """Join points; they may come in falling order of x, as PR points do."""
        xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if xs.size and xs[0] > xs[-1]:
            xs, ys = xs[::-1], ys[::-1]
        return cls(xs, ys)

    @classmethod
    def steps(cls, recall: ArrayLike, precision: ArrayLike) -> Polyline:
        """Return scikit-learn's step PR curve: constant up to each recall."""
        line = cls.of(recall, precision)
        x = np.repeat(line.x, 2)[1:-1]
        y = np.repeat(line.y[1:], 2)
        return cls(x, y)

    @property
    def piecewise_linear(self) -> bool:
        """It is."""
        return True

    def polyline(self, pieces: int) -> Polyline:
        """Return itself: there is nothing to refine."""
        del pieces
        return self


@dataclass(frozen=True, eq=False)
class RocPath:
    """An ROC curve (F, T) through knots, as functions of w = (F + T)/2.

    Both rates rise with w, and w is strictly increasing once repeated knots
    (empty bins) are merged, which PCHIP needs. ``ties`` marks the segments, one
    between each two points, whose examples share one score: these are straight, and
    PCHIP starts anew behind them.
    """

    fpr: FloatVector
    tpr: FloatVector
    interpolation: Interpolation
    ties: BoolVector | None = None

    @cached_property
    def knots(self) -> tuple[FloatVector, FloatVector, FloatVector]:
        """Return w, F, T with repeated knots merged."""
        w = (self.fpr + self.tpr) / 2
        keep = np.append(True, np.diff(w) > _TINY)
        # The last of a run of equal knots is the curve's end: keep (1, 1) exact.
        f, t = self.fpr[keep].copy(), self.tpr[keep].copy()
        f[-1], t[-1] = self.fpr[-1], self.tpr[-1]
        return (f + t) / 2, f, t

    @cached_property
    def tied(self) -> BoolVector:
        """Say which segments between knots are ties."""
        if self.ties is None:
            return np.zeros(self.knots[0].size - 1, dtype=np.bool_)
        rises = np.diff((self.fpr + self.tpr) / 2) > _TINY
        found: BoolVector = self.ties[rises]
        return found

    @cached_property
    def _smooth(self) -> tuple[PPoly, PPoly] | None:
        w, f, t = self.knots
        if self.interpolation == "linear" or w.size < 3:
            return None
        return _bent(w, f, self.tied), _bent(w, t, self.tied)

    @property
    def piecewise_linear(self) -> bool:
        """Whether knots are joined by straight lines."""
        return self._smooth is None

    def at(self, w: FloatVector) -> tuple[FloatVector, FloatVector]:
        """Return F and T at places w."""
        knots, f, t = self.knots
        if self._smooth is None:
            return np.interp(w, knots, f), np.interp(w, knots, t)
        smooth_f, smooth_t = self._smooth
        return np.clip(smooth_f(w), 0, 1), np.clip(smooth_t(w), 0, 1)

    def slopes(self, w: FloatVector) -> tuple[FloatVector, FloatVector]:
        """Return dF/dw and dT/dw at places w strictly between knots."""
        knots, f, t = self.knots
        if self._smooth is None:
            k = np.clip(np.searchsorted(knots, w, side="right") - 1, 0, knots.size - 2)
            return (np.diff(f) / np.diff(knots))[k], (np.diff(t) / np.diff(knots))[k]
        smooth_f, smooth_t = self._smooth
        return smooth_f(w, nu=1), smooth_t(w, nu=1)

    def places(self, pieces: int) -> FloatVector:
        """Return the knots with each gap cut into ``pieces``."""
        w = self.knots[0]
        steps = np.arange(pieces) / pieces
        inner = (w[:-1, None] + np.diff(w)[:, None] * steps).ravel()
        return np.append(inner, w[-1])

    def polyline(self, pieces: int) -> Polyline:
        """Draw T against F."""
        if self.piecewise_linear:
            return Polyline(self.knots[1], self.knots[2])
        f, t = self.at(self.places(pieces))
        return Polyline(np.maximum.accumulate(f), np.maximum.accumulate(t))


class Lead(NamedTuple):
    """Where a curve leaves the part that noise hides: (F + T)/2, and the precision."""

    place: float
    precision: float


class Traced(NamedTuple):
    """Points of a curve from the threshold infinity down, each with its threshold."""

    thresholds: FloatVector
    fpr: FloatVector
    tpr: FloatVector
    precision: FloatVector | None = None
    """None where it follows from the rates and the class totals."""


@dataclass(frozen=True, eq=False)
class PrPath:
    r"""The PR curve of an ROC curve: :math:`TP/(TP + FN)` turned into precision.

    With P positives and N negatives, precision is
    :math:`P T/(P T + N F)` at recall T (Davis and Goadrich 2006): hyperbolic
    between the points of a linear ROC. At recall 0 it takes its limit, that of
    the first segment. Ties are a step: no threshold parts them. Up to ``lead`` the
    precision is at least that of this point.
    """

    roc: RocPath
    positives: float
    negatives: float
    lead: Lead | None = None

    @property
    def piecewise_linear(self) -> bool:
        """A hyperbola is not."""
        return False

    def polyline(self, pieces: int) -> Polyline:
        """Draw precision against recall."""
        places = self.roc.places(pieces)
        f, t = self.roc.at(places)
        precision = precision_of(self.positives * t, self.negatives * f)
        if self.lead is not None:
            hidden = places <= self.lead.place
            precision[hidden] = np.fmax(precision[hidden], self.lead.precision)
        precision[0] = precision[1] if np.isnan(precision[0]) else precision[0]
        t = np.maximum.accumulate(t)
        if not self.roc.tied.any():
            return Polyline(t, precision)
        tied = np.repeat(self.roc.tied, pieces)
        left = np.where(
            tied, np.repeat(precision[pieces::pieces], pieces), precision[:-1]
        )
        right = np.where(tied, left, precision[1:])
        x, y = np.stack([t[:-1], t[1:]], axis=1), np.stack([left, right], axis=1)
        return Polyline(x.ravel(), y.ravel())


@dataclass(frozen=True, eq=False)
class Curves:
    """The cumulative counts of a histogram and the curves drawn through them."""

    thresholds: FloatVector
    true_positives: FloatVector
    false_positives: FloatVector
    interpolation: Interpolation
    path: RocPath | None = None
    """A finer curve than the one through the counts, from an estimator's model."""
    pr_path: Curve | None = None
    """A PR curve that does not follow from the ROC curve and the totals."""
    traced: Traced | None = None
    """The path's points, where an estimator draws it from threshold to threshold."""
    ties: BoolVector | None = None
    """Which segments between the points are ties, where only some are."""
    lead: int = 0
    """The first point whose examples stand out of the release's noise.

    Above it a release does not tell which class comes first: the ratio of two counts
    that noise alone could have made is no precision. A stricter threshold is taken to
    be no less precise than this one. 0 where there is no noise.
    """

    @classmethod
    def from_histogram(
        cls,
        observed: NoisyHistogram,
        interpolation: Interpolation,
        *,
        ties: BoolVector | None = None,
    ) -> Curves:
        """Accumulate from the highest bin down; bins without examples add no point.

        ``ties`` are the bins, ascending, whose examples share one score.
        """
        tp = np.append(0.0, np.cumsum(observed.positives[::-1]))
        fp = np.append(0.0, np.cumsum(observed.negatives[::-1]))
        thresholds = np.append(np.inf, observed.edges.array[-2::-1])
        filled = (observed.positives != 0) | (observed.negatives != 0)
        keep = np.append(True, filled[::-1])
        return cls(
            thresholds[keep],
            tp[keep],
            fp[keep],
            interpolation,
            ties=None if ties is None else ties[::-1][filled[::-1]],
            lead=_lead((tp + fp)[keep], np.append(0.0, noise_above(observed))[keep]),
        )

    @cached_property
    def fpr(self) -> FloatVector:
        """False positive rate at each threshold."""
        return _rates(self.false_positives)

    @cached_property
    def tpr(self) -> FloatVector:
        """True positive rate (recall) at each threshold."""
        return _rates(self.true_positives)

    @cached_property
    def precision(self) -> FloatVector:
        """Precision at each threshold; 1 where nothing is predicted positive."""
        found = self.counted_precision.copy()
        found[1 : self.lead] = np.maximum(found[1 : self.lead], found[self.lead])
        return found

    @cached_property
    def counted_precision(self) -> FloatVector:
        """Precision of the counts as they were read, also where noise hides it."""
        found = precision_of(self.true_positives, self.false_positives)
        return np.where(np.isnan(found), 1.0, found)

    @cached_property
    def roc(self) -> RocPath:
        """The ROC curve."""
        return self.path or RocPath(self.fpr, self.tpr, self.interpolation, self.ties)

    @property
    def joined_for_ties(self) -> bool:
        """Whether points are joined by straight lines because scores tie."""
        return self.interpolation == "linear" and self.path is None

    @property
    def pr(self) -> Curve:
        """The PR curve: steps for ties, smooth otherwise."""
        if self.pr_path is not None:
            return self.pr_path
        if self.joined_for_ties:
            return Polyline.steps(self.tpr, self.precision)
        return PrPath(
            self.roc,
            float(self.true_positives[-1]),
            float(self.false_positives[-1]),
            self._lead_point,
        )

    def no_less_than_lead(self, w: FloatVector, precision: FloatVector) -> FloatVector:
        """Return precisions at places (F + T)/2, above the lead at least the lead's."""
        found, lead = precision.copy(), self._lead_point
        if lead is not None:
            hidden = w <= lead.place
            found[hidden] = np.fmax(found[hidden], lead.precision)
        return found

    @property
    def _lead_point(self) -> Lead | None:
        if self.lead == 0:
            return None
        place = (self.fpr[self.lead] + self.tpr[self.lead]) / 2
        return Lead(float(place), float(self.counted_precision[self.lead]))


def _bent(w: FloatVector, values: FloatVector, tied: BoolVector) -> PPoly:
    """Return PCHIP through the knots, with straight lines where they are tied."""
    from scipy.interpolate import PchipInterpolator, PPoly  # noqa: PLC0415

    # A segment that hardly rises overflows in SciPy's harmonic mean of slopes,
    # whose limit, a level tangent, is what it then returns.
    with np.errstate(over="ignore"):
        if not tied.any():
            return PchipInterpolator(w, values)
        pieces = np.zeros((4, tied.size))
        pieces[2], pieces[3] = np.diff(values) / np.diff(w), values[:-1]
        for start, stop in runs(~tied):
            if stop - start > 1:
                part = slice(start, stop + 1)
                pieces[:, start:stop] = PchipInterpolator(w[part], values[part]).c
    return PPoly(pieces, w)


def runs(marked: BoolVector) -> list[tuple[int, int]]:
    """Return where runs of marked places start, and where they have stopped.

    >>> runs(np.array([True, True, False, True]))
    [(0, 2), (3, 4)]
    """
    turns = np.flatnonzero(np.diff(np.concatenate([[0], marked, [0]])))
    return [(int(a), int(b)) for a, b in turns.reshape(-1, 2)]


def precision_of(tp: FloatVector, fp: FloatVector) -> FloatVector:
    """Return TP/(TP + FP), NaN where nothing is predicted positive."""
    predicted = tp + fp
    result = np.full(np.shape(predicted), np.nan)
    np.divide(tp, predicted, out=result, where=predicted > 0)
    return result


def _lead(above: FloatVector, noise: FloatVector) -> int:
    """Return the first point, after the start, that holds more than its noise."""
    if not noise.any():
        return 0
    told = np.flatnonzero(above[1:] >= _TOLD * noise[1:])
    return int(told[0]) + 1 if told.size else above.size - 1


def _rates(counts: FloatVector) -> FloatVector:
    total = float(counts[-1])
    if total <= 0:
        return np.full(counts.shape, np.nan)
    return counts / total

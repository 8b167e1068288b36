r"""ROC, PR and DET curves from cumulative counts, and the threshold of each point.

Every curve derives from one pair of cumulative counts, true and false positives
above each threshold, from the highest threshold down. Points are joined by straight
lines or by PCHIP.

*Thresholds inside a bin.* A curve is a function of :math:`w = (F + T)/2`, which is known
at every edge. PCHIP on the scale of the logit (of the score where it is no probability)
joins its values, and rates at a threshold are the curve's rates at w(t). The outermost
bins have no finite logit at their far end: in them w is straight in the probability.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from scipy.special import expit, logit

from discreet.arrays import BoolVector, FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.errors import InputError
from discreet.estimate.slopes import noise_above
from discreet.statistic.observed import NoisyHistogram

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from scipy.interpolate import PchipInterpolator, PPoly

Interpolation: TypeAlias = Literal["linear", "pchip"]
_TINY: Final = 1e-9
"""Knots nearer than this are one. PCHIP's tangents beside a bin depend on its slope however
thin it is, and the slope of a thinner bin is mostly rounding."""
_TOLD: Final = 6.0
"""So many deviations of its noise a count holds before its classes are told apart."""
_HALVINGS: Final = 60


class Curve(Protocol):
    """A curve that can be drawn as a polyline."""

    @property
    def piecewise_linear(self) -> bool:
        """Whether the polyline is the curve itself."""
        ...

    def polyline(self, pieces: int) -> Polyline:
        """Cut each segment into ``pieces`` straight ones."""
        ...


@dataclass(frozen=True, eq=False)
class Polyline:
    """A piecewise-linear function: x never falls, and two points at one x are a jump."""

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
        return cls(np.repeat(line.x, 2)[1:-1], np.repeat(line.y[1:], 2))

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
    (empty bins) are merged, which PCHIP needs. ``ties`` marks the segments between
    points whose examples share one score: these are straight, and PCHIP starts
    anew behind them.
    """

    fpr: FloatVector
    tpr: FloatVector
    interpolation: Interpolation
    ties: BoolVector | None = None

    @cached_property
    def knots(self) -> tuple[FloatVector, FloatVector, FloatVector]:
        """Return w, F, T with repeated knots merged."""
        keep = np.append(True, np.diff((self.fpr + self.tpr) / 2) > _TINY)
        # The last of a run of equal knots is the curve's end: keep (1, 1) exact.
        f, t = self.fpr[keep].copy(), self.tpr[keep].copy()
        f[-1], t[-1] = self.fpr[-1], self.tpr[-1]
        return (f + t) / 2, f, t

    @cached_property
    def tied(self) -> BoolVector:
        """Return which segments between knots are ties."""
        if self.ties is None:
            return np.zeros(self.knots[0].size - 1, dtype=np.bool_)
        return self.ties[np.diff((self.fpr + self.tpr) / 2) > _TINY]

    @cached_property
    def _smooth(self) -> tuple[PPoly, PPoly] | None:
        w, f, t = self.knots
        if self.interpolation == "linear" or w.size < 3:
            return None
        return _pchip(w, f, self.tied), _pchip(w, t, self.tied)

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


def _pchip(w: FloatVector, values: FloatVector, tied: BoolVector) -> PPoly:
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
    """Return the start and the stop of each run of marked places.

    >>> runs(np.array([True, True, False, True]))
    [(0, 2), (3, 4)]
    """
    turns = np.flatnonzero(np.diff(np.concatenate([[0], marked, [0]])))
    return [(int(a), int(b)) for a, b in turns.reshape(-1, 2)]


class Traced(NamedTuple):
    """Points of a curve from the threshold infinity down, each with its threshold."""

    thresholds: FloatVector
    fpr: FloatVector
    tpr: FloatVector
    precision: FloatVector | None = None
    """None where it follows from the rates and the class totals."""


@dataclass(frozen=True, eq=False)
class PrPath:
    r"""The PR curve of an ROC curve.

    With P positives and N negatives, precision is
    :math:`P T/(P T + N F)` at recall T (Davis and Goadrich 2006): hyperbolic
    between the points of a linear ROC. At recall 0 it takes its limit, that of
    the first segment. Ties are a step: no threshold parts them. ``bounded`` bounds
    precisions at places (F + T)/2.
    """

    roc: RocPath
    positives: float
    negatives: float
    bounded: Callable[[FloatVector, FloatVector], FloatVector] | None = None

    @property
    def piecewise_linear(self) -> bool:
        """A hyperbola is not."""
        return False

    def polyline(self, pieces: int) -> Polyline:
        """Draw precision against recall."""
        places = self.roc.places(pieces)
        f, t = self.roc.at(places)
        precision = precision_of(self.positives * t, self.negatives * f)
        if self.bounded is not None:
            precision = self.bounded(places, precision)
        precision[0] = precision[1] if np.isnan(precision[0]) else precision[0]
        t = np.maximum.accumulate(t)
        if not self.roc.tied.any():
            return Polyline(t, precision)
        tied = np.repeat(self.roc.tied, pieces)
        ends = np.repeat(precision[pieces::pieces], pieces)
        left = np.where(tied, ends, precision[:-1])
        right = np.where(tied, left, precision[1:])
        x, y = np.stack([t[:-1], t[1:]], axis=1), np.stack([left, right], axis=1)
        return Polyline(x.ravel(), y.ravel())


def precision_of(tp: FloatVector, fp: FloatVector) -> FloatVector:
    """Return TP/(TP + FP), NaN where nothing is predicted positive."""
    predicted = tp + fp
    result = np.full(np.shape(predicted), np.nan)
    np.divide(tp, predicted, out=result, where=predicted > 0)
    return result


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
        filled = ((observed.positives != 0) | (observed.negatives != 0))[::-1]
        keep, lead = np.append(True, filled), 0
        noise = noise_above(observed)[filled]
        if noise.any():
            told = np.flatnonzero((tp + fp)[keep][1:] >= _TOLD * noise)
            lead = int(told[0]) + 1 if told.size else noise.size
        return cls(
            thresholds[keep],
            tp[keep],
            fp[keep],
            interpolation,
            ties=None if ties is None else ties[::-1][filled],
            lead=lead,
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
        bounded = self.counted_precision.copy()
        hidden = slice(1, self.lead)
        bounded[hidden] = np.maximum(bounded[hidden], bounded[self.lead])
        return bounded

    @cached_property
    def counted_precision(self) -> FloatVector:
        """Precision of the counts themselves, also where noise hides it."""
        counted = precision_of(self.true_positives, self.false_positives)
        return np.where(np.isnan(counted), 1.0, counted)

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
        p, n = float(self.true_positives[-1]), float(self.false_positives[-1])
        return PrPath(self.roc, p, n, self.no_less_than_lead)

    def no_less_than_lead(self, w: FloatVector, precision: FloatVector) -> FloatVector:
        """Return precisions at places (F + T)/2, above the lead at least the lead's."""
        if self.lead == 0:
            return precision
        place = (self.fpr[self.lead] + self.tpr[self.lead]) / 2
        raised = np.fmax(precision, self.counted_precision[self.lead])
        return np.where(w <= place, raised, precision)


def _rates(counts: FloatVector) -> FloatVector:
    total = float(counts[-1])
    if total <= 0:
        return np.full(counts.shape, np.nan)
    return counts / total


@dataclass(frozen=True, eq=False)
class ThresholdPath:
    """An ROC curve by threshold: ``fpr`` and ``tpr`` are its rates at ascending edges."""

    edges: Edges
    fpr: FloatVector
    tpr: FloatVector
    path: RocPath

    @classmethod
    def of(cls, curves: Curves, edges: Edges) -> ThresholdPath:
        """Return the thresholds of a curve; edges without a point add no examples."""
        above = np.searchsorted(-curves.thresholds, -edges.array, side="right") - 1
        return cls(edges, curves.fpr[above], curves.tpr[above], curves.roc)

    @cached_property
    def w(self) -> FloatVector:
        """Return (F + T)/2 at each edge, ascending."""
        return (self.fpr + self.tpr) / 2

    def at(self, thresholds: FloatVector) -> tuple[FloatVector, FloatVector]:
        """Return F and T when ``score >= threshold`` is positive."""
        k = self._bins(thresholds)
        f, t = self.path.at(self.places(thresholds))
        # The curve passes through its edges' points up to rounding only.
        return (
            np.clip(f, self.fpr[k + 1], self.fpr[k]),
            np.clip(t, self.tpr[k + 1], self.tpr[k]),
        )

    def places(self, thresholds: FloatVector) -> FloatVector:
        """Return w at thresholds."""
        k = self._bins(thresholds)
        places = np.empty(thresholds.shape)
        inner = self._inner[k]
        if inner.any():
            places[inner] = self._joined(self._scale(thresholds[inner]))
        far, outer, edges = thresholds[~inner], k[~inner], self.edges.array
        share_above = np.where(
            outer == len(self.edges) - 1,
            self._rest(far) / self._rest(edges[outer]),
            1.0 - self._unit(far) / self._unit(edges[outer + 1]),
        )
        low, high = self.w[outer + 1], self.w[outer]
        places[~inner] = low + (high - low) * share_above
        return np.clip(places, self.w[k + 1], self.w[k])

    def thresholds(self, places: FloatVector, bins: IntVector) -> FloatVector:
        """Return the thresholds that give places w, each in a known bin."""
        thresholds, edges = np.empty(places.shape), self.edges.array
        kind, inner = self.edges.scores.kind, self._inner[bins]
        if inner.any():
            low, high = self._z[bins[inner]], self._z[bins[inner] + 1]
            for _ in range(_HALVINGS):  # w falls with z
                middle = (low + high) / 2
                above = self._joined(middle) >= places[inner]
                low, high = np.where(above, middle, low), np.where(above, high, middle)
            thresholds[inner] = expit(low) if kind == "probability" else low
        k = bins[~inner]
        share = (places[~inner] - self.w[k + 1]) / (self.w[k] - self.w[k + 1])
        rest = share * self._rest(edges[k])
        unit = (1.0 - share) * self._unit(edges[k + 1])
        ends = (-logit(rest), logit(unit)) if kind == "logit" else (1.0 - rest, unit)
        thresholds[~inner] = np.where(k == len(self.edges) - 1, *ends)
        return np.clip(thresholds, edges[bins], edges[bins + 1])

    def _bins(self, thresholds: FloatVector) -> IntVector:
        k = np.searchsorted(self.edges.array, thresholds, side="right") - 1
        return np.clip(k, 0, len(self.edges) - 1).astype(np.int64)

    @cached_property
    def _z(self) -> FloatVector:
        return self._scale(self.edges.array)

    def _scale(self, scores: FloatVector) -> FloatVector:
        if self.edges.scores.kind != "probability":
            return scores
        z: FloatVector = logit(scores)
        return z

    @cached_property
    def _inner(self) -> BoolVector:
        """Return which bins have two finite ends on the scale."""
        known = np.isfinite(self._z)
        return known[:-1] & known[1:]

    @cached_property
    def _joined(self) -> PchipInterpolator:
        from scipy.interpolate import PchipInterpolator  # noqa: PLC0415 - slow

        known = np.isfinite(self._z)
        return PchipInterpolator(self._z[known], self.w[known])

    def _unit(self, t: FloatVector) -> FloatVector:
        """Return scores as probabilities."""
        return expit(t) if self.edges.scores.kind == "logit" else t

    def _rest(self, t: FloatVector) -> FloatVector:
        """Return 1 less the probability, without cancellation."""
        return expit(-t) if self.edges.scores.kind == "logit" else 1.0 - t

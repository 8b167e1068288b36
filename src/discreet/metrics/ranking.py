r"""Measures of a ranking: the areas under the ROC and PR curves, whole and in part.

T and F are the shares of positives and negatives above a threshold, joined by straight
lines between cells. Slopes follow from T and F being means over examples: one more
positive changes T at every lower threshold, one more negative F.

- partial area over :math:`F \le x`: :math:`A = \int_0^x T\,dF`; over :math:`T \ge y` it
  is the same with the classes, and the order, turned around;
- McClish (1989) maps it to [1/2, 1]:
  :math:`\frac12\bigl(1 + \frac{A - x^2/2}{x - x^2/2}\bigr)`;
- sensitivity at a specificity: T where F = x. An error of F moves along the curve, so it
  counts with the curve's slope, taken between the points one standard error of F away;
- area under the precision-recall-gain curve (Flach and Kull 2015). With the prevalence r
  and :math:`\rho = r/(1-r)` its definition
  :math:`\int \mathrm{precG}\,d\,\mathrm{recG}` is, written over negatives,

  .. math:: 1 - \rho\,\mathrm E_-[h(T)], \qquad h(u) = \tfrac12(\max(u, r)^{-2} - 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

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
from discreet.estimate.curves import RocPath
from discreet.estimate.estimate import Binning
from discreet.estimate.fit import Fit
from discreet.estimate.intervals import AreaShape, Linear, ProportionShape
from discreet.estimate.slopes import (
    Cells,
    PrecisionRule,
    Slopes,
    auc_slopes,
    precision_area_slopes,
)
from discreet.metrics.influence import auc_influence, average_precision_influence
from discreet.metrics.measure import Local, Measure, ValueLimits, combined, of_ranking

WITHIN: Final = 0.1
"""Partial areas are over false positive rates up to this, or sensitivities from 1 less
this on."""
AT: Final = 0.95
"""The specificity at which sensitivity is taken, and the other way round."""
_POWER: Final = 1.5
"""Areas under the PR curve: between a proportion's spread (1) and a logit's (2)."""


def _limits(
    area: Callable[[Fit, RocPath], float],
    extremes: Callable[[FloatVector, FloatVector], tuple[float, float]],
) -> ValueLimits:
    """Return the limits of an area; the typical error is what the bend changes."""

    def limits(fit: Fit, value: float) -> Binning:
        counts = fit.counts
        if counts.edges.atoms:
            return Binning(value, value, 0.0)
        # ValueLimits are made for whole counts; fractions of one can turn them around.
        low, high = sorted(extremes(counts.negatives, counts.positives))
        typical = 0.0 if fit.bend is None else abs(value - area(fit, fit.bend))
        return Binning(low, high, typical)

    return limits


def _pr(fit: Fit, path: RocPath) -> float:
    counts = fit.counts
    return pr_area(path, counts.total_positives, counts.total_negatives)


def _auc(fit: Fit) -> float:
    if fit.curves.joined_for_ties:
        # Pairs won plus half the pairs tied: no rounding from the curve's knots.
        low, high = auc_limits(fit.counts.negatives, fit.counts.positives)
        return (low + high) / 2
    return roc_area(fit.curves.roc)


AUC: Final = Measure(
    value=_auc,
    slopes=lambda cells: auc_slopes(cells.negatives, cells.positives),
    limits=_limits(lambda _, path: roc_area(path), auc_limits),
    shape=lambda fit: AreaShape(fit.counts.total_positives, fit.counts.total_negatives),
    influence=auc_influence,
)


def _gini_limits(fit: Fit, value: float) -> Binning:
    of_auc = _limits(lambda _, path: roc_area(path), auc_limits)(fit, (value + 1) / 2)
    return Binning(2 * of_auc.low - 1, 2 * of_auc.high - 1, 2 * of_auc.typical)


GINI: Final = Measure(
    value=lambda fit: 2 * _auc(fit) - 1,
    slopes=lambda cells: Slopes(*(2 * slopes for slopes in AUC.slopes(cells))),
    limits=_gini_limits,
    shape=lambda fit: Linear(AUC.shape(fit), 2.0, -1.0),
)


def _mean_precision(
    tied: PrecisionRule,
    area: Callable[[FloatVector, FloatVector], float],
    extremes: Callable[[FloatVector, FloatVector], tuple[float, float]],
) -> Measure:
    """Return a mean of precisions; ``tied`` and ``area`` are its way between ties."""

    def value(fit: Fit) -> float:
        curves = fit.curves
        if curves.joined_for_ties:
            return area(curves.tpr, curves.counted_precision)
        return _pr(fit, curves.roc)

    return Measure(
        value=value,
        slopes=lambda cells: precision_area_slopes(
            cells.negatives,
            cells.positives,
            tied if cells.tied else "smooth",
            noise=cells.noise,
        ),
        limits=_limits(_pr, extremes),
        shape=lambda fit: ProportionShape(_POWER, float(fit.counts.positives.sum())),
        # What a positive above all others adds.
        unseen=lambda value, positives: (1 - value) / positives,
    )


AVERAGE_PRECISION: Final = replace(
    _mean_precision("step", step_area, average_precision_limits),
    alone=(0.0, 1.0),
    influence=average_precision_influence,
)
AUPR: Final = _mean_precision("trapezoid", trapezoid_area, aupr_limits)


@dataclass(frozen=True, eq=False)
class TopDown:
    """Cumulative shares of both classes from the highest score down, with 0 first.

    With ``turned``, classes and order are turned around: what holds of the false
    positive rate then holds of one less the recall.
    """

    negatives: FloatVector
    positives: FloatVector
    fpr: FloatVector
    tpr: FloatVector
    turned: bool = False

    @classmethod
    def of(cls, cells: Cells, *, turned: bool = False) -> TopDown:
        """Take counts by falling score."""
        counts = (
            (cells.positives, cells.negatives)
            if turned
            else (cells.negatives[::-1], cells.positives[::-1])
        )
        fpr, tpr = (
            np.append(0.0, np.cumsum(c)) / max(float(c.sum()), 1e-300) for c in counts
        )
        return cls(*counts, fpr, tpr, turned)

    @property
    def totals(self) -> tuple[float, float]:
        """Negatives and positives."""
        return float(self.negatives.sum()), float(self.positives.sum())

    def share_above(self, x: float) -> FloatVector:
        """Return the share of each cell that lies above the threshold where F = x."""
        step = np.diff(self.fpr)
        inside = np.divide(
            x - self.fpr[:-1],
            step,
            out=(self.fpr[:-1] < x).astype(np.float64),
            where=step > 0,
        )
        return np.clip(inside, 0.0, 1.0)

    def tpr_at(self, x: float) -> float:
        """Return T where F = x."""
        return float(self.share_above(x) @ np.diff(self.tpr))

    def slopes(self, on_n: FloatVector, on_p: FloatVector) -> Slopes:
        """Turn slopes in these counts into slopes in the cells."""
        return Slopes(on_p, on_n) if self.turned else Slopes(on_n[::-1], on_p[::-1])


def partial_area(
    *, sensitivity: bool, corrected: bool, within: float = WITHIN
) -> Measure:
    """Return the area over F <= ``within``, or over T >= 1 - ``within``."""
    least = within**2 / 2

    def function(cells: Cells) -> Local:
        area = _partial(within, TopDown.of(cells, turned=sensitivity))
        if not corrected:
            return area
        return combined(lambda v: 0.5 + 0.5 * (v[0] - least) / (within - least), area)

    return of_ranking(function)


def _partial(x: float, curve: TopDown) -> Local:
    n, p = curve.totals
    share, top = curve.share_above(x), curve.tpr_at(x)
    run, rise = np.diff(curve.fpr), np.diff(curve.tpr)
    mean = curve.tpr[:-1] + share * rise / 2
    area = float((run * share) @ mean)
    left = np.maximum(x - curve.fpr, 0.0)
    # The mean of (x - F)+ over a cell, where F runs evenly through it.
    squares = (left[:-1] ** 2 - left[1:] ** 2) / 2
    each = np.divide(squares, run, out=left[:-1].copy(), where=run > 0)
    on_n = (share * (mean - top) - (area - x * top)) / n
    return Local(area, curve.slopes(on_n, (each - area) / p))


def rate_at(*, sensitivity: bool) -> Measure:
    """Return T where F = 1 - AT, or the specificity at that sensitivity."""

    def function(cells: Cells) -> Local:
        x = 1 - AT
        curve = TopDown.of(cells, turned=sensitivity)
        n, p = curve.totals
        value, share = curve.tpr_at(x), curve.share_above(x)
        reach = min(math.sqrt(x * (1 - x) / max(n, 1.0)), x)
        steep = (curve.tpr_at(x + reach) - curve.tpr_at(x - reach)) / (2 * reach)
        on_n, on_p = -steep * (share - x) / n, (share - value) / p
        return Local(value, curve.slopes(on_n, on_p))

    return of_ranking(function, lambda _: ProportionShape(1.0))


def _ks(cells: Cells) -> Local:
    curve = TopDown.of(cells)
    n, p = curve.totals
    k = int(np.argmax(curve.tpr - curve.fpr))
    above = (np.arange(cells.negatives.size) < k).astype(np.float64)
    on_n, on_p = -(above - curve.fpr[k]) / n, (above - curve.tpr[k]) / p
    return Local(float(curve.tpr[k] - curve.fpr[k]), curve.slopes(on_n, on_p))


def _gain_area(cells: Cells) -> Local:
    curve = TopDown.of(cells)
    n, p = curve.totals
    total, r, rho = n + p, p / (n + p), p / n
    low, high = curve.tpr[:-1], curve.tpr[1:]

    def whole(u: FloatVector) -> FloatVector:
        """Return the integral of h from 0."""
        flat = np.minimum(u, r) * (r**-2 - 1) / 2
        rest = np.maximum(u, r)
        integral: FloatVector = flat - (1 / rest - 1 / r + rest - r) / 2
        return integral

    at = (np.maximum((low + high) / 2, r) ** -2.0 - 1) / 2
    run = high - low
    h = np.divide(whole(high) - whole(low), run, out=at, where=run > 1e-12)
    share = curve.negatives / n
    mean = float(share @ h)
    middle = (low + high) / 2
    steep = np.where(middle > r, -(np.maximum(middle, r) ** -3.0), 0.0) * share
    # One more positive raises T at all negatives below it, half of those beside it.
    below = np.cumsum(steep[::-1])[::-1] - steep / 2
    on_p = -rho * (below - float(steep @ middle)) / p
    on_n = -rho * (h - mean) / n
    by_rho, by_r = -mean, rho * r**-3 * float(share @ (middle < r))
    on_p = on_p + by_rho / n + by_r * n / total**2
    on_n = on_n - by_rho * p / n**2 - by_r * p / total**2
    return Local(1 - rho * mean, curve.slopes(on_n, on_p))


KS: Final = of_ranking(_ks)
PR_GAIN_AREA: Final = of_ranking(_gain_area)

r"""Rows of measures of the ranking beside the areas: functions of cumulative counts.

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
from functools import partial
from typing import Final

import numpy as np

from discreet.arrays import FloatVector
from discreet.errors import InputError
from discreet.estimate.estimate import Binning, Interval
from discreet.estimate.fit import Fit
from discreet.estimate.intervals import ProportionShape
from discreet.estimate.slopes import Cells, Slopes
from discreet.metrics.local import Local, ranking_row
from discreet.metrics.ranking import AUC
from discreet.metrics.shapes import Linear
from discreet.metrics.table import MetricRow

WITHIN: Final = 0.1
"""Partial areas are over false positive rates up to this, or sensitivities from 1 less
this on."""
AT: Final = 0.95
"""The specificity at which sensitivity is read, and the other way round."""
_SIGNED: Final = Interval(-1.0, 1.0)


@dataclass(frozen=True, eq=False)
class TopDown:
    """Cumulative shares of both classes from the highest score down, with 0 first."""

    negatives: FloatVector
    positives: FloatVector
    fpr: FloatVector
    tpr: FloatVector

    @classmethod
    def of(cls, negatives: FloatVector, positives: FloatVector) -> TopDown:
        """Take counts by falling score."""
        fpr, tpr = (
            np.append(0.0, np.cumsum(c)) / max(float(c.sum()), 1e-300)
            for c in (negatives, positives)
        )
        return cls(negatives, positives, fpr, tpr)

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


def _partial(x: float, curve: TopDown) -> tuple[float, FloatVector, FloatVector]:
    """Return the area over F <= x and its slopes in both classes' counts."""
    n, p = curve.totals
    share, top = curve.share_above(x), curve.tpr_at(x)
    run, rise = np.diff(curve.fpr), np.diff(curve.tpr)
    mean = curve.tpr[:-1] + share * rise / 2
    area = float((run * share) @ mean)
    left = np.maximum(x - curve.fpr, 0.0)
    # The mean of (x - F)+ over a cell, where F runs evenly through it.
    some = run > 0
    squares = (left[:-1] ** 2 - left[1:] ** 2) / 2
    each = np.divide(squares, run, out=left[:-1].copy(), where=some)
    on_n = (share * (mean - top) - (area - x * top)) / n
    return area, on_n, (each - area) / p


def _flip(cells: Cells, *, sensitivity: bool) -> TopDown:
    """Return the cells by falling score, or with classes and order turned around."""
    if sensitivity:
        return TopDown.of(cells.positives, cells.negatives)
    return TopDown.of(cells.negatives[::-1], cells.positives[::-1])


def _flipped(on_n: FloatVector, on_p: FloatVector, *, sensitivity: bool) -> Slopes:
    return Slopes(on_p, on_n) if sensitivity else Slopes(on_n[::-1], on_p[::-1])


def _partial_area(
    cells: Cells, *, sensitivity: bool, corrected: bool, within: float = WITHIN
) -> Local:
    area, on_n, on_p = _partial(within, _flip(cells, sensitivity=sensitivity))
    slopes = _flipped(on_n, on_p, sensitivity=sensitivity)
    if not corrected:
        return Local(area, slopes)
    least = within**2 / 2
    scale = 0.5 / (within - least)
    value = 0.5 + scale * (area - least)
    return Local(value, Slopes(scale * slopes.negatives, scale * slopes.positives))


def _rate_at(cells: Cells, *, sensitivity: bool) -> Local:
    """Return T where F = 1 - AT, and its slopes."""
    x = 1 - AT
    curve = _flip(cells, sensitivity=sensitivity)
    n, p = curve.totals
    value, share = curve.tpr_at(x), curve.share_above(x)
    reach = min(math.sqrt(x * (1 - x) / max(n, 1.0)), x)
    steep = (curve.tpr_at(x + reach) - curve.tpr_at(x - reach)) / (2 * reach)
    return Local(
        value,
        _flipped(
            -steep * (share - x) / n, (share - value) / p, sensitivity=sensitivity
        ),
    )


def _ks(cells: Cells) -> Local:
    curve = _flip(cells, sensitivity=False)
    n, p = curve.totals
    k = int(np.argmax(curve.tpr - curve.fpr))
    above = (np.arange(cells.negatives.size) < k).astype(np.float64)
    value = float(curve.tpr[k] - curve.fpr[k])
    on_n, on_p = -(above - curve.fpr[k]) / n, (above - curve.tpr[k]) / p
    return Local(value, _flipped(on_n, on_p, sensitivity=False))


def _gain_area(cells: Cells) -> Local:
    curve = _flip(cells, sensitivity=False)
    n, p = curve.totals
    total, r, rho = n + p, p / (n + p), p / n
    low, high = curve.tpr[:-1], curve.tpr[1:]

    def whole(u: FloatVector) -> FloatVector:
        """Return the integral of h from 0."""
        flat = np.minimum(u, r) * (r**-2 - 1) / 2
        rest = np.maximum(u, r)
        found: FloatVector = flat - (1 / rest - 1 / r + rest - r) / 2
        return found

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
    return Local(1 - rho * mean, _flipped(on_n, on_p, sensitivity=False))


def _gini_limits(fit: Fit, value: float) -> Binning:
    of_auc = AUC.limits(fit, (value + 1) / 2)
    return Binning(2 * of_auc.low - 1, 2 * of_auc.high - 1, 2 * of_auc.typical)


def _gini_slopes(cells: Cells) -> Slopes:
    slopes = AUC.slopes(cells)
    return Slopes(2 * slopes.negatives, 2 * slopes.positives)


def _rate(_: Fit) -> ProportionShape:
    return ProportionShape(1.0)


def partial_area_row(within: float, *, sensitivity: bool, corrected: bool) -> MetricRow:
    """Return the row of a partial area that ends at another rate than the table's.

    ``within`` is the largest false positive rate, or with ``sensitivity`` one less the
    smallest recall.
    """
    if not 0 < within < 1:
        raise InputError("a partial area ends strictly between 0 and 1")
    place = f"recall >= {1 - within:g}" if sensitivity else f"FPR <= {within:g}"
    area = partial(
        _partial_area, sensitivity=sensitivity, corrected=corrected, within=within
    )
    return ranking_row(
        f"partial_auc at {place}",
        f"partial AUC, {place}{', corrected' if corrected else ''}",
        area,
        "higher",
        "McClish 1989; Jiang, Metz and Nishikawa 1996",
        formula="as the table's, with another end",
        hides="all other thresholds",
        support=Interval(0.0, 1.0 if corrected else within),
    )


_Measure = Callable[[Cells], Local]
_SPECIFIC: _Measure = partial(_partial_area, sensitivity=False, corrected=False)
_SENSITIVE: _Measure = partial(_partial_area, sensitivity=True, corrected=False)

GINI: Final = replace(
    AUC,
    name="gini",
    title="Gini",
    value=lambda fit: 2 * AUC.value(fit) - 1,
    limits=_gini_limits,
    slopes=_gini_slopes,
    shape=lambda fit: Linear(AUC.shape(fit), 2.0, -1.0),
    source="Somers' D; Gini of credit scoring",
    formula="2 AUC - 1",
    hides="as the AUC does",
    support=_SIGNED,
    influence=None,
)
KS: Final = ranking_row(
    "ks",
    "KS",
    _ks,
    "higher",
    "Kolmogorov-Smirnov; scipy's ks_2samp, one-sided",
    formula="max over t of recall - (1 - specificity)",
    hides="that its threshold was chosen to flatter it, and everything at others",
)
PARTIAL_AUC: Final = ranking_row(
    "partial_auc",
    "partial AUC, FPR <= 0.1",
    _SPECIFIC,
    "higher",
    "McClish 1989; pROC's partial.auc=c(1, .9)",
    formula="integral of recall over FPR from 0 to 0.1",
    hides="all thresholds with more false alarms; its largest value is 0.1",
    support=Interval(0.0, WITHIN),
)
PARTIAL_AUC_CORRECTED: Final = ranking_row(
    "partial_auc_corrected",
    "partial AUC, corrected",
    partial(_partial_area, sensitivity=False, corrected=True),
    "higher",
    "McClish 1989; scikit-learn's roc_auc_score(max_fpr=.1)",
    formula="(1 + (A - x^2/2)/(x - x^2/2))/2, x = 0.1",
    hides="all thresholds with more false alarms",
)
PARTIAL_AUC_SENSITIVITY: Final = ranking_row(
    "partial_auc_sensitivity",
    "partial AUC, recall >= 0.9",
    _SENSITIVE,
    "higher",
    "Jiang, Metz and Nishikawa 1996; pROC's partial.auc.focus='sensitivity'",
    formula="integral of specificity over recall from 0.9 to 1",
    hides="all thresholds with more misses; its largest value is 0.1",
    support=Interval(0.0, WITHIN),
)
PARTIAL_AUC_SENSITIVITY_CORRECTED: Final = ranking_row(
    "partial_auc_sensitivity_corrected",
    "partial AUC, recall, corrected",
    partial(_partial_area, sensitivity=True, corrected=True),
    "higher",
    "McClish 1989; pROC's partial.auc.correct",
    formula="(1 + (A - x^2/2)/(x - x^2/2))/2, x = 0.1",
    hides="all thresholds with more misses",
)
SENSITIVITY_AT_SPECIFICITY: Final = ranking_row(
    "sensitivity_at_95_specificity",
    "recall at 95% specificity",
    partial(_rate_at, sensitivity=False),
    "higher",
    "pROC's coords, straight lines between thresholds",
    formula="recall where specificity = 0.95",
    hides="which threshold that is, and every other one",
    shape=_rate,
)
SPECIFICITY_AT_SENSITIVITY: Final = ranking_row(
    "specificity_at_95_sensitivity",
    "specificity at 95% recall",
    partial(_rate_at, sensitivity=True),
    "higher",
    "pROC's coords, straight lines between thresholds",
    formula="specificity where recall = 0.95",
    hides="which threshold that is, and every other one",
    shape=_rate,
)
PR_GAIN_AREA: Final = ranking_row(
    "pr_gain_area",
    "area under PR gain",
    _gain_area,
    "higher",
    "Flach and Kull 2015",
    formula="integral of precision gain over recall gain",
    hides="thresholds with a recall below the prevalence",
    support=Interval(-math.inf, 1.0),
)

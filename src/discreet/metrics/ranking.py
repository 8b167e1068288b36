"""Rows of the metrics of a ranking: the areas under the ROC and PR curves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

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
from discreet.estimate.intervals import AreaShape, ProportionShape
from discreet.estimate.slopes import PrecisionRule, auc_slopes, precision_area_slopes
from discreet.metrics.influence import auc_influence, average_precision_influence
from discreet.metrics.table import MetricRow

_POWER: Final = 1.5
"""Areas under the PR curve: between a proportion's spread (1) and a logit's (2)."""


def _precision_shape(fit: Fit) -> ProportionShape:
    return ProportionShape(_POWER, float(fit.counts.positives.sum()))


def _limits(
    area: Callable[[Fit, RocPath], float],
    extremes: Callable[[FloatVector, FloatVector], tuple[float, float]],
) -> Callable[[Fit, float], Binning]:
    """Return the limits of an area; the typical error is what the bend changes."""

    def limits(fit: Fit, value: float) -> Binning:
        counts = fit.counts
        if counts.edges.atoms:
            return Binning(value, value, 0.0)
        # Limits are made for whole counts; fractions of one can turn them around.
        low, high = sorted(extremes(counts.negatives, counts.positives))
        bend = fit.bend
        typical = 0.0 if bend is None else abs(value - area(fit, bend))
        return Binning(low, high, typical)

    return limits


def _roc(fit: Fit, path: RocPath) -> float:
    del fit
    return roc_area(path)


def _pr(fit: Fit, path: RocPath) -> float:
    counts = fit.counts
    return pr_area(path, counts.total_positives, counts.total_negatives)


def _auc(fit: Fit) -> float:
    if fit.curves.joined_for_ties:
        # Pairs won plus half the pairs tied: no rounding from the curve's knots.
        low, high = auc_limits(fit.counts.negatives, fit.counts.positives)
        return (low + high) / 2
    return roc_area(fit.curves.roc)


def _average_precision(fit: Fit) -> float:
    curves = fit.curves
    if curves.joined_for_ties:
        return step_area(curves.tpr, curves.counted_precision)
    return _pr(fit, curves.roc)


def _aupr(fit: Fit) -> float:
    curves = fit.curves
    if curves.joined_for_ties:
        return trapezoid_area(curves.tpr, curves.counted_precision)
    return _pr(fit, curves.roc)


def _one_on_top(value: float, positives: float) -> float:
    """Return what a positive above all others adds to a mean of precisions."""
    return (1 - value) / positives


AUC: Final = MetricRow(
    name="auc",
    title="AUC",
    value=_auc,
    limits=_limits(_roc, auc_limits),
    slopes=lambda cells: auc_slopes(cells.negatives, cells.positives),
    shape=lambda fit: AreaShape(fit.counts.total_positives, fit.counts.total_negatives),
    better="higher",
    needs_probabilities=False,
    source="Hanley and McNeil 1982; scikit-learn's roc_auc_score",
    formula="P(a positive's score > a negative's) + ties/2",
    hides="calibration, costs, and the thresholds that anyone would use",
    influence=auc_influence,
)


def _precision_row(tied: PrecisionRule, **columns: Any) -> MetricRow:
    """Return the row of a mean of precisions; ``tied`` is its way between ties."""
    return MetricRow(
        slopes=lambda cells: precision_area_slopes(
            cells.negatives,
            cells.positives,
            tied if cells.tied else "smooth",
            noise=cells.noise,
        ),
        shape=_precision_shape,
        unseen=_one_on_top,
        better="higher",
        needs_probabilities=False,
        **columns,
    )


AVERAGE_PRECISION: Final = _precision_row(
    "step",
    name="average_precision",
    title="average precision",
    value=_average_precision,
    limits=_limits(_pr, average_precision_limits),
    source="scikit-learn's average_precision_score",
    formula="sum over thresholds of precision times the step of recall",
    hides="true negatives; it follows the prevalence, so sites do not compare",
    alone=(0.0, 1.0),
    influence=average_precision_influence,
)

AUPR: Final = _precision_row(
    "trapezoid",
    name="aupr",
    title="AUPR (trapezoid)",
    value=_aupr,
    limits=_limits(_pr, aupr_limits),
    source="trapezoids from recall 0 and precision 1; Unal et al. 2023",
    formula="trapezoids of precision over recall",
    hides="as average precision; straight lines between points flatter it",
)

"""Views of one fit: thresholds, curves, recalibration. None of them asks a site again.

A fit of a histogram has all of them. A fit of revealed numbers has none, and its error
names the way to get them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from discreet import recalibrate
from discreet.errors import InputError, NotReleasedError
from discreet.estimate.curves import Curve
from discreet.estimate.estimate import Estimate, Interval
from discreet.estimate.fit import AnyFit, Fit
from discreet.metrics.calibration import (
    HosmerLemeshow,
    ReliabilityCurve,
    calibration_curve,
    expected_calibration_error,
    hosmer_lemeshow,
)
from discreet.metrics.curve_points import Band, BandKind, Points, band, det_points
from discreet.metrics.curves import CURVES, MeasureCurve, decision_curve
from discreet.metrics.errors import measure
from discreet.metrics.finding import Aim, FoundThreshold, find_threshold
from discreet.metrics.table import METRICS, partial_area_row
from discreet.metrics.thresholds import AtThreshold, at_threshold
from discreet.plan.bins import default_thresholds
from discreet.plan.plan import Plan
from discreet.recalibrate import CalibrationMap
from discreet.report.conformal import ConformalThresholds, Given, conformal
from discreet.statistic.observed import NoisyHistogram

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def counted(fit: AnyFit, what: str = "a histogram") -> Fit:
    """Return the fit of a histogram, or raise an error that says how to get one."""
    if isinstance(fit, Fit):
        return fit
    has = ", ".join(METRICS[name].title for name in METRICS if name in fit.given)
    raise NotReleasedError(f"{what} was not released, only {has}; {fit.remedy}")


def measured_at(
    fit: AnyFit, threshold: float, what: str = "the confusion counts"
) -> AtThreshold:
    """Return every measure at a threshold, which the scores' range holds."""
    histogram = counted(fit, what)
    scores = histogram.observed.edges.scores
    # Infinity is a threshold of scikit-learn's.
    if math.isfinite(threshold) and not scores.low <= threshold <= scores.high:
        percent = scores.kind == "probability" and 1 < threshold <= 100
        remedy = "divide a percentage by 100" if percent else "give a score"
        raise InputError(
            f"the threshold {threshold:g} lies outside the scores' range {scores}; "
            f"{remedy}"
        )
    return at_threshold(histogram, threshold)


def _undefined(fit: Fit, *, probabilities: bool) -> str | None:
    """Return why a fit does not tell the classes apart, or has no probabilities."""
    if (
        fit.refusal is None
        and probabilities
        and fit.observed.edges.scores.kind == "other"
    ):
        return "scores of kind 'other' are not probabilities"
    return fit.refusal


def _curved(fit: AnyFit, what: str, *, probabilities: bool = False) -> Fit:
    """Return a fit that defines what is wanted, or raise an error that says why not."""
    histogram = counted(fit, what)
    reason = _undefined(histogram, probabilities=probabilities)
    if reason is not None:
        raise NotReleasedError(f"there is no {what}: {reason}")
    return histogram


def calibratable(fit: AnyFit) -> bool:
    """Whether scores are probabilities and both classes are there."""
    return isinstance(fit, Fit) and _undefined(fit, probabilities=True) is None


def prevalence_of(observed: NoisyHistogram) -> float:
    """Return the share of positives in the released counts."""
    total = observed.total_positives + observed.total_negatives
    return observed.total_positives / total if total > 0 else math.nan


class LeadThreshold(NamedTuple):
    """The threshold that a reader is shown first, and where it comes from."""

    value: float
    planned: bool
    """Whether the plan names it; else it is the prevalence."""


@dataclass(frozen=True, eq=False)
class Thresholds:
    """The thresholds of a result: the plan's own, and those that reach an aim."""

    fit: AnyFit
    plan: Plan | None

    def planned(self) -> tuple[AtThreshold, ...]:
        """Return every measure at each of the plan's thresholds."""
        if self.plan is None or not isinstance(self.fit, Fit):
            return ()
        return tuple(at_threshold(self.fit, t) for t in self.plan.thresholds)

    def lead(self, *, planned_only: bool = False) -> LeadThreshold | None:
        """Return the plan's first threshold, or one at the prevalence.

        A plan that names no threshold has one half, which is above every score of a rare
        event. So one half alone is not taken for a choice. Scores that are not
        probabilities are cut where as many lie above as are positive.
        """
        planned = () if self.plan is None else self.plan.thresholds
        own = LeadThreshold(planned[0], planned=True) if planned else None
        if planned_only or not isinstance(self.fit, Fit) or self.fit.refusal:
            return own
        scores = self.fit.observed.edges.scores
        share = prevalence_of(self.fit.observed)
        if (own and planned != default_thresholds(scores)) or not 0 < share < 1:
            return own
        rare = float(f"{min(share, 1 - share):.2g}")
        value = rare if share <= 0.5 else round(1 - rare, 9)
        if scores.kind == "logit":
            value = round(math.log(value / (1 - value)), 2)
        elif scores.kind == "other":
            curves = self.fit.curves
            above = curves.true_positives + curves.false_positives
            place = int(np.argmin(np.abs(above - share * above[-1])))
            value = float(curves.thresholds[max(place, 1)])
        if value in planned:
            return own
        return LeadThreshold(value, planned=False)

    def find(self, aim: str | None = None, /, **target: float) -> FoundThreshold:
        """Find the threshold of one aim, with its interval and all measures there.

        ``find("youden")`` maximises Youden's J. Or one rate to reach, by any name that
        people use: ``recall=``, ``specificity=``, ``precision=``, ``alert_rate=``; or
        ``cost_ratio=``, how many false alarms a miss costs as much as.
        """
        wanted = Aim.of(aim, target)
        return find_threshold(_curved(self.fit, "threshold"), wanted)

    __call__ = find

    def top(self, k: int) -> FoundThreshold:
        """Return the threshold above which the k highest scores lie.

        Its ``at.precision`` is precision at k, ``at.recall`` the gain, ``at.lift`` the
        lift.
        """
        observed = _curved(self.fit, "threshold").observed
        examples = observed.total_positives + observed.total_negatives
        if not 0 < k < examples:
            raise InputError(
                f"k is at least 1 and below the number of examples, got {k}"
            )
        return self.find(alert_rate=k / examples)

    def conformal(self, alpha: float, given: Given = "marginal") -> ConformalThresholds:
        """Return thresholds of prediction sets that miss at most ``alpha`` of labels."""
        fit = _curved(self.fit, "conformal threshold", probabilities=True)
        return conformal(fit, alpha, given)


@dataclass(frozen=True, eq=False)
class ResultCurves:
    """The curves of a result, and what is read from them."""

    fit: AnyFit
    plan: Plan | None

    @property
    def roc(self) -> Curve:
        """The estimated ROC curve, whose area is ``auc``."""
        return counted(self.fit, "a curve").curves.roc

    @property
    def pr(self) -> Curve:
        """The estimated precision-recall curve."""
        return counted(self.fit, "a curve").curves.pr

    def det(self, *, drop_intermediate: bool = False) -> Points:
        """Return fpr, fnr, thresholds by rising threshold, with scikit-learn's ends."""
        return det_points(
            counted(self.fit, "the DET curve"),
            drop_intermediate=drop_intermediate,
            thresholds=() if self.plan is None else self.plan.thresholds,
        )

    def band(
        self, kind: BandKind = "roc", *, level: float = 0.95, simultaneous: bool = False
    ) -> Band:
        """Return a curve's limits at each threshold, or for the whole curve at once."""
        fit = _curved(self.fit, "curve to bound")
        return band(fit, kind, level=level, simultaneous=simultaneous)

    def over_thresholds(self, name: str) -> MeasureCurve:
        """Return a curve over thresholds: decision, cost, gains, lift, pr_gain, ..."""
        row = CURVES[name]
        needed = row.needs_probabilities
        return row.measure(_curved(self.fit, f"{name} curve", probabilities=needed))

    def decision(self, thresholds: ArrayLike | None = None) -> MeasureCurve:
        """Return net benefit of the model, of all and of none, with 95% limits."""
        fit = _curved(self.fit, "decision curve", probabilities=True)
        if thresholds is None:
            return decision_curve(fit)
        return decision_curve(fit, np.asarray(thresholds, dtype=np.float64))

    def partial_auc(
        self,
        *,
        max_fpr: float | None = None,
        min_recall: float | None = None,
        corrected: bool = True,
    ) -> Estimate:
        """Return the area up to a false positive rate, or from a recall on.

        ``corrected`` is McClish's, as scikit-learn's ``roc_auc_score(max_fpr=)`` gives it:
        1/2 for chance and 1 for perfect.
        """
        if (max_fpr is None) == (min_recall is None):
            raise InputError("a partial area has max_fpr= or min_recall=: give one")
        within = max_fpr if min_recall is None else 1 - min_recall
        row = partial_area_row(
            float(within or 0), sensitivity=max_fpr is None, corrected=corrected
        )
        return measure(row, _curved(self.fit, "partial area"))

    @property
    def mann_whitney_u(self) -> Estimate:
        """Mann-Whitney U: pairs of a positive and a negative in the right order."""
        fit = counted(self.fit)
        area = measure(METRICS["auc"], fit)
        pairs = fit.observed.total_positives * fit.observed.total_negatives
        if math.isnan(area.value):
            return Estimate.undefined("AUC is undefined", Interval(0.0, pairs))
        return area.scaled(pairs)


@dataclass(frozen=True, eq=False)
class Recalibration:
    """How far probabilities are off, and the map that mends them, from one release."""

    fit: Fit

    @classmethod
    def of(cls, fit: AnyFit, what: str = "the calibration error") -> Recalibration:
        """Return the view, or say why calibration is undefined."""
        histogram = counted(fit, what)
        reason = _undefined(histogram, probabilities=True)
        if reason is not None:
            raise NotReleasedError(f"calibration is undefined: {reason}")
        return cls(histogram)

    @property
    def error(self) -> Estimate:
        """Expected calibration error of the positive class, 15 groups of scores."""
        return expected_calibration_error(self.fit.counts, response=self.fit.response)

    @property
    def before(self) -> ReliabilityCurve:
        """The calibration (reliability) curve with its bands."""
        return calibration_curve(self.fit.counts)

    @cached_property
    def map(self) -> CalibrationMap:
        """The map from scores to calibrated probabilities, chosen from the release."""
        return recalibrate.fit(self.fit.observed, self.fit.counts)

    @cached_property
    def after(self) -> ReliabilityCurve | None:
        """The curve after the map, None where the scores are best left as they are."""
        if self.map.name == "identity":
            return None
        mapped = recalibrate.mapped_predictions(self.fit.counts.edges, self.map)
        return calibration_curve(self.fit.counts, predictions=mapped)

    @cached_property
    def effect(self) -> recalibrate.MapEffect:
        """The calibration error and the Brier score before and after the map."""
        return recalibrate.effect(self.fit.counts, self.map, response=self.fit.response)

    def hosmer_lemeshow(self) -> HosmerLemeshow:
        """Return the Hosmer-Lemeshow test, with a sentence on why not to use it."""
        return hosmer_lemeshow(self.fit)

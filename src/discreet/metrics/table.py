r"""The table of metrics: one row each, and everything that reports iterates over it.

A row says what a metric is called, how it is measured, which way it is good, its
formula, where it comes from and what it hides. Text, JSON, pages, plots, the planner and
the comparison of models know no metric by name: adding one is adding a row below, or
from another package

    METRICS.add("gini", MetricRow("gini", "Gini", of_ranking(...), "higher", ...))

``METRICS`` are over all thresholds, ``RATES`` at one of them, and
:data:`discreet.metrics.curves.CURVES` are drawn.

With M examples, of which the share r is positive, scores s and labels y, the null model
predicts r for everyone: its log loss is the entropy
:math:`-r\ln r - (1-r)\ln(1-r)`, its Brier score :math:`r(1-r)`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

import numpy as np

from discreet.arrays import FloatArray
from discreet.errors import InputError
from discreet.estimate.estimate import UNIT, Interval
from discreet.metrics import brier, calibration, logistic, ranking
from discreet.metrics.measure import (
    LOGARITHMIC,
    Analytic,
    Measure,
    Rate,
    Share,
    of_sums,
)
from discreet.registry import Registry

Metric: TypeAlias = str
"""The name of a row."""
Better: TypeAlias = Literal["higher", "lower", "one", "zero"]
"""Which way a metric is good; ``one`` and ``zero`` are values to be near to."""
M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class MetricRow(Generic[M]):
    """One metric: a number over all thresholds, a rate at one of them, or a curve."""

    name: str
    """What plans, JSON and ``result.metrics[name]`` call it."""
    title: str
    """What people call it."""
    measure: M
    """A ``Measure`` of a fit, a ``Rate`` of confusion counts, or what draws a curve."""
    better: Better | None = None
    formula: str = ""
    source: str = ""
    """Who defined it, or whose convention is followed."""
    hides: str = ""
    """What this number does not show, in one line."""
    support: Interval = UNIT
    """The values that it can have."""
    needs_probabilities: bool = False
    """Whether it takes scores as probabilities, not as a ranking alone."""
    headline: bool = True
    """Whether a rate stands in the short table too."""


_SIGNED: Final = Interval(-1.0, 1.0)
_POSITIVE: Final = Interval(0.0, math.inf)
_BELOW_ONE: Final = Interval(-math.inf, 1.0)
_REAL: Final = Interval(-math.inf, math.inf)
_TENTH: Final = Interval(0.0, ranking.WITHIN)
_AUSTIN: Final = "Austin and Steyerberg 2019; spline of logit s, 5 knots"
_CORP: Final = "Dimitriadis, Gneiting and Jordan 2021 (CORP)"


def _log_loss_terms(s: FloatArray, y: float) -> FloatArray:
    """Sum losses, positives and examples; a certain wrong score would cost infinity."""
    kept = np.clip(s, logistic.CLOSEST, 1 - logistic.CLOSEST)
    loss = -np.log(kept) if y else -np.log1p(-kept)
    return np.stack([loss, np.full_like(s, y), np.ones_like(s)])


def _mean_terms(s: FloatArray, y: float) -> FloatArray:
    """Sum scores and count examples, class by class."""
    one = np.ones_like(s)
    return np.stack([s * y, s * (1 - y), one * y, one * (1 - y)])


def _entropy(r: Any) -> Any:
    return -r * np.log(r) - (1 - r) * np.log(1 - r)


def _cox_snell(v: Any) -> Any:
    return 1 - np.exp(2 * (v[0] / v[2] - _entropy(v[1] / v[2])))


def _mcc(tp: Any, fn: Any, fp: Any, tn: Any, _: float) -> Any:
    under = np.sqrt(tp + fp) * np.sqrt(tp + fn) * np.sqrt(tn + fp) * np.sqrt(tn + fn)
    return (tp * tn - fp * fn) / under


def partial_area_row(
    within: float, *, sensitivity: bool, corrected: bool
) -> MetricRow[Measure]:
    """Return the row of a partial area that ends at another rate than the table's.

    ``within`` is the largest false positive rate, or with ``sensitivity`` one less the
    smallest recall.
    """
    if not 0 < within < 1:
        raise InputError("a partial area ends strictly between 0 and 1")
    place = f"recall >= {1 - within:g}" if sensitivity else f"FPR <= {within:g}"
    return MetricRow(
        f"partial_auc at {place}",
        f"partial AUC, {place}{', corrected' if corrected else ''}",
        ranking.partial_area(
            sensitivity=sensitivity, corrected=corrected, within=within
        ),
        "higher",
        "as the table's, with another end",
        "McClish 1989; Jiang, Metz and Nishikawa 1996",
        "all other thresholds",
        Interval(0.0, 1.0 if corrected else within),
    )


METRICS: Final[Registry[MetricRow[Measure]]] = Registry("metric")
"""Every metric over all thresholds, in the order in which they are shown."""
RATES: Final[Registry[MetricRow[Rate]]] = Registry("metric at a threshold")
"""Every measure at a threshold, in the order in which they are shown."""
DEFAULT_METRICS: Final[tuple[Metric, ...]] = (
    "auc",
    "average_precision",
    "aupr",
    "brier",
)
"""What a plan asks for when nobody says otherwise: part of its digest."""

# The tables are laid out by hand: name, title, measure, better; formula; source; hides.
# fmt: off
_METRICS: Final[tuple[MetricRow[Measure], ...]] = (
    MetricRow("auc", "AUC", ranking.AUC, "higher",
        "P(a positive's score > a negative's) + ties/2",
        "Hanley and McNeil 1982; scikit-learn's roc_auc_score",
        "calibration, costs, and the thresholds that anyone would use"),
    MetricRow("average_precision", "average precision",
        ranking.AVERAGE_PRECISION, "higher",
        "sum over thresholds of precision times the step of recall",
        "scikit-learn's average_precision_score",
        "true negatives; it follows the prevalence, so sites do not compare"),
    MetricRow("aupr", "AUPR (trapezoid)", ranking.AUPR, "higher",
        "trapezoids of precision over recall",
        "trapezoids from recall 0 and precision 1; Unal et al. 2023",
        "as average precision; straight lines between points flatter it"),
    MetricRow("brier", "Brier score", brier.BRIER, "lower",
        "mean (y - s)^2",
        "Brier 1950; scikit-learn's brier_score_loss",
        "the prevalence: a rare event has a low score without any model",
        needs_probabilities=True),
    MetricRow("gini", "Gini", ranking.GINI, "higher",
        "2 AUC - 1",
        "Somers' D; Gini of credit scoring",
        "as the AUC does", _SIGNED),
    MetricRow("ks", "KS", ranking.KS, "higher",
        "max over t of recall - (1 - specificity)",
        "Kolmogorov-Smirnov; scipy's ks_2samp, one-sided",
        "that its threshold was chosen to flatter it, and everything at others"),
    MetricRow("partial_auc", "partial AUC, FPR <= 0.1",
        ranking.partial_area(sensitivity=False, corrected=False), "higher",
        "integral of recall over FPR from 0 to 0.1",
        "McClish 1989; pROC's partial.auc=c(1, .9)",
        "all thresholds with more false alarms; its largest value is 0.1", _TENTH),
    MetricRow("partial_auc_corrected", "partial AUC, corrected",
        ranking.partial_area(sensitivity=False, corrected=True), "higher",
        "(1 + (A - x^2/2)/(x - x^2/2))/2, x = 0.1",
        "McClish 1989; scikit-learn's roc_auc_score(max_fpr=.1)",
        "all thresholds with more false alarms"),
    MetricRow("partial_auc_sensitivity", "partial AUC, recall >= 0.9",
        ranking.partial_area(sensitivity=True, corrected=False), "higher",
        "integral of specificity over recall from 0.9 to 1",
        "Jiang, Metz and Nishikawa 1996; pROC's partial.auc.focus='sensitivity'",
        "all thresholds with more misses; its largest value is 0.1", _TENTH),
    MetricRow("partial_auc_sensitivity_corrected", "partial AUC, recall, corrected",
        ranking.partial_area(sensitivity=True, corrected=True), "higher",
        "(1 + (A - x^2/2)/(x - x^2/2))/2, x = 0.1",
        "McClish 1989; pROC's partial.auc.correct",
        "all thresholds with more misses"),
    MetricRow("sensitivity_at_95_specificity", "recall at 95% specificity",
        ranking.rate_at(sensitivity=False), "higher",
        "recall where specificity = 0.95",
        "pROC's coords, straight lines between thresholds",
        "which threshold that is, and every other one"),
    MetricRow("specificity_at_95_sensitivity", "specificity at 95% recall",
        ranking.rate_at(sensitivity=True), "higher",
        "specificity where recall = 0.95",
        "pROC's coords, straight lines between thresholds",
        "which threshold that is, and every other one"),
    MetricRow("pr_gain_area", "area under PR gain", ranking.PR_GAIN_AREA, "higher",
        "integral of precision gain over recall gain",
        "Flach and Kull 2015",
        "thresholds with a recall below the prevalence", _BELOW_ONE),
    MetricRow("observed_expected", "O:E ratio",
        of_sums(lambda s, y: np.stack([np.full_like(s, y), s]), lambda v: v[0] / v[1],
                lambda _: LOGARITHMIC), "one",
        "sum y/sum s",
        "Debray et al. 2017",
        "errors that cancel: too low for some and too high for others",
        _POSITIVE, needs_probabilities=True),
    MetricRow("calibration_in_the_large", "calibration in the large",
        logistic.cox_coefficient(0, level=True), "zero",
        "a in logit P(y = 1) = a + logit s",
        "Cox 1958; Steyerberg 2019",
        "errors that cancel between low and high scores",
        _REAL, needs_probabilities=True),
    MetricRow("calibration_intercept", "calibration intercept",
        logistic.cox_coefficient(0), "zero",
        "a in logit P(y = 1) = a + b logit s",
        "Cox 1958",
        "everything without the slope beside it: it is the error at a score of 1/2",
        _REAL, needs_probabilities=True),
    MetricRow("calibration_slope", "calibration slope",
        logistic.cox_coefficient(1), "one",
        "b in logit P(y = 1) = a + b logit s",
        "Cox 1958; Miller et al. 1991",
        "a bend: a slope of 1 may hide errors that a line cannot follow",
        _REAL, needs_probabilities=True),
    MetricRow("ece", "ECE", calibration.ECE, "lower",
        "sum over groups |sum y - sum s|/M",
        "Naeini et al. 2015; 15 groups of equal width, of the positive class",
        "the direction; it is above 0 for a perfect model and rises with the groups",
        needs_probabilities=True),
    MetricRow("ici", "ICI", logistic.distance("ici"), "lower",
        "mean |c(s) - s|", _AUSTIN,
        "the direction, and where the error is", needs_probabilities=True),
    MetricRow("e50", "E50", logistic.distance("e50"), "lower",
        "median |c(s) - s|", _AUSTIN,
        "the worse half of the examples", needs_probabilities=True),
    MetricRow("e90", "E90", logistic.distance("e90"), "lower",
        "90% quantile of |c(s) - s|", _AUSTIN,
        "the worst tenth of the examples", needs_probabilities=True),
    MetricRow("emax", "Emax", logistic.distance("emax"), "lower",
        "max |c(s) - s|", _AUSTIN,
        "that it rests on the few examples at the ends of the curve",
        needs_probabilities=True),
    MetricRow("eci", "ECI", logistic.distance("eci"), "lower",
        "mean (c(s) - s)^2",
        "Van Hoorde et al. 2015; not times 100",
        "the direction, and where the error is", needs_probabilities=True),
    MetricRow("log_loss", "log loss",
        of_sums(_log_loss_terms, lambda v: v[0] / v[2]), "lower",
        "-mean(y ln s + (1 - y) ln(1 - s))",
        "Good 1952; scikit-learn's log_loss, scores kept 1e-6 from 0 and 1",
        "the prevalence: a rare event has a low log loss without any model",
        _POSITIVE, needs_probabilities=True),
    MetricRow("scaled_brier", "scaled Brier score", brier.SCALED_BRIER, "higher",
        "1 - Brier/(r(1 - r))",
        "index of prediction accuracy; Kattan and Gerds 2018",
        "whether ranking or calibration is at fault",
        _BELOW_ONE, needs_probabilities=True),
    MetricRow("mean_absolute_error", "mean absolute error",
        of_sums(lambda s, y: np.stack([np.abs(y - s), np.ones_like(s)]),
                lambda v: v[0] / v[1]), "lower",
        "mean |y - s|",
        "MAPE of Van Calster et al. 2025; scikit-learn's mean_absolute_error",
        "calibration: it is least for scores of 0 and 1 (not a proper score)",
        needs_probabilities=True),
    MetricRow("miscalibration", "Brier miscalibration", brier.MISCALIBRATION, "lower",
        "Brier(s) - Brier(c), c the best increasing rates", _CORP,
        "that few examples raise it: a fitted curve follows scatter",
        needs_probabilities=True),
    MetricRow("discrimination", "Brier discrimination", brier.DISCRIMINATION, "higher",
        "r(1 - r) - Brier(c)", _CORP,
        "that few examples raise it: a fitted curve follows scatter",
        needs_probabilities=True),
    MetricRow("uncertainty", "Brier uncertainty", brier.UNCERTAINTY, "lower",
        "r(1 - r)", _CORP,
        "the model: it is the Brier score of predicting the prevalence",
        needs_probabilities=True),
    MetricRow("mcfadden_r2", "McFadden's R2",
        of_sums(_log_loss_terms, lambda v: 1 - (v[0] / v[2]) / _entropy(v[1] / v[2])),
        "higher",
        "1 - log loss/entropy of r",
        "McFadden 1974",
        "whether ranking or calibration is at fault",
        _BELOW_ONE, needs_probabilities=True),
    MetricRow("cox_snell_r2", "Cox-Snell R2",
        of_sums(_log_loss_terms, _cox_snell), "higher",
        "1 - exp(2(log loss - entropy of r))",
        "Cox and Snell 1989",
        "that its largest value is below 1 and follows the prevalence",
        _BELOW_ONE, needs_probabilities=True),
    MetricRow("nagelkerke_r2", "Nagelkerke's R2",
        of_sums(_log_loss_terms,
                lambda v: _cox_snell(v) / (1 - np.exp(-2 * _entropy(v[1] / v[2])))),
        "higher",
        "Cox-Snell R2/(1 - exp(-2 entropy of r))",
        "Nagelkerke 1991",
        "whether ranking or calibration is at fault",
        _BELOW_ONE, needs_probabilities=True),
    MetricRow("discrimination_slope", "discrimination slope",
        of_sums(_mean_terms, lambda v: v[0] / v[2] - v[1] / v[3]), "higher",
        "mean(s | y = 1) - mean(s | y = 0)",
        "Yates 1982; Tjur's R2 2009",
        "calibration: more extreme scores raise it, right or wrong",
        _SIGNED, needs_probabilities=True),
)
_RATES: Final[tuple[MetricRow[Rate], ...]] = (
    MetricRow("precision", "precision", Share((1, 0, 0, 0), (0, 0, 1, 0)), "higher",
        "TP/(TP + FP)",
        "positive predictive value; scikit-learn's precision_score",
        "the positives that were missed; it follows the prevalence"),
    MetricRow("recall", "recall", Share((1, 0, 0, 0), (0, 1, 0, 0)), "higher",
        "TP/(TP + FN)",
        "sensitivity, true positive rate; scikit-learn's recall_score",
        "the false alarms that it costs"),
    MetricRow("specificity", "specificity", Share((0, 0, 0, 1), (0, 0, 1, 0)), "higher",
        "TN/(TN + FP)",
        "true negative rate",
        "the positives that are missed for it"),
    MetricRow("accuracy", "accuracy", Share((1, 0, 0, 1), (0, 1, 1, 0)), "higher",
        "(TP + TN)/N",
        "scikit-learn's accuracy_score",
        "that calling all negative is right as often as negatives are common"),
    MetricRow("f1", "F1", Share((1, 0, 0, 0), (0, 1, 1, 0), twice=True), "higher",
        "2TP/(2TP + FN + FP)",
        "van Rijsbergen 1979; scikit-learn's f1_score",
        "the true negatives, and whose costs are balanced"),
    MetricRow("npv", "NPV", Share((0, 0, 0, 1), (0, 1, 0, 0)), "higher",
        "TN/(TN + FN)",
        "negative predictive value; Altman and Bland 1994",
        "how few are called negative; it is high wherever positives are rare",
        headline=False),
    MetricRow("false_positive_rate", "false positive rate",
        Share((0, 0, 1, 0), (0, 0, 0, 1)), "lower",
        "FP/(FP + TN)",
        "fall-out; fairlearn's false_positive_rate",
        "as specificity does", headline=False),
    MetricRow("false_negative_rate", "false negative rate",
        Share((0, 1, 0, 0), (1, 0, 0, 0)), "lower",
        "FN/(TP + FN)",
        "miss rate; fairlearn's false_negative_rate",
        "as recall does", headline=False),
    MetricRow("alert_rate", "alert rate", Share((1, 0, 1, 0), (0, 1, 0, 1)), "lower",
        "(TP + FP)/N",
        "share called positive; fairlearn's selection_rate",
        "whether the alerts are right", headline=False),
    MetricRow("balanced_accuracy", "balanced accuracy",
        Analytic(lambda tp, fn, fp, tn, _: (tp / (tp + fn) + tn / (tn + fp)) / 2),
        "higher",
        "(recall + specificity)/2",
        "scikit-learn's balanced_accuracy_score",
        "the prevalence and the costs: both errors count alike", headline=False),
    MetricRow("youden", "Youden's J",
        Analytic(lambda tp, fn, fp, tn, _: tp / (tp + fn) + tn / (tn + fp) - 1),
        "higher",
        "recall + specificity - 1",
        "Youden 1950; informedness",
        "the prevalence and the costs: both errors count alike",
        _SIGNED, headline=False),
    MetricRow("likelihood_ratio_positive", "LR+",
        Analytic(lambda tp, fn, fp, tn, _: (tp / (tp + fn)) / (fp / (fp + tn)),
                 factor=True), "higher",
        "recall/(1 - specificity)",
        "Deeks and Altman 2004; scikit-learn's class_likelihood_ratios",
        "the prevalence: a high LR+ of a rare event is still mostly false alarms",
        _POSITIVE, headline=False),
    MetricRow("likelihood_ratio_negative", "LR-",
        Analytic(lambda tp, fn, fp, tn, _: (fn / (tp + fn)) / (tn / (fp + tn)),
                 factor=True), "lower",
        "(1 - recall)/specificity",
        "Deeks and Altman 2004; scikit-learn's class_likelihood_ratios",
        "the prevalence", _POSITIVE, headline=False),
    MetricRow("diagnostic_odds_ratio", "diagnostic odds ratio",
        Analytic(lambda tp, fn, fp, tn, _: tp * tn / (fp * fn), factor=True), "higher",
        "TP TN/(FP FN)",
        "Glas et al. 2003",
        "which error is made: recall and specificity trade places in it",
        _POSITIVE, headline=False),
    MetricRow("mcc", "MCC", Analytic(_mcc), "higher",
        "(TP TN - FP FN)/sqrt((TP+FP)(TP+FN)(TN+FP)(TN+FN))",
        "Matthews 1975; scikit-learn's matthews_corrcoef",
        "the costs; it follows the prevalence", _SIGNED, headline=False),
    MetricRow("kappa", "Cohen's kappa",
        Analytic(lambda tp, fn, fp, tn, _: 2 * (tp * tn - fn * fp)
                 / ((tp + fp) * (fp + tn) + (tp + fn) * (fn + tn))), "higher",
        "2(TP TN - FN FP)/((TP+FP)(FP+TN) + (TP+FN)(FN+TN))",
        "Cohen 1960; scikit-learn's cohen_kappa_score",
        "the costs; it follows the prevalence", _SIGNED, headline=False),
    MetricRow("f2", "F2",
        Analytic(lambda tp, fn, fp, *_: 5 * tp / (5 * tp + 4 * fn + fp)), "higher",
        "5TP/(5TP + 4FN + FP)",
        "van Rijsbergen 1979; scikit-learn's fbeta_score, beta 2",
        "the true negatives", headline=False),
    MetricRow("f_half", "F0.5",
        Analytic(lambda tp, fn, fp, *_: 1.25 * tp / (1.25 * tp + 0.25 * fn + fp)),
        "higher",
        "1.25TP/(1.25TP + 0.25FN + FP)",
        "van Rijsbergen 1979; scikit-learn's fbeta_score, beta 0.5",
        "the true negatives", headline=False),
    MetricRow("net_benefit", "net benefit",
        Analytic(lambda tp, fn, fp, tn, t: (tp - fp * (t / (1 - t)))
                 / (tp + fn + fp + tn)), "higher",
        "TP/N - FP/N t/(1 - t)",
        "Vickers and Elkin 2006; dcurves",
        "that the threshold states the costs: at another cost it is another number",
        _BELOW_ONE, needs_probabilities=True, headline=False),
    MetricRow("net_benefit_all", "net benefit of all",
        Analytic(lambda tp, fn, fp, tn, t: (tp + fn - (fp + tn) * (t / (1 - t)))
                 / (tp + fn + fp + tn)), "higher",
        "P/N - (1 - P/N) t/(1 - t)",
        "Vickers and Elkin 2006; dcurves' treat all",
        "the model: it is what calling everyone positive is worth",
        _BELOW_ONE, needs_probabilities=True, headline=False),
    MetricRow("standardised_net_benefit", "standardised net benefit",
        Analytic(lambda tp, fn, fp, _, t: (tp - fp * (t / (1 - t))) / (tp + fn)),
        "higher",
        "net benefit/(P/N)",
        "Kerr et al. 2016; dcurves' standardized_net_benefit",
        "how common positives are",
        _BELOW_ONE, needs_probabilities=True, headline=False),
    MetricRow("expected_cost", "expected cost",
        Analytic(lambda tp, fn, fp, tn, t: ((1 - t) * fn + t * fp)
                 / (tp + fn + fp + tn)), "lower",
        "(1 - t) FN/N + t FP/N",
        "Hand 2009; costs (1 - t) a miss and t a false alarm",
        "that the threshold states the costs",
        needs_probabilities=True, headline=False),
    MetricRow("lift", "lift",
        Analytic(lambda tp, fn, fp, tn, _: tp / (tp + fp) * (tp + fn + fp + tn)
                 / (tp + fn), factor=True), "higher",
        "precision/(P/N)",
        "precision over prevalence; mlxtend's lift_score",
        "how few are called positive: it is largest at the very top",
        _POSITIVE, headline=False),
    MetricRow("number_needed_to_evaluate", "number needed to evaluate",
        Analytic(lambda tp, _, fp, *__: (tp + fp) / tp, factor=True), "lower",
        "1/precision",
        "Romero-Brufau et al. 2015; alerts for one positive",
        "the positives that were missed", Interval(1.0, math.inf), headline=False),
)
# fmt: on
for _metric in _METRICS:
    METRICS.add(_metric.name, _metric)
for _rate in _RATES:
    RATES.add(_rate.name, _rate)

"""The table of measures at a threshold: functions of the confusion counts, one row each."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from discreet.estimate.estimate import Interval
from discreet.metrics.rate_row import Analytic, RateRow, Share
from discreet.registry import Registry

_SIGNED: Final = Interval(-1.0, 1.0)
_POSITIVE: Final = Interval(0.0, math.inf)
_BELOW_ONE: Final = Interval(-math.inf, 1.0)


def f_beta(beta: float) -> Analytic:
    r"""Return :math:`F_\beta = (1+\beta^2)TP/((1+\beta^2)TP + \beta^2 FN + FP)`."""
    b = beta * beta

    def value(tp: Any, fn: Any, fp: Any, tn: Any, t: float) -> Any:
        del tn, t
        return (1 + b) * tp / ((1 + b) * tp + b * fn + fp)

    return Analytic(value)


def _balanced(tp: Any, fn: Any, fp: Any, tn: Any, _: float) -> Any:
    return (tp / (tp + fn) + tn / (tn + fp)) / 2


def _youden(tp: Any, fn: Any, fp: Any, tn: Any, _: float) -> Any:
    return tp / (tp + fn) + tn / (tn + fp) - 1


def _lr_plus(tp: Any, fn: Any, fp: Any, tn: Any, _: float) -> Any:
    return (tp / (tp + fn)) / (fp / (fp + tn))


def _lr_minus(tp: Any, fn: Any, fp: Any, tn: Any, _: float) -> Any:
    return (fn / (tp + fn)) / (tn / (fp + tn))


def _odds_ratio(tp: Any, fn: Any, fp: Any, tn: Any, _: float) -> Any:
    return tp * tn / (fp * fn)


def _mcc(tp: Any, fn: Any, fp: Any, tn: Any, _: float) -> Any:
    under = np.sqrt(tp + fp) * np.sqrt(tp + fn) * np.sqrt(tn + fp) * np.sqrt(tn + fn)
    return (tp * tn - fp * fn) / under


def _kappa(tp: Any, fn: Any, fp: Any, tn: Any, _: float) -> Any:
    under = (tp + fp) * (fp + tn) + (tp + fn) * (fn + tn)
    return 2 * (tp * tn - fn * fp) / under


def _net_benefit(tp: Any, fn: Any, fp: Any, tn: Any, t: float) -> Any:
    return (tp - fp * (t / (1 - t))) / (tp + fn + fp + tn)


def _of_all(tp: Any, fn: Any, fp: Any, tn: Any, t: float) -> Any:
    return (tp + fn - (fp + tn) * (t / (1 - t))) / (tp + fn + fp + tn)


def _standardised(tp: Any, fn: Any, fp: Any, tn: Any, t: float) -> Any:
    del tn
    return (tp - fp * (t / (1 - t))) / (tp + fn)


def _cost(tp: Any, fn: Any, fp: Any, tn: Any, t: float) -> Any:
    return ((1 - t) * fn + t * fp) / (tp + fn + fp + tn)


def _evaluated(tp: Any, fn: Any, fp: Any, tn: Any, _: float) -> Any:
    del fn, tn
    return (tp + fp) / tp


def _lift(tp: Any, fn: Any, fp: Any, tn: Any, _: float) -> Any:
    return tp / (tp + fp) * (tp + fn + fp + tn) / (tp + fn)


RATES: Final[Registry[RateRow]] = Registry("metric at a threshold")
"""Every measure at a threshold, in the order in which they are shown."""
_ROWS: Final = (
    RateRow(
        "precision",
        "precision",
        Share((1, 0, 0, 0), (0, 0, 1, 0)),
        "higher",
        "positive predictive value; scikit-learn's precision_score",
        formula="TP/(TP + FP)",
        hides="the positives that were missed; it follows the prevalence",
    ),
    RateRow(
        "recall",
        "recall",
        Share((1, 0, 0, 0), (0, 1, 0, 0)),
        "higher",
        "sensitivity, true positive rate; scikit-learn's recall_score",
        formula="TP/(TP + FN)",
        hides="the false alarms that it costs",
    ),
    RateRow(
        "specificity",
        "specificity",
        Share((0, 0, 0, 1), (0, 0, 1, 0)),
        "higher",
        "true negative rate",
        formula="TN/(TN + FP)",
        hides="the positives that are missed for it",
    ),
    RateRow(
        "accuracy",
        "accuracy",
        Share((1, 0, 0, 1), (0, 1, 1, 0)),
        "higher",
        "scikit-learn's accuracy_score",
        formula="(TP + TN)/N",
        hides="that calling all negative is right as often as negatives are common",
    ),
    RateRow(
        "f1",
        "F1",
        Share((1, 0, 0, 0), (0, 1, 1, 0), twice=True),
        "higher",
        "van Rijsbergen 1979; scikit-learn's f1_score",
        formula="2TP/(2TP + FN + FP)",
        hides="the true negatives, and whose costs are balanced",
    ),
    RateRow(
        "npv",
        "NPV",
        Share((0, 0, 0, 1), (0, 1, 0, 0)),
        "higher",
        "negative predictive value; Altman and Bland 1994",
        formula="TN/(TN + FN)",
        hides="how few are called negative; it is high wherever positives are rare",
        headline=False,
    ),
    RateRow(
        "false_positive_rate",
        "false positive rate",
        Share((0, 0, 1, 0), (0, 0, 0, 1)),
        "lower",
        "fall-out; fairlearn's false_positive_rate",
        formula="FP/(FP + TN)",
        hides="as specificity does",
        headline=False,
    ),
    RateRow(
        "false_negative_rate",
        "false negative rate",
        Share((0, 1, 0, 0), (1, 0, 0, 0)),
        "lower",
        "miss rate; fairlearn's false_negative_rate",
        formula="FN/(TP + FN)",
        hides="as recall does",
        headline=False,
    ),
    RateRow(
        "alert_rate",
        "alert rate",
        Share((1, 0, 1, 0), (0, 1, 0, 1)),
        "lower",
        "share called positive; fairlearn's selection_rate",
        formula="(TP + FP)/N",
        hides="whether the alerts are right",
        headline=False,
    ),
    RateRow(
        "balanced_accuracy",
        "balanced accuracy",
        Analytic(_balanced),
        "higher",
        "scikit-learn's balanced_accuracy_score",
        formula="(recall + specificity)/2",
        hides="the prevalence and the costs: both errors count alike",
        headline=False,
    ),
    RateRow(
        "youden",
        "Youden's J",
        Analytic(_youden),
        "higher",
        "Youden 1950; informedness",
        _SIGNED,
        formula="recall + specificity - 1",
        hides="the prevalence and the costs: both errors count alike",
        headline=False,
    ),
    RateRow(
        "likelihood_ratio_positive",
        "LR+",
        Analytic(_lr_plus),
        "higher",
        "Deeks and Altman 2004; scikit-learn's class_likelihood_ratios",
        _POSITIVE,
        formula="recall/(1 - specificity)",
        hides="the prevalence: a high LR+ of a rare event is still mostly false alarms",
        headline=False,
        factor=True,
    ),
    RateRow(
        "likelihood_ratio_negative",
        "LR-",
        Analytic(_lr_minus),
        "lower",
        "Deeks and Altman 2004; scikit-learn's class_likelihood_ratios",
        _POSITIVE,
        formula="(1 - recall)/specificity",
        hides="the prevalence",
        headline=False,
        factor=True,
    ),
    RateRow(
        "diagnostic_odds_ratio",
        "diagnostic odds ratio",
        Analytic(_odds_ratio),
        "higher",
        "Glas et al. 2003",
        _POSITIVE,
        formula="TP TN/(FP FN)",
        hides="which error is made: recall and specificity trade places in it",
        headline=False,
        factor=True,
    ),
    RateRow(
        "mcc",
        "MCC",
        Analytic(_mcc),
        "higher",
        "Matthews 1975; scikit-learn's matthews_corrcoef",
        _SIGNED,
        formula="(TP TN - FP FN)/sqrt((TP+FP)(TP+FN)(TN+FP)(TN+FN))",
        hides="the costs; it follows the prevalence",
        headline=False,
    ),
    RateRow(
        "kappa",
        "Cohen's kappa",
        Analytic(_kappa),
        "higher",
        "Cohen 1960; scikit-learn's cohen_kappa_score",
        _SIGNED,
        formula="2(TP TN - FN FP)/((TP+FP)(FP+TN) + (TP+FN)(FN+TN))",
        hides="the costs; it follows the prevalence",
        headline=False,
    ),
    RateRow(
        "f2",
        "F2",
        f_beta(2.0),
        "higher",
        "van Rijsbergen 1979; scikit-learn's fbeta_score, beta 2",
        formula="5TP/(5TP + 4FN + FP)",
        hides="the true negatives",
        headline=False,
    ),
    RateRow(
        "f_half",
        "F0.5",
        f_beta(0.5),
        "higher",
        "van Rijsbergen 1979; scikit-learn's fbeta_score, beta 0.5",
        formula="1.25TP/(1.25TP + 0.25FN + FP)",
        hides="the true negatives",
        headline=False,
    ),
    RateRow(
        "net_benefit",
        "net benefit",
        Analytic(_net_benefit),
        "higher",
        "Vickers and Elkin 2006; dcurves",
        _BELOW_ONE,
        formula="TP/N - FP/N t/(1 - t)",
        hides="that the threshold states the costs: at another cost it is another number",
        headline=False,
        needs_probabilities=True,
    ),
    RateRow(
        "net_benefit_all",
        "net benefit of all",
        Analytic(_of_all),
        "higher",
        "Vickers and Elkin 2006; dcurves' treat all",
        _BELOW_ONE,
        formula="P/N - (1 - P/N) t/(1 - t)",
        hides="the model: it is what calling everyone positive is worth",
        headline=False,
        needs_probabilities=True,
    ),
    RateRow(
        "standardised_net_benefit",
        "standardised net benefit",
        Analytic(_standardised),
        "higher",
        "Kerr et al. 2016; dcurves' standardized_net_benefit",
        _BELOW_ONE,
        formula="net benefit/(P/N)",
        hides="how common positives are",
        headline=False,
        needs_probabilities=True,
    ),
    RateRow(
        "expected_cost",
        "expected cost",
        Analytic(_cost),
        "lower",
        "Hand 2009; costs (1 - t) a miss and t a false alarm",
        formula="(1 - t) FN/N + t FP/N",
        hides="that the threshold states the costs",
        headline=False,
        needs_probabilities=True,
    ),
    RateRow(
        "lift",
        "lift",
        Analytic(_lift),
        "higher",
        "precision over prevalence; mlxtend's lift_score",
        _POSITIVE,
        formula="precision/(P/N)",
        hides="how few are called positive: it is largest at the very top",
        headline=False,
        factor=True,
    ),
    RateRow(
        "number_needed_to_evaluate",
        "number needed to evaluate",
        Analytic(_evaluated),
        "lower",
        "Romero-Brufau et al. 2015; alerts for one positive",
        Interval(1.0, math.inf),
        formula="1/precision",
        hides="the positives that were missed",
        headline=False,
        factor=True,
    ),
)
for _row in _ROWS:
    RATES.add(_row.name, _row)

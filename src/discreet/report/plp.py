"""The tables of OHDSI's PatientLevelPrediction, by its own columns and metrics' names.

They are those of its R package (``getEvaluationStatistics``, ``getThresholdSummary``,
``getCalibrationSummary`` for binary outcomes, in their order), so that what reads its
results reads these. Where it computes otherwise, ours is said here:

- ``Eavg``, ``ici``, ``E90`` and ``Emax`` are of a spline of the logit, there of loess.
- ``calibrationSummary`` has ten groups of about equal size, cut inside bins by even
  cells; columns that need single examples (spread and quantiles of the predictions
  inside a group) are empty: they were never released.
- the Hosmer-Lemeshow line's intercept and gradient are left out.

Counts below ``min_cell_count`` but above 0 are written as -1, and so are those that would
give one away by subtraction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from discreet.metrics.score_groups import Groups
from discreet.metrics.thresholds import probability_of
from discreet.report.explorer import Explorer, counted

if TYPE_CHECKING:
    from discreet.report.evaluation import Evaluation

_HIDDEN: Final = -1
_STRATA: Final = 10
_STATISTICS: Final = {
    "AUPRC": "aupr",
    "brier score": "brier",
    "Eavg": "ici",
    "E90": "e90",
    "Emax": "emax",
    "ici": "ici",
    "calibrationInLarge intercept": "calibration_in_the_large",
    "weak calibration intercept": "calibration_intercept",
    "weak calibration gradient": "calibration_slope",
    "Average Precision": "average_precision",
}
_RATES: Final = {
    "f1Score": "f1",
    "accuracy": "accuracy",
    "sensitivity": "recall",
    "falseNegativeRate": "false_negative_rate",
    "falsePositiveRate": "false_positive_rate",
    "specificity": "specificity",
    "positivePredictiveValue": "precision",
    "negativePredictiveValue": "npv",
    "positiveLikelihoodRatio": "likelihood_ratio_positive",
    "negativeLikelihoodRatio": "likelihood_ratio_negative",
    "diagnosticOddsRatio": "diagnostic_odds_ratio",
}


def evaluation_statistics(
    parts: Mapping[str, Evaluation], min_cell_count: int
) -> list[dict[str, Any]]:
    """Return the evaluation statistics: one row a metric."""
    rows = []
    for name, part in parts.items():
        for metric, value in _statistics(part, min_cell_count).items():
            rows.append(
                {"evaluation": name or "Test", "metric": metric, "value": value}
            )
    return rows


def _statistics(part: Evaluation, least: int) -> dict[str, float]:
    found: dict[str, float] = {}
    if part.fit.has_curves:
        seen = part.observed
        cells = hidden([seen.total_positives, seen.total_negatives], least)
        told = _HIDDEN not in cells
        found["populationSize"] = sum(cells) if told else _HIDDEN
        found["outcomeCount"] = cells[0] if told else _HIDDEN
    if "auc" in part.metrics:
        low, high = part.auc.interval()
        found |= {
            "AUROC": part.auc.value,
            "95% lower AUROC": low,
            "95% upper AUROC": high,
        }
    for title, metric in _STATISTICS.items():
        if metric in part.metrics or (part.calibratable and part.refusal is None):
            found[title] = part.metric(metric).value
        if title == "brier score" and title in found and part.calibratable:
            mean = part.prevalence / part.metric("observed_expected").value
            found["brier score scaled"] = 1 - found[title] / (mean * (1 - mean))
        if title == "ici" and title in found:
            mean = part.prevalence / part.metric("observed_expected").value
            found["calibrationInLarge mean prediction"] = mean
            found["calibrationInLarge observed risk"] = part.prevalence
    return found


def threshold_summary(
    parts: Mapping[str, Evaluation], min_cell_count: int
) -> list[dict[str, Any]]:
    """Return the threshold summary at the report's thresholds, the highest first."""
    explorer = Explorer(parts)
    rows = []
    for (name, part), found in zip(parts.items(), explorer.found, strict=True):
        for at in reversed(found):
            tp, fn, fp, tn = (
                at[count].value
                for count in (
                    "true_positives",
                    "false_negatives",
                    "false_positives",
                    "true_negatives",
                )
            )
            cells = hidden([tp, fn, fp, tn], min_cell_count)
            whole = [c if _HIDDEN not in cells else _HIDDEN for c in cells]
            rates: dict[str, float] = {}
            for word, rate in _RATES.items():
                rates[word] = at[rate].value
                if word == "positivePredictiveValue":
                    rates["falseDiscoveryRate"] = 1 - at[rate].value
                elif word == "negativePredictiveValue":
                    rates["falseOmissionRate"] = 1 - at[rate].value
            if _HIDDEN in cells:  # rates of hidden counts would tell them
                rates = dict.fromkeys(rates, math.nan)
            rows.append(
                {
                    "evaluation": name or "Test",
                    "predictionThreshold": at.threshold,
                    "preferenceThreshold": _preference(at.threshold, part.prevalence),
                    "positiveCount": _sum(whole, (0, 2)),
                    "negativeCount": _sum(whole, (1, 3)),
                    "trueCount": _sum(whole, (0, 1)),
                    "falseCount": _sum(whole, (2, 3)),
                    "truePositiveCount": whole[0],
                    "trueNegativeCount": whole[3],
                    "falsePositiveCount": whole[2],
                    "falseNegativeCount": whole[1],
                    **rates,
                }
            )
    return rows


def calibration_summary(
    parts: Mapping[str, Evaluation], min_cell_count: int
) -> list[dict[str, Any]]:
    """Return the calibration summary: ten groups of about equal size."""
    rows = []
    for name, part in parts.items():
        if not part.calibratable:
            continue
        counts = counted(part).counts
        groups = Groups.of(counts, _STRATA, "mass")
        kept = np.flatnonzero(groups.filled)
        for first, k in enumerate(kept):
            at_risk, with_outcome = groups.totals[k], groups.positives[k]
            cells = hidden([with_outcome, at_risk - with_outcome], min_cell_count)
            shown = _HIDDEN not in cells
            rows.append(
                {
                    "predictionThreshold": _least(groups, int(k)) if first else 0.0,
                    "PersonCountAtRisk": sum(cells) if shown else _HIDDEN,
                    "PersonCountWithOutcome": cells[0] if shown else _HIDDEN,
                    "averagePredictedProbability": float(groups.predicted[k] / at_risk),
                    "StDevPredictedProbability": None,
                    "MinPredictedProbability": None,
                    "P25PredictedProbability": None,
                    "MedianPredictedProbability": None,
                    "P75PredictedProbability": None,
                    "MaxPredictedProbability": None,
                    "observedIncidence": float(with_outcome / at_risk)
                    if shown
                    else math.nan,
                    "evaluation": name or "Test",
                }
            )
    return rows


def _least(groups: Groups, k: int) -> float:
    """Return where a group begins: its first bin's edge, or its place inside the bin."""
    edges = groups.counts.edges
    share = (groups.placed == k).mean(axis=1)
    first = int(np.flatnonzero(share)[0])
    low, high = (
        probability_of(float(e), edges) for e in edges.array[first : first + 2]
    )
    if not math.isfinite(high):
        return low
    return high - float(share[first]) * (high - low)


def hidden(counts: Iterable[float], least: int) -> list[int]:
    """Return whole counts, with -1 for those above 0 and below the smallest allowed.

    >>> hidden([0.0, 3.2, 5.0], 5)
    [0, -1, 5]
    """
    whole = [max(round(count), 0) for count in counts]
    return [_HIDDEN if 0 < count < least else count for count in whole]


def _sum(cells: list[int], which: tuple[int, int]) -> int:
    return _HIDDEN if _HIDDEN in cells else sum(cells[k] for k in which)


def _preference(threshold: float, share: float) -> float:
    """Return the preference score: the odds of the threshold over those of all."""
    if not 0 < threshold < 1 or not 0 < share < 1:
        return math.nan
    odds = threshold / (1 - threshold) * (1 - share) / share
    return odds / (1 + odds)

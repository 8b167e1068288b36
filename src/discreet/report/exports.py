"""A result as tables that others read: CSV, OHDSI's PatientLevelPrediction, a model card.

- ``measures.csv``: every measure of every part as one tidy row.
- ``curves.csv``: ROC and PR points with their pointwise 95% limits.
- ``plp/``: the three tables of OHDSI's PatientLevelPrediction (evaluation statistics,
  threshold summary, calibration summary; :mod:`discreet.report.exports`).
- ``model-card.json``: the key metrics of the Coalition for Health AI's applied model
  card: goal, results, interpretation and test for usefulness, fairness and safety.

The tables of OHDSI's PatientLevelPrediction, by its own columns and metrics' names.

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

import csv
import json
import math
from collections.abc import Iterable, Mapping
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from discreet.errors import InputError
from discreet.estimate.estimate import Estimate
from discreet.metrics.calibration import Groups
from discreet.metrics.curve_points import BandKind
from discreet.metrics.table import METRICS
from discreet.metrics.thresholds import probability_of
from discreet.report.explorer import Explorer, counted
from discreet.report.text import calibration_words, counted_words, headlines
from discreet.statistic import Grouped

if TYPE_CHECKING:
    from discreet.report.evaluation import Evaluation

MIN_CELL_COUNT: Final = 5
_CURVES: Final[tuple[BandKind, ...]] = ("roc", "pr")
_NONE: Final = {
    "Label": "not measured",
    "ValueJson": '{"kind": "single", "value": null}',
}


def export(
    parts: Mapping[str, Evaluation],
    folder: str | Path,
    *,
    min_cell_count: int = MIN_CELL_COUNT,
) -> list[Path]:
    """Write every table into a folder; return the files."""
    if min_cell_count < 0:
        raise InputError("the smallest cell count is 0 or more")
    where = Path(folder)
    (where / "plp").mkdir(parents=True, exist_ok=True)
    drawn = {
        name: part
        for name, part in parts.items()
        if part.fit.has_curves and part.refusal is None
    }
    tables = {
        "measures.csv": table(measures(parts)),
        "model-card.json": json.dumps(model_card(parts), indent=1, allow_nan=False),
        "plp/evaluationStatistics.csv": table(
            evaluation_statistics(parts, min_cell_count)
        ),
    }
    if drawn:
        tables |= {
            "curves.csv": table(curves(drawn)),
            "plp/thresholdSummary.csv": table(threshold_summary(drawn, min_cell_count)),
        }
    if any(part.calibratable for part in drawn.values()):
        summary = calibration_summary(drawn, min_cell_count)
        tables["plp/calibrationSummary.csv"] = table(summary)
    for name, content in tables.items():
        (where / name).write_text(content, encoding="utf-8")
    return [where / name for name in tables]


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as CSV; NaN and None are empty cells."""
    kept = list(rows)
    if not kept:
        return ""
    text = StringIO()
    writer = csv.DictWriter(text, fieldnames=list(kept[0]), lineterminator="\n")
    writer.writeheader()
    for row in kept:
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return "" if not math.isfinite(value) else repr(value)
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@"):
        return f"'{value}"  # a spreadsheet would run it
    return "" if value is None else value


def measures(parts: Mapping[str, Evaluation]) -> list[dict[str, Any]]:
    """Return every measure of every part as one tidy row."""
    return [
        {"part": name, **row} for name, part in parts.items() for row in part.rows()
    ]


def curves(parts: Mapping[str, Evaluation]) -> list[dict[str, Any]]:
    """Return the points of the ROC and PR curves with their limits."""
    rows: list[dict[str, Any]] = []
    for name, part in parts.items():
        for kind in _CURVES:
            found = part.band(kind)
            for t, x, y, low, high in zip(
                found.thresholds,
                found.x,
                found.value,
                found.low,
                found.high,
                strict=True,
            ):
                rows.append(
                    {
                        "part": name,
                        "curve": kind,
                        "threshold": float(t),
                        "x": float(x),
                        "y": float(y),
                        "low": float(low),
                        "high": float(high),
                    }
                )
    return rows


def model_card(parts: Mapping[str, Evaluation]) -> dict[str, Any]:
    """Return the key metrics of an applied model card, by its schema's element names.

    Schema 0.2 of the Coalition for Health AI: each of three sections has a goal, one or
    more results (a label, and a value as JSON text), an interpretation, and how it was
    tested. What only the model's developer can say is left to them.
    """
    first = next(iter(parts.values()))
    shown = headlines(first)
    safe: list[tuple[str, Estimate]] = []
    reliable = "calibration was not measured: the scores are no probabilities"
    if first.calibratable:
        reliable = calibration_words(first)
        safe = [("Calibration error (ECE)", first.recalibration().ece_before)]
        safe += [
            (METRICS[name].title, first.metric(name))
            for name in ("observed_expected", "calibration_slope")
        ]
    fair = [
        (f"AUC, {name or 'everybody'}", part.metrics["auc"])
        for name, part in parts.items()
        if "auc" in part.metrics
    ]
    told = first.plan is not None and isinstance(first.plan.statistic, Grouped)
    words = (
        "Ranking in each declared group; gaps with intervals that hold for all pairs of "
        "groups are in the report."
        if told
        else "No groups were declared, so nothing is known of differences between them."
    )
    sections = {
        "UsefulnessUsabilityEfficacy": (
            "Tell positives from negatives",
            [(each.title, each.found) for each in shown],
            " ".join(each.sentence for each in shown),
        ),
        "FairnessEquity": ("Do so alike in every group", fair, words),
        "SafetyReliability": ("Predict probabilities that occur", safe, reliable),
    }
    return {
        "schema": "https://mc.chai.org/v0.2/schema.xsd",
        "BasicInfo": {
            "ModelName": first.plan.model.name if first.plan is not None else ""
        },
        "KeyMetrics": {
            name: {
                "MetricGoal": goal,
                "Results": {"MetricResult": [_metric(*row) for row in rows] or [_NONE]},
                "Interpretation": interpretation,
                **_tested(first),
            }
            for name, (goal, rows, interpretation) in sections.items()
        },
    }


def _metric(label: str, found: Estimate) -> dict[str, str]:
    """Return a result as the schema's examples write one: a value and its interval."""
    low, high = found.interval()
    written = {
        "kind": "estimate_ci",
        "estimate": found.value,
        "lower": low,
        "upper": high,
        "level": 95,
    }
    if not all(math.isfinite(v) for v in (found.value, low, high)):
        return {"Label": label, "ValueJson": _NONE["ValueJson"]}
    return {"Label": label, "ValueJson": json.dumps(written)}


def _tested(first: Evaluation) -> dict[str, str]:
    """Return how it was tested, of how many and under which promise."""
    told = counted_words(first, ())
    plan = "" if first.plan is None else f" Plan sha256:{first.plan.digest().hex()}."
    return {
        "TestType": f"External validation over {first.expected} sites without pooling "
        "data",
        "TestingDataDescription": "; ".join(f"{k}: {v}" for k, v in told.items()),
        "ValidationProcessAndJustification": f"{str(first.claim).splitlines()[0]}{plan} "
        "95% intervals hold sampling, binning and noise.",
    }


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

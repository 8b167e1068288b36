"""A result as tables that others read: CSV, OHDSI's PatientLevelPrediction, a model card.

- ``measures.csv``: every measure of every part as one tidy row.
- ``curves.csv``: ROC and PR points with their pointwise 95% limits.
- ``plp/``: the three tables of OHDSI's PatientLevelPrediction (evaluation statistics,
  threshold summary, calibration summary), by the names of their columns in its R
  package. Counts below ``min_cell_count`` but above 0 are written as -1, and so are
  those that would give one away by subtraction. Columns that need single examples
  (quantiles of predictions inside a stratum) are empty: they were never released.
- ``model-card.json``: the metrics of the Coalition for Health AI's applied model card:
  goal, result, interpretation and test for usefulness, fairness and safety.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Mapping
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from discreet.errors import InputError
from discreet.estimate.estimate import Estimate
from discreet.metrics.bands import BandKind
from discreet.result.explorer import Explorer
from discreet.result.words import calibration_words, headlines

if TYPE_CHECKING:
    from discreet.result.evaluation import Evaluation

MIN_CELL_COUNT: Final = 5
_CURVES: Final[tuple[BandKind, ...]] = ("roc", "pr")
_HIDDEN: Final = -1
_STATISTICS: Final = {
    "auc": "AUROC",
    "average_precision": "AUPRC",
    "brier": "brier score",
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
        if part.reading.has_curves and part.refusal is None
    }
    tables = {
        "measures.csv": table(measures(parts)),
        "model-card.json": json.dumps(model_card(parts), indent=1, allow_nan=False),
        "plp/evaluationStatistics.csv": table(evaluation_statistics(parts)),
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


def evaluation_statistics(parts: Mapping[str, Evaluation]) -> list[dict[str, Any]]:
    """Return PatientLevelPrediction's evaluation statistics: one row a metric."""
    rows = []
    for name, part in parts.items():
        for metric, title in _STATISTICS.items():
            if metric not in part.metrics:
                continue
            found = part.metrics[metric]
            low, high = found.interval()
            for word, value in (
                (title, found.value),
                (f"95% lower {title}", low),
                (f"95% upper {title}", high),
            ):
                rows.append(
                    {"evaluation": name or "Test", "metric": word, "value": value}
                )
    return rows


def threshold_summary(
    parts: Mapping[str, Evaluation], min_cell_count: int
) -> list[dict[str, Any]]:
    """Return PatientLevelPrediction's threshold summary at the report's thresholds."""
    explorer = Explorer(parts)
    rows = []
    for (name, part), found in zip(parts.items(), explorer.found, strict=True):
        seen = part.observed
        share = seen.total_positives / (seen.total_positives + seen.total_negatives)
        for at in found:
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
            rates = {word: at[rate].value for word, rate in _RATES.items()}
            if _HIDDEN in cells:  # rates of hidden counts would tell them
                rates = dict.fromkeys(rates, math.nan)
            rows.append(
                {
                    "evaluation": name or "Test",
                    "predictionThreshold": at.threshold,
                    "preferenceThreshold": _preference(at.threshold, share),
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
    """Return PatientLevelPrediction's calibration summary, groups of equal width."""
    rows = []
    for name, part in parts.items():
        if not part.calibratable:
            continue
        seen, curve = part.observed, part.calibration
        total = seen.total_positives + seen.total_negatives
        for predicted, rate, share in zip(
            curve.predicted, curve.rate, curve.share, strict=True
        ):
            at_risk = share * total
            cells = hidden([rate * at_risk, (1 - rate) * at_risk], min_cell_count)
            shown = _HIDDEN not in cells
            rows.append(
                {
                    "evaluation": name or "Test",
                    "predictionThreshold": float(predicted),
                    "PersonCountAtRisk": round(at_risk) if shown else _HIDDEN,
                    "PersonCountWithOutcome": cells[0] if shown else _HIDDEN,
                    "averagePredictedProbability": float(predicted),
                    "StDevPredictedProbability": None,
                    "MinPredictedProbability": None,
                    "P25PredictedProbability": None,
                    "MedianPredictedProbability": None,
                    "P75PredictedProbability": None,
                    "MaxPredictedProbability": None,
                    "observedIncidence": float(rate) if shown else math.nan,
                }
            )
    return rows


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


def model_card(parts: Mapping[str, Evaluation]) -> dict[str, Any]:
    """Return the metric section of an applied model card, in plain values."""
    first = next(iter(parts.values()))
    useful = [
        {
            "metric": shown.title,
            "result": _written(shown.found),
            "interpretation": shown.sentence,
        }
        for shown in headlines(first)
    ]
    safe = []
    if first.calibratable:
        words = calibration_words(first)
        error = _written(first.recalibration().ece_before)
        safe = [
            {"metric": "calibration error", "result": error, "interpretation": words}
        ]
    fair = [
        {"metric": f"AUC, {name}", "result": _written(part.metrics["auc"])}
        for name, part in parts.items()
        if name and "auc" in part.metrics
    ]
    return {
        "name": first.plan.model.name if first.plan is not None else "",
        "key_metrics": {
            "usefulness_usability_efficacy": useful,
            "fairness_equity": fair,
            "safety_reliability": safe,
        },
        "validation": {
            "sites": first.expected,
            "claim": first.claim.to_dict(),
            "plan_digest": first.plan.digest().hex()
            if first.plan is not None
            else None,
        },
    }


def _written(found: Estimate) -> str:
    return str(found)

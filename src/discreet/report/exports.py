"""A result as tables that others read: CSV, OHDSI's PatientLevelPrediction, a model card.

- ``measures.csv``: every measure of every part as one tidy row.
- ``curves.csv``: ROC and PR points with their pointwise 95% limits.
- ``plp/``: the three tables of OHDSI's PatientLevelPrediction (evaluation statistics,
  threshold summary, calibration summary; :mod:`discreet.report.plp`).
- ``model-card.json``: the key metrics of the Coalition for Health AI's applied model
  card: goal, results, interpretation and test for usefulness, fairness and safety.
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
from discreet.metrics.table import METRICS
from discreet.report.plp import (
    calibration_summary,
    evaluation_statistics,
    threshold_summary,
)
from discreet.report.words import calibration_words, counted_words, headlines
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

"""A result of follow-up for other programs: plain values, rows, the page, tables.

:meth:`TimedExports.write` makes a folder of tables:

- ``measures.csv``: every measure of every part at every horizon as one tidy row, and
  ``summary.csv`` what is over all parts;
- ``survival.csv``: survival of risk groups at every cut with its limits, and the numbers at
  risk; ``calibration.csv`` and ``decision.csv``: the points of these curves;
- ``plp/``: the tables of OHDSI's PatientLevelPrediction for survival, by its own columns
  (``getEvaluationStatistics`` and ``getCalibrationSummary`` of the type ``survival``).

Where PatientLevelPrediction computes otherwise: ``E-statistic`` is of a spline of the
logit, weighed by the inverse probability of censoring, there of hazard regression; the
mean survival time is left out, because it was never released.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from discreet.errors import InputError
from discreet.estimate.estimate import Estimate
from discreet.metrics.errors import tidy
from discreet.metrics.timed_table import TIMED
from discreet.optional import load
from discreet.privacy.claim import Claim
from discreet.report.exports import MIN_CELL_COUNT, hidden, summary_rows, table
from discreet.report.record import Made, Receipt, Sign, marked, record_from
from discreet.report.text import JSON_VERSION, UNVERIFIABLE, exact_sums

if TYPE_CHECKING:
    from discreet.report.timed import TimedEvaluations
    from discreet.report.timed_evaluation import TimedEvaluation

ESTIMATOR: Final = "weighted classes at each horizon, smooth under noise"
_HIDDEN: Final = -1


@dataclass(frozen=True, eq=False)
class TimedExports:
    """A result of follow-up as its parts, for every form of it."""

    parts: Mapping[str, TimedEvaluation]
    claim: Claim
    whole: TimedEvaluations | None = None
    """All parts together, where there are several."""
    forest: ClassVar[None] = None
    """The page draws the groups; there is no picture of them."""

    @property
    def first(self) -> TimedEvaluation:
        """The part that stands for all where they agree."""
        return next(iter(self.parts.values()))

    def _release(
        self, made: Made, sign: Sign | None, receipts: Sequence[Receipt]
    ) -> dict[str, Any] | None:
        """Return the record with its marks; None where this is not all of a release."""
        first = self.first
        if (self.whole is None and first.source.part) or first.table.cause != 0:
            return None
        names: tuple[str, ...] = ()
        if self.whole is not None and self.whole.kind == "models":
            names = tuple(self.parts)
        record = record_from(
            first.plan,
            first.source,
            first.claim.setting,
            made,
            estimator=ESTIMATOR,
            releases=first.source.releases,
            names=names,
        )
        return record and marked(record, sign, receipts)

    def _curves(self, *, record: bool) -> bool:
        return record or not exact_sums(self.first.plan)

    def to_dict(
        self,
        made: Made | None = None,
        *,
        record: bool = True,
        sign: Sign | None = None,
        receipts: Sequence[Receipt] = (),
    ) -> dict[str, Any]:
        """Return everything as plain values.

        Without ``record`` what the sites revealed is left out; of exact sums also the
        curves and the numbers at risk, from which counts follow.
        """
        released = self._release(made or Made(), sign, receipts) if record else None
        values = {
            **self.values(curves=self._curves(record=record)),
            "release": released,
        }
        return values if released else {**values, "unverifiable": UNVERIFIABLE}

    def values(self, *, curves: bool = True) -> dict[str, Any]:
        """Return all but the record."""
        if self.whole is None:
            return document(self.first, curves=curves)
        values: dict[str, Any] = {
            "version": JSON_VERSION,
            "kind": f"time to event, {self.whole.kind}",
            "parts": {n: document(p, curves=curves) for n, p in self.parts.items()},
        }
        if self.whole.kind == "groups":
            values["pooled"] = document(self.whole.together(), curves=curves)
        return {
            **values,
            "summary": {n: e.to_dict() for n, e in self.whole.summary().items()},
            "claim": self.claim.to_dict(),
        }

    def html(
        self,
        made: Made | None = None,
        *,
        record: bool = True,
        sign: Sign | None = None,
        receipts: Sequence[Receipt] = (),
    ) -> str:
        """Return the report as one HTML file; arguments as for :meth:`to_dict`."""
        from discreet.report.timed_page import render  # noqa: PLC0415 - slow to import

        when = made or Made()
        kept = self._release(when, sign, receipts) if record else None
        return render(self, when, kept, receipts, curves=self._curves(record=record))

    def rows(self) -> list[dict[str, Any]]:
        """Return every measure at every horizon as one tidy row."""
        several = len(self.parts) > 1
        return [
            {**({"part": name} if several else {}), **row}
            for name, part in self.parts.items()
            for row in _measures(part)
        ]

    def to_frame(self) -> Any:
        """Return ``rows`` as a pandas ``DataFrame``."""
        return load("pandas", "frames").DataFrame(self.rows())

    def write(
        self, folder: str | Path, *, min_cell_count: int = MIN_CELL_COUNT
    ) -> list[Path]:
        """Write the measures, the curves and OHDSI's survival tables."""
        if min_cell_count < 0:
            raise InputError("the smallest cell count is 0 or more")
        where = Path(folder)
        (where / "plp").mkdir(parents=True, exist_ok=True)
        parts = [(n, p) for n, p in self.parts.items() if p.table.refusal is None]
        tables = {
            "measures.csv": [
                {"part": n, **row}
                for n, p in self.parts.items()
                for row in _measures(p)
            ],
            "summary.csv": [
                *summary_rows({} if self.whole is None else self.whole.summary())
            ],
            "survival.csv": [
                {"part": n, **row} for n, p in parts for row in _survival(p)
            ],
            "calibration.csv": [
                {"part": n, **row} for n, p in parts for row in _calibration(p)
            ],
            "decision.csv": [
                {"part": n, **row} for n, p in parts for row in _decision(p)
            ],
            "plp/evaluationStatistics.csv": [
                row for n, p in parts for row in _statistics(n, p, min_cell_count)
            ],
            "plp/calibrationSummary.csv": [
                row for n, p in parts for row in _summary(n, p, min_cell_count)
            ],
        }
        kept = {name: rows for name, rows in tables.items() if rows}
        for name, rows in kept.items():
            (where / name).write_text(table(rows), encoding="utf-8")
        return [where / name for name in kept]


# -- plain values ------------------------------------------------------------------


def document(result: TimedEvaluation, *, curves: bool = True) -> dict[str, Any]:
    """Return everything as plain values; NaN and infinity become None."""
    source, follow_up = result.source, result.table
    values: dict[str, Any] = {
        "version": JSON_VERSION,
        "kind": "time to event",
        "sites": {"contributed": source.contributors, "expected": source.expected},
        "examples": {"total": follow_up.total, "noisy": not follow_up.exact},
        "horizons": [
            {
                "horizon": time,
                "measures": {n: _plain(e) for n, e in result.at(time).items()},
                **_causes(result, time),
            }
            for time in result.horizons
        ],
        "concordance": _plain(result.concordance),
        "uno": _plain(result.uno),
        "median_follow_up": _plain(result.median_follow_up),
        "predicts": result.predicts,
        "refusal": follow_up.refusal,
        "notes": list(result.notes),
        "claim": result.claim.to_dict(),
    }
    if len(result.causes) > 1:
        values["cause"] = follow_up.cause + 1
    if result.plan is not None:
        values["plan_digest"] = result.plan.digest().hex()
    if not curves or follow_up.refusal is not None:
        return values
    return values | {
        "at_risk": [{"time": t, "examples": n} for t, n in result.at_risk.items()],
        "auc_over_time": [
            {"time": t, **_point(e)} for t, e in result.auc_over_time.items()
        ],
        "survival": list(_survival(result)),
        "calibration": list(_calibration(result)),
        "decision": list(_decision(result)),
    }


def _causes(result: TimedEvaluation, time: float) -> dict[str, Any]:
    """Return what is known of every cause at a horizon, where there are several."""
    if len(result.causes) == 1:
        return {}
    return {
        "causes": [
            {"cause": cause, "measures": {n: _plain(e) for n, e in measures.items()}}
            for cause, measures in result.by_cause(time).items()
        ]
    }


def _plain(estimate: Estimate) -> dict[str, Any]:
    """Return an estimate's values; infinite limits are None too."""

    def finite(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: finite(v) for k, v in value.items()}
        if isinstance(value, list):
            return [finite(v) for v in value]
        whole = not isinstance(value, float) or math.isfinite(value)
        return value if whole else None

    plain: dict[str, Any] = finite(estimate.to_dict())
    return plain


def _point(estimate: Estimate) -> dict[str, float | None]:
    ends = (estimate.value, *estimate.interval())
    kept = (None if not math.isfinite(v) else float(v) for v in ends)
    return dict(zip(("value", "low", "high"), kept, strict=True))


def _measures(part: TimedEvaluation) -> Iterator[dict[str, Any]]:
    for time in part.horizons:
        measures = part.at(time)
        for name in measures:
            row = tidy(name, TIMED[name].title, measures[name])
            row.pop("threshold")
            yield {"horizon": time, **row}
    for name, last in (
        ("concordance", float(part.table.cuts[-1])),
        ("uno", max(part.horizons)),
    ):
        row = tidy(name, TIMED[name].title, part.measure(name, last))
        row.pop("threshold")
        yield {"horizon": last, **row}


def _survival(part: TimedEvaluation) -> Iterator[dict[str, Any]]:
    for curve in (*part.kaplan_meier(1), *part.kaplan_meier()):
        columns = (curve.times, curve.survival, curve.low, curve.high, curve.at_risk)
        for row in zip(*(c.tolist() for c in columns), strict=True):
            names = ("time", "survival", "low", "high", "at_risk")
            yield {"group": curve.name, **dict(zip(names, row, strict=True))}


def _calibration(part: TimedEvaluation) -> Iterator[dict[str, Any]]:
    if (time := part.risk_horizon) is None:
        return
    curve = part.calibration(time)
    low, high = curve.band
    columns = (curve.predicted, curve.risk, low, high, curve.examples)
    for row in zip(*(c.tolist() for c in columns), strict=True):
        names = ("predicted", "observed", "low", "high", "examples")
        yield {"horizon": time, **dict(zip(names, row, strict=True))}


def _decision(part: TimedEvaluation) -> Iterator[dict[str, Any]]:
    if (time := part.risk_horizon) is None:
        return
    curve = part.net_benefit(time)
    for threshold, model, everybody in zip(
        curve.thresholds.tolist(), curve.model, curve.everybody, strict=True
    ):
        point = _point(model)
        yield {
            "horizon": time,
            "threshold": threshold,
            "net_benefit": point["value"],
            "low": point["low"],
            "high": point["high"],
            "treat_all": _point(everybody)["value"],
        }


# -- OHDSI's PatientLevelPrediction --------------------------------------------------


def _statistics(
    name: str, part: TimedEvaluation, least: int
) -> Iterator[dict[str, Any]]:
    """Return the survival statistics of one part by their names."""
    margins = part.table.margins()
    events = float(margins.events[:, part.table.cause].sum())
    outcome, others = hidden([events, part.table.total - events], least)
    told = _HIDDEN not in (outcome, others)
    for time in part.horizons:
        low, high = part.concordance.interval()
        values = {
            "populationSize": outcome + others if told else _HIDDEN,
            "outcomeCount": outcome,
            "Survival": part.observed_risk(time).value,
            "C-statistic": part.concordance.value,
            "C-statistic lower 95% CI": low,
            "C-statistic upper 95% CI": high,
            "E-statistic": part.measure("ici", time).value,
            "E-statistic 90%": part.measure("e90", time).value,
        }
        for metric, value in values.items():
            yield {
                "evaluation": name or "Test",
                "timepoint": time,
                "metric": metric,
                "value": value,
            }


def _summary(name: str, part: TimedEvaluation, least: int) -> Iterator[dict[str, Any]]:
    """Return the calibration summary for survival: groups of about equal size."""
    for row in _calibration(part):
        (size,) = hidden([row["examples"]], least)
        told = size != _HIDDEN
        yield {
            "evaluation": name or "Test",
            "predictionThreshold": row["predicted"],
            "averagePredictedProbability": row["predicted"],
            "observedIncidence": row["observed"] if told else np.nan,
            "observedIncidenceLB": row["low"] if told else np.nan,
            "observedIncidenceUB": row["high"] if told else np.nan,
            "PersonCountAtRisk": size,
        }

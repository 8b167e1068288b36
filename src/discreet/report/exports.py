"""A result for other programs: plain values, rows, the page, and tables that others read.

:meth:`Exports.write` makes a folder of tables:

- ``measures.csv``: every measure of every part as one tidy row.
- ``summary.csv``: of several parts, their areas, averages or what is pooled, and
  differences.
- ``forest.csv``: of sites or groups, each one's AUC, the pooled one, and a new site's.
- ``curves.csv``: ROC and PR points with their pointwise 95% limits.
- ``model-card.json``: the key metrics of the Coalition for Health AI's applied model
  card: goal, results, interpretation and test for usefulness, fairness and safety.
- ``plp/``: the tables of OHDSI's PatientLevelPrediction, by its own columns and metrics'
  names (``getEvaluationStatistics``, ``getThresholdSummary``, ``getCalibrationSummary``
  for binary outcomes), so that what reads its results reads these.

Where PatientLevelPrediction computes otherwise:

- ``Eavg``, ``ici``, ``E90`` and ``Emax`` are of a spline of the logit, there of loess.
- ``calibrationSummary`` has ten groups of about equal size, cut inside bins by even
  cells; columns that need single examples (spread and quantiles of the predictions
  inside a group) are empty: they were never released.
- the Hosmer-Lemeshow line's intercept and gradient are left out.

In ``plp/`` counts below ``min_cell_count`` but above 0 are written as -1, and so are
those that would give one away by subtraction.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from discreet.errors import InputError
from discreet.estimate.estimate import Estimate
from discreet.estimate.fit import Fit
from discreet.metrics.calibration import Groups
from discreet.metrics.curve_points import BandKind
from discreet.metrics.errors import tidy
from discreet.metrics.table import METRICS, RATES
from discreet.metrics.thresholds import AtThreshold, probability_of
from discreet.optional import load
from discreet.privacy.claim import Claim
from discreet.report.explorer import COUNTS, Explorer
from discreet.report.page import render
from discreet.report.record import Made, Receipt, Sign, marked, record_of
from discreet.report.text import (
    UNVERIFIABLE,
    calibration_words,
    counted_words,
    exact_sums,
    headlines,
    of_clients,
)
from discreet.report.views import calibratable, counted, prevalence_of
from discreet.statistic import Grouped

if TYPE_CHECKING:
    from discreet.report.evaluation import Evaluation
    from discreet.report.fairness import Fairness
    from discreet.report.forest import Forest

MIN_CELL_COUNT: Final = 5


@dataclass(frozen=True, eq=False)
class Exports:
    """A result as its parts and what stands beside them, for every form of it."""

    parts: Mapping[str, Evaluation]
    claim: Claim
    values: Callable[..., dict[str, Any]]
    """Everything but the record as plain values; ``curves=False`` leaves curves out."""
    summary: Callable[[], Mapping[str, Estimate]] = dict
    """A table over all parts: averages, differences."""
    verdict: Callable[[], str] = str
    """What the parts allow to say, then, on further lines, what that assumes."""
    models: tuple[str, ...] = ()
    """The names of two models, where the parts are these."""
    gap: Callable[[str, float], Estimate] | None = None
    """How far the parts lie apart in a measure at a threshold: the largest gap of groups,
    the first model less the second, over all groups. None where parts share examples in unknown ways."""
    fairness: Callable[[float], Fairness] | None = None
    """All gaps between groups at a threshold, where the parts are groups."""
    pooled: Evaluation | None = None
    """All examples together, where the parts are groups or sites."""
    forest: Callable[..., Forest] | None = None
    """One metric of every part beside the pooled one, where they are groups or sites."""
    named: tuple[str, ...] = ()
    """The names of two models, where the parts are these over all groups, then in each."""
    differences: Callable[[float | None], Mapping[str, Estimate]] | None = None
    """The first model less the second in every metric, or in every rate at a threshold."""
    whole: bool = True
    """Whether this is all of a release, so that it has a record."""

    @property
    def first(self) -> Evaluation:
        """The part that stands for all where they agree."""
        return next(iter(self.parts.values()))

    @property
    def disjoint(self) -> bool:
        """Whether the parts are groups: each example is in one of them."""
        plan = self.first.plan
        return plan is not None and isinstance(plan.statistic, Grouped)

    @property
    def overlapping(self) -> bool:
        """Whether the parts are classes or labels, each over the same examples."""
        several = len(self.parts) > 1 and not self.disjoint
        return several and not (self.models or self.named)

    @property
    def drawn(self) -> dict[str, Evaluation]:
        """The parts that have curves."""
        return {
            name: part
            for name, part in self.parts.items()
            if isinstance(part.fit, Fit) and part.fit.refusal is None
        }

    def _release(
        self, made: Made, sign: Sign | None, receipts: Sequence[Receipt]
    ) -> dict[str, Any] | None:
        """Return the record with its marks; None where this is not all of a release."""
        record = (
            record_of(self.first, made, self.models or self.named)
            if self.whole
            else None
        )
        return record and marked(record, sign, receipts)

    def to_dict(
        self,
        made: Made | None = None,
        *,
        record: bool = True,
        sign: Sign | None = None,
        receipts: Sequence[Receipt] = (),
    ) -> dict[str, Any]:
        """Return everything as plain values.

        Without ``record`` what the sites revealed is left out, and nobody can verify
        the rest; of exact sums the curves are left out too, which tell every count.
        ``sign`` is the coordinator's key, ``receipts`` are the sites'.
        """
        when = made or Made()
        released = self._release(when, sign, receipts) if record else None
        values = {**self.values(curves=self._curves(record)), "release": released}
        return values if released else {**values, "unverifiable": UNVERIFIABLE}

    def html(
        self,
        made: Made | None = None,
        *,
        record: bool = True,
        sign: Sign | None = None,
        receipts: Sequence[Receipt] = (),
    ) -> str:
        """Return the report as one HTML file; arguments as for :meth:`to_dict`."""
        when = made or Made()
        kept = self._release(when, sign, receipts) if record else None
        return render(self, when, kept, receipts, curves=self._curves(record))

    def _curves(self, record: bool) -> bool:
        return record or not exact_sums(self.first.plan)

    def rows(self) -> list[dict[str, Any]]:
        """Return every measure as one tidy row: over all thresholds, then at the plan's.

        Measures that the scores do not define stand there too, with the reason. Rows of
        several parts begin with the part's name.
        """
        if len(self.parts) == 1 and self.pooled is None:
            return _measures(self.first)
        return self._rows_by_part()

    def _rows_by_part(self) -> list[dict[str, Any]]:
        rows = [*self.parts.items()]
        if self.pooled is not None:
            rows.append((self.pooled.source.part, self.pooled))
        return [{"part": name, **row} for name, part in rows for row in _measures(part)]

    def to_frame(self) -> Any:
        """Return ``rows`` as a pandas ``DataFrame``."""
        return load("pandas", "frames").DataFrame(self.rows())

    def write(
        self, folder: str | Path, *, min_cell_count: int = MIN_CELL_COUNT
    ) -> list[Path]:
        """Write the measures, curves, OHDSI's tables and a model card's metrics."""
        if min_cell_count < 0:
            raise InputError("the smallest cell count is 0 or more")
        where = Path(folder)
        (where / "plp").mkdir(parents=True, exist_ok=True)
        drawn = self.drawn
        card = model_card(self.parts, grouped=self.disjoint)
        statistics = (
            {"evaluation": name or "Test", "metric": metric, "value": value}
            for name, part in self.parts.items()
            for metric, value in _statistics(part, min_cell_count).items()
        )
        tables = {
            "measures.csv": table(self._rows_by_part()),
            "model-card.json": json.dumps(card, indent=1, allow_nan=False),
            "plp/evaluationStatistics.csv": table(statistics),
        }
        if over_all := self.summary():
            tables["summary.csv"] = table(summary_rows(over_all))
        if self.forest is not None and "auc" in self.first.metrics:
            tables["forest.csv"] = table(self.forest("auc").to_rows())
        if drawn:
            tables["curves.csv"] = table(_curve_rows(drawn))
            summary = _threshold_summary(drawn, min_cell_count)
            tables["plp/thresholdSummary.csv"] = table(summary)
        if any(calibratable(part.fit) for part in drawn.values()):
            summary = _calibration_summary(drawn, min_cell_count)
            tables["plp/calibrationSummary.csv"] = table(summary)
        for name, content in tables.items():
            (where / name).write_text(content, encoding="utf-8")
        return [where / name for name in tables]


# -- tables ----------------------------------------------------------------------


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


def summary_rows(summary: Mapping[str, Estimate]) -> Iterator[dict[str, Any]]:
    """Yield what stands above all parts, such as averages, as tidy rows."""
    for name, estimate in summary.items():
        row = tidy(name, "", estimate)
        del row["title"], row["threshold"]
        yield row


def _measures(part: Evaluation) -> list[dict[str, Any]]:
    names = METRICS if isinstance(part.fit, Fit) else part.metrics
    rows = [tidy(n, METRICS[n].title, part.metrics[n]) for n in names]
    for at in part.thresholds.planned():
        for n in at.estimates:
            title = RATES[n].title if n in RATES else n
            rows.append(tidy(n, title, at[n], at.threshold))
    return rows


def _curve_rows(parts: Mapping[str, Evaluation]) -> list[dict[str, Any]]:
    """Return the points of the ROC and PR curves with their limits."""
    kinds: tuple[BandKind, ...] = ("roc", "pr")
    rows: list[dict[str, Any]] = []
    for name, part in parts.items():
        for kind in kinds:
            band = part.curves.band(kind)
            columns = (band.thresholds, band.x, band.value, band.low, band.high)
            for t, x, y, low, high in zip(*(c.tolist() for c in columns), strict=True):
                point = {"threshold": t, "x": x, "y": y, "low": low, "high": high}
                rows.append({"part": name, "curve": kind, **point})
    return rows


# -- the model card ----------------------------------------------------------------

_NO_VALUE: Final = '{"kind": "single", "value": null}'


def model_card(parts: Mapping[str, Evaluation], *, grouped: bool) -> dict[str, Any]:
    """Return the key metrics of an applied model card, by its schema's element names.

    Schema 0.2 of the Coalition for Health AI: each of three sections has a goal, one or
    more results (a label, and a value as JSON text), an interpretation, and how it was
    tested. What only the model's developer can say is left to them.
    """
    first = next(iter(parts.values()))
    shown = headlines(first)
    safe: list[tuple[str, Estimate]] = []
    reliable = "calibration was not measured: the scores are no probabilities"
    if calibratable(first.fit):
        reliable = calibration_words(first)
        safe = [("Calibration error (ECE)", first.recalibration.effect.ece_before)]
        for name in ("observed_expected", "calibration_slope"):
            safe.append((METRICS[name].title, first.metrics[name]))
    fair = [
        (f"AUC, {name or 'everybody'}", part.metrics["auc"])
        for name, part in parts.items()
        if "auc" in part.metrics
    ]
    plan = first.plan
    words = (
        "Ranking in each declared group; gaps with intervals that hold for all pairs of "
        "groups are in the report."
        if grouped
        else "No groups were declared, so nothing is known of differences between them."
    )
    sections = {
        "UsefulnessUsabilityEfficacy": (
            "Tell positives from negatives",
            [(each.title, each.estimate) for each in shown],
            " ".join(each.sentence for each in shown),
        ),
        "FairnessEquity": ("Do so alike in every group", fair, words),
        "SafetyReliability": ("Predict probabilities that occur", safe, reliable),
    }
    counts = "; ".join(f"{k}: {v}" for k, v in counted_words(first, ()).items())
    digest = "" if plan is None else f" Plan sha256:{plan.digest().hex()}."
    noun = "reports" if of_clients(plan) else "sites"
    tested = {
        "TestType": f"External validation over {first.source.expected} {noun} without "
        "pooling data",
        "TestingDataDescription": counts,
        "ValidationProcessAndJustification": f"{str(first.claim).splitlines()[0]}{digest}"
        " 95% intervals hold sampling, binning and noise.",
    }
    missing = {"Label": "not measured", "ValueJson": _NO_VALUE}
    return {
        "schema": "https://mc.chai.org/v0.2/schema.xsd",
        "BasicInfo": {"ModelName": plan.model.name if plan is not None else ""},
        "KeyMetrics": {
            name: {
                "MetricGoal": goal,
                "Results": {"MetricResult": [_metric(*r) for r in rows] or [missing]},
                "Interpretation": interpretation,
                **tested,
            }
            for name, (goal, rows, interpretation) in sections.items()
        },
    }


def _metric(label: str, estimate: Estimate) -> dict[str, str]:
    """Return a result as the schema's examples write one: a value and its interval."""
    low, high = estimate.interval()
    if not all(math.isfinite(v) for v in (estimate.value, low, high)):
        return {"Label": label, "ValueJson": _NO_VALUE}
    numbers = {"estimate": estimate.value, "lower": low, "upper": high}
    value = {"kind": "estimate_ci", **numbers, "level": 95}
    return {"Label": label, "ValueJson": json.dumps(value)}


# -- OHDSI's PatientLevelPrediction --------------------------------------------------

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
_COMPLEMENTS: Final = {
    "positivePredictiveValue": "falseDiscoveryRate",
    "negativePredictiveValue": "falseOmissionRate",
}
_NOT_RELEASED: Final = tuple(
    f"{word}PredictedProbability"
    for word in ("StDev", "Min", "P25", "Median", "P75", "Max")
)


def hidden(counts: Iterable[float], least: int) -> list[int]:
    """Return whole counts, with -1 for all of them where one is above 0 and too small.

    >>> hidden([0.0, 7.2, 5.0], 5), hidden([0.0, 3.2, 5.0], 5)
    ([0, 7, 5], [-1, -1, -1])
    """
    whole = [max(round(count), 0) for count in counts]
    small = any(0 < count < least for count in whole)
    return [_HIDDEN] * len(whole) if small else whole


def _statistics(part: Evaluation, least: int) -> dict[str, float]:
    """Return the evaluation statistics of one part by their names."""
    values: dict[str, float] = {}
    defined = calibratable(part.fit)
    share = mean = math.nan
    if isinstance(part.fit, Fit):
        seen = part.fit.observed
        share = prevalence_of(seen)
        positives, negatives = hidden(
            [seen.total_positives, seen.total_negatives], least
        )
        told = positives != _HIDDEN
        values["populationSize"] = positives + negatives if told else _HIDDEN
        values["outcomeCount"] = positives
    if defined:
        mean = share / part.metrics["observed_expected"].value
    if "auc" in part.metrics:
        low, high = part.auc.interval()
        values["AUROC"] = part.auc.value
        values |= {"95% lower AUROC": low, "95% upper AUROC": high}
    for title, metric in _STATISTICS.items():
        if metric not in part.metrics and not defined:
            continue
        values[title] = part.metrics[metric].value
        if title == "brier score" and defined:
            values["brier score scaled"] = 1 - values[title] / (mean * (1 - mean))
        if title == "ici":
            values["calibrationInLarge mean prediction"] = mean
            values["calibrationInLarge observed risk"] = share
    return values


def _threshold_summary(
    parts: Mapping[str, Evaluation], least: int
) -> list[dict[str, Any]]:
    """Return the threshold summary at the report's thresholds, the highest first."""
    return [
        _threshold_row(name or "Test", at, prevalence_of(part.observed), least)
        for (name, part), measured in zip(
            parts.items(), Explorer(parts).measured, strict=True
        )
        for at in reversed(measured)
    ]


def _threshold_row(
    name: str, at: AtThreshold, share: float, least: int
) -> dict[str, Any]:
    tp, fn, fp, tn = hidden([at[count].value for count in COUNTS], least)
    told = tp != _HIDDEN
    rates: dict[str, float] = {}
    for word, rate in _RATES.items():
        # Rates of hidden counts would tell them.
        rates[word] = at[rate].value if told else math.nan
        if word in _COMPLEMENTS:
            rates[_COMPLEMENTS[word]] = 1 - rates[word]
    return {
        "evaluation": name,
        "predictionThreshold": at.threshold,
        "preferenceThreshold": _preference(at.threshold, share),
        "positiveCount": tp + fp if told else _HIDDEN,
        "negativeCount": fn + tn if told else _HIDDEN,
        "trueCount": tp + fn if told else _HIDDEN,
        "falseCount": fp + tn if told else _HIDDEN,
        "truePositiveCount": tp,
        "trueNegativeCount": tn,
        "falsePositiveCount": fp,
        "falseNegativeCount": fn,
        **rates,
    }


def _preference(threshold: float, share: float) -> float:
    """Return the preference score: the odds of the threshold over those of all."""
    if not 0 < threshold < 1 or not 0 < share < 1:
        return math.nan
    odds = threshold / (1 - threshold) * (1 - share) / share
    return odds / (1 + odds)


def _calibration_summary(
    parts: Mapping[str, Evaluation], least: int
) -> list[dict[str, Any]]:
    """Return the calibration summary: ten groups of about equal size."""
    rows = []
    for name, part in parts.items():
        if not calibratable(part.fit):
            continue
        groups = Groups.of(counted(part.fit).counts, _STRATA, "mass")
        for place, k in enumerate(np.flatnonzero(groups.filled).tolist()):
            total, positives = float(groups.totals[k]), float(groups.positives[k])
            cells = hidden([positives, total - positives], least)
            told = _HIDDEN not in cells
            rows.append(
                {
                    "predictionThreshold": _lower_end(groups, k) if place else 0.0,
                    "PersonCountAtRisk": sum(cells) if told else _HIDDEN,
                    "PersonCountWithOutcome": cells[0],
                    "averagePredictedProbability": float(groups.predicted[k] / total),
                    **dict.fromkeys(_NOT_RELEASED),
                    "observedIncidence": positives / total if told else math.nan,
                    "evaluation": name or "Test",
                }
            )
    return rows


def _lower_end(groups: Groups, k: int) -> float:
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

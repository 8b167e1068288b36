"""Several evaluations from one release: classes, pairs of classes, or groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from discreet.errors import NotReleasedError
from discreet.estimate.estimate import Binning, Estimate
from discreet.estimate.fit import Fit
from discreet.metrics.table import METRICS
from discreet.privacy.claim import Claim
from discreet.recalibrate.several_classes import (
    ClassMap,
    SeveralClassesMap,
    fit_classes,
    top_label_error,
)
from discreet.report.conformal import ConformalThresholds, Given
from discreet.report.drift import WATCHED, Drift
from discreet.report.evaluation import Evaluation
from discreet.report.fairness import Fairness
from discreet.report.page import Page
from discreet.report.record import Made, record_of
from discreet.report.shown import Parts
from discreet.report.text import document, extra_pictures, metric_table, note_lines
from discreet.statistic import Grouped
from discreet.statistic.observed import NoisyHistogram

Average: TypeAlias = Literal["macro", "weighted"]
Pair: TypeAlias = tuple[str, str]
_SEVERAL_CLASSES: Final = ("one-vs-rest", "one-vs-one")


class PairArea(NamedTuple):
    """The AUC of one class against another, and how many examples it is of."""

    auc: Estimate
    examples: float


@dataclass(frozen=True, eq=False, repr=False)
class MultiEvaluation(Parts):
    """An evaluation a class (against the rest) or a group, and their averages."""

    parts: Mapping[str, Evaluation]
    claim: Claim
    pairs: Mapping[Pair, PairArea] = field(default_factory=dict)
    """AUC of each pair of classes, the mean over the two score columns."""

    def __getitem__(self, name: str) -> Evaluation:
        return self.parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def average(self, metric: str = "auc", how: Average = "macro") -> Estimate:
        """Average one-vs-rest metrics: equal weights, or by each class's positives."""
        estimates = [part.metric(metric) for part in self.values()]
        weights = [
            1.0 if how == "macro" else max(part.observed.total_positives, 0.0)
            for part in self.values()
        ]
        return weighted_mean(estimates, weights)

    def average_pairs(self, how: Average = "macro") -> Estimate:
        """Average the one-vs-one AUC over pairs: equally, or by their examples."""
        if not self.pairs:
            raise NotReleasedError(
                "one-vs-one needs a plan with multiclass='ovo'; this one released "
                "each class against the rest"
            )
        found = self.pairs.values()
        weights = [1.0 if how == "macro" else pair.examples for pair in found]
        return weighted_mean([pair.auc for pair in found], weights)

    def fairness(self, threshold: float, level: float = 0.95) -> Fairness:
        """Return groups side by side at a threshold, gaps that hold all at once."""
        return Fairness(self.parts, threshold, level)

    def conformal(
        self, alpha: float, given: Given = "marginal"
    ) -> dict[str, ConformalThresholds]:
        """Return every group's own conformal thresholds."""
        return {name: part.conformal(alpha, given) for name, part in self.items()}

    def drift(
        self,
        measures: Sequence[str] = WATCHED,
        *,
        threshold: float | None = None,
        false_alarm: float = 0.05,
    ) -> Drift:
        """Return the parts as periods in their order, with alarms at a stated rate."""
        return Drift(self.parts, tuple(measures), threshold, false_alarm)

    def class_map(self, name: ClassMap = "temperature") -> SeveralClassesMap:
        """Return a map of all classes' scores to probabilities, from this release."""
        return fit_classes(self._counts(), name)

    @property
    def top_label_ece(self) -> Estimate:
        """The top label's calibration error, as far as each class against the rest tells.

        Its limits say how much the examples whose top score is below a half may add.
        """
        return top_label_error(self._counts())

    def _counts(self) -> dict[str, NoisyHistogram]:
        """Return every class's counts against the rest."""
        if self._statistic not in _SEVERAL_CLASSES:
            raise NotReleasedError(
                "maps of several classes need a plan that names classes; this result "
                "has groups"
            )
        return {
            name: part.fit.counts
            for name, part in self.items()
            if isinstance(part.fit, Fit)
        }

    @property
    def _statistic(self) -> str:
        plan = next(iter(self.values())).plan
        return "" if plan is None else plan.statistic.name

    def to_text(self, *, wide: bool = False) -> str:
        """Return the table and the claim; wide: every part's own table too."""
        parts = [f"{name}\n{part.to_text(wide=True)}\n" for name, part in self.items()]
        summary = f"{metric_table(self.summary())}\n{self.claim}"
        return "\n".join([*parts, summary] if wide else [summary])

    def _asked(self) -> tuple[str, ...]:
        """The metrics that every part has."""
        return tuple(n for n in METRICS if all(n in p.metrics for p in self.values()))

    def summary(self) -> dict[str, Estimate]:
        """Return each part's first metric, then the averages of all of them."""
        asked = self._asked()
        rows = {
            f"{METRICS[metric].title} {name}": part.metric(metric)
            for metric in asked[:1]
            for name, part in self.items()
        }
        for metric in asked:
            rows[f"{METRICS[metric].title} macro"] = self.average(metric)
        for metric in asked[:1]:
            weighted = self.average(metric, "weighted")
            rows[f"{METRICS[metric].title} weighted"] = weighted
        if self.pairs:
            rows["AUC pairs, macro"] = self.average_pairs()
        return rows

    def _values(self, *, curves: bool) -> dict[str, Any]:
        found: dict[str, Any] = {
            "parts": {
                name: document(part, curves=curves) for name, part in self.items()
            },
            "macro": {n: self.average(n).to_dict() for n in self._asked()},
            "weighted": {
                n: self.average(n, "weighted").to_dict() for n in self._asked()
            },
        }
        if self.pairs:
            found["pairs"] = {
                f"{a} vs {b}": p.auc.to_dict() for (a, b), p in self.pairs.items()
            }
        return found

    def _record(self, made: Made) -> dict[str, Any] | None:
        return record_of(next(iter(self.values())), made)

    def _page(self) -> Page:
        """Return the averages, then every part; groups with their gaps."""
        told = {k: v for k, v in self.items() if v.refusal is None}
        grouped = self._statistic == Grouped.name and len(told) > 1

        @cache
        def fairness(threshold: float) -> Fairness:
            return Fairness(told, threshold)

        return Page(
            self.parts,
            self.claim,
            summary=self.summary(),
            sentences=note_lines,
            pictures=extra_pictures,
            gap=(lambda name, t: fairness(t).largest(name)) if grouped else None,
            fairness=fairness if grouped else None,
        )


def weighted_mean(estimates: Sequence[Estimate], weights: Sequence[float]) -> Estimate:
    """Average estimates; errors are added as if they were fully correlated."""
    values = np.array([e.value for e in estimates])
    w = np.asarray(weights, dtype=np.float64)
    if np.isnan(values).any() or w.sum() <= 0:
        return Estimate.undefined("a class is undefined in the pooled data")
    w = w / w.sum()

    def mean(numbers: list[float]) -> float:
        return float(w @ np.asarray(numbers))

    unknown = any(e.sampling is None for e in estimates)
    return Estimate(
        float(w @ values),
        None if unknown else mean([e.sampling or 0.0 for e in estimates]),
        mean([e.noise for e in estimates]),
        Binning(
            mean([e.binning.low for e in estimates]),
            mean([e.binning.high for e in estimates]),
            mean([e.binning.typical for e in estimates]),
            mean([e.binning.below for e in estimates]),
            mean([e.binning.above for e in estimates]),
        ),
    )

"""Several evaluations from one release: classes, pairs of classes, or groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from discreet.errors import NotReleasedError
from discreet.estimate.estimate import Estimate
from discreet.metrics.table import METRICS
from discreet.metrics.thresholds import at_threshold
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
from discreet.report.exports import Exports
from discreet.report.fairness import Fairness, weighted_mean
from discreet.report.forest import Forest, ForestRow
from discreet.report.shown import Parts
from discreet.report.text import document
from discreet.report.views import counted
from discreet.statistic import Grouped
from discreet.statistic.observed import NoisyHistogram, SummedNoise

Average: TypeAlias = Literal["macro", "weighted"]
Pair: TypeAlias = tuple[str, str]
_SEVERAL_CLASSES: Final = ("one-vs-rest", "one-vs-one")


class PairArea(NamedTuple):
    """The AUC of one class against another, and how many examples it is of."""

    auc: Estimate
    examples: float


@dataclass(frozen=True, eq=False, repr=False)
class MultiEvaluation(Parts):
    """One evaluation per class (against the rest) or per group, and their averages.

    Args:
        parts: the evaluations by name.
        claim: what was promised to whom.
        pairs: AUC of each pair of classes, the mean over the two score columns.
    """

    parts: Mapping[str, Evaluation]
    claim: Claim
    pairs: Mapping[Pair, PairArea] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Evaluation:
        return self.parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    @cached_property
    def pooled(self) -> Evaluation | None:
        """All groups together; None for classes, which share their examples."""
        first = next(iter(self.values()))
        plan = first.plan
        if plan is None or not isinstance(plan.statistic, Grouped):
            return None
        seen = [part.observed for part in self.values()]
        table = np.stack([[one.negatives, one.positives] for one in seen], axis=2)
        together = replace(
            seen[0],
            negatives=table[0].sum(axis=1),
            positives=table[1].sum(axis=1),
            noise=SummedNoise(seen[0].noise, table, 2),
            notes=(),
        )
        fit = (first.source.estimator or plan.privacy.estimator()).fit(together)
        source = replace(first.source, part="pooled")
        return Evaluation(fit, self.claim, source, plan, first.heterogeneity)

    def forest(self, metric: str = "auc", *, at: float | None = None) -> Forest:
        """Return a metric, or a rate at a threshold, of every part and of all together."""

        def row(name: str, part: Evaluation) -> ForestRow:
            if at is None:
                estimate = part.metrics[metric]
            else:
                estimate = at_threshold(counted(part.fit), at)[metric]
            return ForestRow(name, estimate.value, *estimate.interval())

        pooled = None if self.pooled is None else row("pooled", self.pooled)
        return Forest(metric, tuple(row(*each) for each in self.items()), pooled, at=at)

    def average(self, metric: str = "auc", how: Average = "macro") -> Estimate:
        """Average one-vs-rest metrics: equal weights, or by each class's positives."""
        estimates = [part.metrics[metric] for part in self.values()]
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
        pairs = self.pairs.values()
        weights = [1.0 if how == "macro" else pair.examples for pair in pairs]
        return weighted_mean([pair.auc for pair in pairs], weights)

    def fairness(self, threshold: float, level: float = 0.95) -> Fairness:
        """Return groups side by side at a threshold, gaps that hold all at once."""
        return Fairness(self.parts, threshold, level)

    def conformal(
        self, alpha: float, given: Given = "marginal"
    ) -> dict[str, ConformalThresholds]:
        """Return every group's own conformal thresholds."""
        parts = self.items()
        return {name: p.thresholds.conformal(alpha, given) for name, p in parts}

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
        plan = next(iter(self.values())).plan
        if plan is None or plan.statistic.name not in _SEVERAL_CLASSES:
            raise NotReleasedError(
                "maps of several classes need a plan that names classes; this result "
                "has groups"
            )
        return {name: counted(part.fit).counts for name, part in self.items()}

    def _shared_metrics(self) -> list[str]:
        """Return the metrics that every part has."""
        return [n for n in METRICS if all(n in p.metrics for p in self.values())]

    def _summary(self) -> dict[str, Estimate]:
        """Return each part's first metric, then the averages of all of them."""
        names = self._shared_metrics()
        rows = {
            f"{METRICS[metric].title} {name}": part.metrics[metric]
            for metric in names[:1]
            for name, part in self.items()
        }
        for metric in names:
            rows[f"{METRICS[metric].title} macro"] = self.average(metric)
        for metric in names[:1]:
            average = self.average(metric, "weighted")
            rows[f"{METRICS[metric].title} weighted"] = average
        if self.pairs:
            rows["AUC pairs, macro"] = self.average_pairs()
        return rows

    def _values(self, *, curves: bool) -> dict[str, Any]:
        names = self._shared_metrics()
        values: dict[str, Any] = {
            "parts": {name: document(p, curves=curves) for name, p in self.items()},
            "macro": {n: self.average(n).to_dict() for n in names},
            "weighted": {n: self.average(n, "weighted").to_dict() for n in names},
        }
        if self.pairs:
            values["pairs"] = {
                f"{a} vs {b}": p.auc.to_dict() for (a, b), p in self.pairs.items()
            }
        return values

    @property
    def exports(self) -> Exports:
        """The result for other programs; groups with their gaps."""
        exports = Exports(
            self.parts,
            self.claim,
            self._values,
            self._summary,
            pooled=self.pooled,
            forest=self.forest if self.pooled is not None else None,
        )
        groups = exports.drawn
        if not exports.disjoint or len(groups) < 2:
            return exports
        fairness = cache(partial(Fairness, groups))
        return replace(
            exports, gap=lambda name, t: fairness(t).largest(name), fairness=fairness
        )

"""Several evaluations from one release: classes, pairs of classes, or groups."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from discreet.errors import NotReleasedError, PlanError
from discreet.estimate.estimate import (
    Binning,
    Estimate,
    Normal,
    NotYet,
    ScalarLaw,
    Zero,
)
from discreet.estimate.estimator import Estimator
from discreet.estimate.on_tree import TreeMethod
from discreet.estimate.with_errors import metrics_with_errors
from discreet.metrics.names import Metric
from discreet.plan.plan import Plan
from discreet.plan.release import Release
from discreet.privacy.claim import Claim
from discreet.result.decode_release import open_release
from discreet.result.evaluation import Evaluation, evaluation, report_page
from discreet.result.page import Page, Section, save
from discreet.result.text import metric_table
from discreet.statistic.observed import NoisyHistogram

Average: TypeAlias = Literal["macro", "weighted"]


@dataclass(frozen=True, eq=False)
class MultiEvaluation(Mapping[str, Evaluation]):
    """An evaluation a class (against the rest) or a group, and their averages."""

    parts: Mapping[str, Evaluation]
    pairs: Mapping[tuple[str, str], Estimate]
    """AUC of each pair of classes, the mean over the two score columns."""
    pair_weights: Mapping[tuple[str, str], float]
    claim: Claim

    def __getitem__(self, name: str) -> Evaluation:
        return self.parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def average(self, metric: Metric = "auc", how: Average = "macro") -> Estimate:
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
        weights = [1.0 if how == "macro" else self.pair_weights[k] for k in self.pairs]
        return weighted_mean(list(self.pairs.values()), weights)

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, *, wide: bool = False) -> str:
        """Return the table and the claim; wide: every part's own table too."""
        parts = [f"{name}\n{part.to_text(wide=True)}\n" for name, part in self.items()]
        summary = f"{metric_table(self._summary())}\n{self.claim}"
        return "\n".join([*parts, summary] if wide else [summary])

    def _summary(self) -> dict[str, Estimate]:
        rows = {f"AUC {name}": part.auc for name, part in self.items()}
        rows["AUC macro"] = self.average("auc")
        rows["AUC weighted"] = self.average("auc", "weighted")
        if self.pairs:
            rows["AUC pairs, macro"] = self.average_pairs()
        rows["AP macro"] = self.average("average_precision")
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        found: dict[str, Any] = {
            "parts": {name: part.to_dict() for name, part in self.items()},
            "macro": {"auc": self.average().to_dict()},
            "weighted": {"auc": self.average(how="weighted").to_dict()},
        }
        if self.pairs:
            found["pairs"] = {
                f"{a} vs {b}": e.to_dict() for (a, b), e in self.pairs.items()
            }
        return found

    def to_json(self, *, indent: int | None = None) -> str:
        """Return everything as JSON."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def save(self, path: str | Path) -> None:
        """Save the result: .html (a report with pictures), .json or .txt."""
        save(
            path,
            html=self._page,
            json=lambda: self.to_json(indent=1),
            text=lambda: self.to_text(wide=True),
        )

    def _page(self) -> Page:
        averages = Section({"All parts": self._summary()}, "")
        sections = (averages, *(part.section() for part in self.values()))
        return report_page(sections, next(iter(self.values())).plan, self.claim)


def multi_evaluation(
    plan: Plan,
    releases: Sequence[Release],
    claim: Claim,
    *,
    estimator: Estimator | None = None,
) -> MultiEvaluation:
    """Build the evaluations of a multi-class or grouped plan from its releases."""
    chosen = estimator or plan.privacy.estimator()
    opened = open_release(plan, releases)
    parts, pairs = opened.parts(), opened.pairs()
    if set(parts) == {""} or opened.statistic.compares:
        raise PlanError("this plan has one evaluation; see evaluation")
    evaluations = {
        name: Evaluation(plan, claim, tuple(releases), observed, chosen, name)
        for name, observed in parts.items()
    }
    areas, weights = {}, {}
    names = list(parts)
    for i, a in enumerate(names if pairs else ()):
        for b in names[i + 1 :]:
            both = [_auc(pairs[key], chosen) for key in ((a, b), (b, a))]
            areas[a, b] = weighted_mean(both, [1.0, 1.0])
            counts = pairs[a, b]
            weights[a, b] = counts.total_negatives + counts.total_positives
    return MultiEvaluation(evaluations, areas, weights, claim)


def result_of(
    plan: Plan,
    releases: Sequence[Release],
    claim: Claim,
    *,
    estimator: Estimator | None = None,
    method: TreeMethod | None = None,
) -> Evaluation | MultiEvaluation:
    """Build what the plan's statistic has: one evaluation, or several."""
    if len(open_release(plan, releases).parts()) == 1:
        return evaluation(plan, releases, claim, estimator=estimator, method=method)
    return multi_evaluation(plan, releases, claim, estimator=estimator)


def _auc(observed: NoisyHistogram, estimator: Estimator) -> Estimate:
    return metrics_with_errors(estimator, observed, ["auc"])["auc"]


def weighted_mean(estimates: Sequence[Estimate], weights: Sequence[float]) -> Estimate:
    """Average estimates; errors are added as if they were fully correlated."""
    values = np.array([e.value for e in estimates])
    w = np.asarray(weights, dtype=np.float64)
    if np.isnan(values).any() or w.sum() <= 0:
        return Estimate.undefined("a class is undefined in the pooled data")
    w = w / w.sum()

    def mean(numbers: list[float]) -> float:
        return float(w @ np.asarray(numbers))

    def spread(laws: list[ScalarLaw | NotYet]) -> ScalarLaw:
        sd = mean([law.sd if isinstance(law, Normal) else 0.0 for law in laws])
        return Normal(sd) if sd else Zero()

    unknown = any(isinstance(e.sampling, NotYet) for e in estimates)
    return Estimate(
        float(w @ values),
        NotYet() if unknown else spread([e.sampling for e in estimates]),
        spread([e.noise for e in estimates]),
        Binning(
            mean([e.binning.low for e in estimates]),
            mean([e.binning.high for e in estimates]),
            mean([e.binning.typical for e in estimates]),
        ),
    )

"""Several evaluations from one release: classes, pairs of classes, or groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, get_args

from discreet.errors import InputError, NotReleasedError
from discreet.estimate.estimate import Estimate
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
from discreet.report.exports import Exports
from discreet.report.fairness import Fairness, weighted_mean
from discreet.report.forest import Forest, forest_of
from discreet.report.plot import AnyPlot, Display
from discreet.report.shown import Parts
from discreet.report.text import document
from discreet.report.views import counted, measured_at
from discreet.statistic.observed import NoisyHistogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Average: TypeAlias = Literal["macro", "weighted"]
Pair: TypeAlias = tuple[str, str]
_SEVERAL_CLASSES: Final = ("one-vs-rest", "one-vs-one")


class PairArea(NamedTuple):
    """The AUC of one class against another, and how many examples it is of."""

    auc: Estimate
    examples: float


@dataclass(frozen=True, eq=False, repr=False)
class MultiEvaluation(Parts):
    """One evaluation per class (against the rest), label, group or site.

    Args:
        parts: the evaluations by name.
        claim: what was promised to whom.
        pairs: AUC of each pair of classes, the mean over the two score columns.
        pooled: all examples together, where the parts are groups or sites: computed
            from the same release, whose noise adds up.
    """

    parts: Mapping[str, Evaluation]
    claim: Claim
    pairs: Mapping[Pair, PairArea] = field(default_factory=dict)
    pooled: Evaluation | None = None

    def __getitem__(self, name: str) -> Evaluation:
        return self.parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def by_site(self) -> bool:
        """Whether the parts are the sites themselves."""
        first = next(iter(self.values()))
        return self.pooled is not None and tuple(self.parts) == first.source.site_names

    def forest(
        self, metric: str = "auc", *, at: float | None = None, level: float = 0.95
    ) -> Forest:
        """Return one metric of every part beside the pooled one, to print or plot.

        A rate is taken ``at`` a threshold. Where the parts are sites, the table ends
        with the range in which a new site's own value is expected.
        """
        return forest_of(
            self.parts, self.pooled, metric, at=at, level=level, sites=self.by_site
        )

    def plot(
        self,
        kind: AnyPlot = "roc",
        path: str | Path | None = None,
        *,
        ax: Axes | None = None,
    ) -> Display:
        """Draw the parts into one picture; ``forest`` draws every part's first metric."""
        if kind == "forest":
            return self.forest(self._shared_metrics()[0]).plot(path, ax=ax)
        return super().plot(kind, path, ax=ax)

    def average(self, metric: str = "auc", how: Average = "macro") -> Estimate:
        """Average one-vs-rest metrics: equal weights, or by each class's positives."""
        _check_average(how)
        estimates = [part.metrics[metric] for part in self.values()]
        weights = [
            1.0 if how == "macro" else max(part.observed.total_positives, 0.0)
            for part in self.values()
        ]
        return weighted_mean(estimates, weights)

    def average_pairs(self, how: Average = "macro") -> Estimate:
        """Average the one-vs-one AUC over pairs: equally, or by their examples."""
        _check_average(how)
        if not self.pairs:
            raise NotReleasedError(
                "one-vs-one needs a plan with multiclass='ovo'; this one released "
                "each class against the rest"
            )
        pairs = self.pairs.values()
        weights = [1.0 if how == "macro" else pair.examples for pair in pairs]
        return weighted_mean([pair.auc for pair in pairs], weights)

    def fairness(self, threshold: float | None = None, level: float = 0.95) -> Fairness:
        """Return groups side by side, gaps that hold all at once.

        At a threshold, by default the plan's first one. Not of classes or labels, which
        share their examples: how their errors go together was not released.
        """
        self._check_disjoint("gaps are")
        if threshold is None:
            plan = next(iter(self.values())).plan
            if plan is None or not plan.thresholds:
                raise InputError("the plan has no threshold: give one, fairness(0.5)")
            threshold = plan.thresholds[0]
        for part in self.values():
            measured_at(part.fit, threshold)  # refuses one outside the scores' range
        return Fairness(self.parts, threshold, level)

    def _check_disjoint(self, what: str) -> None:
        """Refuse what takes the parts' errors as independent where they are not."""
        if not self.exports.disjoint:
            raise NotReleasedError(
                f"{what} between groups of different examples: classes and labels share "
                "theirs, in a way that no release tells; evaluate with group="
            )

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
        self._check_disjoint("drift is")
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
        """Return each part's first metric; then all, of pooled examples or averaged."""
        names = self._shared_metrics()
        rows = {
            f"{METRICS[metric].title} {name}": part.metrics[metric]
            for metric in names[:1]
            for name, part in self.items()
        }
        if self.pooled is not None:
            metrics = self.pooled.metrics
            return rows | {f"{METRICS[m].title} pooled": metrics[m] for m in metrics}
        for metric in names:
            rows[f"{METRICS[metric].title} macro"] = self.average(metric)
        for metric in names[:1]:
            average = self.average(metric, "weighted")
            rows[f"{METRICS[metric].title} weighted"] = average
        if self.pairs:
            rows["AUC pairs, macro"] = self.average_pairs()
        return rows

    def _lines(self) -> list[str]:
        names = self._shared_metrics()
        if not self.by_site or not names:
            return []
        return [line for line in (self.forest(names[0]).note,) if line]

    def _values(self, *, curves: bool) -> dict[str, Any]:
        names = self._shared_metrics()
        values: dict[str, Any] = {
            "parts": {name: document(p, curves=curves) for name, p in self.items()},
            "macro": {n: self.average(n).to_dict() for n in names},
            "weighted": {n: self.average(n, "weighted").to_dict() for n in names},
        }
        if self.pooled is not None:
            values["pooled"] = document(self.pooled, curves=curves)
            values["forest"] = self.forest(names[0]).to_dict() if names else None
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
            verdict=lambda: "\n".join(self._lines()),
            pooled=self.pooled,
            forest=self.forest if self.pooled is not None else None,
        )
        groups = exports.drawn
        if not exports.disjoint or self.by_site or len(groups) < 2:
            return exports
        fairness = cache(partial(Fairness, groups))
        return replace(
            exports, gap=lambda name, t: fairness(t).largest(name), fairness=fairness
        )


def _check_average(how: str) -> None:
    if how not in get_args(Average):
        raise InputError(f"an average is one of {', '.join(get_args(Average))}")

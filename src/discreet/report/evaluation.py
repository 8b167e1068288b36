"""The evaluation: every metric, curve and table that a fit gives.

A fit of a histogram has everything. A fit of revealed numbers (rank sums, exact areas, a
curator's values) has these alone; anything else is an error that names the way to get it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

from discreet.arrays import FloatVector
from discreet.errors import InputError, UndefinedMetricWarning
from discreet.estimate.estimate import Estimate
from discreet.estimate.fit import AnyFit, Estimator, Fit, ScalarFit
from discreet.metrics.calibration import ReliabilityCurve
from discreet.metrics.curve_points import Points, pr_points, roc_points
from discreet.metrics.errors import Measured, measures, metric_influences
from discreet.metrics.table import DEFAULT_METRICS, METRICS, RATES
from discreet.metrics.thresholds import AtThreshold, rate_influences
from discreet.plan.plan import Plan
from discreet.plan.rounds import Release
from discreet.privacy.claim import Claim
from discreet.report.exports import Exports
from discreet.report.heterogeneity import Heterogeneity
from discreet.report.poisoning import poisoned
from discreet.report.shown import Shown, evaluation_html
from discreet.report.text import (
    count_words,
    document,
    evaluation_text,
    of_clients,
    titled,
    weighted,
)
from discreet.report.views import (
    Recalibration,
    ResultCurves,
    Thresholds,
    counted,
    measured_at,
)
from discreet.statistic.observed import NoisyHistogram
from discreet.vocabulary import metric_name

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True, eq=False)
class Source:
    """The sites and releases that an evaluation was made from."""

    contributors: int
    expected: int
    """How many sites were invited."""
    releases: tuple[Release, ...] = ()
    part: str = ""
    """The class or the group, where there are several."""
    site_names: tuple[str, ...] = ()
    estimator: Estimator | None = None
    """The caller's; None for the plan's own."""


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Shown):
    """Every metric of the pooled data, with its error sources and its claim.

    Args:
        fit: the fitted histogram, or the numbers that were revealed.
        claim: what was promised to whom.
        source: what it was made from: sites and releases.
        plan: the plan that was carried out, where there is one.
        heterogeneity: how sites differ, as far as the plan asked for it.
    """

    fit: AnyFit
    claim: Claim
    source: Source
    plan: Plan | None = None
    heterogeneity: Heterogeneity = field(default_factory=Heterogeneity)

    def __post_init__(self) -> None:
        which = f" of {self.source.part}" if self.source.part else ""
        if self.fit.refusal is not None:
            warnings.warn(
                f"the metrics{which} that compare the classes are undefined (NaN): "
                f"{self.fit.refusal}",
                UndefinedMetricWarning,
                stacklevel=3,
            )

    @property
    def observed(self) -> NoisyHistogram:
        """The released histogram."""
        return counted(self.fit).observed

    # -- metrics -----------------------------------------------------------

    @cached_property
    def metrics(self) -> Mapping[str, Estimate]:
        """Metrics by name: iterating gives those that were asked for.

        Any other row of :data:`discreet.metrics.table.METRICS` can be looked up, which
        spends nothing more; so can a rate, where the plan has one threshold. Synonyms
        such as ``auroc`` and ``sensitivity`` find the same numbers.
        """
        if isinstance(self.fit, ScalarFit):
            given = self.fit.given
            listed = [name for name in METRICS if name in given]
            return Measured(listed, self._given, known=METRICS)
        wanted = DEFAULT_METRICS if self.plan is None else self.plan.metrics
        metrics = measures(self.fit, wanted, self._planned_rate)
        clusters = self.heterogeneity.clusters
        return metrics if clusters is None else clusters.over(metrics, self.fit)

    def _planned_rate(self, name: str) -> Estimate:
        """Return a rate at the plan's only threshold."""
        planned = self.thresholds.planned()
        if len(planned) != 1:
            raise InputError(
                f"{name} is a measure at a threshold: result.at(0.5).{name}"
            )
        return planned[0][name]

    def _given(self, name: str) -> Estimate:
        """Return a number that was revealed; anything else needs a histogram."""
        if isinstance(self.fit, ScalarFit) and name in self.fit.given:
            return self.fit.given[name]
        counted(self.fit, METRICS[name].title)
        raise KeyError(name)

    @property
    def auc(self) -> Estimate:
        """Area under the ROC curve."""
        return self.metrics["auc"]

    @property
    def average_precision(self) -> Estimate:
        """Average precision."""
        return self.metrics["average_precision"]

    @property
    def brier(self) -> Estimate:
        """Brier score: mean squared error of the probabilities."""
        return self.metrics["brier"]

    @property
    def ece(self) -> Estimate:
        """Expected calibration error of the positive class, 15 groups of scores."""
        return Recalibration.of(self.fit).error

    def at(self, threshold: float) -> AtThreshold:
        """Return precision, recall, ... when ``score >= threshold`` is positive."""
        at = measured_at(self.fit, threshold)
        if at.undefined():
            warnings.warn(
                f"at this threshold {', '.join(at.undefined())} divide by zero: NaN",
                UndefinedMetricWarning,
                stacklevel=2,
            )
        return at

    @property
    def thresholds(self) -> Thresholds:
        """The plan's thresholds, and those that reach an aim."""
        return Thresholds(self.fit, self.plan)

    if not TYPE_CHECKING:  # a type checker still finds misspelled names

        def __getattr__(self, name: str) -> Thresholds:
            """Let ``threshold(recall=0.8)`` be ``thresholds(recall=0.8)``."""
            if name == "threshold":
                return self.thresholds
            remedy = ""
            if name == "fairness":
                remedy = ": evaluate with group=, the column that holds groups"
            elif metric_name(name) in RATES:
                remedy = f": it is a rate at a threshold, result.at(0.5).{name}"
            raise AttributeError(f"an evaluation has no {name}{remedy}")

    def influence(self, threshold: float | None = None) -> Mapping[str, float]:
        """Return by how much one malicious site can move each metric at most.

        With a threshold: each rate there. Empty unless the plan limits the examples of
        a site, or where weights are not bounded by it; see ``docs/influence.md``. Of
        clients' reports: by how much 1% of false ones move each metric, as searched.
        """
        if of_clients(self.plan):
            return self._poisoned if threshold is None else {}
        most = None
        if self.plan is not None and not weighted(self.plan):
            most = self.plan.cohort.max_examples_per_site
        if threshold is not None:
            fit = counted(self.fit, "a rate")
            return {} if most is None else rate_influences(fit, most, threshold)
        if most is None or not isinstance(self.fit, Fit):
            return {}
        return metric_influences(self.fit, most, self.metrics)

    @cached_property
    def _poisoned(self) -> Mapping[str, float]:
        if self.plan is None or not isinstance(self.fit, Fit):
            return {}
        return poisoned(self.plan, self.source.releases[-1], self.fit, self.metrics)

    # -- curves and calibration ----------------------------------------------

    @property
    def curves(self) -> ResultCurves:
        """The curves, and what is read from them."""
        return ResultCurves(self.fit, self.plan)

    def roc_curve(self, *, drop_intermediate: bool = False) -> Points:
        """Return fpr, tpr, thresholds of the estimated curve, as scikit-learn orders them.

        Straight lines between the points are the curve whose area is ``auc``; ``at``
        has the same rates at each threshold, the plan's thresholds among them.
        """
        return roc_points(
            counted(self.fit, "the ROC curve"),
            drop_intermediate=drop_intermediate,
            thresholds=() if self.plan is None else self.plan.thresholds,
        )

    def precision_recall_curve(self, *, drop_intermediate: bool = False) -> Points:
        """Return precision, recall, thresholds of the estimated curve.

        In scikit-learn's order, to precision 1 at recall 0. Scores that tie are a step.
        """
        return pr_points(
            counted(self.fit, "the PR curve"),
            drop_intermediate=drop_intermediate,
            thresholds=() if self.plan is None else self.plan.thresholds,
        )

    @property
    def calibration(self) -> ReliabilityCurve:
        """The calibration (reliability) curve with its bands."""
        return Recalibration.of(self.fit).before

    @cached_property
    def recalibration(self) -> Recalibration:
        """The map that mends the probabilities, and what it changes."""
        return Recalibration.of(self.fit, "a calibration map")

    def calibrate(self, scores: ArrayLike) -> FloatVector:
        """Return recalibrated probabilities; costs no further privacy."""
        return self.recalibration.map.apply(scores)

    # -- for readers and programs --------------------------------------------

    def __repr__(self) -> str:
        first = next(iter(titled(self.metrics).items()), ("no metric", ""))
        return (
            f"Evaluation({first[0]} {first[1]}; {count_words(self)}; "
            f"{self.claim.loss}, {self.claim.setting})"
        )

    def _repr_html_(self) -> str:
        return evaluation_html(self)

    def to_text(self, *, wide: bool = False) -> str:
        """Return the table, the counts and the claim; wide: every rate's interval."""
        return evaluation_text(self, wide=wide)

    @property
    def exports(self) -> Exports:
        """The result for other programs: plain values, rows, tables, the page."""
        # Parts share one record, which is of the whole result.
        return Exports(
            {self.source.part: self},
            self.claim,
            partial(document, self),
            whole=not self.source.part,
        )

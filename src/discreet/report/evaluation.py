"""The evaluation: what the caller gets, whatever way the numbers came.

It is made of a reading. A reading of a histogram has everything; one of opened
numbers (rank sums, exact areas, a curator's values) has these, and asking it for more
is an error that names the way to get it.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet import recalibrate
from discreet.arrays import FloatVector
from discreet.errors import InputError, NotReleasedError, UndefinedMetricWarning
from discreet.estimate.curves import Curves
from discreet.estimate.estimate import Estimate, Interval
from discreet.estimate.fit import AnyFit, Estimator, Fit, ScalarFit
from discreet.metrics.bands import Band, BandKind, band
from discreet.metrics.calibration import (
    ReliabilityCurve,
    calibration_curve,
    expected_calibration_error,
)
from discreet.metrics.clusters import ClusterProducts
from discreet.metrics.errors import measures
from discreet.metrics.influence import metric_influences, rate_influences
from discreet.metrics.scikit_points import Points, det_points, pr_points, roc_points
from discreet.metrics.table import DEFAULT_METRICS, METRICS
from discreet.metrics.thresholds import AtThreshold, at_threshold
from discreet.plan.plan import Plan
from discreet.plan.release import Release
from discreet.privacy.claim import Claim
from discreet.recalibrate import CalibrationMap
from discreet.report import report
from discreet.report.heterogeneity import Heterogeneity
from discreet.report.made import Made
from discreet.report.notebook import evaluation_html
from discreet.report.page import Page
from discreet.report.pictures import curve
from discreet.report.plot import Line, PlotKind
from discreet.report.random_groups import RandomGroups
from discreet.report.record import record_of
from discreet.report.shown import Shown
from discreet.report.text import titled
from discreet.report.validation import Validation
from discreet.statistic.observed import NoisyHistogram

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Validation, Shown):
    """Every metric of the pooled data, with its error sources and its claim.

    Args:
        reading: what was found in the releases, or the numbers that were opened.
        claim: what was promised to whom.
        contributors: how many sites it rests on.
        expected: how many sites were asked.
        plan: the plan that was carried out, where there is one.
        releases: what was opened, round by round.
        name: which of several parts this is, a class or a group.
        random_groups: the same in random groups of sites, where it was asked for.
        site_names: what the sites are called, where that is known.
        heterogeneity: how sites differ, where it was asked for.
        clusters: which rows are alike, where it was asked for.
        reader: what read the release, where it is not the plan's own estimator.
    """

    fit: AnyFit
    claim: Claim
    contributors: int
    expected: int
    plan: Plan | None = None
    releases: tuple[Release, ...] = ()
    name: str = ""
    random_groups: RandomGroups | None = None
    site_names: tuple[str, ...] = ()
    heterogeneity: Heterogeneity | None = None
    clusters: ClusterProducts | None = None
    reader: Estimator | None = None

    def __post_init__(self) -> None:
        which = f" of {self.name}" if self.name else ""
        if self.refusal is not None:
            warnings.warn(
                f"the metrics{which} that compare the classes are undefined (NaN): "
                f"{self.refusal}",
                UndefinedMetricWarning,
                stacklevel=3,
            )

    @property
    def refusal(self) -> str | None:
        """Why there is no curve, or None when there is one."""
        return self.fit.refusal

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know about how this release was read."""
        return self.fit.notes

    @property
    def facts(self) -> Mapping[str, int | float | str]:
        """How opened numbers were obtained: rows, bytes, rounds; none for counts."""
        return self.fit.facts if isinstance(self.fit, ScalarFit) else {}

    @property
    def observed(self) -> NoisyHistogram:
        """The released histogram."""
        return self._counted("a histogram").observed

    def _counted(self, what: str) -> Fit:
        """Return the reading of a histogram, or say how to get one."""
        if isinstance(self.fit, Fit):
            return self.fit
        has = ", ".join(titled(self.fit.given))
        raise NotReleasedError(
            f"{what} was not released, only {has}; {self.fit.remedy}"
        )

    # -- metrics -----------------------------------------------------------

    @cached_property
    def metrics(self) -> Mapping[str, Estimate]:
        """Metrics by name: iterating gives those that were asked for.

        Any other row of :data:`discreet.metrics.table.METRICS` can be looked up, which
        spends nothing more.
        """
        if isinstance(self.fit, ScalarFit):
            return measures(self.fit, self.fit.given)
        asked = DEFAULT_METRICS if self.plan is None else self.plan.metrics
        found = measures(self.fit, asked)
        return found if self.clusters is None else self.clusters.over(found, self.fit)

    def metric(self, name: str) -> Estimate:
        """Return a metric by its name, whether or not it was asked for."""
        row = METRICS[name]
        if name not in self.metrics:
            self._counted(row.title)
        return self.metrics[name]

    @property
    def auc(self) -> Estimate:
        """Area under the ROC curve."""
        return self.metric("auc")

    @property
    def average_precision(self) -> Estimate:
        """Average precision."""
        return self.metric("average_precision")

    @property
    def aupr(self) -> Estimate:
        """Area under the PR curve by trapezoids, from recall 0 and precision 1."""
        return self.metric("aupr")

    @property
    def brier(self) -> Estimate:
        """Brier score: mean squared error of the probabilities."""
        return self.metric("brier")

    @property
    def mann_whitney_u(self) -> Estimate:
        """Mann-Whitney U: pairs of a positive and a negative in the right order."""
        pairs = self.observed.total_positives * self.observed.total_negatives
        if np.isnan(self.auc.value):
            return Estimate.undefined("AUC is undefined", Interval(0.0, pairs))
        return self.auc.scaled(pairs)

    def at(self, threshold: float) -> AtThreshold:
        """Return precision, recall, ... when ``score >= threshold`` is positive."""
        self._check_threshold(threshold)
        found = self._at(threshold)
        if found.undefined():
            warnings.warn(
                f"at this threshold {', '.join(found.undefined())} divide by zero: NaN",
                UndefinedMetricWarning,
                stacklevel=2,
            )
        return found

    def _check_threshold(self, threshold: float) -> None:
        """Refuse a threshold that no score can reach; infinity is scikit-learn's."""
        scores = self._counted("the confusion counts").observed.edges.scores
        if not math.isfinite(threshold) or scores.low <= threshold <= scores.high:
            return
        percent = scores.kind == "probability" and 1 < threshold <= 100
        remedy = "divide a percentage by 100" if percent else "give a score"
        raise InputError(
            f"the threshold {threshold:g} lies outside the scores' range {scores}; "
            f"{remedy}"
        )

    def _at(self, threshold: float) -> AtThreshold:
        return at_threshold(self._counted("the confusion counts"), threshold)

    def at_thresholds(self) -> tuple[AtThreshold, ...]:
        """Return the metrics at each of the plan's thresholds."""
        if self.plan is None or not self.fit.has_curves:
            return ()
        return tuple(self._at(t) for t in self.plan.thresholds)

    @cached_property
    def influence(self) -> Mapping[str, float]:
        """By how much one lying site can move each metric, as far as it is bounded.

        Empty unless the plan says how many examples a site has at most; see
        ``docs/influence.md``.
        """
        most = self._most_examples_of_a_site
        if most is None or not isinstance(self.fit, Fit):
            return {}
        return metric_influences(self.fit, most, self.metrics)

    def influence_at(self, threshold: float) -> Mapping[str, float]:
        """By how much one lying site can move each rate at a threshold."""
        fit, most = self._counted("a rate"), self._most_examples_of_a_site
        return {} if most is None else rate_influences(fit, most, threshold)

    @property
    def _most_examples_of_a_site(self) -> int | None:
        if self.plan is None or self.weighted:  # it does not bound a liar's weights
            return None
        return self.plan.cohort.max_examples_per_site

    # -- curves ------------------------------------------------------------

    @property
    def curves(self) -> Curves:
        """The curves, ready to be drawn or compared."""
        return self._counted("a curve").curves

    @property
    def _declared(self) -> tuple[float, ...]:
        return () if self.plan is None else self.plan.thresholds

    def roc_curve(self, *, drop_intermediate: bool = False) -> Points:
        """Return fpr, tpr, thresholds of the estimated curve, as scikit-learn orders them.

        Straight lines between the points are the curve whose area is ``auc``; ``at``
        has the same rates at each threshold, the plan's thresholds among them.
        """
        fit = self._counted("the ROC curve")
        return roc_points(
            fit, drop_intermediate=drop_intermediate, thresholds=self._declared
        )

    def precision_recall_curve(self, *, drop_intermediate: bool = False) -> Points:
        """Return precision, recall, thresholds of the estimated curve.

        In scikit-learn's order, to precision 1 at recall 0. Scores that tie are a step.
        """
        fit = self._counted("the PR curve")
        return pr_points(
            fit, drop_intermediate=drop_intermediate, thresholds=self._declared
        )

    def det_curve(self, *, drop_intermediate: bool = False) -> Points:
        """Return fpr, fnr, thresholds by rising threshold, with scikit-learn's ends."""
        fit = self._counted("the DET curve")
        return det_points(
            fit, drop_intermediate=drop_intermediate, thresholds=self._declared
        )

    def band(
        self, kind: BandKind = "roc", *, level: float = 0.95, simultaneous: bool = False
    ) -> Band:
        """Return the curve's limits at each threshold, or for the whole curve at once."""
        fit = self._counted("a curve")
        if self.refusal is not None:
            raise NotReleasedError(f"no curve to bound: {self.refusal}")
        return band(fit, kind, level=level, simultaneous=simultaneous)

    @property
    def way(self) -> str:
        """How the release was read."""
        return self._counted("a curve").way

    def line(self, kind: PlotKind, label: str = "") -> Line:
        """Return the curve of one kind, as it is drawn."""
        return curve(self, kind, label)

    # -- calibration -------------------------------------------------------

    @property
    def calibratable(self) -> bool:
        """Whether scores are probabilities and both classes are there."""
        if self.refusal is not None or not isinstance(self.fit, Fit):
            return False
        return self.fit.observed.edges.scores.kind != "other"

    def _calibration_counts(
        self, what: str = "the calibration error"
    ) -> NoisyHistogram:
        counts = self._counted(what).counts
        if not self.calibratable:
            why = self.refusal or "scores of kind 'other' are not probabilities"
            raise NotReleasedError(f"calibration is undefined: {why}")
        return counts

    @property
    def ece(self) -> Estimate:
        """Expected calibration error of the positive class, 15 groups of scores."""
        response = self._counted("the calibration error").response
        return expected_calibration_error(self._calibration_counts(), response=response)

    @property
    def calibration(self) -> ReliabilityCurve:
        """The calibration (reliability) curve with its bands."""
        return calibration_curve(self._calibration_counts())

    @property
    def recalibrated(self) -> ReliabilityCurve | None:
        """The curve after the map, None where the scores are best left as they are."""
        if self.calibrator.name == "identity":
            return None
        counts = self._calibration_counts()
        said = recalibrate.mapped_predictions(counts.edges, self.calibrator)
        return calibration_curve(counts, predictions=said)

    @cached_property
    def calibrator(self) -> CalibrationMap:
        """The map from scores to calibrated probabilities, chosen from the release."""
        counts = self._calibration_counts("a calibration map")
        return recalibrate.fit(self.observed, counts)

    def calibrate(self, scores: ArrayLike) -> FloatVector:
        """Return recalibrated probabilities; costs no further privacy."""
        return self.calibrator.apply(scores)

    @cached_property
    def _effect(self) -> recalibrate.Effect:
        counts = self._calibration_counts()
        response = self._counted("the calibration error").response
        return recalibrate.effect(counts, self.calibrator, response=response)

    def recalibration(self) -> recalibrate.Effect:
        """Return the calibration error and Brier score before and after the map."""
        return self._effect

    # -- words -------------------------------------------------------------

    def named(self) -> dict[str, Evaluation]:
        """Return this one under its name."""
        return {self.name: self}

    def __repr__(self) -> str:
        first = next(iter(titled(self.metrics).items()), ("no metric", ""))
        return (
            f"Evaluation({first[0]} {first[1]}; {report.count_words(self)}; "
            f"{self.claim.loss}, {self.claim.setting})"
        )

    def _repr_html_(self) -> str:
        return evaluation_html(self)

    def to_text(self, *, wide: bool = False) -> str:
        """Return the table, the counts and the claim; wide: every rate's interval."""
        return report.text(self, wide=wide)

    def _values(self, *, curves: bool) -> dict[str, Any]:
        return report.document(self, curves=curves)

    def _page(self) -> Page:
        return Page(
            self.named(),
            self.claim,
            sentences=report.notes,
            pictures=report.pictures,
        )

    def _record(self, made: Made) -> dict[str, Any] | None:
        return None if self.name else record_of(self, made)  # parts share one record

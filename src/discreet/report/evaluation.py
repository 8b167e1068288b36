"""The evaluation: what the caller gets, whatever way the numbers came.

It is made of a reading. A reading of a histogram has everything; one of opened
numbers (rank sums, exact areas, a curator's values) has these, and asking it for more
is an error that names the way to get it.

What a validation asks of an evaluation beside its metrics, from the same release.

Every measure as a row of a table, thresholds that reach an aim, and curves over all
thresholds. Nothing here asks a site again.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
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
from discreet.metrics.calibration import (
    HosmerLemeshow,
    ReliabilityCurve,
    calibration_curve,
    expected_calibration_error,
    hosmer_lemeshow,
)
from discreet.metrics.curve_points import (
    Band,
    BandKind,
    Points,
    band,
    det_points,
    pr_points,
    roc_points,
)
from discreet.metrics.curves import CURVES, MeasureCurve, decision_curve
from discreet.metrics.errors import measure, measures, metric_influences, tidy
from discreet.metrics.finding import Aim, FoundThreshold, find_threshold
from discreet.metrics.heterogeneity import ClusterProducts
from discreet.metrics.table import DEFAULT_METRICS, METRICS, RATES, partial_area_row
from discreet.metrics.thresholds import AtThreshold, at_threshold, rate_influences
from discreet.optional import load
from discreet.plan.plan import Plan
from discreet.plan.release import Release
from discreet.privacy.claim import Claim
from discreet.recalibrate import CalibrationMap
from discreet.report.conformal import ConformalThresholds, Given, conformal
from discreet.report.heterogeneity import Heterogeneity
from discreet.report.page import Page
from discreet.report.plot import Line, PlotKind, curve
from discreet.report.random_groups import RandomGroups
from discreet.report.record import Made, record_of
from discreet.report.shown import Shown, evaluation_html
from discreet.report.text import (
    count_words,
    document,
    evaluation_text,
    extra_pictures,
    note_lines,
    titled,
)
from discreet.statistic.observed import NoisyHistogram
from discreet.statistic.weighted import Weighted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike


class Validation(ABC):
    """An evaluation's measures beyond the usual few."""

    fit: AnyFit
    plan: Plan | None

    @property
    def weighted(self) -> bool:
        """Whether examples have weights: counts are then of effective examples."""
        return self.plan is not None and isinstance(self.plan.statistic, Weighted)

    @property
    def prevalence(self) -> float:
        """The share of positives, of the released counts."""
        seen = self._counted("the prevalence").observed
        total = seen.total_positives + seen.total_negatives
        return seen.total_positives / total if total > 0 else math.nan

    @property
    @abstractmethod
    def metrics(self) -> Mapping[str, Estimate]:
        """Metrics over all thresholds, by name."""

    @abstractmethod
    def at_thresholds(self) -> tuple[AtThreshold, ...]:
        """Return the measures at each of the plan's thresholds."""

    @abstractmethod
    def _counted(self, what: str) -> Fit:
        """Return the reading of a histogram, or say how to get one."""

    def _curved(self, what: str) -> Fit:
        """Return a reading that tells the classes apart, or say why there is none."""
        fit = self._counted(what)
        if fit.refusal is not None:
            raise NotReleasedError(f"there is no {what}: {fit.refusal}")
        return fit

    def rows(self) -> list[dict[str, Any]]:
        """Return every measure as one tidy row: over all thresholds, then at the plan's.

        Measures that the scores do not define stand there too, with the reason.
        """
        found = [
            tidy(n, METRICS[n].title, self.metrics[n])
            for n in (METRICS if isinstance(self.fit, Fit) else self.metrics)
        ]
        for at in self.at_thresholds():
            found += [
                tidy(n, RATES[n].title if n in RATES else n, at[n], at.threshold)
                for n in at.estimates
            ]
        return found

    def partial_auc(
        self,
        *,
        max_fpr: float | None = None,
        min_recall: float | None = None,
        corrected: bool = True,
    ) -> Estimate:
        """Return the area up to a false positive rate, or from a recall on.

        ``corrected`` is McClish's, as scikit-learn's ``roc_auc_score(max_fpr=)`` gives it:
        1/2 for chance and 1 for perfect.
        """
        if (max_fpr is None) == (min_recall is None):
            raise InputError("a partial area has max_fpr= or min_recall=: give one")
        within = max_fpr if min_recall is None else 1 - min_recall
        row = partial_area_row(
            float(within or 0), sensitivity=max_fpr is None, corrected=corrected
        )
        return measure(row, self._curved("partial area"))

    def to_frame(self) -> Any:
        """Return ``rows`` as a pandas ``DataFrame``, one row a measure."""
        return load("pandas", "frames").DataFrame(self.rows())

    def threshold(
        self,
        *,
        sensitivity: float | None = None,
        specificity: float | None = None,
        precision: float | None = None,
        alert_rate: float | None = None,
        youden: bool = False,
        cost_ratio: float | None = None,
    ) -> FoundThreshold:
        """Find the threshold of one aim, with its interval and all measures there.

        ``cost_ratio`` is how many false alarms a miss costs as much as.
        """
        aim = Aim.of(
            sensitivity=sensitivity,
            specificity=specificity,
            precision=precision,
            alert_rate=alert_rate,
            youden=youden,
            cost_ratio=cost_ratio,
        )
        return find_threshold(self._curved("threshold"), aim)

    def top(self, k: int) -> FoundThreshold:
        """Return the threshold above which the k highest scores lie, and what is there.

        Its ``at.precision`` is precision at k, ``at.recall`` the gain, ``at.lift`` the
        lift.
        """
        observed = self._curved("threshold").observed
        examples = observed.total_positives + observed.total_negatives
        if not 0 < k < examples:
            raise InputError(
                f"k is at least 1 and below the number of examples, got {k}"
            )
        return self.threshold(alert_rate=k / examples)

    def curve(self, name: str) -> MeasureCurve:
        """Return a curve over thresholds: decision, cost, gains, lift, pr_gain, ..."""
        row = CURVES[name]
        find = self._probabilities if row.needs_probabilities else self._curved
        return row.measure(find(f"{name} curve"))

    def decision_curve(self, thresholds: ArrayLike | None = None) -> MeasureCurve:
        """Return net benefit of the model, of all and of none, with 95% limits."""
        fit = self._probabilities("decision curve")
        if thresholds is None:
            return decision_curve(fit)
        return decision_curve(fit, np.asarray(thresholds, dtype=np.float64))

    def hosmer_lemeshow(self) -> HosmerLemeshow:
        """Return the Hosmer-Lemeshow test, with a sentence on why not to use it."""
        return hosmer_lemeshow(self._probabilities("Hosmer-Lemeshow test"))

    def conformal(self, alpha: float, given: Given = "marginal") -> ConformalThresholds:
        """Return thresholds of prediction sets that miss at most ``alpha`` of labels."""
        return conformal(self._probabilities("conformal threshold"), alpha, given)

    def _probabilities(self, what: str) -> Fit:
        """Return a reading whose scores are probabilities, or say why there is none."""
        fit = self._curved(what)
        if fit.observed.edges.scores.kind == "other":
            raise NotReleasedError(
                f"there is no {what}: scores of kind 'other' are not probabilities"
            )
        return fit


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
    def _effect(self) -> recalibrate.MapEffect:
        counts = self._calibration_counts()
        response = self._counted("the calibration error").response
        return recalibrate.effect(counts, self.calibrator, response=response)

    def recalibration(self) -> recalibrate.MapEffect:
        """Return the calibration error and Brier score before and after the map."""
        return self._effect

    # -- words -------------------------------------------------------------

    def named(self) -> dict[str, Evaluation]:
        """Return this one under its name."""
        return {self.name: self}

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

    def _values(self, *, curves: bool) -> dict[str, Any]:
        return document(self, curves=curves)

    def _page(self) -> Page:
        return Page(
            self.named(),
            self.claim,
            sentences=note_lines,
            pictures=extra_pictures,
        )

    def _record(self, made: Made) -> dict[str, Any] | None:
        return None if self.name else record_of(self, made)  # parts share one record

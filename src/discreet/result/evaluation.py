"""The evaluation: what the caller gets. Made from a plan and its releases alone."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from discreet import recalibrate
from discreet.arrays import FloatVector
from discreet.data.edges import describe
from discreet.errors import (
    DisclosureWarning,
    NotReleasedError,
    PlanError,
    UndefinedMetricWarning,
)
from discreet.estimate.bands import (
    Band,
    BandKind,
    pointwise_band,
    simultaneous_band,
)
from discreet.estimate.curves import Curves
from discreet.estimate.estimate import Estimate, Interval, Unusable
from discreet.estimate.estimator import Estimator
from discreet.estimate.fedcurve import FedCurve
from discreet.estimate.on_tree import OnTree, TreeMethod
from discreet.estimate.reliability import (
    ReliabilityCurve,
    calibration_curve,
    expected_calibration_error,
)
from discreet.estimate.thresholds import AtThreshold
from discreet.estimate.with_errors import at_with_errors, metrics_with_errors
from discreet.metrics.names import Metric
from discreet.plan.file import dumps
from discreet.plan.plan import Plan
from discreet.plan.release import Release
from discreet.privacy.claim import Claim
from discreet.recalibrate import CalibrationMap
from discreet.result.decode_release import open_release
from discreet.result.page import Page, Section, save
from discreet.result.plot import Line, PlotKind, draw
from discreet.result.reliability_plot import draw_reliability
from discreet.result.text import (
    METRIC_TITLES,
    metric_table,
    number,
    rate_line,
    titled,
)
from discreet.statistic.observed import NoisyHistogram

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

JSON_VERSION: Final = 1
_PIECES: Final = 8


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Every metric of the pooled data, with its error sources and its claim."""

    plan: Plan
    claim: Claim
    releases: tuple[Release, ...]
    observed: NoisyHistogram
    estimator: Estimator
    name: str = ""
    _metrics: Mapping[Metric, Estimate] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        found = metrics_with_errors(self.estimator, self.observed, self.plan.metrics)
        if self.observed.refusal is not None:
            refused = Estimate.undefined(self.observed.refusal)
            found = dict.fromkeys(self.plan.metrics, refused)
        object.__setattr__(self, "_metrics", found)
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
        if self.observed.refusal is not None:
            return self.observed.refusal
        for metric, found in self._metrics.items():
            if metric != "brier" and isinstance(found.status, Unusable):
                return found.status.reason
        return None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know about how this release was read."""
        return self.estimator.notes(self.observed)

    # -- metrics -----------------------------------------------------------

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
        auc = self.auc
        if np.isnan(auc.value):
            return Estimate.undefined("AUC is undefined", Interval(0.0, pairs))
        return auc.scaled(pairs)

    def metric(self, metric: Metric) -> Estimate:
        """Return a metric by its name."""
        if metric not in self._metrics:
            raise NotReleasedError(
                f"this plan did not ask for {metric}; it has "
                f"{', '.join(sorted(self._metrics))}"
            )
        return self._metrics[metric]

    def at(self, threshold: float) -> AtThreshold:
        """Return precision, recall, ... when ``score >= threshold`` is positive."""
        found = self._at(threshold)
        if found.undefined():
            warnings.warn(
                f"at this threshold {', '.join(found.undefined())} divide by zero: NaN",
                UndefinedMetricWarning,
                stacklevel=2,
            )
        return found

    def _at(self, threshold: float) -> AtThreshold:
        return at_with_errors(self.estimator, self.observed, threshold)

    # -- curves ------------------------------------------------------------

    @cached_property
    def curves(self) -> Curves:
        """The curves, ready to be drawn or compared."""
        return self.estimator.curves(self.observed)

    def roc_curve(self) -> tuple[FloatVector, FloatVector, FloatVector]:
        """Return fpr, tpr, thresholds in scikit-learn's order and conventions."""
        c = self.curves
        return c.fpr.copy(), c.tpr.copy(), c.thresholds.copy()

    def precision_recall_curve(self) -> tuple[FloatVector, FloatVector, FloatVector]:
        """Return precision, recall, thresholds in scikit-learn's conventions."""
        c = self.curves
        return c.precision[::-1].copy(), c.tpr[::-1].copy(), c.thresholds[:0:-1].copy()

    def det_curve(self) -> tuple[FloatVector, FloatVector, FloatVector]:
        """Return fpr, fnr, thresholds, by rising threshold."""
        c = self.curves
        fnr = 1.0 - c.tpr
        return c.fpr[:0:-1].copy(), fnr[:0:-1].copy(), c.thresholds[:0:-1].copy()

    def band(
        self, kind: BandKind = "roc", *, level: float = 0.95, simultaneous: bool = False
    ) -> Band:
        """Return the curve's limits at each threshold, or for the whole curve at once."""
        if self.refusal is not None:
            raise NotReleasedError(f"no curve to bound: {self.refusal}")
        make = simultaneous_band if simultaneous else pointwise_band
        counts = self.estimator.counts(self.observed)
        return make(self.observed, counts, self.curves, kind, level=level)

    def line(self, kind: PlotKind, label: str = "") -> Line:
        """Return the curve of one kind, as it is drawn."""
        if kind == "pr":
            drawn = self.curves.pr.polyline(_PIECES)
            return Line(drawn.x, drawn.y, label)
        drawn = self.curves.roc.polyline(_PIECES)
        y = drawn.y if kind == "roc" else 1.0 - drawn.y
        return Line(drawn.x, y, label)

    def plot(
        self,
        kind: PlotKind | Literal["calibration"] = "roc",
        path: str | Path | None = None,
    ) -> Figure:
        """Draw the ROC, PR, DET or calibration curve; save it when a path is given."""
        if self.refusal is not None:
            raise NotReleasedError(f"no curve to draw: {self.refusal}")
        if kind == "calibration":
            return draw_reliability(
                self.calibration, title=self._count_words(), path=path
            )
        metric: Metric = "average_precision" if kind == "pr" else "auc"
        label = f"{METRIC_TITLES[metric]} {self.metric(metric).value:.4f}"
        return draw(
            kind,
            [self.line(kind, label)],
            band=self._drawn_band(kind),
            title=f"{self._count_words()}",
            footnote=(
                f"{describe(self.observed.edges.rule)}; {self.claim.loss}; "
                f"{self.claim.setting}"
            ),
            path=path,
        )

    def _drawn_band(self, kind: PlotKind) -> Line | None:
        if kind not in ("roc", "pr") or isinstance(self.estimator, OnTree):
            return None
        band = self.band(kind)
        # Nothing is predicted positive at recall 0: there is no precision to bound.
        known = (band.x > 0) | (kind == "roc")
        return Line(
            band.x[known],
            band.low[known],
            "95% at each threshold",
            upper=band.high[known],
        )

    # -- calibration -------------------------------------------------------

    @property
    def _calibratable(self) -> bool:
        return self.refusal is None and self.plan.facts.scores.kind != "other"

    def _calibration_counts(self) -> NoisyHistogram:
        if not self._calibratable:
            why = self.refusal or "scores of kind 'other' are not probabilities"
            raise NotReleasedError(f"calibration is undefined: {why}")
        return self.estimator.counts(self.observed)

    @property
    def ece(self) -> Estimate:
        """Expected calibration error of the positive class, 15 groups of scores."""
        return expected_calibration_error(self._calibration_counts())

    @property
    def calibration(self) -> ReliabilityCurve:
        """The calibration (reliability) curve with its bands."""
        return calibration_curve(self._calibration_counts())

    @cached_property
    def calibrator(self) -> CalibrationMap:
        """The map from scores to calibrated probabilities, chosen from the release."""
        return recalibrate.fit(self.observed, self._calibration_counts())

    def calibrate(self, scores: ArrayLike) -> FloatVector:
        """Return recalibrated probabilities; costs no further privacy."""
        return self.calibrator.apply(scores)

    def recalibration(self) -> recalibrate.Effect:
        """Return the calibration error and Brier score before and after the map."""
        return recalibrate.effect(self._calibration_counts(), self.calibrator)

    # -- words -------------------------------------------------------------

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, *, wide: bool = False) -> str:
        """Return the table, the counts and the claim; wide: every rate's interval."""
        lines = [metric_table(titled(self._metrics))]
        for threshold in self.plan.thresholds:
            rates = self._at(threshold).rates()
            label = f"at {threshold:g}:"
            lines.append(
                metric_table(rates, label) if wide else rate_line(label, rates)
            )
        lines += self._sentences()
        lines += [self._count_line(), str(self.claim)]
        return "\n".join(lines)

    def _calibration_line(self) -> str:
        found = self.recalibration()
        name = self.calibrator.name
        after = (
            "no map would improve it"
            if name == "identity"
            else f"{number(found.ece_after.value)} expected after recalibration, {name}"
        )
        return f"calibration error {number(found.ece_before.value)}   ({after})"

    def _count_words(self) -> str:
        last = self.releases[-1]
        about = "" if self.observed.exact else "about "
        total = self.observed.total_positives + self.observed.total_negatives
        return f"{last.contributors} of {last.expected} sites, {about}{total:,.0f} examples"

    def _count_line(self) -> str:
        size = sum(r.total.size for r in self.releases) * 8 / 1024
        rule = describe(self.observed.edges.rule)
        return f"{self._count_words()}, {rule}, {size:.1f} KB from each site"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        fpr, tpr, thresholds = self.roc_curve()
        precision, recall, _ = self.precision_recall_curve()
        last = self.releases[-1]
        return {
            "version": JSON_VERSION,
            "plan_digest": self.plan.digest().hex(),
            "estimator": self.estimator.name,
            "interpolation": self.curves.interpolation,
            "sites": {"contributed": last.contributors, "expected": last.expected},
            "examples": {
                "positives": self.observed.total_positives,
                "negatives": self.observed.total_negatives,
                "noisy": not self.observed.exact,
            },
            "metrics": {m: e.to_dict() for m, e in sorted(self._metrics.items())},
            "thresholds": [self._at(t).to_dict() for t in self.plan.thresholds],
            "refusal": self.refusal,
            "notes": list(self.notes),
            "calibration": self._calibration_dict(),
            "roc": {
                "fpr": _list(fpr),
                "tpr": _list(tpr),
                "thresholds": _list(thresholds),
            },
            "pr": {"precision": _list(precision), "recall": _list(recall)},
            "claim": self.claim.to_dict(),
        }

    def _calibration_dict(self) -> dict[str, Any] | None:
        if not self._calibratable:
            return None
        found = self.recalibration()
        return {
            "ece": found.ece_before.to_dict(),
            "ece_after": found.ece_after.to_dict(),
            "map": dict(self.calibrator.to_dict()),
            "reason": self.calibrator.reason,
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """Return everything as JSON; NaN and infinity become null."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def save(self, path: str | Path) -> None:
        """Save the result: .html (a report with pictures), .json or .txt."""
        save(
            path,
            html=lambda: report_page((self.section(),), self.plan, self.claim),
            json=lambda: self.to_json(indent=1),
            text=lambda: self.to_text(wide=True),
        )

    def section(self) -> Section:
        """Return this evaluation's part of a report: tables, sentences, pictures."""
        drawn: dict[str, PlotKind | Literal["calibration"]] = {}
        if self.refusal is None:
            drawn = {"ROC curve": "roc", "Precision and recall": "pr"}
        if self._calibratable:
            drawn["Calibration"] = "calibration"
        return Section(
            tables={
                "Over all thresholds": titled(self._metrics),
                **{f"At {t:g}": self._at(t).rates() for t in self.plan.thresholds},
            },
            counts=self._count_line(),
            lines=self._sentences(),
            figures={shows: self.plot(kind) for shows, kind in drawn.items()},
            name=self.name,
        )

    def _sentences(self) -> tuple[str, ...]:
        lines = [self._calibration_line()] if self._calibratable else []
        if self.refusal is not None:
            lines.append(f"Undefined: {self.refusal}.")
        cautions = dict.fromkeys(e.caution for e in self._metrics.values() if e.caution)
        return (*lines, *(f"Note: {note}." for note in (*self.notes, *cautions)))


def evaluation(
    plan: Plan,
    releases: Sequence[Release],
    claim: Claim,
    *,
    estimator: Estimator | None = None,
    method: TreeMethod | None = None,
) -> Evaluation:
    """Build the evaluation of a binary plan: the only way to make one.

    It reads the plan and its releases and nothing else, so a simulation and a
    deployment that release the same sums give the same evaluation. A plan that
    releases a tree is read by ``method``, a published one.
    """
    parts = open_release(plan, releases).parts()
    if set(parts) != {""}:
        raise PlanError(
            f"a {plan.statistic.name} plan has several evaluations; see "
            "multi_evaluation"
        )
    observed = parts[""]
    chosen: Estimator
    if observed.tree is not None:
        chosen = OnTree(observed.tree, observed.law, method or FedCurve())
    else:
        total = observed.total_negatives + observed.total_positives
        _warn_if_fine(plan, total, len(observed.edges))
        chosen = estimator or plan.privacy.estimator()
    return Evaluation(plan, claim, tuple(releases), observed, chosen)


def report_page(sections: Sequence[Section], plan: Plan, claim: Claim) -> Page:
    """Return the report of one release: its sections, its claim, its plan."""
    model = f" of {plan.model.name}" if plan.model.name else ""
    return Page(
        f"Evaluation{model}",
        tuple(sections),
        claim,
        dumps(plan),
        plan.digest().hex(),
    )


def _warn_if_fine(plan: Plan, total: float, bins: int) -> None:
    if plan.privacy.protects is None and 0 < total < 10 * bins:
        warnings.warn(
            f"an exact histogram of {bins} bins over fewer than {10 * bins} examples "
            "is nearly the data itself: use fewer bins or a private model",
            DisclosureWarning,
            stacklevel=4,
        )


def _list(values: FloatVector) -> list[float | None]:
    return [float(v) if np.isfinite(v) else None for v in values]

"""What a validation asks of an evaluation beside its metrics, from the same release.

Every measure as a row of a table, thresholds that reach an aim, and curves over all
thresholds. Nothing here asks a site again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InputError, NotReleasedError
from discreet.estimate.estimate import Estimate
from discreet.estimate.fit import AnyFit, Fit
from discreet.metrics.errors import measure
from discreet.metrics.finding import Aim, FoundThreshold, find_threshold
from discreet.metrics.hosmer_lemeshow import HosmerLemeshow, hosmer_lemeshow
from discreet.metrics.measured import tidy
from discreet.metrics.over_thresholds import CURVES, MeasureCurve, decision_curve
from discreet.metrics.partial_areas import partial_area_row
from discreet.metrics.rates import RATES
from discreet.metrics.table import METRICS
from discreet.metrics.thresholds import AtThreshold
from discreet.optional import load
from discreet.plan.plan import Plan
from discreet.report.conformal import ConformalThresholds, Given, conformal
from discreet.statistic.weighted import Weighted

if TYPE_CHECKING:
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
        return row.draw(find(f"{name} curve"))

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

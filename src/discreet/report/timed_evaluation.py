"""One table of follow-up as a result: every measure of a risk model over time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self, TypeAlias

import numpy as np

from discreet.arrays import FloatVector
from discreet.errors import InputError
from discreet.estimate.estimate import Estimate
from discreet.metrics.errors import Measured
from discreet.metrics.table import METRICS
from discreet.metrics.timed import FollowUp
from discreet.metrics.timed_table import (
    TIMED,
    SurvivalCurve,
    TimedCalibration,
    calibration_groups,
    class_estimate,
    groups_between,
    groups_of,
    mean_predicted,
    median_follow_up,
    net_benefit,
    net_benefit_of_all,
    survival_curve,
)
from discreet.plan.followup import INDEPENDENT_CENSORING
from discreet.plan.plan import Plan
from discreet.privacy.claim import Claim
from discreet.report.evaluation import Source
from discreet.report.shown import Shown
from discreet.report.text import metric_table
from discreet.statistic.timed import TimedCounts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from discreet.report.plot import Display
    from discreet.report.timed_exports import TimedExports

TimedPlot: TypeAlias = Literal["auc", "km", "calibration", "decision"]
RISK_GROUPS: Final = 3
"""Groups of scores whose survival is shown, of about equal size."""
_DECISIONS: Final = 20
"""Thresholds of a decision curve, beside the plan's."""
_OVERALL: Final = ("concordance", "uno")
_OF_A_CAUSE: Final = ("observed_risk", "auc")
"""What is shown of every cause of an event."""
CENSORING: Final = f"it is assumed that {INDEPENDENT_CENSORING}"
"""The note of a result whose claim does not name the assumption."""
WITHIN: Final = "censoring is estimated within each of the declared groups"
_SURE: Final = 4.0
"""A total below this many standard deviations of its noise is no total."""


def too_few(table: FollowUp) -> str | None:
    """Return why a table tells nothing, if so: it holds nobody, or mostly noise."""
    noise = table.noise_sd * math.sqrt(sum(part.size for part in table.counts))
    if table.total > _SURE * noise:
        return None
    if table.exact:
        return "the pooled data hold no examples"
    return (
        f"too few examples for this epsilon: the release counts {table.total:,.0f} with "
        f"a noise of {noise:,.0f}, and measures need {_SURE:g} times the noise; use more "
        "data, a larger epsilon, or fewer bins and intervals"
    )


class DecisionCurve(NamedTuple):
    """Net benefit over threshold probabilities: of the model, and of treating all."""

    thresholds: FloatVector
    model: tuple[Estimate, ...]
    everybody: tuple[Estimate, ...]


@dataclass(frozen=True, eq=False, repr=False)
class TimedEvaluation(Shown):
    """Every measure of a risk model over time, with its errors and its claim.

    Args:
        table: the released table, or one per stratum of the censoring.
        claim: what was promised to whom.
        source: what it was made from: sites and releases.
        horizons: the plan's horizons, which are cuts.
        predicts: the horizon whose risk the scores are; None where they are no risk.
        plan: the plan that was carried out, where there is one.
    """

    table: FollowUp
    claim: Claim
    source: Source
    horizons: tuple[float, ...]
    predicts: float | None = None
    plan: Plan | None = None

    @classmethod
    def of(
        cls,
        counts: TimedCounts | Mapping[str, TimedCounts],
        claim: Claim,
        source: Source,
        horizons: Sequence[float] = (),
        *,
        plan: Plan | None = None,
        cause: int = 0,
    ) -> Self:
        """Make the result of a table, or of one table per stratum of the censoring.

        Without horizons the last cut is one.
        """
        table = FollowUp.of(counts, cause=cause)
        table = replace(table, refusal=table.refusal or too_few(table))
        first = (
            counts if isinstance(counts, TimedCounts) else next(iter(counts.values()))
        )
        times = tuple(float(t) for t in horizons) or (float(first.cuts[-1]),)
        for time in times:
            table.horizon(time)
        return cls(table, claim, source, times, first.predicts, plan)

    # -- measures ----------------------------------------------------------

    def _horizon(self, time: float | None) -> float:
        """Return a horizon: the only one where none is given."""
        if time is not None:
            return float(time)
        if len(self.horizons) == 1:
            return self.horizons[0]
        if self.predicts is not None:
            return self.predicts
        shown = ", ".join(f"{t:g}" for t in self.horizons)
        raise InputError(f"say at which horizon: {shown}")

    def measure(self, name: str, time: float | None = None) -> Estimate:
        """Return a measure at a horizon.

        A row of :data:`~discreet.metrics.timed_table.TIMED`, or any metric of two classes,
        :data:`~discreet.metrics.table.METRICS`, weighed by the inverse probability of
        censoring.
        """
        at = self._horizon(time)
        self.table.horizon(at)
        known = name in TIMED
        row: Any = TIMED[name] if known else METRICS[name]
        if row.needs_probabilities and (reason := self._no_risk(at)) is not None:
            return Estimate.undefined(reason, row.support)
        if known:
            return self._measured(name, at)
        return class_estimate(row, self.table.at(at))

    def _no_risk(self, time: float) -> str | None:
        """Say why scores are no risk of this event by a horizon, if so."""
        if self.table.edges.scores.kind == "other":
            return "scores of kind 'other' are not probabilities"
        if self.table.cause != 0:
            return "the scores are risks of cause 1"
        if self.predicts is None:
            return "the plan does not say at which horizon the scores are risks"
        if not math.isclose(time, self.predicts):
            return f"the scores are risks by {self.predicts:g}, not by {time:g}"
        return None

    @property
    def risk_horizon(self) -> float | None:
        """The horizon whose risk of this event the scores are, where there is one."""
        known = self.predicts is not None and self._no_risk(self.predicts) is None
        return self.predicts if known else None

    def _measured(self, name: str, time: float) -> Estimate:
        key = (name, time)
        if key not in self._found:
            lost = name == "observed_expected" and self._mean_is_lost
            self._found[key] = (
                Estimate.undefined(_NO_MEAN, TIMED[name].support)
                if lost
                else TIMED[name].measure(self.table, time)
            )
        return self._found[key]

    @cached_property
    def _mean_is_lost(self) -> bool:
        """Whether the noise hides the mean score, by which the O:E ratio divides."""
        mean = mean_predicted(self.table)
        return self.table.refusal is None and mean.value <= mean.noise

    @cached_property
    def _found(self) -> dict[tuple[str, float], Estimate]:
        return {}

    def at(self, time: float | None = None) -> Mapping[str, Estimate]:
        """Return every measure at a horizon by name, each computed when it is used."""
        at = self._horizon(time)
        return Measured(
            [n for n in TIMED if n not in _OVERALL],
            lambda name: self.measure(name, at),
            known=(*TIMED, *METRICS),
        )

    def auc(self, time: float | None = None) -> Estimate:
        """Return the cumulative/dynamic AUC at a horizon."""
        return self.measure("auc", time)

    def brier(self, time: float | None = None) -> Estimate:
        """Return the Brier score at a horizon."""
        return self.measure("brier", time)

    def observed_risk(self, time: float | None = None) -> Estimate:
        """Return the observed risk by a horizon."""
        return self.measure("observed_risk", time)

    @property
    def concordance(self) -> Estimate:
        """Harrell's concordance, of events up to the last cut."""
        return self._measured("concordance", float(self.table.cuts[-1]))

    @property
    def uno(self) -> Estimate:
        """Uno's concordance, of events up to the last horizon."""
        return self._measured("uno", max(self.horizons))

    @property
    def median_follow_up(self) -> Estimate:
        """The median time to censoring, by the reverse Kaplan-Meier."""
        return median_follow_up(self.table)

    # -- causes --------------------------------------------------------------

    @property
    def causes(self) -> range:
        """The causes of an event, as the data number them: from 1 on."""
        return range(1, self.table.events.shape[1] + 1)

    def for_cause(self, cause: int) -> Self:
        """Return all measures of another cause of the event, from the same release.

        Scores are risks of cause 1, so other causes have no Brier score, O:E ratio,
        calibration or net benefit. The release is verified with the result of cause 1.
        """
        if cause not in self.causes:
            raise InputError(f"causes are numbered from 1 to {self.causes[-1]}")
        return replace(self, table=replace(self.table, cause=int(cause) - 1))

    def by_cause(self, time: float) -> dict[int, dict[str, Estimate]]:
        """Return the observed risk and the AUC of every cause at a horizon."""
        return {
            cause: {name: part.measure(name, time) for name in _OF_A_CAUSE}
            for cause, part in self._of_causes.items()
        }

    @cached_property
    def _of_causes(self) -> dict[int, TimedEvaluation]:
        return {cause: self.for_cause(cause) for cause in self.causes}

    @property
    def at_risk(self) -> Mapping[float, float]:
        """Examples that are still followed at each cut."""
        counts = self.table.survival.at_risk.sum(0)
        return dict(zip(self.table.cuts.tolist(), counts.tolist(), strict=True))

    @cached_property
    def auc_over_time(self) -> Mapping[float, Estimate]:
        """The cumulative/dynamic AUC at every cut at which it is defined."""
        every = {t: self._measured("auc", t) for t in self.table.cuts[1:].tolist()}
        return {t: e for t, e in every.items() if not math.isnan(e.value)}

    # -- groups of scores ---------------------------------------------------

    def calibration(
        self, time: float | None = None, groups: int | None = None
    ) -> TimedCalibration:
        """Return predicted and observed risk of groups of scores at a horizon."""
        at = self._horizon(time)
        if (reason := self._no_risk(at)) is not None:
            raise InputError(f"no calibration at {at:g}: {reason}")
        return calibration_groups(self.table, at, groups)

    def net_benefit(
        self, time: float | None = None, threshold: float | None = None
    ) -> Any:
        """Return the net benefit at a threshold probability, or the decision curve."""
        at = self._horizon(time)
        if (reason := self._no_risk(at)) is not None:
            raise InputError(f"no net benefit at {at:g}: {reason}")
        if threshold is not None:
            return net_benefit(self.table, at, threshold)
        return self._decision_curve(at)

    def _decision_curve(self, time: float) -> DecisionCurve:
        """Measure at edges up to the score that few exceed, or the plan's thresholds."""
        counts = np.maximum(self.table.by_bin, 0.0)
        reached = np.cumsum(counts) / counts.sum()
        kind = self.table.edges.scores.kind
        places = self.table.edges.array[1:-1]
        if kind == "logit":
            places = 1 / (1 + np.exp(-places))
        inner = places[(reached[:-1] < _MOST_BELOW) & (places > 0) & (places < 1)]
        step = max(1, math.ceil(inner.size / _DECISIONS))
        thresholds = np.unique(np.concatenate([inner[::step], self._planned]))
        return DecisionCurve(
            thresholds,
            tuple(net_benefit(self.table, time, t) for t in thresholds.tolist()),
            tuple(net_benefit_of_all(self.table, time, t) for t in thresholds.tolist()),
        )

    @property
    def _planned(self) -> list[float]:
        """The plan's thresholds that are probabilities, of logits too."""
        planned = () if self.plan is None else self.plan.thresholds
        if self.table.edges.scores.kind == "logit":
            planned = tuple(0.5 + math.tanh(t / 2) / 2 for t in planned)
        return [t for t in planned if 0 < t < 1]

    def kaplan_meier(
        self, groups: int | Sequence[float] = RISK_GROUPS
    ) -> tuple[SurvivalCurve, ...]:
        """Return the survival of groups of scores, the lowest first.

        ``groups`` is how many groups of about equal size there are, or the scores that
        part them; 1 is everybody.
        """
        table, edges = self.table, self.table.edges.array
        if isinstance(groups, int | np.integer):
            shares = groups_of(table, int(groups))
            ends = [edges[np.flatnonzero(s)[0]] for s in shares[1:]]
        else:
            ends = _parting_scores(groups)
            shares = groups_between(table, ends)
        names = _group_names([float(end) for end in ends])
        pairs = zip(names, shares, strict=True)
        return tuple(survival_curve(table, name, share) for name, share in pairs)

    # -- for readers and programs --------------------------------------------

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know."""
        several = (WITHIN,) if len(self.table.events) > 1 else ()
        cautions = dict.fromkeys(
            e.caution for t in self.horizons for e in self.at(t).values() if e.caution
        )
        assumed = () if INDEPENDENT_CENSORING in self.claim.assumes else (CENSORING,)
        own = (*self._without_risk(), *self._of_one_cause(), *self._undefined())
        return (*self.table.notes, *own, *cautions, *assumed, *several)

    def _undefined(self) -> Iterator[str]:
        """Say why measures that are shown are undefined, each reason once."""
        if self.table.refusal is not None:
            return  # it is the reason of all, and told by itself
        shown = (e for rows in self.tables().values() for e in rows.values())
        for reason in dict.fromkeys(e.unusable for e in shown if math.isnan(e.value)):
            yield f"a measure is undefined: {reason}"

    def _without_risk(self) -> Iterator[str]:
        """Say at which horizons measures of risks are missing, and why."""
        why = {t: reason for t in self.horizons if (reason := self._no_risk(t))}
        if why:
            times = " and ".join(f"{t:g}" for t in why)
            reason = next(iter(why.values())).partition(", not by")[0]
            missing = "there is no Brier score, O:E ratio or calibration"
            alone = not self.source.part and len(why) < len(self.horizons)
            remedy = "; a score column for each horizon gives them" if alone else ""
            yield f"by {times} {missing}: {reason}{remedy}"

    def _of_one_cause(self) -> Iterator[str]:
        """Say which cause is measured, and how the others are."""
        others = [c for c in self.causes if c != self.table.cause + 1]
        if others:
            calls = " and ".join(f"result.for_cause({c})" for c in others)
            yield (
                f"tables that name no cause are of cause {self.table.cause + 1}, where an "
                "event of another cause counts as no event; all measures of another "
                f"cause: {calls}"
            )

    def rows(self, time: float) -> dict[str, Estimate]:
        """Return the measures that are defined at a horizon by their titles."""
        measures = self.at(time)
        risk = self._no_risk(time) is None
        rows = {
            TIMED[name].title: measures[name]
            for name in measures
            if risk or not TIMED[name].needs_probabilities
        }
        for threshold in self._planned if risk else ():
            benefit = net_benefit(self.table, time, threshold)
            rows[f"net benefit at {threshold:.3g}"] = benefit
        return rows

    def overall(self) -> dict[str, Estimate]:
        """Return the measures over all times by their titles."""
        both = {"concordance": self.concordance, "uno": self.uno}
        return {
            TIMED[name].title: e
            for name, e in both.items()
            if len(self.table.events[0]) == 1 or not math.isnan(e.value)
        }

    def tables(self) -> dict[str, dict[str, Estimate]]:
        """Return every table that is shown: measures by their titles, by its heading."""
        last, cut = max(self.horizons), float(self.table.cuts[-1])
        over = f"events up to {last:g}" if last == cut else "over all times"
        shown = {f"event by {t:g}": self.rows(t) for t in self.horizons}
        shown[over] = self.overall()
        if len(self.causes) > 1:
            shown["every cause"] = {
                f"cause {cause}: {TIMED[name].title} by {t:g}": estimate
                for t in self.horizons
                for cause, measures in self.by_cause(t).items()
                for name, estimate in measures.items()
            }
        return shown

    def count_words(self) -> str:
        """Return how many sites took part, and how many examples they hold."""
        noun = "site" if self.source.expected == 1 else "sites"
        about = "" if self.table.exact else "about "
        return (
            f"{self.source.contributors} of {self.source.expected} {noun}, "
            f"{about}{self.table.total:,.0f} examples"
        )

    def to_text(self, *, wide: bool = False) -> str:
        """Return the tables and the claim; wide: the AUC over time and the groups too."""
        return "\n".join([*self._lines(wide=wide), str(self.claim)])

    def _lines(self, *, wide: bool) -> list[str]:
        """Return all lines but the claim."""
        lines = [metric_table(rows, title) for title, rows in self.tables().items()]
        if wide:
            curve = {f"AUC by {t:g}": e for t, e in self.auc_over_time.items()}
            lines.append(metric_table(curve, "over time"))
        if self.table.refusal is not None:
            lines.append(f"Undefined: {self.table.refusal}.")
        else:
            shown, at_risk = [0.0, *self.horizons], self.at_risk
            still = (f"{at_risk[t]:,.0f} at time {t:g}" for t in shown if t in at_risk)
            lines.append(f"Number at risk: {', '.join(still)}; {self._followed()}.")
        lines += [f"Note: {note}." for note in self.notes]
        bins, intervals = len(self.table.edges), len(self.table.cuts) - 1
        size = sum(r.total.size for r in self.source.releases) * 8 / 1024
        lines.append(
            f"{self.count_words()}, {bins} score bins x {intervals} time intervals, "
            f"{size:.1f} KB from each site"
        )
        return lines

    def _followed(self) -> str:
        median = self.median_follow_up
        if math.isnan(median.value):
            return f"median follow-up is beyond {self.table.cuts[-1]:g}"
        return f"median follow-up {median}"

    def __repr__(self) -> str:
        time = max(self.horizons)
        return (
            f"TimedEvaluation(AUC by {time:g} {self.auc(time)}; {self.count_words()}; "
            f"{self.claim.loss}, {self.claim.setting})"
        )

    def _repr_html_(self) -> str:
        from discreet.report.timed_page import notebook  # noqa: PLC0415 - cycle

        return notebook(self)

    @property
    def exports(self) -> TimedExports:  # type: ignore[override]
        """The result for other programs: plain values, rows, tables, the page."""
        from discreet.report.timed_exports import TimedExports  # noqa: PLC0415 - cycle

        return TimedExports({self.source.part: self}, self.claim)

    def to_frame(self) -> Any:
        """Return every measure as a row of a pandas ``DataFrame``."""
        return self.exports.to_frame()

    def plot(  # type: ignore[override]
        self,
        kind: TimedPlot = "km",
        path: str | Path | None = None,
        *,
        time: float | None = None,
        ax: Axes | None = None,
    ) -> Display:
        """Draw the AUC over time, survival by risk group, calibration or decisions."""
        from discreet.report.timed_page import picture  # noqa: PLC0415 - cycle

        return picture(self, kind, time=time, ax=ax, path=path)


_NO_MEAN: Final = (
    "the noise is larger than the mean prediction: use more data, a larger epsilon, or "
    "fewer bins and intervals"
)
_MOST_BELOW: Final = 0.99
"""A decision curve ends at the score that this share of examples lies below."""


def _parting_scores(given: Sequence[float]) -> list[float]:
    try:
        scores = sorted(float(t) for t in given)
    except (TypeError, ValueError):
        scores = [math.nan]
    if not all(map(math.isfinite, scores)):
        raise InputError(
            "groups is how many groups there are, or the scores that part them: 3, or "
            "[0.1, 0.2]"
        )
    return scores


def _group_names(ends: Sequence[float]) -> list[str]:
    if not ends:
        return ["everybody"]
    middle = [f"{a:.3g} to {b:.3g}" for a, b in pairwise(ends)]
    return [f"below {ends[0]:.3g}", *middle, f"{ends[-1]:.3g} or more"]


# -- several ---------------------------------------------------------------------------

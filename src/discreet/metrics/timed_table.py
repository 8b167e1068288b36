r"""The table of measures of follow-up: one row each, at a horizon or over all times.

R is the observed risk by the horizon t: 1 - Kaplan-Meier, or Aalen-Johansen with several
causes. s is a score that predicts the risk by t.

- *Cumulative/dynamic AUC*, *Brier score* and *calibration slope* are those of the two
  weighted classes (:mod:`discreet.metrics.timed`), and so is any other metric of
  :data:`discreet.metrics.table.METRICS`.
- *Scaled Brier score*: :math:`1 - B/(R(1-R))`; the Kaplan-Meier null model, which
  predicts R for everybody, has the Brier score R(1 - R).
- *O:E* is :math:`R/\bar s`, the mean over all examples, censored ones too.
- *Net benefit* at a threshold probability p, with R inside those who score p or more and A
  their share of all (Vickers et al. 2008):
  :math:`A\,\bigl(R_A - (1 - R_A)\,\tfrac{p}{1-p}\bigr)`.

Risks inside groups of scores, above a threshold or between two, are estimated inside
them: there censoring may differ between the groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np

from discreet.arrays import FloatVector
from discreet.errors import InputError
from discreet.estimate.estimate import Binning, Estimate, Interval
from discreet.estimate.intervals import AreaShape, ProportionShape
from discreet.estimate.sub_bins import cell_scores
from discreet.metrics.concordance import concordance
from discreet.metrics.errors import measure
from discreet.metrics.measure import LOGARITHMIC, Measure
from discreet.metrics.table import METRICS, MetricRow
from discreet.metrics.thresholds import shares_above
from discreet.metrics.timed import (
    AtHorizon,
    FollowUp,
    Margins,
    Survival,
    TableSlopes,
)
from discreet.registry import Registry

AtTime: TypeAlias = Callable[[FollowUp, float], Estimate]
"""A measure of a table at a horizon."""
_POSITIVE: Final = Interval(0.0, math.inf)
_REAL: Final = Interval(-math.inf, math.inf)
_BELOW_ONE: Final = Interval(-math.inf, 1.0)
_NO_PROBABILITIES: Final = "scores of kind 'other' are not probabilities"
GROUPS: Final = 10
NOISY_GROUPS: Final = 5
"""Groups of a calibration curve, exact and under noise."""


# -- of two classes ------------------------------------------------------------------


def of_classes(row: MetricRow[Measure], *, event_free: bool = False) -> AtTime:
    """Return a metric of two classes as a measure at a horizon."""

    def estimate(table: FollowUp, time: float) -> Estimate:
        return class_estimate(row, table.at(time, event_free=event_free))

    return estimate


def class_estimate(row: MetricRow[Measure], at: AtHorizon) -> Estimate:
    """Measure the two classes, with errors that know the weights are estimated."""
    fit = at.fit
    found = measure(row, fit)
    if math.isnan(found.value) or found.unusable is not None:
        return found
    along = not row.needs_probabilities
    sampling = at.sampling_sd(row.measure.slopes, along=along)
    noise = 0.0
    if not at.table.exact:
        noise = at.noise_sd(row.measure.slopes(fit.damped))
    shape = found.shape
    if isinstance(shape, AreaShape):
        shape = AreaShape(*(max(n, 1.0) for n in at.seen))
    if not math.isfinite(sampling + noise):
        return Estimate.undefined("its errors cannot be computed", row.support)
    return replace(found, sampling=sampling, noise=noise, shape=shape)


# -- of risks ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GroupSurvival:
    """The survival of a share of each bin, and its slopes in the table's cells."""

    table: FollowUp
    shares: FloatVector
    survival: Survival

    @classmethod
    def of(cls, table: FollowUp, shares: FloatVector | None = None) -> GroupSurvival:
        """Estimate survival inside a group of scores."""
        share = np.ones(len(table.edges)) if shares is None else shares
        margins = table.margins(share)
        return cls(table, share, Survival.of(margins, np.diff(table.cuts)))

    @property
    def size(self) -> float:
        """Examples in the group."""
        return float(self.survival.margins.totals.sum())

    @property
    def at_risk(self) -> FloatVector:
        """Examples still followed at each cut."""
        found: FloatVector = self.survival.at_risk.sum(0)
        return found

    def cells(self, slopes: Margins) -> TableSlopes:
        """Turn slopes in the group's margins into slopes in the cells."""
        return self.table.of_margins(slopes, self.shares)

    def risk(self, h: int) -> tuple[float, TableSlopes]:
        """Return the risk by a cut and its slopes."""
        cause = self.table.cause
        slopes = self.survival.risk_slopes(cause, h)
        return float(self.survival.risks(cause)[h]), self.cells(slopes)

    def followed(self, h: int) -> bool:
        """Whether somebody is still followed at a cut."""
        return bool((self.survival.at_risk[:, h] > 0).all()) and self.size > 0

    def risk_estimate(self, h: int) -> Estimate:
        """Return the risk by a cut as an estimate."""
        if not self.followed(h):
            reason = self.table.unfollowed(h)
            return Estimate.undefined(
                reason or "nobody of this group was followed that long"
            )
        value, slopes = self.risk(h)
        random = Survival.of(self.survival.margins).risks(self.table.cause)[h]
        return _of_slopes(
            self.table,
            value,
            slopes,
            typical=abs(value - float(random)) / 4,
            limits=self._limits(h),
            shape=ProportionShape(1.0, self.size),
        )

    def _limits(self, h: int) -> tuple[float, float] | None:
        """Return the risks if all events of an interval came first, or all censorings."""
        m, before = self.survival.margins, self.survival.at_risk[:, :h]
        if m.events.shape[1] > 1:
            return None
        d, c = m.events[:, 0, :h], m.censored[:, :h]
        sizes, risks = m.totals, []
        for at_risk in (before, before - c):
            safe = np.maximum(at_risk, _SMALLEST)
            alive = np.prod(np.clip(1 - d / safe, 0.0, 1.0), axis=1)
            risks.append(float(((1 - alive) * sizes).sum() / sizes.sum()))
        return risks[0], risks[1]


def _of_slopes(
    table: FollowUp,
    value: float,
    slopes: TableSlopes,
    *,
    typical: float = 0.0,
    limits: tuple[float, float] | None = None,
    support: Interval | None = None,
    **options: Any,
) -> Estimate:
    """Return an estimate with the errors that slopes give."""
    inside = support or Interval(0.0, 1.0)
    low, high = limits or inside
    value = min(max(value, inside.low), inside.high)
    return Estimate(
        value,
        table.sampling_sd(slopes),
        table.noise_of(slopes),
        Binning(min(low, value), max(high, value), typical),
        support=inside,
        **options,
    )


def observed_risk(table: FollowUp, time: float) -> Estimate:
    """Return the risk by a horizon: 1 - Kaplan-Meier, or Aalen-Johansen."""
    if table.refusal is not None:
        return Estimate.undefined(table.refusal)
    return GroupSurvival.of(table).risk_estimate(table.horizon(time))


def _mean_scores(table: FollowUp) -> tuple[FloatVector, FloatVector, FloatVector]:
    """Return each bin's mean score and its two ends, on the probability scale."""
    cells = cell_scores(table.edges)
    return cells.mean(1), cells.min(1), cells.max(1)


def _without_probabilities(table: FollowUp) -> str | None:
    other = table.edges.scores.kind == "other"
    return table.refusal or (_NO_PROBABILITIES if other else None)


def mean_predicted(table: FollowUp) -> Estimate:
    """Return the mean score of all examples."""
    if (reason := _without_probabilities(table)) is not None:
        return Estimate.undefined(reason)
    scores, low, high = _mean_scores(table)
    counts, total = table.by_bin, table.total
    value = float(counts @ scores) / total
    ends = tuple(float(np.maximum(counts, 0.0) @ end) / total for end in (low, high))
    slopes = _by_bin(table, (scores - value) / total)
    return _of_slopes(table, value, slopes, limits=(ends[0], ends[1]))


def _by_bin(table: FollowUp, slopes: FloatVector) -> TableSlopes:
    """Return slopes that depend on the bin alone."""
    return TableSlopes(
        np.broadcast_to(slopes[:, None], table.events.shape),
        np.broadcast_to(slopes[:, None], table.censored.shape),
        np.broadcast_to(slopes, table.beyond.shape),
    )


def observed_expected(table: FollowUp, time: float) -> Estimate:
    """Return observed over predicted risk."""
    if (reason := _without_probabilities(table)) is not None:
        return Estimate.undefined(reason, _POSITIVE)
    group, h = GroupSurvival.of(table), table.horizon(time)
    if (reason := table.unfollowed(h)) is not None:
        return Estimate.undefined(reason, _POSITIVE)
    risk, on_risk = group.risk(h)
    scores, low, high = _mean_scores(table)
    total = table.total
    mean = float(table.by_bin @ scores) / total
    if risk <= table.noise_of(on_risk):  # no logarithm: the risk's ends, over the mean
        return replace(group.risk_estimate(h).scaled(1 / mean), support=_POSITIVE)
    on_mean = _by_bin(table, (scores - mean) / total)
    ends = [float(table.by_bin @ end) / total for end in (high, low)]
    slopes = on_risk.times(1 / mean).plus(on_mean, -risk / mean**2)
    return _of_slopes(
        table,
        risk / mean,
        slopes,
        limits=(risk / ends[0], risk / ends[1] if ends[1] > 0 else math.inf),
        support=_POSITIVE,
        shape=LOGARITHMIC,
    )


# -- decisions -----------------------------------------------------------------------


def net_benefit(table: FollowUp, time: float, threshold: float) -> Estimate:
    """Return the net benefit of treating those at or above a threshold probability."""
    if (reason := _without_probabilities(table)) is not None:
        return Estimate.undefined(reason, _BELOW_ONE)
    if not 0 < threshold < 1:
        raise InputError("a threshold probability lies strictly between 0 and 1")
    place = threshold
    if table.edges.scores.kind == "logit":
        place = math.log(threshold / (1 - threshold))
    shares, least, most = shares_above(table.edges, place)
    value, slopes = _benefit(table, time, threshold, shares)
    if math.isnan(value):
        return Estimate.undefined("nobody above it was followed that long", _BELOW_ONE)
    typical = 0.0
    if (least != most).any():
        ends = [_benefit(table, time, threshold, end)[0] for end in (least, most)]
        typical = float(np.nanmax([abs(value - end) for end in ends])) / 4
    return _of_slopes(table, value, slopes, typical=typical, support=_BELOW_ONE)


def _benefit(
    table: FollowUp, time: float, threshold: float, shares: FloatVector
) -> tuple[float, TableSlopes]:
    odds, h = threshold / (1 - threshold), table.horizon(time)
    group = GroupSurvival.of(table, shares)
    if group.size <= 0:
        return 0.0, table.none
    if not group.followed(h):
        return math.nan, table.none
    risk, on_risk = group.risk(h)
    share = group.size / table.total
    gain = risk - (1 - risk) * odds
    on_share = _by_bin(table, (shares - share) / table.total)
    slopes = on_risk.times(share * (1 + odds)).plus(on_share, gain)
    return share * gain, slopes


def net_benefit_of_all(table: FollowUp, time: float, threshold: float) -> Estimate:
    """Return the net benefit of treating everybody."""
    every = np.ones(len(table.edges))
    value, slopes = _benefit(table, time, threshold, every)
    if math.isnan(value):
        return Estimate.undefined("nobody was followed that long", _BELOW_ONE)
    return _of_slopes(table, value, slopes, support=_BELOW_ONE)


# -- groups --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TimedCalibration:
    """Predicted and observed risk of groups of scores at a horizon."""

    predicted: FloatVector
    observed: tuple[Estimate, ...]
    examples: FloatVector

    @property
    def risk(self) -> FloatVector:
        """The observed risks."""
        return np.array([e.value for e in self.observed])

    @property
    def band(self) -> tuple[FloatVector, FloatVector]:
        """The lower and upper ends of the 95% intervals."""
        ends = np.array([e.interval() for e in self.observed]).reshape(-1, 2)
        return ends[:, 0], ends[:, 1]


def calibration_groups(
    table: FollowUp, time: float, groups: int | None = None
) -> TimedCalibration:
    """Return predicted and observed risk of groups of about equal size."""
    if (reason := _without_probabilities(table)) is not None:
        raise InputError(f"no calibration: {reason}")
    wanted = groups or (GROUPS if table.exact else NOISY_GROUPS)
    scores, h = _mean_scores(table)[0], table.horizon(time)
    predicted, observed, sizes = [], [], []
    for shares in groups_of(table, wanted):
        group = GroupSurvival.of(table, shares)
        weights = np.maximum(table.by_bin, 0.0) * shares
        if weights.sum() <= 0 or not group.followed(h):
            continue
        predicted.append(float(weights @ scores / weights.sum()))
        observed.append(group.risk_estimate(h))
        sizes.append(group.size)
    return TimedCalibration(np.array(predicted), tuple(observed), np.array(sizes))


def groups_of(table: FollowUp, groups: int) -> list[FloatVector]:
    """Cut the bins into groups of about equal size; a bin is in one group.

    Each group ends at the edge where its running count is nearest to its share.
    """
    if groups < 1:
        raise InputError("there is at least one group")
    counts = np.maximum(table.by_bin, 0.0)
    running = np.cumsum(counts) / max(float(counts.sum()), _SMALLEST)
    wanted = np.arange(1, groups) / groups
    ends = [int(np.abs(running - share).argmin()) + 1 for share in wanted]
    places = sorted({0, *ends, len(table.edges)})
    marks = np.arange(len(table.edges))
    return [
        ((marks >= a) & (marks < b)).astype(np.float64)
        for a, b in pairwise(places)
        if b > a
    ]


def groups_between(table: FollowUp, thresholds: Sequence[float]) -> list[FloatVector]:
    """Cut the scores at thresholds."""
    found = (shares_above(table.edges, t)[0] for t in thresholds)
    cuts = [np.ones(len(table.edges)), *found]
    cuts.append(np.zeros(len(table.edges)))
    return [a - b for a, b in pairwise(cuts)]


_SMALLEST: Final = 1e-300
_NOBODY: Final = 1e-9
_SURE: Final = 4.0
"""Standard deviations of its noise by which a number shows that it is not 0."""


@dataclass(frozen=True, eq=False)
class SurvivalCurve:
    """Survival of a group at the cuts, with pointwise 95% bands."""

    name: str
    times: FloatVector
    survival: FloatVector
    """Without the event; with several causes, without this cause's event."""
    low: FloatVector
    high: FloatVector
    at_risk: FloatVector
    events: FloatVector
    """Events of the cause by each cut, counted."""


def survival_curve(
    table: FollowUp, name: str = "", shares: FloatVector | None = None
) -> SurvivalCurve:
    """Return the curve of a group, as far as somebody is followed."""
    group = GroupSurvival.of(table, shares)
    last = [h for h in range(len(table.cuts)) if h == 0 or group.followed(h)]
    risks = [group.risk_estimate(h) for h in last[1:]]
    ends = np.array([(0.0, 0.0), *(e.interval() for e in risks)])
    values = np.array([0.0, *(e.value for e in risks)])
    events = group.survival.margins.events[:, table.cause].sum(0)
    keep = len(last)
    return SurvivalCurve(
        name,
        table.cuts[:keep],
        1 - values,
        1 - ends[:, 1],
        1 - ends[:, 0],
        group.at_risk[:keep],
        np.append(0.0, np.cumsum(events))[:keep],
    )


def median_follow_up(table: FollowUp) -> Estimate:
    """Return the median time to censoring: the reverse Kaplan-Meier.

    Schemper and Smith (1996). Between cuts the logarithm of the curve is a line. Where
    nobody is followed past the interval, the time may be anywhere in it: most of those
    who left may have done so at its end, as when a study closes.
    """
    if table.refusal is not None:
        return Estimate.undefined(table.refusal, _POSITIVE)
    free = _reversed(table)
    group = GroupSurvival.of(free)
    sizes = group.survival.margins.totals
    curve = (group.survival.survival * sizes[:, None]).sum(0) / sizes.sum()
    if not curve[-1] <= 0.5:
        return Estimate.undefined(
            "more than half are followed past the last cut", _POSITIVE
        )
    k = int(np.flatnonzero(curve <= 0.5)[0])
    before, after = float(curve[k - 1]), max(float(curve[k]), _SMALLEST)
    low, high = float(table.cuts[k - 1]), float(table.cuts[k])
    even = (before - 0.5) / (before - after)
    share = math.log(before / 0.5) / math.log(before / after)
    typical = abs(share - even) * (high - low)
    # The error of the curve there, over its slope.
    fall = math.log(before / after) * 0.5 / (high - low)
    if float(group.at_risk[k]) <= _SURE * _noise_at_risk(free, k) + _NOBODY:
        share, typical = even, high - low
        fall = (before - after) / (high - low)
    slopes = group.cells(group.survival.survival_slopes(k)).times(1 / fall)
    return Estimate(
        low + share * (high - low),
        free.sampling_sd(slopes),
        free.noise_of(slopes),
        Binning(low, high, typical),
        support=_POSITIVE,
    )


def _noise_at_risk(table: FollowUp, k: int) -> float:
    """Return the noise in the number of those who are followed past a cut."""
    _, causes, bins, intervals = table.events.shape
    return table.noise_sd * math.sqrt(bins * ((causes + 1) * (intervals - k) + 1))


def _reversed(table: FollowUp) -> FollowUp:
    """Return the table in which censoring is the event."""
    return replace(
        table,
        events=table.censored[:, None],
        censored=table.events.sum(1),
        cause=0,
    )


# -- the table -----------------------------------------------------------------------


def harrell(table: FollowUp, time: float) -> Estimate:
    """Return Harrell's concordance up to a horizon."""
    return concordance(table, time, weighted=False)


def uno(table: FollowUp, time: float) -> Estimate:
    """Return Uno's concordance up to a horizon."""
    return concordance(table, time, weighted=True)


TIMED: Final[Registry[MetricRow[AtTime]]] = Registry("measure of follow-up")
"""Every measure at a horizon, in the order in which they are shown."""
# fmt: off
_ROWS: Final[tuple[MetricRow[AtTime], ...]] = (
    MetricRow("auc", "AUC", of_classes(METRICS["auc"]), "higher",
        "P(s of an event by t > s of one without it by t) + ties/2",
        "Heagerty, Lumley and Pepe 2000; Uno et al. 2007; Hung and Chiang 2010",
        "calibration, and all other horizons"),
    MetricRow("concordance", "Harrell's concordance", harrell, "higher",
        "share of comparable pairs in which the earlier event has the higher score",
        "Harrell, Lee and Mark 1996",
        "that it depends on the censoring: see Uno's"),
    MetricRow("uno", "Uno's concordance", uno, "higher",
        "the same, pairs weighed by 1/G^2",
        "Uno et al. 2011",
        "few late events have large weights where few are still followed"),
    MetricRow("brier", "Brier score", of_classes(METRICS["brier"]), "lower",
        "mean of w (y - s)^2, w the inverse probability of censoring",
        "Graf et al. 1999",
        "the event rate: a rare event has a low score without any model",
        needs_probabilities=True),
    MetricRow("scaled_brier", "scaled Brier score",
        of_classes(METRICS["scaled_brier"]), "higher",
        "1 - Brier/(R(1 - R)), R by Kaplan-Meier",
        "Graf et al. 1999; Steyerberg et al. 2010",
        "how much of it is ranking and how much calibration", _BELOW_ONE,
        needs_probabilities=True),
    MetricRow("observed_risk", "observed risk", observed_risk, None,
        "1 - Kaplan-Meier, or Aalen-Johansen with several causes",
        "Kaplan and Meier 1958; Aalen and Johansen 1978",
        "the model: it is a fact about the people"),
    MetricRow("observed_expected", "O:E ratio", observed_expected, "one",
        "R over the mean score",
        "Debray et al. 2017; Riley et al. 2019",
        "errors that cancel", _POSITIVE, needs_probabilities=True),
    MetricRow("calibration_slope", "calibration slope",
        of_classes(METRICS["calibration_slope"]), "one",
        "b of logit P(y = 1) = a + b logit s, weighed by 1/G",
        "Cox 1958; Austin, Harrell and van Klaveren 2020",
        "its level, and any bend", _REAL, needs_probabilities=True),
)
# fmt: on
for _row in _ROWS:
    TIMED.add(_row.name, _row)
EVENT_FREE: Final = of_classes(METRICS["auc"], event_free=True)
"""The AUC against those free of every cause's event (Blanche et al., definition 1)."""

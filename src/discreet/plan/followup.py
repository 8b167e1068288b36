r"""What is asked about time to event, and how fine its table is: public facts alone.

A table has B score bins, K intervals and, for each pair of them, what ended the follow-up.

*Exact sums.* As with bins of two classes, ten examples are left in each pair of a bin and
an interval, on average: n examples have n/10 pairs. More intervals serve the censoring
weights and the concordance, more bins the areas: K is about :math:`(n/10)^{0.36}`, the
rest goes to bins (``docs/decisions/time-to-event.md`` has the measurements). A finer
table is nearly the rows; it is an explicit choice that a site's policy may decline.

*Under noise* each cell carries noise, and what a measure adds up of a bin are K cells or
so. Cuts are where a horizon is, and halfway in the widest gaps until there are four; more
only where the noise is small beside what wide intervals hide, about
:math:`(s n/100)^{0.36}` for n examples and noise of scale 1/s. The number of bins is that
of two classes under noise that is larger by :math:`\sqrt{K}`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from discreet.data.edges import EdgeRule, Edges
from discreet.data.scores import FARTHEST
from discreet.data.times import MOST_INTERVALS
from discreet.errors import PlanError
from discreet.plan.bins import (
    EXACT_BINS,
    EXAMPLES_A_BIN,
    FEWEST_EXACT_BINS,
    bins_for,
    spread_over,
)
from discreet.plan.cohort import PublicFacts
from discreet.statistic.protocol import Statistic
from discreet.statistic.timed import (
    TimedGroups,
    TimedHistogram,
    TimedHorizons,
    TimedPair,
)

ScoreColumns: TypeAlias = Literal["one", "horizons", "models"]
INDEPENDENT_CENSORING: Final = (
    "whoever leaves without an event is at the same risk as whoever stays (independent "
    "censoring): otherwise the measures are biased, and the privacy still holds"
)
NOISY_INTERVALS: Final = 4
"""Under noise at least so many, unless there are more horizons."""
BLIND_EXAMPLES: Final = 1280
"""An exact sum whose size is not public gets the table of so many examples."""
_POWER: Final = 0.36
_MOST_CHOSEN: Final = 48
_MOST_NOISY: Final = 16
"""Intervals that are chosen at most: for an exact sum, and under noise."""


@dataclass(frozen=True, slots=True)
class FollowUpQuestion:
    """What somebody wants to know about time to event.

    Args:
        horizons: public times, each a cut, at which risks and areas are wanted.
        cuts: all ends of intervals; None chooses them from public facts.
        intervals: how many of them to choose; None leaves that to public facts, too.
        causes: how many kinds of events there are.
        scores: one column; one for the risk by each horizon; or one for each of two
            models.
    """

    horizons: tuple[float, ...]
    cuts: tuple[float, ...] | None = None
    intervals: int | None = None
    causes: int = 1
    scores: ScoreColumns = "one"

    def __post_init__(self) -> None:
        if not self.horizons:
            raise PlanError("time to event needs horizons: name at least one")
        for name, values in (("horizons", self.horizons), ("cuts", self.cuts or ())):
            if not all(0 < t <= FARTHEST for t in values):
                raise PlanError(f"{name} are times above 0, and at most {FARTHEST:g}")
            if list(values) != sorted(set(values)):
                raise PlanError(f"{name} increase strictly")
        if self.cuts is not None and self.intervals is not None:
            raise PlanError("give cuts or the number of intervals, not both")
        if self.cuts is not None and self.cuts[-1] < self.horizons[-1]:
            raise PlanError("the last cut is not before the last horizon")
        most = MOST_INTERVALS
        if self.intervals is not None and not 1 <= self.intervals <= most:
            raise PlanError(f"there are between 1 and {most:,} intervals")
        if self.scores == "horizons" and len(self.horizons) < 2:
            raise PlanError("a score column for each horizon needs several horizons")

    @classmethod
    def asked(
        cls,
        horizons: Sequence[float] | None,
        cuts: Sequence[float] | None,
        intervals: int | None,
        causes: int,
        columns: int,
        *,
        models: bool = False,
    ) -> FollowUpQuestion:
        """Read what a caller gives; several score columns are one for each horizon.

        With ``models`` they are two models'.
        """
        if horizons is None or not len(horizons):
            raise PlanError(
                "time to event needs horizons, the times at which risks are wanted: "
                "for instance horizons=[365, 1825]"
            )
        wanted = tuple(float(t) for t in horizons)
        ends = None if cuts is None else tuple(float(t) for t in cuts if t != 0)
        if models:
            return cls(wanted, ends or None, intervals, causes, "models")
        if columns not in (1, len(wanted)):
            raise PlanError(
                f"{columns} score columns do not fit {len(wanted)} horizons: give one "
                "score, or one for each horizon in their order"
            )
        scores: ScoreColumns = "one" if columns == 1 else "horizons"
        return cls(wanted, ends or None, intervals, causes, scores)

    @property
    def columns(self) -> int:
        """How many score columns there are: so many cells an example is in."""
        return {"one": 1, "horizons": len(self.horizons), "models": 2}[self.scores]

    def statistic(
        self,
        facts: PublicFacts,
        *,
        rule: EdgeRule | None,
        thresholds: tuple[float, ...],
        groups: tuple[str, ...] | None,
        inverse_scale: float | None,
    ) -> Statistic:
        """Return the table, or tables, that answer the question.

        Args:
            facts: what is known in public.
            rule: how scores are binned; None leaves it to public facts.
            thresholds: they become edges.
            groups: names of disjoint groups.
            inverse_scale: of the noise in a count; None without noise.
        """
        apart = max(len(groups or ()), 1)
        intervals, bins = self._fineness(facts, inverse_scale, apart)
        rule = rule or spread_over(bins, facts)
        edges = Edges.realise(rule, facts.scores, thresholds=thresholds)
        table = TimedHistogram(edges, self._cuts(intervals), self.causes)
        if groups is not None and self.scores != "one":
            raise PlanError("groups and several score columns cannot be combined")
        if groups is not None:
            return TimedGroups(table, groups)
        match self.scores:
            case "one":
                return table
            case "horizons":
                return TimedHorizons(table, self.horizons)
            case "models":
                return TimedPair(table)

    def _fineness(
        self, facts: PublicFacts, inverse_scale: float | None, apart: int
    ) -> tuple[int, int]:
        """Return the numbers of intervals and bins, from public facts alone."""
        given = self.intervals
        if self.cuts is not None:
            given = len({*self.cuts, *self.horizons})
        if inverse_scale is None:
            return exact_table((facts.examples or BLIND_EXAMPLES) // apart, given)
        known = inverse_scale * (facts.examples or 0) / apart
        wanted = min(round((known / 100) ** _POWER) - 1, _MOST_NOISY)
        intervals = given or max(NOISY_INTERVALS, len(self.horizons), wanted)
        return intervals, bins_for(facts, inverse_scale / math.sqrt(intervals))

    def _cuts(self, intervals: int) -> tuple[float, ...]:
        """Return the cuts: all horizons, and halfway in the widest gaps."""
        cuts = {0.0, *self.horizons, *(self.cuts or ())}
        while self.cuts is None and len(cuts) - 1 < intervals:
            values = sorted(cuts)
            gaps = [b - a for a, b in pairwise(values)]
            widest = gaps.index(max(gaps))
            middle = values[widest] + gaps[widest] / 2
            if middle in cuts:  # horizons so close that no float lies between
                break
            cuts.add(middle)
        return tuple(sorted(cuts))


def exact_table(examples: int, intervals: int | None = None) -> tuple[int, int]:
    """Return how many intervals and bins leave ten examples in each pair of them.

    >>> [exact_table(n) for n in (400, 4000, 100_000)]
    [(3, 10), (8, 44), (27, 357)]
    """
    pairs = examples / EXAMPLES_A_BIN
    chosen = intervals or min(max(round(pairs**_POWER) - 1, 2), _MOST_CHOSEN)
    bins = int(pairs / (chosen + 1))
    return chosen, min(max(bins, FEWEST_EXACT_BINS), EXACT_BINS)


def check_horizons(horizons: tuple[float, ...], statistic: Statistic) -> None:
    """Refuse a plan whose horizons are no cuts of its table."""
    cuts = statistic.time_cuts
    if cuts is None and not horizons:
        return
    if cuts is None:
        raise PlanError("horizons are for time to event, and the plan counts labels")
    if not horizons or not {*horizons} <= {*cuts.values[1:]}:
        raise PlanError("a plan of time to event has horizons, and each is a cut")
    if list(horizons) != sorted(set(horizons)):
        raise PlanError("horizons increase strictly")

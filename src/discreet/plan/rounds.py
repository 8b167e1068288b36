"""Rounds: one statistic each, its share of the budget, and its release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, TypeAlias

import numpy as np

from discreet.arrays import IntVector
from discreet.data.edges import EdgeRule, Edges, Uniform
from discreet.errors import PlanError, ReleaseError
from discreet.plan.bins import bins_for, default_thresholds, minority_of, spread_over
from discreet.plan.cohort import PublicFacts
from discreet.plan.followup import FollowUpQuestion
from discreet.plan.heterogeneity import HeterogeneityQuestion
from discreet.privacy.loss import Loss
from discreet.privacy.unit import Unit
from discreet.statistic.adaptive import EquiDepthFrom, PlacedFrom
from discreet.statistic.hierarchy import Hierarchy
from discreet.statistic.histogram import ClassHistogram, Grouped
from discreet.statistic.multiclass import OneVsOne, OneVsRest
from discreet.statistic.multilabel import MultiLabel
from discreet.statistic.protocol import Statistic
from discreet.statistic.weighted import Weighted

Multiclass: TypeAlias = Literal["ovr", "ovo"]

_TREE_SHARE: Final = Fraction(1, 5)
"""Share of the budget that finds out where scores of any range are."""
_BRANCHING: Final = 64
_PILOT_CELLS: Final = 64
_PILOT: Final = 60.0
_LEAST_PILOT, _MOST_PILOT = 5, 20
"""Inverse noise scale of the smaller class that a pilot on the logit scale needs, and its
least and most percent of the budget; the least suffices where the size is not known."""


@dataclass(frozen=True, slots=True)
class Round:
    """One statistic and its share of the budget."""

    statistic: Statistic
    budget: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True)
class ResolvedRound:
    """A round as a site carries it out: the statistic, and what it costs."""

    index: int
    statistic: Statistic
    loss: Loss


@dataclass(frozen=True, slots=True)
class Question:
    """What somebody wants to know, before a privacy model says how.

    Args:
        facts: what is known in public.
        thresholds: decision thresholds, which become edges; None for the usual one.
        edges: how scores are binned; None leaves it to the model.
        classes: names of the classes of a multi-class problem.
        multiclass: each class against the rest, or also pairs of classes.
        groups: names of disjoint groups.
        heterogeneity: what to say of how sites differ, if anything.
        max_weight: the largest weight of an example, where examples have weights.
        pilot: whether a pilot round estimates where the scores lie and places the bins.
        followup: what is asked about time to event, if that is counted.
        labels: names of the labels of examples that have several.
    """

    facts: PublicFacts
    thresholds: tuple[float, ...] | None = None
    edges: EdgeRule | None = None
    classes: tuple[str, ...] | None = None
    multiclass: Multiclass = "ovr"
    groups: tuple[str, ...] | None = None
    heterogeneity: HeterogeneityQuestion | None = None
    max_weight: int | None = None
    pilot: bool = False
    followup: FollowUpQuestion | None = None
    labels: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.followup is not None and (self.classes or self.heterogeneity):
            raise PlanError(
                "time to event is measured without classes, and how sites differ is "
                "asked of two classes: ask for these in a plan of their own"
            )
        if self.classes is not None and self.groups is not None:
            raise PlanError("classes and groups cannot be combined in one plan")
        if self.labels is not None and (
            self.classes is not None
            or self.groups is not None
            or self.heterogeneity is not None
        ):
            raise PlanError(
                "several labels have two classes each, without groups and without how "
                "sites differ: ask for these in a plan of their own"
            )
        if self.heterogeneity is not None and (self.classes or self.groups):
            raise PlanError("how sites differ is asked of two classes and no groups")
        if self.max_weight is not None and not self._plain:
            raise PlanError(
                "weights are added up of two classes, without groups, without time to "
                "event and without how sites differ: ask for these in a plan of their own"
            )
        if self.pilot and (self.edges is not None or not self.binary):
            raise PlanError(
                "a pilot round places the bins of two classes, without weights, groups, "
                "time to event, how sites differ, or edges of one's own"
            )

    @property
    def binary(self) -> bool:
        """Whether two classes are counted, and nothing else."""
        return self._plain and self.max_weight is None

    @property
    def _plain(self) -> bool:
        told_apart = (
            *(self.classes, self.groups, self.heterogeneity),
            *(self.followup, self.labels),
        )
        return all(each is None for each in told_apart)

    @property
    def cuts(self) -> tuple[float, ...]:
        """The thresholds, or one half on the scores' own scale; none of follow-up."""
        if self.thresholds is None and self.followup is not None:
            return ()
        if self.thresholds is None:
            return default_thresholds(self.facts.scores)
        return self.thresholds

    @property
    def cells(self) -> int:
        """How many counts one example enters, or how much it may add to one."""
        if self.max_weight is not None:
            return self.max_weight
        if self.followup is not None:
            return self.followup.columns
        return len(self.classes or self.labels or ("",))

    def statistic(self, rule: EdgeRule, unit: Unit | None = None) -> Statistic:
        """Return what is counted over these bins, to protect a unit."""
        edges = Edges.realise(rule, self.facts.scores, thresholds=self.cuts)
        if self.classes is not None:
            kind = OneVsRest if self.multiclass == "ovr" else OneVsOne
            return kind(edges, self.classes)
        if self.labels is not None:
            return MultiLabel(edges, self.labels)
        if self.groups is not None:
            return Grouped(ClassHistogram(edges), self.groups)
        if self.heterogeneity is not None:
            return self.heterogeneity.statistic(ClassHistogram(edges), unit)
        if self.max_weight is not None:
            return Weighted(ClassHistogram(edges), self.max_weight, unit is None)
        return ClassHistogram(edges)


def two_rounds(question: Question, inverse_scale: float) -> tuple[Round, ...] | None:
    """Return a pilot round and counts where it saw scores; None if none is needed.

    A range that nothing public describes always needs one.
    """
    facts = question.facts
    if question.edges is not None or not question.binary:
        return None
    if facts.scores.kind == "other":
        leaves = Edges.realise(Uniform(_BRANCHING**2), facts.scores)
        tree = Hierarchy(leaves, _BRANCHING)
        bins = bins_for(facts, inverse_scale * 0.8)
        adaptive = EquiDepthFrom(tree, bins, question.cuts)
        return (Round(tree, _TREE_SHARE), Round(adaptive, 1 - _TREE_SHARE))
    if not question.pilot:
        return None
    minority = minority_of(facts)
    percent = (
        _LEAST_PILOT if minority is None else 100 * _PILOT / (inverse_scale * minority)
    )
    share = Fraction(min(max(math.ceil(percent), _LEAST_PILOT), _MOST_PILOT), 100)
    rule = spread_over(_PILOT_CELLS, facts)
    pilot = ClassHistogram(Edges.realise(rule, facts.scores, thresholds=question.cuts))
    bins = bins_for(facts, inverse_scale * (1 - float(share)), placed=True)
    return (
        Round(pilot, share),
        Round(PlacedFrom(pilot, bins, question.cuts), 1 - share),
    )


@dataclass(frozen=True, eq=False)
class Release:
    """The revealed total of one round, and what it cost.

    Everything in an evaluation is a function of the plan and its releases; no
    example is read again. ``members`` are the numbers of the sites of a random
    group, when the total is that group's and not everybody's.
    """

    plan_digest: bytes
    session: bytes
    round: int
    total: IntVector
    contributors: int
    expected: int
    loss: Loss
    members: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.total.ndim != 1 or self.total.dtype != np.int64:
            raise ReleaseError("a released total is a vector of 64-bit integers")
        if not 0 <= self.contributors <= self.expected:
            raise ReleaseError("there cannot be more contributors than expected sites")
        frozen = self.total.copy()
        frozen.flags.writeable = False
        object.__setattr__(self, "total", frozen)


def one_release(releases: Sequence[Release], digest: bytes, rounds: int) -> Release:
    """Return the last round's release after checking that all belong to the plan."""
    if [r.round for r in releases] != list(range(rounds)):
        raise ReleaseError(f"the plan has {rounds} rounds, in order, one release each")
    for release in releases:
        if release.plan_digest != digest:
            raise ReleaseError("this release was made under another plan")
        if release.session != releases[0].session:
            raise ReleaseError("the releases come from different sessions")
    return releases[-1]

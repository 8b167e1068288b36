"""The plan: what is asked, of whom, under which privacy. Public and agreed.

Nothing here sees examples: ``recommend`` chooses from ``PublicFacts`` by written rules, and
the plan records what they chose. Sites check by its digest that they talk about the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Self

import numpy as np

from discreet.codec.documents import canonical, typed, written
from discreet.codec.parsing import name, whole
from discreet.data.edges import EdgeRule
from discreet.data.labels import LabelCode
from discreet.data.scores import FARTHEST
from discreet.data.scoring import ModelFile, Scoring
from discreet.errors import PlanError
from discreet.metrics.table import DEFAULT_METRICS, METRICS, Metric
from discreet.plan.bins import LoneExamples
from discreet.plan.cohort import Cohort, PublicFacts, Roster
from discreet.plan.followup import (
    INDEPENDENT_CENSORING,
    FollowUpQuestion,
    check_horizons,
)
from discreet.plan.heterogeneity import HeterogeneityQuestion
from discreet.plan.privacy_model import PrivacyModel
from discreet.plan.protocol import SessionProtocol
from discreet.plan.rounds import Multiclass, Question, Release, ResolvedRound, Round
from discreet.privacy.claim import Claim, Setting, Trust
from discreet.privacy.loss import fraction_of
from discreet.privacy.unit import Unit
from discreet.statistic.protocol import Statistic
from discreet.vocabulary import understood

VERSION: Final = 1
MOST_CELLS: Final = 2**24
"""Counts of one round: more are no plan for people."""
_MOST_ROUNDS: Final = 8
LONGEST_PURPOSE: Final = 200
_DIGEST: Final = re.compile("sha256:[0-9a-f]{64}")
UNAUTHENTICATED: Final = (
    "unauthenticated sites: without a roster nobody proves which sites took part"
)


@dataclass(frozen=True, slots=True)
class ModelRef:
    """Which classifier is measured, and whether each site scores its rows with it."""

    name: str = ""
    digest: str = ""
    scoring: Scoring | None = field(default=None, metadata=written(left_out=True))
    """How its file makes the scores; None where each site has a column of scores."""

    def __post_init__(self) -> None:
        name(self.name, "a model's name")
        name(self.digest, "a model's digest")
        if self.scoring and self.digest and not _DIGEST.fullmatch(self.digest):
            raise PlanError("a model file's digest is written sha256:HEX")

    @classmethod
    def of(cls, model: ModelFile, code: LabelCode, *, called: str = "") -> Self:
        """Name a model file that each site scores its rows with."""
        return cls(called or model.name, model.digest, model.scoring(code))

    def origin(self) -> str | None:
        """Say where the scores come from; None where they are a column of each site."""
        if self.scoring is None:
            return None
        if not self.digest:
            return (
                "the scores come from a Python object in this process, not from a file"
            )
        return f"all rows were scored at their site by the model file {self.digest}"


@dataclass(frozen=True)
class Plan:
    """The public, agreed parameters of one evaluation.

    Made by ``discreet.recommend`` from public facts, or read from a file.
    """

    privacy: PrivacyModel
    rounds: tuple[Round, ...]
    thresholds: tuple[float, ...] = ()
    metrics: frozenset[Metric] = frozenset(DEFAULT_METRICS)
    facts: PublicFacts = field(default_factory=PublicFacts)
    cohort: Cohort = field(default_factory=Cohort)
    model: ModelRef = field(default_factory=ModelRef)
    version: int = VERSION
    roster: Roster | None = field(default=None, metadata=written(left_out=True))
    rehearsal: bool = field(default=False, metadata=written(left_out=True))
    """Whether made-up data is counted: another plan, with another digest."""
    purpose: str = field(default="", metadata=written(left_out=True))
    """What the result is for, in one line: sites record it with each charge."""
    horizons: tuple[float, ...] = field(default=(), metadata=written(left_out=True))
    """Of time to event: the times at which risks are wanted, each a cut."""

    def __post_init__(self) -> None:
        if type(self.version) is not int or self.version != VERSION:
            raise PlanError(f"this discreet reads plans of version {VERSION}")
        object.__setattr__(self, "cohort", self.privacy.counted(self.cohort))
        object.__setattr__(self, "privacy", self.privacy.agreed())
        if not 1 <= len(self.rounds) <= _MOST_ROUNDS:
            raise PlanError(f"a plan has between 1 and {_MOST_ROUNDS} rounds")
        for r in self.rounds:
            whole(r.statistic.size, "the size of a statistic", most=MOST_CELLS)
        if sum(r.budget for r in self.rounds) != 1 or any(
            r.budget <= 0 for r in self.rounds
        ):
            raise PlanError("the rounds' shares of the budget are positive, in all 1")
        self._check_statistics()
        low, high = self.facts.scores.low, self.facts.scores.high
        low, high = max(low, -FARTHEST), min(high, FARTHEST)
        if any(not low <= t <= high for t in self.thresholds):
            raise PlanError(f"thresholds lie in the scores' range {self.facts.scores}")
        if not self.metrics <= set(METRICS):
            raise PlanError(f"metrics are {', '.join(METRICS)}")
        if "brier" in self.metrics and self.facts.scores.kind == "other":
            raise PlanError("the Brier score needs probabilities or logits")
        name(self.purpose, "a plan's purpose", most=LONGEST_PURPOSE)
        if type(self.rehearsal) is not bool:
            raise PlanError("a plan is a rehearsal, or it is not: true or false")
        if self.roster and len(self.roster.sites) < self.cohort.least_sites:
            raise PlanError(
                f"the roster names {len(self.roster.sites)} sites, and the cohort asks "
                f"for at least {self.cohort.least_sites} survivors"
            )

    def _check_statistics(self) -> None:
        before: Statistic | None = None
        for r in self.rounds:
            if any(e.scores != self.facts.scores for e in r.statistic.binnings):
                raise PlanError("the edges are made for another range of scores")
            follows = r.statistic.follows
            if follows is not None and follows != before:
                raise PlanError("edges that a pilot round places follow that round")
            before = r.statistic
        check_horizons(self.horizons, self.statistic)
        self.privacy.accepts(self.rounds, self.cohort)
        if self.cohort.random_groups > 1 and (
            not self.protocol.masked or len(self.rounds) != 1
        ):
            raise PlanError(
                "random groups are for plans of one round whose answers are summed: "
                "give edges, or use SecureAggregation or DistributedDP"
            )
        if self.cohort.random_groups > 1 and self.horizons:
            raise PlanError(
                "random groups of sites are compared on two classes, and this plan "
                "counts time to event: leave out the random groups"
            )
        names = {member.name for member in self.roster.sites} if self.roster else set()
        told_apart = set(self.statistic.told_apart)
        if names and self.privacy.protects is None and names <= told_apart:
            raise PlanError(
                "one row per site would reveal every site's own exact counts, which "
                f"{self.privacy.name} exists to hide: plan with noise, or without groups"
            )

    def rehearsed(self) -> Plan:
        """Return the plan as it is rehearsed."""
        return replace(self, rehearsal=True)

    @property
    def statistic(self) -> Statistic:
        """The statistic of the last round, from which the metrics are estimated."""
        return self.rounds[-1].statistic

    def resolve(self, i: int, earlier: Sequence[Release]) -> ResolvedRound:
        """Work out round i from the plan and the earlier releases alone."""
        if len(earlier) != i:
            raise PlanError(f"round {i} follows {i} releases, got {len(earlier)}")
        statistic = self.rounds[i].statistic
        if statistic.follows is not None:
            statistic = statistic.resolve(earlier[-1].total.astype(np.float64))
        loss = fraction_of(self.privacy.loss, self.rounds[i].budget)
        return ResolvedRound(i, statistic, loss)

    def canonical(self) -> bytes:
        """Return the one byte string of this plan: sorted JSON, floats in hex.

        It covers the realised edges, not only the rule that made them.
        """
        document = typed(self) | {"discreet": "plan"}
        del document["type"]
        return canonical(document)

    @cached_property
    def _digest(self) -> bytes:
        return hashlib.sha256(self.canonical()).digest()

    def digest(self) -> bytes:
        """Return the SHA-256 of the canonical bytes; worked out once."""
        return self._digest

    def asked(self) -> bytes:
        """Return a digest of what is counted, whatever the plan calls it.

        Names, facts, metrics, roster, privacy and the rule behind the edges do not
        count: a plan that differs in these only asks the same question again.
        """
        return self._asked

    @cached_property
    def _asked(self) -> bytes:
        counted = [_without_rules(typed(r.statistic)) for r in self.rounds]
        document = {"discreet": "asked", "rounds": counted}
        return hashlib.sha256(canonical(document)).digest()

    def lone_examples(self) -> LoneExamples | None:
        """Return how many cells of an exact sum show one example; None under noise."""
        if self.privacy.protects is not None:
            return None
        return LoneExamples.of(self.statistic, self.facts, self.cohort.random_groups)

    @cached_property
    def protocol(self) -> SessionProtocol:
        """How the answers travel."""
        return self.privacy.protocol(self.statistic)

    def claim(self, setting: Setting, *, sites: int) -> Claim:
        """Return what this plan promises when ``sites`` sites are in every sum."""
        if setting == "own data" and not self.rehearsal:
            loss = self.privacy.loss
            return Claim(None, loss, Trust.OWN_DATA, False, setting, (), ())
        if self.rehearsal:
            setting = "REHEARSAL"
        trust, assumes = self.privacy.trust, self.privacy.assumptions(self.cohort)
        if self.roster is not None and trust is Trust.SUM_ONLY:
            trust = Trust.SIGNED_SUM_ONLY
            assumes = ("the roster's keys are the sites' own", *assumes)
        if self.horizons:
            assumes = (*assumes, INDEPENDENT_CENSORING)
        if (origin := self.model.origin()) is not None:
            assumes = (origin, *assumes)
        assumes = (*assumes, *self.protocol.assumptions(self, sites))
        caveats = self.privacy.caveats(sites)
        if (alone := self.lone_examples()) is not None:
            caveats = (*caveats, str(alone))
        if (
            setting == "deployed"
            and self.roster is None
            and self.protocol.between_sites
        ):
            caveats = (*caveats, UNAUTHENTICATED)
        discloses = self.protocol.disclosures(self, sites)
        if (groups := self.cohort.random_groups) > 1:
            seen = f"the sum of each of {groups} random groups of sites"
            discloses = (*discloses, seen)
        if told_apart := self.statistic.told_apart:
            discloses = (*discloses, rows_apart(told_apart, self.privacy.protects))
        return Claim(
            unit=self.privacy.protects,
            loss=self.privacy.loss,
            trust=trust,
            computational=self.privacy.computational,
            setting=setting,
            discloses=discloses,
            not_protected=caveats,
            assumes=assumes,
        )


def rows_apart(names: Sequence[str], unit: Unit | None) -> str:
    """Say that each group or site has a row of its own, and what all rows cost."""
    seen = f"a row of counts for each of {len(names)} declared groups, and their sum"
    if unit is None:
        return seen
    return (
        f"{seen}: an example is in one row, and the pooled row is computed from the "
        "rows, so that all of them together have the loss above"
    )


def _without_rules(plain: Any) -> Any:
    """Leave out by which rule edges were made; their values are there."""
    if isinstance(plain, dict):
        return {k: _without_rules(v) for k, v in plain.items() if k != "rule"}
    return plain


@understood
def recommend(  # noqa: PLR0913 - every public choice is a keyword
    facts: PublicFacts,
    privacy: PrivacyModel,
    *,
    thresholds: Sequence[float] | None = None,
    edges: EdgeRule | None = None,
    classes: Sequence[str] | None = None,
    multiclass: Multiclass = "ovr",
    groups: Sequence[str] | None = None,
    heterogeneity: HeterogeneityQuestion | None = None,
    max_weight: int | None = None,
    pilot: bool = False,
    followup: FollowUpQuestion | None = None,
    labels: Sequence[str] | None = None,
    cohort: Cohort | None = None,
    model: ModelRef | ModelFile | None = None,
) -> Plan:
    """Choose a plan from public facts. It never sees examples.

    With a ``ModelFile`` each site scores its rows with that very file.

    >>> from discreet import DistributedDP, SecureAggregation
    >>> plan = recommend(PublicFacts(), SecureAggregation())
    >>> len(plan.statistic.edges), plan.thresholds
    (129, (0.5,))
    >>> facts = PublicFacts(examples=32_000, prevalence=0.25)
    >>> len(recommend(facts, DistributedDP(epsilon=1)).statistic.edges)
    67
    >>> [float(r.budget) for r in recommend(facts, DistributedDP(1), pilot=True).rounds]
    [0.05, 0.95]
    """
    if isinstance(model, ModelFile):
        if facts.scores != model.scores:
            raise PlanError(
                f"the model's scores are of kind {model.scores.kind} in {model.scores}: "
                "say so in PublicFacts(scores=model.scores)"
            )
        code = LabelCode(classes=None if classes is None else tuple(classes))
        model = ModelRef.of(model, code)
    question = Question(
        facts,
        None if thresholds is None else tuple(float(t) for t in thresholds),
        edges,
        None if classes is None else tuple(classes),
        multiclass,
        None if groups is None else tuple(groups),
        heterogeneity,
        max_weight,
        pilot,
        followup,
        None if labels is None else tuple(labels),
    )
    return planned(question, privacy, cohort=cohort, model=model)


def planned(
    question: Question,
    privacy: PrivacyModel,
    *,
    cohort: Cohort | None = None,
    model: ModelRef | None = None,
) -> Plan:
    """Let a privacy model say which rounds answer a question."""
    # Before the model is agreed on: then it has no number of its own any more.
    cohort = privacy.counted(cohort or privacy.cohort())
    agreed = privacy.agreed()
    metrics: frozenset[Metric] = frozenset(DEFAULT_METRICS)
    if question.facts.scores.kind == "other":
        metrics -= {"brier"}
    horizons: tuple[float, ...] = ()
    if question.followup is not None:  # its measures are one list, all of them
        metrics, horizons = frozenset(), question.followup.horizons
    return Plan(
        privacy=agreed,
        rounds=agreed.rounds(question, cohort),
        thresholds=question.cuts,
        metrics=metrics,
        facts=question.facts,
        cohort=cohort,
        model=model or ModelRef(),
        horizons=horizons,
    )

"""The plan: what is asked, of whom, under which privacy. Public and agreed.

Nothing here sees examples: defaults come from ``PublicFacts``, and sites check
that they talk about the same plan by its digest.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np

from discreet.data.edges import Edges
from discreet.data.scores import ScoreRange
from discreet.errors import PlanError
from discreet.models.privacy_models import DistributedDP, LabelDP, LocalDP, PrivacyModel
from discreet.plan.release import Release
from discreet.plan.roster import Roster
from discreet.privacy.claim import Claim, Setting, Trust
from discreet.privacy.loss import Loss, decimal_text, fraction_of
from discreet.statistic import (
    ClassHistogram,
    EquiDepthFrom,
    Grouped,
    Hierarchy,
    OneVsOne,
    OneVsRest,
    Paired,
    Statistic,
)

VERSION: Final = 1

Metric: TypeAlias = Literal["auc", "average_precision", "aupr", "brier"]
METRICS: Final[tuple[Metric, ...]] = get_args(Metric)
PlannedStatistic: TypeAlias = (
    ClassHistogram | OneVsRest | OneVsOne | Grouped | Paired | Hierarchy | EquiDepthFrom
)


@dataclass(frozen=True, slots=True)
class ModelRef:
    """Which classifier is measured, so that two runs can be told apart."""

    name: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class PublicFacts:
    """What is known without looking: rough size, rough prevalence, kind of scores."""

    examples: int | None = None
    prevalence: float | None = None
    scores: ScoreRange = field(default_factory=ScoreRange)

    def __post_init__(self) -> None:
        if self.examples is not None and self.examples < 1:
            raise PlanError("the expected number of examples must be positive")
        if self.prevalence is not None and not 0 < self.prevalence < 1:
            raise PlanError("the expected prevalence lies strictly between 0 and 1")


@dataclass(frozen=True, slots=True)
class Cohort:
    """Who must take part for the sum to be opened."""

    min_survivors: int = 1
    colluders: int = 0
    min_examples_per_site: int = 0

    def __post_init__(self) -> None:
        if self.min_survivors < 1:
            raise PlanError("at least one site must survive")
        if not 0 <= self.colluders < self.min_survivors:
            raise PlanError("colluders must be fewer than the surviving sites")
        if self.min_examples_per_site < 0:
            raise PlanError("the floor of examples a site cannot be negative")


@dataclass(frozen=True, slots=True)
class Round:
    """One statistic and its share of the budget."""

    statistic: PlannedStatistic
    budget: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True)
class ResolvedRound:
    """A round as a site carries it out: the statistic, and what it costs."""

    index: int
    statistic: Statistic
    loss: Loss


@dataclass(frozen=True)
class Plan:
    """The public, agreed parameters of one evaluation.

    Made by ``discreet.recommend`` from public facts, or read from a file.
    """

    privacy: PrivacyModel
    rounds: tuple[Round, ...]
    thresholds: tuple[float, ...] = ()
    metrics: frozenset[Metric] = frozenset(METRICS)
    facts: PublicFacts = field(default_factory=PublicFacts)
    cohort: Cohort = field(default_factory=Cohort)
    model: ModelRef = field(default_factory=ModelRef)
    version: int = VERSION
    roster: Roster | None = None

    def __post_init__(self) -> None:
        if self.version != VERSION:
            raise PlanError(f"this discreet reads plans of version {VERSION}")
        if not self.rounds:
            raise PlanError("a plan has at least one round")
        if sum(r.budget for r in self.rounds) != 1 or any(
            r.budget <= 0 for r in self.rounds
        ):
            raise PlanError("the rounds' shares of the budget are positive, in all 1")
        self._check_statistics()
        low, high = self.facts.scores.low, self.facts.scores.high
        if any(not low <= t <= high for t in self.thresholds):
            raise PlanError(f"thresholds lie in the scores' range {self.facts.scores}")
        if not self.metrics <= set(METRICS):
            raise PlanError(f"metrics are {', '.join(METRICS)}")
        if "brier" in self.metrics and self.facts.scores.kind == "other":
            raise PlanError("the Brier score needs probabilities or logits")
        if self.roster is not None:
            self._check_roster(len(self.roster.sites))

    def _check_roster(self, sites: int) -> None:
        if sites < self.cohort.min_survivors:
            raise PlanError(
                f"the roster names {sites} sites, and the cohort asks for at least "
                f"{self.cohort.min_survivors} survivors"
            )

    def _check_statistics(self) -> None:
        for i, r in enumerate(self.rounds):
            if any(e.scores != self.facts.scores for e in edges_of(r.statistic)):
                raise PlanError("the edges are made for another range of scores")
            if isinstance(r.statistic, EquiDepthFrom):
                self._check_second_round(i, r.statistic)
        if isinstance(self.privacy, LocalDP) and self.privacy.mechanism != "laplace":
            counted = (
                Hierarchy if self.privacy.mechanism == "levels" else ClassHistogram
            )
            if not isinstance(self.statistic, counted):
                raise PlanError(
                    "one-example local messages count two classes and no groups, over "
                    "a tree for the levels mechanism; use laplace for others"
                )

        if isinstance(self.privacy, LabelDP) and not isinstance(
            self.statistic, ClassHistogram
        ):
            raise PlanError("label privacy counts two classes and no groups")

    def _check_second_round(self, i: int, adaptive: EquiDepthFrom) -> None:
        if i == 0 or self.rounds[i - 1].statistic != adaptive.tree:
            raise PlanError("equi-depth edges follow the round of their own tree")
        if not isinstance(self.privacy, DistributedDP) or self.privacy.delta:
            # An exact first sum would be as fine as the data itself.
            raise PlanError("two rounds need pure distributed differential privacy")

    @property
    def statistic(self) -> PlannedStatistic:
        """The statistic of the last round, from which the metrics are estimated."""
        return self.rounds[-1].statistic

    def resolve(self, i: int, earlier: Sequence[Release]) -> ResolvedRound:
        """Work out round i from the plan and the earlier releases alone."""
        if len(earlier) != i:
            raise PlanError(f"round {i} follows {i} releases, got {len(earlier)}")
        this = self.rounds[i]
        statistic: Statistic
        if isinstance(this.statistic, EquiDepthFrom):
            statistic = this.statistic.resolve(earlier[-1].total.astype(np.float64))
        else:
            statistic = this.statistic
        return ResolvedRound(i, statistic, fraction_of(self.privacy.loss, this.budget))

    def canonical(self) -> bytes:
        """Return the one byte string of this plan: sorted JSON, floats in hex.

        It covers the realised edges, not only the rule that made them.
        """
        document = {"discreet": "plan", **_plain_fields(self)}
        if self.roster is None:
            del document["roster"]
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()

    def digest(self) -> bytes:
        """Return the SHA-256 of the canonical bytes."""
        return hashlib.sha256(self.canonical()).digest()

    def asked(self) -> bytes:
        """Return a digest of what is counted, whatever the plan calls it.

        Names, facts, metrics, roster, privacy and the rule behind the edges do not
        count: a plan that differs in these only asks the same question again.
        """
        counted = [_without_rules(_plain(r.statistic)) for r in self.rounds]
        document = {"discreet": "asked", "rounds": counted}
        text = json.dumps(document, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).digest()

    def claim(self, setting: Setting, *, sites: int) -> Claim:
        """Return what this plan promises when ``sites`` sites take part."""
        cells = sum(r.statistic.size for r in self.rounds)
        counts = "counts" if self.privacy.protects is None else "noisy counts"
        return Claim(
            unit=self.privacy.protects,
            loss=self.privacy.loss,
            trust=self._trust(),
            computational=self.privacy.computational,
            setting=setting,
            discloses=(
                f"the sum over {sites} sites of {cells:,} {counts} of examples",
                "which sites took part",
            ),
            not_protected=self.privacy.caveats(sites),
            assumes=self._assumptions(),
        )

    def _trust(self) -> Trust:
        trust = self.privacy.trust
        signed = self.roster is not None and trust is Trust.SUM_ONLY
        return Trust.SIGNED_SUM_ONLY if signed else trust

    def _assumptions(self) -> tuple[str, ...]:
        assumptions = []
        if self._trust() is Trust.SIGNED_SUM_ONLY:
            assumptions.append("the roster's keys are the sites' own")
        if isinstance(self.privacy, DistributedDP):
            least, colluders = self.cohort.min_survivors, self.cohort.colluders
            told = f"at most {colluders} of them tell" if colluders else ""
            assumptions.append(
                f"at least {least} sites are in the sum, and "
                f"{told or 'none of them tells'} the coordinator a share of the noise"
            )
        return tuple(assumptions)


def edges_of(statistic: PlannedStatistic) -> tuple[Edges, ...]:
    """Return the edges that a statistic counts in."""
    match statistic:
        case Paired(a, b):
            return (a, b)
        case Grouped(inner):
            return (inner.edges,)
        case _:
            return (statistic.edges,)


def _plain_fields(record: Any) -> dict[str, Any]:
    return {f.name: _plain(getattr(record, f.name)) for f in fields(record)}


def _without_rules(plain: Any) -> Any:
    """Leave out by which rule edges were made; their values are there."""
    if isinstance(plain, dict):
        return {k: _without_rules(v) for k, v in plain.items() if k != "rule"}
    return plain


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | str() | int():
            plain: Any = value
        case float():
            plain = value.hex() if math.isfinite(value) else str(value)
        case Fraction():
            plain = decimal_text(value)
        case bytes():
            plain = value.hex()
        case frozenset():
            plain = sorted(value)
        case tuple():
            plain = [_plain(v) for v in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            plain = {"type": type(value).__name__, **_plain_fields(value)}
        case _:
            raise PlanError(f"a plan cannot hold a {type(value).__name__}")
    return plain

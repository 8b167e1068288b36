"""What a plan holds of exact areas: the privacy model, and the rows that are shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.codec.parsing import Amount, exact, whole
from discreet.data.edges import Edges
from discreet.data.examples import Examples
from discreet.entropy import Entropy
from discreet.errors import InputError, PlanError
from discreet.metrics.table import Metric
from discreet.mpc.shares import PARTIES, encode, padded_size
from discreet.noise.mechanism import AdditiveNoise, ExactSum, Mechanism
from discreet.noise.polya import PolyaNoise, PolyaShares
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import ModelRef, Plan
from discreet.plan.privacy_model import PrivacyModel
from discreet.plan.protocol import SessionProtocol
from discreet.plan.rounds import Question, ResolvedRound, Round
from discreet.privacy.claim import Trust
from discreet.privacy.loss import Loss, PureDP, Unbounded
from discreet.privacy.unit import ROW, Sensitivity, Unit
from discreet.statistic.observed import NoiseDistribution, NoisyHistogram
from discreet.statistic.protocol import Statistic

TieRule: TypeAlias = Literal["exact", "none"]
_TITLES: Final[dict[Metric, str]] = {
    "auc": "AUC",
    "average_precision": "average precision",
    "aupr": "AUPR (trapezoid)",
}
AREAS: Final = tuple(_TITLES)
INTERVAL_SUMS: Final = 3
"""Integers that an interval needs beside the AUC: positives, two sums of squares."""
HONEST: Final = 2
"""Compute parties whose noise nobody else knows: one of three may be curious."""
_SEMI_HONEST: Final = (
    "every compute party follows the protocol; one of them may be curious, and share "
    "what it sees with any number of owners"
)


@dataclass(frozen=True, slots=True)
class SharedRows(Statistic):
    """Rows that owners share secretly, and the areas that are revealed of them.

    Rows are not added up: compute parties merge the sorted rows of all owners and
    reveal one integer per area. ``count`` is what one owner shares.

    Args:
        rows: how many rows all owners share, padding included. Public.
        metrics: which areas are revealed, in this order.
    """

    rows: int
    metrics: tuple[Metric, ...] = AREAS

    name: ClassVar[str] = "shared-rows"
    only_for: ClassVar[str | None] = "exact"

    def __post_init__(self) -> None:
        known = len(set(self.metrics)) == len(self.metrics)
        if not (self.metrics and known and set(self.metrics) <= set(AREAS)):
            raise PlanError(f"exact areas are {', '.join(AREAS)}, each once")
        whole(self.rows, "the number of shared rows", least=1)

    @property
    def size(self) -> int:
        """One integer per area."""
        return len(self.metrics)

    @property
    def binnings(self) -> tuple[Edges, ...]:
        """There are no bins: keys tell scores apart to the last bit."""
        return ()

    def count(self, examples: Examples) -> IntVector:
        """Return one owner's words, which leave as shares only."""
        return encode(examples).words

    def sensitivity(self, unit: Unit) -> Sensitivity:
        r"""Return that of the pair :math:`(2U - nm, nM)` that is revealed with noise."""
        if unit != ROW:
            raise PlanError(f"a noisy AUC protects {ROW}, not {unit}")
        l1 = 2 * self.rows - 1
        return Sensitivity(l1, l1 * l1, l1, ROW)

    def parts(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, NoisyHistogram]:
        """Return none: an area holds no histogram (``evaluate.estimates`` reads it)."""
        del counts, noise
        return {}


@dataclass(frozen=True, slots=True)
class ExactAreas(ExactSum):
    """Areas without noise, and the integers that an interval needs."""

    interval_sums: int = 0

    def sent(self, cells: int) -> int:
        """One integer per area, and those for the interval."""
        return cells + self.interval_sums


@dataclass(frozen=True, slots=True)
class PartyNoise(AdditiveNoise):
    r"""The noise of a private AUC: each compute party adds a share, owners add none.

    The two integers are those of the curator's ``pair-count`` mechanism
    (``discreet.curator.weighted_count``), with M the public number of rows:

    .. math:: Q = 2U - nm, \qquad G = nM,

    joint L1 sensitivity :math:`2M - 1` for one row replaced. Both are polynomials of
    secret sums, so the parties need no lookup in a table of weights; the price is up
    to half as much noise again as the best weights would have.

    Shares are Polya shares of discrete Laplace noise of scale
    :math:`(2M-1)/\varepsilon`, sized for **two** honest parties of three: a party that
    tells its share to the analyst takes away nothing that the claim needs. As all
    three add theirs, the noise has 1.5 times that variance.

    >>> PartyNoise(500, Fraction(1)).shares.sensitivity.l1
    999
    """

    rows: int
    epsilon: Fraction

    def __post_init__(self) -> None:
        if self.rows < 2:
            raise InputError("a noisy AUC needs at least 2 rows")

    @property
    def shares(self) -> PolyaShares:
        """What each compute party draws from."""
        sensitivity = SharedRows(self.rows, ("auc",)).sensitivity(ROW)
        return PolyaShares(self.loss(), sensitivity, HONEST)

    def draw(self, *, entropy: Entropy) -> IntVector:
        """Draw one party's share, which it then shares like an owner's data."""
        return self.shares.protect(np.zeros(2, dtype=np.int64), entropy=entropy)

    def sent(self, cells: int) -> int:
        """Two integers are revealed per area."""
        return 2 * cells

    def protect(self, exact: IntVector, *, entropy: Entropy) -> IntVector:
        """Return an owner's rows as they are: they leave as shares only."""
        del entropy
        return exact

    def loss(self) -> PureDP:
        """What one release costs."""
        return PureDP(self.epsilon)

    def noise(self, contributors: int = PARTIES) -> PolyaNoise:
        """Return the noise of all three parties, however many owners there are."""
        del contributors
        return self.shares.noise(PARTIES)


class SecretShares(SessionProtocol):
    """Secret shares among three compute parties, who reveal the areas alone."""

    name: ClassVar[str] = "secret shares"
    between_sites: ClassVar[bool] = False
    instead_of_a_plan: ClassVar[str] = (
        "exact areas are agreed on in a session, not in a plan: use `discreet exact "
        "session`"
    )

    def disclosures(self, plan: Plan, sites: int) -> tuple[str, ...]:
        """What is revealed to the analyst, and what the parties see of sizes."""
        del sites
        model, shared = plan.privacy, shared_rows(plan.rounds)
        if not isinstance(model, ExactMPC):
            raise PlanError("secret shares belong to the privacy model exact")
        if model.epsilon is not None:
            values = "a noisy AUC and a noisy number of positives, to the analyst"
        else:
            names = ", ".join(_TITLES[metric] for metric in shared.metrics)
            more = (
                ", the number of positives and two sums of squares for an interval"
                if model.interval_sums(shared)
                else ""
            )
            values = f"the exact {names}{more}, to the analyst"
        if model.hide_sizes:
            return values, f"padded numbers of examples, {shared.rows:,} in all"
        return values, "how many examples each owner has, to the compute parties"

    def run(self, plan: Plan, sites: Sequence[Examples], *, entropy: Entropy) -> Any:
        """Return the result of a plan, with the three parties in this process."""
        from discreet.mpc.evaluate import run  # noqa: PLC0415 - it knows this model

        return run(plan, sites, entropy=entropy)


@dataclass(frozen=True, slots=True)
class ExactMPC(PrivacyModel):
    """Exact areas of the pooled data; nothing but their values is revealed.

    Owners share scores and labels among three compute parties, who follow the
    protocol and of whom no two collude. Order and curve stay secret. An exact value
    has no differential privacy: who knows all other examples can often tell the last
    one from it, and its digits give the class counts away even where these are secret.

    Args:
        ties: ``exact`` counts tied pairs one half and gives tied scores one
            threshold, as scikit-learn does. ``none`` is the paper's cheaper version:
            it ranks negatives first among equal scores, and is exact only when no two
            scores are equal.
        hide_sizes: pad every owner's rows to one power of two, so that the
            parties do not learn how many examples an owner holds.
        epsilon: with a number, only an AUC with noise of this loss is revealed;
            each compute party adds a share of the noise.
        interval: reveal the number of positives and two sums of squares too, from
            which DeLong's variance gives the AUC its interval. By default wherever
            it can be: with public sizes and without noise.
    """

    ties: TieRule = "exact"
    hide_sizes: bool = False
    epsilon: Amount | None = None
    interval: bool | None = None

    name: ClassVar[str] = "exact"
    trust: ClassVar[Trust] = Trust.COMPUTE_PARTIES
    carried_by: ClassVar[str] = "shares"

    def __post_init__(self) -> None:
        if self.ties not in get_args(TieRule):
            raise PlanError("ties are 'exact' or 'none'")
        able = self.epsilon is None and not self.hide_sizes
        if self.interval is None:
            object.__setattr__(self, "interval", able)
        elif self.interval and not able:
            raise PlanError(
                "an interval needs the class counts, which hidden sizes hide"
                if self.hide_sizes
                else "a noisy AUC has its interval from the noisy counts; sums of "
                "squares would need noise of their own: leave out interval"
            )
        if self.epsilon is None:
            return
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        _ = self.loss  # validates
        if self.hide_sizes:
            raise PlanError(
                "noise is sized by the public number of examples: leave out "
                "hide_sizes, or reveal exact values"
            )

    @property
    def computational(self) -> bool:
        """Sorting uses keyed shuffles that the parties agree on."""
        return True

    @property
    def predictable(self) -> bool:
        """Errors are predicted for histograms only."""
        return False

    @property
    def protects(self) -> Unit | None:
        """One replaced row under noise; no unit is protected by an exact value."""
        return None if self.epsilon is None else ROW

    @property
    def loss(self) -> Loss:
        """An exact value has no bound; it is recorded as such."""
        return Unbounded() if self.epsilon is None else PureDP(exact(self.epsilon))

    def caveats(self, sites: int) -> tuple[str, ...]:
        """What this model does not protect, for this many owners."""
        always = (
            "a compute party that deviates from the protocol, or two that collude",
            "owners that share false data",
        )
        if self.epsilon is not None:
            return (*always, "the same person in several rows")
        few = ("with two owners, each can search for data of the other that fit",)
        value = (
            "the exact values themselves: who knows all examples but one can often "
            "tell that one from them"
        )
        counts = (
            "the class counts, which follow from all digits of an exact AUC and the "
            "number of examples"
        )
        return (
            value,
            *(() if self.interval else (counts,)),
            "two exact values of data that differ by a few examples give these away",
            *(few if sites == 2 else ()),
            *always,
        )

    def assumptions(self, cohort: Cohort) -> tuple[str, ...]:
        """An honest majority of compute parties."""
        del cohort
        return (_SEMI_HONEST,)

    def accepts(self, rounds: Sequence[Round], cohort: Cohort) -> None:
        """Refuse anything but shared rows of owners who all take part."""
        super(ExactMPC, self).accepts(rounds, cohort)
        metrics = shared_rows(rounds).metrics
        if self.epsilon is not None and metrics != ("auc",):
            raise PlanError("only the AUC can be revealed with noise; ask for it alone")

    def interval_sums(self, shared: SharedRows) -> int:
        """Return how many integers are revealed for an interval."""
        return INTERVAL_SUMS if self.interval and "auc" in shared.metrics else 0

    def mechanism_for(self, this: ResolvedRound, cohort: Cohort) -> Mechanism:
        """Owners add nothing; the parties' noise is in what they reveal."""
        del cohort
        shared = _shared(this.statistic)
        if self.epsilon is None:
            return ExactAreas(self.interval_sums(shared))
        return PartyNoise(shared.rows, exact(self.epsilon))

    def rounds(self, asked: Question, cohort: Cohort) -> tuple[Round, ...]:
        """One round with all areas, or with the AUC alone under noise."""
        del cohort
        if not asked.binary:
            raise PlanError(
                "exact areas compare two classes and no groups or weights, and no follow-up"
            )
        if asked.facts.examples is None:
            raise PlanError(
                "exact areas are of a public number of rows: declare the examples"
            )
        return (Round(SharedRows(asked.facts.examples, self.areas)),)

    @property
    def areas(self) -> tuple[Metric, ...]:
        """All areas that can be revealed: the AUC alone under noise."""
        return AREAS if self.epsilon is None else ("auc",)

    def plan_for(self, asked: Question, sites: Sequence[Examples]) -> Plan:
        """Count the rows, which the compute parties learn anyhow, padded if hidden."""
        if asked.thresholds is not None or asked.edges is not None or not asked.binary:
            raise PlanError(
                "exact areas reveal no counts: no thresholds, edges, classes, groups "
                "or weights"
            )
        sizes = [len(site) for site in sites]
        if not any(sizes):
            raise InputError("there are no examples: give a site that has some")
        rows = padded_size(max(sizes)) * len(sizes) if self.hide_sizes else sum(sizes)
        return areas_plan(self, replace(asked.facts, examples=rows), owners=len(sizes))


def shared_rows(rounds: Sequence[Round]) -> SharedRows:
    """Return the only statistic that compute parties compute."""
    (only,) = rounds
    return _shared(only.statistic)


def _shared(statistic: Statistic) -> SharedRows:
    if not isinstance(statistic, SharedRows):
        raise PlanError(
            "compute parties reveal areas of shared rows, not sums of counts; use "
            "SecureAggregation or DistributedDP for a histogram"
        )
    return statistic


def areas_plan(
    model: ExactMPC,
    facts: PublicFacts,
    *,
    owners: int,
    metrics: tuple[Metric, ...] | None = None,
    measured: str = "",
) -> Plan:
    """Return the plan of the areas of all owners' rows, whose number is public.

    ``metrics`` are all areas by default; ``measured`` names the classifier.
    """
    cohort = model.cohort(owners)
    rounds = model.rounds(Question(facts), cohort)
    if metrics is not None:
        rounds = (Round(replace(shared_rows(rounds), metrics=metrics)),)
    return Plan(
        model,
        rounds,
        metrics=frozenset(shared_rows(rounds).metrics),
        facts=facts,
        cohort=cohort,
        model=ModelRef(measured),
    )

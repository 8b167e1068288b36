"""What a plan holds of exact areas: the privacy model, and the rows that are shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import (
    Any,
    ClassVar,
    Final,
    Literal,
    Self,
    TypeAlias,
    get_args,
)

from discreet.arrays import FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.data.examples import Examples
from discreet.entropy import Entropy
from discreet.errors import InputError, PlanError
from discreet.metrics.table import Metric
from discreet.mpc.encode import encode, padded_size
from discreet.noise.mechanism import ExactSum, Mechanism
from discreet.parsing import whole
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import ModelRef, Plan
from discreet.plan.privacy_model import PrivacyModel
from discreet.plan.protocol import SessionProtocol
from discreet.plan.rounds import Question, ResolvedRound, Round
from discreet.privacy.claim import Trust
from discreet.privacy.loss import (
    Amount,
    Loss,
    PureDP,
    Unbounded,
    amount_from_text,
    exact,
)
from discreet.privacy.unit import ROW, Sensitivity, Unit
from discreet.statistic.observed import NoiseDistribution, NoisyHistogram
from discreet.statistic.protocol import Before, Statistic

Ties: TypeAlias = Literal["exact", "none"]
AREAS: Final[tuple[Metric, ...]] = ("auc", "average_precision", "aupr")
SPREAD: Final = 3
"""Integers that an interval needs beside the AUC: positives, two sums of squares."""
_SEMI_HONEST: Final = (
    "every compute party follows the protocol; one of them may be curious, and share "
    "what it sees with any number of owners"
)
_TITLES: Final = {
    "auc": "AUC",
    "average_precision": "average precision",
    "aupr": "AUPR (trapezoid)",
}


@dataclass(frozen=True, slots=True)
class SharedRows(Statistic):
    """Rows that owners cut into shares, and the areas that are opened of them.

    Rows are not added up: compute parties merge the sorted rows of all owners, and
    open one integer an area. So ``count`` is what one owner shares, ``size`` how much is opened.

    Args:
        rows: how many rows all owners share, padding included. Public.
        metrics: which areas are opened, in this order.
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
        """One integer an area."""
        return len(self.metrics)

    @property
    def binnings(self) -> tuple[Edges, ...]:
        """There are no bins: keys tell scores apart to the last bit."""
        return ()

    def count(self, examples: Examples) -> IntVector:
        """Return one owner's words, which leave as shares only."""
        return encode(examples).words

    def sensitivity(self, unit: Unit) -> Sensitivity:
        r"""Return that of the pair :math:`(2U - nm, nM)` that is opened with noise."""
        if unit != ROW:
            raise PlanError(f"a noisy opening protects {ROW}, not {unit}")
        l1 = 2 * self.rows - 1
        return Sensitivity(l1, l1 * l1, l1, ROW)

    def parts(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, NoisyHistogram]:
        """There is no histogram in an opened area; ``exact.read`` reads it."""
        del counts, noise
        return {}

    def table(self) -> dict[str, Any]:
        """Return what a plan's file says beside the name."""
        return {"rows": self.rows, "metrics": list(self.metrics)}

    @classmethod
    def from_table(
        cls, table: Mapping[str, Any], edges: Sequence[Edges], before: Before
    ) -> Self:
        """Read what ``table`` wrote."""
        del before
        if edges:
            raise PlanError("shared rows have no edges")
        return cls(table["rows"], tuple(table["metrics"]))


@dataclass(frozen=True, slots=True)
class Opening(ExactSum):
    """Areas as they are, and so many integers more for an interval."""

    more: int = 0

    def sent(self, cells: int) -> int:
        """One integer an area, and the others."""
        return cells + self.more


class Shares(SessionProtocol):
    """Secret shares among three compute parties, who reveal the areas alone."""

    name: ClassVar[str] = "secret shares"
    between_sites: ClassVar[bool] = False
    instead_of_a_plan: ClassVar[str] = (
        "exact areas are agreed on in a session, not in a plan: use `discreet exact "
        "session`"
    )

    def disclosures(self, plan: Plan, sites: int) -> tuple[str, ...]:
        """What the analyst gets, and what the parties see of sizes."""
        model = plan.privacy
        if not isinstance(model, ExactMPC):
            raise PlanError("secret shares belong to the privacy model exact")
        return model.disclosures(plan, sites)

    def run(self, plan: Plan, sites: Sequence[Examples], *, entropy: Entropy) -> Any:
        """Return the result of a plan, with the three parties in this process."""
        from discreet.mpc.evaluate import run  # noqa: PLC0415 - it knows this model

        return run(plan, sites, entropy=entropy)


@dataclass(frozen=True, slots=True)
class ExactMPC(PrivacyModel):
    """Exact areas of the pooled data; nothing but their values is opened.

    Owners share their scores and labels among three compute parties, who follow
    the protocol and of whom no two collude. Order and curve stay secret. There is
    no differential privacy on an exact value: it can betray an example to somebody
    who knows the others, and its digits betray the class counts, even where these
    are not opened.

    Args:
        ties: ``exact`` counts tied pairs one half and gives tied scores one
            threshold, as scikit-learn does; ``none`` is the paper's cheaper
            version, which takes equal scores as different ones, negatives first, and
            is exact only when no two scores are equal.
        hide_sizes: pad every owner's rows to one power of two, so that the
            parties do not learn how many examples an owner holds.
        epsilon: with a number, only an AUC with noise of this loss is opened;
            each compute party adds a share of it inside.
        interval: open the number of positives and two sums of squares too, from
            which DeLong's variance gives the AUC its interval. By default wherever
            it can be: with public sizes and without noise.
    """

    ties: Ties = "exact"
    hide_sizes: bool = False
    epsilon: Amount | None = None
    interval: bool | None = None

    name: ClassVar[str] = "exact"
    trust: ClassVar[Trust] = Trust.COMPUTE_PARTIES
    carried_by: ClassVar[str] = "shares"

    def __post_init__(self) -> None:
        if self.ties not in get_args(Ties):
            raise PlanError("ties are 'exact' or 'none'")
        able = self.epsilon is None and not self.hide_sizes
        if self.interval is None:
            object.__setattr__(self, "interval", able)
        elif self.interval and not able:
            raise PlanError(
                "an interval needs the class counts, which hidden sizes hide"
                if self.hide_sizes
                else "a noisy opening has its interval from the noisy counts; sums of "
                "squares would need noise of their own: leave out interval"
            )
        if self.epsilon is None:
            return
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        _ = self.loss  # validates
        if self.hide_sizes:
            raise PlanError(
                "noise is sized by the public number of examples: leave out "
                "hide_sizes, or open exact values"
            )

    @property
    def computational(self) -> bool:
        """Sorting uses keyed shuffles that the parties agree on."""
        return True

    @property
    def predictable(self) -> bool:
        """A histogram's errors are none of these values'."""
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
            "lying owners",
        )
        if self.epsilon is not None:
            return (*always, "the same person in several rows")
        few = ("with two owners, each can look for data of the other that fit",)
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

    def disclosures(self, plan: Plan, sites: int) -> tuple[str, ...]:
        """What is opened, and what the parties see of sizes."""
        if self.epsilon is not None:
            opened = "a noisy AUC and a noisy number of positives, to the analyst"
        else:
            names = [_TITLES[metric] for metric in shared_rows(plan.rounds).metrics]
            more = (
                ", the number of positives and two sums of squares for an interval"
                if self.spread_of(shared_rows(plan.rounds))
                else ""
            )
            opened = f"the exact {', '.join(names)}{more}, to the analyst"
        del sites
        if self.hide_sizes:
            most = shared_rows(plan.rounds).rows
            return opened, f"padded numbers of examples, {most:,} in all"
        return opened, "how many examples each owner has, to the compute parties"

    def assumptions(self, cohort: Cohort) -> tuple[str, ...]:
        """An honest majority of compute parties."""
        del cohort
        return (_SEMI_HONEST,)

    def accepts(self, rounds: Sequence[Round], cohort: Cohort) -> None:
        """Refuse anything but shared rows of owners who all take part."""
        super(ExactMPC, self).accepts(rounds, cohort)
        areas = shared_rows(rounds).metrics
        if self.epsilon is not None and areas != ("auc",):
            raise PlanError("only the AUC can be opened with noise; ask for it alone")

    def spread_of(self, asked: SharedRows) -> int:
        """Return how many integers are opened for an interval."""
        return SPREAD if self.interval and "auc" in asked.metrics else 0

    def mechanism_for(self, this: ResolvedRound, cohort: Cohort) -> Mechanism:
        """Nothing is added by owners; the parties' noise is in what is opened."""
        del cohort
        if self.epsilon is None:
            return Opening(self.spread_of(_shared(this.statistic)))
        from discreet.mpc.noisy import NoiseInside  # noqa: PLC0415 - loads scipy

        return NoiseInside(_shared(this.statistic).rows, exact(self.epsilon))

    def rounds(self, asked: Question, cohort: Cohort) -> tuple[Round, ...]:
        """One opening of all areas, or of the AUC alone under noise."""
        del cohort
        if not asked.binary:
            raise PlanError("exact areas compare two classes and no groups or weights")
        if asked.facts.examples is None:
            raise PlanError(
                "exact areas are of a public number of rows: declare the examples"
            )
        areas = AREAS if self.epsilon is None else ("auc",)
        return (Round(SharedRows(asked.facts.examples, areas)),)

    def plan_for(self, asked: Question, sites: Sequence[Examples]) -> Plan:
        """Count the rows, which the compute parties learn anyhow, padded if hidden."""
        if asked.thresholds is not None or asked.edges is not None or not asked.binary:
            raise PlanError(
                "exact areas open no counts: no thresholds, edges, classes, groups or weights"
            )
        sizes = [len(site) for site in sites]
        if not any(sizes):
            raise InputError("there are no examples: give a site that has some")
        rows = padded_size(max(sizes)) * len(sizes) if self.hide_sizes else sum(sizes)
        return areas_plan(self, replace(asked.facts, examples=rows), owners=len(sizes))

    def table(self) -> dict[str, Any]:
        """Return what a plan's file says beside the model's name."""
        return {
            "ties": self.ties,
            "hide_sizes": self.hide_sizes,
            "interval": self.interval,
            **super(ExactMPC, self).table(),
        }

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Self:
        """Read what ``table`` wrote."""
        # Plans that were written before there were intervals open none.
        hidden, interval = table["hide_sizes"], table.get("interval", False)
        if not (isinstance(hidden, bool) and isinstance(interval, bool)):
            raise PlanError("hide_sizes and interval are true or false")
        epsilon = table.get("epsilon")
        noisy = None if epsilon is None else amount_from_text(epsilon)
        return cls(table["ties"], hidden, noisy, interval)


def shared_rows(rounds: Sequence[Round]) -> SharedRows:
    """Return the only statistic that compute parties open."""
    (only,) = rounds
    return _shared(only.statistic)


def _shared(statistic: Statistic) -> SharedRows:
    if not isinstance(statistic, SharedRows):
        raise PlanError(
            "compute parties open areas of shared rows, not sums of counts; use "
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
    """Return the plan of areas of a public number of rows, of owners who all share.

    ``metrics`` are all that can be opened by default, ``measured`` the name of the
    classifier.
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

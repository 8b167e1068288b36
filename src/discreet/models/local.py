"""Local privacy: every message is private on its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Final, Literal, TypeAlias, get_args

from discreet.codec.documents import written
from discreet.codec.parsing import Amount, exact, whole
from discreet.data.edges import EdgeRule, Edges, Uniform, Warped
from discreet.errors import PlanError
from discreet.estimate.curves import Interpolation
from discreet.estimate.fit import Estimator, Flat
from discreet.models.distributed import block_shares
from discreet.noise.arc import CircularArc
from discreet.noise.mechanism import Mechanism
from discreet.noise.unary import LevelReports, UnaryReports
from discreet.phone import FEWEST_BINS, MOST_BINS, MOST_DAYS, MOST_REPORTS
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.privacy_model import MALICIOUS, TWO_SITES, PrivacyModel
from discreet.plan.protocol import PROTOCOLS, SessionProtocol
from discreet.plan.rounds import Question, ResolvedRound, Round
from discreet.privacy.claim import Trust
from discreet.privacy.loss import Loss, PureDP
from discreet.privacy.unit import EXAMPLE, Unit
from discreet.statistic.hierarchy import Hierarchy
from discreet.statistic.histogram import ClassHistogram
from discreet.statistic.protocol import Statistic

LocalMechanism: TypeAlias = Literal["arc", "unary", "levels", "laplace"]

ARC_BINS: Final = 32
UNARY_BINS: Final = 10
LEVELS: Final = 7
"""Height of the papers' tree for 32 quantiles."""
MOST_SHUFFLE_DELTA: Final = Fraction(1, 1000)
"""A larger one would let a shuffler publish single reports."""
FALSE_REPORTS: Final = "malicious clients, which may send false reports"
SENDERS: Final = (
    "that a client took part, and when: whoever receives reports sees the network "
    "address, unless a proxy hides it"
)


@dataclass(frozen=True, slots=True)
class LocalDP(PrivacyModel):
    """Every message is private on its own: nobody has to be trusted.

    Args:
        epsilon: the loss; a decimal is taken as written.
        mechanism: ``arc`` (the default: each example is sent as one random symbol
            near its bin), ``unary`` (each example as a vector of random bits) and
            ``levels`` (the papers' way: bits of one random level of a tree)
            protect a replaced example, for clients with one example each;
            ``laplace`` adds noise to a site's own histogram and protects an added or
            removed example, for sites with many.
        reports_per_person: the plan is for phones and browsers: each sends reports of
            single examples, at most so many of a person in a period, which
            `discreet collect` counts.
        period_days: the length of a period in days; by default the plan's whole life.
        shuffle_delta: the claim also says what a trusted shuffler, which removes who
            sent a report, would make of epsilon, with this delta.
    """

    epsilon: Amount
    mechanism: LocalMechanism = "arc"
    reports_per_person: int | None = field(
        default=None, metadata=written(left_out=True)
    )
    period_days: int | None = field(default=None, metadata=written(left_out=True))
    shuffle_delta: Amount | None = field(default=None, metadata=written(left_out=True))

    name: ClassVar[str] = "local"
    trust: ClassVar[Trust] = Trust.NOBODY
    carried_by: ClassVar[str] = "relay"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        if self.mechanism not in get_args(LocalMechanism):
            raise PlanError("a local mechanism is arc, unary, levels or laplace")
        self._check_reports()
        _ = self.loss

    def _check_reports(self) -> None:
        if self.reports_per_person is None:
            if self.period_days is not None or self.shuffle_delta is not None:
                raise PlanError(
                    "period_days and shuffle_delta are for plans of reports: give "
                    "reports_per_person too"
                )
            return
        if self.mechanism != "arc":
            raise PlanError("reports of phones and browsers are sent as arcs")
        reports, days = self.reports_per_person, self.period_days
        whole(reports, "the reports of a person", least=1, most=MOST_REPORTS)
        if days is not None:
            whole(days, "the days of a period", least=1, most=MOST_DAYS)
        if self.shuffle_delta is not None:
            delta = exact(self.shuffle_delta, name="shuffle_delta")
            if not 0 < delta <= MOST_SHUFFLE_DELTA:
                raise PlanError(
                    f"shuffle_delta is above 0 and at most {float(MOST_SHUFFLE_DELTA):g}"
                )
            object.__setattr__(self, "shuffle_delta", delta)

    def protocol(self, statistic: Statistic) -> SessionProtocol:
        """Answers are relayed, or reports that clients send are collected."""
        if self.reports_per_person is not None:
            return PROTOCOLS["reports"]()
        return super(LocalDP, self).protocol(statistic)

    @property
    def protects(self) -> Unit:
        """One example: replaced, or added or removed at a site that adds noise."""
        if self.mechanism == "laplace":
            return EXAMPLE
        return Unit("example", "replace")

    @property
    def loss(self) -> Loss:
        """The loss of each message."""
        return PureDP(exact(self.epsilon))

    def caveats(self, sites: int) -> tuple[str, ...]:
        """What this model does not protect."""
        del sites
        if self.reports_per_person is not None:
            return (FALSE_REPORTS, SENDERS)
        if self.mechanism == "laplace":
            return (MALICIOUS, TWO_SITES)
        return (MALICIOUS, TWO_SITES, "how many examples a site holds")

    def accepts(self, rounds: Sequence[Round], cohort: Cohort) -> None:
        """Refuse what one-example messages cannot say."""
        super(LocalDP, self).accepts(rounds, cohort)
        if self.mechanism == "laplace":
            return
        counted = Hierarchy if self.mechanism == "levels" else ClassHistogram
        if not all(isinstance(r.statistic, counted) for r in rounds):
            raise PlanError(
                "one-example local messages count two classes and no groups or times, "
                "over a tree for the levels mechanism; use laplace for others"
            )
        bins = [len(edges) for r in rounds for edges in r.statistic.binnings]
        if self.reports_per_person is not None and not all(
            FEWEST_BINS <= many <= MOST_BINS for many in bins
        ):
            raise PlanError(
                f"a report is one byte: use between {FEWEST_BINS} and {MOST_BINS} bins"
            )

    def mechanism_for(self, resolved: ResolvedRound, cohort: Cohort) -> Mechanism:
        """The named mechanism, at every site the same."""
        del cohort
        if not isinstance(resolved.loss, PureDP):
            raise PlanError("local mechanisms keep pure DP")
        match self.mechanism, resolved.statistic:
            case "laplace", statistic:
                # One honest site: each site's own share is the whole noise.
                return block_shares(
                    resolved.loss, statistic.blocks(self.protects), honest=1
                )
            case "levels", Hierarchy() as tree:
                return LevelReports(resolved.loss, tree)
            case "unary", ClassHistogram(edges):
                return UnaryReports(resolved.loss, edges)
            case "arc", ClassHistogram(edges):
                return CircularArc(resolved.loss.epsilon, edges)
            case _:
                raise PlanError(
                    f"{self.mechanism} messages do not count this statistic"
                )

    def estimator(self, interpolation: Interpolation | None = None) -> Estimator:
        """Decoded arcs are smooth already."""
        if self.mechanism == "arc":
            return Flat(interpolation)
        return super(LocalDP, self).estimator(interpolation)

    def inverse_scale(self, cohort: Cohort, *, cells: int = 1) -> float | None:
        """Every site adds noise of its own."""
        alone = super(LocalDP, self).inverse_scale(cohort, cells=cells)
        return None if alone is None else alone / math.sqrt(cohort.min_survivors)

    def edges(self, facts: PublicFacts, inverse_scale: float | None) -> EdgeRule:
        """Return few bins where each example is sent on its own."""
        match self.mechanism:
            case "arc":
                return _warped(ARC_BINS, facts)
            case "unary":
                return _warped(UNARY_BINS, facts)
            case _:
                return super(LocalDP, self).edges(facts, inverse_scale)

    def rounds(self, question: Question, cohort: Cohort) -> tuple[Round, ...]:
        """Count over the papers' tree when asked to."""
        if self.mechanism != "levels":
            return super(LocalDP, self).rounds(question, cohort)
        if not question.binary or question.edges is not None:
            raise PlanError("the levels mechanism counts two classes over its own tree")
        leaves = Edges.realise(Uniform(2**LEVELS), question.facts.scores)
        return (Round(Hierarchy(leaves)),)


def _warped(bins: int, facts: PublicFacts) -> EdgeRule:
    """Return bins that the decoder of arcs and few bits are made for."""
    return Uniform(bins) if facts.scores.kind == "other" else Warped(bins)

"""The terms of a rank-sum evaluation, its messages, and the vector that it reveals.

A result is made from a plan and its releases alone. So the revealed vector holds,
beside each site's released integers, the public facts without which nobody could
decode them: the site's option, and six numbers of its ranks. ``read`` gives the AUC.

Before that vector is revealed, three messages travel, each the body of a session
message, which names the plan, the session and the site:

    site                                    coordinator
    ----                                    -----------
                        <- (invitation) <-
                        -> Scores       ->  shuffled; the site keeps the order
                        <- RanksMessage <-  in the order of the scores
                        -> RankAnswer   ->  each site's own; not under a secure sum
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from typing import Annotated, ClassVar, Final, NoReturn

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.codec.messages import Array, BinaryMessage, FieldCodec, Nested, Reader
from discreet.codec.parsing import decimal_text
from discreet.entropy import Entropy
from discreet.errors import InputError, PlanError, ReleaseError
from discreet.estimate.estimate import Estimate
from discreet.label.mechanisms import Option, SumKind, build, mechanism_named
from discreet.label.ranks import (
    RankFacts,
    RankTotals,
    SiteRanks,
    TotalsCovariance,
    add_covariances,
    add_totals,
    rank_auc,
)
from discreet.label.released_sums import LabelLoss, SummedEndpoint
from discreet.privacy.claim import Claim, Setting, Trust
from discreet.privacy.loss import ApproxDP, Loss, PureDP
from discreet.privacy.unit import LABEL
from discreet.statistic.protocol import Statistic
from discreet.statistic.rank_sums import RANK_MECHANISMS, RESPONSES, RankSums

_MIN_EPSILON: Final = Fraction(1, 100)
AGAIN: Final = ("a further model on the same labels is charged again",)
KEPT_FLIPS: Final = (
    "a further model is charged again unless the examples have ids",
    "where they have, that a label was changed since an earlier evaluation",
)


@dataclass(frozen=True, slots=True)
class RankSumTerms:
    """An evaluation of the AUC by rank sums, under label privacy.

    Args:
        sums: what is taken of the ranks.
        budget: the loss for one flipped label.
        colluders: where only the sum of all sites is revealed, how many sites may tell
            the coordinator their noise.
    """

    sums: RankSums
    budget: LabelLoss
    colluders: int = 0

    def __post_init__(self) -> None:
        mechanism = self.sums.mechanism
        if self.budget.epsilon < _MIN_EPSILON:
            raise PlanError(
                f"rank sums need an epsilon of at least {decimal_text(_MIN_EPSILON)}: "
                "below it no AUC is left, and the noise is too large to be drawn"
            )
        approximate = isinstance(self.budget, ApproxDP)
        if approximate and not mechanism_named(mechanism).gaussian:
            able = [n for n in RANK_MECHANISMS if mechanism_named(n).gaussian]
            raise PlanError(
                f"delta is for Gaussian noise: {', '.join(sorted(able))}; "
                f"omit it for {mechanism}"
            )
        if self.colluders < 0 or (self.colluders and not self.summed):
            raise PlanError(
                "colluders are for secure aggregation, and not negative: plain "
                "messages are private on their own"
            )
        if self.summed and approximate:
            raise PlanError("secure aggregation adds Laplace noise: omit delta")

    @classmethod
    def of(cls, sums: Statistic, loss: Loss, *, colluders: int = 0) -> RankSumTerms:
        """Take the terms out of a plan: its statistic, its loss, its cohort."""
        if not isinstance(sums, RankSums) or not isinstance(loss, PureDP | ApproxDP):
            raise PlanError("this plan takes no rank sums at a finite loss")
        return cls(sums, loss, colluders if sums.aggregation == "secagg" else 0)

    @property
    def summed(self) -> bool:
        """Whether one sum over all sites is revealed, and not each site's own."""
        return self.sums.aggregation == "secagg"

    @property
    def pure(self) -> PureDP:
        """The loss where there is no delta."""
        return PureDP(self.budget.epsilon)

    @property
    def keeps_flips(self) -> bool:
        """Whether labels are flipped once, for any number of models."""
        return self.sums.mechanism in RESPONSES

    @property
    def discloses(self) -> tuple[str, str]:
        """What the coordinator sees."""
        if self.summed:
            sent = "two noisy sums over all sites"
        elif self.sums.mechanism == "response-labels":
            sent = "each site's flipped labels"
        else:
            sent = "two noisy sums of each site, or one"
        return "every score, in no telling order, and each site's size", sent

    def claim(self, setting: Setting) -> Claim:
        """Return what an evaluation by a secure sum under these terms promises."""
        told = f"at most {self.colluders} sites tell the coordinator their noise"
        return Claim(
            LABEL,
            self.budget,
            Trust.SUM_ONLY,
            computational=True,
            setting=setting,
            discloses=self.discloses,
            not_protected=(
                "what a good score says about a label by itself",
                "malicious sites, which may send false data",
                *AGAIN,
            ),
            assumes=(told,),
        )


@dataclass(frozen=True, slots=True)
class RankedNoise:
    """The mechanism of a round of rank sums, as far as a plan knows it.

    The noise of each sum follows from the ranks, which are public during the round.
    """

    terms: RankSumTerms

    def sent(self, cells: int) -> int:
        """The sums alone, beside the public option."""
        return cells

    def loss(self) -> Loss:
        """The whole budget."""
        return self.terms.budget

    def protect(self, exact: IntVector, *, entropy: Entropy) -> NoReturn:
        """Refuse: nothing can be protected before it is ranked."""
        del exact, entropy
        raise PlanError("rank sums are protected after the scores are ranked")

    def open(self, total: IntVector, contributors: int) -> NoReturn:
        """Refuse: what was revealed are not counts."""
        del total, contributors
        raise PlanError("rank sums are no counts; see discreet.label.rank_terms.read")


_EACH, _SUMMED = 1, 2
"""The first number: each site's sums, or the sum of all sites."""
_HEAD: Final = 3
"""Before the sums: the form, M and the number of sites."""
_ROW: Final = 11
_LIMB: Final = 62
"""Sums of squares may need more than 64 bits: they are kept in two parts."""
REMEDY: Final = (
    "use LabelDP(epsilon, mechanism='curves') for curves, thresholds and calibration"
)
"""How to get what rank sums do not give, the end of a sentence."""
_BOUND = "the sampling error is a bound that holds for any scores, often too wide"
_TITLES: Final[Mapping[SumKind, str]] = {
    SumKind.NOTHING: "no examples",
    SumKind.RESPONSE: "randomized response",
    SumKind.RESPONSE_LABELS: "randomized response",
    SumKind.GLOBAL: "global noise",
    SumKind.LOCAL: "local noise",
    SumKind.ORTHOGONAL: "orthogonal noise",
    SumKind.ENDPOINT: "endpoint",
    SumKind.SLACK: "slack",
    SumKind.STAIRCASE: "staircase",
}


@dataclass(frozen=True, slots=True, eq=False)
class SiteRankSums:
    """One site's released integers, with the public facts that decode them."""

    option: Option
    facts: RankFacts
    released: IntVector

    def encode(self) -> list[int]:
        """Return one row of the vector; a sum that was not released is 0."""
        facts, option = self.facts, self.option
        high, low = divmod(facts.squares, 1 << _LIMB)
        public = [option.kind, option.centre, option.part, facts.size]
        public += [facts.low, facts.high, facts.total, high, low]
        return [*public, *self.released.tolist(), *[0] * (2 - self.released.size)]

    @classmethod
    def decode(
        cls, row: Sequence[int], examples: int, terms: RankSumTerms
    ) -> SiteRankSums:
        """Read one row."""
        kind, centre, part, size, least, most, total, high, low, *sums = row
        try:
            option = Option(SumKind(kind), centre, part)
            facts = RankFacts(examples, size, least, most, total, (high << _LIMB) + low)
            length = build(option, facts, terms.budget).length
        except (ValueError, InputError, PlanError) as error:
            raise ReleaseError(f"a site's sums cannot be read: {error}") from None
        return cls(option, facts, np.array(sums[:length], dtype=np.int64))


def encode_sites(sites: Sequence[SiteRankSums]) -> IntVector:
    """Return what sites released on their own, as one vector."""
    examples = sum(len(site.facts) for site in sites)
    rows = [number for site in sites for number in site.encode()]
    return np.array([_EACH, examples, len(sites), *rows], dtype=np.int64)


def encode_summed(examples: int, contributors: int, total: IntVector) -> IntVector:
    """Return the revealed sum of all sites, with the number of examples it is of."""
    head = np.array([_SUMMED, examples, contributors], dtype=np.int64)
    return np.concatenate([head, total])


@dataclass(frozen=True, slots=True)
class RankFit:
    """The fit of revealed rank sums: the AUC, and how the sites answered."""

    totals: RankTotals
    covariance: TotalsCovariance
    examples: int
    sites: int
    options: Mapping[SumKind, int]

    @property
    def auc(self) -> Estimate:
        """The AUC with its errors."""
        return rank_auc(self.totals, self.examples, covariance=self.covariance)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know of the value."""
        used = ", ".join(
            f"{count} by {_TITLES[kind]}" for kind, count in self.options.items()
        )
        return (f"sites answered: {used}", _BOUND) if used else (_BOUND,)


def read(terms: RankSumTerms, total: IntVector) -> RankFit:
    """Return the fit of the vector that was revealed under these terms.

    Raises:
        ReleaseError: the vector is not one that these terms reveal.
    """
    if total.ndim != 1 or total.size < _HEAD:
        raise ReleaseError("revealed rank sums start with three numbers")
    form, examples, count, *rest = total.tolist()
    wanted = 2 if terms.summed else _ROW * count
    if form != (_SUMMED if terms.summed else _EACH) or len(rest) != wanted or count < 1:
        raise ReleaseError("the revealed vector is not one of rank sums on these terms")
    if terms.summed:
        try:
            endpoint = SummedEndpoint(examples, terms.pure, count - terms.colluders)
        except PlanError as error:
            raise ReleaseError(f"the revealed sum cannot be read: {error}") from None
        totals = endpoint.decode(total[_HEAD:])
        return RankFit(totals, endpoint.covariance(count), examples, count, {})
    sites = [
        SiteRankSums.decode(rest[at : at + _ROW], examples, terms)
        for at in range(0, len(rest), _ROW)
    ]
    if sum(len(site.facts) for site in sites) != examples:
        raise ReleaseError("the sites' examples do not add up to those that are ranked")
    used = [build(site.option, site.facts, terms.budget) for site in sites]
    return RankFit(
        add_totals(m.decode(s.released) for m, s in zip(used, sites, strict=True)),
        add_covariances(m.covariance for m in used),
        examples,
        count,
        dict(sorted(Counter(site.option.kind for site in sites).items())),
    )


class RankMessageTag(IntEnum):
    """The second byte of every message; secure aggregation has the low ones."""

    SCORES = 66
    RANKS = 67
    ANSWER = 68
    ORDER = 69


class _ScoreCodec(Array):
    """Finite scores; a negative zero is written as zero."""

    def write(self, value: FloatVector) -> bytes:
        return super().write(value + 0.0)

    def read(self, reader: Reader) -> FloatVector:
        scores: FloatVector = super().read(reader)
        if not np.isfinite(scores).all():
            raise reader.error("holds values that are not finite")
        if np.any(np.signbit(scores) & (scores == 0)):
            raise reader.error("holds a negative zero")
        return scores


class _OrderCodec(Array):
    """A permutation of 0, 1, ..., n - 1."""

    def read(self, reader: Reader) -> IntVector:
        order: IntVector = super().read(reader).astype(np.int64)
        if not np.array_equal(np.sort(order), np.arange(order.size)):
            raise reader.error("does not hold an order of the scores")
        return order


class _RankCodec(FieldCodec):
    """The number of all examples, and a site's doubled ranks among them."""

    def write(self, value: SiteRanks) -> bytes:
        return value.examples.to_bytes(4, "big") + Array(">u4").write(value.doubled)

    def read(self, reader: Reader) -> SiteRanks:
        examples = reader.number()
        doubled = Array(">u4").read(reader).astype(np.int64)
        try:
            return SiteRanks(doubled, examples)
        except InputError as error:
            raise reader.error(f"cannot be: {error}") from None


@dataclass(frozen=True, slots=True, eq=False)
class Scores(BinaryMessage):
    """Site to coordinator: its scores in an order that only the site knows."""

    tag: ClassVar = RankMessageTag.SCORES
    called: ClassVar = "a message of scores"
    scores: Annotated[FloatVector, _ScoreCodec(">f8")]


@dataclass(frozen=True, slots=True, eq=False)
class RanksMessage(BinaryMessage):
    """Coordinator to site: the doubled midranks of its scores, among all."""

    tag: ClassVar = RankMessageTag.RANKS
    called: ClassVar = "a message of ranks"
    ranks: Annotated[SiteRanks, _RankCodec()]


@dataclass(frozen=True, slots=True, eq=False)
class RankAnswer(BinaryMessage):
    """Site to coordinator: its option, which is public, and the protected integers."""

    tag: ClassVar = RankMessageTag.ANSWER
    called: ClassVar = "an answer"
    option: Annotated[Option, Nested(Option)]
    released: Annotated[IntVector, Array(">i8")]


@dataclass(frozen=True, slots=True, eq=False)
class SentOrder(BinaryMessage):
    """What a site keeps between its two steps: secret, it says whose a score is."""

    tag: ClassVar = RankMessageTag.ORDER
    called: ClassVar = "the saved state"
    order: Annotated[IntVector, _OrderCodec(">u4")]

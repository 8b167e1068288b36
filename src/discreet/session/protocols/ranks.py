"""Ranks: public scores are ranked, then every site answers with protected sums.

- The coordinator asks all sites twice, and reveals one vector of integers
  (``discreet.label.rank_terms.read`` decodes it).
- A site's half is ``RankSite``: a state machine whose last step lets a callback charge,
  make and store the answer. The charge comes after the ranks, before a label is read.

Ranks count the examples of every site that sent scores. So all of these must answer:
a sum without one of them would compare its examples with nobody's labels.

In a simulation one sum over all sites can be revealed instead, with noise added once:
after the ranks the sites go on with a secure sum of their vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, ClassVar, Final, TypeAlias, TypeVar

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.codec.messages import BinaryMessage, Blob, MalformedMessageError
from discreet.codec.parsing import exact
from discreet.entropy import Entropy, child, words
from discreet.errors import DiscreetError, InputError, PlanError
from discreet.label.mechanisms import SumKind, build, mechanism_named, option_for
from discreet.label.rank_terms import (
    RankAnswer,
    RanksMessage,
    RankSumTerms,
    Scores,
    SentOrder,
    SiteRankSums,
    encode_sites,
    encode_summed,
)
from discreet.label.ranks import SiteRanks, rank_sites
from discreet.label.released_sums import ResponseSums, SummedEndpoint
from discreet.label.response_keys import LabelSet
from discreet.noise.response import RandomizedResponse
from discreet.plan.plan import Plan
from discreet.plan.rounds import ResolvedRound
from discreet.privacy.account import answer_once
from discreet.secagg import site as steps
from discreet.secagg.errors import (
    FaultyCoordinatorError,
    FaultySiteError,
    SavedStateError,
    TooFewSitesError,
)
from discreet.secagg.site_state import restore_site
from discreet.secagg.terms import Terms
from discreet.session.messages import (
    NO_NUMBERS,
    Message,
    SessionTag,
    round_digest,
)
from discreet.session.policy import PolicyError
from discreet.session.protocols import (
    Ask,
    CoordinatorRound,
    GroupSum,
    Protocol,
    Sent,
    SiteRound,
)
from discreet.session.protocols.secure_sum import (
    ADVERTISE,
    MASK,
    REVEAL,
    SHARE,
    SecureSum,
    answer_of,
)
from discreet.session.state import Progress
from discreet.statistic.protocol import check_binary

M = TypeVar("M", bound=BinaryMessage)
AskSites: TypeAlias = Callable[[str, Mapping[int, bytes]], Mapping[int, bytes]]
"""Send each site a message of a named step; return the replies that came."""
ChargedAnswer: TypeAlias = Callable[[Callable[[], bytes]], bytes]
"""Charge, make the message, store it, return it; or return the stored one."""
SumOf: TypeAlias = Callable[[Collection[int]], tuple[IntVector, int]]
"""Reveal the sum of these sites' vectors; return it and the number of contributors."""
JOIN: Final = "join"
RANKS: Final = "ranks"


@dataclass(frozen=True, slots=True)
class SummedState(BinaryMessage):
    """What a simulated site keeps while its rank sums are added under masks."""

    tag: ClassVar = SessionTag.SUMMED_RANKS
    called: ClassVar = "the saved state"
    ranks: Annotated[bytes, Blob()]
    masking: Annotated[bytes, Blob()] = b""
    """The state of the secure sum, empty before it."""


class Ranks(Protocol):
    """Rank sums under label privacy."""

    name: ClassVar[str] = "public ranks"
    counts_alone: ClassVar[bool] = False
    titles: ClassVar[Mapping[str, str]] = {
        JOIN: "send scores",
        RANKS: "send protected sums",
        **SecureSum.titles,
    }

    def steps(self, plan: Plan) -> tuple[str, ...]:
        """Scores, then sums; or, in a simulation, a secure sum of them."""
        summed = (ADVERTISE, SHARE, MASK, REVEAL) if _is_summed(plan) else ()
        return (JOIN, RANKS, *summed)

    def check(self, plan: Plan) -> None:
        """Refuse one sum over all sites: only a simulation reveals that."""
        if _is_summed(plan):
            raise PlanError("separate sites do not add rank sums under masks")
        plan.privacy.mechanism_for(plan.resolve(0, []), plan.cohort)

    def disclosures(self, plan: Plan, sites: int) -> tuple[str, ...]:
        """The scores too, which are sent to be ranked."""
        del sites
        terms = RankSumTerms.of(plan.statistic, plan.privacy.loss)
        return (*terms.discloses, "which sites took part")

    def reveal(self, current: CoordinatorRound, ask: Ask) -> list[GroupSum]:
        """Rank the sites' scores, and take every ranked site's protected sums."""
        node_of = dict(enumerate(current.nodes, 1))
        cohort = current.plan.cohort

        def ask_sites(step: str, bodies: Mapping[int, bytes]) -> dict[int, bytes]:
            sent = {node_of[site]: Sent(site, body) for site, body in bodies.items()}
            return {reply.site: reply.body for reply in ask(step, sent).values()}

        def summed(ranked: Collection[int]) -> tuple[IntVector, int]:
            nodes = [node_of[site] for site in ranked]
            terms = _masking(current.plan, current.session, current.round)
            (total,) = SecureSum(simulated=True).collect(
                nodes, terms, ask, entropy=current.entropy
            )
            return total.total, len(total.nodes)

        total, present = collect(
            ask_sites,
            node_of,
            _terms(current.plan, current.round),
            least=cohort.min_survivors,
            secure_sum=summed,
        )
        return [GroupSum(total, [node_of[site] for site in present])]

    def join(
        self, current: SiteRound, opening: bytes, charged_before: bytes | None
    ) -> tuple[Progress, Message]:
        """Send the scores, which are public."""
        del opening, charged_before
        progress = replace(current.progress, site=current.message.site)
        return self._answered(replace(current, progress=progress))

    def step(self, current: SiteRound) -> tuple[Progress, Message]:
        """Answer the ranks with protected sums, or go on with their secure sum."""
        current.admit()
        return self._answered(current)

    def _answered(self, current: SiteRound) -> tuple[Progress, Message]:
        half, kept = _rank_site(current), current.progress.conversation
        if kept[1:2] == bytes([SessionTag.SUMMED_RANKS]):
            return self._summed(current, half, SummedState.decode(kept))
        state, body = half.receive(kept, current.message.body)
        if kept and _is_summed(current.plan):
            state = SummedState(state).encode()
        return current.reply(body=body, state=state)

    def _summed(
        self, current: SiteRound, half: RankSite, state: SummedState
    ) -> tuple[Progress, Message]:
        """Take a message of a simulated secure sum over ranked sites."""
        ranks, masking, body = state.ranks, state.masking, current.message.body
        terms = _masking(current.plan, current.progress.session, current.round)
        # A stream of its own: the noise does not depend on how many keys are drawn.
        entropy = child(current.site.entropy, "masks")
        site = current.progress.site
        if not masking:
            first, advert = steps.advertise(
                body, site=site, terms=terms, entropy=entropy
            )
            joined = SummedState(ranks, first.encode())
            return current.reply(body=advert, state=joined.encode())
        least = current.plan.cohort.min_survivors
        following, reply = answer_of(
            restore_site(masking, terms),
            body,
            site=site,
            vector=lambda: half.summand(ranks, sites=least),
            entropy=entropy,
        )
        following_state = SummedState(ranks, following.encode())
        return current.reply(body=reply, state=following_state.encode())


def _is_summed(plan: Plan) -> bool:
    """Whether one sum over all sites is revealed, and not each site's own."""
    return RankSumTerms.of(plan.statistic, plan.privacy.loss).summed


def _terms(plan: Plan, resolved: ResolvedRound) -> RankSumTerms:
    told = plan.privacy.colluders_in(plan.cohort)
    return RankSumTerms.of(resolved.statistic, resolved.loss, colluders=told)


def _masking(plan: Plan, session: bytes, resolved: ResolvedRound) -> Terms:
    """Return the terms of the secure sum of all ranked sites' vectors."""
    return Terms(
        round_digest(plan, session, resolved.index, NO_NUMBERS),
        length=resolved.statistic.size,
        min_survivors=plan.cohort.min_survivors,
        colluders=plan.privacy.colluders_in(plan.cohort),
    )


def _rank_site(current: SiteRound) -> RankSite:
    """Return the half that answers this round, with the site's data."""
    plan, site = current.plan, current.site
    examples = site.examples(plan)
    if not site.simulated:
        examples = examples.fitted()
    check_binary(examples)
    plan.statistic.check_followed(examples)
    if examples.columns != 1 or examples.scores != plan.facts.scores:
        raise InputError(
            f"the plan ranks one column of scores of kind {plan.facts.scores.kind} in "
            f"{plan.facts.scores}; declare the data so"
        )
    scores, labels = examples.to_arrays()
    terms, use, flipped = _terms(plan, current.round), current.use(), None
    if terms.keeps_flips:
        if site.response_key is None:
            raise PolicyError("randomized response needs this site's response key")
        response = RandomizedResponse(terms.pure)
        population, session = site.policy.population, current.progress.charged_as
        known = LabelSet.of(examples, population=population, session=session)
        flipped = partial(known.flipped, response, site.response_key)
        use = replace(use, reusable=known.charge(response, site.response_key))
    return RankSite(
        terms,
        scores,
        lambda: labels.astype(np.int64),
        site.entropy,
        partial(answer_once, site.account, use),
        flipped,
    )


def collect(
    ask: AskSites,
    sites: Collection[int],
    terms: RankSumTerms,
    *,
    least: int = 1,
    secure_sum: SumOf | None = None,
) -> tuple[IntVector, list[int]]:
    """Carry out the coordinator's half; return what was revealed, and of whom.

    With fewer than ``least`` sites nobody is asked for an answer, or charged. Under
    ``secagg``, ``secure_sum`` reveals the sum of the ranked sites' vectors.

    Raises:
        FaultySiteError: a message is malformed, or not what the terms ask for.
        TooFewSitesError: too few sent scores, or a ranked site did not answer.
    """
    joined = ask(JOIN, dict.fromkeys(sorted(sites), b""))
    if len(joined) < least:
        raise TooFewSitesError(JOIN, len(joined), least)
    present = sorted(joined)
    scores = [_decoded(Scores, joined[s], partial(_faulty, s)).scores for s in present]
    ranks = dict(zip(present, rank_sites(scores), strict=True))
    replies = ask(RANKS, {site: RanksMessage(r).encode() for site, r in ranks.items()})
    if len(replies) < len(ranks):
        raise TooFewSitesError(RANKS, len(replies), len(ranks))
    if terms.summed:
        if secure_sum is None:
            raise InputError("these terms reveal a secure sum: give what carries it")
        total, contributors = secure_sum(present)
        if contributors < len(ranks):
            raise TooFewSitesError("sum", contributors, len(ranks))
        examples = sum(len(r) for r in ranks.values())
        return encode_summed(examples, contributors, total), present
    answers = [read_answer(s, replies[s], ranks[s], terms) for s in present]
    return encode_sites(answers), present


def read_answer(
    site: int, message: bytes, ranks: SiteRanks, terms: RankSumTerms
) -> SiteRankSums:
    """Read one site's answer, and reduce flipped labels to their two sums.

    Raises:
        FaultySiteError: the message is malformed, by another mechanism than was
            agreed, or its numbers are not those of the option that it names.
    """
    answer = _decoded(RankAnswer, message, partial(_faulty, site))
    option, released = answer.option, answer.released
    if option.kind not in mechanism_named(terms.sums.mechanism).kinds | {
        SumKind.NOTHING
    }:
        raise FaultySiteError(
            site, f"answered by another mechanism than {terms.sums.mechanism}"
        )
    try:
        if option.kind is SumKind.RESPONSE_LABELS:
            released = np.array(ranks.sums(released), dtype=np.int64)
        build(option, ranks, terms.budget).decode(released)
    except DiscreetError as error:
        raise FaultySiteError(site, f"sent an unreadable answer: {error}") from None
    return SiteRankSums(option, ranks, released)


def _faulty(site: int, problem: str) -> FaultySiteError:
    return FaultySiteError(site, f"sent {problem}")


def _not_saved(problem: str) -> SavedStateError:
    return SavedStateError(f"the saved state has {problem}")


def _decoded(kind: type[M], raw: bytes, blame: Callable[[str], DiscreetError]) -> M:
    """Read a message; blame whoever sent or kept bytes that cannot be read."""
    try:
        return kind.decode(raw)
    except MalformedMessageError as error:
        raise blame(f"bytes that cannot be read: {error}") from None


@dataclass(frozen=True, eq=False)
class RankSite:
    """A site's half: bytes in, bytes out, the state as bytes between them.

    ``labels``, and ``flipped`` for terms that keep flips, are called once, after the
    charge.
    """

    terms: RankSumTerms
    scores: FloatVector = field(repr=False)
    labels: Callable[[], IntVector] = field(repr=False)
    entropy: Entropy = field(repr=False)
    charge: ChargedAnswer = field(repr=False)
    flipped: Callable[[], IntVector] | None = field(default=None, repr=False)

    def receive(self, state: bytes, message: bytes) -> tuple[bytes, bytes]:
        """Take a message; return the next state and the reply.

        The empty state is that of a site that was invited: it sends its scores. Then
        it gets their ranks, and answers; under a secure sum it keeps them, replies
        with nothing, and adds ``summand``.

        Raises:
            SavedStateError: the state is not one of a site that joined.
            FaultyCoordinatorError: the ranks are malformed, too few or too many, or
                in another order than the scores.
        """
        if not state:
            return self._join()
        order = self._order(state)
        ranks = self._ranks(message, order)
        if self.terms.summed:
            placed = np.empty_like(ranks.doubled)
            placed[order] = ranks.doubled
            return RanksMessage(SiteRanks(placed, ranks.examples)).encode(), b""
        return b"", self.charge(lambda: self._answer(ranks, order).encode())

    def summand(self, state: bytes, *, sites: int) -> IntVector:
        """Return the vector to put into a secure sum; charge for it first.

        It holds this site's share of the noise only: it must not be sent as it is.
        ``sites`` is how many must be in the sum, all that were ranked.
        """
        ranks = _decoded(RanksMessage, state, _not_saved).ranks
        honest = sites - self.terms.colluders
        summed = SummedEndpoint(ranks.examples, self.terms.pure, honest)

        def make() -> bytes:
            vector = summed.protect(self.labels(), ranks, entropy=self.entropy)
            return vector.astype("<i8").tobytes()

        return np.frombuffer(self.charge(make), dtype="<i8").astype(np.int64)

    def _join(self) -> tuple[bytes, bytes]:
        """Send the scores in a secret random order."""
        if not np.isfinite(self.scores).all():
            raise InputError("scores to be ranked must be finite numbers")
        keys = words(self.entropy, self.scores.size)
        order = np.argsort(keys, kind="stable").astype(np.int64)
        return SentOrder(order).encode(), Scores(self.scores[order]).encode()

    def _order(self, state: bytes) -> IntVector:
        order = _decoded(SentOrder, state, _not_saved).order
        if self.scores.size != order.size:
            raise InputError(
                f"{order.size} scores were sent, and {self.scores.size} are here now"
            )
        return order

    def _ranks(self, message: bytes, order: IntVector) -> SiteRanks:
        """Read the ranks, and check that they could be those of the scores.

        Label privacy does not rest on this check: whatever weights a coordinator
        invents, the noise is sized by them.
        """
        ranks = _decoded(RanksMessage, message, FaultyCoordinatorError).ranks
        if len(ranks) != order.size:
            raise FaultyCoordinatorError(
                f"{len(ranks)} ranks came for {order.size} scores"
            )
        sent = self.scores[order]
        by_score = np.argsort(sent, kind="stable")
        rise = np.sign(np.diff(sent[by_score]))
        if np.any(rise != np.sign(np.diff(ranks.doubled[by_score]))):
            raise FaultyCoordinatorError("the ranks are not in the order of the scores")
        return ranks

    def _answer(self, ranks: SiteRanks, order: IntVector) -> RankAnswer:
        """Choose by public facts, protect, and say what was chosen."""
        terms = self.terms
        share = exact(terms.sums.share)
        option = option_for(terms.sums.mechanism, ranks, terms.budget, share=share)
        mechanism = build(option, ranks, terms.budget)
        if self.flipped is not None and isinstance(mechanism, ResponseSums):
            flipped = self._sent(self.flipped(), order)
            if option.kind is SumKind.RESPONSE_LABELS:
                return RankAnswer(option, flipped)
            return RankAnswer(option, mechanism.exact(flipped, ranks))
        if terms.keeps_flips and len(ranks):
            raise InputError("these terms keep flips: the site needs a key for them")
        labels = self._sent(self.labels(), order)
        return RankAnswer(
            option, mechanism.protect(labels, ranks, entropy=self.entropy)
        )

    def _sent(self, labels: IntVector, order: IntVector) -> IntVector:
        """Put labels into the order in which the scores were sent."""
        if labels.shape != order.shape:
            raise InputError(
                f"{order.size} scores need as many labels, got {labels.size}"
            )
        return labels[order].astype(np.int64)

"""The ranks route: scores are ranked, then every site answers with protected sums.

Two halves that exchange bytes, the bodies of letters. No sockets, no clocks, no
account: who carries the letters and who charges is passed in.

- The coordinator's half is ``collect``: it asks all sites twice, and returns what was
  opened as one vector of integers (``discreet.label.opened_sums`` reads it again).
- A site's half is ``RankSite``: a state machine whose last step lets a callback
  charge, make and store the answer.

Ranks count the examples of every site that sent scores. So all of these must answer:
a sum without one of them would compare its examples with nobody's labels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.codec.messages import MalformedMessageError
from discreet.entropy import Entropy, words
from discreet.errors import DiscreetError, InputError
from discreet.label.choice import kinds_of, options_for
from discreet.label.messages import (
    Answer,
    Ranks,
    Scores,
    SentOrder,
)
from discreet.label.midranks import SiteRanks, rank_sites
from discreet.label.opened_sums import SiteSums, encode_sites, encode_summed
from discreet.label.rank_mechanisms import Kind, build
from discreet.label.rank_terms import RankSumTerms
from discreet.label.released_sums import ResponseSums, SummedEndpoint
from discreet.secagg.errors import (
    FaultyCoordinatorError,
    FaultySiteError,
    SavedStateError,
    TooFewSitesError,
)

Message = TypeVar("Message")
Ask: TypeAlias = Callable[[str, Mapping[int, bytes]], Mapping[int, bytes]]
"""Send each site a message of a named step; return the replies that came."""
Charge: TypeAlias = Callable[[Callable[[], bytes]], bytes]
"""Charge, make the message, store it, return it; or return the stored one."""
SecureSum: TypeAlias = Callable[[Collection[int]], tuple[IntVector, int]]
"""Open the sum of these sites' vectors; return it with the number of contributors."""
JOIN, RANKS = "join", "ranks"


def collect(
    ask: Ask,
    sites: Collection[int],
    terms: RankSumTerms,
    *,
    least: int = 1,
    secure_sum: SecureSum | None = None,
) -> tuple[IntVector, list[int]]:
    """Carry out the coordinator's half; return what was opened, and of whom.

    Args:
        ask: carries letters to the sites and back; silent sites are left out.
        sites: who is asked.
        terms: what was agreed.
        least: with fewer sites nobody is asked for an answer, or charged.
        secure_sum: under ``secagg``, opens the sum of the ranked sites' vectors.

    Raises:
        FaultySiteError: a message is malformed, or not what the terms ask for.
        TooFewSitesError: too few sent scores, or a ranked site did not answer.
    """
    joined = ask(JOIN, dict.fromkeys(sorted(sites), b""))
    if len(joined) < least:
        raise TooFewSitesError(JOIN, len(joined), least)
    present = sorted(joined)
    scores = [_from_site(Scores.decode, s, joined[s]).scores for s in present]
    ranks = dict(zip(present, rank_sites(scores), strict=True))
    replies = ask(RANKS, {site: Ranks(r).encode() for site, r in ranks.items()})
    if len(replies) < len(ranks):
        raise TooFewSitesError(RANKS, len(replies), len(ranks))
    if terms.aggregation == "secagg":
        if secure_sum is None:
            raise InputError("these terms open a secure sum: give what carries it")
        total, contributors = secure_sum(present)
        if contributors < len(ranks):
            raise TooFewSitesError("sum", contributors, len(ranks))
        examples = sum(len(r) for r in ranks.values())
        return encode_summed(examples, contributors, total), present
    opened = [read_answer(s, replies[s], ranks[s], terms) for s in present]
    return encode_sites(opened), present


def read_answer(
    site: int, message: bytes, ranks: SiteRanks, terms: RankSumTerms
) -> SiteSums:
    """Read one site's answer, and reduce flipped labels to their two sums.

    Raises:
        FaultySiteError: the message is malformed, by another mechanism than was
            agreed, or its numbers are not those of the option that it names.
    """
    found = _from_site(Answer.decode, site, message)
    option, released = found.option, found.released
    if option.kind not in kinds_of(terms.mechanism) | {Kind.NOTHING}:
        raise FaultySiteError(
            site, f"answered by another mechanism than {terms.mechanism}"
        )
    try:
        if option.kind is Kind.RESPONSE_LABELS:
            released = np.array(ranks.sums(released), dtype=np.int64)
        build(option, ranks, terms.budget).decode(released)
    except DiscreetError as error:
        raise FaultySiteError(site, f"sent an unreadable answer: {error}") from None
    return SiteSums(option, ranks, released)


def _from_site(decode: Callable[[bytes], Message], site: int, raw: bytes) -> Message:
    try:
        return decode(raw)
    except MalformedMessageError as error:
        raise FaultySiteError(
            site, f"sent bytes that cannot be read: {error}"
        ) from None


@dataclass(frozen=True, eq=False)
class RankSite:
    """A site's half: bytes in, bytes out, the state as bytes between them.

    Args:
        terms: what the site agreed to.
        scores: its scores, in the order of its data.
        labels: called once, after the charge.
        entropy: secret bytes.
        charge: charges, makes, stores.
        flipped: for terms that keep flips, the flipped labels; called once, after
            the charge.
    """

    terms: RankSumTerms
    scores: FloatVector = field(repr=False)
    labels: Callable[[], IntVector] = field(repr=False)
    entropy: Entropy = field(repr=False)
    charge: Charge = field(repr=False)
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
        if self.terms.aggregation == "secagg":
            placed = np.empty_like(ranks.doubled)
            placed[order] = ranks.doubled
            return Ranks(SiteRanks(placed, ranks.examples)).encode(), b""
        return b"", self.charge(lambda: self._answer(ranks, order).encode())

    def summand(self, state: bytes, *, sites: int) -> IntVector:
        """Return the vector to put into a secure sum; charge for it first.

        It holds this site's share of the noise only: it must not be sent as it is.
        ``sites`` is how many must be in the sum, all that were ranked.
        """
        ranks = _kept(lambda raw: Ranks.decode(raw).ranks, state)
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
        order = _kept(SentOrder.decode, state).order
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
        try:
            ranks = Ranks.decode(message).ranks
        except MalformedMessageError as error:
            raise FaultyCoordinatorError(str(error)) from None
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

    def _answer(self, ranks: SiteRanks, order: IntVector) -> Answer:
        """Choose by public facts, protect, and say what was chosen."""
        terms = self.terms
        options = options_for(
            terms.mechanism, [ranks], terms.budget, share=terms.rank_share
        )
        option = options[0]
        mechanism = build(option, ranks, terms.budget)
        if self.flipped is not None and isinstance(mechanism, ResponseSums):
            flipped = self._sent(self.flipped(), order)
            if option.kind is Kind.RESPONSE_LABELS:
                return Answer(option, flipped)
            return Answer(option, mechanism.exact(flipped, ranks))
        if terms.keeps_flips and len(ranks):
            raise InputError("these terms keep flips: the site needs a key for them")
        labels = self._sent(self.labels(), order)
        return Answer(option, mechanism.protect(labels, ranks, entropy=self.entropy))

    def _sent(self, labels: IntVector, order: IntVector) -> IntVector:
        """Put labels into the order in which the scores were sent."""
        if labels.shape != order.shape:
            raise InputError(
                f"{order.size} scores need as many labels, got {labels.size}"
            )
        return labels[order].astype(np.int64)


def _kept(decode: Callable[[bytes], Message], state: bytes) -> Message:
    try:
        return decode(state)
    except MalformedMessageError as error:
        raise SavedStateError(f"the saved state cannot be read: {error}") from None

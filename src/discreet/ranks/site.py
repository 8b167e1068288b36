"""A site's side: send shuffled scores, get ranks, answer with protected sums.

Bytes in, bytes out. Between the two steps the site keeps a state, also bytes, with the
order in which it sent its scores: secret, because with it a score says whose it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.entropy import Entropy, words
from discreet.errors import InputError
from discreet.ranks.build import build, options_for
from discreet.ranks.choice import Option
from discreet.ranks.common import CommonEndpoint
from discreet.ranks.messages import Answer, Header, Invitation, Ranks, Scores, Tag
from discreet.ranks.ranks import SiteRanks
from discreet.ranks.response_sums import ResponseSums
from discreet.ranks.terms import RankSumTerms
from discreet.secagg.errors import (
    ConsumedStateError,
    FaultyCoordinatorError,
    MalformedMessageError,
    SavedStateError,
)
from discreet.secagg.wire import Reader

Message = TypeVar("Message")


@dataclass(frozen=True, eq=False)
class Joined:
    """A site that has sent its scores and waits for their ranks."""

    header: Header
    order: IntVector = field(repr=False)

    def encode(self) -> bytes:
        """Return the state to keep; it is secret."""
        return (
            self.header.writer(Tag.JOINED).rest(self.order.astype(">u4").tobytes())
        ).done()

    @classmethod
    def decode(cls, raw: bytes) -> Joined:
        """Read a kept state."""
        if len(raw) > 1 and raw[1] == Tag.ANSWERED:
            raise ConsumedStateError("state of a site that joined")
        what = "the saved state"
        try:
            reader = Reader(raw, Tag.JOINED, what)
            header = Header.read(reader, what)
            cells = np.frombuffer(reader.rest(), dtype=">u4").astype(np.int64)
        except (MalformedMessageError, ValueError) as error:
            raise SavedStateError(f"{what} cannot be read: {error}") from None
        if not np.array_equal(np.sort(cells), np.arange(cells.size)):
            raise SavedStateError(f"{what} does not hold an order of the scores")
        return cls(header, cells)


def join(
    invitation: bytes,
    scores: FloatVector,
    *,
    terms: RankSumTerms,
    site: int,
    entropy: Entropy,
) -> tuple[bytes, bytes]:
    """Return the state to keep and the message with the shuffled scores.

    Raises:
        FaultyCoordinatorError: the invitation is malformed, or for other terms or
            another site.
    """
    if not np.isfinite(scores).all():
        raise InputError("scores to be ranked must be finite numbers")
    header = _blaming(Invitation.decode, invitation).header
    if header.terms_digest != terms.digest():
        raise FaultyCoordinatorError(
            "the invitation is for other terms than this site agreed to"
        )
    if header.site != site:
        raise FaultyCoordinatorError(
            f"the invitation is for site {header.site}, this is site {site}"
        )
    order = np.argsort(words(entropy, scores.size), kind="stable").astype(np.int64)
    joined = Joined(header, order)
    return joined.encode(), Scores(header, scores[order]).encode()


@dataclass(frozen=True, eq=False)
class Ranked:
    """A site that knows its ranks: everything that an answer needs but the labels."""

    joined: Joined
    ranks: SiteRanks

    @classmethod
    def read(cls, state: bytes, message: bytes, scores: FloatVector) -> Ranked:
        """Read the ranks, and check that they could be those of the scores.

        Label privacy does not rest on this check: whatever weights a coordinator
        invents, the noise is sized by them.

        Raises:
            SavedStateError: the state is not one of a site that joined.
            ConsumedStateError: the site has answered already.
            FaultyCoordinatorError: the ranks are malformed, foreign, too few or too
                many, or in another order than the scores.
        """
        joined = Joined.decode(state)
        found = _blaming(Ranks.decode, message)
        if found.header != joined.header:
            raise FaultyCoordinatorError(
                "the ranks are for other terms, another session or another site"
            )
        if scores.size != joined.order.size:
            raise InputError(
                f"{joined.order.size} scores were sent, and {scores.size} are here now"
            )
        if len(found.ranks) != joined.order.size:
            raise FaultyCoordinatorError(
                f"{len(found.ranks)} ranks came for {joined.order.size} scores"
            )
        sent = scores[joined.order]
        by_score = np.argsort(sent, kind="stable")
        rise = np.sign(np.diff(sent[by_score]))
        if np.any(rise != np.sign(np.diff(found.ranks.doubled[by_score]))):
            raise FaultyCoordinatorError("the ranks are not in the order of the scores")
        return cls(joined, found.ranks)

    def answer(
        self,
        labels: IntVector,
        *,
        terms: RankSumTerms,
        entropy: Entropy,
        flipped: IntVector | None = None,
    ) -> tuple[bytes, bytes]:
        """Return the state to keep, which answers nothing more, and the answer.

        ``labels`` and ``flipped`` are in the order of the data. ``flipped`` are
        labels that the site flipped once and for all (randomized response); without
        them flips are drawn afresh.
        """
        self._check(terms)
        option = self._option(terms)
        mechanism = build(option, self.ranks, terms.budget)
        if flipped is not None and isinstance(mechanism, ResponseSums):
            released = mechanism.exact(self._sent(flipped))
        else:
            released = mechanism.protect(self._sent(labels), entropy=entropy)
        header = self.joined.header
        message = Answer(header, option, released).encode()
        return header.writer(Tag.ANSWERED).done(), message

    def summand(
        self, labels: IntVector, *, terms: RankSumTerms, sites: int, entropy: Entropy
    ) -> tuple[bytes, IntVector]:
        """Return the state to keep and the vector to put into a secure sum.

        It holds this site's share of the noise only: it must not be sent as it is.
        ``sites`` is how many must be in the sum, all that were ranked.
        """
        self._check(terms)
        honest = sites - terms.colluders
        common = CommonEndpoint(self.ranks.examples, terms.pure, honest)
        vector = common.protect(self._sent(labels), self.ranks, entropy=entropy)
        return self.joined.header.writer(Tag.ANSWERED).done(), vector

    def _option(self, terms: RankSumTerms) -> Option:
        return options_for(
            terms.mechanism, [self.ranks], terms.budget, share=terms.rank_share
        )[0]

    def _check(self, terms: RankSumTerms) -> None:
        if terms.digest() != self.joined.header.terms_digest:
            raise InputError("the site joined under other terms")

    def _sent(self, labels: IntVector) -> IntVector:
        """Put labels into the order in which the scores were sent."""
        if labels.shape != self.joined.order.shape:
            raise InputError(
                f"{self.joined.order.size} scores need as many labels, got "
                f"{labels.size}"
            )
        return labels[self.joined.order].astype(np.int64)


def _blaming(decode: Callable[[bytes], Message], raw: bytes) -> Message:
    """Read a message of the coordinator; it is at fault if that fails."""
    try:
        return decode(raw)
    except MalformedMessageError as error:
        raise FaultyCoordinatorError(str(error)) from None

"""The coordinator's side: invite, rank, and read the answers.

Ranks count the examples of every site that sent scores. So all of these must answer:
a sum without one of them would compare its examples with nobody's labels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

from discreet.arrays import IntVector
from discreet.entropy import Entropy
from discreet.errors import DiscreetError, InputError
from discreet.ranks.build import MechanismName, build
from discreet.ranks.choice import Kind
from discreet.ranks.common import CommonEndpoint
from discreet.ranks.messages import Answer, Header, Invitation, Ranks, Scores
from discreet.ranks.ranks import SiteRanks, rank_sites
from discreet.ranks.response_sums import ResponseSums
from discreet.ranks.sums import (
    LabelMechanism,
    RankSums,
    SumsCovariance,
    add_covariances,
    add_sums,
)
from discreet.ranks.terms import RankSumTerms
from discreet.secagg.errors import (
    FaultySiteError,
    MalformedMessageError,
    TooFewSitesError,
)

_FLIPS = (Kind.RESPONSE, Kind.RESPONSE_LABELS)
Message = TypeVar("Message")


@dataclass(frozen=True, slots=True)
class OpenedSums:
    """What the sites' answers add up to.

    ``flipped`` are the sums of the flipped labels as they came, without debiasing:
    only where every site answered by randomized response.
    """

    sums: RankSums
    covariance: SumsCovariance
    examples: int
    contributors: int
    session: bytes
    options: Mapping[Kind, int]
    flipped: RankSums | None = None


def invite(
    sites: Collection[int], *, terms: RankSumTerms, entropy: Entropy
) -> tuple[CollectingScores, dict[int, bytes]]:
    """Start a session and return an invitation for each site."""
    if not sites or len(set(sites)) != len(sites):
        raise InputError("an evaluation needs at least one site, each invited once")
    digest = terms.digest()
    session = hashlib.sha256(digest + entropy(32)).digest()
    headers = {site: Header(digest, session, site) for site in sorted(sites)}
    collecting = CollectingScores(terms, session, headers)
    return collecting, {s: Invitation(h).encode() for s, h in headers.items()}


class CollectingScores:
    """Waits for the sites' scores."""

    def __init__(
        self, terms: RankSumTerms, session: bytes, headers: Mapping[int, Header]
    ) -> None:
        self._terms = terms
        self._session = session
        self._headers = headers
        self._scores: dict[int, Scores] = {}

    def receive(self, site: int, message: bytes) -> None:
        """Take the scores of one site.

        Raises:
            FaultySiteError: the message is malformed, repeated or foreign.
        """
        found = _read(Scores.decode, site, message)
        _check(found.header, self._headers, site, self._scores)
        self._scores[site] = found

    def advance(self) -> tuple[CollectingAnswers, dict[int, bytes]]:
        """Rank all scores that came; sites that sent none are left out.

        Raises:
            TooFewSitesError: nobody sent scores.
        """
        if not self._scores:
            raise TooFewSitesError("scores", 0, 1)
        present = sorted(self._scores)
        ranked = rank_sites([self._scores[site].scores for site in present])
        ranks = dict(zip(present, ranked, strict=True))
        headers = {site: self._headers[site] for site in present}
        messages = {s: Ranks(headers[s], ranks[s]).encode() for s in present}
        return CollectingAnswers(self._terms, self._session, headers, ranks), messages


class CollectingAnswers:
    """Waits for the protected sums of every site that was ranked."""

    def __init__(
        self,
        terms: RankSumTerms,
        session: bytes,
        headers: Mapping[int, Header],
        ranks: Mapping[int, SiteRanks],
    ) -> None:
        self._terms = terms
        self._session = session
        self._headers = headers
        self._ranks = ranks
        self._mechanisms: dict[int, tuple[Kind, LabelMechanism]] = {}
        self._released: dict[int, IntVector] = {}

    @property
    def examples(self) -> int:
        """How many examples were ranked."""
        return sum(len(ranks) for ranks in self._ranks.values())

    @property
    def session(self) -> bytes:
        """The session that the ranks belong to."""
        return self._session

    def receive(self, site: int, message: bytes) -> None:
        """Take the answer of one site.

        Raises:
            FaultySiteError: the message is malformed, repeated or foreign, or its
                numbers are not those of the option that it names.
        """
        if self._terms.aggregation != "plain":
            raise InputError(
                "under secure aggregation sites do not answer: their sum is opened"
            )
        found = _read(Answer.decode, site, message)
        _check(found.header, self._headers, site, self._released)
        asked = self._terms.mechanism
        if found.option.kind not in KINDS[asked] | {Kind.NOTHING}:
            raise FaultySiteError(site, f"answered by another mechanism than {asked}")
        try:
            mechanism = build(found.option, self._ranks[site], self._terms.budget)
            mechanism.decode(found.released)
        except DiscreetError as error:
            raise FaultySiteError(site, f"sent an unreadable answer: {error}") from None
        self._mechanisms[site] = (found.option.kind, mechanism)
        self._released[site] = found.released

    def advance(self) -> OpenedSums:
        """Add the answers up.

        Raises:
            TooFewSitesError: a site that was ranked did not answer.
        """
        if len(self._released) < len(self._ranks):
            raise TooFewSitesError("answer", len(self._released), len(self._ranks))
        sites = sorted(self._released)
        used = [(*self._mechanisms[site], self._released[site]) for site in sites]
        kinds = [kind for kind, _, _ in used]
        flipped = [m.flipped_sums(z) for _, m, z in used if isinstance(m, ResponseSums)]
        all_flipped = all(kind in (*_FLIPS, Kind.NOTHING) for kind in kinds)
        return OpenedSums(
            add_sums(m.decode(z) for _, m, z in used),
            add_covariances(m.covariance for _, m, _ in used),
            self.examples,
            len(sites),
            self._session,
            {kind: kinds.count(kind) for kind in sorted(set(kinds))},
            add_sums(flipped) if flipped and all_flipped else None,
        )

    def open_sum(self, total: IntVector, contributors: int) -> OpenedSums:
        """Read the sum that secure aggregation opened.

        Raises:
            TooFewSitesError: a site that was ranked is not in the sum.
        """
        if contributors < len(self._ranks):
            raise TooFewSitesError("sum", contributors, len(self._ranks))
        honest = len(self._ranks) - self._terms.colluders
        common = CommonEndpoint(self.examples, self._terms.pure, honest)
        return OpenedSums(
            common.decode(total),
            common.covariance(contributors),
            self.examples,
            contributors,
            self._session,
            {},
        )


KINDS: Mapping[MechanismName, frozenset[Kind]] = {
    "choice": frozenset((Kind.ENDPOINT, Kind.SLACK, Kind.STAIRCASE, Kind.RESPONSE)),
    "endpoint": frozenset((Kind.ENDPOINT,)),
    "slack": frozenset((Kind.SLACK,)),
    "staircase": frozenset((Kind.STAIRCASE,)),
    "global-laplace": frozenset((Kind.GLOBAL,)),
    "local-laplace": frozenset((Kind.LOCAL,)),
    "orthogonal": frozenset((Kind.ORTHOGONAL,)),
    "adaptive": frozenset((Kind.ORTHOGONAL,)),
    "response": frozenset((Kind.RESPONSE,)),
    "response-labels": frozenset((Kind.RESPONSE_LABELS,)),
}
"""How the answers of each named mechanism may be numbered."""


def _read(decode: Callable[[bytes], Message], site: int, raw: bytes) -> Message:
    try:
        return decode(raw)
    except MalformedMessageError as error:
        raise FaultySiteError(
            site, f"sent bytes that cannot be read: {error}"
        ) from None


def _check(
    header: Header,
    known: Mapping[int, Header],
    site: int,
    earlier: Collection[int],
) -> None:
    """Refuse a message that is foreign or came before."""
    if site not in known:
        raise FaultySiteError(site, "was not asked for this message")
    if header != known[site]:
        raise FaultySiteError(
            site, "sent a message of other terms, another session or another site"
        )
    if site in earlier:
        raise FaultySiteError(site, "sent this message already; the first one counts")

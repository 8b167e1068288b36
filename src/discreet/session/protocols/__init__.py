"""How the answers of a round travel: one file a protocol, both halves side by side.

The coordinator's half is ``reveal``: it asks the nodes step by step and returns the
sums that were revealed. A site's half is ``join`` and ``step``: a message in, a reply
and the next state out. Neither knows what carries the messages.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.arrays import IntVector
from discreet.entropy import Entropy
from discreet.errors import PlanError
from discreet.plan.plan import Plan
from discreet.plan.protocol import SessionProtocol
from discreet.plan.rounds import ResolvedRound
from discreet.privacy.account import Use
from discreet.session.messages import Kind, Message, earlier_releases
from discreet.session.policy import PolicyError
from discreet.session.respond import respond, use_of
from discreet.session.state import Progress

if TYPE_CHECKING:
    from discreet.session.site import Site


class Sent(NamedTuple):
    """One message of a step: for which site, and its content."""

    site: int
    """The site's number in the round; 0: it finds its number in the roster."""
    body: bytes


Ask: TypeAlias = Callable[[str, Mapping[int, Sent]], Mapping[int, Message]]
"""Send each node its message of a step; return the valid answers, by node."""


class GroupSum(NamedTuple):
    """A revealed sum, the nodes in it, and, of a random group, its sites' numbers."""

    total: IntVector
    nodes: list[int]
    members: tuple[int, ...] = ()


@dataclass(frozen=True)
class CoordinatorRound:
    """One round as the coordinator's half sees it."""

    plan: Plan
    round: ResolvedRound
    session: bytes
    totals: IntVector = field(repr=False)
    """The revealed sums of the earlier rounds, one after the other."""
    nodes: Sequence[int]
    entropy: Entropy = field(repr=False)

    @cached_property
    def length(self) -> int:
        """How many numbers each site sends."""
        return sent_numbers(self.plan, self.round)


@dataclass(frozen=True)
class SiteRound:
    """One round as a site's half sees it, with the message to be answered."""

    site: Site
    plan: Plan
    progress: Progress
    message: Message

    @cached_property
    def round(self) -> ResolvedRound:
        """The round, worked out from the plan and the broadcast sums."""
        at = self.progress
        earlier = earlier_releases(self.plan, at.session, at.round, at.totals)
        return self.plan.resolve(at.round, earlier)

    @property
    def signer(self) -> Ed25519PrivateKey | None:
        """The key that signs for this site, None where nobody signs."""
        if self.plan.roster is None or self.site.simulated:
            return None
        if self.site.identity is None:
            raise PolicyError("the plan has a roster: give this site's identity key")
        return self.site.identity

    def admit(self) -> None:
        """Check policy and caps once more, before something is charged."""
        self.site.admit(self.plan, session=self.progress.charged_as)

    def use(self) -> Use:
        """Return what the account is charged for."""
        return use_of(
            self.plan,
            self.round,
            session=self.progress.charged_as,
            population=self.site.policy.population,
        )

    def answer(self, *, signed: bool = False) -> IntVector:
        """Return the vector that is sent: charged, counted, protected and stored.

        ``signed``: nothing of it can be revealed before this site signs.
        """
        charged_as = self.progress.charged_as
        return respond(
            self.site, self.plan, self.round, session=charged_as, signed=signed
        )

    def reply(
        self, *, body: bytes = b"", numbers: IntVector | None = None, state: bytes = b""
    ) -> tuple[Progress, Message]:
        """Return the next state and the reply; an empty state ends the round."""
        following = replace(self.progress, conversation=state)
        site = self.progress.site
        return following, self.message.reply(
            Kind.STEP, site=site, body=body, numbers=numbers
        )


class Protocol(SessionProtocol):
    """A protocol between a coordinator and separate sites."""

    @abstractmethod
    def reveal(self, current: CoordinatorRound, ask: Ask) -> list[GroupSum]:
        """Carry out the coordinator's half of a round; return what was revealed.

        Raises:
            TooFewSitesError: too few sites came or stayed.
            FaultySiteError: a site's answer makes a sum impossible.
        """

    @abstractmethod
    def join(
        self, current: SiteRound, opening: bytes, charged_before: bytes | None
    ) -> tuple[Progress, Message]:
        """Answer an invitation to a round.

        ``charged_before`` names the charge of the earlier rounds of the session.
        """

    @abstractmethod
    def step(self, current: SiteRound) -> tuple[Progress, Message]:
        """Answer a further message of the round."""

    def unsigned(self) -> Protocol:
        """Return the protocol of a simulation, where nobody signs."""
        return self

    def stored(self, current: SiteRound) -> IntVector | None:
        """Return the numbers that this round was answered with before, if any."""
        del current
        return None

    def withdraw(
        self, current: SiteRound, tell: Callable[[str], None]
    ) -> tuple[Progress, Message] | None:
        """Leave the round for good after a failure, where the protocol has a way."""
        del current, tell
        return None

    def ended(self, current: SiteRound, withdrawals: Mapping[int, bytes]) -> None:
        """Settle the account when the coordinator has ended the session."""


def protocol_of(plan: Plan, *, simulated: bool = False) -> Protocol:
    """Return the protocol of a plan that separate sites carry out, or a simulation."""
    protocol = plan.protocol
    if not isinstance(protocol, Protocol):
        raise PlanError(f"separate sites do not carry out a plan by {protocol.name}")
    return protocol.unsigned() if simulated else protocol


def sent_numbers(plan: Plan, resolved: ResolvedRound) -> int:
    """Return how many numbers a site sends in a round."""
    mechanism = plan.privacy.mechanism_for(resolved, plan.cohort)
    return mechanism.sent(resolved.statistic.size)

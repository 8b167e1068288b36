"""What a site keeps between two letters, and the promise to use it once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from discreet.arrays import IntVector
from discreet.errors import DiscreetError
from discreet.plan.plan import Plan
from discreet.plan.rounds import ResolvedRound
from discreet.site.letters import (
    Invitation,
    earlier_releases,
    pack,
    to_numbers,
    unpack,
)


class Once(Protocol):
    """Remembers which states were used; durable where a process may be restarted."""

    def take(self, name: bytes) -> None:
        """Mark a name as used, or raise when it already was."""
        ...


class UsedStateError(DiscreetError):
    """A state was offered a second time; answering again would reuse masks."""

    def __init__(self) -> None:
        super().__init__(
            "this step of the session was already answered; a second answer would "
            "give away what the masks protect, start a new session"
        )


@dataclass(slots=True)
class InMemoryOnce:
    """For a site that lives in one process."""

    used: set[bytes] = field(default_factory=set)

    def take(self, name: bytes) -> None:
        """Mark a name as used, or raise when it already was."""
        if name in self.used:
            raise UsedStateError
        self.used.add(name)


@dataclass(frozen=True, slots=True)
class Progress:
    """What the site keeps between two letters."""

    session: bytes
    round: int
    charged_as: bytes
    """The session's name in the ledger: of this joining, not of the coordinator's."""
    site: int
    plan: Plan
    totals: IntVector = field(repr=False)
    conversation: bytes = field(default=b"", repr=False)
    """The secret state of the round's conversation; empty when it is over."""

    def to_bytes(self) -> bytes:
        """Save it; the bytes are as secret as the data."""
        invitation = Invitation(self.plan, b"", b"").encode()
        place = self.round.to_bytes(1, "big") + self.site.to_bytes(4, "big")
        shown = self.totals.astype("<i8").tobytes()
        return pack(
            self.session, place, self.charged_as, invitation, shown, self.conversation
        )

    @classmethod
    def of(cls, raw: bytes) -> Progress:
        """Restore it."""
        session, place, charged_as, invitation, shown, conversation = unpack(raw, 6)
        return cls(
            session,
            place[0],
            charged_as,
            int.from_bytes(place[1:], "big"),
            Invitation.decode(invitation).plan,
            to_numbers(shown),
            conversation,
        )

    def resolve(self) -> ResolvedRound:
        """Work out the round from the plan and the broadcast sums."""
        earlier = earlier_releases(self.plan, self.session, self.round, self.totals)
        return self.plan.resolve(self.round, earlier)

    @property
    def finished(self) -> bool:
        """Whether the site has said all that it will say in this round."""
        return not self.conversation

"""What a site keeps between two letters, and the promise to use it once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from discreet.arrays import IntVector
from discreet.errors import DiscreetError
from discreet.plan.plan import Plan
from discreet.plan.rounds import ResolvedRound
from discreet.session.messages import (
    DIGEST_SIZE,
    Ending,
    Invitation,
    Message,
    earlier_releases,
    pack,
    to_numbers,
    unpack,
    unpack_all,
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
    replies: Mapping[bytes, bytes] = field(default_factory=dict, repr=False)
    """What was answered to which letter: a letter that comes again gets the very
    same bytes, because another answer would use its masks twice."""
    ending: Ending | None = None
    """How the session ended, once the coordinator has said so."""

    def reply_to(self, message: Message) -> Message | None:
        """Return what this letter was answered before, None if it is new."""
        stored = self.replies.get(message.digest())
        return None if stored is None else Message.decode(stored)

    def replied(self, message: Message, reply: Message) -> Progress:
        """Keep an answer, to be sent again when its letter is."""
        return replace(self, replies={**self.replies, message.digest(): reply.encode()})

    def ended(self, ending: Ending) -> Progress:
        """Forget every key and answer: nothing is said in this session any more."""
        return replace(self, conversation=b"", replies={}, ending=ending)

    def to_bytes(self) -> bytes:
        """Save it; the bytes are as secret as the data."""
        invitation = Invitation(self.plan, b"", b"").encode()
        place = self.round.to_bytes(1, "big") + self.site.to_bytes(4, "big")
        shown = self.totals.astype("<i8").tobytes()
        return pack(
            self.session,
            place,
            self.charged_as,
            invitation,
            shown,
            self.conversation,
            b"" if self.ending is None else self.ending.encode(),
            b"".join(pack(about + reply) for about, reply in self.replies.items()),
        )

    @classmethod
    def of(cls, raw: bytes) -> Progress:
        """Restore it."""
        session, place, charged_as, invitation, shown, *rest = unpack(raw, 8)
        conversation, ending, replies = rest
        return cls(
            session,
            place[0],
            charged_as,
            int.from_bytes(place[1:], "big"),
            Invitation.decode(invitation).plan,
            to_numbers(shown),
            conversation,
            {r[:DIGEST_SIZE]: r[DIGEST_SIZE:] for r in unpack_all(replies)},
            Ending.decode(ending) if ending else None,
        )

    def resolve(self) -> ResolvedRound:
        """Work out the round from the plan and the broadcast sums."""
        earlier = earlier_releases(self.plan, self.session, self.round, self.totals)
        return self.plan.resolve(self.round, earlier)

    @property
    def finished(self) -> bool:
        """Whether the site has said all that it will say in this round."""
        return not self.conversation


def progress_in(state: bytes, session: bytes) -> Progress | None:
    """Return how far a site is in a session, None when it is not in it."""
    if len(unpack_all(state)) < 2:
        return None
    progress = Progress.of(state)
    return progress if progress.session == session else None


def after_refusal(state: bytes, message: Message) -> bytes:
    """Forget a session in which a wrong letter came, and no other session.

    What is left says that it was refused: its next letters, and this one when it
    comes again, are declined without another entry in the ledger.
    """
    try:
        progress = None if len(unpack_all(state)) < 2 else Progress.of(state)
    except DiscreetError:
        progress = None
    if progress is not None and (
        progress.ending or progress.session != message.session
    ):
        return state
    return pack(message.session)


def was_refused(state: bytes, message: Message) -> bool:
    """Whether a site has declined the session of a letter before."""
    return state == pack(message.session)

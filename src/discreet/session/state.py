"""What a site keeps between two messages, and the promise to use it once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from discreet.arrays import IntVector
from discreet.errors import DiscreetError
from discreet.plan import file as planfile
from discreet.plan.plan import Plan
from discreet.plan.rounds import ResolvedRound
from discreet.secret_files import write_secret
from discreet.session.messages import (
    DIGEST_SIZE,
    Ending,
    Message,
    MessageError,
    earlier_releases,
    pack,
    to_numbers,
    unpack,
    unpack_all,
)


class SiteMemory(Protocol):
    """Remembers used states and joined plans; durable where a process may restart."""

    def take(self, name: bytes) -> None:
        """Mark a name as used, or raise when it already was."""
        ...

    def keep(self, plan: Plan, text: str) -> None:
        """Keep the plan of a session that is joined."""
        ...

    def plan(self, digest: bytes) -> Plan:
        """Return a plan that was kept."""
        ...


class UsedStateError(DiscreetError):
    """A state was offered a second time; answering again would reuse masks."""

    def __init__(self) -> None:
        super().__init__(
            "this step of the session was already answered; a second answer would "
            "give away what the masks protect, start a new session"
        )


@dataclass(slots=True)
class InMemory:
    """For a site that lives in one process."""

    used: set[bytes] = field(default_factory=set)
    plans: dict[bytes, Plan] = field(default_factory=dict)

    def take(self, name: bytes) -> None:
        """Mark a name as used, or raise when it already was."""
        if name in self.used:
            raise UsedStateError
        self.used.add(name)

    def keep(self, plan: Plan, text: str) -> None:
        """Keep the plan of a session that is joined."""
        del text
        self.plans[plan.digest()] = plan

    def plan(self, digest: bytes) -> Plan:
        """Return a plan that was kept."""
        return _known(self.plans.get(digest))


@dataclass(frozen=True, slots=True)
class InFolder:
    """On disk before the answer is sent: used states as empty files, plans as TOML."""

    folder: Path
    _plans: dict[bytes, Plan] = field(default_factory=dict, repr=False)

    def take(self, name: bytes) -> None:
        """Mark a name as used, or raise when it already was."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        try:
            os.close(os.open(self.folder / name.hex(), flags, mode=0o600))
        except FileExistsError:
            raise UsedStateError from None
        directory = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def keep(self, plan: Plan, text: str) -> None:
        """Keep the plan of a session that is joined."""
        self._plans[plan.digest()] = plan
        path = self._path(plan.digest())
        if not path.exists():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_secret(path, text.encode(), over=True)

    def plan(self, digest: bytes) -> Plan:
        """Return a plan that was kept."""
        if digest not in self._plans and self._path(digest).exists():
            text = self._path(digest).read_text(encoding="utf-8")
            self._plans[digest] = planfile.loads(text)
        return _known(self._plans.get(digest))

    def _path(self, digest: bytes) -> Path:
        return self.folder / f"plan-{digest.hex()}.toml"


def memory_beside(ledger: Path) -> InFolder:
    """Return the folder of used states and plans that belongs to a ledger."""
    return InFolder(ledger.with_name(ledger.name + ".steps"))


def _known(plan: Plan | None) -> Plan:
    if plan is None:
        raise MessageError("the plan of this session is not known here")
    return plan


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a site is in a session; its bytes are as secret as the data."""

    session: bytes
    round: int
    charged_as: bytes
    """The session's name in the account: of this joining, not of the coordinator's."""
    site: int
    plan_digest: bytes
    totals: IntVector = field(repr=False)
    """The broadcast sums of the earlier rounds."""
    conversation: bytes = field(default=b"", repr=False)
    """The secret state of the round's protocol; empty when the round is over."""
    replies: Mapping[bytes, bytes] = field(default_factory=dict, repr=False)
    """What was answered to which message: a message that comes again gets the very
    same bytes, because another answer would use its masks twice."""
    ending: Ending | None = None
    """How the session ended, once the coordinator has told."""

    def reply_to(self, message: Message) -> Message | None:
        """Return what this message was answered before, None if it is new."""
        stored = self.replies.get(message.digest())
        return None if stored is None else Message.decode(stored)

    def replied(self, message: Message, reply: Message) -> Progress:
        """Keep an answer, to be sent again when its message is."""
        return replace(self, replies={**self.replies, message.digest(): reply.encode()})

    def ended(self, ending: Ending) -> Progress:
        """Forget every key and answer: nothing more is sent in this session."""
        return replace(self, conversation=b"", replies={}, ending=ending)

    def to_bytes(self) -> bytes:
        """Save it."""
        return pack(
            self.session,
            self.round.to_bytes(1, "big") + self.site.to_bytes(4, "big"),
            self.charged_as,
            self.plan_digest,
            self.totals.astype("<i8").tobytes(),
            self.conversation,
            b"" if self.ending is None else self.ending.encode(),
            b"".join(pack(about + reply) for about, reply in self.replies.items()),
        )

    @classmethod
    def of(cls, raw: bytes) -> Progress:
        """Restore it."""
        session, place, charged_as, digest, shown, *rest = unpack(raw, 8)
        conversation, ending, replies = rest
        return cls(
            session,
            place[0],
            charged_as,
            int.from_bytes(place[1:], "big"),
            digest,
            to_numbers(shown),
            conversation,
            {r[:DIGEST_SIZE]: r[DIGEST_SIZE:] for r in unpack_all(replies)},
            Ending.decode(ending) if ending else None,
        )

    def resolve(self, plan: Plan) -> ResolvedRound:
        """Work out the round from the plan and the broadcast sums."""
        earlier = earlier_releases(plan, self.session, self.round, self.totals)
        return plan.resolve(self.round, earlier)

    @property
    def finished(self) -> bool:
        """Whether the site has sent all that it will send in this round."""
        return not self.conversation


def progress_in(state: bytes, session: bytes) -> Progress | None:
    """Return how far a site is in a session, None when it is not in it."""
    if len(unpack_all(state)) < 2:
        return None
    progress = Progress.of(state)
    return progress if progress.session == session else None


def after_refusal(state: bytes, message: Message) -> bytes:
    """Forget a session in which a wrong message came, and no other session.

    The bytes that are left name the refused session: its next messages, and this one
    when it comes again, are declined without another entry in the ledger.
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
    """Whether a site has declined the session of a message before."""
    return state == pack(message.session)

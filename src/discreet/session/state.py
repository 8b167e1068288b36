"""What a site keeps between two messages, and the promise to use it once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar, Protocol

from discreet.codec.messages import (
    BinaryMessage,
    Blob,
    Choice,
    FieldCodec,
    MalformedMessageError,
    Maybe,
    Number,
    Reader,
    Several,
)
from discreet.errors import DiscreetError
from discreet.plan import file as planfile
from discreet.plan.plan import Plan
from discreet.secagg.messages import Digest
from discreet.secret_files import sync_folder, write_secret
from discreet.session.messages import (
    DIGEST_SIZE,
    Ending,
    Message,
    MessageError,
    Numbers,
    SessionTag,
)


class SiteMemory(Protocol):
    """Remembers used states and joined plans; durable where a process may restart."""

    def check(self, name: bytes) -> None:
        """Raise when a name was used."""
        ...

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


@dataclass
class InMemory:
    """For a site that lives in one process."""

    used: set[bytes] = field(default_factory=set, init=False)
    plans: dict[bytes, Plan] = field(default_factory=dict, init=False, repr=False)

    def check(self, name: bytes) -> None:
        """Raise when a name was used."""
        if name in self.used:
            raise UsedStateError

    def take(self, name: bytes) -> None:
        """Mark a name as used, or raise when it already was."""
        self.check(name)
        self.used.add(name)

    def keep(self, plan: Plan, text: str) -> None:
        """Keep the plan of a session that is joined."""
        del text
        self.plans[plan.digest()] = plan

    def plan(self, digest: bytes) -> Plan:
        """Return a plan that was kept."""
        if digest not in self.plans:
            raise MessageError("the plan of this session is not known here")
        return self.plans[digest]


@dataclass
class InFolder(InMemory):
    """On disk before the answer is sent: used states as empty files, plans as TOML."""

    folder: Path

    def check(self, name: bytes) -> None:
        """Raise when a name was used."""
        if (self.folder / name.hex()).exists():
            raise UsedStateError

    def take(self, name: bytes) -> None:
        """Mark a name as used, or raise when it already was."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        try:
            os.close(os.open(self.folder / name.hex(), flags, mode=0o600))
        except FileExistsError:
            raise UsedStateError from None
        sync_folder(self.folder)

    def keep(self, plan: Plan, text: str) -> None:
        """Keep the plan of a session that is joined."""
        super().keep(plan, text)
        path = self._path(plan.digest())
        if not path.exists():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_secret(path, text.encode(), over=True)

    def plan(self, digest: bytes) -> Plan:
        """Return a plan that was kept, also by another process."""
        path = self._path(digest)
        if digest not in self.plans and path.exists():
            plan = planfile.loads(path.read_text(encoding="utf-8"))
            self.plans[plan.digest()] = plan  # of another one, if it was changed
        return super().plan(digest)

    def _path(self, digest: bytes) -> Path:
        return self.folder / f"plan-{digest.hex()}.toml"


def memory_beside(ledger: Path) -> InFolder:
    """Return the folder of used states and plans that belongs to a ledger."""
    return InFolder(ledger.with_name(ledger.name + ".steps"))


class _Replies(FieldCodec):
    """What was answered to which message: a digest and a message each."""

    def write(self, value: Mapping[bytes, Message]) -> bytes:
        entries = [about + reply.encode() for about, reply in value.items()]
        return Several(Blob()).write(entries)

    def read(self, reader: Reader) -> dict[bytes, Message]:
        entries = Several(Blob()).read(reader)
        return {
            each[:DIGEST_SIZE]: Message.decode(each[DIGEST_SIZE:]) for each in entries
        }


@dataclass(frozen=True, slots=True)
class Progress(BinaryMessage):
    """How far a site is in a session; its bytes are as secret as the data."""

    tag: ClassVar = SessionTag.PROGRESS
    called: ClassVar = "the saved state"
    session: Digest
    round: Annotated[int, Number(1)]
    charged_as: Digest
    """The session's name in the account: of this joining, not of the coordinator's."""
    site: Annotated[int, Number()]
    plan_digest: Digest
    totals: Numbers = field(repr=False)
    """The broadcast sums of the earlier rounds."""
    conversation: Annotated[bytes, Blob()] = field(default=b"", repr=False)
    """The secret state of the round's protocol; empty when the round is over."""
    replies: Annotated[Mapping[bytes, Message], _Replies()] = field(
        default_factory=dict, repr=False
    )
    """What was answered to which message: a message that comes again gets the very
    same bytes, because another answer would use its masks twice."""
    ending: Annotated[Ending | None, Maybe(Choice(Ending))] = None
    """How the session ended, once the coordinator has told."""

    def replied(self, message: Message, reply: Message) -> Progress:
        """Keep an answer, to be sent again when its message is."""
        return replace(self, replies={**self.replies, message.digest(): reply})

    def ended(self, ending: Ending) -> Progress:
        """Forget every key and answer: nothing more is sent in this session."""
        return replace(self, conversation=b"", replies={}, ending=ending)

    @property
    def finished(self) -> bool:
        """Whether the site has sent all that it will send in this round."""
        return not self.conversation


@dataclass(frozen=True, slots=True)
class RefusedSession(BinaryMessage):
    """The state of a site that has declined a session."""

    tag: ClassVar = SessionTag.REFUSED
    called: ClassVar = "the saved state"
    session: Digest


def progress_in(state: bytes, session: bytes) -> Progress | None:
    """Return how far a site is in a session, None when it is not in it."""
    if not state or state[1:2] == bytes([SessionTag.REFUSED]):
        return None
    progress = Progress.decode(state)
    return progress if progress.session == session else None


def after_refusal(state: bytes, message: Message) -> bytes:
    """Forget a session in which a wrong message came, and no other session.

    The bytes that are left name the refused session: its next messages, and this one
    when it comes again, are declined without another entry in the ledger.
    """
    try:
        progress = Progress.decode(state)
    except MalformedMessageError:
        progress = None
    if progress is not None and (
        progress.ending or progress.session != message.session
    ):
        return state
    return RefusedSession(message.session).encode()


def was_refused(state: bytes, message: Message) -> bool:
    """Whether a site has declined the session of a message before."""
    return state == RefusedSession(message.session).encode()

"""What travels between a site and the coordinator, whatever carries it.

Every message names the plan (its digest covers the roster and the model's identity), the
session and the round, so that nothing can be replayed elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Annotated, ClassVar, Final, TypeAlias

import numpy as np

from discreet.arrays import IntVector
from discreet.codec.messages import (
    BinaryMessage,
    Blob,
    Choice,
    Fixed,
    MalformedMessageError,
    Number,
    Reader,
    SiteMap,
)
from discreet.errors import PlanError
from discreet.plan.file import loads
from discreet.plan.plan import Plan
from discreet.plan.rounds import Release
from discreet.secagg.keys import NONCE_SIZE, SIGNATURE_SIZE
from discreet.secagg.messages import Digest

DIGEST_SIZE: Final = 32
_NO_MESSAGE: Final = bytes(DIGEST_SIZE)
NO_NUMBERS: Final = np.zeros(0, dtype=np.int64)


class MessageError(MalformedMessageError):
    """Bytes that no correct sender writes, or a message that belongs elsewhere."""


class Kind(IntEnum):
    """What a message is for."""

    INVITE = 1
    """Coordinator to site: join round ``round`` of this session."""
    STEP = 2
    """Either way: the next message of the round's protocol."""
    DECLINED = 3
    """Site to coordinator: no, and nothing else."""
    END = 4
    """Coordinator to site: how the session ended; the site's: it has understood."""


class SessionTag(IntEnum):
    """The second byte of what a session sends or keeps."""

    MESSAGE = 96
    INVITATION = 97
    END = 98
    PROGRESS = 99
    REFUSED = 100
    JOURNAL = 101
    SUMMED_RANKS = 102


class _Numbers(Blob):
    """A vector of 64-bit integers with its length in front."""

    def write(self, value: IntVector) -> bytes:  # type: ignore[override]
        return super().write(to_bytes(value))

    def read(self, reader: Reader) -> IntVector:  # type: ignore[override]
        return to_numbers(super().read(reader))


class _Text(Blob):
    """UTF-8 text with its length in front."""

    def write(self, value: str) -> bytes:  # type: ignore[override]
        return super().write(value.encode())

    def read(self, reader: Reader) -> str:  # type: ignore[override]
        try:
            return super().read(reader).decode()
        except UnicodeDecodeError:
            raise reader.error("holds no UTF-8 text") from None


Numbers: TypeAlias = Annotated[IntVector, _Numbers()]


class Ending(IntEnum):
    """How a session ended."""

    REVEALED = 1
    TOO_FEW_SITES = 2
    FAILED = 3

    @property
    def sentence(self) -> str:
        """Tell a site's operator."""
        match self:
            case Ending.REVEALED:
                return "the coordinator has revealed the result"
            case Ending.TOO_FEW_SITES:
                return "too few sites came or stayed, and nothing more was revealed"
            case Ending.FAILED:
                return "the coordinator failed, and nothing more was revealed"


@dataclass(frozen=True, slots=True)
class EndNotice(BinaryMessage):
    """The body of the last message: how it ended, and who withdrew from an exact sum."""

    tag: ClassVar = SessionTag.END
    called: ClassVar = "a notice of the end"
    ending: Annotated[Ending, Choice(Ending)]
    withdrawals: Annotated[Mapping[int, bytes], SiteMap(SIGNATURE_SIZE)] = field(
        default_factory=dict
    )


@dataclass(frozen=True)
class Message(BinaryMessage):
    """One message, bound to a plan, a session and a round."""

    tag: ClassVar = SessionTag.MESSAGE
    called: ClassVar = "a message"
    kind: Annotated[Kind, Choice(Kind)]
    plan_digest: Digest
    session: Digest
    round: Annotated[int, Number(1)]
    site: Annotated[int, Number()] = 0
    """The site's number in the round; 0 in an invitation: find it in the roster."""
    body: Annotated[bytes, Blob()] = field(default=b"", repr=False)
    numbers: Numbers = field(
        default_factory=lambda: NO_NUMBERS, repr=False, compare=False
    )
    about: Digest = field(default=_NO_MESSAGE, repr=False)
    """The digest of the message that this one answers: a late or doubled answer cannot
    be taken for that of another step."""

    def __post_init__(self) -> None:
        if {len(self.plan_digest), len(self.session), len(self.about)} != {DIGEST_SIZE}:
            raise MessageError(
                f"digests of plans and messages, and sessions, have {DIGEST_SIZE} bytes"
            )
        if self.numbers.dtype != np.int64 or self.numbers.ndim != 1:
            raise MessageError("a message carries a vector of 64-bit integers")

    @property
    def head(self) -> bytes:
        """What the message is bound to: its bytes without content."""
        return replace(self, body=b"", numbers=NO_NUMBERS).encode()

    @cached_property
    def _digest(self) -> bytes:
        return hashlib.sha256(b"discreet message\0" + self.encode()).digest()

    def digest(self) -> bytes:
        """Name the message: the same bytes, sent again, have the same name."""
        return self._digest

    @classmethod
    def of(cls, head: bytes, body: bytes, numbers: IntVector) -> Message:
        """Put together what a transport carried in parts."""
        bound = cls.decode(head)
        if bound.body or bound.numbers.size:
            raise MessageError("the head of a message has content")
        return replace(bound, body=body, numbers=numbers)

    def answers(self, other: Message) -> bool:
        """Whether this is an answer to a message, of its plan, session and round."""
        return (self.about, self.plan_digest, self.session, self.round) == (
            other.digest(),
            other.plan_digest,
            other.session,
            other.round,
        )

    def reply(
        self,
        kind: Kind,
        *,
        site: int,
        body: bytes = b"",
        numbers: IntVector | None = None,
    ) -> Message:
        """Return a message of the same plan, session and round, about this one."""
        return Message(
            kind,
            self.plan_digest,
            self.session,
            self.round,
            site,
            body,
            NO_NUMBERS if numbers is None else numbers,
            self.digest(),
        )


@dataclass(frozen=True, slots=True)
class Invitation(BinaryMessage):
    """The body of an invitation: the plan in full, and what starts the round."""

    tag: ClassVar = SessionTag.INVITATION
    called: ClassVar = "an invitation"
    text: Annotated[str, _Text()]
    """The plan's file."""
    nonce: Annotated[bytes, Fixed(NONCE_SIZE)]
    opening: Annotated[bytes, Blob()] = field(repr=False)
    """The first message of the round's protocol."""
    signature: Annotated[bytes, Blob(SIGNATURE_SIZE)] = field(default=b"", repr=False)
    """The coordinator's, when the roster names its key."""

    def plan(self) -> Plan:
        """Return the plan that the text holds."""
        try:
            return loads(self.text)
        except PlanError as error:
            raise MessageError(
                f"the invitation holds no valid plan: {error}"
            ) from error

    def statement(self, message: Message) -> bytes:
        """Return what the coordinator signs; the message's head names the plan."""
        return b"discreet invitation\0" + pack(
            message.head, self.nonce, self.opening, to_bytes(message.numbers)
        )


def session_of(plan: Plan, nonce: bytes) -> bytes:
    """Name a session: the plan and a fresh nonce of the coordinator."""
    return hashlib.sha256(b"discreet session\0" + pack(plan.digest(), nonce)).digest()


def round_digest(plan: Plan, session: bytes, index: int, totals: IntVector) -> bytes:
    """Name one round: sites that were shown different earlier sums disagree on it."""
    place = index.to_bytes(1, "big")
    return hashlib.sha256(
        b"discreet round\0" + pack(plan.digest(), session, place, to_bytes(totals))
    ).digest()


def earlier_releases(
    plan: Plan, session: bytes, index: int, totals: IntVector
) -> list[Release]:
    """Read the broadcast totals of the rounds before this one.

    How many sites were in them stays open at a site: it is not needed to work out
    the next round, so the least number that the plan allows is written.
    """
    releases: list[Release] = []
    least = plan.cohort.min_survivors
    for i in range(index):
        this = plan.resolve(i, releases)
        size = this.statistic.size
        if totals.size < size:
            raise MessageError("the broadcast sums are shorter than the plan says")
        own, totals = totals[:size], totals[size:]
        releases.append(
            Release(plan.digest(), session, i, own, least, least, this.loss)
        )
    if totals.size:
        raise MessageError("the broadcast sums are longer than the plan says")
    return releases


def pack(*fields: bytes) -> bytes:
    """Join fields, each with its length, to be hashed or signed."""
    return b"".join(map(Blob().write, fields))


def to_bytes(numbers: IntVector) -> bytes:
    """Write a vector of 64-bit integers."""
    return numbers.astype("<i8").tobytes()


def to_numbers(raw: bytes) -> IntVector:
    """Read a vector of 64-bit integers."""
    if len(raw) % 8:
        raise MessageError("a vector is not a whole number of 64-bit integers")
    return np.frombuffer(raw, dtype="<i8").astype(np.int64)

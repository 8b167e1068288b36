"""What travels between a site and the coordinator, whatever carries it.

Every letter names the plan (its digest covers the roster and the model's identity),
the session and the round, so that nothing can be replayed elsewhere. Numbers travel
apart from the body: a runtime may have a place of its own for arrays.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import numpy as np

from discreet.arrays import IntVector
from discreet.errors import DiscreetError, PlanError
from discreet.plan.file import loads
from discreet.plan.plan import Plan
from discreet.plan.release import Release

VERSION: Final = 3
DIGEST_SIZE: Final = 32
_DIGEST: Final = f"{DIGEST_SIZE}s"
_HEAD: Final = struct.Struct(f">BB{_DIGEST}{_DIGEST}BI{_DIGEST}")
_NO_LETTER: Final = bytes(DIGEST_SIZE)
_WITHDRAWAL: Final = struct.Struct(">I64s")


class MessageError(DiscreetError):
    """Bytes that no correct sender writes, or a letter that belongs elsewhere."""


class Kind(IntEnum):
    """What a letter is for."""

    INVITE = 1
    """Coordinator to site: join round ``round`` of this session."""
    STEP = 2
    """Either way: the next message of the round's conversation."""
    DECLINED = 3
    """Site to coordinator: no, and nothing else."""
    END = 4
    """Coordinator to site: how the session ended; the site's: it has understood."""


class Ending(IntEnum):
    """How a session ended. The last letter adds who withdrew from an exact sum."""

    REVEALED = 1
    TOO_FEW_SITES = 2
    FAILED = 3

    @property
    def sentence(self) -> str:
        """Say it to a site's operator."""
        match self:
            case Ending.REVEALED:
                return "the coordinator has revealed the result"
            case Ending.TOO_FEW_SITES:
                return "too few sites came or stayed, and nothing more was revealed"
            case Ending.FAILED:
                return "the coordinator failed, and nothing more was revealed"

    def encode(self, withdrawals: Mapping[int, bytes] | None = None) -> bytes:
        """Return the body of the last letter."""
        signed = sorted((withdrawals or {}).items())
        return bytes([self]) + b"".join(_WITHDRAWAL.pack(*each) for each in signed)

    @classmethod
    def decode(cls, raw: bytes) -> Ending:
        """Read how it ended from the body of the last letter."""
        if not raw or raw[0] not in tuple(cls) or (len(raw) - 1) % _WITHDRAWAL.size:
            raise MessageError("a last letter that does not say how it ended came")
        return cls(raw[0])


def withdrawals_in(raw: bytes) -> dict[int, bytes]:
    """Read who withdrew, with signatures, from the body of the last letter."""
    Ending.decode(raw)
    return dict(_WITHDRAWAL.iter_unpack(raw[1:]))


@dataclass(frozen=True, slots=True)
class Message:
    """One message, bound to a plan, a session and a round."""

    kind: Kind
    plan_digest: bytes
    session: bytes
    round: int
    site: int = 0
    """The site's number in the round; 0 in an invitation: find it in the roster."""
    body: bytes = field(default=b"", repr=False)
    numbers: IntVector = field(
        default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False, compare=False
    )
    about: bytes = field(default=_NO_LETTER, repr=False)
    """The digest of the letter that this one answers: a late or doubled answer
    cannot be taken for that of another step."""

    def __post_init__(self) -> None:
        if {len(self.plan_digest), len(self.session), len(self.about)} != {DIGEST_SIZE}:
            raise MessageError(
                f"digests of plans and letters, and sessions, have {DIGEST_SIZE} bytes"
            )
        if self.numbers.dtype != np.int64 or self.numbers.ndim != 1:
            raise MessageError("a letter carries a vector of 64-bit integers")

    @property
    def head(self) -> bytes:
        """What the letter is bound to, as bytes."""
        return _HEAD.pack(
            VERSION,
            self.kind,
            self.plan_digest,
            self.session,
            self.round,
            self.site,
            self.about,
        )

    def digest(self) -> bytes:
        """Name the letter: the same bytes, sent again, have the same name."""
        return hashlib.sha256(b"discreet letter\0" + self.encode()).digest()

    @classmethod
    def of(cls, head: bytes, body: bytes, numbers: IntVector) -> Message:
        """Put together what a runtime carried in parts."""
        if head and head[0] != VERSION:
            raise MessageError(
                f"a letter of version {head[0]} came, and this release of discreet "
                f"speaks version {VERSION}: install the same release at both ends"
            )
        if len(head) != _HEAD.size:
            raise MessageError("a letter's head has another size than its version says")
        _, kind, digest, session, index, site, about = _HEAD.unpack(head)
        if kind not in tuple(Kind):
            raise MessageError("a letter of an unknown kind came")
        return cls(Kind(kind), digest, session, index, site, body, numbers, about)

    def encode(self) -> bytes:
        """Return the letter as one string of bytes."""
        return pack(self.head, self.body, self.numbers.astype("<i8").tobytes())

    @classmethod
    def decode(cls, raw: bytes) -> Message:
        """Read one string of bytes."""
        head, body, numbers = unpack(raw, 3)
        return cls.of(head, body, to_numbers(numbers))

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
        """Return a letter of the same plan, session and round, about this one."""
        return Message(
            kind,
            self.plan_digest,
            self.session,
            self.round,
            site,
            body,
            np.zeros(0, dtype=np.int64) if numbers is None else numbers,
            self.digest(),
        )


@dataclass(frozen=True, slots=True)
class Invitation:
    """The body of an invitation: the plan in full, and what starts the round."""

    text: str
    """The plan's file."""
    nonce: bytes
    opening: bytes = field(repr=False)
    """The first message of the round's protocol."""
    signature: bytes = field(default=b"", repr=False)
    """The coordinator's, when the roster names its key."""

    def encode(self) -> bytes:
        """Return the bytes in the message's body."""
        return pack(self.text.encode(), self.nonce, self.opening, self.signature)

    @classmethod
    def decode(cls, raw: bytes) -> Invitation:
        """Read the body of a message; the plan's text is not parsed."""
        text, nonce, opening, signature = unpack(raw, 4)
        try:
            return cls(text.decode(), nonce, opening, signature)
        except UnicodeDecodeError as error:
            raise MessageError("the invitation holds no text of a plan") from error

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
        numbers = message.numbers.astype("<i8").tobytes()
        return b"discreet invitation\0" + pack(
            message.head, message.plan_digest, self.nonce, self.opening, numbers
        )


def session_of(plan: Plan, nonce: bytes) -> bytes:
    """Name a session: the plan and a fresh nonce of the coordinator."""
    return hashlib.sha256(b"discreet session\0" + pack(plan.digest(), nonce)).digest()


def round_digest(plan: Plan, session: bytes, index: int, totals: IntVector) -> bytes:
    """Name one round: sites that were shown different earlier sums disagree on it."""
    shown = totals.astype("<i8").tobytes()
    place = index.to_bytes(1, "big")
    return hashlib.sha256(
        b"discreet round\0" + pack(plan.digest(), session, place, shown)
    ).digest()


def joined_totals(releases: Sequence[Release]) -> IntVector:
    """Return the totals of the earlier rounds, one after the other."""
    return np.concatenate([np.zeros(0, np.int64), *(r.total for r in releases)])


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
    """Join fields, each with its length."""
    return b"".join(len(f).to_bytes(4, "big") + f for f in fields)


def unpack(raw: bytes, count: int) -> tuple[bytes, ...]:
    """Take apart what ``pack`` joined; nothing may be left over."""
    fields = unpack_all(raw)
    if len(fields) < count:
        raise MessageError("a message is cut short")
    if len(fields) > count:
        raise MessageError("a message has bytes left over")
    return fields


def unpack_all(raw: bytes) -> tuple[bytes, ...]:
    """Take apart what ``pack`` joined, however many fields it were."""
    fields, at = [], 0
    while at < len(raw):
        start = at + 4
        at = start + int.from_bytes(raw[at:start], "big")
        if at > len(raw):
            raise MessageError("a message is cut short")
        fields.append(raw[start:at])
    return tuple(fields)


def to_numbers(raw: bytes) -> IntVector:
    """Read a vector of 64-bit integers."""
    if len(raw) % 8:
        raise MessageError("a vector is not a whole number of 64-bit integers")
    return np.frombuffer(raw, dtype="<i8").astype(np.int64)

"""The channel between compute parties: presence, agreement, a common end.

Every pair of parties keeps one TLS connection, named at both ends, from start to
end. A party that dies closes it, a party that hangs stops beating on it, and a
party that fails says why on it: the others stop within the timeout at the latest,
mostly at once. Before the engines meet, all three compare the digests of session,
executable and sharings here, and each pair the words of every owner that both hold:
words that differ are shares of no value, with which an owner could reveal others' shares.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final

from discreet.codec.messages import (
    BinaryMessage,
    Fixed,
    MalformedMessageError,
    Several,
)
from discreet.mpc.shares import (
    OVERHEAD,
    PAIR_BYTES,
    PARTIES,
    Package,
    PackageKind,
)
from discreet.mpc.transport import (
    Channel,
    FrameTag,
    PartyRun,
    SessionFailedError,
    StreamFrame,
    connect,
)

_MAX_BEAT_SECONDS: Final = 5.0
_DIGEST: Final = Fixed(32)


@dataclass(frozen=True, slots=True)
class PartyAgreement(BinaryMessage):
    """What three parties must hold alike before they compute.

    ``words`` are digests of the words that this party and one other hold, one per
    owner. They are for that other alone: the third could try values against them.
    """

    tag: ClassVar[int] = 65
    called: ClassVar[str] = "an agreement"

    session: Annotated[bytes, _DIGEST]
    executable: Annotated[bytes, _DIGEST]
    sharings: Annotated[bytes, _DIGEST]
    words: Annotated[tuple[bytes, ...], Several(_DIGEST)] = ()

    @property
    def terms(self) -> bytes:
        """The three digests that all three parties have."""
        return self.session + self.executable + self.sharings

    def compare(self, other: PartyAgreement, name: str, owners: Sequence[str]) -> None:
        """Refuse to compute with a party that holds anything else."""
        for what, mine, theirs in (
            ("session", self.session, other.session),
            ("executable", self.executable, other.executable),
            ("set of shares", self.sharings, other.sharings),
        ):
            if mine != theirs:
                raise SessionFailedError(f"{name} has another {what} than this party")
        if len(other.words) != len(owners):
            raise SessionFailedError(f"{name} has shares of other owners")
        for owner, mine, theirs in zip(owners, self.words, other.words, strict=True):
            if mine != theirs:
                raise SessionFailedError(
                    f"{owner} sent shares that do not fit together: {name} has other "
                    "words than this party"
                )


class Peer:
    """What is known of one other party."""

    def __init__(self, channel: Channel) -> None:
        loop = asyncio.get_running_loop()
        self.channel = channel
        self.agreement: asyncio.Future[PartyAgreement] = loop.create_future()
        self.noise: asyncio.Future[Package] = loop.create_future()
        self.done = asyncio.Event()


class Peers:
    """Both other parties."""

    def __init__(self, run: PartyRun) -> None:
        self._run = run
        self._session = run.session
        self._party = run.party
        self._peers: dict[int, Peer] = {}
        self._complete = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def connect(self, context: ssl.SSLContext) -> None:
        """Call the parties of higher number, and wait until all are there."""
        higher = range(self._party + 1, PARTIES)
        await asyncio.gather(*(self._call(number, context) for number in higher))
        await self._complete.wait()

    async def _call(self, number: int, context: ssl.SSLContext) -> None:
        entry = self._session.parties[number]
        channel = await connect(entry.name, entry.intake, context)
        await channel.send(FrameTag.HELLO, self._session.digest)
        self._join(number, channel)

    async def welcome(self, number: int, channel: Channel) -> None:
        """Take the call of a party of lower number."""
        hello = await channel.receive(FrameTag.HELLO, limit=_DIGEST.size)
        if hello.payload != self._session.digest:
            raise SessionFailedError(f"{channel.name} has another session")
        if number >= self._party or number in self._peers:
            raise SessionFailedError(f"{channel.name} called twice or out of turn")
        self._join(number, channel)

    def _join(self, number: int, channel: Channel) -> None:
        self._peers[number] = peer = Peer(channel)
        every = min(_MAX_BEAT_SECONDS, self._run.timeout / 4)
        beat = channel.keep_alive(self._run.log.line, every=every)
        self._tasks.append(asyncio.create_task(self._listen(number, peer)))
        self._tasks.append(asyncio.create_task(beat))
        if len(self._peers) == PARTIES - 1:
            self._complete.set()

    @property
    def missing(self) -> list[str]:
        """Names of the parties that are not connected."""
        here = {self._party, *self._peers}
        return [p.name for i, p in enumerate(self._session.parties) if i not in here]

    async def agree(self, mine: PartyAgreement, packages: Sequence[Package]) -> None:
        """Tell both others what this party holds, and compare."""
        owners = [owner.name for owner in self._session.owners]
        held = {
            number: replace(mine, words=words_held_by(packages, self._party, number))
            for number in self._peers
        }
        for number, peer in self._peers.items():
            await peer.channel.send(FrameTag.AGREE, held[number].encode())
        for number, peer in self._peers.items():
            held[number].compare(await peer.agreement, peer.channel.name, owners)

    async def exchange(self, packages: tuple[Package, ...]) -> list[Package]:
        """Send each party its share of this party's noise; return all for this one."""
        for number, peer in self._peers.items():
            await peer.channel.send(FrameTag.NOISE, packages[number].encode())
        return [
            packages[number]
            if number == self._party
            else await self._peers[number].noise
            for number in range(PARTIES)
        ]

    async def finish(self) -> None:
        """Say that this party has its share of the result; wait for both others."""
        for peer in self._peers.values():
            await peer.channel.send(FrameTag.DONE)
        for peer in self._peers.values():
            await peer.done.wait()

    async def close(self, failure: SessionFailedError | None) -> None:
        """Leave; after a failure pass on why, so that nobody sees just a silence."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for peer in self._peers.values():
            await peer.channel.close(failure)

    async def _listen(self, number: int, peer: Peer) -> None:
        agreed = 6 + _DIGEST.size * (3 + len(self._session.owners))
        try:
            while not peer.done.is_set():
                frame = await peer.channel.receive(
                    *(FrameTag.AGREE, FrameTag.NOISE, FrameTag.DONE, FrameTag.ALIVE),
                    limit=max(agreed, OVERHEAD + 2 * PAIR_BYTES),
                    seconds=self._run.timeout,
                )
                self._take(number, peer, frame)
        except SessionFailedError as err:
            self._run.alarm.ring(err)
        except MalformedMessageError as err:
            self._run.alarm.ring(SessionFailedError(f"{peer.channel.name}: {err}"))

    def _take(self, number: int, peer: Peer, frame: StreamFrame) -> None:
        match frame.tag:
            case FrameTag.AGREE if not peer.agreement.done():
                peer.agreement.set_result(PartyAgreement.decode(frame.payload))
            case FrameTag.NOISE if not peer.noise.done():
                package = Package.decode(frame.payload)
                package.require(
                    kind=PackageKind.NOISE,
                    session=self._session.digest,
                    party=self._party,
                    owner=number,
                    values=2,
                )
                peer.noise.set_result(package)
            case FrameTag.DONE:
                peer.done.set()
            case FrameTag.ALIVE:
                pass
            case _:
                raise SessionFailedError(f"{peer.channel.name} repeated a message")


def sharings_digest(packages: Iterable[Package]) -> bytes:
    """Digest which sharing of each owner a party holds: the same at all three."""
    return hashlib.sha256(b"".join(p.sharing for p in packages)).digest()


def words_held_by(
    packages: Iterable[Package], party: int, other: int
) -> tuple[bytes, ...]:
    """Digest, owner by owner, the words that a party and one other both hold."""
    column = 1 if other == (party + 1) % PARTIES else 0
    return tuple(
        hashlib.sha256(p.pairs[:, column].astype("<u8").tobytes()).digest()
        for p in packages
    )

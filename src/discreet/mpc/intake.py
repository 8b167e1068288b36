"""The door of a party: who may come in, and what is taken from whom.

A caller without a certificate of the authority, or whose name is not in the
session, is turned away with a line in the log: strangers cannot end a session. A
member that sends something wrong does end it, because nothing that was computed
from a wrong input may be opened.
"""

from __future__ import annotations

import asyncio
import json
import math
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from discreet.errors import PlanError
from discreet.mpc.failure import Alarm, HungUpError, SessionFailedError
from discreet.mpc.packages import (
    OVERHEAD,
    PAIR_BYTES,
    Kind,
    Package,
    PackageError,
)
from discreet.mpc.peers import Peers
from discreet.mpc.session import Session
from discreet.mpc.transport import Channel, Tag, peer_name
from discreet.parsing import read_json

COSTS: Final = (
    *("bytes_sent", "share_bytes", "messages", "memory_bytes"),
    *("compute_seconds", "cpu_seconds", "compile_seconds"),
    *("connect_seconds", "ready_seconds"),
)
"""What a party tells the analyst about its run."""
MOST_UNNAMED: Final = 128
"""Callers who have not shown a certificate yet; of more the oldest is turned away."""
HANDSHAKE_SECONDS: Final = 10.0
_MOST_OF_A_COST: Final = 2**63


@dataclass(frozen=True, slots=True)
class Result:
    """One party's share of the result, and what the run cost that party."""

    package: Package
    statistics: dict[str, Any]

    def encode(self) -> bytes:
        """Return the bytes on the wire: length and JSON of the costs, the package."""
        costs = json.dumps(self.statistics, sort_keys=True).encode()
        return len(costs).to_bytes(4, "big") + costs + self.package.encode()

    @classmethod
    def decode(cls, raw: bytes) -> Result:
        """Read the bytes on the wire."""
        size = int.from_bytes(raw[:4], "big")
        try:
            costs = read_json(raw[4 : 4 + size], "the costs of the run")
        except PlanError:
            raise PackageError("the costs of the run are not JSON") from None
        if not isinstance(costs, dict):
            raise PackageError("the costs of the run are not a table")
        if not all(_is_amount(costs.get(name)) for name in COSTS):
            raise PackageError(
                f"the costs of the run are {len(COSTS)} finite numbers, and no others"
            )
        return cls(Package.decode(raw[4 + size :]), costs)


def _is_amount(value: object) -> bool:
    known = type(value) in {int, float} and math.isfinite(value)  # type: ignore[arg-type]
    return known and 0 <= value <= _MOST_OF_A_COST  # type: ignore[operator]


class Intake:
    """Takes the calls of owners, the analyst and other parties."""

    def __init__(
        self,
        session: Session,
        party: int,
        peers: Peers,
        alarm: Alarm,
        *,
        timeout: float,
        log: Callable[[str], None],
        phase: Callable[[], str],
    ) -> None:
        self._session = session
        self._party = party
        self._peers = peers
        self._alarm = alarm
        self._timeout = timeout
        self._log = log
        self._phase = phase
        self._shares: dict[int, Package] = {}
        self._complete = asyncio.Event()
        self._analyst: asyncio.Future[Channel] = (
            asyncio.get_running_loop().create_future()
        )
        self._open: set[Channel] = set()
        self._calls: set[asyncio.Task[None]] = set()
        self._unnamed: dict[asyncio.Task[None] | None, None] = {}

    async def serve(self, context: ssl.SSLContext) -> asyncio.Server:
        """Open the door at the address that the session names."""

        def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._make_room()
            call = asyncio.create_task(self._answer(reader, writer, context))
            self._unnamed[call] = None
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)

        address = self._session.parties[self._party].intake
        try:
            return await asyncio.start_server(answer, address.host, address.port)
        except OSError:
            raise SessionFailedError(
                f"cannot listen at {address}: another process does, or the host is "
                "not this machine"
            ) from None

    def _make_room(self) -> None:
        """Hang up on the oldest caller without a name, when there are too many.

        Idle connections would else use up what this process may open. A member shows
        its certificate at once, so that it is hardly ever the oldest.
        """
        while len(self._unnamed) >= MOST_UNNAMED:
            oldest = next(iter(self._unnamed))
            del self._unnamed[oldest]
            if oldest is not None:
                oldest.cancel()

    async def shares(self) -> list[Package]:
        """Wait for the shares of every owner; return them in the session's order."""
        await self._complete.wait()
        return [self._shares[i] for i in range(len(self._session.owners))]

    @property
    def missing(self) -> list[str]:
        """Names of the owners whose shares are not here."""
        return [
            owner.name
            for i, owner in enumerate(self._session.owners)
            if i not in self._shares
        ]

    async def deliver(self, result: Result) -> None:
        """Give the result's share to the analyst, and hear that it arrived."""
        channel = await self._analyst
        await channel.send(Tag.RESULT, result.encode())
        answer = await channel.receive({Tag.ACCEPTED}, limit=0)
        if answer.tag is Tag.FAILED:
            raise SessionFailedError(f"the analyst stopped: {answer.sentence}")

    async def close(self, failure: SessionFailedError | None) -> None:
        """Hang up; after a failure say why to everybody who is still on the line."""
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        for channel in self._open:
            if failure is None:
                await channel.close()
            else:
                await channel.fail(str(failure))

    async def _answer(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        context: ssl.SSLContext,
    ) -> None:
        try:
            seconds = min(self._timeout, HANDSHAKE_SECONDS)
            await writer.start_tls(context, ssl_handshake_timeout=seconds)
            name = peer_name(writer)
        except (OSError, SessionFailedError):
            self._log("turned a caller away that is not TLS or has no certificate")
            writer.transport.abort()
            return
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        finally:
            self._unnamed.pop(asyncio.current_task(), None)
        if name not in self._session.names:
            self._log(f"turned {name} away: the session does not name it")
            await Channel(name, reader, writer).fail(f"the session names no {name}")
            return
        channel = Channel(name, reader, writer)
        self._open.add(channel)
        try:
            async with asyncio.timeout(self._timeout):
                keep = await self._dispatch(channel)
        except HungUpError:
            self._log(f"{name} hung up without a word")
            self._open.discard(channel)
            await channel.close()
        except (SessionFailedError, PackageError) as err:
            await self._refuse(channel, f"{name}: {err}")
        except TimeoutError:
            await self._refuse(channel, f"{name} was silent for {self._timeout:g} s")
        else:
            if not keep:
                self._open.discard(channel)
                await channel.close()

    async def _refuse(self, channel: Channel, sentence: str) -> None:
        self._open.discard(channel)
        self._alarm.ring(SessionFailedError(sentence))
        await channel.fail(sentence)

    async def _dispatch(self, channel: Channel) -> bool:
        """Serve a member by its role; tell whether the channel stays open."""
        owners = [owner.name for owner in self._session.owners]
        parties = [party.name for party in self._session.parties]
        if channel.name in owners:
            await self._take(owners.index(channel.name), channel)
            return False
        if channel.name in parties:
            await self._peers.welcome(parties.index(channel.name), channel)
            self._open.discard(channel)  # the peers close it
            return True
        if channel.name == self._session.analyst:
            await self._admit_analyst(channel)
            return True
        raise SessionFailedError("has no part in this session")

    async def _take(self, owner: int, channel: Channel) -> None:
        values = self._session.values(owner)
        frame = await channel.receive(
            {Tag.SHARES}, limit=OVERHEAD + PAIR_BYTES * values
        )
        if frame.tag is Tag.FAILED:
            raise SessionFailedError(frame.sentence)
        package = Package.decode(frame.payload)
        package.require(
            kind=Kind.OWNER,
            session=self._session.digest,
            party=self._party,
            owner=owner,
            values=values,
        )
        if owner in self._shares:
            raise PackageError("the shares were sent a second time")
        self._shares[owner] = package
        await channel.send(Tag.ACCEPTED)
        self._log(
            f"shares of {channel.name}, "
            f"{len(self._shares)} of {len(self._session.owners)} owners"
        )
        if not self.missing:
            self._complete.set()

    async def _admit_analyst(self, channel: Channel) -> None:
        frame = await channel.receive({Tag.COLLECT}, limit=32)
        if frame.payload != self._session.digest:
            raise SessionFailedError("asked for the result of another session")
        if self._analyst.done():
            raise SessionFailedError("asked for the result a second time")
        self._analyst.set_result(channel)
        beat = asyncio.create_task(self._beat(channel))
        self._calls.add(beat)
        beat.add_done_callback(self._calls.discard)

    async def _beat(self, channel: Channel) -> None:
        """Tell the waiting analyst, now and then, what this party is at."""
        try:
            while True:
                await channel.send(Tag.ALIVE, self._phase().encode())
                await asyncio.sleep(min(1.0, self._timeout / 4))
        except SessionFailedError:
            return  # deliver() finds out, and says so

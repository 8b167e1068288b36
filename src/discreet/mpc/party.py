"""One compute party, from its start to its exit.

    1. listen, start the computing process (it compiles), call the peers
    2. wait for the owners' shares
    3. agree with the peers on session, executable and sharings
    4. compute
    5. when all three are done, give this share of the result to the analyst

A wait ends with success, with the first failure anywhere, or after ``timeout``
seconds. After a failure the computing process is killed, peers and analyst hear
why, and nothing is delivered.

**Who may call.** A caller without a certificate of the authority, or whose name is not
in the session, is refused with a line in the log: outsiders cannot end a session. A
member that sends something wrong does end it, because nothing that was computed from a
wrong input may be revealed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import signal
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import numpy as np

from discreet.codec.messages import (
    BinaryMessage,
    Blob,
    FieldCodec,
    MalformedMessageError,
    Reader,
    Whole,
)
from discreet.codec.parsing import read_json
from discreet.entropy import SYSTEM
from discreet.errors import PlanError
from discreet.mpc.computing import EngineEvent, Watchdog
from discreet.mpc.peers import PartyAgreement, Peers, sharings_digest
from discreet.mpc.session import MpcSession
from discreet.mpc.shares import (
    OVERHEAD,
    PAIR_BYTES,
    RESULT_OWNER,
    SHARING_BYTES,
    Package,
    PackageError,
    PackageKind,
)
from discreet.mpc.transport import (
    Channel,
    FrameTag,
    HungUpError,
    MemberIdentity,
    PartyLog,
    PartyRun,
    PeerFailedError,
    SessionFailedError,
    peer_name,
)

COSTS: Final = (
    *("bytes_sent", "share_bytes", "messages", "memory_bytes"),
    *("compute_seconds", "cpu_seconds", "compile_seconds"),
    *("connect_seconds", "ready_seconds"),
)
"""What a party tells the analyst about its run."""
COSTS_BYTES: Final = 4096
MOST_UNNAMED: Final = 128
"""Callers who have not shown a certificate yet; of more the oldest is refused."""
HANDSHAKE_SECONDS: Final = 10.0
_MOST_OF_A_COST: Final = 2**63


class CostsOfARun(FieldCodec):
    """The costs as JSON with its length in front."""

    def write(self, value: dict[str, Any]) -> bytes:
        """Return length and JSON."""
        return Blob(COSTS_BYTES).write(json.dumps(value, sort_keys=True).encode())

    def read(self, reader: Reader) -> dict[str, Any]:
        """Read a finite amount for each of the costs."""
        try:
            costs = read_json(Blob(COSTS_BYTES).read(reader), "the costs of the run")
        except PlanError:
            raise reader.error("has costs that are not JSON") from None
        if not isinstance(costs, dict):
            raise reader.error("has costs that are not a table")
        if not all(_is_amount(costs.get(name)) for name in COSTS):
            raise reader.error(f"has costs that are not {len(COSTS)} finite numbers")
        return costs


@dataclass(frozen=True, slots=True)
class ResultShare(BinaryMessage):
    """One party's share of the result, and what the run cost that party."""

    tag: ClassVar[int] = 66
    called: ClassVar[str] = "a share of the result"

    costs: Annotated[dict[str, Any], CostsOfARun()]
    package: Annotated[Package, Whole(Package)]


def _is_amount(value: object) -> bool:
    known = type(value) in {int, float} and math.isfinite(value)  # type: ignore[arg-type]
    return known and 0 <= value <= _MOST_OF_A_COST  # type: ignore[operator]


class Intake:
    """Takes the calls of owners, the analyst and other parties."""

    def __init__(self, run: PartyRun, peers: Peers) -> None:
        self._session = run.session
        self._party = run.party
        self._peers = peers
        self._alarm = run.alarm
        self._timeout = run.timeout
        self._log = run.log
        self._shares: dict[int, Package] = {}
        self._complete = asyncio.Event()
        self._analyst: asyncio.Future[Channel] = (
            asyncio.get_running_loop().create_future()
        )
        self._open: set[Channel] = set()
        self._calls: set[asyncio.Task[None]] = set()
        self._unnamed: dict[asyncio.Task[None] | None, None] = {}

    async def serve(self, context: ssl.SSLContext) -> asyncio.Server:
        """Listen at the address in the session."""

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

        Idle connections would otherwise exhaust this process's file descriptors. A member
        shows its certificate at once and is hardly ever the oldest.
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
        owners = enumerate(self._session.owners)
        return [owner.name for i, owner in owners if i not in self._shares]

    async def deliver(self, result: ResultShare) -> None:
        """Give the result's share to the analyst, and hear that it arrived."""
        channel = await self._analyst
        await channel.send(FrameTag.RESULT, result.encode())
        try:
            await channel.receive(FrameTag.ACCEPTED, limit=0)
        except PeerFailedError as err:
            raise SessionFailedError(f"the analyst stopped: {err}") from None

    async def close(self, failure: SessionFailedError | None) -> None:
        """End all calls; after a failure tell whoever still waits."""
        for call in list(self._calls):
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        for channel in list(self._open):
            await channel.close(failure)

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
            self._log.write("refused a caller that is not TLS or has no certificate")
            writer.transport.abort()
            return
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        finally:
            self._unnamed.pop(asyncio.current_task(), None)
        channel = Channel(name, reader, writer)
        if name not in self._session.names:
            self._log.write(f"refused {name}: the session does not name it")
            await channel.fail(f"the session names no {name}")
            return
        self._open.add(channel)
        try:
            async with asyncio.timeout(self._timeout):
                keep = await self._dispatch(channel)
        except HungUpError:
            self._log.write(f"{name} hung up without a word")
            keep = False
        except (SessionFailedError, MalformedMessageError) as err:
            await self._refuse(channel, f"{name}: {err}")
            return
        except TimeoutError:
            await self._refuse(channel, f"{name} was silent for {self._timeout:g} s")
            return
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
        await self._admit_analyst(channel)
        return True

    async def _take(self, owner: int, channel: Channel) -> None:
        values = self._session.owners[owner].rows
        frame = await channel.receive(
            FrameTag.SHARES, limit=OVERHEAD + PAIR_BYTES * values
        )
        package = Package.decode(frame.payload)
        package.require(
            kind=PackageKind.DATA,
            session=self._session.digest,
            party=self._party,
            owner=owner,
            values=values,
        )
        if owner in self._shares:
            raise PackageError("the shares were sent a second time")
        self._shares[owner] = package
        await channel.send(FrameTag.ACCEPTED)
        self._log.write(
            f"shares of {channel.name}, "
            f"{len(self._shares)} of {len(self._session.owners)} owners"
        )
        if not self.missing:
            self._complete.set()

    async def _admit_analyst(self, channel: Channel) -> None:
        frame = await channel.receive(FrameTag.COLLECT, limit=32)
        if frame.payload != self._session.digest:
            raise SessionFailedError("asked for the result of another session")
        if self._analyst.done():
            raise SessionFailedError("asked for the result a second time")
        self._analyst.set_result(channel)
        beat = channel.keep_alive(self._log.line, every=min(1.0, self._timeout / 4))
        task = asyncio.create_task(beat)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)


def run_party(
    session: MpcSession,
    identity: MemberIdentity,
    *,
    timeout: float,
    report: Callable[[str], None],
    executable: Path | None = None,
) -> None:
    """Serve one session; raise ``SessionFailedError`` when there is no result."""
    session.party_index(identity.name)
    contexts = identity.server_context(), identity.client_context()

    async def serve() -> None:
        party = Party(session, identity, timeout=timeout, report=report)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, party.stop)
        await party.run(*contexts, executable)

    asyncio.run(serve())


class Party:
    """The state of one party in one session; made inside a running event loop."""

    def __init__(
        self,
        session: MpcSession,
        identity: MemberIdentity,
        *,
        timeout: float,
        report: Callable[[str], None],
    ) -> None:
        self._log = PartyLog(identity.name, session.rows, report)
        self._run = PartyRun(session, identity, timeout, self._log)
        self._session, self._alarm = session, self._run.alarm
        self._peers = Peers(self._run)
        self._intake = Intake(self._run, self._peers)

    async def run(
        self, accept: ssl.SSLContext, call: ssl.SSLContext, executable: Path | None
    ) -> None:
        """Run the session while listening."""
        server = await self._intake.serve(accept)
        repeating = asyncio.create_task(self._log.repeat())
        failure: SessionFailedError | None = None
        try:
            async with Watchdog(self._run, executable) as engine:
                result = await self._compute(engine, call)
            log, timeout = self._log, self._run.timeout
            log.enter("waiting for the analyst")
            await self._alarm.guard(
                self._intake.deliver(result),
                seconds=timeout,
                late=lambda: (
                    f"{self._session.analyst} did not collect the result within "
                    f"{timeout:g} s"
                ),
            )
            log.enter("delivered")
        except SessionFailedError as err:
            failure = err
            raise
        finally:
            repeating.cancel()
            server.close()
            await self._peers.close(failure)
            await self._intake.close(failure)

    async def _compute(self, engine: Watchdog, call: ssl.SSLContext) -> ResultShare:
        alarm, log, timeout = self._alarm, self._log, self._run.timeout
        peers, intake = self._peers, self._intake
        log.enter("waiting for parties and shares")
        await alarm.guard(
            peers.connect(call),
            seconds=timeout,
            late=lambda: (
                f"no call from {', '.join(peers.missing)} within {timeout:g} s"
            ),
        )
        packages = await alarm.guard(
            intake.shares(),
            seconds=timeout - log.seconds,
            late=lambda: (
                f"no shares from {', '.join(intake.missing)} within {timeout:g} s"
            ),
        )
        log.enter("compiling")
        compiled = await alarm.guard(engine.expect("compiled"))
        agreement = PartyAgreement(
            self._session.digest,
            bytes.fromhex(compiled["digest"]),
            sharings_digest(packages),
        )
        await alarm.guard(peers.agree(agreement, packages))
        packages += await alarm.guard(self._noise())
        ready = log.seconds
        log.enter("connecting the engines")
        encoded = [package.encode() for package in packages]
        await alarm.guard(engine.submit(encoded))
        connected = await alarm.guard(
            engine.expect("connected"),
            seconds=timeout,
            late=lambda: (
                f"the engines did not connect within {timeout:g} s: a link address is "
                "wrong or closed, or a certificate is not of this authority"
            ),
        )
        log.enter("computing")
        finished = await alarm.guard(engine.expect("result"))
        log.enter("done, waiting for the other parties")
        await alarm.guard(peers.finish())
        costs = {name: finished[name] for name in COSTS if name in finished} | {
            "compute_seconds": finished["seconds"],
            "compile_seconds": compiled["seconds"],
            "connect_seconds": connected["seconds"],
            "ready_seconds": ready,
            "share_bytes": sum(len(package) for package in encoded),
        }
        return ResultShare(costs, self._package(agreement, finished))

    def _package(self, agreement: PartyAgreement, finished: EngineEvent) -> Package:
        words = np.frombuffer(bytes.fromhex(finished["pairs"]), dtype="<u8")
        return Package(
            PackageKind.RESULT,
            self._session.digest,
            self._run.party,
            RESULT_OWNER,
            hashlib.sha256(agreement.terms).digest()[:SHARING_BYTES],
            words.astype(np.uint64).reshape(-1, 2),
        )

    async def _noise(self) -> list[Package]:
        """Draw this party's noise, share it, and return all shares for this party."""
        noise = self._session.program().noise
        if noise is None:
            return []
        packages = Package.for_parties(
            PackageKind.NOISE,
            self._session.digest,
            self._run.party,
            noise.draw(entropy=SYSTEM),
            entropy=SYSTEM,
        )
        return await self._peers.exchange(packages)

    def stop(self) -> None:
        """End the session from outside, as an operator does."""
        self._alarm.ring(SessionFailedError(f"{self._run.identity.name} was stopped"))

"""One compute party, from its start to its exit.

    1. open the door, start the computing process (it compiles), call the peers
    2. wait for the owners' shares
    3. agree with the peers on session, executable and sharings
    4. compute
    5. when all three are done, give this share of the result to the analyst

A wait ends with success, with the first failure anywhere, or after ``timeout``
seconds. After a failure the computing process is killed, peers and analyst hear
why, and nothing is delivered.
"""

from __future__ import annotations

import asyncio
import hashlib
import signal
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from discreet.entropy import SYSTEM
from discreet.mpc.certificates import Identity
from discreet.mpc.failure import Alarm, SessionFailedError
from discreet.mpc.intake import Intake, Result
from discreet.mpc.noisy import noise_share
from discreet.mpc.packages import (
    RESULT_OWNER,
    SHARING_BYTES,
    Kind,
    Package,
    split,
)
from discreet.mpc.peers import Agreement, Peers, sharings_digest
from discreet.mpc.session import Session
from discreet.mpc.transport import client_context, server_context
from discreet.mpc.watchdog import Event, Watchdog

REPORT_SECONDS: Final = 5.0
"""Between two lines about a long phase."""
LINKS: Final = (
    "a link address is wrong or closed, or a certificate is not of this authority"
)


class Progress:
    """What a party is at: told to its operator, its peers and the analyst."""

    def __init__(self, name: str, rows: int, report: Callable[[str], None]) -> None:
        self._name = name
        self._rows = rows
        self._report = report
        self._started = time.monotonic()
        self._phase = "starting"

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.monotonic() - self._started

    def enter(self, phase: str) -> None:
        """Go on to a phase."""
        self._phase = phase
        self.log(self.line())

    def log(self, text: str) -> None:
        """Report a line with the time since the start."""
        self._report(f"{self._name} {self.seconds:7.1f} s  {text}")

    def line(self) -> str:
        """Return the phase and the rows."""
        return f"{self._phase}, {self._rows:,} rows"

    async def repeat(self) -> None:
        """Report the phase now and then, until cancelled."""
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            self.log(self.line())


def run_party(
    session: Session,
    identity: Identity,
    *,
    timeout: float,
    report: Callable[[str], None],
    executable: Path | None = None,
) -> None:
    """Serve one session; raise ``SessionFailedError`` when there is no result."""
    party = session.party_index(identity.name)
    contexts = server_context(identity), client_context(identity)

    async def serve() -> None:
        member = Party(session, party, identity, timeout=timeout, report=report)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, member.stop)
        await member.run(*contexts, executable)

    asyncio.run(serve())


class Party:
    """The state of one party in one session; made inside a running event loop."""

    def __init__(
        self,
        session: Session,
        party: int,
        identity: Identity,
        *,
        timeout: float,
        report: Callable[[str], None],
    ) -> None:
        self._session = session
        self._party = party
        self._identity = identity
        self._timeout = timeout
        self._progress = Progress(identity.name, session.rows, report)
        self._alarm = Alarm()
        phase = self._progress.line
        self._peers = Peers(session, party, self._alarm, timeout=timeout, phase=phase)
        self._intake = Intake(
            session,
            party,
            self._peers,
            self._alarm,
            timeout=timeout,
            log=self._progress.log,
            phase=phase,
        )

    async def run(
        self, accept: ssl.SSLContext, call: ssl.SSLContext, executable: Path | None
    ) -> None:
        """Run the session between opening and closing the door."""
        server = await self._intake.serve(accept)
        repeating = asyncio.create_task(self._progress.repeat())
        failure: SessionFailedError | None = None
        try:
            async with Watchdog(
                self._session,
                self._party,
                self._identity,
                self._alarm,
                timeout=self._timeout,
                executable=executable,
            ) as engine:
                result = await self._compute(engine, call)
            await self._deliver(result)
        except SessionFailedError as err:
            failure = err
            raise
        finally:
            repeating.cancel()
            server.close()
            await self._peers.close(failure)
            await self._intake.close(failure)

    async def _compute(self, engine: Watchdog, call: ssl.SSLContext) -> Result:
        alarm, timeout = self._alarm, self._timeout
        self._progress.enter("waiting for parties and shares")
        await alarm.guard(
            self._peers.connect(call),
            seconds=timeout,
            late=lambda: (
                f"no call from {', '.join(self._peers.missing)} within {timeout:g} s"
            ),
        )
        packages = await alarm.guard(
            self._intake.shares(),
            seconds=timeout - self._progress.seconds,
            late=lambda: (
                f"no shares from {', '.join(self._intake.missing)} within {timeout:g} s"
            ),
        )
        self._progress.enter("compiling")
        compiled = await alarm.guard(engine.expect("compiled"))
        agreement = Agreement(
            self._session.digest,
            bytes.fromhex(compiled["digest"]),
            sharings_digest(packages),
        )
        await alarm.guard(self._peers.agree(agreement, packages))
        if self._session.epsilon is not None:
            packages += await alarm.guard(self._peers.exchange(self._noise()))
        ready = self._progress.seconds
        self._progress.enter("connecting the engines")
        encoded = [package.encode() for package in packages]
        await alarm.guard(engine.submit(encoded))
        connected = await alarm.guard(
            engine.expect("connected"),
            seconds=timeout,
            late=lambda: f"the engines did not connect within {timeout:g} s: {LINKS}",
        )
        self._progress.enter("computing")
        finished = await alarm.guard(engine.expect("result"))
        self._progress.enter("done, waiting for the other parties")
        await alarm.guard(self._peers.finish())
        return Result(
            self._package(agreement, finished),
            {
                "bytes_sent": finished["bytes_sent"],
                "messages": finished["messages"],
                "compute_seconds": finished["seconds"],
                "cpu_seconds": finished["cpu_seconds"],
                "compile_seconds": compiled["seconds"],
                "connect_seconds": connected["seconds"],
                "ready_seconds": ready,
                "share_bytes": sum(len(package) for package in encoded),
                "memory_bytes": finished["memory_bytes"],
            },
        )

    def _package(self, agreement: Agreement, finished: Event) -> Package:
        words = np.frombuffer(bytes.fromhex(finished["pairs"]), dtype="<u8")
        return Package(
            Kind.RESULT,
            self._session.digest,
            self._party,
            RESULT_OWNER,
            hashlib.sha256(agreement.terms).digest()[:SHARING_BYTES],
            words.astype(np.uint64).reshape(-1, 2),
        )

    def _noise(self) -> tuple[Package, ...]:
        """Draw this party's share of noise, and share it among the three."""
        session = self._session
        if session.epsilon is None:
            return ()
        drawn = noise_share(session.rows, session.epsilon, entropy=SYSTEM)
        sharing = SYSTEM(SHARING_BYTES)
        return tuple(
            Package(Kind.NOISE, session.digest, party, self._party, sharing, pairs)
            for party, pairs in enumerate(split(drawn, entropy=SYSTEM))
        )

    async def _deliver(self, result: Result) -> None:
        self._progress.enter("waiting for the analyst")
        await self._alarm.guard(
            self._intake.deliver(result),
            seconds=self._timeout,
            late=lambda: (
                f"{self._session.analyst} did not collect the result "
                f"within {self._timeout:g} s"
            ),
        )
        self._progress.enter("delivered")

    def stop(self) -> None:
        """End the session from outside, as an operator does."""
        self._alarm.ring(SessionFailedError(f"{self._identity.name} was stopped"))

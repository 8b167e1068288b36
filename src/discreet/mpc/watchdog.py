"""Starts the computing process, hears it, and ends it in every case."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from discreet.mpc.certificates import Identity
from discreet.mpc.failure import Alarm, SessionFailedError
from discreet.mpc.session import Session

MODULE: Final = "discreet.mpc.computing"
MAX_LINE: Final = 2**20
"""The longest event: the shares of a few results in hexadecimal."""

Event: TypeAlias = dict[str, Any]
"""What the computing process reports; its fields depend on its kind."""


class Watchdog:
    """The computing process of one party, as a context that leaves nothing behind.

    The process beats twice a second. When it is silent for ``timeout`` seconds, or
    ends, the alarm rings; when the context is left, the process is killed.
    """

    def __init__(
        self,
        session: Session,
        party: int,
        identity: Identity,
        alarm: Alarm,
        *,
        timeout: float,
        executable: Path | None = None,
    ) -> None:
        self._order = {
            "session": session.to_toml(),
            "party": party,
            "name": identity.name,
            "folder": str(identity.certificate.parent),
            "timeout": timeout,
            "executable": None if executable is None else str(executable.resolve()),
        }
        loop = asyncio.get_running_loop()
        self._events: dict[str, asyncio.Future[Event]] = {
            kind: loop.create_future() for kind in ("compiled", "connected", "result")
        }
        self._name = identity.name
        self._alarm = alarm
        self._timeout = timeout

    async def __aenter__(self) -> Self:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __aexit__
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            MODULE,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._log,
            limit=MAX_LINE,
        )
        await self._write(json.dumps(self._order).encode() + b"\n")
        self._listener = asyncio.create_task(self._listen())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.cancel()
        await asyncio.gather(self._listener, return_exceptions=True)
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        self._log.close()

    async def expect(self, kind: str) -> Event:
        """Wait for an event."""
        return await self._events[kind]

    async def submit(self, packages: Sequence[bytes]) -> None:
        """Hand the shares over; the run starts."""
        sizes = json.dumps({"packages": [len(p) for p in packages]})
        await self._write(sizes.encode() + b"\n")
        for package in packages:
            await self._write(package)

    async def _write(self, content: bytes) -> None:
        stream = self._process.stdin
        if stream is None:
            raise SessionFailedError(f"the engine of {self._name} has no input")
        try:
            stream.write(content)
            await stream.drain()
        except OSError:
            raise SessionFailedError(await self._ended()) from None

    async def _listen(self) -> None:
        try:
            while not self._events["result"].done():
                await self._hear()
        except SessionFailedError as err:
            self._alarm.ring(err)

    async def _hear(self) -> None:
        stream = self._process.stdout
        if stream is None:
            raise SessionFailedError(f"the engine of {self._name} has no output")
        try:
            async with asyncio.timeout(self._timeout):
                line = await stream.readline()
        except TimeoutError:
            raise SessionFailedError(
                f"the engine of {self._name} was silent for {self._timeout:g} s"
            ) from None
        if not line:
            raise SessionFailedError(await self._ended())
        event = json.loads(line)
        if event["event"] == "failed":
            raise SessionFailedError(f"{self._name}: {event['sentence']}")
        if event["event"] in self._events:
            self._events[event["event"]].set_result(event)

    async def _ended(self) -> str:
        code = await self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"the engine of {self._name} ended with {how}"

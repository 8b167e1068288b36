"""A line in user space that delays, stalls and resets connections, for benchmarks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np

from discreet.transport.addresses import LOOPBACK, free_port

DELAY_SECONDS = 0.05
"""Each way: a round trip takes 100 ms."""
STALLS, STALL_SECONDS = 0.02, 1.0
"""The share of pieces after which nothing moves for a while."""
RESETS = 0.01
"""The share of pieces after which the connection is reset."""


@dataclass
class _Line:
    port: int
    rng: np.random.Generator

    async def connect(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            there = await asyncio.open_connection(LOOPBACK, self.port)
        except OSError:
            writer.transport.abort()
            return
        ways = [(reader, there[1]), (there[0], writer)]
        tasks = [asyncio.ensure_future(self._carry(*way)) for way in ways]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for _, end in ways:
            end.transport.abort()

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):
            while piece := await reader.read(2**16):
                drawn = self.rng.random()
                if drawn < RESETS:
                    return
                stalled = STALL_SECONDS * (drawn < RESETS + STALLS)
                await asyncio.sleep(DELAY_SECONDS + stalled)
                writer.write(piece)
                await writer.drain()


@contextmanager
def bad_line(port: int, seed: int) -> Iterator[int]:
    """Carry connections to a local port, badly; yield the port to connect to."""
    line, reached = _Line(port, np.random.default_rng(seed)), free_port()
    loop = asyncio.new_event_loop()
    started = threading.Event()

    async def serve() -> None:
        await asyncio.start_server(line.connect, LOOPBACK, reached)
        started.set()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.create_task(serve())  # noqa: RUF006 - the loop keeps it
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    started.wait()
    try:
        yield reached
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

"""How a session fails: the errors, their exit codes, and waiting that hears the first."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from discreet.errors import DiscreetError

EXIT_INPUT: Final = 2
"""Something that this process was given is wrong; nothing was sent."""
EXIT_SESSION: Final = 3
"""The session failed, here or elsewhere; nothing was opened."""


class SessionFailedError(DiscreetError):
    """The session ended without a result; the sentence says at whom and why."""


class HungUpError(SessionFailedError):
    """A peer closed the connection before it said a word."""


T = TypeVar("T")


class Alarm:
    """Rings once; everybody who waits through it stops with the same reason."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()
        self._reason: SessionFailedError | None = None

    def ring(self, reason: SessionFailedError) -> None:
        """Fail the session; only the first reason counts."""
        if self._reason is None:
            self._reason = reason
            self._rung.set()

    async def guard(
        self,
        work: Coroutine[Any, Any, T],
        *,
        seconds: float | None = None,
        late: Callable[[], str] | None = None,
    ) -> T:
        """Wait for some work, for the alarm or for the time, whichever is first."""
        task = asyncio.create_task(work)
        alarm = asyncio.create_task(self._rung.wait())
        try:
            await asyncio.wait(
                {task, alarm}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if self._reason is not None:
                raise self._reason
            if not task.done():
                raise SessionFailedError(late() if late else "time is up")
            return task.result()
        finally:
            for pending in (task, alarm):
                pending.cancel()
                with contextlib.suppress(asyncio.CancelledError, SessionFailedError):
                    await pending

"""How far a pass over the rows has come: told on long passes, where somebody listens.

A source in parts is as far as the parts that were read. An engine that counts itself
is asked meanwhile, where it can say (``Paced``); elsewhere only time is told. It is for
the site's own terminal: the share of parts that were read tells how many there are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

from discreet.data.batches import Columns, Source, spread

T = TypeVar("T")

Listener: TypeAlias = Callable[[float | None, float], None]
"""Called with the share done, None where nobody knows it, and the seconds so far."""

_QUIET: Final = 2.0
"""Seconds in which nothing is told: most passes are over by then."""
_EVERY: Final = 0.5


@runtime_checkable
class Paced(Protocol):
    """A source that can be asked, from another thread, how far its query is."""

    def pace(self) -> float | None:
        """Return the share done, from 0 to 1; None where the engine does not say."""


class Pace:
    """One pass; inside its ``with`` a thread tells the listener how far it is.

    A listener that was told of the pass is told of its end too, as share 1.
    """

    def __init__(
        self,
        listener: Listener,
        parts: Sequence[Source],
        engine: Paced | None = None,
        *,
        quiet: float = _QUIET,
        every: float = _EVERY,
    ) -> None:
        self._listener = listener
        self._engine = engine
        self._quiet, self._every = quiet, every
        self.parts = [self._noted(part) for part in parts]
        self._done = 0
        self._begun = time.monotonic()
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._tell, daemon=True)
        self._told = False

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """End the thread, and tell the end of what was told."""
        self._over.set()
        self._thread.join()
        if self._told:
            self._listener(1.0, self._seconds)

    def _noted(self, part: Source) -> Source:
        """Return a part that is noted when it has been read."""

        def read() -> Iterator[Columns]:
            yield from part()
            with self._lock:
                self._done += 1

        return read

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._begun

    def _share(self) -> float | None:
        if self._engine is not None:
            return self._engine.pace()
        return self._done / len(self.parts) if len(self.parts) > 1 else None

    def _tell(self) -> None:
        wait = self._quiet
        while not self._over.wait(wait):
            self._told = True
            self._listener(self._share(), self._seconds)
            wait = self._every


def spread_told(
    parts: Sequence[Source],
    work: Callable[[Iterator[Columns]], T],
    listener: Listener | None,
    source: object,
) -> list[T]:
    """Share the parts out as ``spread`` does, and tell the listener how far it is."""
    if listener is None:
        return spread(parts, work)
    with Pace(listener, parts, source if isinstance(source, Paced) else None) as pace:
        return spread(pace.parts, work)

"""A few rows at a time: raw columns, validated rows, and what a source can do.

A source yields raw columns from the first row on, as often as it is called. What it can
do beyond that it overrides: parts that can be read at once, counts made where the rows
are, a word on its own damage or on how far its query is.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeAlias, TypeVar

import numpy as np

from discreet.arrays import BoolVector, CodeVector, FloatVector, IntVector

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from discreet.data.scores import ScoreRange
    from discreet.data.times import Rounding

BATCH_ROWS: Final = 2**16
"""Rows a batch: half a megabyte of scores, which stays in the processor's cache."""
PART_ROWS: Final = 16 * BATCH_ROWS
"""Rows in memory that one thread takes at a time."""
_QUIET: Final = 2.0
"""Seconds in which no listener is told of a pass: most are over by then."""
_EVERY: Final = 0.5

T = TypeVar("T")
Listener: TypeAlias = Callable[[float | None, float], None]
"""Called with the share done, None where nobody knows it, and the seconds so far."""


@dataclass(frozen=True, slots=True, eq=False)
class RawBatch:
    """Raw columns of a few rows, as a source reads them: not yet validated.

    What is missing is None in an object array or NaN in a float one. Where a
    source counted for itself, each row stands for as many as ``weights`` says.
    """

    scores: tuple[NDArray[Any], ...]
    labels: NDArray[Any]
    groups: NDArray[Any] | None = None
    subjects: NDArray[Any] | None = None
    weights: IntVector | None = None
    amounts: NDArray[Any] | None = None
    """What each example weighs, as the source has it: the statistic judges it."""
    worded: bool = False
    """Whether groups and subjects are texts already."""
    times: NDArray[Any] | None = None
    """Follow-up times, where labels say what ended it."""
    which: int = 0
    """Which label these are of, where the same rows have several, each with a score."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def rows(self) -> int:
        """How many of the source's rows these are."""
        return len(self) if self.weights is None else int(self.weights.sum())

    def some(self, rows: slice | BoolVector | IntVector) -> Self:
        """Return some of the rows."""
        names = ("labels", "groups", "subjects", "weights", "amounts", "times")
        held = {name: getattr(self, name) for name in names}
        taken: dict[str, Any] = {n: c[rows] for n, c in held.items() if c is not None}
        scores = tuple(column[rows] for column in self.scores)
        return replace(self, scores=scores, **taken)


@dataclass(frozen=True, slots=True, eq=False)
class Batch(RawBatch):
    """Validated rows: float scores in their range, labels coded 0 .. K-1.

    Groups and subjects are texts (``data.cells``), None where one is missing.
    """

    scores: tuple[FloatVector, ...]
    labels: CodeVector

    def number(self, marked: BoolVector) -> int:
        """Return how many of the source's rows are marked."""
        if self.weights is None:
            return int(np.count_nonzero(marked))
        return int(self.weights[marked].sum())

    def tally(
        self, cells: CodeVector, size: int, amounts: IntVector | None = None
    ) -> IntVector:
        """Count cells, one or several a row; a row's entries lie len(self) apart.

        ``amounts`` says how much each entry adds, one by default.
        """
        if self.weights is None and amounts is None:
            return np.bincount(cells, minlength=size)
        weights = 1 if self.weights is None else np.resize(self.weights, cells.shape)
        if amounts is not None:
            weights = weights * amounts
        # Sums of whole numbers below 2^53: exact as floats.
        return np.bincount(cells, weights, minlength=size).astype(np.int64)

    def moved(self, odd: BoolVector, scores: Sequence[float]) -> Batch:
        """Return all rows, the odd ones with these scores, the first class and time 0."""
        columns = zip(self.scores, scores, strict=True)
        return replace(
            self,
            scores=tuple(np.where(odd, low, column) for column, low in columns),
            labels=np.where(odd, 0, self.labels),
            times=None if self.times is None else np.where(odd, 0.0, self.times),
        )

    def where(self, kept: BoolVector) -> Batch:
        """Return the rows that are kept."""
        return self if kept.all() else self.some(kept)


RowReader: TypeAlias = Callable[[], Iterator[RawBatch]]
"""Start reading from the first row; called once a pass."""


class RowSource:
    """The rows of a site; subclasses say what more they can do than be read."""

    options: ClassVar[frozenset[str]] = frozenset()
    """Which keywords of ``FileFormat`` change how it is read: messages name these."""

    def __call__(self) -> Iterator[RawBatch]:
        """Read every row, from the first one on."""
        for part in self.parts():
            yield from part()

    def parts(self) -> Sequence[RowReader]:
        """Return the parts that can be read at once, each by itself."""
        return [self]

    def types(self) -> Mapping[str, pa.DataType] | None:
        """Return the declared types of the columns; None where none are declared."""
        return None

    def damage(self) -> str | None:
        """Describe for the site's operator which lines of the last pass are no rows."""
        return None

    def folded(self, cuts: Sequence[Rounding]) -> Iterator[RawBatch] | None:
        """Count the rows where they are, such as in a database.

        One row for each combination of label, group and rounded scores, with how many
        rows that is: what is counted from these is what all rows give. None where the
        rows must be read. The cuts are one a score column, and at last the times'.
        """
        del cuts
        return None

    def query(self, cuts: Sequence[Rounding]) -> str | None:
        """Return what an engine is asked, for somebody to read; None as above."""
        del cuts
        return None

    def bounded(
        self, most: int, scores: ScoreRange, *, alone: bool, strict: bool
    ) -> RowSource | None:
        """Keep at most so many rows of each subject (``alone``), or of all rows.

        None where the rows must be read for it.
        """
        del most, scores, alone, strict
        return None

    def pace(self) -> float | None:
        """Return the share of a running query that is done; None where unknown.

        It is asked from another thread.
        """
        return None


@dataclass(frozen=True, eq=False)
class PlainRows(RowSource):
    """Rows that a function reads."""

    read: RowReader

    def __call__(self) -> Iterator[RawBatch]:
        """Read every row."""
        return self.read()


@dataclass(frozen=True, eq=False)
class PerLabel(RowSource):
    """The same rows once for each of several labels: each label's own score and cells."""

    sources: tuple[RowSource, ...]

    def parts(self) -> Sequence[RowReader]:
        """Return all labels' parts."""
        each = enumerate(self.sources)
        return [partial(_of_label, k, part) for k, s in each for part in s.parts()]

    def damage(self) -> str | None:
        """Describe the first damage."""
        return next((d for s in self.sources if (d := s.damage()) is not None), None)

    def folded(self, cuts: Sequence[Rounding]) -> Iterator[RawBatch] | None:
        """Count one label after the other where the rows are."""
        pairs = zip(self.sources, cuts, strict=True)
        counts = [source.folded([cut]) for source, cut in pairs]
        known = [rows for rows in counts if rows is not None]
        if len(known) < len(counts):
            return None
        each = (_of_label(k, partial(iter, rows)) for k, rows in enumerate(known))
        return chain.from_iterable(each)

    def query(self, cuts: Sequence[Rounding]) -> str | None:
        """Return one query for each label."""
        pairs = zip(self.sources, cuts, strict=True)
        asked = [source.query([cut]) for source, cut in pairs]
        known = [query for query in asked if query is not None]
        return "\n\n".join(known) if len(known) == len(asked) else None

    def bounded(
        self, most: int, scores: ScoreRange, *, alone: bool, strict: bool
    ) -> RowSource | None:
        """Keep so many rows for each label."""
        kept = [
            s.bounded(most, scores, alone=alone, strict=strict) for s in self.sources
        ]
        known = tuple(source for source in kept if source is not None)
        return PerLabel(known) if len(known) == len(kept) else None


def _of_label(which: int, part: RowReader) -> Iterator[RawBatch]:
    return (replace(raw, which=which) for raw in part())


@dataclass(frozen=True, eq=False)
class InGroup(RowSource):
    """Rows that are all of one group, whatever their columns are."""

    source: RowSource
    group: str

    def parts(self) -> Sequence[RowReader]:
        """Return the source's parts."""
        return [partial(self._told, part) for part in self.source.parts()]

    def _told(self, part: RowReader) -> Iterator[RawBatch]:
        for raw in part():
            groups = np.full(len(raw), self.group, dtype=object)
            yield replace(raw, groups=groups)

    def damage(self) -> str | None:
        """Describe the source's damage."""
        return self.source.damage()

    def folded(self, cuts: Sequence[Rounding]) -> Iterator[RawBatch] | None:
        """Count where the rows are."""
        rows = self.source.folded(cuts)
        return None if rows is None else self._told(partial(iter, rows))

    def query(self, cuts: Sequence[Rounding]) -> str | None:
        """Return what an engine is asked."""
        return self.source.query(cuts)

    def bounded(
        self, most: int, scores: ScoreRange, *, alone: bool, strict: bool
    ) -> RowSource | None:
        """Keep so many rows."""
        kept = self.source.bounded(most, scores, alone=alone, strict=strict)
        return None if kept is None else InGroup(kept, self.group)

    def pace(self) -> float | None:
        """Return how far the source's query is."""
        return self.source.pace()


@dataclass(frozen=True, eq=False)
class Arrays(RowSource):
    """Arrays in memory as a source: slices, none of them copied."""

    whole: RawBatch

    def parts(self) -> Sequence[RowReader]:
        """Return parts of a million rows."""
        starts = range(0, max(len(self.whole), 1), PART_ROWS)
        return [partial(self._slices, start) for start in starts]

    def _slices(self, first: int) -> Iterator[RawBatch]:
        end = min(first + PART_ROWS, len(self.whole))
        for start in range(first, end, BATCH_ROWS):
            yield self.whole.some(slice(start, min(start + BATCH_ROWS, end)))


def spread(
    parts: Sequence[RowReader],
    work: Callable[[Iterator[RawBatch]], T],
    listener: Listener | None = None,
    pace: Callable[[], float | None] = lambda: None,
) -> list[T]:
    """Share the parts out among as many threads as there are cores.

    ``work`` runs once in each thread, over the columns of all the parts that the
    thread takes: so it holds one table of its own, however many parts there are.
    Decoding and arithmetic on arrays leave the interpreter's lock alone.

    A listener is told how far a long pass is: by ``pace``, else by the parts that were
    read. It is for the site's own terminal, since the share tells how many parts there are.
    """
    waiting, lock, failed, done = iter(parts), threading.Lock(), threading.Event(), 0

    def taken() -> Iterator[RawBatch]:
        nonlocal done
        while not failed.is_set():
            with lock:
                part = next(waiting, None)
            if part is None:
                return
            yield from part()
            with lock:
                done += 1

    def run() -> T:
        try:
            return work(taken())
        except BaseException:
            failed.set()
            raise

    def share() -> float | None:
        return done / len(parts) if len(parts) > 1 else pace()

    workers = min(cores(), len(parts))
    with nullcontext() if listener is None else _telling(listener, share):
        if workers < 2:
            return [run()]
        with ThreadPoolExecutor(workers) as pool:
            running = [pool.submit(run) for _ in range(workers)]
            return [one.result() for one in running]


@contextmanager
def _telling(listener: Listener, share: Callable[[], float | None]) -> Iterator[None]:
    """Tell a listener, from a thread, how far a pass is; if at all, its end too."""
    begun, over, told = time.monotonic(), threading.Event(), threading.Event()

    def tell() -> None:
        wait = _QUIET
        while not over.wait(wait):
            told.set()
            listener(share(), time.monotonic() - begun)
            wait = _EVERY

    thread = threading.Thread(target=tell, name="pace", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        if told.is_set():
            listener(1.0, time.monotonic() - begun)


def cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1

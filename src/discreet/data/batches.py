"""A few rows at a time: raw columns, validated rows, and what a source can do.

A source yields raw columns from the first row on, as often as it is called. It may
be able to do more: give parts that can be read at once (``Parted``), or count its
rows itself where they are (``CountsItself``).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Protocol,
    TypeAlias,
    TypeVar,
    runtime_checkable,
)

import numpy as np

from discreet.arrays import CodeVector, FloatVector, IntVector
from discreet.data.cuts import Cuts
from discreet.data.scores import ScoreRange

if TYPE_CHECKING:
    from numpy.typing import NDArray

BATCH_ROWS: Final = 2**16
"""Rows a batch: half a megabyte of scores, which stays in the processor's cache."""

PART_ROWS: Final = 16 * BATCH_ROWS
"""Rows in memory that one thread takes at a time."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
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
    """What each example weighs, where a plan adds weights up."""
    worded: bool = False
    """Whether groups and subjects are texts already."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Validated rows: float scores in their range, labels coded 0 .. K-1.

    Groups and subjects are texts (``data.cells``), None where one is missing.
    """

    scores: tuple[FloatVector, ...]
    labels: CodeVector
    groups: NDArray[Any] | None = None
    subjects: NDArray[Any] | None = None
    weights: IntVector | None = None
    amounts: NDArray[Any] | None = None
    """As the source has them: the statistic that adds them up judges them."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def rows(self) -> int:
        """How many of the source's rows these are."""
        return len(self) if self.weights is None else int(self.weights.sum())

    def number(self, marked: NDArray[np.bool_]) -> int:
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

    def moved(self, strange: NDArray[np.bool_], scores: Sequence[float]) -> Batch:
        """Return all rows, the strange ones with these scores and the first class."""
        columns = zip(self.scores, scores, strict=True)
        return Batch(
            tuple(np.where(strange, low, column) for column, low in columns),
            np.where(strange, 0, self.labels),
            self.groups,
            self.subjects,
            self.weights,
            self.amounts,
        )

    def where(self, kept: NDArray[np.bool_]) -> Batch:
        """Return the rows that are kept."""
        if kept.all():
            return self
        return Batch(
            tuple(column[kept] for column in self.scores),
            self.labels[kept],
            None if self.groups is None else self.groups[kept],
            None if self.subjects is None else self.subjects[kept],
            None if self.weights is None else self.weights[kept],
            None if self.amounts is None else self.amounts[kept],
        )


Source: TypeAlias = Callable[[], Iterator[Columns]]
"""Start reading from the first row; called once a pass."""


@runtime_checkable
class Parted(Protocol):
    """A source whose rows lie in parts that can be read at once."""

    def __call__(self) -> Iterator[Columns]:
        """Read all parts, one after the other."""

    def parts(self) -> Sequence[Source]:
        """Return the parts, each to be read by itself."""


@runtime_checkable
class MayBeDamaged(Protocol):
    """A source some of whose rows may not be rows: a file of text."""

    def __call__(self) -> Iterator[Columns]:
        """Read every row."""

    def damage(self) -> str | None:
        """Say what the last pass found, for the site's own operator."""


@runtime_checkable
class CountsItself(Protocol):
    """A source that can count its rows where they are, such as a database.

    It gives one row for each combination of label, group and rounded scores, and
    how many rows that is; what is counted from these is what all rows give.
    """

    def __call__(self) -> Iterator[Columns]:
        """Read every row, where counting is not enough."""

    def folded(self, cuts: Sequence[Cuts]) -> Iterator[Columns] | None:
        """Return rounded rows with their numbers; None where it must be read."""

    def query(self, cuts: Sequence[Cuts]) -> str | None:
        """Return what the engine is asked, for somebody to read; None as above."""


@runtime_checkable
class BoundsItself(Protocol):
    """A source that can keep a few rows of each subject where they are."""

    def __call__(self) -> Iterator[Columns]:
        """Read every row."""

    def bounded(
        self, most: int, scores: ScoreRange, *, alone: bool, strict: bool
    ) -> CountsItself | None:
        """Return the rows that are kept; None where they must be read."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrays:
    """Arrays in memory as a source: slices, none of them copied."""

    whole: Columns

    def __call__(self) -> Iterator[Columns]:
        """Read all rows, from the first one on."""
        return self._slices(0, len(self.whole.labels))

    def parts(self) -> Sequence[Source]:
        """Return parts of a million rows."""
        rows = len(self.whole.labels)
        starts = range(0, max(rows, 1), PART_ROWS)
        return [partial(self._slices, s, min(s + PART_ROWS, rows)) for s in starts]

    def _slices(self, first: int, end: int) -> Iterator[Columns]:
        whole = self.whole
        for start in range(first, end, BATCH_ROWS):
            rows = slice(start, min(start + BATCH_ROWS, end))
            yield Columns(
                tuple(column[rows] for column in whole.scores),
                whole.labels[rows],
                None if whole.groups is None else whole.groups[rows],
                None if whole.subjects is None else whole.subjects[rows],
                amounts=None if whole.amounts is None else whole.amounts[rows],
            )


def spread(parts: Sequence[Source], work: Callable[[Iterator[Columns]], T]) -> list[T]:
    """Share the parts out among as many threads as there are cores.

    ``work`` runs once in each thread, over the columns of all the parts that the
    thread takes: so it holds one table of its own, however many parts there are.
    Decoding and arithmetic on arrays leave the interpreter's lock alone.
    """
    waiting, lock, failed = iter(parts), threading.Lock(), threading.Event()

    def taken() -> Iterator[Columns]:
        while not failed.is_set():
            with lock:
                part = next(waiting, None)
            if part is None:
                return
            yield from part()

    def run() -> T:
        try:
            return work(taken())
        except BaseException:
            failed.set()
            raise

    workers = min(cores(), len(parts))
    if workers < 2:
        return [run()]
    with ThreadPoolExecutor(workers) as pool:
        running = [pool.submit(run) for _ in range(workers)]
        return [one.result() for one in running]


def cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1

"""Examples: scores and labels at one site, and the one place that validates them.

A source of examples is re-iterable and yields batches, so a file larger than
memory works and two rounds read the same data twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from discreet.arrays import CodeVector, FloatVector
from discreet.data.labels import Coder, LabelCode, codes_row_by_row
from discreet.data.scores import ScoreKind, ScoreRange
from discreet.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

BATCH_ROWS: Final = 2**16
"""Rows a batch: half a megabyte of scores, which stays in the processor's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Raw columns of a few rows, as a source reads them: not yet validated.

    A null score or label is None in an object array or NaN in a float one.
    """

    scores: tuple[NDArray[Any], ...]
    labels: NDArray[Any]
    groups: NDArray[Any] | None = None
    subjects: NDArray[Any] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Validated rows: float scores in their range, labels coded 0 .. K-1."""

    scores: tuple[FloatVector, ...]
    labels: CodeVector
    groups: NDArray[Any] | None = None
    subjects: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def moved(self, strange: NDArray[np.bool_], scores: Sequence[float]) -> Batch:
        """Return all rows, the strange ones with these scores and the first class."""
        columns = zip(self.scores, scores, strict=True)
        return Batch(
            tuple(np.where(strange, low, column) for column, low in columns),
            np.where(strange, 0, self.labels),
            self.groups,
            self.subjects,
        )

    def where(self, kept: NDArray[np.bool_]) -> Batch:
        """Return the rows that are kept."""
        return Batch(
            tuple(column[kept] for column in self.scores),
            self.labels[kept],
            None if self.groups is None else self.groups[kept],
            None if self.subjects is None else self.subjects[kept],
        )


Source: TypeAlias = Callable[[], Iterator[Columns]]
"""Start reading from the first row; called once a pass."""


class Examples:
    """Scores and labels that one site holds.

    Args:
        scores: one score an example; or a matrix with a column a class (with
            ``classes``) or a column a model.
        labels: 0/1 or booleans; any two values with ``positive``; any values
            out of ``classes``.
        groups: optional, the group of each example.
        subjects: optional, whom each example belongs to.
        positive: the label that counts as positive, when labels are not 0/1.
        classes: the labels of a multi-class problem, in the scores' column order.
        kind: what the scores are; see ``ScoreRange``.
        low: lower limit of scores of kind ``other``.
        high: upper limit of scores of kind ``other``.
        name: how messages call this site.
        check: read every row now, and raise if one does not fit. False leaves that
            to whoever counts: a site in a session has a rule for such rows
            (``fitted``), and a refusal there would tell something about them.

    >>> site = Examples([0.1, 0.8, 0.4], [0, 1, 1])
    >>> len(site)
    3
    >>> Examples([0.1, 1.8], [0, 1])
    Traceback (most recent call last):
        ...
    discreet.errors.InputError: 1 of 2 scores are NaN or outside [0, 1]; ...
    """

    def __init__(  # noqa: PLR0913 - one keyword a column or declaration
        self,
        scores: ArrayLike,
        labels: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        subjects: ArrayLike | None = None,
        positive: object | None = None,
        classes: Sequence[object] | None = None,
        kind: ScoreKind = "probability",
        low: float | None = None,
        high: float | None = None,
        name: str = "",
        check: bool = True,
    ) -> None:
        matrix = _plain_array(scores, "scores")
        if matrix.ndim not in (1, 2):
            raise InputError(
                f"scores must be a vector or a matrix, got {matrix.ndim}-d"
            )
        columns = (matrix,) if matrix.ndim == 1 else tuple(np.asfortranarray(matrix).T)
        y = _plain_array(labels, "labels")
        extra = {
            "groups": None if groups is None else _plain_array(groups, "groups"),
            "subjects": (
                None if subjects is None else _plain_array(subjects, "subjects")
            ),
        }
        for what, column in (("labels", y), *extra.items()):
            if column is not None and column.shape != (len(matrix),):
                raise InputError(
                    f"scores and {what} must be equally long vectors, got "
                    f"{len(matrix)} scores and {what} of shape {column.shape}"
                )
        whole = Columns(columns, y, **extra)
        self._set(
            lambda: _slices(whole),
            LabelCode(positive, None if classes is None else tuple(classes)),
            ScoreRange.declare(kind, low, high),
            columns=len(columns),
            name=name,
        )
        self._rows: int | None = len(matrix)
        if check:
            self.validate()

    @classmethod
    def from_source(
        cls,
        source: Source,
        *,
        labels: LabelCode,
        scores: ScoreRange,
        columns: int = 1,
        name: str = "",
    ) -> Examples:
        """Wrap a source of raw columns, such as a file; rows are validated as read."""
        examples = cls.__new__(cls)
        examples._set(source, labels, scores, columns=columns, name=name)  # noqa: SLF001
        examples._rows = None  # noqa: SLF001
        return examples

    def _set(
        self,
        source: Source,
        labels: LabelCode,
        scores: ScoreRange,
        *,
        columns: int,
        name: str,
    ) -> None:
        classes = labels.classes
        if classes is not None and columns not in (1, len(classes)):
            raise InputError(
                f"{len(classes)} classes need as many score columns, got {columns}"
            )
        self._source = source
        self.label_code = labels
        self.scores = scores
        self.columns = columns
        self.name = name
        self.lenient = False
        self.every_row = False
        self.set_aside = 0

    def fitted(self, *, every_row: bool = False) -> Examples:
        """Return the same rows under the rule for rows that do not fit.

        Inside a session a refusal would tell the coordinator something about the
        data, so none is made: a score outside the range is moved to its nearer end,
        and a row without a number for a score, or with a label that is missing or
        none of the classes, is left out. Each row is judged by itself, so that one
        person's row decides about no other. ``set_aside`` counts the rows that the
        last pass left out, for the site's own log.

        With ``every_row`` such a row counts in the first cell instead. That is the
        rule where the number of rows is public and a row may be replaced: one symbol
        is sent for each row, and a row left out would be seen to be missing.
        """
        found = Examples.from_source(
            self._source,
            labels=self.label_code,
            scores=self.scores,
            columns=self.columns,
            name=self.name,
        )
        found.lenient, found.every_row = True, every_row
        return found

    def batches(self) -> Iterator[Batch]:
        """Yield the validated rows, from the first one on, as often as asked."""
        if self.lenient:
            yield from self._fitting()
            return
        coder = Coder(self.label_code)
        for raw in self._source():
            scores = tuple(_floats(column) for column in raw.scores)
            labels = coder.encode(raw.labels)
            if (
                labels is None
                or any(column is None for column in scores)
                or any(self.scores.outside(c) for c in scores if c is not None)
            ):
                raise self._diagnosis()
            found = tuple(c for c in scores if c is not None)
            yield Batch(found, labels, raw.groups, raw.subjects)

    def _fitting(self) -> Iterator[Batch]:
        self.set_aside = 0
        for raw in self._source():
            columns = [_nearest_floats(column) for column in raw.scores]
            labels, kept = codes_row_by_row(raw.labels, self.label_code)
            for column in columns:
                kept &= ~np.isnan(column)
            self.set_aside += kept.size - int(np.count_nonzero(kept))
            low, high = self.scores.low, self.scores.high
            batch = Batch(
                tuple(np.clip(column, low, high) for column in columns),
                labels,
                raw.groups,
                raw.subjects,
            )
            if self.every_row:
                yield batch.moved(~kept, [low] * self.columns)
            else:
                yield batch.where(kept)

    def validate(self) -> int:
        """Read every row once; return their number, or raise ``InputError``."""
        return sum(len(batch) for batch in self.batches())

    def to_arrays(self) -> tuple[FloatVector, CodeVector]:
        """Return all scores and labels in memory; a matrix if there are columns."""
        batches = list(self.batches())
        if not batches:
            shape = (0,) if self.columns == 1 else (0, self.columns)
            return np.zeros(shape), np.zeros(0, dtype=np.int64)
        columns = [
            np.concatenate([batch.scores[k] for batch in batches])
            for k in range(self.columns)
        ]
        labels = np.concatenate([batch.labels for batch in batches])
        return columns[0] if self.columns == 1 else np.column_stack(columns), labels

    def __len__(self) -> int:
        """Count the examples; a file is read once for it."""
        if self._rows is None:
            self._rows = self.validate()
        return self._rows

    def __repr__(self) -> str:
        return f"Examples(name={self.name!r}, scores={self.scores.kind})"

    def _diagnosis(self) -> InputError:
        """Read everything once more and say how much is wrong, and what to do."""
        rows = outside = nonnumeric = strange = 0
        coder = Coder(self.label_code)
        for raw in self._source():
            rows += len(raw.labels)
            strange += coder.strangers(raw.labels)
            for column in raw.scores:
                scores = _floats(column)
                if scores is None:
                    nonnumeric += column.size
                else:
                    outside += self.scores.outside(scores)
        if nonnumeric:
            problem = "scores are text or other objects; give numbers"
        elif outside:
            problem = (
                f"{outside} of {rows * self.columns} scores are NaN or outside "
                f"{self.scores}; {_range_remedy(self.scores)}"
            )
        else:
            problem = coder.complaint(strange, rows)
        return InputError(f"{self.name}: {problem}" if self.name else problem)


def _floats(column: NDArray[Any]) -> FloatVector | None:
    """Return a column as floats; None when it holds anything but numbers."""
    if column.dtype == np.float64:
        return column
    if column.dtype.kind in "fiub":
        return column.astype(np.float64)
    if column.dtype.kind == "O":
        cells = column.tolist()
        if all(v is None or isinstance(v, int | float) for v in cells):
            return np.array([np.nan if v is None else v for v in cells], dtype=float)
    return None


def _nearest_floats(column: NDArray[Any]) -> FloatVector:
    """Return a column as floats, NaN where a cell holds no number."""
    floats = _floats(column)
    if floats is not None:
        return floats
    cells = column.tolist()
    return np.array(
        [float(v) if isinstance(v, int | float) else np.nan for v in cells],
        dtype=np.float64,
    )


def _plain_array(values: ArrayLike, what: str) -> NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):
        raise InputError(
            f"{what} are a masked array, and counting would ignore the mask; "
            "drop the masked rows first"
        )
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(
            f"{what} are not a vector: the rows differ in length"
        ) from None


def _slices(whole: Columns) -> Iterator[Columns]:
    for start in range(0, len(whole.labels), BATCH_ROWS):
        rows = slice(start, start + BATCH_ROWS)
        yield Columns(
            tuple(column[rows] for column in whole.scores),
            whole.labels[rows],
            None if whole.groups is None else whole.groups[rows],
            None if whole.subjects is None else whole.subjects[rows],
        )


def _range_remedy(scores: ScoreRange) -> str:
    match scores.kind:
        case "probability":
            return "drop missing ones, or declare kind='logit' or kind='other'"
        case "logit":
            return "drop the missing ones"
        case "other":
            return "drop missing ones, or declare the range they have"

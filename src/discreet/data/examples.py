"""Examples: scores and labels at one site, and the one place that validates them.

A source of examples is re-iterable and yields batches, so a file larger than
memory works and two rounds read the same data twice.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from discreet.arrays import CodeVector, FloatVector
from discreet.data.batches import (
    BATCH_ROWS,
    Arrays,
    Batch,
    Listener,
    PlainRows,
    RawBatch,
    RowReader,
    RowSource,
    spread,
)
from discreet.data.cells import numbers, texts
from discreet.data.edges import Cuts
from discreet.data.labels import Coder, LabelCode, codes_row_by_row
from discreet.data.scores import ScoreKind, ScoreRange, floats
from discreet.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["BATCH_ROWS", "Batch", "Examples"]

T = TypeVar("T")


class Examples:
    """Scores and labels that one site holds.

    Args:
        scores: one score an example; or a matrix with a column a class (with
            ``classes``) or a column a model.
        labels: 0/1 or booleans; any two values with ``positive``; any values
            out of ``classes``.
        groups: optional, the group of each example.
        subjects: optional, whom each example belongs to.
        weights: optional, how much each example counts: whole numbers.
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
        weights: ArrayLike | None = None,
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
        y = _cells(labels, "labels")
        others: dict[str, Any] = {
            "groups": None if groups is None else _cells(groups, "groups"),
            "subjects": None if subjects is None else _cells(subjects, "subjects"),
            "weights": None if weights is None else _plain_array(weights, "weights"),
        }
        for what, column in (("labels", y), *others.items()):
            if column is not None and column.shape != (len(matrix),):
                raise InputError(
                    f"scores and {what} must be equally long vectors, got "
                    f"{len(matrix)} scores and {what} of shape {column.shape}"
                )
        amounts = others.pop("weights")
        self._set(
            Arrays(RawBatch(columns, y, **others, amounts=amounts)),
            LabelCode(positive, None if classes is None else tuple(classes)),
            ScoreRange.declare(kind, low, high),
            columns=len(columns),
            name=name,
        )
        self.grouped = groups is not None
        self.weighted = weights is not None
        self._rows: int | None = len(matrix)
        if check:
            self.validate()

    @classmethod
    def from_source(
        cls,
        source: RowSource | RowReader,
        *,
        labels: LabelCode,
        scores: ScoreRange,
        columns: int = 1,
        name: str = "",
    ) -> Examples:
        """Wrap a source of raw columns, such as a file; rows are validated as read."""
        examples = cls.__new__(cls)
        examples._set(source, labels, scores, columns=columns, name=name)  # noqa: SLF001
        return examples

    def _set(
        self,
        source: RowSource | RowReader,
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
        self._source = source if isinstance(source, RowSource) else PlainRows(source)
        self.label_code, self.scores = labels, scores
        self.columns, self.name = columns, name
        self.lenient = self.every_row = self.grouped = self.weighted = False
        self.set_aside = 0
        self.scored_by = ""  # the digest of the model file, where one makes the scores
        self._rows = None
        self.listener: Listener | None = None  # who is told how far a long pass is

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
        fitted = self._over(self._source)
        fitted.lenient, fitted.every_row = True, every_row
        return fitted

    def emptied(self) -> Examples:
        """Return the same columns and declarations without a single row."""
        return self._over(PlainRows(lambda: iter(())))

    def _over(self, source: RowSource) -> Examples:
        """Return other rows under the same declarations and rule."""
        examples = copy.copy(self)
        examples._source, examples._rows, examples.set_aside = source, None, 0  # noqa: SLF001
        return examples

    def batches(self) -> Iterator[Batch]:
        """Yield the validated rows, from the first one on, as often as asked."""
        seen = _Seen(Coder(self.label_code))
        self.set_aside = 0
        for batch in self._validated(self._source(), seen):
            self.set_aside += seen.aside  # whoever reads may set further ones aside
            seen.aside = 0
            yield batch

    def scan(
        self, work: Callable[[Iterator[Batch]], T], cuts: Sequence[Cuts] = ()
    ) -> list[T]:
        """Do work that asks for no order of the rows: at once on every core.

        Each call of ``work`` gets its own share of the batches. With cuts, one a
        score column, only the scores' places among them are asked for: a source that
        counts itself then gives rounded rows with their numbers.
        """
        shares: list[_Seen] = []

        def run(raws: Iterator[RawBatch]) -> T:
            seen = _Seen(Coder(self.label_code))
            shares.append(seen)
            return work(self._validated(raws, seen))

        done = spread(self._sources(cuts), run, self.listener, self._source.pace)
        others = [seen.coder.other for seen in shares if seen.coder.other is not None]
        if not self.lenient and any(other != others[0] for other in others):
            raise self._diagnosis()
        self.set_aside = sum(seen.aside for seen in shares)
        self._rows = sum(seen.rows for seen in shares)
        return done

    def bounded_in_place(self, most: int, *, alone: bool) -> Examples | None:
        """Have the source keep a few rows of each subject, or of all together.

        None where it cannot: the rule for that (``session.respond``) then needs the rows.
        """
        if self.label_code != LabelCode() or self.every_row:
            return None
        kept = self._source.bounded(
            most, self.scores, alone=alone, strict=not self.lenient
        )
        return None if kept is None else self._over(kept)

    def query(self, cuts: Sequence[Cuts]) -> str | None:
        """Return what an engine would be asked; None where the rows are read here."""
        return self._source.query(cuts)

    def _sources(self, cuts: Sequence[Cuts]) -> Sequence[RowReader]:
        folded = self._source.folded(cuts) if cuts else None
        return self._source.parts() if folded is None else [lambda: folded]

    def _validated(self, raws: Iterator[RawBatch], seen: _Seen) -> Iterator[Batch]:
        for raw in raws:
            batch = self._fitting(raw, seen) if self.lenient else self._fit(raw, seen)
            if batch is None:
                raise self._diagnosis()
            seen.rows += batch.rows
            yield batch

    def _fit(self, raw: RawBatch, seen: _Seen) -> Batch | None:
        """Return the rows as they are; None when one of them does not fit."""
        labels = seen.coder.encode(raw.labels)
        scores = tuple(c for c in map(floats, raw.scores) if c is not None)
        if labels is None or len(scores) < len(raw.scores):
            return None
        if any(self.scores.outside(column) for column in scores):
            return None
        return _batch(scores, labels, raw)

    def _fitting(self, raw: RawBatch, seen: _Seen) -> Batch:
        if self.label_code == LabelCode():
            # Where every row fits, the rule for others has nothing to do.
            fits = self._fit(raw, seen)
            if fits is not None:
                return fits
        columns = [numbers(column) for column in raw.scores]
        labels, kept = codes_row_by_row(raw.labels, self.label_code)
        for column in columns:
            kept &= ~np.isnan(column)
        low, high = self.scores.low, self.scores.high
        clipped = tuple(np.clip(column, low, high) for column in columns)
        batch = _batch(clipped, labels, raw)
        seen.aside += batch.number(~kept)
        if self.every_row:
            return batch.moved(~kept, [low] * self.columns)
        return batch.where(kept)

    def validate(self) -> int:
        """Read every row once; return their number, or raise ``InputError``."""
        cuts = [Cuts.within(self.scores)] * self.columns
        return sum(self.scan(lambda batches: sum(b.rows for b in batches), cuts))

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
        percents = self.scores.kind == "probability"
        coder = Coder(self.label_code)
        cuts = [Cuts.within(self.scores)] * self.columns
        for raw in (raw for part in self._sources(cuts) for raw in part()):
            weights = np.ones(len(raw.labels)) if raw.weights is None else raw.weights
            rows += int(weights.sum())
            strange += int(weights[coder.unknown(raw.labels)].sum())
            for column in raw.scores:
                scores = floats(column)
                if scores is None:
                    nonnumeric += column.size
                else:
                    outside += int(weights[~self.scores.inside(scores)].sum())
                    percents = percents and not ((scores < 0) | (scores > 100)).any()
        damage = self._source.damage()
        if damage is not None:
            problem = damage
        elif nonnumeric:
            problem = "scores are text or other objects; give numbers"
        elif outside:
            problem = (
                f"{outside} of {rows * self.columns} scores are NaN or outside "
                f"{self.scores}; {_range_remedy(self.scores, percents=percents)}"
            )
        else:
            problem = coder.complaint(strange, rows)
        return InputError(f"{self.name}: {problem}" if self.name else problem)


def _plain_array(values: ArrayLike, what: str) -> NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):
        raise InputError(
            f"{what} are a masked array, and counting would ignore the mask; "
            "drop the masked rows first"
        )
    try:
        array = np.asarray(values)
        if array.dtype.kind in "US" and not isinstance(values, np.ndarray):
            # One text among numbers makes all of them text: they are taken one by one.
            return np.array(values, dtype=object)
    except ValueError:
        raise InputError(
            f"{what} are not a vector: the rows differ in length"
        ) from None
    return array


def _cells(values: ArrayLike, what: str) -> NDArray[Any]:
    """Return a vector whose cells are as they were given, whatever the others are.

    NumPy gives a list one type for all: of whole numbers and one missing it makes floats,
    which are not exact from 2^53 on.
    """
    array = _plain_array(values, what)
    own = isinstance(getattr(values, "dtype", None), np.dtype)
    if own or array.dtype.kind not in "fUS" or array.ndim != 1:
        return array
    for way in ("to_list", "tolist"):  # of polars, of Arrow
        if hasattr(values, way):
            values = getattr(values, way)()
            break
    cells = np.empty(len(array), dtype=object)
    cells[:] = list(values)  # type: ignore[arg-type]
    return cells


def _batch(scores: tuple[FloatVector, ...], labels: CodeVector, raw: RawBatch) -> Batch:
    groups, subjects = raw.groups, raw.subjects
    if not raw.worded:
        groups = None if groups is None else texts(groups)
        subjects = None if subjects is None else texts(subjects)
    return Batch(scores, labels, groups, subjects, raw.weights, raw.amounts)


@dataclass(slots=True)
class _Seen:
    """What one share of a pass has seen: rows, how many of them did not fit, labels."""

    coder: Coder
    rows: int = 0
    aside: int = 0


def _range_remedy(scores: ScoreRange, *, percents: bool) -> str:
    declare = {
        "probability": ", or declare kind='logit' or kind='other'",
        "other": ", or declare the range they have",
        "logit": "",
    }
    remedy = f"drop what is missing or no number{declare[scores.kind]}"
    if not percents:
        return remedy
    return f"all lie in [0, 100]: if they are percents, divide them by 100; {remedy}"

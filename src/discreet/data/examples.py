"""Examples: scores and labels at one site, and the one place that validates them.

A source of examples is re-iterable and yields batches, so a file larger than
memory works and two rounds read the same data twice.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from discreet.arrays import CodeVector, FloatVector
from discreet.codec.parsing import whole
from discreet.data.batches import (
    BATCH_ROWS,
    Arrays,
    Batch,
    InGroup,
    Listener,
    PerLabel,
    PlainRows,
    RawBatch,
    RowReader,
    RowSource,
    spread,
)
from discreet.data.cells import numbers, texts
from discreet.data.edges import Cuts
from discreet.data.file_format import PLAIN, OddCells
from discreet.data.labels import Coder, LabelCode, codes_row_by_row
from discreet.data.scores import ScoreKind, ScoreRange, floats
from discreet.data.times import Rounding, TimeCuts
from discreet.errors import InputError
from discreet.vocabulary import understood

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["BATCH_ROWS", "Batch", "Examples"]

_TELLING: Final = 8
"""So many rows whose two scores add up to 1 are no chance."""
MOST_CAUSES: Final = 16
"""Kinds of events: more are no plan for people."""

T = TypeVar("T")


class Examples:
    """Scores and labels that one site holds.

    Args:
        scores: one score per example; or a matrix with one column per class (with
            ``classes``), per model, or per label.
        labels: 0/1 or booleans; any two values with ``positive``; any values
            out of ``classes``; a matrix where examples have several labels, in the
            order of the scores' columns.
        time: instead of labels: how long each example was followed, in any unit.
        event: what ended it: 0 (censored) or 1; up to ``causes`` under competing risks.
        causes: how many kinds of events there are.
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
    discreet.errors.InputError: 1 of 2 scores are outside [0, 1]; if they are ...
    """

    @understood
    def __init__(  # noqa: PLR0913 - one keyword a column or declaration
        self,
        scores: ArrayLike,
        labels: ArrayLike | None = None,
        *,
        time: ArrayLike | None = None,
        event: ArrayLike | None = None,
        causes: int = 1,
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
        if check and classes is None and time is None and _is_predict_proba(matrix):
            raise InputError(
                "these are both columns of predict_proba, which add up to 1: give the "
                "positive class alone, predict_proba(X)[:, 1]"
            )
        timed = time is not None
        what = "events" if timed else "labels"
        y = _cells(_outcome(labels, time, event), what)
        others: dict[str, Any] = {
            "times": None if time is None else _plain_array(time, "times"),
            "groups": None if groups is None else _cells(groups, "groups"),
            "subjects": None if subjects is None else _cells(subjects, "subjects"),
            "weights": None if weights is None else _plain_array(weights, "weights"),
        }
        several = y.ndim == 2 and y.shape == matrix.shape
        for name_of, column in ((what, y), *others.items()):
            if several and column is y:
                continue
            if column is not None and column.shape != (len(matrix),):
                raise InputError(
                    f"scores and {name_of} must be equally long vectors, got "
                    f"{len(matrix)} scores and {name_of} of shape {column.shape}"
                )
        amounts = others.pop("weights")
        whole = RawBatch(columns, y, **others, amounts=amounts)
        source: RowSource = Arrays(whole)
        if several:
            each = zip(columns, np.asfortranarray(y).T, strict=True)
            views = (replace(whole, scores=(s,), labels=own) for s, own in each)
            source = PerLabel(tuple(Arrays(view) for view in views))
        self._set(
            source,
            label_code(positive, classes, causes, timed=timed),
            ScoreRange.declare(kind, low, high),
            columns=len(columns),
            label_columns=len(columns) if several else 1,
            name=name,
            timed=timed,
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
        label_columns: int = 1,
        name: str = "",
        timed: bool = False,
    ) -> Examples:
        """Wrap a source of raw columns, such as a file; rows are validated as read."""
        examples = cls.__new__(cls)
        examples._set(  # noqa: SLF001
            source,
            labels,
            scores,
            columns=columns,
            label_columns=label_columns,
            name=name,
            timed=timed,
        )
        return examples

    def _set(
        self,
        source: RowSource | RowReader,
        labels: LabelCode,
        scores: ScoreRange,
        *,
        columns: int,
        label_columns: int,
        name: str,
        timed: bool = False,
    ) -> None:
        classes = labels.classes
        if label_columns > 1 and (classes is not None or columns != label_columns):
            raise InputError(
                "several labels have two classes and one score column each: leave out "
                "classes="
            )
        if not timed and classes is not None and columns not in (1, len(classes)):
            raise InputError(
                f"{len(classes)} classes need as many score columns, got {columns}"
            )
        self._source = source if isinstance(source, RowSource) else PlainRows(source)
        self.label_code, self.scores = labels, scores
        self.columns, self.label_columns = columns, label_columns
        self.name, self.timed = name, timed
        self.lenient = self.every_row = self.grouped = self.weighted = False
        self.set_aside = 0
        self.settled: frozenset[str] = frozenset()
        """Declarations that are not the caller's: no message advises to change one."""
        self.scored_by = ""  # the digest of the model file, where one makes the scores
        self._rows = None
        self.listener: Listener | None = None  # who is told how far a long pass is

    def fitted(self, *, every_row: bool = False) -> Examples:
        """Return the same rows under the rule for rows that do not fit.

        Inside a session a refusal would tell the coordinator something about the
        data, so none is made: a score outside the range is moved to its nearer end,
        and a row without a number for a score, with a label that is missing or none of
        the classes, or with a time that is missing, negative or infinite, is left out. Each row is judged by itself, so that one
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

    def in_group(self, group: str) -> Examples:
        """Return the same rows, all of one group, such as a site's own name."""
        examples = self._over(InGroup(self._source, group))
        examples.grouped = True
        return examples

    def by_group(self) -> dict[str, Examples]:
        """Read all rows once, and return those of each group by themselves.

        Raises:
            InputError: rows name no group.
        """
        rows: dict[str | None, list[RawBatch]] = {}
        for raw in self._source():
            groups = np.full(len(raw), None) if raw.groups is None else raw.groups
            names = (groups if raw.worded else texts(groups)).tolist()
            own = replace(raw, groups=None)
            places: dict[str | None, list[int]] = {}
            for place, name in enumerate(names):
                places.setdefault(name, []).append(place)
            for name, kept in places.items():
                rows.setdefault(name, []).append(own.some(np.array(kept)))
        if None in rows:
            missing = sum(len(raw) for raw in rows[None] if not raw.which)
            raise InputError(
                f"{missing} rows name no site or group: fill that column, or drop them"
            )
        named = sorted((name for name in rows if name is not None), key=_in_order)
        found = {}
        for name in named:
            found[name] = self._over(PlainRows(partial(iter, rows[name])))
            found[name].name, found[name].grouped = name, False
        return found

    def batches(self) -> Iterator[Batch]:
        """Yield the validated rows, from the first one on, as often as asked."""
        seen = _Seen(self.label_code)
        self.set_aside = 0
        for batch in self._validated(self._source(), seen):
            self.set_aside += seen.aside  # whoever reads may set further ones aside
            seen.aside = 0
            yield batch

    def scan(
        self, work: Callable[[Iterator[Batch]], T], cuts: Sequence[Rounding] = ()
    ) -> list[T]:
        """Do work that asks for no order of the rows: at once on every core.

        Each call of ``work`` gets its own share of the batches. With cuts, one a
        score column and one of the times, only the scores' places among them are asked for: a source that
        counts itself then gives rounded rows with their numbers.
        """
        shares: list[_Seen] = []

        def run(raws: Iterator[RawBatch]) -> T:
            seen = _Seen(self.label_code)
            shares.append(seen)
            return work(self._validated(raws, seen))

        done = spread(self._sources(cuts), run, self.listener, self._source.pace)
        for which in range(self.label_columns):
            others = {seen.coder(which).other for seen in shares} - {None}
            if not self.lenient and len(others) > 1:
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

    def query(self, cuts: Sequence[Rounding]) -> str | None:
        """Return what an engine would be asked; None where the rows are read here."""
        return self._source.query(cuts)

    def _sources(self, cuts: Sequence[Rounding]) -> Sequence[RowReader]:
        folded = self._source.folded(cuts) if cuts else None
        return self._source.parts() if folded is None else [lambda: folded]

    def _validated(self, raws: Iterator[RawBatch], seen: _Seen) -> Iterator[Batch]:
        for raw in raws:
            batch = self._fitting(raw, seen) if self.lenient else self._fit(raw, seen)
            if batch is None:
                raise self._diagnosis()
            if self.label_columns == 1:
                seen.rows += batch.rows
            elif not raw.which:  # a row without this label is a row nonetheless
                seen.rows += raw.rows
            yield batch

    def _fit(self, raw: RawBatch, seen: _Seen) -> Batch | None:
        """Return the rows as they are; None when one of them does not fit.

        Of several labels some may be missing: such a row counts for the others.
        """
        if self.label_columns > 1 and not self.lenient:
            raw = self._labelled(raw, seen)
        labels = seen.coder(raw.which).encode(raw.labels)
        scores = tuple(c for c in map(floats, raw.scores) if c is not None)
        if labels is None or len(scores) < len(raw.scores):
            return None
        if any(self.scores.outside(column) for column in scores):
            return None
        times = floats(raw.times) if self.timed and raw.times is not None else None
        if self.timed and (times is None or not TimeCuts.fits(times).all()):
            return None
        return _batch(scores, labels, raw, times)

    @staticmethod
    def _labelled(raw: RawBatch, seen: _Seen) -> RawBatch:
        """Leave out the rows without this label."""
        match raw.labels.dtype.kind:
            case "i" | "u" | "b":
                return raw
            case "f":
                missing = np.isnan(raw.labels)
            case _:
                missing = np.array([cell is None for cell in texts(raw.labels)])
        if not missing.any():
            return raw
        weights = 1 if raw.weights is None else raw.weights[missing]
        seen.aside += int(np.sum(missing[missing] * weights))
        return raw.some(~missing)

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
        times = None
        if self.timed and raw.times is not None:
            times = numbers(raw.times)
            kept &= TimeCuts.fits(times)
        low, high = self.scores.low, self.scores.high
        clipped = tuple(np.clip(column, low, high) for column in columns)
        batch = _batch(clipped, labels, raw, times)
        seen.aside += batch.number(~kept)
        if self.every_row:
            return batch.moved(~kept, [low] * len(columns))
        return batch.where(kept)

    def validate(self) -> int:
        """Read every row once; return their number, or raise ``InputError``."""
        self.scan(lambda batches: sum(1 for _ in batches), self._ends())
        return self._rows or 0

    def _ends(self) -> list[Rounding]:
        """Return cuts that tell only apart what fits and what does not."""
        times = [TimeCuts((0.0,))] if self.timed else []
        return [*[Cuts.within(self.scores)] * self.columns, *times]

    def to_arrays(self) -> tuple[FloatVector, CodeVector]:
        """Return all scores and labels in memory; a matrix if there are columns."""
        batches = list(self.batches())
        if self.label_columns > 1:
            each = [[b for b in batches if b.which == k] for k in range(self.columns)]
            return (
                np.column_stack([_joined(b.scores[0] for b in own) for own in each]),
                np.column_stack([_joined(b.labels for b in own) for own in each]),
            )
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

    def _diagnosis(self) -> InputError:  # noqa: C901 - one sentence a cause
        """Read everything once more and say how much is wrong, and what to do."""
        rows = cells = outside = missing = nonnumeric = untimed = worded = 0
        strange = [0] * self.label_columns
        percents, bits, shares = self.scores.kind == "probability", True, True
        seen, odd = _Seen(self.label_code), OddCells(PLAIN, self._source.options)
        for raw in (raw for part in self._sources(self._ends()) for raw in part()):
            weights = np.ones(len(raw.labels)) if raw.weights is None else raw.weights
            rows += 0 if raw.which else int(weights.sum())
            if self.label_columns > 1:
                raw = self._labelled(raw, seen)  # noqa: PLW2901 - the same rows, fewer
                weights = np.ones(len(raw)) if raw.weights is None else raw.weights
            unknown = seen.coder(raw.which).unknown(raw.labels)
            strange[raw.which] += int(weights[unknown].sum())
            cells += int(weights.sum()) * len(raw.scores)
            if raw.times is not None:
                untimed += int(weights[~TimeCuts.fits(numbers(raw.times))].sum())
                worded += floats(raw.times) is None
            labels = numbers(raw.labels)
            shares = shares and bool(((labels >= 0) & (labels <= 1)).all())
            for column in raw.scores:
                scores = floats(column)
                if scores is None:
                    nonnumeric += column.size
                    odd.add(column.tolist())
                    continue
                lost = np.isnan(scores)
                missing += int(weights[lost].sum())
                outside += int(weights[~self.scores.inside(scores) & ~lost].sum())
                percents = percents and not ((scores < 0) | (scores > 100)).any()
                bits = bits and bool(((scores == 0) | (scores == 1)).all())
        problem = self._source.damage()
        if problem is None and nonnumeric:
            problem = odd.complaint() if odd.needs else None
            problem = problem or "scores are text or other objects; give numbers"
        elif problem is None and (outside or missing):
            problem = self._range_problem(outside, missing, cells, percents=percents)
        elif problem is None and (untimed or worded):
            problem = (
                f"{untimed} of {rows} times are missing, negative, infinite or no "
                "numbers; mend or drop these rows"
                if untimed
                else "times are text or other objects; give numbers"
            )
        elif problem is None and self.timed and self.label_code.positive is None:
            most, agreed = len(self.label_code.names) - 1, "classes" in self.settled
            more = (
                "as the plan does"
                if agreed
                else "with causes= for more kinds of events"
            )
            problem = (
                f"{strange[0]} of {rows} events are missing or no whole number from 0 "
                f"(censored) to {most}; code them so, {more}, or name the one event with "
                "positive="
            )
        elif problem is None and any(strange) and bits and shares:
            problem = (
                "scores and labels are swapped: the scores are all 0 or 1, and the labels "
                "fractions; scores come first, then labels"
            )
        elif problem is None:
            worst = int(np.argmax(strange))
            problem = seen.coder(worst).complaint(strange[worst], rows, self.settled)
            if self.label_columns > 1:
                problem = f"label {worst + 1}: {problem}"
        return InputError(f"{self.name}: {problem}" if self.name else problem)

    def _range_problem(
        self, outside: int, missing: int, every: int, *, percents: bool
    ) -> str:
        """Say how many scores are missing or outside their range, and what to do."""
        if not outside:
            return (
                f"{missing} of {every} scores are missing or no number; leave out these "
                "rows"
            )
        problem = f"{outside} of {every} scores are outside {self.scores}"
        if missing:
            problem += f", and {missing} are missing or no number"
        remedies = []
        if percents:
            divide = "divide them by 100"
            if "percent" in self._source.options:
                divide = "declare percent=True"
            remedies.append(f"if they are percents, {divide}")
        if "kind" in self.settled:
            remedies.append(
                f"here they are of kind {self.scores.kind}: convert them, or agree on "
                "another plan"
            )
        elif self.scores.kind == "probability":
            remedies.append(
                "if they are no probabilities, declare kind='logit' or kind='other'"
            )
        else:
            remedies.append("declare the range they have with low= and high=")
        return f"{problem}; {'; '.join(remedies)}"


def _is_predict_proba(matrix: NDArray[Any]) -> bool:
    """Say whether a matrix is scikit-learn's of two classes: rows that add up to 1.

    Two models may do so on a few rows by chance.
    """
    if matrix.ndim != 2 or matrix.shape[1] != 2 or matrix.dtype.kind != "f":
        return False
    return len(matrix) >= _TELLING and bool(
        np.allclose(matrix.sum(axis=1), 1, rtol=0, atol=1e-5)
    )


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


def _outcome(
    labels: ArrayLike | None, time: ArrayLike | None, event: ArrayLike | None
) -> ArrayLike:
    """Return the labels, or the events of follow-up."""
    if (time is None) != (event is None):
        raise InputError("follow-up is a time and an event: give time= and event= both")
    if (labels is None) == (event is None):
        raise InputError("give labels, or time= and event= instead of them")
    outcome = event if labels is None else labels
    assert outcome is not None  # noqa: S101 - one of the two is there
    return outcome


def label_code(
    positive: object | None,
    classes: Sequence[object] | None,
    causes: int,
    *,
    timed: bool,
) -> LabelCode:
    """Return how labels are coded, or the events of follow-up: 0, 1 up to ``causes``."""
    whole(causes, "the number of causes", least=1, most=MOST_CAUSES, error=InputError)
    if not timed and causes != 1:
        raise InputError("causes= is for follow-up: give time= and event= too")
    if timed and classes is not None:
        raise InputError("follow-up has no classes: kinds of events are causes=")
    if causes == 1:
        return LabelCode(positive, None if classes is None else tuple(classes))
    if positive is not None:
        raise InputError(
            "several causes are coded 0 (censored), 1, 2 and so on: leave out positive="
        )
    return LabelCode(classes=tuple(range(causes + 1)))


def _batch(
    scores: tuple[FloatVector, ...],
    labels: CodeVector,
    raw: RawBatch,
    times: FloatVector | None,
) -> Batch:
    groups, subjects = raw.groups, raw.subjects
    if not raw.worded:
        groups = None if groups is None else texts(groups)
        subjects = None if subjects is None else texts(subjects)
    weights, amounts = raw.weights, raw.amounts
    return Batch(
        scores,
        labels,
        groups,
        subjects,
        weights,
        amounts,
        times=times,
        which=raw.which,
    )


@dataclass(slots=True)
class _Seen:
    """What one share of a pass has seen: rows, how many of them did not fit, labels."""

    code: LabelCode
    rows: int = 0
    aside: int = 0
    coders: dict[int, Coder] = field(default_factory=dict)

    def coder(self, which: int) -> Coder:
        """Return what codes one label, where there are several."""
        if which not in self.coders:
            self.coders[which] = Coder(self.code)
        return self.coders[which]


def _joined(columns: Iterable[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([np.zeros(0), *columns])


def _in_order(name: str) -> tuple[bool, int, str]:
    """Whole numbers by their value, then texts."""
    digits = name.isascii() and name.isdigit()
    return not digits, int(name) if digits else 0, name

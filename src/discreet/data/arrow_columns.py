"""Named columns of Arrow batches, as plain arrays.

Buffers are not copied where Arrow's layout is NumPy's. Messages name columns and
counts, never a value, and not the header of a file that seems to have none. Arrow's
own messages quote cells: none of them is passed on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet.data.batches import RawBatch
from discreet.data.cells import canonical
from discreet.data.file_format import PLAIN, FileFormat, features
from discreet.errors import InputError
from discreet.vocabulary import did_you_mean

Convert: TypeAlias = Callable[..., NDArray[Any]]
"""Numbers of a column; ``score=False`` for weights, which are no percents."""
_LISTED: Final = 24
"""So many names of columns are listed in a message: tables may have hundreds."""
_DATA: Final = re.compile(r"[-+]?[.,]?\d")
"""How a cell begins that may be data, not a name: a number or a date."""
_FEW: Final = 5
_TEXTS: Final = (
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
    pa.types.is_fixed_size_binary,
)


@dataclass(frozen=True, slots=True)
class Names:
    """Which columns to read, and the name of the source in messages."""

    scores: tuple[str, ...]
    label: str
    group: str | None = None
    subject: str | None = None
    title: str = ""
    weight: str | None = None
    format: FileFormat = PLAIN
    """How numbers are written, where a column of them is text."""
    time: str | None = None
    more: tuple[str, ...] = ()
    """Further labels of the same rows: the k-th label has the k-th score."""
    texts: frozenset[str] | None = None
    """Where a model makes the scores: which of its columns, here ``scores``, are text."""
    agreed: bool = False
    """Whether a plan names the model's columns, and nobody here can."""

    def all(self) -> list[str]:
        """Return every column that is read, each once: a feature may be a group too."""
        rest = (self.group, self.subject, self.weight, self.time)
        named = (name for name in rest if name is not None)
        return list(dict.fromkeys((*self.scores, self.label, *self.more, *named)))

    def each(self) -> tuple[Names, ...]:
        """Return one label's names after the other; all in one where there is one."""
        if not self.more:
            return (self,)
        pairs = zip(self.scores, (self.label, *self.more), strict=True)
        return tuple(replace(self, scores=(s,), label=y, more=()) for s, y in pairs)

    def numbers(self) -> list[str]:
        """Return the columns that hold numbers: scores, weights and times."""
        rest = (self.weight, self.time)
        texts = self.texts or ()
        scores = (name for name in self.scores if name not in texts)
        return [*scores, *(name for name in rest if name is not None)]

    @property
    def measured(self) -> str:
        """What messages call the columns in ``scores``."""
        return "scores" if self.texts is None else "features"

    def problem(self, sentence: str) -> InputError:
        """Return an error that says where it happened."""
        return InputError(f"{self.title}: {sentence}" if self.title else sentence)

    def check(self, columns: Sequence[str]) -> None:
        """Refuse a source that lacks a column, or has one twice."""
        missing = [name for name in self.all() if name not in columns]
        if not missing:
            if len(set(columns)) != len(columns):
                raise self.problem("two columns have the same name")
            return
        if not any(columns):
            raise self.problem("there is no header: the first row names the columns")
        cells = [c.strip() for name in columns for c in re.split(r"[;\t|]", name)]
        if "" in cells[1:] or any(_DATA.match(cell) for cell in cells):
            # The header may be a row of data: do not repeat it.
            raise self.problem(
                "the first row looks like data: the file needs a header with "
                f"{', '.join(self.all())}"
            )
        if self.texts is not None and (lacking := set(missing) & set(self.scores)):
            first = ", ".join(sorted(lacking)[:_FEW])
            more = f" and {len(lacking) - _FEW} more" if len(lacking) > _FEW else ""
            raise self.problem(
                f"the model needs {len(self.scores)} columns, and {first}{more} "
                f"{'is' if len(lacking) == 1 else 'are'} missing; rename the columns"
                + (
                    ""
                    if self.agreed
                    else ", or name them in the model's order with inputs="
                )
            )
        listed = ", ".join(columns[:_LISTED])
        if len(columns) > _LISTED:
            listed += f" and {len(columns) - _LISTED} more"
        near = "" if len(missing) > 1 else did_you_mean(missing[0], columns)
        options = "label=" if self.time is None else "time=, event="
        if self.texts is None:
            options = f"score= and {options}"
        if sum(map(bool, columns)) == 1:
            options += ", or remove what stands above the header"
        raise self.problem(
            f"no column {', '.join(missing)} among {listed}{near}; name the columns "
            f"with {options}"
        )


def plain_columns(
    batches: Iterable[pa.RecordBatch], names: Names, weight: str | None = None
) -> Iterator[RawBatch]:
    """Take the named columns out of each batch; ``weight`` says how many a row is."""
    for batch in batches:
        try:
            declared = partial(declared_numbers, written=names.format)
            for rows in views(batch, names, declared):
                if weight is None:
                    yield rows
                    continue
                many = _plain_numbers(
                    batch.column(batch.schema.get_field_index(weight))
                )
                yield replace(rows, weights=many.astype(np.int64))
        except (pa.ArrowException, UnicodeDecodeError):
            raise names.problem(
                "a column holds nested or undecodable values; give plain numbers "
                "and text"
            ) from None


def taken(batch: pa.RecordBatch, names: Names, numbers: Convert) -> RawBatch:
    """Take the named columns out of a batch: numbers by a rule, the others as texts."""

    def column(name: str | None, rule: Convert, **more: bool) -> Any:
        if name is None:
            return None
        return rule(batch.column(batch.schema.get_field_index(name)), **more)

    def score(name: str) -> Any:
        if names.texts is None:
            return column(name, numbers)
        return column(name, _as_written if name in names.texts else feature)

    def feature(cells: pa.Array) -> NDArray[Any]:
        values = numbers(cells)
        if not is_text(cells.type) or values.dtype.kind != "f":
            return values
        if int(np.isnan(values).sum()) == cells.null_count:
            return values
        return features(values, cells.to_pylist())

    return RawBatch(
        tuple(map(score, names.scores)),
        column(names.label, _words),
        column(names.group, _words),
        column(names.subject, _words),
        amounts=column(names.weight, numbers, score=False),
        times=column(names.time, numbers, score=False),
    )


def views(batch: pa.RecordBatch, names: Names, numbers: Convert) -> Iterator[RawBatch]:
    """Take the named columns out of a batch: once, or once for each of several labels."""
    first, *others = names.each()
    rows = taken(batch, first, numbers)
    yield rows
    for which, other in enumerate(others, 1):
        label = replace(first, scores=other.scores, label=other.label)
        own = taken(
            batch, replace(label, group=None, subject=None, weight=None), numbers
        )
        yield replace(rows, scores=own.scores, labels=own.labels, which=which)


def declared_numbers(
    column: pa.Array, written: FileFormat, *, score: bool = True
) -> NDArray[Any]:
    """Convert scores or weights; a null becomes NaN, text stays text.

    Where the format of numbers was declared, text is read by it.
    """
    values = _plain_numbers(column)
    return values if written == PLAIN else written.numbers(values, score=score)


def _plain_numbers(column: pa.Array) -> NDArray[Any]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        if not column.null_count:
            return _buffer(column)
        column = column.cast(pa.float64(), safe=False)
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.uint8()).cast(pa.float64())
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif is_text(kind):
        return _by_value(column, _decoded)
    else:  # no numbers at all, such as dates
        return np.full(len(column), None, dtype=object)
    array: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return array


def _as_written(column: pa.Array) -> NDArray[Any]:
    """Convert texts that a model knows: as they are, whatever they look like."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not is_text(column.type):
        return np.full(len(column), None, dtype=object)
    return _by_value(column, _decoded)


def _words(column: pa.Array) -> NDArray[Any]:
    """Convert labels, groups or subjects: numbers as they are, all else to texts."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_floating(kind):
        return _plain_numbers(column)
    if not column.null_count and pa.types.is_integer(kind):
        return _buffer(column)
    if not column.null_count and pa.types.is_boolean(kind):
        truths: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return truths
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp(kind.unit))  # no zone is UTC
    return _by_value(column, canonical, bits=True)


def _buffer(column: pa.Array) -> NDArray[Any]:
    """Return numbers without copying: to_numpy() would load pandas, for nothing."""
    kind = column.type
    code = "f"
    if pa.types.is_integer(kind):
        code = "i" if pa.types.is_signed_integer(kind) else "u"
    dtype = f"{code}{kind.bit_width // 8}"
    if not len(column):
        return np.zeros(0, dtype)
    whole: NDArray[Any] = np.frombuffer(column.buffers()[1], dtype)
    return whole[column.offset : column.offset + len(column)]


def _by_value(
    column: pa.Array, rule: Callable[[object], str | None], *, bits: bool = False
) -> NDArray[Any]:
    """Apply a rule to every different value once; a null is None."""
    try:
        coded = column.dictionary_encode()
        cells = _plain(coded.dictionary)
        places = coded.indices.fill_null(len(cells)).to_numpy(zero_copy_only=False)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # lists, structures
        cells, places = column.to_pylist(), np.arange(len(column))
    values = [rule(cell) for cell in cells]
    if bits and {*values} <= {"0", "1"}:  # labels, mostly: numbers of the same texts
        meant = np.array([*map(float, values), np.nan])  # type: ignore[arg-type]
    else:
        meant = np.empty(len(cells) + 1, dtype=object)
        meant[:-1] = values
    each: NDArray[Any] = meant[places]
    return each


def _plain(values: pa.Array) -> list[Any]:
    """Return values as Python has them; text as bytes, which may be no UTF-8."""
    kind = values.type
    if is_text(kind):
        large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
        values = values.cast(pa.large_binary() if large else pa.binary())
    elif pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        # A year that Python does not know is no reason to refuse a site.
        values = values.cast(pa.string())
    cells: list[Any] = values.to_pylist()
    return cells


def is_text(kind: pa.DataType) -> bool:
    """Say whether a type is of texts."""
    return any(test(kind) for test in _TEXTS)


def _decoded(cell: object) -> str | None:
    try:
        return cell.decode() if isinstance(cell, bytes) else None
    except UnicodeDecodeError:
        return None

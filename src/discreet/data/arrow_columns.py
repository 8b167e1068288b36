"""Named columns of Arrow batches, as plain arrays.

Buffers are not copied where Arrow's layout is NumPy's. Messages name columns and
counts, never a value, and not the header of a file that seems to have none. Arrow's
own messages quote cells: none of them is passed on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from discreet.data.batches import Columns
from discreet.errors import InputError

Convert: TypeAlias = Callable[[pa.Array], NDArray[Any]]
_DATA: Final = re.compile(r"[-+]?[.,]?\d")
"""How a cell begins that may be data, not a name: a number or a date."""
_WHOLE: Final = 2**53
"""Whole numbers up to it are floats."""


@dataclass(frozen=True, slots=True)
class Names:
    """Which columns to read, and how messages call the source."""

    scores: tuple[str, ...]
    label: str
    group: str | None = None
    subject: str | None = None
    title: str = ""
    weight: str | None = None

    def all(self) -> list[str]:
        """Return every column that is read."""
        rest = (self.group, self.subject, self.weight)
        return [*self.scores, self.label, *(name for name in rest if name is not None)]

    def problem(self, sentence: str) -> InputError:
        """Return an error that says where it happened."""
        return InputError(f"{self.title}: {sentence}" if self.title else sentence)

    def check(self, found: Sequence[str]) -> None:
        """Refuse a source that lacks a column, or has one twice."""
        missing = [name for name in self.all() if name not in found]
        if not missing:
            if len(set(found)) != len(found):
                raise self.problem("two columns have the same name")
            return
        cells = [cell.strip() for name in found for cell in re.split(r"[;\t|]", name)]
        if "" in cells[1:] or any(_DATA.match(cell) for cell in cells):
            # The header may be a row of data: do not repeat it.
            raise self.problem(
                "the first row looks like data: the file needs a header with "
                f"{', '.join(self.all())}"
            )
        raise self.problem(
            f"no column {', '.join(missing)} among {', '.join(found)}; name the "
            "columns with score= and label="
        )


def plain_columns(
    batches: Iterable[pa.RecordBatch], names: Names, weight: str | None = None
) -> Iterator[Columns]:
    """Take the named columns out of each batch; ``weight`` says how many a row is."""
    for batch in batches:
        try:
            yield _columns(batch, names, weight)
        except (pa.ArrowException, UnicodeDecodeError):
            raise names.problem(
                "a column holds nested or undecodable values; give plain numbers "
                "and text"
            ) from None


def taken(
    batch: pa.RecordBatch,
    names: Names,
    *,
    numbers: Convert,
    labels: Convert,
    words: Convert,
) -> Columns:
    """Take the named columns out of a batch, each converted as its kind is."""

    def column(name: str) -> pa.Array:
        return batch.column(batch.schema.get_field_index(name))

    return Columns(
        tuple(numbers(column(name)) for name in names.scores),
        labels(column(names.label)),
        None if names.group is None else words(column(names.group)),
        None if names.subject is None else words(column(names.subject)),
        None,
        None if names.weight is None else numbers(column(names.weight)),
    )


def _columns(batch: pa.RecordBatch, names: Names, weight: str | None) -> Columns:
    found = taken(batch, names, numbers=_numbers, labels=_numbers, words=_to_numpy)
    if weight is None:
        return found
    many = batch.column(batch.schema.get_field_index(weight))
    return replace(found, weights=_to_numpy(many).astype(np.int64))


def _numbers(column: pa.Array) -> NDArray[Any]:
    """Convert scores or labels; where nulls are among numbers they become NaN."""
    if not column.null_count or not _is_whole(column.type):
        return _to_numpy(column)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    ends = pc.min_max(column).as_py()
    if max(abs(v or 0) for v in ends.values()) > _WHOLE:
        return _to_numpy(column)
    found: NDArray[Any] = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return found


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _to_numpy(column: pa.Array) -> NDArray[Any]:
    """Convert without copying where possible; nulls become None or NaN."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if column.null_count and not pa.types.is_floating(column.type):
        return np.array(column.to_pylist(), dtype=object)
    kinds = (
        pa.types.is_floating,
        pa.types.is_signed_integer,
        pa.types.is_unsigned_integer,
    )
    letter = next(
        (k for k, fits in zip("fiu", kinds, strict=True) if fits(column.type)), ""
    )
    if letter and len(column) and not column.null_count:
        # to_numpy() would load pandas where it is installed, for nothing.
        dtype = f"{letter}{column.type.bit_width // 8}"
        whole: NDArray[Any] = np.frombuffer(column.buffers()[1], dtype)
        return whole[column.offset : column.offset + len(column)]
    found: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return found

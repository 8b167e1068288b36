"""CSV files: every cell is text, and is read by itself.

Arrow would guess a column's type from its cells, and one odd cell (``n.a.`` among
weights) would turn a whole column into text: one person's cell would decide about
everybody's rows, and the noise that hides one row would not hide that. So columns come
as bytes, and a rule for one cell says what it is:

- a score or a weight is a number, or missing;
- a label is a number, ``true`` or ``false``, or else text; groups and subjects are text;
- a cell that is no UTF-8 is missing, and so are Arrow's words for it (empty, NA, null...).

A file whose rows have different numbers of cells is refused as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from discreet.arrays import FloatVector
from discreet.data.arrow_columns import Names, taken
from discreet.data.batches import Columns, Source

_UNREADABLE: Final = (
    "this is not a readable CSV file: it needs UTF-8 text, a header, and as many "
    "cells in every row"
)
_NOT_UTF8: Final = "is not UTF-8 text; save the file as UTF-8"
_WORDS: Final = {"true": True, "false": False}
Cell: TypeAlias = "str | None"


def csv_file(path: Path, names: Names) -> Source:
    """Return the rows of a file; its header is looked at once, now."""
    try:
        with pa.csv.open_csv(path) as reader:
            header, kinds = list(reader.schema.names), list(reader.schema.types)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise names.problem(_UNREADABLE) from None
    names.check(header)
    for column, kind in zip(header, kinds, strict=True):
        if column in names.all() and pa.types.is_binary(kind):
            # Such a cell is missing. A file full of them is worth a word of its own.
            raise names.problem(f"column {column} {_NOT_UTF8}")
    options = pa.csv.ConvertOptions(
        include_columns=names.all(),
        column_types=dict.fromkeys(names.all(), pa.binary()),
        strings_can_be_null=True,
    )

    def rows() -> Iterator[Columns]:
        try:
            with pa.csv.open_csv(path, convert_options=options) as reader:
                for batch in reader:
                    yield taken(
                        batch, names, numbers=numbers, labels=labels, words=_objects
                    )
        except (pa.ArrowException, OSError):
            raise names.problem(_UNREADABLE) from None

    return rows


def numbers(column: pa.Array) -> FloatVector:
    """Read each cell as a number, NaN where it is none."""
    try:
        text = pc.utf8_trim_whitespace(column.cast(pa.string()))
        found: FloatVector = text.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        return _each(column, lambda cell: math.nan if cell is None else number(cell))
    return found


def labels(column: pa.Array) -> NDArray[Any]:
    """Read each cell as a number, a truth or text, None where it is missing.

    An array of floats where all are numbers or truths: what is counted is the same.
    """
    coded = column.dictionary_encode()
    values = [_label(cell) for cell in _texts(coded.dictionary)]
    places = coded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)
    told: NDArray[Any] = np.array([*values, None], dtype=object)
    if all(isinstance(value, float | bool) for value in values):
        told = np.array([*values, math.nan], dtype=np.float64)
    found: NDArray[Any] = told[places]
    return found


def _label(cell: Cell) -> float | bool | str | None:
    if cell is None:
        return None
    value = number(cell)
    if not math.isnan(value):
        return value
    return _WORDS.get(cell.strip().lower(), cell)


def number(cell: str) -> float:
    """Read a cell as a number; NaN where it is none.

    >>> number(" 0.25"), number("1e3"), number("n.a."), number("1_000")
    (0.25, 1000.0, nan, nan)
    """
    try:
        return math.nan if "_" in cell else float(cell)
    except ValueError:
        return math.nan


def _objects(column: pa.Array) -> NDArray[Any]:
    found = np.empty(len(column), dtype=object)
    found[:] = _texts(column)
    return found


def _each(column: pa.Array, rule: Callable[[Cell], float]) -> FloatVector:
    return np.array([rule(cell) for cell in _texts(column)], dtype=np.float64)


def _texts(column: pa.Array) -> list[Cell]:
    """Return the cells as text, None where there is none or it cannot be decoded."""
    try:
        found: list[Cell] = column.cast(pa.string()).to_pylist()
    except pa.ArrowException:
        found = [_decoded(cell) for cell in column.to_pylist()]
    return found


def _decoded(cell: bytes | None) -> Cell:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None

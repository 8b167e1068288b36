"""Reading examples from Parquet, CSV and anything that speaks Arrow.

Files are read in batches, as often as there are rounds; only the columns that
are asked for are decoded. Messages name columns and counts, never a value, and
not the header of a file that seems to have none. Arrow's own messages quote cells:
none of them is passed on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from discreet.data.examples import BATCH_ROWS, Columns, Examples
from discreet.data.labels import LabelCode
from discreet.data.scores import ScoreKind, ScoreRange
from discreet.errors import InputError

Readable: TypeAlias = Any
"""A path, an Arrow table or reader, or a frame with ``__arrow_c_stream__``."""

_UNREADABLE_CSV: Final = (
    "this is not a readable CSV file: it needs UTF-8 text, a header, and as many "
    "cells in every row"
)
_NOT_UTF8: Final = "is not UTF-8 text; save the file as UTF-8"
_DATA: Final = re.compile(r"[-+]?[.,]?\d")
"""How a cell begins that may be data, not a name: a number or a date."""


@dataclass(frozen=True, slots=True)
class _Names:
    """Which columns to read."""

    scores: tuple[str, ...]
    label: str
    group: str | None
    subject: str | None

    def all(self) -> list[str]:
        rest = (self.group, self.subject)
        return [*self.scores, self.label, *(name for name in rest if name is not None)]


def read(  # noqa: PLR0913 - one keyword a column or declaration
    source: Readable,
    *,
    label: str = "y_true",
    score: str | Sequence[str] = "y_score",
    group: str | None = None,
    subject: str | None = None,
    positive: object | None = None,
    classes: Sequence[object] | None = None,
    kind: ScoreKind = "probability",
    low: float | None = None,
    high: float | None = None,
    name: str | None = None,
) -> Examples:
    """Read one site's examples from a Parquet or CSV file, or an Arrow frame.

    Args:
        source: a path ending in .parquet, .pq, .csv or .csv.gz; an Arrow table; or a
            pandas or polars frame.
        label: the column of true labels.
        score: the column of scores; one a class (in the order of ``classes``) or
            one a model when it is a list.
        group: an optional column of groups.
        subject: an optional column that says whom a row belongs to.
        positive: the label that counts as positive, when labels are not 0/1.
        classes: the labels of a multi-class problem.
        kind: what the scores are: probability, logit or other.
        low: lower limit of scores of kind ``other``.
        high: upper limit of scores of kind ``other``.
        name: how messages call this site; the file's name by default.
    """
    scores = (score,) if isinstance(score, str) else tuple(score)
    names = _Names(scores, label, group, subject)
    if isinstance(source, str | Path):
        path = Path(source)
        title = path.name if name is None else name
        batches = _file_batches(path, names, title)
    else:
        title = name or ""
        batches = _table_batches(_as_table(source), names, title)
    return Examples.from_source(
        lambda: _plain_columns(batches, names, title),
        labels=LabelCode(positive, None if classes is None else tuple(classes)),
        scores=ScoreRange.declare(kind, low, high),
        columns=len(scores),
        name=title,
    )


_Batches: TypeAlias = Callable[[], Iterator[pa.RecordBatch]]


def _file_batches(path: Path, names: _Names, title: str) -> _Batches:
    if not path.is_file():
        raise InputError(f"{title}: no such file")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    match suffixes:
        case [*_, ".parquet" | ".pq"]:
            return _parquet_batches(path, names, title)
        case [*_, ".csv"] | [*_, ".csv", ".gz"]:
            return _csv_batches(path, names, title)
        case _:
            raise InputError(
                f"{title}: the file's name must end in .parquet, .pq, .csv or .csv.gz"
            )


def _parquet_batches(path: Path, names: _Names, title: str) -> _Batches:
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise InputError(f"{title}: this is not a readable Parquet file") from None
    _check_names(schema.names, names, title)

    def batches() -> Iterator[pa.RecordBatch]:
        # Opened again on every pass. Read page by page: even a file that is one
        # row group, however large, takes a few megabytes.
        try:
            with pq.ParquetFile(path, pre_buffer=False, buffer_size=2**20) as file:
                yield from file.iter_batches(BATCH_ROWS, columns=names.all())
        except (pa.ArrowException, OSError):
            raise InputError(f"{title}: the Parquet file is damaged") from None

    return batches


def _csv_batches(path: Path, names: _Names, title: str) -> _Batches:
    def opened(types: dict[str, pa.DataType]) -> pa.csv.CSVStreamingReader:
        options = pa.csv.ConvertOptions(
            include_columns=names.all(), column_types=types, strings_can_be_null=True
        )
        return pa.csv.open_csv(path, convert_options=options)

    try:
        with pa.csv.open_csv(path) as reader:
            header, kinds = list(reader.schema.names), list(reader.schema.types)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise InputError(f"{title}: {_UNREADABLE_CSV}") from None
    _check_names(header, names, title)
    for column, kind in zip(header, kinds, strict=True):
        if column in names.all() and pa.types.is_binary(kind):
            # Bytes would equal no label: everything would count as negative.
            raise InputError(f"{title}: column {column} {_NOT_UTF8}")
    numbers = dict.fromkeys(names.scores, pa.float64())

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            with opened(numbers) as reader:
                yield from reader
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            raise _csv_complaint(opened, names, title) from None

    return batches


def _csv_complaint(
    opened: Callable[[dict[str, pa.DataType]], pa.csv.CSVStreamingReader],
    names: _Names,
    title: str,
) -> InputError:
    """Read everything as text and count the scores that are not numbers."""
    bad = rows = 0
    try:
        with opened(dict.fromkeys(names.all(), pa.string())) as reader:
            for batch in reader:
                rows += batch.num_rows
                for name in names.scores:
                    bad += sum(not _is_number(v) for v in batch[name].to_pylist())
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return InputError(f"{title}: {_UNREADABLE_CSV}")
    if bad == 0:
        return InputError(
            f"{title}: labels, groups or subjects change their type along the file "
            "(numbers first, text later); write them all the same way"
        )
    return InputError(
        f"{title}: {bad} of {rows * len(names.scores)} scores are text, not numbers"
    )


def _is_number(text: str | None) -> bool:
    try:
        float(text or "nan")
    except ValueError:
        return False
    return True


def _as_table(source: Readable) -> pa.Table:
    if isinstance(source, pa.Table):
        return source
    if hasattr(source, "__arrow_c_stream__"):
        try:
            return pa.table(source)
        except (pa.ArrowException, TypeError, ValueError):
            raise InputError(
                "the frame is no Arrow table: some column mixes kinds of values, such "
                "as text and numbers; give every column one kind"
            ) from None
    raise InputError(
        "read takes a path, an Arrow table, or a pandas or polars frame; for arrays "
        "use Examples(scores, labels)"
    )


def _table_batches(table: pa.Table, names: _Names, title: str) -> _Batches:
    _check_names(table.column_names, names, title)
    chosen = table.select(names.all())
    return lambda: iter(chosen.to_batches(max_chunksize=BATCH_ROWS))


def _check_names(found: Sequence[str], names: _Names, title: str) -> None:
    missing = [name for name in names.all() if name not in found]
    at = f"{title}: " if title else ""
    if not missing:
        if len(set(found)) != len(found):
            raise InputError(f"{at}two columns have the same name")
        return
    cells = [cell.strip() for name in found for cell in re.split(r"[;\t|]", name)]
    if "" in cells[1:] or any(_DATA.match(cell) for cell in cells):
        # The header may be a row of data: do not repeat it.
        raise InputError(
            f"{at}the first row looks like data: the file needs a header with "
            f"{', '.join(names.all())}"
        )
    raise InputError(
        f"{at}no column {', '.join(missing)} among {', '.join(found)}; name the "
        "columns with score= and label="
    )


def _plain_columns(batches: _Batches, names: _Names, title: str) -> Iterator[Columns]:
    for batch in batches():
        try:
            yield _columns(batch, names)
        except (pa.ArrowException, UnicodeDecodeError):
            at = f"{title}: " if title else ""
            raise InputError(
                f"{at}a column holds nested or undecodable values; give plain numbers "
                "and text"
            ) from None


def _columns(batch: pa.RecordBatch, names: _Names) -> Columns:
    def plain(name: str) -> NDArray[Any]:
        return _to_numpy(batch.column(batch.schema.get_field_index(name)))

    return Columns(
        tuple(plain(name) for name in names.scores),
        plain(names.label),
        None if names.group is None else plain(names.group),
        None if names.subject is None else plain(names.subject),
    )


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

"""Reading examples from files, folders, Arrow and whatever exports it.

Files are read in batches, as often as there are rounds; only the columns that are asked
for are decoded. Parquet is read on every core: a thread takes one row group of one file,
reads it page by page and counts it, so memory grows with the number of cores alone.

Folders may be partitioned in Hive's way (``year=2025/ward=a/part-0.parquet``): the
folders' names are columns too. Names that begin with ``_`` or ``.`` are what a writer
left behind, and are not read. The files of a lake's table hold deleted rows too: a folder
of Delta is read by its own library; other lakes, and parts of a table, are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from discreet.data.arrow_columns import Names, plain_columns
from discreet.data.batches import (
    BATCH_ROWS,
    PART_ROWS,
    PlainRows,
    RawBatch,
    RowReader,
    RowSource,
)
from discreet.data.cells import numbers, texts
from discreet.data.csv_file import CsvFile
from discreet.data.examples import Examples
from discreet.data.labels import LabelCode
from discreet.data.scores import ScoreKind, ScoreRange
from discreet.data.tables import TableSource, connected, is_address, spark_table
from discreet.errors import InputError
from discreet.optional import load

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_ROWS: Final = 4 * BATCH_ROWS
"""Rows decoded at a time: Arrow's own work a batch costs more than the cache saves."""
_PAGE: Final = 2**16
"""Bytes read at a time: little memory even for a file that is one row group, and what
was read is still in the processor's cache when it is decoded."""
_BROKEN: Final = (pa.ArrowException, OSError, UnicodeDecodeError)
"""What Arrow raises at a file that is damaged, or none of its own."""
_DELTA: Final = "_delta_log"
_LAKES: Final = {
    "Delta": _DELTA,
    "Iceberg": "metadata/*.metadata.json",
    "Hudi": ".hoodie",
}
"""How a folder shows that its files alone are not the table."""


def read(  # noqa: PLR0913 - one keyword a column or declaration
    source: Any,
    *,
    label: str = "y_true",
    score: str | Sequence[str] = "y_score",
    group: str | None = None,
    subject: str | None = None,
    weight: str | None = None,
    positive: object | None = None,
    classes: Sequence[object] | None = None,
    kind: ScoreKind = "probability",
    low: float | None = None,
    high: float | None = None,
    name: str | None = None,
    table: str | None = None,
    where: str | None = None,
    query: str | None = None,
) -> Examples:
    """Read one site's examples from files, Arrow, frames or a database.

    A table of a database is counted where it is: only counts are fetched, wherever
    the engine was seen to give the counts that the rows would give.

    Args:
        source: a path ending in .parquet, .pq, .csv or .csv.gz; a folder of Parquet
            files; an Arrow table or dataset; a pandas or polars frame, lazy or not;
            an Ibis table or query; a Spark DataFrame; a DuckDB or SQLite file; or a
            database's address, such as ``postgres://host/database``.
        label: the column of true labels.
        score: the column of scores; one a class (in the order of ``classes``) or
            one a model when it is a list.
        group: an optional column of groups.
        subject: an optional column that says whom a row belongs to.
        weight: an optional column of how much a row counts, whole numbers.
        positive: the label that counts as positive, when labels are not 0/1.
        classes: the labels of a multi-class problem.
        kind: what the scores are: probability, logit or other.
        low: lower limit of scores of kind ``other``.
        high: upper limit of scores of kind ``other``.
        name: how messages call this site; the file's or table's name by default.
        table: the table of a database.
        where: which of its rows, in the engine's SQL.
        query: a SELECT in the engine's SQL, instead of a table.
    """
    if group is not None and not isinstance(group, str):
        raise InputError("group= names one column: join several columns into one first")
    scores = (score,) if isinstance(score, str) else tuple(score)
    names = Names(scores, label, group, subject, name or "", weight)
    if is_address(source):
        names = replace(names, title=table or "query" if name is None else name)
        rows: RowSource = TableSource(
            connected(source, table=table, where=where, query=query), names
        )
    elif not (table is where is query is None):
        raise InputError("table=, where= and query= are for a database's address")
    else:
        if isinstance(source, str | Path) and name is None:
            names = replace(names, title=Path(source).name)
        rows = _source(source, names)
    examples = Examples.from_source(
        rows,
        labels=LabelCode(positive, None if classes is None else tuple(classes)),
        scores=ScoreRange.declare(kind, low, high),
        columns=len(scores),
        name=names.title,
    )
    examples.grouped = group is not None
    examples.weighted = weight is not None
    return examples


def _source(source: Any, names: Names) -> RowSource:
    package = _package(source)
    if package == "ibis":
        return TableSource(source, names)
    if package == "pyspark":
        return TableSource(spark_table(source), names)
    if isinstance(source, str | Path):
        return _file(Path(source), names)
    if hasattr(source, "get_fragments"):
        return DatasetSource(source, names)
    if package == "polars" and hasattr(source, "collect_batches"):
        return _lazy(source, names)
    table = as_table(source, names)
    names.check(table.column_names)
    return ArrowTable(table.select(names.all()), names)


def _package(source: object) -> str:
    """Return which package a source comes from, without importing any."""
    return type(source).__module__.partition(".")[0]


def _file(path: Path, names: Names) -> RowSource:
    if path.is_dir():
        return parquet_folder(path, names)
    if not path.is_file():
        raise names.problem("no such file")
    match [suffix.lower() for suffix in path.suffixes]:
        case [*_, ".parquet" | ".pq"]:
            return ParquetFile(path, names)
        case [*_, ".csv"] | [*_, ".csv", ".gz"]:
            file = CsvFile(path, names)
            names.check(file.header())
            return file
        case _:
            raise names.problem(
                "the file's name must end in .parquet, .pq, .csv or .csv.gz"
            )


def as_table(source: Any, names: Names) -> pa.Table:
    """Return an Arrow table of the named columns of a frame."""
    if isinstance(source, pa.Table):
        return source
    if _package(source) in ("pandas", "polars"):
        return _frame(source, names)
    if hasattr(source, "__arrow_c_stream__"):
        try:
            return pa.table(source)
        except (pa.ArrowException, TypeError, ValueError):
            raise InputError(
                "the frame is no Arrow table: give pandas, polars or Arrow"
            ) from None
    raise InputError(
        "read takes a path, an Arrow table, a pandas or polars frame, or a database's "
        "table; for arrays use Examples(scores, labels)"
    )


def _frame(frame: Any, names: Names) -> pa.Table:
    """Take the named columns of a frame, each by itself.

    A column of objects may hold text and numbers side by side, which Arrow would refuse
    or turn into one type: its cells are taken one by one.
    """
    names.check([str(name) for name in frame.columns])

    def column(name: str) -> pa.Array:
        given = frame[name]
        if str(given.dtype) not in ("object", "Object", "Int128"):
            return pa.table(frame[[name]]).column(name)
        cells = np.empty(len(given), dtype=object)
        cells[:] = given.to_list()
        if name in names.scores or name == names.weight:
            return pa.array(numbers(cells), pa.float64())
        return pa.array(texts(cells).tolist(), pa.string())

    return pa.table({name: column(name) for name in names.all()})


def _lazy(frame: Any, names: Names) -> RowSource:
    """Run a polars lazy frame on every pass, a few rows at a time."""
    names.check(frame.collect_schema().names())

    def rows() -> Iterator[RawBatch]:
        chunks = frame.select(names.all()).collect_batches(chunk_size=BATCH_ROWS)
        for chunk in chunks:
            yield from plain_columns(chunk.to_arrow().to_batches(), names)

    return PlainRows(rows)


@dataclass(frozen=True, eq=False)
class ArrowTable(RowSource):
    """An Arrow table in memory; buffers are not copied."""

    table: pa.Table
    names: Names

    def parts(self) -> Sequence[RowReader]:
        """Return parts of a million rows."""
        starts = range(0, max(len(self.table), 1), PART_ROWS)
        return [partial(self._rows, self.table.slice(s, PART_ROWS)) for s in starts]

    def _rows(self, part: pa.Table) -> Iterator[RawBatch]:
        return plain_columns(part.to_batches(max_chunksize=BATCH_ROWS), self.names)


@dataclass(frozen=True, eq=False)
class ParquetFile(RowSource):
    """The rows of one Parquet file."""

    path: Path
    names: Names

    def __post_init__(self) -> None:
        try:
            columns = pq.read_schema(self.path).names
        except _BROKEN:
            raise self.names.problem("this is not a readable Parquet file") from None
        self.names.check(columns)

    def parts(self) -> Sequence[RowReader]:
        """Return one part a row group; the file is opened again on every pass."""
        try:
            metadata = pq.read_metadata(self.path)
        except _BROKEN:
            raise _damaged(self.names) from None
        groups = range(metadata.num_row_groups)
        return [partial(self._rows, metadata, group) for group in groups]

    def _rows(self, metadata: pq.FileMetaData, group: int) -> Iterator[RawBatch]:
        batches = _row_group(self.path, metadata, group, self.names, {})
        return plain_columns(batches, self.names)


def _row_group(
    file: Any,
    metadata: pq.FileMetaData,
    group: int,
    names: Names,
    keys: Mapping[str, pa.Scalar],
) -> Iterator[pa.RecordBatch]:
    """Read one row group of a file in batches.

    ``file`` is a path or an open file of Arrow's; ``keys`` are columns that have one
    value in the whole file.
    """
    wanted = names.all()
    try:
        with pq.ParquetFile(
            file, metadata=metadata, pre_buffer=False, buffer_size=_PAGE
        ) as parquet:
            names.check([*parquet.schema_arrow.names, *keys])
            inside = [name for name in wanted if name not in keys]
            for batch in parquet.iter_batches(
                _ROWS, row_groups=[group], columns=inside, use_threads=False
            ):
                yield _with_keys(batch, wanted, keys) if keys else batch
    except _BROKEN:
        raise _damaged(names) from None


def _damaged(names: Names) -> InputError:
    """Return the error for a file that was readable at first."""
    return names.problem("a Parquet file is damaged")


def _with_keys(
    batch: pa.RecordBatch, wanted: Sequence[str], keys: Mapping[str, pa.Scalar]
) -> pa.RecordBatch:
    """Add what the folders' names say of all rows of a file."""
    columns = [
        pa.repeat(keys[name], batch.num_rows)
        if name in keys
        else batch.column(batch.schema.get_field_index(name))
        for name in wanted
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(wanted))


def parquet_folder(path: Path, names: Names) -> DatasetSource:
    """Return all Parquet files of a folder, and of the folders in it, as a source.

    Or the rows of a Delta table as it is now.
    """
    if (path / _DELTA).is_dir():
        return DatasetSource(_delta_table(path, names), names)
    _refuse_lakes(path, names)
    files = sorted(
        str(p)
        for p in path.rglob("*")
        if p.suffix.lower() in (".parquet", ".pq")
        and not any(part[0] in "._" for part in p.relative_to(path).parts)
        and p.is_file()
    )
    if not files:
        raise names.problem("no file of this folder ends in .parquet or .pq")
    import pyarrow.dataset as ds  # noqa: PLC0415 - loads pandas where it is installed

    try:
        dataset = ds.dataset(
            files,
            format="parquet",
            partitioning=_folders(path, files),
            partition_base_dir=str(path),
        )
    except _BROKEN:
        raise names.problem(
            "not every file of this folder is readable Parquet"
        ) from None
    return DatasetSource(dataset, names, folder=True)


def _folders(path: Path, files: Sequence[str]) -> ds.Partitioning:
    """Return the columns that the folders' names give: texts, whatever they look like.

    Arrow would take them for whole numbers where all look like it, so that one folder
    would decide how the others are read.
    """
    import pyarrow.dataset as ds  # noqa: PLC0415 - as above

    parts = {part for f in files for part in Path(f).relative_to(path).parts[:-1]}
    names = sorted({part.partition("=")[0] for part in parts if "=" in part})
    fields = [(name, pa.string()) for name in names]
    return ds.partitioning(pa.schema(fields), flavor="hive")


def _refuse_lakes(path: Path, names: Names) -> None:
    """Refuse a folder that is, holds, or is a part of a lake's table."""
    for kind, mark in _LAKES.items():
        if next(path.rglob(mark), None) is not None:
            raise names.problem(
                f"this folder is or holds a table of {kind}, whose files hold deleted "
                "rows too: open it with its own library and give read() the Arrow table"
            )
        for outer in path.resolve().parents:
            if next(outer.glob(mark), None) is not None:
                raise names.problem(
                    f"this folder is a part of a table of {kind}, whose files hold "
                    "deleted rows too: give the table, and choose rows before"
                )


def _delta_table(path: Path, names: Names) -> ds.Dataset:
    load("deltalake", "lake")
    from deltalake import DeltaTable  # noqa: PLC0415 - an extra
    from deltalake.exceptions import DeltaError  # noqa: PLC0415

    try:
        return DeltaTable(path).to_pyarrow_dataset()
    except (DeltaError, *_BROKEN):
        raise names.problem(
            "this Delta table cannot be read: it is damaged, or uses deletion vectors "
            "or column mapping, which need its own engine"
        ) from None


@dataclass(frozen=True, eq=False)
class DatasetSource(RowSource):
    """The rows of an Arrow dataset, in parts that can be read at once."""

    dataset: Any
    names: Names
    folder: bool = False
    """Whether the names of folders are columns, and every file has all the others. Else
    a dataset's own rules hold: a column that a file lacks is null there."""

    def __post_init__(self) -> None:
        self.names.check(self.dataset.schema.names)

    def parts(self) -> Sequence[RowReader]:
        """Return a part for each row group, or fragment of another kind."""
        parts: list[RowReader] = []
        try:
            for fragment in self.dataset.get_fragments():
                if hasattr(fragment, "row_groups"):
                    groups = [group.id for group in fragment.row_groups]
                    parts += [partial(self._row_group, fragment, g) for g in groups]
                else:
                    parts.append(partial(self._rows, fragment))
        except _BROKEN:
            raise _damaged(self.names) from None
        return parts

    def _row_group(
        self, fragment: ds.ParquetFileFragment, group: int
    ) -> Iterator[RawBatch]:
        try:
            keys = self._keys(fragment)
            file = fragment.open()
        except _BROKEN:
            raise _damaged(self.names) from None
        batches = _row_group(file, fragment.metadata, group, self.names, keys)
        return plain_columns(batches, self.names)

    def _keys(self, fragment: ds.ParquetFileFragment) -> dict[str, pa.Scalar]:
        """Return the columns that have one value in the whole file."""
        import pyarrow.dataset as ds  # noqa: PLC0415 - as above

        given = ds.get_partition_keys(fragment.partition_expression)
        keys = {name: pa.scalar(value) for name, value in given.items()}
        if self.folder:
            return keys
        # What a lake guarantees of a file (a column is null in all of it) is no column.
        inside = set(fragment.physical_schema.names)
        keys = {name: value for name, value in keys.items() if name not in inside}
        for name in self.names.all():
            if name not in inside and name not in keys:
                keys[name] = pa.scalar(None, self.dataset.schema.field(name).type)
        return keys

    def _rows(self, fragment: ds.Fragment) -> Iterator[RawBatch]:
        try:
            batches = fragment.to_batches(
                schema=self.dataset.schema,
                columns=self.names.all(),
                batch_size=BATCH_ROWS,
                use_threads=False,
            )
            yield from plain_columns(batches, self.names)
        except _BROKEN:
            raise _damaged(self.names) from None

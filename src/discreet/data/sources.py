"""Reading examples from files, folders, Arrow and whatever speaks it.

Files are read in batches, as often as there are rounds; only the columns that
are asked for are decoded. Parquet is read on every core.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from discreet.data.arrow_columns import Names, plain_columns
from discreet.data.batches import BATCH_ROWS, PART_ROWS, Columns, Source
from discreet.data.cells import numbers, texts
from discreet.data.csv_file import csv_file
from discreet.data.examples import Examples
from discreet.data.labels import LabelCode
from discreet.data.parquet import ParquetFile
from discreet.data.scores import ScoreKind, ScoreRange
from discreet.data.tables import TableSource, connected, is_address, spark_table
from discreet.errors import InputError

Readable: TypeAlias = Any
"""A path, an Arrow table, dataset or reader, or a frame with ``__arrow_c_stream__``."""


def read(  # noqa: PLR0913 - one keyword a column or declaration
    source: Readable,
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
    opened: Source
    if is_address(source):
        names = replace(names, title=table or "query" if name is None else name)
        found = connected(source, table=table, where=where, query=query)
        opened = TableSource(found, names)
    elif not (table is where is query is None):
        raise InputError("table=, where= and query= are for a database's address")
    elif _module(source) == "ibis":
        opened = TableSource(source, names)
    elif _module(source) == "pyspark":
        opened = TableSource(spark_table(source), names)
    elif isinstance(source, str | Path):
        path = Path(source)
        names = replace(names, title=path.name if name is None else name)
        opened = _file(path, names)
    elif hasattr(source, "get_fragments"):
        opened = _dataset(source, names)
    elif _module(source) == "polars" and hasattr(source, "collect_batches"):
        opened = _lazy(source, names)
    else:
        opened = _table(_as_table(source, names), names)
    examples = Examples.from_source(
        opened,
        labels=LabelCode(positive, None if classes is None else tuple(classes)),
        scores=ScoreRange.declare(kind, low, high),
        columns=len(scores),
        name=names.title,
    )
    examples.grouped = group is not None
    examples.weighted = weight is not None
    return examples


def _module(source: object) -> str:
    """Return which package a source comes from, without importing any."""
    return type(source).__module__.partition(".")[0]


def _file(path: Path, names: Names) -> Source:
    if path.is_dir():
        # Datasets load pandas where it is installed: half a second at every start.
        from discreet.data.datasets import parquet_folder  # noqa: PLC0415

        return parquet_folder(path, names)
    if not path.is_file():
        raise names.problem("no such file")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    match suffixes:
        case [*_, ".parquet" | ".pq"]:
            return ParquetFile(path, names)
        case [*_, ".csv"] | [*_, ".csv", ".gz"]:
            return csv_file(path, names)
        case _:
            raise names.problem(
                "the file's name must end in .parquet, .pq, .csv or .csv.gz"
            )


def _dataset(source: Readable, names: Names) -> Source:
    from discreet.data.datasets import DatasetSource  # noqa: PLC0415 - as above

    return DatasetSource(source, names)


def _as_table(source: Readable, names: Names) -> pa.Table:
    if isinstance(source, pa.Table):
        return source
    if _module(source) in ("pandas", "polars"):
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
    found = {}
    for name in names.all():
        column = frame[name]
        if str(column.dtype) not in ("object", "Object", "Int128"):
            found[name] = pa.table(frame[[name]]).column(name)
            continue
        cells = np.empty(len(column), dtype=object)
        cells[:] = column.to_list()
        if name in names.scores or name == names.weight:
            found[name] = pa.array(numbers(cells), pa.float64())
        else:
            found[name] = pa.array(texts(cells).tolist(), pa.string())
    return pa.table(found)


def _lazy(frame: Any, names: Names) -> Source:
    """Run a polars lazy frame on every pass, a few rows at a time."""
    names.check(frame.collect_schema().names())

    def columns() -> Iterator[Columns]:
        chunks = frame.select(names.all()).collect_batches(chunk_size=BATCH_ROWS)
        for chunk in chunks:
            yield from plain_columns(chunk.to_arrow().to_batches(), names)

    return columns


@dataclass(frozen=True, eq=False)
class ArrowTable:
    """An Arrow table in memory, in parts that can be read at once."""

    table: pa.Table
    names: Names

    def __call__(self) -> Iterator[Columns]:
        """Read all rows; buffers are not copied."""
        return self._columns(self.table)

    def parts(self) -> Sequence[Source]:
        """Return parts of a million rows."""
        starts = range(0, max(len(self.table), 1), PART_ROWS)
        return [partial(self._columns, self.table.slice(s, PART_ROWS)) for s in starts]

    def _columns(self, part: pa.Table) -> Iterator[Columns]:
        batches = part.to_batches(max_chunksize=BATCH_ROWS)
        return plain_columns(batches, self.names)


def _table(table: pa.Table, names: Names) -> ArrowTable:
    names.check(table.column_names)
    return ArrowTable(table.select(names.all()), names)

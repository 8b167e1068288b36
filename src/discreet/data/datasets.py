"""Parquet files, folders of them, and Arrow datasets: read on every core.

A part is one row group of one file, or one fragment of a dataset that is no Parquet.
A thread takes a part, reads it page by page and counts it, so memory grows with the
number of cores and not with the data. Folders may be partitioned in Hive's way
(``year=2025/ward=a/part-0.parquet``): the folders' names are columns too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from discreet.data.arrow_columns import Names, plain_columns
from discreet.data.batches import BATCH_ROWS, Columns, Source
from discreet.errors import InputError

_PAGE: Final = 2**20
"""Bytes read at a time: even a file that is one row group takes a few megabytes."""
_BROKEN: Final = (pa.ArrowException, OSError, UnicodeDecodeError)


def parquet_file(path: Path, names: Names) -> DatasetSource:
    """Return one Parquet file as a source."""
    try:
        found = ds.dataset(path, format="parquet")
    except _BROKEN:
        raise names.problem("this is not a readable Parquet file") from None
    return DatasetSource(found, names)


def parquet_folder(path: Path, names: Names) -> DatasetSource:
    """Return all Parquet files of a folder, and of the folders in it, as a source."""
    files = sorted(
        str(p)
        for p in path.rglob("*")
        if p.suffix.lower() in (".parquet", ".pq") and p.is_file()
    )
    if not files:
        raise names.problem("no file of this folder ends in .parquet or .pq")
    try:
        found = ds.dataset(
            files, format="parquet", partitioning="hive", partition_base_dir=str(path)
        )
    except _BROKEN:
        raise names.problem(
            "not every file of this folder is readable Parquet"
        ) from None
    return DatasetSource(found, names)


@dataclass(frozen=True, eq=False)
class DatasetSource:
    """The rows of an Arrow dataset, in parts that can be read at once."""

    dataset: Any
    names: Names

    def __post_init__(self) -> None:
        self.names.check(self.dataset.schema.names)

    def __call__(self) -> Iterator[Columns]:
        """Read all parts, one after the other."""
        for part in self.parts():
            yield from part()

    def parts(self) -> Sequence[Source]:
        """Return one part a row group; files are looked at again on every pass."""
        found: list[Source] = []
        try:
            for fragment in self.dataset.get_fragments():
                if isinstance(fragment, ds.ParquetFileFragment):
                    found.extend(
                        partial(self._columns, fragment, group.id)
                        for group in fragment.row_groups
                    )
                else:
                    found.append(partial(self._columns, fragment, None))
        except _BROKEN:
            raise self._damaged() from None
        return found

    def _columns(self, fragment: ds.Fragment, group: int | None) -> Iterator[Columns]:
        return plain_columns(self._batches(fragment, group), self.names)

    def _batches(
        self, fragment: ds.Fragment, group: int | None
    ) -> Iterator[pa.RecordBatch]:
        try:
            if group is None:
                yield from fragment.to_batches(
                    schema=self.dataset.schema,
                    columns=self.names.all(),
                    batch_size=BATCH_ROWS,
                    use_threads=False,
                )
            else:
                yield from self._row_group(fragment, group)
        except _BROKEN:
            raise self._damaged() from None

    def _row_group(
        self, fragment: ds.ParquetFileFragment, group: int
    ) -> Iterator[pa.RecordBatch]:
        keys = ds.get_partition_keys(fragment.partition_expression)
        wanted = self.names.all()
        with pq.ParquetFile(
            fragment.open(),
            metadata=fragment.metadata,
            pre_buffer=False,
            buffer_size=_PAGE,
        ) as file:
            inside = [name for name in wanted if name not in keys]
            self.names.check([*file.schema_arrow.names, *keys])
            for batch in file.iter_batches(
                BATCH_ROWS, row_groups=[group], columns=inside, use_threads=False
            ):
                yield _with_keys(batch, wanted, keys)

    def _damaged(self) -> InputError:
        return self.names.problem("a Parquet file is damaged")


def _with_keys(
    batch: pa.RecordBatch, wanted: Sequence[str], keys: dict[str, object]
) -> pa.RecordBatch:
    """Add what the folders' names say of all rows of a file."""
    if not keys:
        return batch
    columns = [
        pa.repeat(pa.scalar(keys[name]), batch.num_rows)
        if name in keys
        else batch.column(batch.schema.get_field_index(name))
        for name in wanted
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(wanted))

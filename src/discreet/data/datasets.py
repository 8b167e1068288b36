"""Folders of Parquet files, and Arrow datasets: read on every core.

A part is one row group of one file, or one fragment of a dataset that is no Parquet.
Folders may be partitioned in Hive's way (``year=2025/ward=a/part-0.parquet``): the
folders' names are columns too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from discreet.data.arrow_columns import Names, plain_columns
from discreet.data.batches import BATCH_ROWS, Columns, Source
from discreet.data.parquet import BROKEN, damaged, row_group


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
    except BROKEN:
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
                        partial(self._row_group, fragment, group.id)
                        for group in fragment.row_groups
                    )
                else:
                    found.append(partial(self._fragment, fragment))
        except BROKEN:
            raise damaged(self.names) from None
        return found

    def _row_group(
        self, fragment: ds.ParquetFileFragment, group: int
    ) -> Iterator[Columns]:
        keys = ds.get_partition_keys(fragment.partition_expression)
        try:
            file = fragment.open()
        except BROKEN:
            raise damaged(self.names) from None
        batches = row_group(file, fragment.metadata, group, self.names, keys)
        return plain_columns(batches, self.names)

    def _fragment(self, fragment: ds.Fragment) -> Iterator[Columns]:
        return plain_columns(self._batches(fragment), self.names)

    def _batches(self, fragment: ds.Fragment) -> Iterator[pa.RecordBatch]:
        try:
            yield from fragment.to_batches(
                schema=self.dataset.schema,
                columns=self.names.all(),
                batch_size=BATCH_ROWS,
                use_threads=False,
            )
        except BROKEN:
            raise damaged(self.names) from None

"""One Parquet file, read on every core: a part is one of its row groups.

A thread takes a part, reads it page by page and counts it, so memory grows with the
number of cores and not with the data. Arrow's datasets, which folders need, load pandas
where it is installed; a single file, which is what most sites have, does without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from discreet.data.arrow_columns import Names, plain_columns
from discreet.data.batches import BATCH_ROWS, Columns, Source
from discreet.errors import InputError

_ROWS: Final = 4 * BATCH_ROWS
"""Rows decoded at a time: Arrow's own work a batch costs more than the cache saves."""
_PAGE: Final = 2**16
"""Bytes read at a time: little memory even for a file that is one row group, and what
was read is still in the processor's cache when it is decoded."""
BROKEN: Final = (pa.ArrowException, OSError, UnicodeDecodeError)
"""What Arrow raises at a file that is damaged, or none of its own."""


@dataclass(frozen=True, eq=False)
class ParquetFile:
    """The rows of a file, in parts that can be read at once."""

    path: Path
    names: Names

    def __post_init__(self) -> None:
        try:
            columns = pq.read_schema(self.path).names
        except BROKEN:
            raise self.names.problem("this is not a readable Parquet file") from None
        self.names.check(columns)

    def __call__(self) -> Iterator[Columns]:
        """Read all parts, one after the other."""
        for part in self.parts():
            yield from part()

    def parts(self) -> Sequence[Source]:
        """Return one part a row group; the file is looked at again on every pass."""
        try:
            metadata = pq.read_metadata(self.path)
        except BROKEN:
            raise damaged(self.names) from None
        groups = range(metadata.num_row_groups)
        return [partial(self._columns, metadata, group) for group in groups]

    def _columns(self, metadata: pq.FileMetaData, group: int) -> Iterator[Columns]:
        batches = row_group(self.path, metadata, group, self.names)
        return plain_columns(batches, self.names)


def row_group(
    file: Any,
    metadata: pq.FileMetaData | None,
    group: int,
    names: Names,
    keys: Mapping[str, pa.Scalar] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read one row group of a file in batches.

    Args:
        file: a path, or an open file of Arrow's.
        metadata: the file's, if it was read before.
        group: which of its row groups.
        names: the columns to read.
        keys: columns that have one value in the whole file.
    """
    known, wanted = keys or {}, names.all()
    try:
        with pq.ParquetFile(
            file, metadata=metadata, pre_buffer=False, buffer_size=_PAGE
        ) as opened:
            inside = [name for name in wanted if name not in known]
            names.check([*opened.schema_arrow.names, *known])
            for batch in opened.iter_batches(
                _ROWS, row_groups=[group], columns=inside, use_threads=False
            ):
                yield _with_keys(batch, wanted, known)
    except BROKEN:
        raise damaged(names) from None


def damaged(names: Names) -> InputError:
    """Return the complaint about a file that was readable at first."""
    return names.problem("a Parquet file is damaged")


def _with_keys(
    batch: pa.RecordBatch, wanted: Sequence[str], keys: Mapping[str, pa.Scalar]
) -> pa.RecordBatch:
    """Add what the folders' names say of all rows of a file."""
    if not keys:
        return batch
    columns = [
        pa.repeat(keys[name], batch.num_rows)
        if name in keys
        else batch.column(batch.schema.get_field_index(name))
        for name in wanted
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(wanted))

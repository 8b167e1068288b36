"""Folders of Parquet files, and Arrow datasets: read on every core.

A part is one row group of one file, or one fragment of a dataset that is no Parquet.
Folders may be partitioned in Hive's way (``year=2025/ward=a/part-0.parquet``): the
folders' names are columns too. Names that begin with ``_`` or ``.`` are what a writer left
behind, and are not read. A lake's table is more than its files: what was deleted is still
on disk, so a folder of Delta is read by its own library, and others, and parts of a table,
are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from discreet.data.arrow_columns import Names, plain_columns
from discreet.data.batches import BATCH_ROWS, Columns, Source
from discreet.data.parquet import BROKEN, damaged, row_group
from discreet.optional import load

_DELTA: Final = "_delta_log"
_LAKES: Final = {
    "Delta": _DELTA,
    "Iceberg": "metadata/*.metadata.json",
    "Hudi": ".hoodie",
}
"""How a folder shows that its files alone are not the table."""


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
    try:
        found = ds.dataset(
            files,
            format="parquet",
            partitioning=_folders(path, files),
            partition_base_dir=str(path),
        )
    except BROKEN:
        raise names.problem(
            "not every file of this folder is readable Parquet"
        ) from None
    return DatasetSource(found, names, folder=True)


def _folders(path: Path, files: Sequence[str]) -> ds.Partitioning:
    """Return the columns that the folders' names give: texts, whatever they look like.

    Arrow would take them for whole numbers where all look like it, so that one folder
    would decide how the others are read.
    """
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
    except (DeltaError, *BROKEN):
        raise names.problem(
            "this Delta table cannot be read: it is damaged, or uses deletion vectors "
            "or column mapping, which need its own engine"
        ) from None


@dataclass(frozen=True, eq=False)
class DatasetSource:
    """The rows of an Arrow dataset, in parts that can be read at once."""

    dataset: Any
    names: Names
    folder: bool = False
    """Whether the names of folders are columns, and every file has all the others. Else
    a dataset's own rules hold: a column that a file lacks is null there."""

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
        try:
            keys = self._keys(fragment)
            file = fragment.open()
        except BROKEN:
            raise damaged(self.names) from None
        batches = row_group(file, fragment.metadata, group, self.names, keys)
        return plain_columns(batches, self.names)

    def _keys(self, fragment: ds.ParquetFileFragment) -> dict[str, pa.Scalar]:
        """Return the columns that have one value in the whole file."""
        told = ds.get_partition_keys(fragment.partition_expression)
        keys = {name: pa.scalar(value) for name, value in told.items()}
        if self.folder:
            return keys
        # What a lake guarantees of a file (a column is null in all of it) is no column.
        inside = set(fragment.physical_schema.names)
        keys = {name: value for name, value in keys.items() if name not in inside}
        for name in self.names.all():
            if name not in inside and name not in keys:
                keys[name] = pa.scalar(None, self.dataset.schema.field(name).type)
        return keys

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

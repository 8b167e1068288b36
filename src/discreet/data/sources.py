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
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from discreet.data.arrow_columns import Names, declared_numbers, plain_columns
from discreet.data.batches import (
    BATCH_ROWS,
    PART_ROWS,
    PlainRows,
    RawBatch,
    RowReader,
    RowSource,
)
from discreet.data.cells import texts
from discreet.data.csv_file import CsvFile
from discreet.data.examples import Examples, label_code
from discreet.data.file_format import FORBIDDEN, PLAIN, FileFormat, OddCells
from discreet.data.scores import ScoreKind, ScoreRange
from discreet.data.scoring import ModelFile, ScoredRows
from discreet.data.tables import connected, engine_source, is_address
from discreet.data.workbook import Workbook
from discreet.errors import InputError
from discreet.optional import load
from discreet.vocabulary import understood

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_ROWS: Final = 4 * BATCH_ROWS
"""Rows decoded at a time: Arrow's own work a batch costs more than the cache saves."""
_PAGE: Final = 2**16
"""Bytes read at a time: little memory even for a file that is one row group, and what
was read is still in the processor's cache when it is decoded."""
_BROKEN: Final = (pa.ArrowException, OSError, UnicodeDecodeError)
"""What Arrow raises at a file that is damaged, or none of its own."""
_NUMBERS: Final = frozenset({"decimal", "thousands", "percent"})
"""What can be declared of numbers wherever a column may be text."""
_ELSEWHERE: Final = {
    ".xls": "this is a workbook of Excel 97",
    ".xlsb": "this is a binary workbook",
    ".ods": "this is a workbook of LibreOffice",
    ".sas7bdat": "this is a file of SAS",
    ".sav": "this is a file of SPSS",
    ".dta": "this is a file of Stata",
    ".rds": "this is a file of R",
    ".rdata": "this is a file of R",
    ".json": "this is a file of JSON",
    ".zip": "this is an archive; unpack it, or",
}
"""Files of rows that people have and that are not read."""
_DELTA: Final = "_delta_log"
_LAKES: Final = {
    "Delta": _DELTA,
    "Iceberg": "metadata/*.metadata.json",
    "Hudi": ".hoodie",
}
"""How a folder shows that its files alone are not the table."""


@understood
def read(  # noqa: PLR0913 - one keyword a column or declaration
    source: Any,
    *,
    label: str | Sequence[str] | None = None,
    score: str | Sequence[str] = "y_score",
    time: str | None = None,
    event: str | None = None,
    causes: int = 1,
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
    model: ModelFile | None = None,
    delimiter: str | None = None,
    decimal: str = ".",
    thousands: str | None = None,
    encoding: str | None = None,
    percent: bool = False,
    sheet: str | None = None,
) -> Examples:
    """Read one site's examples from files, Arrow, frames or a database.

    A table of a database is counted where it is: only counts are fetched, wherever
    the engine was seen to give the counts that the rows would give.

    Args:
        source: a path ending in .parquet, .pq, .csv, .tsv (each also .gz) or .xlsx; a
            folder of Parquet files; an Arrow table or dataset; a pandas or polars frame, lazy or not;
            an Ibis table or query; a Spark DataFrame; a DuckDB or SQLite file; or a
            database's address, such as ``postgres://host/database``.
        label: the column of true labels, ``y_true`` by default; a list of them where
            every row has several labels, each with a score of its own. A row without one
            of the labels, or without its score, is missing for that label alone.
        score: the column of scores; as a list one per class (in the order of
            ``classes``), per label (in the order of ``label``) or per model.
        time: instead of labels: the column of how long a row was followed, in any unit.
        event: the column of what ended it: 0 (censored) or 1.
        causes: how many kinds of events there are: they are coded 1, 2 and so on.
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
        model: the file that scores the rows here: the source then has its columns of
            features, and no score. It says what the scores are.
        delimiter: what is between two cells of a text file, such as ``;`` or ``tab``; by
            default what the header has.
        decimal: what is before the decimals of a number: ``.`` or ``,``.
        thousands: what groups the digits of large numbers, such as ``.`` or a space.
        encoding: how letters are written, such as ``latin-1``, ``cp1252`` or ``utf-16``;
            by default as the file's byte order mark says, else UTF-8.
        percent: scores are percents: 12 and 12% are read as 0.12.
        sheet: the sheet of a workbook, where it has several.

    How a file writes numbers is declared and never taken from its rows, since one row
    must not decide how the others are read.
    """
    if group is not None and not isinstance(group, str):
        raise InputError("group= names one column: join several columns into one first")
    if (time is None) != (event is None):
        raise InputError("follow-up is a time and an event: name time= and event= both")
    if event is not None and label is not None:
        raise InputError("give label=, or time= and event= instead of it")
    scores = (score,) if isinstance(score, str) else tuple(score)
    written = FileFormat(
        delimiter=delimiter,
        decimal=decimal,
        thousands=thousands,
        encoding=encoding,
        percent=percent,
        sheet=sheet,
    )
    label = event or label or "y_true"
    labels = (label,) if isinstance(label, str) else tuple(label)
    _check_labels(label, scores, classes, weight)
    names = Names(
        scores,
        labels[0],
        group,
        subject,
        name or "",
        weight,
        written,
        time,
        labels[1:],
    )
    code = label_code(positive, classes, causes, timed=time is not None)
    if model is not None:
        names = _features(source, names, model)
    if is_address(source):
        names = replace(names, title=table or "query" if name is None else name)
        _check_format(names, frozenset(), "a database's table: convert it in query=")
        rows = connected(source, table=table, where=where, query=query).source(names)
    elif not (table is where is query is None):
        raise InputError("table=, where= and query= are for a database's address")
    else:
        if isinstance(source, str | Path) and name is None:
            names = replace(names, title=Path(source).name)
        rows = _source(source, names)
    declared = ScoreRange.declare(kind, low, high) if model is None else model.scores
    if model is not None:
        rows = ScoredRows(rows, model, names, model.columns_for(code))
        scores = tuple(map(str, rows.columns))
    examples = Examples.from_source(
        rows,
        labels=code,
        scores=declared,
        columns=len(scores),
        label_columns=len(labels),
        name=names.title,
        timed=time is not None,
    )
    examples.scored_by = "" if model is None else model.digest
    examples.grouped = group is not None
    examples.weighted = weight is not None
    return examples


def _features(source: Any, names: Names, model: ModelFile) -> Names:
    """Return the columns that a model needs, or say why it cannot score this source."""
    if not isinstance(model, ModelFile):
        raise InputError(
            "read takes model=ModelFile(path); evaluate takes a path or a fitted object too"
        )
    if names.more:
        raise InputError("a model scores one label here: evaluate each label by itself")
    if names.format.percent:
        raise InputError("the model makes the scores: leave out percent=")
    if is_address(source) or _package(source) in ("ibis", "pyspark"):
        raise InputError(
            "a table in a database is counted where it is, and a model needs its rows: "
            "export the features to Parquet, or give a frame"
        )
    return replace(names, scores=model.inputs, texts=model.texts, agreed=model.agreed)


def _check_labels(
    label: str | Sequence[str],
    scores: Sequence[str],
    classes: Sequence[object] | None,
    weight: str | None,
) -> None:
    if isinstance(label, str):
        return
    if len(label) != len(scores) or not label:
        raise InputError(
            f"every label has a score of its own: {len(label)} labels and {len(scores)} "
            "score columns were named"
        )
    if classes is not None or weight is not None:
        raise InputError(
            "rows with several labels have two classes in each and no weights: leave "
            "out classes= and weight="
        )


def _source(source: Any, names: Names) -> RowSource:
    package = _package(source)
    if package in ("ibis", "pyspark"):
        _check_format(names, frozenset(), "an engine's table: convert it there")
        return engine_source(source, names)
    if isinstance(source, str | Path):
        return file_source(Path(source), names)
    _check_format(names, _NUMBERS, "a frame")
    if hasattr(source, "get_fragments"):
        return DatasetSource(source, names)
    if package == "polars" and hasattr(source, "collect_batches"):
        return _lazy(source, names)
    table = as_table(source, names)
    names.check(table.column_names)
    if package not in ("pandas", "polars"):
        return ArrowTable(table.select(names.all()), names)
    objects = _object_scores(source, names)
    return ArrowTable(table, replace(names, format=PLAIN), objects, names.format)


def _package(source: object) -> str:
    """Return which package a source comes from, without importing any."""
    return type(source).__module__.partition(".")[0]


def _check_format(names: Names, known: frozenset[str], what: str) -> None:
    """Refuse what was declared of a source and would change nothing."""
    other = names.format.given(*(n for n in FileFormat.names() if n not in known))
    if other:
        raise names.problem(
            f"leave out {' and '.join(f'{n}=' for n in other)}, which says nothing of "
            f"{what}"
        )


def file_source(path: Path, names: Names) -> RowSource:
    """Return the rows of a file or folder; its schema is checked, no row is read."""
    if path.is_dir():
        _check_format(names, _NUMBERS, "a folder of Parquet files")
        return parquet_folder(path, names)
    if not path.is_file():
        raise names.problem("no such file")
    match [suffix.lower() for suffix in path.suffixes]:
        case [*_, ".parquet" | ".pq"]:
            _check_format(names, _NUMBERS, "a Parquet file")
            return ParquetFile(path, names)
        case [*_, ".xlsx" | ".xlsm"]:
            _check_format(names, Workbook.options, "a workbook")
            return Workbook(path, names)
        case [*_, suffix] if instead := _ELSEWHERE.get(suffix):
            raise names.problem(f"{instead}: save it as .csv or .parquet")
        case [*_, ".csv" | ".tsv"] | [*_, ".csv" | ".tsv", ".gz"]:
            return _text_file(path, names)
        case _ if names.format.delimiter is not None:
            return _text_file(path, names)
        case _:
            raise names.problem(
                "the file's name must end in .parquet, .pq, .csv, .tsv, .csv.gz, .tsv.gz "
                "or .xlsx; declare delimiter= to read another file of text"
            )


def _text_file(path: Path, names: Names) -> RowSource:
    _check_format(names, CsvFile.options, "a text file")
    file = CsvFile(path, names, format=names.format)
    names.check(file.header())
    return file


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
    """Take the named columns of a frame, each by itself, numbers as they are declared.

    A column of objects may hold text and numbers side by side, which Arrow would refuse
    or turn into one type: its cells are taken one by one.
    """
    names.check([str(name) for name in frame.columns])

    def column(name: str) -> pa.Array:
        given, score = frame[name], name in names.scores
        counted = name in names.numbers()
        if str(given.dtype) not in ("object", "Object", "Int128"):
            arrow = pa.table(frame[[name]]).column(name)
            if not counted or names.format == PLAIN:
                return arrow
            cells = arrow.combine_chunks()
            return pa.array(declared_numbers(cells, names.format, score=score))
        cells = np.empty(len(given), dtype=object)
        cells[:] = given.to_list()
        if name in (names.texts or ()):
            words = [cell if isinstance(cell, str) else None for cell in cells]
            return pa.array(words, pa.string())
        if names.texts is not None and score:
            raise names.problem(
                f"the model declares numbers in column {name}, which has no type of its "
                "own (object): convert it, with pandas.to_numeric for instance"
            )
        if counted:
            return pa.array(names.format.numbers(cells, score=score), pa.float64())
        return pa.array(texts(cells).tolist(), pa.string())

    return pa.table({name: column(name) for name in names.all()})


def _object_scores(frame: Any, names: Names) -> dict[str, Any]:
    """Return the score columns of a frame that hold objects: text, mostly."""
    columns = {name: frame[name] for name in names.scores}
    return {n: c for n, c in columns.items() if str(c.dtype) in ("object", "Object")}


def _lazy(frame: Any, names: Names) -> RowSource:
    """Run a polars lazy frame on every pass, a few rows at a time."""
    names.check(frame.collect_schema().names())

    def rows() -> Iterator[RawBatch]:
        chunks = frame.select(names.all()).collect_batches(chunk_size=BATCH_ROWS)
        for chunk in chunks:
            yield from plain_columns(chunk.to_arrow().to_batches(), names)

    return PlainRows(rows)


def _types(schema: pa.Schema) -> dict[str, pa.DataType]:
    return dict(zip(schema.names, schema.types, strict=True))


@dataclass(frozen=True, eq=False)
class ArrowTable(RowSource):
    """An Arrow table in memory; buffers are not copied."""

    table: pa.Table
    names: Names
    texts: Mapping[str, Any] = field(default_factory=dict)
    """Columns of scores that were objects in a frame, as they were."""
    written: FileFormat = PLAIN
    """How they were written."""

    options: ClassVar[frozenset[str]] = _NUMBERS

    def damage(self) -> str | None:
        """Say how many scores of a column of objects are no numbers."""
        odd = OddCells(self.written, self.options)
        for column in self.texts.values():
            odd.add(column.to_list())
        return odd.complaint()

    def types(self) -> Mapping[str, pa.DataType]:
        """Return the types of the columns."""
        return _types(self.table.schema)

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

    options: ClassVar[frozenset[str]] = _NUMBERS

    def __post_init__(self) -> None:
        try:
            columns = pq.read_schema(self.path).names
        except PermissionError:
            raise self.names.problem(FORBIDDEN) from None
        except _BROKEN:
            raise self.names.problem("this is not a readable Parquet file") from None
        self.names.check(columns)

    def types(self) -> Mapping[str, pa.DataType]:
        """Return the types of the columns."""
        return _types(pq.read_schema(self.path))

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

    options: ClassVar[frozenset[str]] = _NUMBERS

    def __post_init__(self) -> None:
        self.names.check(self.dataset.schema.names)

    def types(self) -> Mapping[str, pa.DataType]:
        """Return the types of the columns."""
        return _types(self.dataset.schema)

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

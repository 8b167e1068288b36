"""``discreet score``: rows of features in, scores out; nothing leaves this machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import typer
from rich.console import Console
from rich.progress import Progress

from discreet.cli import choices
from discreet.cli.entry import in_options
from discreet.data.arrow_columns import Names, plain_columns, taken
from discreet.data.batches import RawBatch, RowSource
from discreet.data.csv_file import CsvFile
from discreet.data.file_format import FileFormat
from discreet.data.model_process import REQUEST_ROWS
from discreet.data.scoring import ModelFile
from discreet.data.sources import ParquetFile, file_source
from discreet.data.workbook import Workbook, beside
from discreet.errors import InputError


def score(
    model: Annotated[Path, typer.Argument(help="An ONNX file.", show_default=False)],
    features: Annotated[
        Path,
        typer.Argument(
            help="A file of features: .parquet, .csv, .tsv, .xlsx.", show_default=False
        ),
    ],
    scores: choices.FeatureRows,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Where the scores go: .parquet, .csv, .csv.gz."
        ),
    ],
    inputs: list[str] | None = None,
    model_output: str | None = None,
    model_column: int | None = None,
    column: str = "y_score",
) -> None:
    """Score rows of features with an ONNX file, here.

    The scores are written beside the columns that are no features, such as labels and
    groups. A row that the model gives no number has an empty score; if that is every
    row, or there is none, nothing is written.

    Options:
        inputs: A column that the model takes; repeat it in the model's order. By default
            as the file names them.
        model_output: Which output of the model is used, where it has several.
        model_column: Which column of that output is the score, from 0.
        column: What the column of scores is called; of several classes, its beginning.
    """
    asked = choices.ModelOptions(
        model=model, inputs=inputs, model_output=model_output, model_column=model_column
    )
    opened = asked.open(scores.declared_scores())
    if opened is None:
        raise InputError("give a model file")
    if out.exists():
        raise InputError(f"{out} is there already: name another file")
    if not out.parent.is_dir():
        raise InputError(f"there is no folder {out.parent}: make it first")
    if scores.percent:
        raise InputError("the model makes the scores: leave out percent=")
    names = Names(
        opened.inputs,
        opened.inputs[0],
        title=features.name,
        format=FileFormat(**scores.keywords()),
        texts=opened.texts,
    )
    source = file_source(features, names)
    total, batches = _rows(source, opened)
    screen, rows, missing = Console(stderr=True), 0, 0
    with (
        Progress(console=screen, disable=not screen.is_terminal) as progress,
        _Writer(out) as writer,
    ):
        task = progress.add_task("Scoring", total=total)
        for batch, raw in batches:
            made = opened.score(raw.scores)
            chosen = made[:, list(_columns(opened, made.shape[1]))]
            missing += int(np.isnan(chosen).any(axis=1).sum())
            rows += len(raw)
            writer.write(_beside(batch, names, chosen, column))
            progress.update(task, advance=len(raw))
        why = source.damage() if missing else None
        if not rows:
            raise names.problem("there are no rows to score")
        if missing == rows:
            raise names.problem(why or "the model gives no row a score")
    opened.close()
    typer.echo(
        f"{rows:,} rows are scored by {opened.digest}, {missing:,} of them without a "
        f"number; kind {opened.scores.kind}; they are in {out}"
    )
    if why is not None:
        typer.echo(in_options(f"{features.name}: {why}"), err=True)


def _columns(model: ModelFile, wide: int) -> range:
    """Return which columns of the output are written: one, or one for each class."""
    if model.column is not None:
        return range(model.column, model.column + 1)
    return range(wide) if wide > 2 else range(wide - 1, wide)


def _beside(
    batch: pa.RecordBatch, names: Names, scores: Any, column: str
) -> pa.RecordBatch:
    """Put scores beside the columns that are no features."""
    kept = [name for name in batch.schema.names if name not in names.scores]
    arrays = [batch.column(name) for name in kept]
    titles = [column]
    if scores.shape[1] > 1:
        titles = [f"{column}_{k}" for k in range(scores.shape[1])]
    arrays += [pa.array(scores[:, k], from_pandas=True) for k in range(len(titles))]
    if set(titles) & set(kept):
        raise names.problem(f"there is a column {column} already: give --column")
    return pa.RecordBatch.from_arrays(arrays, names=[*kept, *titles])


_Scorable: TypeAlias = Iterator[tuple[pa.RecordBatch, RawBatch]]


def _rows(source: RowSource, model: ModelFile) -> tuple[int | None, _Scorable]:
    """Return how many rows there are, if that is known, and a few at a time."""
    match source:
        case ParquetFile(names=names, path=path):
            model.check(source.types(), names)
            file = pq.ParquetFile(path)
            return file.metadata.num_rows, _parquet(file, names)
        case CsvFile(names=names):
            more = tuple(n for n in source.header() if n not in names.scores)
            return None, _text(replace(source, more=more), names)
        case Workbook(names=names):
            return None, _sheet(source)
        case _:
            raise InputError(
                "features are in one file: .parquet, .csv, .tsv or .xlsx; give each file "
                "of a folder by itself"
            )


def _parquet(file: pq.ParquetFile, names: Names) -> _Scorable:
    for batch in file.iter_batches(REQUEST_ROWS):
        (raw,) = plain_columns([batch], names)
        yield batch, raw


def _text(file: CsvFile, names: Names) -> _Scorable:
    for whole in file.batches():
        for start in range(0, whole.num_rows, REQUEST_ROWS):
            batch = whole.slice(start, REQUEST_ROWS)
            yield _as_text(batch), taken(batch, names, names.format.texts)


def _sheet(book: Workbook) -> _Scorable:
    for columns in book.columns(book.header()):
        raw = book.taken(columns)
        texts = {n: pa.array(beside(c), pa.string()) for n, c in columns.items()}
        yield pa.RecordBatch.from_pydict(texts), raw


def _as_text(batch: pa.RecordBatch) -> pa.RecordBatch:
    try:
        arrays = [column.cast(pa.string()) for column in batch.columns]
    except pa.ArrowException:
        raise InputError(
            "the file is not UTF-8 text: declare the encoding that it was saved in, such "
            "as encoding='latin-1'"
        ) from None
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


class _Writer:
    """Writes batches to a file; a file that was not finished is removed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Any = None
        self._stream: Any = None
        if not path.name.lower().endswith((".parquet", ".pq", ".csv", ".csv.gz")):
            raise InputError("the scores go to a .parquet, .csv or .csv.gz file")

    def __enter__(self) -> Self:
        return self

    def write(self, batch: pa.RecordBatch) -> None:
        """Write some rows; the first ones say which columns there are."""
        if self._file is None:
            self._file = self._opened(batch.schema)
        self._file.write_batch(batch)

    def _opened(self, schema: pa.Schema) -> Any:
        if self._path.suffix.lower() in (".parquet", ".pq"):
            return pq.ParquetWriter(self._path, schema)
        self._stream = pa.output_stream(str(self._path), compression="detect")
        return pyarrow.csv.CSVWriter(self._stream, schema)

    def __exit__(self, kind: object, *_: object) -> None:
        for each in (self._file, self._stream):
            if each is not None:
                each.close()
        if kind is not None:
            self._path.unlink(missing_ok=True)

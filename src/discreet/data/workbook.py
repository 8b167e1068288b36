"""Workbooks of Excel (.xlsx): one sheet, its first row the header, a cell by itself.

A workbook says of every cell whether it is a number, text, a truth or a date, so nothing
is taken from other rows. What a formula gave when the workbook was saved is its value.
A number that is shown in percent is a share already, 12% is 0.12: ``percent=`` is for
text and for other numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from discreet.data.arrow_columns import Names
from discreet.data.batches import BATCH_ROWS, RawBatch, RowSource
from discreet.data.cells import canonical
from discreet.data.file_format import FileFormat, OddCells, features
from discreet.errors import DiscreetError
from discreet.vocabulary import did_you_mean


@dataclass(frozen=True, eq=False)
class Workbook(RowSource):
    """The rows of one sheet, read a few at a time."""

    path: Path
    names: Names

    options: ClassVar[frozenset[str]] = frozenset(
        {"decimal", "thousands", "percent", "sheet"}
    )

    def __post_init__(self) -> None:
        with self._rows() as (columns, _):
            self.names.check([name for name in columns if name] or columns)

    def __call__(self) -> Iterator[RawBatch]:
        """Read all rows, from the first one on."""
        for columns in self.columns(self.names.all()):
            rows = self.taken(columns)
            yield rows
            for which, other in enumerate(self.names.each()[1:], 1):
                own = _scores(columns[other.scores[0]], other.format)
                labels = _values(columns[other.label])
                yield replace(rows, scores=(own,), labels=labels, which=which)

    def header(self) -> list[str]:
        """Return the names of the columns."""
        with self._rows() as (names, _):
            return [name for name in names if name]

    def columns(self, wanted: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Read the cells of some columns, some rows at a time."""
        with self._rows() as (names, rows):
            places = {name: names.index(name) for name in wanted}
            for held in _batches(rows, len(names)):
                columns = {name: np.empty(len(held), dtype=object) for name in places}
                for name, k in places.items():
                    columns[name][:] = [row[k] for row in held]
                yield columns

    def taken(self, columns: Mapping[str, Any]) -> RawBatch:
        """Take the named columns: numbers by a rule, the others as they are."""
        names = self.names.each()[0]
        written = names.format

        def score(name: str) -> Any:
            cells = columns[name]
            if name in (names.texts or ()):
                return _texts(cells)
            values = _scores(cells, written)
            if names.texts is None:
                return values
            return features(values, _values(cells).tolist())

        def amounts(name: str | None) -> Any:
            if name is None:
                return None
            return written.numbers(_values(columns[name]), score=False)

        def words(name: str | None) -> Any:
            return None if name is None else _values(columns[name])

        return RawBatch(
            tuple(map(score, names.scores)),
            words(names.label),
            words(names.group),
            words(names.subject),
            amounts=amounts(names.weight),
            times=amounts(names.time),
        )

    def damage(self) -> str | None:
        """Say how many scores are no numbers."""
        odd = OddCells(self.names.format, self.options, self.names.measured)
        wanted = [n for n in self.names.scores if n not in (self.names.texts or ())]
        for columns in self.columns(wanted):
            for name in wanted:
                odd.add(_values(columns[name]).tolist())
        return odd.complaint()

    @contextmanager
    def _rows(self) -> Iterator[tuple[list[str], Iterator[tuple[Any, ...]]]]:
        """Open the workbook; give the header's names, and the rows after it."""
        try:
            openpyxl = import_module("openpyxl")  # an optional dependency
        except ImportError:
            raise self.names.problem(
                "reading a workbook needs openpyxl: pip install openpyxl, or save the "
                "sheet in Excel as CSV UTF-8"
            ) from None
        book = None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of openpyxl: they quote cells
                book = openpyxl.load_workbook(
                    self.path, read_only=True, data_only=True, keep_links=False
                )
                sheet = self._sheet(book)
                sheet.reset_dimensions()  # some programs write wrong ones
                rows = (row for row in sheet.iter_rows() if _filled(row))
                header = [_name(cell.value) for cell in next(rows, ())]
                yield header, rows
        except DiscreetError:
            raise
        except Exception:  # noqa: BLE001 - a damaged archive raises any of many
            raise self.names.problem(
                "this is not a readable workbook: save it again in Excel, or as CSV UTF-8"
            ) from None
        finally:
            if book is not None:
                book.close()

    def _sheet(self, book: Any) -> Any:
        wanted = self.names.format.sheet
        sheets = {sheet.title: sheet for sheet in book.worksheets}
        shown = {n: s for n, s in sheets.items() if s.sheet_state == "visible"}
        if wanted is None and len(shown) == 1:
            return next(iter(shown.values()))
        if wanted is None:
            raise self.names.problem(
                f"the workbook has {len(shown)} sheets: name one with sheet="
            )
        if wanted not in sheets:
            raise self.names.problem(
                f"the workbook has no sheet of this name{did_you_mean(wanted, sheets)}"
            )
        return sheets[wanted]


def _filled(row: tuple[Any, ...]) -> bool:
    """Say whether any cell of a row holds something: empty rows are none."""
    return any(cell.value is not None for cell in row)


def _name(value: object) -> str:
    return "" if value is None else str(value).strip()


def _batches(
    rows: Iterator[tuple[Any, ...]], width: int
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield rows in lists, each row with as many cells as the header."""
    held: list[tuple[Any, ...]] = []
    for row in rows:
        held.append(row if len(row) >= width else (*row, *[None] * (width - len(row))))
        if len(held) == BATCH_ROWS:
            yield held
            held = []
    if held:
        yield held


def beside(cells: Any) -> list[str | None]:
    """Return cells that are only passed on, as text."""
    return [canonical(value) for value in _values(cells).tolist()]


def _values(cells: Any) -> Any:
    """Return the values of cells, None where there is none."""
    values = np.empty(len(cells), dtype=object)
    values[:] = [None if cell is None else cell.value for cell in cells]
    return values


def _texts(cells: Any) -> Any:
    """Return texts that a model knows: as they are, and a number as it is shown."""
    words = np.empty(len(cells), dtype=object)
    values = _values(cells).tolist()
    words[:] = [v if isinstance(v, str) else canonical(v) for v in values]
    return words


def _scores(cells: Any, written: FileFormat) -> Any:
    if not written.percent:
        return written.numbers(_values(cells))
    return np.array(
        [
            written.number(cell.value, score=not _in_percent(cell))
            if cell is not None
            else np.nan
            for cell in cells
        ]
    )


def _in_percent(cell: Any) -> bool:
    """Say whether a number is shown in percent, and so is a share already."""
    return not isinstance(cell.value, str) and "%" in (cell.number_format or "")

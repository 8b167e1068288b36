"""Workbooks of Excel (.xlsx): one sheet, its first row the header, a cell by itself.

A workbook says of every cell whether it is a number, text, a truth or a date, so nothing
is taken from other rows. What a formula gave when the workbook was saved is its value.
A number that is shown in percent is a share already, 12% is 0.12: ``percent=`` is for
text and for other numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from discreet.data.arrow_columns import Names
from discreet.data.batches import BATCH_ROWS, RawBatch, RowSource
from discreet.data.file_format import FileFormat, OddCells
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
        written, label = self.names.format, self.names.label
        with self._rows() as (columns, rows):
            places = {name: columns.index(name) for name in self.names.all()}

            def column(held: list[Any], name: str | None) -> Any:
                if name is None:
                    return None
                cells = np.empty(len(held), dtype=object)
                cells[:] = [row[places[name]] for row in held]
                return cells

            for held in _batches(rows, len(columns)):
                amounts = column(held, self.names.weight)
                yield RawBatch(
                    tuple(
                        _scores(column(held, name), written)
                        for name in self.names.scores
                    ),
                    _values(column(held, label)),
                    _values(column(held, self.names.group)),
                    _values(column(held, self.names.subject)),
                    amounts=None
                    if amounts is None
                    else written.numbers(_values(amounts), score=False),
                )

    def damage(self) -> str | None:
        """Say how many scores are no numbers."""
        odd = OddCells(self.names.format, self.options)
        with self._rows() as (columns, rows):
            places = [columns.index(name) for name in self.names.scores]
            for held in _batches(rows, len(columns)):
                for k in places:
                    odd.add(row[k].value for row in held if row[k] is not None)
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


def _values(cells: Any) -> Any:
    """Return the values of cells, None where there is none."""
    if cells is None:
        return None
    values = np.empty(len(cells), dtype=object)
    values[:] = [None if cell is None else cell.value for cell in cells]
    return values


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

"""CSV files: a row is a line, every cell is text, and is read by itself.

Arrow would guess a column's type from its cells, and one odd cell (``n.a.`` among
weights) would turn a whole column into text: one person's cell would decide about
everybody's rows, and the noise that hides one row would not hide that. So columns come
as bytes, and a rule for one cell says what it is: a score or a weight is a number, or
missing; labels, groups and subjects are texts (``data.cells``).

A line with more or fewer cells than the header is a row of which everything is missing.
A quote that its own line does not close would take the next rows in: such a line is read
without its quotes, so a cell that holds line breaks is no cell. ``damage`` says how many
lines there were, for the site's own checks.
"""

from __future__ import annotations

import gzip
import io
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from discreet.arrays import FloatVector
from discreet.data.arrow_columns import Names, taken
from discreet.data.batches import Columns
from discreet.data.cells import number

_BLOCK: Final = 2**22
"""Bytes that Arrow parses at a time."""
_LONGEST: Final = _BLOCK // 2
"""A longer line is cut: Arrow refuses a file whose line does not fit into its blocks."""
_QUOTE, _COMMA, _NEWLINE, _RETURN = b'",\n\r'
_FIELD: Final = rb'(?:"[^"]*(?:""[^"]*)*"[^,"]*|[^",][^,]*|)'
_CLOSED: Final = re.compile(_FIELD + rb"(?:," + _FIELD + rb")*[\r\n]*")
"""A line that closes every quote it opens."""


@dataclass(eq=False)
class CsvFile:
    """The rows of a file."""

    path: Path
    names: Names
    more: tuple[str, ...] = ()
    """Columns that are read beside the named ones."""
    _damaged: list[int] = field(default_factory=list, repr=False)

    def header(self) -> list[str]:
        """Return the names of the columns: no row is looked at."""
        with self._unreadable(), _Lines(self.path) as lines:
            first = next((line for line in lines if line.strip()), b"")
            with pa.csv.open_csv(io.BytesIO(first)) as reader:
                return list(reader.schema.names)

    def __call__(self) -> Iterator[Columns]:
        """Read all rows, from the first one on."""
        for batch in self.batches():
            yield taken(batch, self.names, numbers)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read all rows as bytes; at last the lines that are no rows, all missing."""
        wanted = [*self.names.all(), *self.more]
        self._damaged.clear()
        yield from self._rows(wanted)
        if self._damaged:
            empty = pa.nulls(len(self._damaged), pa.binary())
            yield pa.RecordBatch.from_arrays([empty] * len(wanted), names=wanted)

    def damage(self) -> str | None:
        """Say which column is no UTF-8, or how many lines of the last pass were no rows."""
        for batch in self.batches():
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                if not _is_utf8(column):
                    return f"column {name} is not UTF-8 text; save the file as UTF-8"
        if not self._damaged:
            return None
        return (
            f"{len(self._damaged)} lines have more or fewer cells than the header: a CSV "
            "file needs as many cells in every row, and a row is one line"
        )

    def _rows(self, wanted: list[str]) -> Iterator[pa.RecordBatch]:
        def skipped(row: pa.csv.InvalidRow) -> str:
            self._damaged.append(row.actual_columns)
            return "skip"

        with (
            self._unreadable(),
            _Lines(self.path) as lines,
            pa.csv.open_csv(
                lines,
                read_options=pa.csv.ReadOptions(block_size=_BLOCK),
                parse_options=pa.csv.ParseOptions(invalid_row_handler=skipped),
                convert_options=pa.csv.ConvertOptions(
                    include_columns=wanted,
                    column_types=dict.fromkeys(wanted, pa.binary()),
                    strings_can_be_null=True,
                ),
            ) as reader,
        ):
            yield from reader

    @contextmanager
    def _unreadable(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError):
            raise self.names.problem(
                "this is not a readable CSV file: it needs UTF-8 text and a header"
            ) from None


def csv_file(path: Path, names: Names) -> CsvFile:
    """Return the rows of a file; its header is looked at once, now."""
    found = CsvFile(path, names)
    names.check(found.header())
    return found


class _Lines(io.RawIOBase):
    """A file's bytes, with lines that close no quote or are too long made harmless."""

    def __init__(self, path: Path) -> None:
        zipped = path.suffix.lower() == ".gz"
        self._file: Any = (gzip.open if zipped else open)(path, "rb")
        self._rest = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            block = self._file.read(_LONGEST // 2)
            if not block and not self._rest:
                return 0
            self._ready = memoryview(self._harmless(self._rest + block, not block))
        many = min(len(buffer), len(self._ready))
        buffer[:many], self._ready = self._ready[:many], self._ready[many:]
        return many

    def _harmless(self, text: bytes, last: bool) -> bytes:
        end = len(text)
        if not last:
            # A return at the very end may be half of a line's two-byte end.
            end = max(text.rfind(b"\n"), text.rfind(b"\r", 0, -1)) + 1
        if not end:  # a line without an end so far: it is cut where all long ones are
            text = text[: _LONGEST + 1]
        self._rest, text = text[end:], text[:end]
        if last and not text.endswith(b"\n"):
            text += b"\n"  # without it Arrow refuses a header without rows
        if len(text) <= _LONGEST and (b'"' not in text or _in_pairs(text)):
            return text
        return b"".join(_mended(line) for line in text.splitlines(keepends=True))


def _in_pairs(text: bytes) -> bool:
    """Say whether quotes stand around whole cells alone, each pair in one line.

    The usual case at the speed of arrays; whatever else is looked at line by line. The
    text is whole lines.
    """
    raw = np.frombuffer(text, dtype=np.uint8)
    quotes = np.flatnonzero(raw == _QUOTE)
    if quotes.size % 2:
        return False
    opens, closes = quotes[::2], quotes[1::2]
    before = np.where(opens > 0, raw[opens - 1], _NEWLINE)
    ends = np.flatnonzero((raw == _NEWLINE) | (raw == _RETURN))
    return bool(
        np.isin(before, (_COMMA, _NEWLINE, _RETURN)).all()
        and np.isin(raw[closes + 1], (_COMMA, _NEWLINE, _RETURN)).all()
        and (np.searchsorted(ends, opens) == np.searchsorted(ends, closes)).all()
    )


def _mended(line: bytes) -> bytes:
    if len(line) > _LONGEST:
        line = line[:_LONGEST] + b"\n"
    if b'"' in line and not _CLOSED.fullmatch(line):
        return line.replace(b'"', b"")
    return line


def _is_utf8(column: pa.Array) -> bool:
    try:
        column.cast(pa.string())
    except pa.ArrowException:
        return False
    return True


def numbers(column: pa.Array) -> FloatVector:
    """Read each cell as a number, NaN where it is none."""
    try:
        text = pc.utf8_trim_whitespace(column.cast(pa.string()))
        found: FloatVector = text.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        cells = column.to_pylist()
        return np.array([math.nan if c is None else number(c) for c in cells])
    return found

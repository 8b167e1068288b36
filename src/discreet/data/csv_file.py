"""Text files of rows: a row is a line, every cell is text, and is read by itself.

Arrow would guess a column's type from its cells, and one odd cell (``n.a.`` among
weights) would turn a whole column into text: one person's cell would decide about
everybody's rows, and the noise that hides one row would not hide that. So columns come
as bytes, and a rule for one cell says what it is: a score or a weight is a number, or
missing; labels, groups and subjects are texts (``data.cells``).

The header says which delimiter the file has (``data.file_format``). A line with more or fewer cells than the header is a row of which everything is missing.
A quote that its own line does not close would take the next rows in: such a line is read
without its quotes, so a cell that holds line breaks is no cell. ``damage`` says how many
lines there were, for the site's own checks.

A CSV file may also hold counts that somebody had an engine make (``CountsFile``).
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv

from discreet.arrays import IntVector
from discreet.data.arrow_columns import Names, taken, views
from discreet.data.batches import RawBatch, RowSource
from discreet.data.file_format import (
    FORBIDDEN,
    PLAIN,
    FileFormat,
    OddCells,
    TextBytes,
    TextLayout,
    ragged,
    rewritten,
)
from discreet.data.pushdown import UNBOUNDED, RowLimit, weight_name
from discreet.data.scores import ScoreRange
from discreet.data.times import Rounding
from discreet.errors import InputError

_BLOCK: Final = 2**22
"""Bytes that Arrow parses at a time."""
_LONGEST: Final = _BLOCK // 2
"""A longer line is cut: Arrow refuses a file whose line does not fit into its blocks."""
_QUOTE, _NEWLINE, _RETURN = b'"\n\r'
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_MOST: Final = 2**40
"""No table has more rows alike: sums of such counts are exact."""


@dataclass(eq=False)
class CsvFile(RowSource):
    """The rows of a file."""

    path: Path
    names: Names
    more: tuple[str, ...] = ()
    """Columns that are read beside the named ones."""
    format: FileFormat = PLAIN
    _damaged: int = field(default=0, init=False)

    options: ClassVar[frozenset[str]] = frozenset(
        {"delimiter", "decimal", "thousands", "encoding", "percent"}
    )

    @cached_property
    def layout(self) -> TextLayout:
        """What the header says; no row is read."""
        with self._unreadable():
            wanted = [*self.names.all(), *self.more]
            return TextLayout.of(self.path, wanted, self.format)

    def header(self) -> list[str]:
        """Return the names of the columns; no row is read."""
        if not any(self.layout.columns):
            raise self._no_header()
        columns = list(self.layout.columns)
        found = set(self.names.all()) <= set(columns)
        return [name for name in columns if name] if found else columns

    def __call__(self) -> Iterator[RawBatch]:
        """Read all rows, from the first one on."""
        for batch in self.batches():
            yield from views(batch, self.names, self.format.texts)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read all rows as bytes; at last the lines that are no rows, all missing."""
        wanted = [*self.names.all(), *self.more]
        self._damaged = 0
        yield from self._rows(wanted)
        if self._damaged:
            empty = pa.nulls(self._damaged, pa.binary())
            yield pa.RecordBatch.from_arrays([empty] * len(wanted), names=wanted)

    def damage(self) -> str | None:
        """Say which column is other text, how many lines are no rows, or scores no numbers."""
        odd = OddCells(self.format, self.options, self.names.measured)
        for batch in self.batches():
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                try:
                    column.cast(pa.string())
                except pa.ArrowException:
                    return (
                        f"column {name} is not UTF-8 text: declare the encoding that the "
                        "file was saved in, such as encoding='latin-1'"
                    )
                if name in self.names.scores and name not in (self.names.texts or ()):
                    lost = np.isnan(self.format.texts(column))
                    odd.cells += int(np.count_nonzero(~lost))
                    odd.add(column.filter(pa.array(lost)).to_pylist())
        if self._damaged:
            return ragged(self._damaged, self.layout.delimiter)
        return odd.complaint()

    def _rows(self, wanted: list[str]) -> Iterator[pa.RecordBatch]:
        def skipped(_: pa.csv.InvalidRow) -> str:
            self._damaged += 1
            return "skip"

        layout = self.layout
        places = [f"c{layout.columns.index(name)}" for name in wanted]
        with (
            self._unreadable(),
            _Lines(self.path, layout) as lines,
            pa.csv.open_csv(
                lines,
                read_options=pa.csv.ReadOptions(block_size=_BLOCK),
                parse_options=pa.csv.ParseOptions(
                    delimiter=layout.delimiter, invalid_row_handler=skipped
                ),
                convert_options=pa.csv.ConvertOptions(
                    include_columns=places,
                    column_types=dict.fromkeys(places, pa.binary()),
                    strings_can_be_null=True,
                ),
            ) as reader,
        ):
            for batch in reader:
                yield pa.RecordBatch.from_arrays(batch.columns, names=wanted)

    @contextmanager
    def _unreadable(self) -> Iterator[None]:
        try:
            yield
        except InputError as err:
            raise self.names.problem(str(err)) from None
        except PermissionError:
            raise self.names.problem(FORBIDDEN) from None
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise self.names.problem(
                "this packed file is cut off or damaged: copy it again, or unpack it"
            ) from None
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            raise self._no_header() from None

    def _no_header(self) -> InputError:
        return self.names.problem(
            "this is not a readable CSV file: it needs text and a header"
        )


class _Lines(io.RawIOBase):
    """A file's bytes, with lines that close no quote or are too long made harmless.

    The header is one of places, c0 and so on.
    """

    def __init__(self, path: Path, layout: TextLayout) -> None:
        self._file = TextBytes(path, layout.encoding)
        self._delimiter = layout.delimiter.encode()
        self._rest = self._after(layout.lines)
        header = rewritten(len(layout.columns), layout.delimiter)
        self._ready = memoryview(header)

    def _after(self, lines: int) -> bytes:
        """Return what was read after so many lines."""
        text, start = b"", 0
        while block := self._file.read(_LONGEST // 2):
            text += block
            # A return at the very end may be half of a line's two-byte end.
            while (end := _LINE_END.search(text, start)) and end.end() < len(text):
                start, lines = end.end(), lines - 1
                if not lines:
                    return text[start:]
        return b""

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
        apart = self._delimiter
        if len(text) <= _LONGEST and (b'"' not in text or _in_pairs(text, apart[0])):
            return text
        lines = text.splitlines(keepends=True)
        return b"".join(_mended(line, apart) for line in lines)


def _in_pairs(text: bytes, delimiter: int) -> bool:
    """Say whether quotes stand around whole cells alone, each pair in one line.

    The usual case at the speed of arrays; all else is checked line by line. The text is
    whole lines.
    """
    raw = np.frombuffer(text, dtype=np.uint8)
    quotes = np.flatnonzero(raw == _QUOTE)
    if quotes.size % 2:
        return False
    opens, closes = quotes[::2], quotes[1::2]
    before = np.where(opens > 0, raw[opens - 1], _NEWLINE)
    ends = np.flatnonzero((raw == _NEWLINE) | (raw == _RETURN))
    return bool(
        np.isin(before, (delimiter, _NEWLINE, _RETURN)).all()
        and np.isin(raw[closes + 1], (delimiter, _NEWLINE, _RETURN)).all()
        and (np.searchsorted(ends, opens) == np.searchsorted(ends, closes)).all()
    )


@lru_cache(8)
def _closed(delimiter: bytes) -> re.Pattern[bytes]:
    """Return the pattern of a line that closes every quote it opens."""
    d = re.escape(delimiter)
    cell = rb'(?:"[^"]*(?:""[^"]*)*"[^%b"]*|[^"%b][^%b]*|)' % (d, d, d)
    return re.compile(cell + rb"(?:" + d + cell + rb")*[\r\n]*")


def _mended(line: bytes, delimiter: bytes) -> bytes:
    if len(line) > _LONGEST:
        line = line[:_LONGEST] + b"\n"
    if b'"' in line and not _closed(delimiter).fullmatch(line):
        return line.replace(b'"', b"")
    return line


@dataclass(eq=False)
class CountsFile(RowSource):
    """Counts that somebody had the engine make, for a site that lets no tool connect.

    ``discreet query`` writes the query of a plan; its result, saved as CSV with its
    header, stands for the rows. The header says which query it was: counts of another
    plan, of another unit of privacy or by another column of people are refused. A file
    of counts holds no rows, so plans that need each row by itself cannot use one.

    A cell that is no count (negative, or no whole number) counts as 0, and so do more
    rows than a client may have; ``damage`` says so, for the site's own checks.
    """

    path: Path
    names: Names
    cuts: tuple[Rounding, ...]
    """How the query rounded: as all of the plan's rounds need it."""
    bound: RowLimit = UNBOUNDED
    """Of whom the query kept how many rows, as the plan says it."""
    _wrong: int = field(default=0, init=False)
    _beyond: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if not self.path.is_file():
            raise self.names.problem("no such file")
        header = self._file.header()
        if self.weight not in header:
            raise self.names.problem(
                "these are not the counts of this plan's query, with its unit of privacy "
                f"and its column of people: no column {self.weight}; run `discreet "
                "query` for this plan and save its result with the header"
            )
        self.names.check(header)

    @property
    def weight(self) -> str:
        """The column of counts; its name tells which query they come from."""
        return weight_name(self.cuts, self.bound)

    @property
    def _file(self) -> CsvFile:
        return CsvFile(self.path, self.names, (self.weight,))

    def bounded(
        self, most: int, scores: ScoreRange, *, alone: bool, strict: bool
    ) -> CountsFile | None:
        """Return itself, if the query has bounded these people's rows like this."""
        del scores, strict
        kind = "subject" if alone else "client"
        return self if (kind, most) == (self.bound.kind, self.bound.most) else None

    def __call__(self) -> Iterator[RawBatch]:
        """Refuse: there are no rows."""
        raise self.names.problem(
            "a file of counts holds no rows, and this plan needs each of them"
        )

    def folded(self, cuts: Sequence[Rounding]) -> Iterator[RawBatch]:
        """Return the counts, if they were made for these cuts."""
        if not all(
            mine.covers(other)  # type: ignore[arg-type]  # each of its own kind
            for mine, other in zip(self.cuts, cuts, strict=True)
        ):
            raise self.names.problem("these counts were made for other edges")
        return self._rows()

    def damage(self) -> str | None:
        """Say what was wrong with the counts of the last pass."""
        if self._wrong:
            return (
                f"{self._wrong} lines have a count that is no whole number from 0 on: "
                "run the query of `discreet query` again and save its result as it is"
            )
        if self._beyond:
            return (
                f"these are counts of more than the {self.bound.most} rows that the plan "
                "takes of a client: run the query of `discreet query` again"
            )
        return None

    def _rows(self) -> Iterator[RawBatch]:
        self._wrong, self._beyond, file = 0, False, self._file
        left = self.bound.most if self.bound.kind == "client" else None
        for batch in file.batches():
            rows = taken(batch, self.names, PLAIN.texts)
            given = PLAIN.texts(batch.column(batch.schema.get_field_index(self.weight)))
            fits = (given >= 0) & (given <= _MOST) & (given == np.floor(given))
            self._wrong += int(np.count_nonzero(~fits))
            many: IntVector = np.where(fits, given, 0).astype(np.int64)
            if left is not None:
                allowed = np.minimum(np.cumsum(many), left)
                kept = np.diff(allowed, prepend=0)
                fits &= kept == many
                self._beyond |= bool((kept != many).any())
                many, left = kept, left - int(kept.sum())
            # A score that is missing leads whoever checks the file to ``damage``.
            scores = (np.where(fits, s, np.nan) for s in rows.scores)
            yield replace(rows, scores=tuple(scores), weights=many)

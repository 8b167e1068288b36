"""How a file writes cells, numbers and letters: declared, or said by its first line.

A file's first bytes and its header are its schema: a byte order mark names the encoding,
Excel's line ``sep=;`` or the header itself the delimiter. Everything that only rows could
tell (a decimal comma, thousands, percents) is declared, since one row must not decide how
the others are read. What is wrong with rows is described here for the site's own checks:
by counts and by the option that reads them, never by a cell.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import math
import numbers
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import FloatVector
from discreet.data.cells import number
from discreet.errors import InputError

if TYPE_CHECKING:  # arrays in memory need no Arrow
    import pyarrow as pa

DELIMITERS: Final = (",", ";", "\t", "|")
"""What a header may have between two names, in the order in which they are tried."""
_WORDS: Final = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}
"""How a delimiter may be written where a shell makes it hard to type."""
_GROUPING: Final = (",", ".", " ", "'", "’", "\u00a0", "\u202f")
_SINGLE_BYTE: Final = re.compile(r"iso8859-\d+|cp125\d|cp437|cp85[02]|mac-roman|koi8-r")
_UTF16: Final = ("utf-16", "utf-16-le", "utf-16-be")
_ENCODINGS: Final = frozenset({"utf-8", "utf-8-sig", *_UTF16})
"""Beside the single-byte ones: in others a cell's last byte may take in the next cell."""
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_OTHER_FILES: Final = (
    (b"PAR1", "this is a Parquet file: let its name end in .parquet"),
    (
        b"PK\x03\x04",
        "this is a workbook or an archive: its name must end in .xlsx, or unpack it",
    ),
    (
        b"\xd0\xcf\x11\xe0",
        "this is a workbook of Excel 97: save it as .xlsx, or as CSV",
    ),
)
_GZIP: Final = b"\x1f\x8b"
FORBIDDEN: Final = "this file may not be read by you: change its permissions"
_CHUNK: Final = 2**20
_LONGEST_HEADER: Final = 2**21
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_SEP: Final = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
_MISSING: Final = frozenset({"", "nan", "na", "n/a", "null", "#n/a"})
"""How people write that a cell is missing."""
_UNREAD: Final = "not a number"
_COMMA_CELL: Final = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
_POINT_CELL: Final = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?")
_GROUPED_CELL: Final = re.compile(
    rf"[+-]?\d{{1,3}}(?:([{''.join(_GROUPING)}])\d{{3}})(?:\1\d{{3}})*(?:([.,])\d+)?"
)


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """How the cells of a file are written.

    Args:
        delimiter: What is between two cells of a text file, such as ';' or 'tab'; by
            default what the header has.
        decimal: What is before the decimals of a number: '.' or ','.
        thousands: What groups the digits of large numbers, such as '.' or ' '.
        encoding: How letters are written, such as latin-1, cp1252 or utf-16; by default
            as the file's byte order mark says, else UTF-8.
        percent: Scores are percents: 12 and 12% are read as 0.12.
        sheet: The sheet of a workbook, where it has several.
    """

    delimiter: str | None = None
    decimal: str = "."
    thousands: str | None = None
    encoding: str | None = None
    percent: bool = False
    sheet: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            meant = _WORDS.get(self.delimiter.lower(), self.delimiter)
            if len(meant) != 1 or meant.isalnum() or meant in '"\r\n' or meant > "~":
                raise InputError(
                    "delimiter= is one character between cells, such as ';' or 'tab'"
                )
            object.__setattr__(self, "delimiter", meant)
        if self.decimal not in (".", ","):
            raise InputError("decimal= is '.' or ','")
        if self.thousands is not None and (
            self.thousands not in _GROUPING or self.thousands == self.decimal
        ):
            raise InputError(
                "thousands= is one of , . ' or a space, and not what decimal= is"
            )
        if self.encoding is not None:
            object.__setattr__(self, "encoding", _encoding(self.encoding))

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the keywords, which are options of every command that reads a file."""
        return tuple(one.name for one in fields(FileFormat))

    def keywords(self) -> dict[str, Any]:
        """Return the keywords with their values, without those of a derived class."""
        return {name: getattr(self, name) for name in self.names()}

    def given(self, *names: str) -> list[str]:
        """Return which of some keywords differ from their default."""
        plain = FileFormat()
        return [n for n in names if getattr(self, n) != getattr(plain, n)]

    # -- numbers -------------------------------------------------------------

    def number(self, cell: object, *, score: bool = True) -> float:
        """Return a cell as a number, NaN where it is none.

        >>> german = FileFormat(decimal=",", thousands=".", percent=True)
        >>> [german.number(c) for c in ("12,5%", "1.200", "12.5", 12.5)]
        [0.125, 12.0, nan, 0.125]
        """
        percent = self.percent and score
        if isinstance(cell, bytes):
            try:
                cell = cell.decode()
            except UnicodeDecodeError:
                return number(None)
        if not isinstance(cell, str):
            return number(cell) / 100 if percent else number(cell)
        text = cell.strip()
        if percent:
            text = text.removesuffix("%").rstrip()
        if self.thousands is not None and re.fullmatch(self._grouped, text):
            text = text.replace(self.thousands, "")
        if self.decimal == ",":
            text = "" if "." in text else text.replace(",", ".")
        if not percent:
            return number(text)
        # One rounding: 1.1% is the double nearest to 0.011.
        return number(text) / 100 if "e" in text.lower() else number(f"{text}e-2")

    def numbers(self, column: NDArray[Any], *, score: bool = True) -> FloatVector:
        """Return every cell as a number; a column of numbers changes by percents alone."""
        if column.dtype.kind in "fiub":
            values = column.astype(np.float64, copy=False)
            return values / 100 if self.percent and score else values
        cells = column.tolist()
        return np.array([self.number(c, score=score) for c in cells], dtype=np.float64)

    def texts(self, column: pa.Array, *, score: bool = True) -> FloatVector:
        """Return every cell of a column of text as a number, as ``number`` does."""
        import pyarrow as pa  # noqa: PLC0415 - a column is there, and so is Arrow
        import pyarrow.compute as pc  # noqa: PLC0415

        try:
            text = pc.utf8_trim_whitespace(column.cast(pa.string()))
            values: FloatVector = (
                self._spelled(text, percent=self.percent and score)
                .cast(pa.float64())
                .to_numpy(zero_copy_only=False)
            )
        except pa.ArrowException:
            cells = column.to_pylist()
            if self == PLAIN:
                return np.array([number(cell) for cell in cells])
            return np.array([self.number(c, score=score) for c in cells])
        return values

    def _spelled(self, text: pa.Array, *, percent: bool) -> pa.Array:
        """Return texts as Arrow reads numbers."""
        import pyarrow.compute as pc  # noqa: PLC0415 - as above

        if percent:
            text = pc.replace_substring_regex(text, r"\s*%$", "")
        if self.thousands is not None:
            grouped = pc.match_substring_regex(text, f"^(?:{self._grouped})$")
            joined = pc.replace_substring(text, self.thousands, "")
            text = pc.if_else(grouped, joined, text)
        if self.decimal == ",":
            pointed = pc.match_substring(text, ".")
            text = pc.if_else(pointed, None, pc.replace_substring(text, ",", "."))
        if percent:
            text = pc.binary_join_element_wise(text, "e-2", "")
        return text

    @property
    def _grouped(self) -> str:
        """The pattern of a number whose digits are grouped."""
        return (
            rf"[+-]?[0-9]{{1,3}}(?:{re.escape(self.thousands or '')}[0-9]{{3}})+"
            rf"(?:{re.escape(self.decimal)}[0-9]*)?"
        )


PLAIN: Final = FileFormat()


def _encoding(name: str) -> str:
    """Return an encoding's own name; refuse one in which cells are not told apart."""
    try:
        own = codecs.lookup(name).name
    except LookupError:
        own = ""
    if own not in _ENCODINGS and not _SINGLE_BYTE.fullmatch(own):
        raise InputError(
            "encoding= is one such as utf-8, utf-16, latin-1 or cp1252; save a file in "
            "another one as UTF-8"
        )
    return own


# -- what a file's first bytes and lines say ---------------------------------


@dataclass(frozen=True)
class TextLayout:
    """What the first bytes and lines of a text file say of all of it."""

    columns: tuple[str, ...]
    delimiter: str
    encoding: str
    lines: int
    """How many lines end with the header: blank ones and Excel's ``sep=`` before it."""

    @classmethod
    def of(cls, path: Path, wanted: Iterable[str], given: FileFormat) -> Self:
        """Read the header; the delimiter is the one that gives the wanted columns.

        Raises:
            InputError: the header cannot be read so; the sentence names the option.
        """
        start = first_bytes(path)
        for mark, sentence in _OTHER_FILES:
            if start.startswith(mark):
                raise InputError(sentence)
        encoding = _encoding_of(start, given.encoding)
        lines = _first_lines(path, encoding)
        skipped, delimiter, text = 0, given.delimiter, ""
        for raw in lines:
            skipped += 1
            text = _header(raw, encoding, start).strip(
                "\ufeff \r\n\x0b\x0c\x1c\x1d\x1e"
            )
            if told := _SEP.fullmatch(text):
                delimiter = delimiter or told[1]
            elif text.strip():
                break
        wanted = tuple(wanted)
        chosen, columns = _split(text, wanted, delimiter, tab=".tsv" in path.suffixes)
        return cls(columns, chosen, encoding, skipped)


def first_bytes(path: Path) -> bytes:
    """Return how a file begins, after it was unpacked."""
    with path.open("rb") as file:
        start = file.read(64)
    if start.startswith(_GZIP):
        with gzip.open(path, "rb") as file:
            return file.read(64)
    return start


def _encoding_of(start: bytes, declared: str | None) -> str:
    """Return the encoding of a file: as its byte order mark says, or as declared."""
    if start.startswith(codecs.BOM_UTF32_LE):
        raise InputError("this is UTF-32 text: save the file as UTF-8")
    marked = next((name for mark, name in _MARKS if start.startswith(mark)), None)
    if marked is None:
        if declared in _UTF16 and b"\x00" not in start:
            raise InputError(
                "this is no UTF-16 text: leave out encoding=, or declare another"
            )
        # What Windows calls Unicode has its lower bytes first.
        return "utf-16-le" if declared == "utf-16" else declared or "utf-8"
    if declared is not None and marked[:5] != declared[:5]:
        raise InputError(
            "the file's byte order mark names another encoding: leave out encoding="
        )
    return marked


def _header(line: bytes, encoding: str, start: bytes) -> str:
    """Return the header's text, or say which encoding the file seems to have."""
    if b"\x00" in line:
        other = "utf-16-be" if start.startswith(b"\x00") else "utf-16"
        raise InputError(
            "this is not a readable CSV file: its header has zero bytes, as UTF-16 "
            f"has; declare encoding='{other}'"
        )
    try:
        text = line.decode()
    except UnicodeDecodeError:
        text = "\ufffd"
    if "\ufffd" in text:
        said = "UTF-8" if encoding.startswith("utf-8") else encoding
        raise InputError(
            f"the header is not {said} text: declare the encoding that the file was "
            "saved in, such as encoding='latin-1' or encoding='cp1252'"
        )
    return text


def _split(
    text: str, wanted: tuple[str, ...], declared: str | None, *, tab: bool
) -> tuple[str, tuple[str, ...]]:
    """Return the delimiter of a header, and its names."""
    order = ("\t", *DELIMITERS) if tab else DELIMITERS
    parsed = {d: _names(text, d) for d in order}
    fitting = [d for d in order if set(wanted) <= set(parsed[d])]
    if declared is None:
        widest = max(order, key=lambda d: len(parsed[d]))
        chosen = (fitting or [widest])[0]
        return chosen, parsed[chosen]
    columns = _names(text, declared)
    if fitting and not set(wanted) <= set(columns):
        shown = "tab" if fitting[0] == "\t" else fitting[0]
        raise InputError(
            f"the header has another delimiter: leave out delimiter=, or declare "
            f"delimiter='{shown}'"
        )
    return declared, columns


def _names(text: str, delimiter: str) -> tuple[str, ...]:
    """Return the names of a header, without spaces and quotes around them."""
    try:
        cells = next(csv.reader([text], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:
        cells = text.split(delimiter)
    return tuple(cell.strip() for cell in cells)


class TextBytes:
    """A text file's bytes as UTF-8, unpacked and without a byte order mark.

    UTF-8 passes as it is: a cell that is none stays as it is, for its own rule. Of other
    encodings a byte that means nothing becomes U+FFFD, and takes in no other.
    """

    def __init__(self, path: Path, encoding: str) -> None:
        with path.open("rb") as file:
            zipped = file.read(2) == _GZIP
        self._file: Any = (gzip.open if zipped else open)(path, "rb")
        self._decoder: codecs.IncrementalDecoder | None = None
        if encoding == "utf-8-sig":
            self._rest = self._file.read(3).removeprefix(codecs.BOM_UTF8)
        elif encoding == "utf-8":
            self._rest = b""
        else:
            self._rest = b""
            self._decoder = codecs.getincrementaldecoder(encoding)("replace")

    def read(self, size: int) -> bytes:
        """Return some more bytes, none at the end."""
        if self._rest:
            rest, self._rest = self._rest, b""
            return rest + self._utf8(size)
        return self._utf8(size)

    def _utf8(self, size: int) -> bytes:
        if self._decoder is None:
            block: bytes = self._file.read(size)
            return block
        while True:
            block = self._file.read(size)
            text = self._decoder.decode(block, final=not block)
            if text or not block:
                return text.encode()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _first_lines(path: Path, encoding: str) -> Iterator[bytes]:
    """Yield the lines of a file from the first on, with their ends."""
    file, text = TextBytes(path, encoding), b""
    try:
        while block := file.read(_CHUNK):
            text += block
            while (end := _LINE_END.search(text)) and end.end() < len(text):
                yield text[: end.end()]
                text = text[end.end() :]
            if len(text) > _LONGEST_HEADER:
                break
        yield text
    finally:
        file.close()


# -- numbers that a model takes ----------------------------------------------


def features(values: FloatVector, cells: Sequence[object]) -> NDArray[Any]:
    """Return a model's numbers, with a mark where a cell is neither number nor missing.

    A model may replace what is missing. A cell that could not be read must not pass for
    a missing one: its row has no score.
    """
    lost = [k for k in np.flatnonzero(np.isnan(values)).tolist() if _holds(cells[k])]
    if not lost:
        return values
    marked = values.astype(object)
    marked[lost] = _UNREAD
    return marked


def unread(cell: object) -> bool:
    """Say whether a cell is neither a number nor missing.

    >>> [unread(cell) for cell in ("0,5", b"n.a.", "NA", "", None, "0.5", 0.5, math.nan)]
    [True, True, False, False, False, False, False, False]
    """
    return math.isnan(number(cell)) and _holds(cell)


def _holds(cell: object) -> bool:
    """Say whether a cell that is no number holds something."""
    if isinstance(cell, bytes):
        cell = cell.decode(errors="replace")
    if isinstance(cell, str):
        return cell.strip().lower() not in _MISSING
    return cell is not None and not isinstance(cell, numbers.Number)


# -- what is wrong with cells, in counts -------------------------------------


@dataclass
class OddCells:
    """Score cells that are no numbers, by what would read them."""

    format: FileFormat
    options: frozenset[str]
    """Which keywords the source takes."""
    what: str = "scores"
    cells: int = 0
    odd: int = 0
    dates: int = 0
    needs: Counter[str] = field(default_factory=Counter)
    grouping: Counter[str] = field(default_factory=Counter)

    def add(self, cells: Iterable[object]) -> None:
        """Look at all cells of a column, each by itself."""
        for cell in cells:
            self.cells += 1
            if isinstance(cell, date):
                self.dates += 1
            elif isinstance(cell, bytes | str) and math.isnan(self.format.number(cell)):
                text = cell if isinstance(cell, str) else cell.decode(errors="replace")
                self._judge(text.strip())

    def _judge(self, text: str) -> None:
        if text.lower() in _MISSING:
            return
        self.odd += 1
        bare = text.removesuffix("%").rstrip()
        if bare != text and not self.format.percent:
            self.needs["percent"] += 1
        if self.format.decimal == "." and _COMMA_CELL.fullmatch(bare):
            self.needs["decimal"] += 1
        elif self.format.decimal == "," and _POINT_CELL.fullmatch(bare):
            self.needs["point"] += 1
        elif self.format.thousands is None and (
            grouped := _GROUPED_CELL.fullmatch(bare)
        ):
            self.needs["thousands"] += 1
            self.grouping[grouped[1]] += 1
            if grouped[2] not in (None, self.format.decimal):
                self.needs["decimal" if grouped[2] == "," else "point"] += 1

    def _most_grouping(self) -> str:
        return max(self.grouping, key=lambda c: self.grouping[c], default="")

    def complaint(self) -> str | None:
        """Say how many cells are odd and which option reads them; None for none."""
        if self.dates:
            return (
                f"{self.dates} of {self.cells} {self.what} are dates, as spreadsheets make of "
                "numbers with a point: format the column as numbers and save it again"
            )
        if not self.odd:
            return None
        what = {
            "decimal": ("a decimal comma", "decimal=','"),
            "point": ("a decimal point", "decimal='.'"),
            "thousands": ("grouped digits", f"thousands='{self._most_grouping()}'"),
            "percent": ("a percent sign", "percent=True"),
        }
        seen = [name for name in what if self.needs[name]]
        how = f"{self.odd} of {self.cells} {self.what} are"
        if not seen and self.odd < self.cells:
            return f"{how} text and no numbers; leave out these rows"
        if not seen:
            named = "score= names" if self.what == "scores" else "inputs= names"
            return f"{how} text and no numbers: check which column {named}"
        marks = " and ".join(what[name][0] for name in seen)
        declared = {"decimal" if name == "point" else name for name in seen}
        if not declared <= self.options:
            return f"{how} text with {marks}: convert them to numbers first"
        options = " and ".join(what[name][1] for name in seen)
        return f"{how} written with {marks}: declare {options}"


def ragged(lines: int, delimiter: str) -> str:
    """Say what is wrong with lines of other numbers of cells than the header."""
    comma = ""
    if delimiter == ",":
        comma = "; a decimal comma needs quotes, or another delimiter"
    return (
        f"{lines} lines have more or fewer cells than the header: a CSV file needs as "
        f"many cells in every row, and a row is one line{comma}"
    )


def rewritten(columns: int, delimiter: str) -> bytes:
    """Return a header of places, whatever the file's own names are."""
    return delimiter.join(f"c{k}" for k in range(columns)).encode() + b"\n"

"""SQL as text: what a column holds, how an engine writes it, queries made of queries.

Expressions over a query name its columns by ``t_.``, quoted, so that a column may be called
anything. Texts are compared byte by byte, as here, never by a column's collation: a
collation under which 'a' equals 'A' would show one row's capital in all rows of its group.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from discreet.errors import InputError


class Holds(Enum):
    """What the cells of a column are, as far as the engine says so."""

    FLOAT = "doubles and floats"
    INTEGER = "whole numbers that 64 bits with a sign hold"
    WIDE = "whole numbers of more bits"
    DECIMAL = "decimals"
    BOOLEAN = "truth values"
    TEXT = "texts"
    BYTES = "bytes"
    ANY = "SQLite's cells, each of a type of its own"
    OTHER = "dates and all else"


@dataclass(frozen=True, slots=True)
class Column:
    """An expression, and what it holds."""

    sql: str
    holds: Holds
    digits: int | None = None
    """How many digits decimals have, where the engine says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How an engine writes what is asked of it; ``{0}`` stands for an expression."""

    name: str
    title: str
    double: str = "DOUBLE"
    whole: str = "BIGINT"
    text: str = "VARCHAR"
    quote: str = '"'
    bytewise: str
    """What is equal only where two texts are, byte by byte."""
    shown: str | None = None
    """A text of a group, where ``bytewise`` is no text to read."""
    floor: str = "CAST(FLOOR({0}) AS BIGINT)"
    truncated: str | None = None
    """The floor of what is whole or not negative, where ``floor`` asks several times."""
    once: str = ""
    """What at a query's end keeps an aggregate around it from working it out anew."""
    nan: str | None = None
    """How NaN is asked for; None where a double is never NaN, but NULL."""
    every_decimal: bool = False
    """Whether casts of decimals of any length give the nearest double."""
    escapes: bool = False
    """Whether a backslash in a text escapes what follows it."""
    tested: bool = True
    """Whether the engine is tested to count as NumPy does, at every edge's floats."""

    def quoted(self, name: str) -> str:
        """Return a name as the engine takes it, whatever it contains."""
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def literal(self, text: str) -> str:
        """Return a text as the engine takes it."""
        if self.escapes:
            text = text.replace("\\", "\\\\")
        return "'" + text.replace("'", "''") + "'"

    def table(self, name: str) -> str:
        """Return a table's name, with its schema before a dot where it has one."""
        return ".".join(map(self.quoted, name.split(".")))

    def column(self, name: str, holds: Holds, digits: int | None = None) -> Column:
        """Return a column as expressions over its query name it."""
        return Column(f"t_.{self.quoted(name)}", holds, digits)

    def missing(self, number: str) -> str:
        """Say whether a number is none: NULL, or NaN where the engine has it."""
        if self.nan is None:
            return f"({number} IS NULL)"
        return f"({number} IS NULL OR {self.nan.format(number)})"

    def null(self, kind: str | None = None) -> str:
        """Return NULL of a type, by default a double."""
        return f"CAST(NULL AS {kind or self.double})"

    def text_of(self, column: Column) -> Column:
        """Return the texts of a column of other things, as the engine writes them."""
        return Column(f"CAST({column.sql} AS {self.text})", Holds.TEXT)

    def key(self, column: Column) -> str:
        """Return what tells a column's cells apart: texts byte by byte."""
        collated = column.holds in (Holds.TEXT, Holds.ANY)
        return self.bytewise.format(column.sql) if collated else column.sql

    def of_group(self, column: Column) -> Column:
        """Return what a group shows of a column by whose ``key`` it was made."""
        if column.holds is not Holds.TEXT or self.shown is None:
            return replace(column, sql=self.key(column))
        return replace(column, sql=self.shown.format(column.sql))

    def equal(self, column: Column, text: str) -> str:
        """Say whether a cell is this text, byte by byte; a missing one is not."""
        if column.holds not in (Holds.TEXT, Holds.ANY):
            column = self.text_of(column)
        given = self.literal(text)
        if self.shown is not None:
            given = self.bytewise.format(given)
        return f"({column.sql} IS NOT NULL AND {self.key(column)} = {given})"


DUCKDB: Final = Dialect(
    name="duckdb",
    title="DuckDB",
    # A cast alone keeps the collation; without one an enumeration would have none.
    bytewise='(CAST({0} AS VARCHAR) COLLATE "binary")',
    nan="isnan({0})",
)
SQLITE: Final = Dialect(
    name="sqlite",
    title="SQLite",
    double="REAL",
    whole="INTEGER",
    text="TEXT",
    bytewise="({0} COLLATE BINARY)",
    # Its builds may lack FLOOR; its casts cut off.
    floor="(CAST({0} AS INTEGER) - ({0} < CAST({0} AS INTEGER)))",
    truncated="CAST({0} AS INTEGER)",
    once="LIMIT -1",
)
POSTGRES: Final = Dialect(
    name="postgres",
    title="PostgreSQL",
    double="DOUBLE PRECISION",
    text="TEXT",
    bytewise='({0} COLLATE "C")',
    nan="({0} = 'NaN')",
    every_decimal=True,
)
MARIADB: Final = Dialect(
    name="mariadb",
    title="MariaDB",
    whole="SIGNED",
    text="CHAR",
    quote="`",
    # Even its binary collations ignore last spaces. In one character set, since a
    # column may have another than what it is compared with.
    bytewise="HEX(CONVERT({0} USING utf8mb4))",
    shown="MAX({0})",
    floor="CAST(FLOOR({0}) AS SIGNED)",
    escapes=True,
)
MYSQL: Final = replace(MARIADB, name="mysql", title="MySQL", tested=False)
SPARK: Final = Dialect(
    name="pyspark",
    title="Spark",
    text="STRING",
    quote="`",
    bytewise="({0} COLLATE UTF8_BINARY)",
    nan="isnan({0})",
    escapes=True,
)
DIALECTS: Final = {d.name: d for d in (DUCKDB, SQLITE, POSTGRES, MARIADB, SPARK)}
"""Of the engines that count in place."""


@dataclass(frozen=True, eq=False)
class Query:
    """A table or a SELECT: what stands after FROM, and its columns."""

    dialect: Dialect
    source: str
    columns: dict[str, Column]

    @classmethod
    def over(
        cls, dialect: Dialect, source: str, columns: Iterable[tuple[str, Column]]
    ) -> Query:
        """Return a query whose columns the engine has told."""
        told = list(columns)
        if len({name for name, _ in told}) < len(told):
            raise InputError("two columns have the same name")
        return cls(dialect, source, dict(told))

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def some(self, names: Iterable[str]) -> dict[str, Column]:
        """Return some of the columns."""
        return {name: self.columns[name] for name in names}

    def select(
        self,
        columns: Mapping[str, Column],
        *,
        where: str | None = None,
        by: Sequence[str] = (),
        more: str = "",
    ) -> Query:
        """Return the query for some expressions over this one."""
        dialect = self.dialect
        listed = ",\n  ".join(
            f"{column.sql} AS {dialect.quoted(name)}"
            for name, column in columns.items()
        )
        text = f"SELECT\n  {listed}\nFROM {self.source} AS t_"
        if where is not None:
            text += f"\nWHERE {where}"
        if by:
            text += f"\nGROUP BY {', '.join(by)}"
        if more:
            text += f"\n{more}"
        named = {n: dialect.column(n, c.holds, c.digits) for n, c in columns.items()}
        return Query(dialect, bracketed(text), named)

    @property
    def statement(self) -> str:
        """The query itself."""
        if self.source.startswith(_OPEN):
            return self.source.removeprefix(_OPEN).removesuffix(_CLOSE)
        return f"SELECT * FROM {self.source}"  # noqa: S608 - a quoted name


# On lines of their own: a comment at the end of a query swallows its line.
_OPEN, _CLOSE = "(\n", "\n)"


def bracketed(statement: str) -> str:
    """Return a statement as it stands after FROM."""
    return f"{_OPEN}{statement}{_CLOSE}"


def cases(*each: tuple[str, str], otherwise: str) -> str:
    """Return the value of the first condition that holds.

    >>> cases(("a < 0", "0"), otherwise="a")
    'CASE WHEN a < 0 THEN 0 ELSE a END'
    """
    whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in each)
    return f"CASE {whens} ELSE {otherwise} END"


_PLAIN: Final = r"'(?:[^']|'')*'"
_ESCAPED: Final = r"'(?:[^'\\]|''|\\.)*'"
_REST: Final = (
    r'"(?:[^"]|"")*"|`[^`]*`|(?P<comment>--[^\n]*|/\*.*?\*/)'
    r"|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$|(?P<end>;)|\s+|."
)


def one_statement(text: str, dialect: Dialect) -> str:
    r"""Return a statement that somebody wrote, without what ends it; refuse several.

    The engines refuse several, too: this says so in the same words everywhere, and lets
    a ``;`` and comments stand at the end.

    >>> one_statement("SELECT ';' FROM a -- all; of them\n; -- really", DUCKDB)
    "SELECT ';' FROM a -- all; of them\n"
    """
    literal = _ESCAPED if dialect.escapes else _PLAIN
    end = None
    for token in re.finditer(f"{literal}|{_REST}", text, re.DOTALL):
        if token["end"]:
            end = token.start() if end is None else end
        elif end is not None and not token["comment"] and token[0].strip():
            raise InputError("one SELECT is asked for, not several statements")
    return text[:end]

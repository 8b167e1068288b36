"""The drivers of engines: what a query's columns hold, and its rows as Arrow batches.

Connections that are opened here can only read. One connection answers one question at a
time. What drivers raise quotes addresses, users and values: callers pass none of it on.
"""

from __future__ import annotations

import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import pyarrow as pa

from discreet.data.batches import BATCH_ROWS
from discreet.data.sql import (
    DUCKDB,
    MARIADB,
    MYSQL,
    POSTGRES,
    SPARK,
    SQLITE,
    Dialect,
    Holds,
    Query,
)
from discreet.errors import InputError
from discreet.optional import load

_ARROW: Final = {
    Holds.FLOAT: pa.float64(),
    Holds.INTEGER: pa.int64(),
    Holds.BOOLEAN: pa.bool_(),
    Holds.TEXT: pa.string(),
    Holds.BYTES: pa.binary(),
}
"""The types of cells that a driver hands over one by one; Arrow sees for itself what
the others are."""


Told: TypeAlias = tuple[str, Holds, int | None]
"""A column's name, what it holds, and how many digits its decimals have."""


class Engine(ABC):
    """A connection, and how its driver is asked."""

    dialect: Dialect

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def query(self, source: str) -> Query:
        """Return the query of what stands after FROM; no row is read."""
        told = self._columns(f"SELECT * FROM {source} AS t_ LIMIT 0")  # noqa: S608 - quoted names, or the site's own words with its own rights
        return Query.over(
            self.dialect,
            source,
            ((n, self.dialect.column(n, holds, digits)) for n, holds, digits in told),
        )

    @abstractmethod
    def _columns(self, statement: str) -> Iterable[Told]:
        """Return the columns of a SELECT, in its order."""

    @abstractmethod
    def batches(self, query: Query) -> Iterator[pa.RecordBatch]:
        """Run a query."""

    def pace(self) -> float | None:
        """Say which share of a running query is done, where the engine knows."""
        return None


class DuckDB(Engine):
    """DuckDB 1.4 and later."""

    dialect = DUCKDB
    _holds: ClassVar = {
        **dict.fromkeys(("double", "float"), Holds.FLOAT),
        **dict.fromkeys(("tinyint", "smallint", "integer", "bigint"), Holds.INTEGER),
        **dict.fromkeys(("utinyint", "usmallint", "uinteger"), Holds.INTEGER),
        **dict.fromkeys(("ubigint", "hugeint", "uhugeint"), Holds.WIDE),
        **dict.fromkeys(("varchar", "enum"), Holds.TEXT),
        "decimal": Holds.DECIMAL,
        "boolean": Holds.BOOLEAN,
        "blob": Holds.BYTES,
    }

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self._reading: Any = None

    @classmethod
    def opened(cls, path: str = ":memory:") -> DuckDB:
        """Open a file that exists, or a database in memory."""
        given = {} if path == ":memory:" else {"read_only": True}
        connection = load("duckdb", "sql").connect(path, **given)
        connection.execute("SET enable_progress_bar = true")  # so that it can be asked
        connection.execute("SET enable_progress_bar_print = false")
        # A table's name that it does not know is no variable of this program.
        connection.execute("SET python_enable_replacements = false")
        return cls(connection)

    def _asked(self, statement: str) -> Any:
        if len(self.connection.extract_statements(statement)) != 1:
            raise InputError("one SELECT is asked for, not several statements")
        self._stop()
        return self.connection.sql(statement)

    def _stop(self) -> None:
        """End the last reading: DuckDB 2 refuses a question while rows are left."""
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    def _columns(self, statement: str) -> Iterator[Told]:
        asked = self._asked(statement)
        for name, kind in zip(asked.columns, asked.types, strict=True):
            decimal = kind.id == "decimal"
            digits = dict(kind.children)["precision"] if decimal else None
            yield name, self._holds.get(kind.id, Holds.OTHER), digits

    def batches(self, query: Query) -> Iterator[pa.RecordBatch]:
        """Run a query, and yield its rows while it runs."""
        asked = self._asked(query.statement)
        # Newer drivers warn of the old name. What ``execute`` returns would be copied.
        newer = hasattr(asked, "to_arrow_reader")
        reader = (asked.to_arrow_reader if newer else asked.fetch_arrow_reader)(
            BATCH_ROWS
        )
        self._reading = reader
        with closing(reader):
            yield from reader

    def pace(self) -> float | None:
        """Ask for the progress of the running query."""
        percent = float(self.connection.query_progress())
        return percent / 100 if percent >= 0 else None


class _Cells(Engine):
    """Engines whose drivers hand over rows as tuples of cells."""

    def batches(self, query: Query) -> Iterator[pa.RecordBatch]:
        """Run a query, and yield a few rows at a time."""
        names = list(query.columns)
        types = [_ARROW.get(column.holds) for column in query.columns.values()]
        cursor = self._cursor()
        try:
            cursor.execute(query.statement)
            while rows := cursor.fetchmany(BATCH_ROWS):
                # Eight times as fast as ``zip(*rows)``, which has an iterator a row.
                arrays = [
                    pa.array([r[k] for r in rows], t) for k, t in enumerate(types)
                ]
                yield pa.RecordBatch.from_arrays(arrays, names=names)
        finally:
            with suppress(Exception):  # of a transaction that has ended
                cursor.close()

    def _cursor(self) -> Any:
        return self.connection.cursor()


class SQLite(_Cells):
    """SQLite, whose columns may hold anything."""

    dialect = SQLITE

    @classmethod
    def opened(cls, path: str) -> SQLite:
        """Open a file that exists."""
        import sqlite3  # noqa: PLC0415 - some builds of Python lack it

        connection = sqlite3.connect(
            f"{Path(path).absolute().as_uri()}?mode=ro",
            uri=True,
            check_same_thread=False,
        )
        connection.execute("PRAGMA query_only = ON")
        return cls(connection)

    def _columns(self, statement: str) -> Iterator[Told]:
        with closing(self.connection.execute(statement)) as cursor:
            for name, *_ in cursor.description:
                yield name, Holds.ANY, None


class Postgres(_Cells):
    """PostgreSQL, by psycopg 3."""

    dialect = POSTGRES
    _holds: ClassVar = {
        16: Holds.BOOLEAN,
        17: Holds.BYTES,
        **dict.fromkeys((20, 21, 23), Holds.INTEGER),
        **dict.fromkeys((25, 1043), Holds.TEXT),
        **dict.fromkeys((700, 701), Holds.FLOAT),
        1700: Holds.DECIMAL,
    }
    """By the numbers of PostgreSQL's own types, which never change."""
    _numbers: ClassVar = itertools.count()

    @classmethod
    def opened(cls, address: str) -> Postgres:
        """Connect as libpq's variables and files say where the address is silent."""
        connection = load("psycopg", "sql").connect(address, autocommit=True)
        # Of the connection's own ``read_only`` a statement outside of a transaction of
        # psycopg's would not know.
        connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
        return cls(connection)

    def _columns(self, statement: str) -> Iterator[Told]:
        with self.connection.cursor() as cursor:
            # Prepared, it is one statement or an error.
            cursor.execute(statement, prepare=True)
            for column in cursor.description:
                holds = self._holds.get(column.type_code, Holds.OTHER)
                yield column.name, holds, column.precision

    def _cursor(self) -> Any:
        """Return a cursor on the server: a plain one would fetch all rows at once.

        Each has a name of its own, since one that an error left behind keeps its name;
        it outlives a transaction, since there is none around it. It sends bytes: to write
        and read the digits of doubles takes a fifth of a count.
        """
        name = f"discreet_{next(self._numbers)}"
        return self.connection.cursor(name, withhold=True, binary=True)


class MySQL(_Cells):
    """MariaDB, and MySQL, from which rows are read; by PyMySQL."""

    _holds: ClassVar = {
        **dict.fromkeys((4, 5), Holds.FLOAT),
        **dict.fromkeys((0, 246), Holds.DECIMAL),
        **dict.fromkeys((1, 2, 3, 8, 9, 13), Holds.INTEGER),
        **dict.fromkeys(range(249, 255), Holds.TEXT),
    }
    """By the numbers of the protocol's types."""
    _LONGLONG, _UNSIGNED, _BINARY = 8, 32, 63
    _options: ClassVar = frozenset({"unix_socket", "ssl_ca", "ssl_cert", "ssl_key"})

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        other = "MariaDB" not in connection.get_server_info()
        self.dialect = MYSQL if other else MARIADB

    @classmethod
    def opened(cls, parts: SplitResult) -> MySQL:
        """Connect as MYSQL_PWD and ~/.my.cnf say where the address is silent."""
        given = dict(parse_qsl(parts.query))
        if not cls._options.issuperset(given):
            known = ", ".join(sorted(cls._options))
            raise InputError(f"an address of MySQL or MariaDB takes {known} alone")
        connection = load("pymysql", "mysql").connect(
            host=parts.hostname,
            port=parts.port or 0,  # the driver's own
            user=unquote(parts.username) if parts.username else None,
            password=os.environ.get("MYSQL_PWD", ""),
            database=unquote(parts.path.strip("/")) or None,
            charset="utf8mb4",
            autocommit=True,
            read_default_file=str(Path("~/.my.cnf").expanduser()),
            **given,
        )
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION READ ONLY")
        return cls(connection)

    def _columns(self, statement: str) -> Iterator[Told]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            # ``description`` tells neither signs from none nor texts from bytes.
            fields = cursor._result.fields  # noqa: SLF001
        for field in fields:
            holds = self._holds.get(field.type_code, Holds.OTHER)
            unsigned = bool(field.flags & self._UNSIGNED)
            if holds is Holds.TEXT and field.charsetnr == self._BINARY:
                holds = Holds.BYTES
            if field.type_code == self._LONGLONG and unsigned:
                holds = Holds.WIDE
            # Of decimals the protocol tells the width, with a sign and a point.
            digits = field.length - (not unsigned) - (field.scale > 0)
            yield field.name, holds, digits

    def _cursor(self) -> Any:
        """Return a cursor that does not fetch all rows at once."""
        return self.connection.cursor(load("pymysql.cursors", "mysql").SSCursor)


class Spark(Engine):
    """A Spark session."""

    dialect = SPARK
    _holds: ClassVar = {
        **dict.fromkeys(("double", "float"), Holds.FLOAT),
        **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), Holds.INTEGER),
        **dict.fromkeys(("string", "varchar", "char"), Holds.TEXT),
        "decimal": Holds.DECIMAL,
        "boolean": Holds.BOOLEAN,
        "binary": Holds.BYTES,
    }

    def _columns(self, statement: str) -> Iterator[Told]:
        for field in self.connection.sql(statement).schema:
            # Without the length, the precision or the collation behind it.
            kind = field.dataType.simpleString().partition("(")[0].split()[0]
            digits = field.dataType.precision if kind == "decimal" else None
            yield field.name, self._holds.get(kind, Holds.OTHER), digits

    def batches(self, query: Query) -> Iterator[pa.RecordBatch]:
        """Run a query, and fetch its rows all at once."""
        table = self.connection.sql(query.statement).toArrow()
        return iter(table.to_batches(max_chunksize=BATCH_ROWS))

    def pace(self) -> float | None:
        """Return the share of the tasks of all running stages that are done."""
        tracker = self.connection.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(k) for k in tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]
        tasks = sum(stage.numTasks for stage in known)
        return sum(s.numCompletedTasks for s in known) / tasks if tasks else None


def opened(address: str) -> Engine:
    """Connect to an address, or to a file with its engine's name before it."""
    scheme, _, rest = address.partition("://")
    match scheme:
        case "duckdb":
            return DuckDB.opened(rest)
        case "sqlite":
            return SQLite.opened(rest)
        case "postgres" | "postgresql":
            return Postgres.opened(address)
        case "mysql" | "mariadb":
            return MySQL.opened(urlsplit(address))
        case _:
            raise InputError(
                "an address begins with postgres://, mysql://, mariadb://, duckdb:// or "
                "sqlite://; of other engines give an Arrow table, a frame or a file"
            )


def of_connection(connection: Any) -> Engine | None:
    """Return the engine of a driver's own connection or a Spark session; None of others."""
    match type(connection).__module__.partition(".")[0]:
        case "duckdb" | "_duckdb":
            return DuckDB(connection)
        case "sqlite3":
            return SQLite(connection)
        case "psycopg":
            return Postgres(connection)
        case "pymysql":
            return MySQL(connection)
        case "pyspark":
            return Spark(connection)
        case _:
            return None

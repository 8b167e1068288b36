"""Tables and queries of an engine, counted where they are.

DuckDB, SQLite, PostgreSQL, MariaDB and Spark are tested to count as NumPy does, bit by bit,
and count in place; from MySQL, and whatever else Ibis reaches, the rows are read in batches,
and a warning says so. Credentials come from the environment or the driver's own files.
Drivers' messages quote addresses, users and values: none of them is passed on.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa

from discreet.data import pushdown
from discreet.data.arrow_columns import Names, plain_columns
from discreet.data.batches import BATCH_ROWS, PerLabel, RawBatch, RowReader, RowSource
from discreet.data.engines import Engine, Spark, of_connection, opened
from discreet.data.scores import ScoreRange
from discreet.data.sql import Column, Holds, Query, bracketed, one_statement
from discreet.data.times import Rounding
from discreet.errors import DiscreetError, InputError, ReadHereWarning

_SECRETS: Final = frozenset({"password", "pwd", "token", "private_key", "secret"})
_FILES: Final = {
    ".duckdb": "duckdb",
    ".ddb": "duckdb",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
    ".db": "sqlite",
}
"""Files that are databases, by how their names end."""
_KNOWN: Final = (
    (
        re.compile(r"version number \d+, but we can only read"),
        "the file was written by a newer DuckDB: pip install --upgrade duckdb",
    ),
    (
        re.compile(r"Could not set lock on file"),
        "another program writes to this database: close it there, or copy the file",
    ),
)
"""What drivers are known to say of a file, and the sentence for it: none of their words."""


@dataclass(frozen=True)
class Table:
    """A table or query of an engine, before it is said which of its columns count."""

    engine: Engine
    query: Query

    def source(self, names: Names) -> RowSource:
        """Return its rows; one query counts one label."""
        each = tuple(TableSource(self.engine, self.query, one) for one in names.each())
        return _InTurn(each) if names.more else each[0]


@dataclass(frozen=True, eq=False)
class TableSource(RowSource):
    """The rows of an engine's table or query."""

    engine: Engine
    rows: Query
    names: Names

    def __post_init__(self) -> None:
        self.names.check(list(self.rows.columns))

    def __call__(self) -> Iterator[RawBatch]:
        """Read every row, in the engine's order."""
        rows = self.fetched(pushdown.readable(self.rows, self.names))
        return plain_columns(rows, self.names)

    def folded(self, cuts: Sequence[Rounding]) -> Iterator[RawBatch] | None:
        """Have the engine count; None, with a warning, where it must be read."""
        reason = pushdown.obstacle(self.rows, self.names, cuts)
        if reason is not None:
            _warn(self.names, reason)
            return None
        names = replace(self.names, subject=None)
        counts = self.fetched(self._folded(cuts))
        return plain_columns(counts, names, pushdown.weight_name(cuts))

    def bounded(
        self, most: int, scores: ScoreRange, *, alone: bool, strict: bool
    ) -> TableSource | None:
        """Keep at most so many rows of each subject (``alone``), or of all rows."""
        if (alone and self.names.subject is None) or self.names.weight is not None:
            return None  # reading the rows shows what is missing
        names = self.names if alone else replace(self.names, subject=None)
        kept = None
        if (
            self.rows.dialect.name != "sqlite"
        ):  # in any column of which a cell may be text
            kept = pushdown.bounded(self.rows, names, scores, most, strict=strict)
        if kept is None:
            _warn(self.names, "whose rows they are is not told apart there as here")
            return None
        if strict and names.subject is not None:
            self._check_named(names.subject)
        return TableSource(self.engine, kept, replace(names, subject=None))

    def _check_named(self, subject: str) -> None:
        """Refuse rows that name no subject."""
        named = Column(f"COUNT({self.rows[subject].sql})", Holds.INTEGER)
        every = Column("COUNT(*)", Holds.INTEGER)
        (batch,) = self.fetched(self.rows.select({"every": every, "named": named}))
        missing = batch.column(0)[0].as_py() - batch.column(1)[0].as_py()
        if missing:
            raise self.names.problem(
                f"{missing} rows name no subject; a row without one cannot be bounded"
            )

    def query(self, cuts: Sequence[Rounding]) -> str | None:
        """Return what the engine is asked, in its own SQL."""
        if pushdown.obstacle(self.rows, self.names, cuts) is not None:
            return None
        return self._folded(cuts).statement

    def pace(self) -> float | None:
        """Ask DuckDB or Spark how far their query is; others do not say."""
        try:
            return self.engine.pace()
        except Exception:  # noqa: BLE001 - a question of courtesy must end no count
            return None

    def _folded(self, cuts: Sequence[Rounding]) -> Query:
        rows = pushdown.worded(self.rows, self.names)
        return pushdown.folded(rows, self.names, cuts)

    def fetched(self, rows: Query) -> Iterator[pa.RecordBatch]:
        """Run a query of this table; an engine's own message is not passed on."""
        return _guarded(lambda: self.engine.batches(rows), self.names)


class _InTurn(PerLabel):
    """One label after the other: a connection answers one question at a time."""

    def parts(self) -> Sequence[RowReader]:
        """Return all labels' parts as one."""
        each = super().parts()
        return [lambda: chain.from_iterable(part() for part in each)]


@dataclass(frozen=True, eq=False)
class _IbisRows(RowSource):
    """The rows of an engine that Ibis alone reaches: read in batches, never counted."""

    table: Any
    names: Names

    def __post_init__(self) -> None:
        self.names.check(list(self.table.columns))

    def __call__(self) -> Iterator[RawBatch]:
        """Read every row, in the engine's order."""
        rows = self.table.select(*self.names.all())
        batches = _guarded(
            lambda: rows.to_pyarrow_batches(chunk_size=BATCH_ROWS), self.names
        )
        return plain_columns(batches, self.names)

    def folded(self, cuts: Sequence[Rounding]) -> None:
        """Warn that rows are read."""
        del cuts
        _warn(self.names, "this engine is not tested to count as NumPy does")


def _warn(names: Names, reason: str) -> None:
    problem = names.problem(f"rows are read instead of counted: {reason}")
    warnings.warn(str(problem), ReadHereWarning, stacklevel=3)


def _guarded(
    run: Callable[[], Iterable[pa.RecordBatch]], names: Names
) -> Iterator[pa.RecordBatch]:
    """Yield what an engine answers; of its errors only their kind is told."""
    try:
        yield from run()
    except DiscreetError:
        raise
    except Exception as err:  # noqa: BLE001 - each engine has errors of its own
        raise names.problem(
            f"the engine gave up ({type(err).__name__}); its own log says why"
        ) from None


def is_address(source: object) -> bool:
    """Say whether a text or path names a database and no file of rows."""
    return isinstance(source, str | Path) and (
        "://" in str(source) or Path(source).suffix.lower() in _FILES
    )


def connected(
    address: str | Path,
    *,
    table: str | None = None,
    where: str | None = None,
    query: str | None = None,
) -> Table:
    """Connect, and return the table that is meant.

    Args:
        address: such as ``postgres://host/database``, or a DuckDB or SQLite file.
        table: the table's name, with its schema before a dot where it needs one.
        where: which of its rows, as the engine's SQL says it.
        query: a SELECT in the engine's SQL, instead of a table.
    """
    if (table is None) == (query is None) or (where is not None and table is None):
        raise InputError("a database needs table= (and where=), or query=")
    url = _url(str(address))
    try:
        engine = opened(url)
        return _asked(engine, table, where, query)
    except DiscreetError:
        raise
    except Exception as err:  # noqa: BLE001 - each engine has errors of its own
        for pattern, sentence in _KNOWN:
            if pattern.search(str(err)):
                raise InputError(sentence) from None
        raise InputError(
            f"the database could not be opened ({type(err).__name__}); check the "
            "address, the table and the driver's credentials"
        ) from None


def _asked(
    engine: Engine, table: str | None, where: str | None, query: str | None
) -> Table:
    """Return a table, some of its rows, or a query; the engine says what it holds."""
    named = "" if table is None else engine.dialect.table(table)
    if query is not None:
        named = bracketed(one_statement(query, engine.dialect))
    elif where is not None:
        chosen = one_statement(where, engine.dialect)
        # The site's own words, with its own rights, on a line that a comment may end.
        named = bracketed(f"SELECT * FROM {named} WHERE (\n{chosen}\n)")  # noqa: S608
    return Table(engine, engine.query(named))


def _url(address: str) -> str:
    """Return a file as an address; an address with a secret in it is refused."""
    if "://" not in address:
        path = Path(address)
        if not path.is_file():
            raise InputError(f"{path.name}: no such file")
        return f"{_FILES[path.suffix.lower()]}://{path.resolve()}"
    parts = urlsplit(address)
    named = {key.lower() for key, _ in parse_qsl(parts.query)}
    if parts.password is not None or named & _SECRETS:
        raise InputError(
            "an address holds no password: it would be seen in logs and lists of "
            "processes; give it by the environment or the driver's own file, such as "
            "PGPASSWORD, ~/.pgpass, MYSQL_PWD or ~/.my.cnf"
        )
    return address


def engine_table(source: Any) -> Table | None:
    """Return a Spark DataFrame, or an Ibis table, as SQL over its own connection.

    None for tables of engines that Ibis alone reaches.
    """
    try:
        if type(source).__module__.startswith("pyspark"):
            view = f"discreet_{id(source):x}"
            source.createOrReplaceTempView(view)
            engine: Engine | None = Spark(source.sparkSession)
            text = f"SELECT * FROM {view}"  # noqa: S608 - a name of our own
        else:
            engine = _of_ibis(source.get_backend())
            text = "" if engine is None else str(source.compile())
        if engine is None:
            return None
        return Table(engine, engine.query(bracketed(text)))
    except Exception as err:  # noqa: BLE001 - each engine has errors of its own
        raise InputError(
            f"the engine gave up ({type(err).__name__}); its own log says why"
        ) from None


def _of_ibis(backend: Any) -> Engine | None:
    if backend.name == "pyspark":
        return of_connection(backend._session)  # noqa: SLF001 - Ibis has no other way to it
    return of_connection(getattr(backend, "con", None))


def engine_source(source: Any, names: Names) -> RowSource:
    """Return the rows of a Spark DataFrame or an Ibis table."""
    table = engine_table(source)
    if table is not None:
        return table.source(names)
    each = tuple(_IbisRows(source, one) for one in names.each())
    return PerLabel(each) if names.more else each[0]

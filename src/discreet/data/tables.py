"""Tables and queries of an engine, counted where they are.

Anything that Ibis reaches: DuckDB, SQLite, PostgreSQL, MariaDB, MySQL, Snowflake,
BigQuery, Spark. Engines that are tested to count as NumPy does, bit by bit, count in
place; from the others the rows are read in batches, and a warning says so. Credentials
come from the environment or the driver's own files. Drivers' messages quote addresses,
users and values: none of them is passed on.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa

from discreet.data import pushdown
from discreet.data.arrow_columns import Names, plain_columns
from discreet.data.batches import BATCH_ROWS, RawBatch, RowSource
from discreet.data.scores import ScoreRange
from discreet.data.times import Rounding
from discreet.errors import DiscreetError, InputError, ReadHereWarning
from discreet.optional import load

_SECRETS: Final = frozenset({"password", "pwd", "token", "private_key", "secret"})
_FILES: Final = {
    ".duckdb": "duckdb",
    ".ddb": "duckdb",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
    ".db": "sqlite",
}
"""Files that are databases, by how their names end."""


@dataclass(frozen=True, eq=False)
class TableSource(RowSource):
    """The rows of an Ibis table or query."""

    table: Any
    names: Names

    def __post_init__(self) -> None:
        self.names.check(list(self.table.columns))

    @property
    def engine(self) -> str:
        """What Ibis calls the engine; MariaDB's name where it answers for MySQL."""
        backend = self.table.get_backend()
        if backend.name == "mysql" and "MariaDB" in backend.con.get_server_info():
            return "mariadb"
        return str(backend.name)

    def __call__(self) -> Iterator[RawBatch]:
        """Read every row, in the engine's order."""
        engine, counted = self.engine, self.names.numbers()
        numbers = {name: pushdown.number(self.table[name], engine) for name in counted}
        rows = self._worded().mutate(
            **{name: column for name, column in numbers.items() if column is not None}
        )
        return plain_columns(self._run(rows), self.names)

    def folded(self, cuts: Sequence[Rounding]) -> Iterator[RawBatch] | None:
        """Have the engine count; None, with a warning, where it must be read."""
        reason = pushdown.obstacle(self.table, self.names, cuts, self.engine)
        if reason is not None:
            self._warn(reason)
            return None
        names = replace(self.names, subject=None)
        counts = self._run(self._folded(cuts))
        return plain_columns(counts, names, pushdown.weight_name(cuts))

    def bounded(
        self, most: int, scores: ScoreRange, *, alone: bool, strict: bool
    ) -> TableSource | None:
        """Keep at most so many rows of each subject (``alone``), or of all rows."""
        if (alone and self.names.subject is None) or self.names.weight is not None:
            return None  # reading the rows shows what is missing
        names = self.names if alone else replace(self.names, subject=None)
        kept = None
        if self.engine != "sqlite":  # in any column of which a cell may be text
            kept = pushdown.bounded(
                self.table, names, scores, most, self.engine, strict=strict
            )
        if kept is None:
            self._warn("whose rows they are is not told apart there as here")
            return None
        if strict and names.subject is not None:
            nobody = self.table.aggregate(n=self.table[names.subject].isnull().sum())
            (missing,) = (b.column(0)[0].as_py() or 0 for b in self._run(nobody))
            if missing:
                raise self.names.problem(
                    f"{missing} rows name no subject; a row without one cannot be "
                    "bounded"
                )
        return TableSource(kept, replace(names, subject=None))

    def query(self, cuts: Sequence[Rounding]) -> str | None:
        """Return what the engine is asked, in its own SQL."""
        if pushdown.obstacle(self.table, self.names, cuts, self.engine) is not None:
            return None
        return str(load("ibis", "sql").to_sql(self._folded(cuts)))

    def pace(self) -> float | None:
        """Ask DuckDB or Spark how far their query is; others do not say."""
        backend = self.table.get_backend()
        try:
            if self.engine == "duckdb":
                percent = float(backend.con.query_progress())
                return percent / 100 if percent >= 0 else None
            if self.engine == "pyspark":
                return _spark_pace(backend._session.sparkContext.statusTracker())  # noqa: SLF001 - Ibis has no other way
        except Exception:  # noqa: BLE001 - a question of courtesy must end no count
            return None
        return None

    @property
    def _words(self) -> list[str]:
        names = (self.names.label, self.names.group, self.names.subject)
        return [name for name in names if name is not None]

    def _worded(self) -> Any:
        """Ask for labels, groups and subjects so that any cell can be fetched."""
        rows = self.table.select(*self.names.all())
        return rows.mutate(
            **{name: pushdown.word(rows[name], self.engine) for name in self._words}
        )

    def _folded(self, cuts: Sequence[Rounding]) -> Any:
        return pushdown.folded(self._worded(), self.names, cuts, self.engine)

    def _warn(self, reason: str) -> None:
        problem = self.names.problem(f"rows are read instead of counted: {reason}")
        warnings.warn(str(problem), ReadHereWarning, stacklevel=3)

    def _batches(self, rows: Any) -> Iterator[pa.RecordBatch]:
        if self.engine != "pyspark":
            return iter(rows.to_pyarrow_batches(chunk_size=BATCH_ROWS))
        # Ibis fetches from Spark by way of pandas, one row after the other.
        backend = self.table.get_backend()
        backend._run_pre_execute_hooks(rows)  # noqa: SLF001 - as Ibis itself does first
        arrow = backend._session.sql(backend.compile(rows)).toArrow()  # noqa: SLF001
        return iter(arrow.to_batches(max_chunksize=BATCH_ROWS))

    def _run(self, rows: Any) -> Iterator[pa.RecordBatch]:
        for batch in self.fetched(rows):
            yield self._decoded(batch) if self.engine == "sqlite" else batch

    def fetched(self, rows: Any) -> Iterator[pa.RecordBatch]:
        """Run a query of this table; an engine's own message is not passed on."""
        try:
            yield from self._batches(rows)
        except DiscreetError:
            raise
        except Exception as err:  # noqa: BLE001 - each engine has errors of its own
            raise self.names.problem(
                f"the engine gave up ({type(err).__name__}); its own log says why"
            ) from None

    def _decoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = {
            name: pushdown.unhexed(column) if name in self._words else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
        return pa.RecordBatch.from_pydict(columns)


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
) -> Any:
    """Connect, and return the Ibis table that is meant.

    Args:
        address: such as ``postgres://host/database``, or a DuckDB or SQLite file.
        table: the table's name, with its schema before a dot where it needs one.
        where: which of its rows, as the engine's SQL says it.
        query: a SELECT in the engine's SQL, instead of a table.
    """
    if (table is None) == (query is None) or (where is not None and table is None):
        raise InputError("a database needs table= (and where=), or query=")
    ibis = load("ibis", "sql")
    url, options = _url(str(address))
    try:
        backend = ibis.connect(url, **options)
        if backend.name == "duckdb":  # so that it can be asked how far a query is
            backend.raw_sql("SET enable_progress_bar = true")
            backend.raw_sql("SET enable_progress_bar_print = false")
        if backend.name == "sqlite":
            return _untyped(backend, table, where, query)
        if query is not None:
            return backend.sql(query)
        if where is not None:
            return backend.sql(f"SELECT * FROM {table} WHERE {where}")  # noqa: S608 - the site's own words, with its own rights
        schema, _, name = (table or "").rpartition(".")
        return backend.table(name, database=schema or None)
    except Exception as err:  # noqa: BLE001 - each engine has errors of its own
        raise InputError(
            f"the database could not be opened ({type(err).__name__}); check the "
            "address, the table and the driver's credentials"
        ) from None


def _untyped(
    backend: Any, table: str | None, where: str | None, query: str | None
) -> Any:
    """Return a table of SQLite without asking what its columns hold.

    Ibis takes the types of columns that declare none from the first row, and refuses
    columns in which it is missing.
    """
    if query is None:
        parts = [] if table is None else table.split(".")
        named = (
            table if where else ".".join(f'"{p.replace(chr(34), "")}"' for p in parts)
        )
        query = f"SELECT * FROM {named} WHERE {where or 'TRUE'}"  # noqa: S608 - as above
    nothing = backend.con.execute(f"SELECT * FROM ({query}) LIMIT 0")  # noqa: S608
    names = [column[0] for column in nothing.description]
    return backend.sql(query, schema=dict.fromkeys(names, "string"))


def _url(address: str) -> tuple[str, dict[str, Any]]:
    """Return an address as Ibis takes it, and what else its driver should know."""
    if "://" not in address:
        path = Path(address)
        if not path.is_file():
            raise InputError(f"{path.name}: no such file")
        engine = _FILES[path.suffix.lower()]
        return f"{engine}://{path.resolve()}", (
            {"read_only": True} if engine == "duckdb" else {}
        )
    parts = urlsplit(address)
    named = {key.lower() for key, _ in parse_qsl(parts.query)}
    if parts.password is not None or named & _SECRETS:
        raise InputError(
            "an address holds no password: it would be seen in logs and lists of "
            "processes; give it by the environment or the driver's own file, such as "
            "PGPASSWORD, ~/.pgpass or MYSQL_PWD"
        )
    if parts.scheme in ("postgres", "postgresql") and parts.port is None:
        return address, {"port": None}  # so that PGPORT counts
    if parts.scheme == "mysql" and "MYSQL_PWD" in os.environ:
        # Ibis gives an empty password where none is given, and that one would count.
        return address, {"password": os.environ["MYSQL_PWD"]}
    return address, {}


def _spark_pace(tracker: Any) -> float | None:
    """Return the share of the tasks of all running stages that are done."""
    stages = [tracker.getStageInfo(k) for k in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    tasks = sum(stage.numTasks for stage in known)
    return sum(stage.numCompletedTasks for stage in known) / tasks if tasks else None


def spark_table(frame: Any) -> Any:
    """Return a Spark DataFrame as an Ibis table of its own session."""
    ibis = load("ibis", "spark")
    backend = ibis.pyspark.connect(frame.sparkSession)
    view = f"discreet_{id(frame):x}"
    frame.createOrReplaceTempView(view)
    return backend.table(view)

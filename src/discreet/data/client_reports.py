"""Tables of clients' reports, counted where they are.

    SELECT symbol, COUNT(*) FROM (SELECT id, MIN(symbol), MAX(symbol) ... GROUP BY id) ...

Reports lie in whatever a company's pipeline writes to: files, folders, a database, Spark. The
engine counts each id once and each symbol; files and frames are counted by DuckDB. What is no
report of the plan is left out and counted beside it: rows of other plans, rows without an id
or with a symbol that the plan does not have, and ids that occur with different symbols, which
no client sends.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from discreet.arrays import IntVector
from discreet.data import pushdown
from discreet.data.arrow_columns import Names
from discreet.data.sources import as_table, parquet_folder
from discreet.data.tables import TableSource, connected, is_address, spark_table
from discreet.errors import InputError
from discreet.optional import load

DEFAULT_TABLE: Final = "reports"
"""Of a database whose table nobody names: what ``discreet collect serve`` writes."""
PLAN_COLUMN: Final = "plan"
_PIECE: Final = 2**20
_BROKEN: Final = (pa.ArrowException, OSError)


@dataclass(frozen=True, slots=True)
class ReportColumns:
    """In which columns reports are.

    Args:
        id: the random id by which repeated reports are told apart.
        symbol: the private symbol.
        plan: the first 16 digits of the plan's digest. Where there is no column "plan",
            all rows are taken to be of the plan that is counted.
    """

    id: str = "id"
    symbol: str = "symbol"
    plan: str = PLAN_COLUMN

    def names(self, title: str) -> Names:
        """Return the columns that every table of reports has, for readers of tables."""
        plan = None if self.plan == PLAN_COLUMN else self.plan
        return _Named((self.symbol,), self.id, plan, title=title)


class _Named(Names):
    """Columns of reports, which other options name than those of scores."""

    def check(self, columns: Sequence[str]) -> None:
        """Refuse a source that lacks a column, or has one twice."""
        missing = [name for name in self.all() if name not in columns]
        if missing:
            raise self.problem(
                f"no column {', '.join(missing)} among {len(columns)}; name the columns "
                "of reports with --id-column, --symbol-column and --plan-column, in "
                "Python with columns=ReportColumns(...)"
            )
        super().check(columns)


@dataclass(frozen=True, eq=False)
class CountedReports:
    """How often each symbol was reported, and what was left out."""

    tally: IntVector
    rows: int
    """All rows that were seen."""
    other_plans: int
    malformed: int
    repeated: int
    contradicting: int
    """Ids that occur with different symbols; none of their rows counts."""

    @property
    def reports(self) -> int:
        """How many reports count."""
        return int(self.tally.sum())

    def __str__(self) -> str:
        left_out = {
            "of other plans": self.other_plans,
            "that are no reports": self.malformed,
            "that repeat a report": self.repeated,
        }
        words = [f"{many:,} {of}" for of, many in left_out.items() if many]
        if self.contradicting:
            words.append(f"those of {self.contradicting:,} ids with different symbols")
        kept = f"{self.reports:,} reports in {self.rows:,} rows"
        return f"{kept}; left out: {', '.join(words)}" if words else kept


def count_reports(
    source: Any,
    *,
    symbols: int,
    plan: str,
    columns: ReportColumns | None = None,
    table: str | None = None,
    where: str | None = None,
    query: str | None = None,
) -> CountedReports:
    """Count reports in the engine that holds them.

    Args:
        source: a Parquet or CSV file, a folder of Parquet files, a frame or Arrow table,
            an Ibis table, a Spark DataFrame, a DuckDB or SQLite file, or an address.
        symbols: how many symbols the plan has.
        plan: the first 16 digits of the plan's digest.
        columns: what the columns are called.
        table: the table of a database.
        where: which of its rows, in the engine's SQL.
        query: a SELECT in the engine's SQL, instead of a table.
    """
    columns = columns or ReportColumns()
    title = Path(source).name if isinstance(source, str | Path) else "the reports"
    rows = _opened(source, columns.names(title), table, where, query)
    engine = TableSource(rows, columns.names(title))
    own, seen = _own(rows, columns, plan, symbols, engine)
    (total,) = _fetched(engine, seen)
    tally: IntVector = np.zeros(symbols, dtype=np.int64)
    contradicting = kept = 0
    for row in _fetched(engine, _by_symbol(own)):
        if row["lowest"] != row["highest"]:
            contradicting += int(row["reports"])
            continue
        tally[int(row["lowest"])] += int(row["reports"])
        kept += int(row["all_rows"])
    every, mine, fitting = (int(total[k] or 0) for k in ("every", "mine", "fitting"))
    return CountedReports(
        tally,
        rows=every,
        other_plans=every - mine,
        malformed=mine - fitting,
        repeated=kept - int(tally.sum()),
        contradicting=contradicting,
    )


def _opened(
    source: Any, names: Names, table: str | None, where: str | None, query: str | None
) -> Any:
    """Return an Ibis table of the reports; files and frames are DuckDB's."""
    package = type(source).__module__.partition(".")[0]
    if is_address(source):
        if table is None and query is None:
            table = DEFAULT_TABLE
        return connected(source, table=table, where=where, query=query)
    if not (table is where is query is None):
        raise InputError("table=, where= and query= are for a database's address")
    if package == "ibis":
        return source
    if package == "pyspark":
        return spark_table(source)
    backend = load("ibis", "sql").duckdb.connect()
    if not isinstance(source, str | Path):
        if package != "pyarrow" and PLAN_COLUMN in list(getattr(source, "columns", ())):
            names = replace(names, group=names.group or PLAN_COLUMN)
        held: Any = as_table(source, names)
    elif str(source).lower().endswith((".csv", ".csv.gz")):
        return _csv(backend, Path(source), names)
    else:
        path = Path(source)
        held = parquet_folder(path, names).dataset if path.is_dir() else None
        held = _parquet(path, names) if held is None else held
    backend.con.register(DEFAULT_TABLE, held)
    return backend.table(DEFAULT_TABLE)


def _csv(backend: Any, path: Path, names: Names) -> Any:
    if not path.is_file():
        raise names.problem("no such file")
    try:
        # DuckDB takes the end of a cut file for its end.
        if path.suffix.lower() == ".gz":
            with gzip.open(path) as unpacked:
                while unpacked.read(_PIECE):
                    pass
        return backend.read_csv(path, header=True, all_varchar=True)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise names.problem("the file was cut or damaged: copy it again") from None
    except Exception as err:  # noqa: BLE001 - DuckDB's quote the file
        raise names.problem(
            f"this is no readable CSV ({type(err).__name__}): it needs UTF-8, a header, "
            "and as many cells in each row; a file that is being written is not read"
        ) from None


def _parquet(path: Path, names: Names) -> Any:
    import pyarrow.dataset as ds  # noqa: PLC0415 - loads pandas where it is installed

    if not path.is_file():
        raise names.problem("no such file")
    if path.suffix.lower() not in (".parquet", ".pq"):
        raise names.problem(
            "the file's name must end in .parquet, .pq, .csv or .csv.gz"
        )
    try:
        return ds.dataset(str(path), format="parquet")
    except _BROKEN:
        raise names.problem("this is not a readable Parquet file") from None


def _own(
    rows: Any, columns: ReportColumns, plan: str, symbols: int, engine: TableSource
) -> tuple[Any, Any]:
    """Return the plan's reports by id and symbol, and how many rows were seen."""
    ibis = load("ibis", "sql")
    name = engine.engine
    number = pushdown.number(rows[columns.symbol], name)
    if number is None and name == "duckdb" and rows[columns.symbol].type().is_string():
        number = rows[columns.symbol].try_cast("float64")
    if number is None:
        raise engine.names.problem(
            f"the column {columns.symbol!r} holds no numbers: symbols are whole numbers"
        )
    identity = pushdown.word(rows[columns.id], name)
    if name == "mariadb" and identity.type().is_string():
        identity = identity.hexdigest("sha256")  # its texts know no capitals
    chosen = rows.select(
        report_=identity,
        symbol_=number,
        named_=rows[columns.id].notnull(),  # SQLite's digits of nothing are a text
        mine_=ibis.literal(True)
        if columns.plan not in rows.columns
        else (_text(rows[columns.plan], name) == plan).fill_null(False),
    )
    # In steps, as in ``pushdown``: a floor of NaN or of a huge number is an error.
    nothing, given = ibis.null("float64"), chosen.symbol_
    ranged = chosen.mutate(
        symbol_=ibis.cases(
            (pushdown.missing(given, name), nothing),
            (given < 0, nothing),
            (given >= symbols, nothing),
            else_=given,
        )
    )
    fits = (
        ranged.mine_ & ranged.named_ & (ranged.symbol_.floor() == ranged.symbol_)
    ).fill_null(False)
    marked = ranged.mutate(fits_=fits)
    seen = marked.aggregate(
        every=marked.count(),
        mine=marked.mine_.ifelse(1, 0).sum(),
        fitting=marked.fits_.ifelse(1, 0).sum(),
    )
    return marked.filter(marked.fits_), seen


def _text(column: Any, engine: str) -> Any:
    return column if engine == "sqlite" else column.cast("string")


def _by_symbol(own: Any) -> Any:
    each = own.group_by("report_").aggregate(
        lowest=own.symbol_.min(), highest=own.symbol_.max(), rows_=own.count()
    )
    return each.group_by("lowest", "highest").aggregate(
        reports=each.count(), all_rows=each.rows_.sum()
    )


def _fetched(engine: TableSource, query: Any) -> Iterator[dict[str, Any]]:
    for batch in engine.fetched(query):
        yield from batch.to_pylist()

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
from discreet.data.engines import DuckDB
from discreet.data.sources import as_table, parquet_folder
from discreet.data.sql import Column, Holds, Query, bracketed, cases
from discreet.data.tables import Table, TableSource, connected, engine_table, is_address
from discreet.errors import InputError

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
    names = columns.names(title)
    opened = _opened(source, names, table, where, query)
    held = TableSource(opened.engine, opened.query, names)
    marked = _marked(held, columns, plan, symbols)
    (total,) = _fetched(held, _seen(marked))
    tally: IntVector = np.zeros(symbols, dtype=np.int64)
    contradicting = kept = 0
    for row in _fetched(held, _by_symbol(marked)):
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
) -> Table:
    """Return a table of the reports; files and frames are DuckDB's."""
    package = type(source).__module__.partition(".")[0]
    if is_address(source):
        if table is None and query is None:
            table = DEFAULT_TABLE
        return connected(source, table=table, where=where, query=query)
    if not (table is where is query is None):
        raise InputError("table=, where= and query= are for a database's address")
    if package in ("ibis", "pyspark"):
        held = engine_table(source)
        if held is None:
            raise names.problem("this engine is not known: give an Arrow table")
        return held
    engine = DuckDB.opened()
    if not isinstance(source, str | Path):
        if package != "pyarrow" and PLAN_COLUMN in list(getattr(source, "columns", ())):
            names = replace(names, group=names.group or PLAN_COLUMN)
        rows: Any = as_table(source, names)
    elif str(source).lower().endswith((".csv", ".csv.gz")):
        return _csv(engine, Path(source), names)
    else:
        path = Path(source)
        rows = parquet_folder(path, names).dataset if path.is_dir() else None
        rows = _parquet(path, names) if rows is None else rows
    engine.connection.register(DEFAULT_TABLE, rows)
    return Table(engine, engine.query(engine.dialect.table(DEFAULT_TABLE)))


def _csv(engine: DuckDB, path: Path, names: Names) -> Table:
    if not path.is_file():
        raise names.problem("no such file")
    try:
        # DuckDB takes the end of a cut file for its end.
        if path.suffix.lower() == ".gz":
            with gzip.open(path) as unpacked:
                while unpacked.read(_PIECE):
                    pass
        told = engine.dialect.literal(str(path))
        read = f"SELECT * FROM read_csv({told}, header = true, all_varchar = true)"  # noqa: S608 - quoted
        return Table(engine, engine.query(bracketed(read)))
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


def _marked(
    held: TableSource, columns: ReportColumns, plan: str, symbols: int
) -> Query:
    """Return every row: its id, its symbol, and whether it is a report of the plan."""
    rows, dialect = held.rows, held.rows.dialect
    symbol = pushdown.number(rows, columns.symbol)
    if symbol is None and dialect.name == "duckdb":
        given = rows[columns.symbol]
        if given.holds is Holds.TEXT:
            symbol = Column(f"TRY_CAST({given.sql} AS DOUBLE)", Holds.FLOAT)
    if symbol is None:
        raise held.names.problem(
            f"the column {columns.symbol!r} holds no numbers: symbols are whole numbers"
        )
    mine = "1 = 1"
    if columns.plan in rows.columns:
        mine = dialect.equal(rows[columns.plan], plan)
    chosen = rows.select(
        {
            "report_": pushdown.word(rows, columns.id),
            "symbol_": symbol,
            "mine_": _flag(mine),
        }
    )
    # In steps, as in ``pushdown``: a floor of NaN or of a huge number is an error.
    given = chosen["symbol_"]
    nothing = dialect.null()
    ranged = chosen.select(
        chosen.some(["report_", "mine_"])
        | {
            "symbol_": Column(
                cases(
                    (dialect.missing(given.sql), nothing),
                    (f"{given.sql} < 0", nothing),
                    (f"{given.sql} >= {symbols}", nothing),
                    otherwise=given.sql,
                ),
                Holds.FLOAT,
            )
        }
    )
    value = ranged["symbol_"].sql
    whole = f"CAST({dialect.floor.format(value)} AS {dialect.double})"
    fits = (f"{ranged['mine_'].sql} = 1", f"{ranged['report_'].sql} IS NOT NULL")
    return ranged.select(
        ranged.some(["report_", "symbol_", "mine_"])
        | {"fits_": _flag(" AND ".join([*fits, f"{whole} = {value}"]))}
    )


def _flag(condition: str) -> Column:
    """Return 1 where a condition holds, and 0 where it does not or nobody knows."""
    return Column(cases((condition, "1"), otherwise="0"), Holds.INTEGER)


def _seen(marked: Query) -> Query:
    """Return how many rows there are, of the plan, and that are reports."""
    return marked.select(
        {
            "every": _count(),
            "mine": _sum(marked, "mine_"),
            "fitting": _sum(marked, "fits_"),
        }
    )


def _count() -> Column:
    return Column("COUNT(*)", Holds.INTEGER)


def _sum(rows: Query, name: str) -> Column:
    total = f"CAST(SUM({rows[name].sql}) AS {rows.dialect.whole})"
    return Column(total, Holds.INTEGER)


def _by_symbol(marked: Query) -> Query:
    """Return how many ids have which least and greatest symbol, and in how many rows."""
    own = marked.select(
        marked.some(["report_", "symbol_"]), where=f"{marked['fits_'].sql} = 1"
    )
    symbol = own["symbol_"].sql
    each = own.select(
        {
            "lowest": Column(f"MIN({symbol})", Holds.FLOAT),
            "highest": Column(f"MAX({symbol})", Holds.FLOAT),
            "rows_": _count(),
        },
        by=[own.dialect.key(own["report_"])],
    )
    ends = each.some(["lowest", "highest"])
    counted = {"reports": _count(), "all_rows": _sum(each, "rows_")}
    return each.select(ends | counted, by=[end.sql for end in ends.values()])


def _fetched(held: TableSource, query: Query) -> Iterator[dict[str, Any]]:
    for batch in held.fetched(query):
        yield from batch.to_pylist()

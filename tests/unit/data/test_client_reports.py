"""Tables of reports are counted alike wherever they lie, and each id once."""

import gzip
import importlib.util
import secrets
import shutil
import sqlite3

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from bench import postgres_cluster
from discreet import InputError
from discreet.data.client_reports import ReportColumns, count_reports
from engine_tables import IbisTable

PLAN, OTHER = "ab" * 8, "cd" * 8
SYMBOLS = 64


def rows():
    """3,000 reports; some repeated, of other plans, broken, or contradicting."""
    rng = np.random.default_rng(5)
    ids = [f"{k:032x}" for k in rng.permutation(3000)]
    table = [
        (PLAN, i, int(s))
        for i, s in zip(ids, rng.integers(0, SYMBOLS, 3000), strict=True)
    ]
    expected = np.bincount([row[2] for row in table[2:]], minlength=SYMBOLS)
    table += table[10:60] + table[10:20]  # 60 rows again
    table += [(OTHER, f"{k:032x}", 3) for k in range(9000, 9007)]
    table += [
        (PLAN, None, 5),
        (PLAN, "f" * 32, 64),
        (PLAN, "e" * 32, -1),
        (PLAN, "d" * 32, None),
    ]
    for k in (0, 1):  # the same id with another symbol
        table.append((PLAN, ids[k], (table[k][2] + 1) % SYMBOLS))
    return table, expected


TABLE, EXPECTED = rows()


def arrow():
    plan, ids, symbols = zip(*TABLE, strict=True)
    return pa.table(
        {"plan": list(plan), "id": list(ids), "symbol": pa.array(symbols, pa.int16())}
    )


def _csv(folder):
    pc.write_csv(arrow(), folder / "reports.csv")
    return folder / "reports.csv", {}


def _parquet(folder):
    pq.write_table(arrow(), folder / "reports.parquet")
    return folder / "reports.parquet", {}


def _folder(folder):
    (folder / "day").mkdir()
    pq.write_table(arrow().slice(0, 1000), folder / "day" / "a.parquet")
    pq.write_table(arrow().slice(1000), folder / "day" / "b.parquet")
    return folder / "day", {}


def _sqlite(folder):
    with sqlite3.connect(folder / "reports.sqlite") as database:
        database.execute("CREATE TABLE reports (plan, id, symbol)")
        database.executemany("INSERT INTO reports VALUES (?, ?, ?)", TABLE)
    database.close()
    return folder / "reports.sqlite", {}


def _duckdb(folder):
    with duckdb.connect(str(folder / "reports.duckdb")) as database:
        database.register("given", arrow())
        database.execute("CREATE TABLE sent AS SELECT * FROM given")
    return folder / "reports.duckdb", {"table": "sent"}


def _frame(folder):
    del folder
    return arrow().to_pandas(), {}


def _arrow(folder):
    del folder
    return arrow(), {}


WAYS = [_csv, _parquet, _folder, _sqlite, _duckdb, _frame, _arrow]


def check(counted):
    assert counted.tally.tolist() == EXPECTED.tolist()
    assert counted.rows == len(TABLE)
    assert (counted.other_plans, counted.malformed) == (7, 4)
    assert (counted.repeated, counted.contradicting) == (60, 2)
    assert "7 of other plans" in str(counted)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__[1:])
def test_reports_are_counted_alike_wherever_they_lie(way, tmp_path):
    source, more = way(tmp_path)
    check(count_reports(source, symbols=SYMBOLS, plan=PLAN, **more))


def test_reports_of_a_postgres_table_are_counted_there():
    if postgres_cluster.programs() is None:
        pytest.skip("no PostgreSQL: run tests/engines/install.sh")
    import psycopg

    with (
        postgres_cluster.cluster() as address,
        psycopg.connect(address, autocommit=True) as connection,
    ):
        connection.execute("CREATE TABLE reports (plan text, id text, symbol int)")
        with connection.cursor().copy("COPY reports FROM STDIN") as copy:
            for row in TABLE:
                copy.write_row(row)
        table = IbisTable(connection, "SELECT * FROM reports")
        check(count_reports(table, symbols=SYMBOLS, plan=PLAN))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # pyspark's and pandas' own
def test_reports_of_a_spark_frame_are_counted_there(tmp_path, monkeypatch):
    if shutil.which("java") is None or importlib.util.find_spec("pyspark") is None:
        pytest.skip("no Java or pyspark: run tests/engines/install.sh")
    from pyspark.sql import SparkSession

    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").appName("discreet")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    path, _ = _folder(tmp_path)
    check(count_reports(session.read.parquet(str(path)), symbols=SYMBOLS, plan=PLAN))
    session.stop()


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -0.5, 2.5, 1e300, 64.0])
def test_a_number_that_is_no_symbol_is_left_out(odd):
    table = pa.table({"id": ["a", "b"], "symbol": [3.0, odd]})
    counted = count_reports(table, symbols=SYMBOLS, plan=PLAN)
    assert (counted.reports, counted.malformed, counted.tally[3]) == (1, 1, 1)


def test_without_a_column_of_plans_all_rows_are_of_the_plan():
    table = arrow().slice(2, 2998).drop_columns(["plan"]).rename_columns(["rid", "s"])
    columns = ReportColumns("rid", "s")
    counted = count_reports(table, symbols=SYMBOLS, plan=PLAN, columns=columns)
    assert counted.tally.tolist() == EXPECTED.tolist()
    assert str(counted) == "2,998 reports in 2,998 rows"


def test_a_compressed_file_that_was_cut_is_refused(tmp_path):
    """Of a file without its last bytes DuckDB leaves out rows, and says nothing."""
    rows = "".join(f"{secrets.token_hex(16)},{k % SYMBOLS}\n" for k in range(100_000))
    whole = gzip.compress(b"id,symbol\n" + rows.encode())
    path = tmp_path / "reports.csv.gz"
    path.write_bytes(whole)
    assert count_reports(path, symbols=SYMBOLS, plan=PLAN).reports == 100_000
    for size in (len(whole) - 8, len(whole) // 2, 5):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match="cut or damaged"):
            count_reports(path, symbols=SYMBOLS, plan=PLAN)


def test_a_csv_file_that_is_not_utf8_is_refused_without_its_cells(tmp_path):
    path = tmp_path / "reports.csv"
    path.write_bytes(b"id,symbol\nS\xfcd,1\n")
    with pytest.raises(InputError, match="it needs UTF-8, a header") as refused:
        count_reports(path, symbols=SYMBOLS, plan=PLAN)
    assert "d,1" not in str(refused.value)


@pytest.mark.parametrize(
    ("source", "more", "message"),
    [
        ("nowhere.parquet", {}, "no such file"),
        (arrow(), {"columns": ReportColumns(symbol="sign")}, "sign.*--symbol-column"),
        (arrow(), {"columns": ReportColumns(plan="campaign")}, "campaign"),
        (arrow(), {"table": "reports"}, "table="),
        (pa.table({"id": ["a"], "symbol": [b"x"]}), {}, "whole numbers"),
    ],
)
def test_what_holds_no_reports_is_refused_in_a_sentence(source, more, message):
    with pytest.raises(InputError, match=message):
        count_reports(source, symbols=SYMBOLS, plan=PLAN, **more)

"""Engines compare texts byte by byte, run one statement, only read, and end in silence."""

# ruff: noqa: S603, S608 - our own words
import gzip
import sqlite3
import struct
import subprocess
import sys
import warnings
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import discreet
from bench import mariadb_cluster
from discreet import InputError
from discreet.data.arrow_columns import Names
from discreet.data.client_reports import count_reports
from discreet.data.edges import Cuts, Edges, Uniform
from discreet.data.pushdown import written
from discreet.data.scores import ScoreRange
from discreet.data.sql import DIALECTS, DUCKDB, MARIADB, one_statement
from discreet.errors import ReadHereWarning
from discreet.privacy.unit import EXAMPLE
from discreet.statistic import ClassHistogram, Grouped, MultiLabel
from engine_tables import (
    IbisTable,
    Spark,
    executed,
    in_sqlite,
    started,
)

SERVERS = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("postgres", "mariadb", "spark")
]
PLAIN = ClassHistogram(Edges.realise(Uniform(4)))
WARDS = Grouped(PLAIN, ("a", "A", "á", "other"))


@pytest.fixture(scope="module", params=["duckdb", "sqlite", *SERVERS])
def engine(request, tmp_path_factory):
    with started(request.param, tmp_path_factory.mktemp(request.param)) as made:
        yield made


@pytest.fixture(autouse=True)
def _no_row_is_read():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's own
        warnings.simplefilter("error", ReadHereWarning)
        yield


def rows_of(wards, labels=None):
    rows = len(wards)
    labels = [k % 2 for k in range(rows)] if labels is None else labels
    return pa.table({"y_score": [0.1] * rows, "y_true": labels, "ward": wards})


def test_one_row_more_moves_a_thousand_rows_of_another_capital_nowhere(engine):
    """Grouped by the column's collation, one row 'A' moved the counts by 2,001."""
    most = WARDS.sensitivity(EXAMPLE).l1
    for kind in engine.collations:
        for odd in ("A", "á", "a\u0301", "Á"):
            if "latin1" in kind and odd == "a\u0301":
                continue
            wards = ["a"] * 1000
            one, other = (
                WARDS.count(
                    discreet.read(engine.held(rows_of(w), kind), group="ward").fitted()
                )
                for w in (wards, [odd, *wards])
            )
            moved = np.abs(one - other).sum()
            assert moved == most == 1, (kind, odd)


def test_labels_that_a_collation_calls_equal_are_other_labels(engine):
    labels = ["sick", "Sick", "sick", "SICK", "well", None] * 3
    rows = rows_of(["a"] * len(labels), labels)
    here = PLAIN.count(discreet.read(rows, positive="sick").fitted())
    assert here.reshape(2, -1).sum(axis=1).tolist() == [9, 6]
    for kind in engine.collations:
        there = discreet.read(engine.held(rows, kind), positive="sick").fitted()
        assert PLAIN.count(there).tolist() == here.tolist(), kind


def test_ids_and_plans_of_reports_are_compared_byte_by_byte(engine):
    """An id in capitals is another client's; a plan in capitals is no plan of ours."""
    plan = "ab" * 8
    rows = pa.table(
        {
            "plan": [plan, plan, plan, plan.upper(), "aB" * 8, None],
            "id": ["x", "X", "x", "y", "z", "w"],
            "symbol": [1, 2, 1, 3, 3, 3],
        }
    )
    for kind in (*engine.collations, None):
        held = engine.held(rows) if kind is None else engine.held(rows, kind)
        counted = count_reports(held, symbols=4, plan=plan)
        assert counted.tally.tolist() == [0, 1, 1, 0], kind
        left_out = counted.other_plans, counted.repeated, counted.contradicting
        assert left_out == (3, 1, 0), kind


def test_texts_of_a_query_by_hand_are_told_apart_in_sqlite(tmp_path):
    path = tmp_path / "rows.sqlite"
    cuts = [Cuts.within(ScoreRange(), PLAIN.edges)]
    names = Names(("y_score",), "y_true", "ward")
    text = written("rows", names, cuts, "sqlite", scores=ScoreRange())
    made = "CREATE TABLE rows (y_score REAL, y_true INTEGER, ward TEXT COLLATE NOCASE)"
    executed(path, made, rows=[(0.1, 1, "a"), (0.1, 1, "A"), (0.1, 1, "a")])
    (found,) = executed(path, text)
    assert sorted((row[1], row[-1]) for row in found) == [("A", 1), ("a", 2)]


@pytest.fixture
def site(engine, tmp_path, monkeypatch):
    """Return an address, and a table that is there, of three rows."""
    monkeypatch.setenv("MYSQL_PWD", mariadb_cluster.PASSWORD)
    rows = rows_of(["a", "b; --", "it's"])
    if engine.name != "duckdb":
        return engine.address, engine.held(rows).text.rpartition(" ")[2]
    with duckdb.connect(tmp_path / "rows.duckdb") as made:
        made.register("given", rows)
        made.execute("CREATE TABLE rows AS SELECT * FROM given")
    return tmp_path / "rows.duckdb", "rows"


with_address = pytest.mark.parametrize(
    "engine", ["duckdb", "sqlite", *SERVERS[:2]], indirect=True
)
ENDINGS = ("", ";", " ; \n", " -- all of them", "; -- all; of them", " /* ; */ ;;")


@with_address
def test_one_statement_may_end_in_a_comment(site):
    address, table = site
    for ending in ENDINGS:
        query = f"SELECT * FROM {table} WHERE ward <> ';--'{ending}"
        assert len(discreet.read(address, query=query)) == 3, ending
        where = f"ward <> 'b; --'{ending}"
        assert len(discreet.read(address, table=table, where=where)) == 2, ending


HOSTILE = (
    "{select}; DROP TABLE {table}",
    "{select}; DROP TABLE {table}; --",
    "{select}\n; /* ; */ DELETE FROM {table}",
    "{select}) AS t_; DROP TABLE {table}; --",
    "DELETE FROM {table}",
    "DELETE FROM {table} RETURNING *",
    "UPDATE {table} SET ward = 'x'",
    "WITH gone AS (DELETE FROM {table} RETURNING *) SELECT * FROM gone",
    "DROP TABLE {table}",
    "",
)


@with_address
def test_what_is_no_select_is_refused_and_changes_nothing(site):
    address, table = site
    for words in HOSTILE:
        query = words.format(select=f"SELECT * FROM {table}", table=table)
        with pytest.raises(InputError) as caught:
            discreet.read(address, query=query)
        if ";" in words:
            assert str(caught.value).endswith("not several statements")
        assert table not in str(caught.value)
        with pytest.raises(InputError):
            discreet.read(address, table=table, where=f"1=1; DROP TABLE {table}")
        with pytest.raises(InputError):
            discreet.read(address, table=table, where=f"1=1); DROP TABLE {table} --")
    assert len(discreet.read(address, table=table)) == 3


@pytest.mark.parametrize("engine", SERVERS[:1], indirect=True)
def test_a_function_that_writes_is_refused_in_postgres(engine, site):
    address, table = site
    engine.connection.execute(
        f"CREATE FUNCTION emptied() RETURNS int LANGUAGE sql AS "
        f"'DELETE FROM {table}; SELECT 1'"
    )
    query = f"SELECT *, emptied() AS n FROM {table}"
    held = discreet.read(address, query=query, weight="n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadHereWarning)
        with pytest.raises(InputError, match=r"gave up \(ReadOnlySqlTransaction\)"):
            PLAIN.count(held)
    assert len(discreet.read(address, table=table)) == 3


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("engine", SERVERS[1:2], indirect=True)
def test_a_session_that_is_opened_cannot_write_in_mariadb(site):
    address, table = site
    source = discreet.read(address, table=table)._source
    with (
        source.engine.connection.cursor() as cursor,
        pytest.raises(Exception, match="READ ONLY"),
    ):
        cursor.execute(f"DELETE FROM {table}")
    assert len(discreet.read(address, table=table)) == 3


def test_a_statement_ends_where_no_text_or_comment_goes_on():
    for text, end in (
        ("SELECT 1", None),
        ("SELECT ';', \";\", `;` -- ;\n ;", -1),
        ("SELECT 'it''s;' /* ; */;", -1),
        ("SELECT $a$ ; $a$;", -1),
    ):
        assert one_statement(text, DUCKDB) == text[:end]
    assert one_statement(r"SELECT 'it\'s;';", MARIADB) == r"SELECT 'it\'s;'"
    for text in ("SELECT 1; SELECT 2", "SELECT 1;;a", r"SELECT '\'; DROP TABLE a; --'"):
        with pytest.raises(InputError, match="not several"):
            one_statement(text, DUCKDB)


def test_every_dialect_quotes_names_and_texts_so_that_they_end_where_they_should():
    for dialect in DIALECTS.values():
        name = dialect.quoted("a`b\"c'; --")
        assert name[1:-1].replace(dialect.quote * 2, "").count(dialect.quote) == 0
    assert MARIADB.literal("a\\'") == "'a\\\\'''"
    assert DUCKDB.literal("a\\'") == "'a\\'''"


def test_columns_may_be_called_anything(engine):
    odd = 'a "`;-- b'
    held = engine.held(rows_of(["a", "b"]))
    if isinstance(engine, Spark):
        table = held.withColumnRenamed("y_score", odd)
    else:
        named = DIALECTS[engine.name].quoted(odd)
        text = f"SELECT y_score AS {named}, y_true FROM ({held.text}) AS q_"
        table = IbisTable(engine.connection, text)
    assert PLAIN.count(discreet.read(table, score=odd)).sum() == 2


FILES = Path(__file__).parent / "duckdb_files"


def version(text):
    return tuple(map(int, text.split(".")[:2]))


@pytest.mark.parametrize("writer", ["1.4.5", "1.5.6", "2.0.0"])
def test_files_of_every_duckdb_are_opened_or_the_sentence_says_why(writer, tmp_path):
    """Each was written by that version, in its latest format from 1.5 on."""
    path = tmp_path / "rows.duckdb"
    path.write_bytes(gzip.decompress((FILES / f"{writer}.duckdb.gz").read_bytes()))
    if version(writer) > version(duckdb.__version__):
        with pytest.raises(InputError, match="by a newer DuckDB: pip install"):
            discreet.read(path, table="rows")
        return
    site = discreet.read(path, table="rows", group="ward").fitted()
    counts = Grouped(PLAIN, ("a", "A")).count(site)
    assert counts.reshape(2, -1).sum(axis=1).tolist() == [40, 20]


def test_a_file_of_a_duckdb_that_is_not_out_yet_is_refused_in_our_words(tmp_path):
    raw = bytearray(gzip.decompress((FILES / "2.0.0.duckdb.gz").read_bytes()))
    raw[12:20] = (70_000).to_bytes(8, "little")
    check = 5381
    for (word,) in struct.iter_unpack("<Q", raw[8:4096]):
        check ^= word * 0xBF58476D1CE4E5B9 % 2**64
    raw[:8] = check.to_bytes(8, "little")
    path = tmp_path / "rows.duckdb"
    path.write_bytes(raw)
    with pytest.raises(InputError) as caught:
        discreet.read(path, table="rows")
    words = "the file was written by a newer DuckDB: pip install --upgrade duckdb"
    assert str(caught.value) == words


def test_a_damaged_file_is_no_newer_one(tmp_path):
    path = tmp_path / "rows.duckdb"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(InputError, match="could not be opened"):
        discreet.read(path, table="rows")


def test_a_file_that_another_program_writes_is_named_so(tmp_path):
    path = tmp_path / "rows.duckdb"
    hold = (
        f"import duckdb; c = duckdb.connect({str(path)!r}); "
        "c.execute('CREATE TABLE rows AS SELECT 0.5 AS y_score, 1 AS y_true'); "
        "print('held', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(InputError, match="another program writes") as caught:
            discreet.read(path, table="rows")
        other.communicate("\n")
    assert str(other.pid) not in str(caught.value)
    assert len(discreet.read(path, table="rows")) == 1


COMMANDS = {
    "counted": ("--table", "rows"),
    "grouped": (
        "--table",
        "rows",
        "--group",
        "ward",
        "--in-group",
        "a",
        "--in-group",
        "b",
    ),
    "no such table": ("--table", "nowhere"),
    "no such column": ("--table", "rows", "--score", "x"),
    "a row that is refused": ("--table", "odd"),
    "rows that are read": ("--table", "rows", "--score", "text"),
}


@pytest.mark.parametrize("asked", COMMANDS)
def test_a_command_over_duckdb_ends_without_a_word_of_its_driver(asked, tmp_path):
    """DuckDB 2 prints 47 lines of leaks where it is not torn down."""
    path = tmp_path / "rows.duckdb"
    with duckdb.connect(path) as made:
        made.execute(
            "CREATE TABLE rows AS SELECT (i % 97) / 97 AS y_score, i % 2 AS y_true, "
            "CASE WHEN i % 3 = 0 THEN 'a' ELSE 'b' END AS ward, '0.5' AS text "
            "FROM range(200000) t(i)"
        )
        made.execute("CREATE TABLE odd AS SELECT * REPLACE (ward AS y_true) FROM rows")
    program = Path(sys.executable).parent / "discreet"
    done = subprocess.run(
        [program, "evaluate", path, *COMMANDS[asked]],
        capture_output=True,
        text=True,
        check=False,
    )
    told = [
        line
        for line in done.stderr.splitlines()
        if not line.startswith(("discreet: ", "Warning: rows: rows are read instead"))
    ]
    assert told == []
    assert "nanobind" not in done.stdout + done.stderr
    assert (done.stderr == "") == (asked in ("counted", "grouped"))


def test_a_program_that_keeps_a_reading_open_ends_without_a_word(tmp_path):
    path = tmp_path / "rows.duckdb"
    with duckdb.connect(path) as made:
        made.execute(
            "CREATE TABLE rows AS SELECT random() AS y_score, 1 AS y_true "
            "FROM range(300000)"
        )
    code = (
        f"import discreet; site = discreet.read({str(path)!r}, table='rows'); "
        "kept = iter(site.batches()); next(kept); "
        "print(len(site), len(discreet.read(site_of, table='rows')))"
    ).replace("site_of", repr(str(path)))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("300000 300000\n", "")


def test_labels_of_one_row_are_read_one_after_the_other():
    """A connection answers one question at a time; two labels are two questions."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t AS SELECT CAST(random() AS VARCHAR) AS s1, "
        "CAST(random() AS VARCHAR) AS s2, i % 2 AS y1, i % 3 = 0 AS y2 "
        "FROM range(300000) r(i)"
    )
    table = IbisTable(connection, "SELECT * FROM t")
    site = discreet.read(table, label=["y1", "y2"], score=["s1", "s2"])
    both = MultiLabel(PLAIN.edges, ("p", "q"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadHereWarning)
        assert both.count(site.fitted()).sum() == 600_000


class Elsewhere:
    """A table of an engine that Ibis alone reaches."""

    columns = ("y_score", "y_true")

    def __init__(self, rows):
        self.rows = rows

    def get_backend(self):
        return object.__new__(type("Backend", (), {"name": "snowflake"}))

    def select(self, *names):
        return Elsewhere(self.rows.select(names))

    def to_pyarrow_batches(self, *, chunk_size):
        yield from self.rows.to_batches(chunk_size)
        if self.rows.num_rows == 1:
            raise RuntimeError("0.7 is a secret")


Elsewhere.__module__ = "ibis.expr.types.relations"


def test_rows_of_an_engine_that_ibis_alone_reaches_are_read_with_a_warning(rng):
    rows = pa.table({"y_score": rng.random(90), "y_true": rng.integers(0, 2, 90)})
    with pytest.warns(ReadHereWarning, match="not tested to count as NumPy does"):
        counts = PLAIN.count(discreet.read(Elsewhere(rows)))
    assert counts.tolist() == PLAIN.count(discreet.read(rows)).tolist()
    with (
        pytest.warns(ReadHereWarning),
        pytest.raises(InputError, match=r"the engine gave up \(RuntimeError\)"),
    ):
        PLAIN.count(discreet.read(Elsewhere(rows.slice(0, 1))))
    with pytest.raises(InputError, match="give an Arrow table"):
        count_reports(Elsewhere(rows), symbols=2, plan="ab" * 8)


def test_an_ibis_table_that_cannot_be_asked_is_refused_without_values(tmp_path):
    in_sqlite(rows_of(["a"]), tmp_path).connection.close()
    with sqlite3.connect(tmp_path / "rows.sqlite") as connection:
        table = IbisTable(connection, "SELECT secret FROM rows")
        with pytest.raises(InputError, match="gave up") as caught:
            discreet.read(table)
    connection.close()
    assert "secret" not in str(caught.value)
    table.get_backend = None  # of a table of no backend, such as one in memory
    with pytest.raises(InputError, match="gave up"):
        discreet.read(table)


def test_an_address_of_another_engine_or_with_other_options_is_refused():
    for address, words in (
        ("snowflake://me@there/db", "an address begins with postgres://"),
        ("mysql://me@localhost/db?init_command=x", "takes ssl_ca, ssl_cert, ssl_key"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            discreet.read(address, table="rows")
        assert "me@" not in str(caught.value)

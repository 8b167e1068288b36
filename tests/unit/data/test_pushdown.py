"""What engines are asked, and what they answer: as NumPy counts, bit by bit.

PostgreSQL, MariaDB and Spark are real ones. ``tests/engines/install.sh`` installs them;
where one is not, its tests say so and skip.

The SQL of Snowflake and BigQuery is compiled, read back by sqlglot as DuckDB's and run
there on hard rows: so what is written means what is meant, as far as sqlglot knows the
dialect. It is never run there, so rows are read from them instead of counted.
"""

import importlib.util
import os
import shutil
import tempfile
import threading
import time
import warnings

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlglot

import discreet
from bench import mariadb_cluster, postgres_cluster
from discreet.data import pushdown
from discreet.data.arrow_columns import Names, plain_columns
from discreet.data.edges import Cuts
from discreet.data.examples import Examples
from discreet.data.labels import LabelCode
from discreet.data.pushdown import written
from discreet.data.scores import ScoreRange
from discreet.errors import ReadHereWarning
from discreet.statistic import ClassHistogram
from tests.unit.data import engines
from tests.unit.data.test_tables import in_duckdb, in_sqlite

MILLIONS = 10_000_000
NAMES = Names(("y_score",), "y_true", "ward")


in_place = pytest.mark.usefixtures("_no_row_is_read")
SERVERS = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("postgres", "mariadb", "spark")
]


def engines_of(*names):
    """Run a test on these engines alone."""
    return pytest.mark.parametrize("engine", names, indirect=True)


class Engine:
    """Where rows are put; ``storable`` says what of them the engine can hold."""

    tables, double = 0, "double"

    def storable(self, rows):
        return rows

    def created(self, rows, cursor):
        """Make a table with the columns of these rows; return its name."""
        kinds = {"int64": "bigint", "bool": "boolean", "string": "text"}
        kinds["double"] = self.double
        self.tables += 1
        columns = ", ".join(f"{f.name} {kinds[str(f.type)]}" for f in rows.schema)
        cursor.execute(f"CREATE TABLE rows{self.tables} ({columns})")
        return f"rows{self.tables}"


class Postgres(Engine):
    double = "double precision"

    def __init__(self, address):
        import psycopg

        self.connection = psycopg.connect(address, autocommit=True)
        self.backend = ibis.postgres.from_connection(self.connection)

    def held(self, rows):
        name = self.created(rows, self.connection)
        text = f"COPY {name} FROM STDIN (FORMAT csv, NULL '\\N')"
        with self.connection.cursor() as cursor, cursor.copy(text) as copy:
            for batch in rows.to_batches(2**20):
                copy.write(_as_csv(batch))
        return self.backend.table(name)


class Maria(Engine):
    def __init__(self, port):
        import MySQLdb

        self.connection = MySQLdb.connect(
            host="127.0.0.1",
            port=port,
            user="discreet",
            password=mariadb_cluster.PASSWORD,
            database="discreet",
            charset="utf8mb4",
            autocommit=True,
            local_infile=1,
        )
        self.backend = ibis.mysql.from_connection(self.connection)
        self.port = port

    def storable(self, rows):
        """Its doubles are finite: NaN is NULL there, and infinity the widest number."""
        for k, column in enumerate(rows.columns):
            if pa.types.is_floating(column.type):
                null = column.is_null(nan_is_null=True).to_numpy()
                wide = np.clip(column.to_numpy(), -1.7e308, 1.7e308)
                finite = pa.array(wide, mask=null)
                rows = rows.set_column(k, rows.column_names[k], finite)
        return rows

    def held(self, rows):
        cursor = self.connection.cursor()
        name = self.created(rows, cursor)
        places = [
            place if str(place.type) != "bool" else place.cast("int64")
            for place in rows.columns
        ]
        plain = pa.table(places, names=rows.column_names)
        with tempfile.NamedTemporaryFile() as file:
            for batch in plain.to_batches(2**20):
                file.write(_as_csv(batch).encode())
            file.flush()
            cursor.execute(
                f"LOAD DATA LOCAL INFILE '{file.name}' INTO TABLE {name} "
                "CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' "
                "OPTIONALLY ENCLOSED BY '\"' ESCAPED BY '\\\\'"
            )
        return self.backend.table(name)


def _as_csv(batch):
    """Write rows as the servers read them: 17 digits a double, \\N for null."""
    columns = []
    for column in batch.columns:
        null = column.is_null(nan_is_null=False).to_numpy(zero_copy_only=False)
        if pa.types.is_floating(column.type):
            plain = column.to_numpy(zero_copy_only=False).tolist()
            texts = [repr(v) for v in plain]
        else:
            texts = [
                f'"{str(v).replace(chr(34), chr(34) * 2)}"' for v in column.to_pylist()
            ]
        columns.append(["\\N" if n else t for n, t in zip(null, texts, strict=True)])
    return "".join(",".join(row) + "\n" for row in zip(*columns, strict=True))


class InProcess(Engine):
    """DuckDB and SQLite."""

    def __init__(self, put, folder):
        self.put, self.folder = put, folder

    def held(self, rows):
        self.tables += 1
        folder = self.folder / str(self.tables)
        folder.mkdir()
        return self.put(rows, folder)


class Spark(Engine):
    def __init__(self, session, folder):
        self.session, self.folder = session, folder

    def held(self, rows):
        self.tables += 1
        path = self.folder / f"rows{self.tables}.parquet"
        pq.write_table(rows, path)
        return self.session.read.parquet(str(path))


@pytest.fixture(scope="module", params=["duckdb", "sqlite", *SERVERS])
def engine(request, tmp_path_factory):
    if request.param in ("duckdb", "sqlite"):
        put = in_duckdb if request.param == "duckdb" else in_sqlite
        yield InProcess(put, tmp_path_factory.mktemp(request.param))
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the drivers' own
        if request.param == "postgres":
            if postgres_cluster.programs() is None:
                pytest.skip("no PostgreSQL: run tests/engines/install.sh")
            with postgres_cluster.cluster() as address:
                made = Postgres(address)
                yield made
                made.connection.close()
            return
        if request.param == "mariadb":
            pytest.importorskip("MySQLdb", reason="run tests/engines/install.sh")
            if not mariadb_cluster.programs():
                pytest.skip("no MariaDB: run tests/engines/install.sh")
            with mariadb_cluster.cluster() as port:
                made = Maria(port)
                yield made
                made.connection.close()
            return
        if shutil.which("java") is None or importlib.util.find_spec("pyspark") is None:
            pytest.skip("no Java or pyspark: run tests/engines/install.sh")
        from pyspark.sql import SparkSession

        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master("local[2]").appName("discreet")
        session = builder.config("spark.ui.enabled", "false").getOrCreate()
        yield Spark(session, tmp_path_factory.mktemp("spark"))
        session.stop()


@pytest.fixture
def _no_row_is_read():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's and pandas' own
        warnings.simplefilter("error", ReadHereWarning)
        yield


@in_place
@pytest.mark.parametrize("name", engines.STATISTICS)
def test_an_engine_counts_what_the_rows_give(engine, name, rng):
    statistic = engines.STATISTICS[name]
    rows = engine.storable(engines.hard_rows(statistic, rng, 3000))
    given = engines.options(statistic)
    here = discreet.read(rows, **given)
    there = discreet.read(engine.held(rows), **given)
    assert engines.outcomes(there, statistic) == engines.outcomes(here, statistic)
    assert engines.refusal(there, statistic) == engines.refusal(here, statistic)


@in_place
@pytest.mark.parametrize("kind", engines.LABELS)
def test_labels_of_every_kind_mean_the_same_in_an_engine(engine, kind):
    rows, given = engines.labelled(kind)
    rows = engine.storable(rows)
    here = discreet.read(rows, **given)
    there = discreet.read(engine.held(rows), **given)
    statistic = engines.STATISTICS["uniform"]
    assert engines.outcomes(there, statistic) == engines.outcomes(here, statistic)


@in_place
@engines_of("duckdb", *SERVERS)
def test_a_persons_rows_are_bounded_by_a_window_function(engine, rng):
    rows = engine.storable(engines.rows_of_people(rng))
    statistic = engines.STATISTICS["warped"]
    there = engines.bounded_outcomes(engine.held(rows), statistic)
    assert there == engines.bounded_outcomes(rows, statistic)


@in_place
@pytest.mark.parametrize("name", engines.FOLLOWED)
def test_an_engine_counts_follow_up_as_the_rows_give(engine, name, rng):
    statistic = engines.FOLLOWED[name]
    rows = engine.storable(engines.followed_rows(statistic, rng, 300))
    given = engines.followed_options(statistic)
    here = discreet.read(rows, **given)
    there = discreet.read(engine.held(rows), **given)
    assert engines.outcomes(there, statistic) == engines.outcomes(here, statistic)
    assert engines.refusal(there, statistic) == engines.refusal(here, statistic)


@in_place
@engines_of("duckdb", *SERVERS)
def test_a_persons_follow_up_is_bounded_by_a_window_function(engine, rng):
    rows = engine.storable(engines.followed_rows(engines.TIMED, rng, 300))
    given = engines.followed_options(engines.TIMED)
    there = engines.bounded_outcomes(engine.held(rows), engines.TIMED, **given)
    assert there == engines.bounded_outcomes(rows, engines.TIMED, **given)


@in_place
@pytest.mark.slow
def test_ten_million_rows_count_bit_by_bit(engine, rng):
    statistic = engines.STATISTICS["warped"]
    rows = engines.hard_rows(statistic, rng, MILLIONS).drop_columns("ward")
    rows = engine.storable(rows)
    here = discreet.read(rows).fitted()
    there = discreet.read(engine.held(rows)).fitted()
    assert np.array_equal(statistic.count(there), statistic.count(here))
    assert there.set_aside == here.set_aside


@in_place
@engines_of(SERVERS[1])
def test_an_address_without_a_password_and_a_query_by_hand_count_in_mariadb(
    engine, rng, monkeypatch
):
    statistic = engines.STATISTICS["groups"]
    rows = engine.storable(engines.hard_rows(statistic, rng, 300))
    table = engine.held(rows).get_name()
    monkeypatch.setenv("MYSQL_PWD", mariadb_cluster.PASSWORD)
    address = f"mysql://discreet@127.0.0.1:{engine.port}/discreet"
    there = discreet.read(address, table=table, group="ward")
    here = discreet.read(rows, group="ward")
    assert engines.outcomes(there, statistic) == engines.outcomes(here, statistic)
    cuts = [Cuts.within(ScoreRange(), *statistic.binnings)]
    text = written(table, NAMES, cuts, "mariadb", scores=ScoreRange())
    by_hand = engine.connection.cursor()
    by_hand.execute(text)
    columns = [list(column) for column in zip(*by_hand.fetchall(), strict=True)]
    counted = pa.table(columns, names=["y_true", "ward", "y_score", "n"])
    site = Examples.from_source(
        lambda: plain_columns(counted.to_batches(), NAMES, "n"),
        labels=LabelCode(),
        scores=ScoreRange(),
    )
    assert engines.outcomes(site, statistic) == engines.outcomes(here, statistic)


@in_place
@engines_of(*SERVERS)
def test_spark_says_how_far_its_query_is_and_the_others_nothing(engine, rng):
    statistic = engines.STATISTICS["uniform"]
    rows = engine.storable(engines.hard_rows(statistic, rng, 10_000))
    site = discreet.read(engine.held(rows))
    shares, over = [], threading.Event()

    def ask():
        while not over.wait(0.002):
            shares.append(site._source.pace())

    asking = threading.Thread(target=ask)
    asking.start()
    wanted, end = isinstance(engine, Spark), time.monotonic() + 240
    while not shares or (wanted and not known(shares) and time.monotonic() < end):
        statistic.count(site.fitted())
    over.set()
    asking.join()
    assert bool(known(shares)) == wanted
    assert all(0 <= share <= 1 for share in known(shares))


def known(shares):
    return [share for share in shares if share is not None]


@in_place
@engines_of(SERVERS[0])
def test_decimals_of_postgres_are_the_nearest_doubles(engine):
    texts = ["0.1", "0.30000000000000004", "0.29999999999999999", "0.3"]
    texts.append("0.12345678901234567890123")
    values = ", ".join(f"({t}::numeric, 1)" for t in texts)
    engine.connection.execute("CREATE TABLE exact (y_score numeric, y_true int)")
    engine.connection.execute(f"INSERT INTO exact VALUES {values}")  # noqa: S608 - our own numbers
    edges = discreet.data.edges.Edges.realise(
        discreet.Listed((0.0, *sorted({float(t) for t in texts}), 1.0))
    )
    statistic = ClassHistogram(edges)
    here = discreet.Examples([float(t) for t in texts], [1] * len(texts))
    there = discreet.read(engine.backend.table("exact"))
    assert np.array_equal(statistic.count(there), statistic.count(here))


WAREHOUSES = ("snowflake", "bigquery")
COLUMNS = {"y_score": "float64", "y_true": "int64", "ward": "string"}


def query(warehouse, statistic):
    (edges,) = statistic.binnings
    cuts = [Cuts.within(edges.scores, edges)]
    unseen = ibis.table(COLUMNS, name="scored")
    asked = pushdown.folded(unseen, NAMES, cuts, warehouse)
    return str(ibis.to_sql(asked, dialect=warehouse)), pushdown.weight_name(cuts)


@pytest.mark.parametrize("warehouse", WAREHOUSES)
@pytest.mark.parametrize("name", engines.STATISTICS)
def test_what_a_warehouse_would_be_asked_gives_what_the_rows_give(warehouse, name, rng):
    statistic = engines.STATISTICS[name]
    rows = engines.hard_rows(statistic, rng, 1000)
    text, weight = query(warehouse, statistic)
    (read_back,) = sqlglot.transpile(text, read=warehouse, write="duckdb")
    connection = ibis.duckdb.connect().con
    connection.execute("CREATE MACRO ieee_divide(a, b) AS a / b")
    connection.register("scored", rows)
    counted = connection.execute(read_back).fetch_arrow_table()
    there = Examples.from_source(
        lambda: plain_columns(counted.to_batches(), NAMES, weight),
        labels=LabelCode(),
        scores=statistic.binnings[0].scores,
    )
    here = discreet.read(rows, **engines.options(statistic))
    assert engines.outcomes(there, statistic) == engines.outcomes(here, statistic)


NAN = {
    "snowflake": '"t0"."y_score" = CAST(\'NaN\' AS DOUBLE)',  # NaN equals itself there
    "bigquery": "IS_NAN(`t0`.`y_score`)",
}


@pytest.mark.parametrize("warehouse", WAREHOUSES)
def test_nan_is_asked_for_before_anything_is_compared_and_no_cast_rounds(warehouse):
    text, _ = query(warehouse, engines.STATISTICS["warped"])
    flat = " ".join(text.split()).replace("( ", "(").replace(" )", ")")
    nan, below = flat.index(NAN[warehouse]), flat.index("< CAST(0 AS")
    assert flat.index("IS NULL") < nan < below
    assert "* CAST(1048576 AS" in flat
    # Both round when they cast to whole numbers: only what FLOOR made whole is cast.
    whole = "BIGINT" if warehouse == "snowflake" else "INT64"
    assert flat.count(f"AS {whole})") == flat.count("CAST(FLOOR(") > 0


@pytest.mark.parametrize("warehouse", WAREHOUSES)
def test_nothing_is_counted_in_a_warehouse_that_nobody_has_tested(warehouse):
    unseen = ibis.table(COLUMNS, name="scored")
    cuts = [Cuts.within(ScoreRange())]
    reason = pushdown.obstacle(unseen, NAMES, cuts, warehouse)
    assert reason == "this engine is not tested to count as NumPy does"

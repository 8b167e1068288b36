"""What engines are asked, and what they answer: as NumPy counts, bit by bit.

PostgreSQL, MariaDB and Spark are real ones. ``tests/engines/install.sh`` installs them;
where one is not, its tests say so and skip.
"""

import threading
import time
import warnings

import numpy as np
import pyarrow as pa
import pytest

import discreet
from bench import mariadb_cluster
from discreet.data.arrow_columns import Names, plain_columns
from discreet.data.edges import Cuts
from discreet.data.examples import Examples
from discreet.data.labels import LabelCode
from discreet.data.pushdown import written
from discreet.data.scores import ScoreRange
from discreet.errors import ReadHereWarning
from discreet.statistic import ClassHistogram
from engine_tables import IbisTable, Spark, started
from tests.unit.data import engines

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


@pytest.fixture(scope="module", params=["duckdb", "sqlite", *SERVERS])
def engine(request, tmp_path_factory):
    with started(request.param, tmp_path_factory.mktemp(request.param)) as made:
        yield made


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
    table = engine.held(rows).text.rpartition(" ")[2]
    monkeypatch.setenv("MYSQL_PWD", mariadb_cluster.PASSWORD)
    there = discreet.read(engine.address, table=table, group="ward")
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
    there = discreet.read(IbisTable(engine.connection, "SELECT * FROM exact"))
    assert np.array_equal(statistic.count(there), statistic.count(here))


@in_place
@engines_of("duckdb", SERVERS[0])
def test_a_group_of_a_float_of_32_bits_has_the_name_that_numpy_gives_it(engine):
    cells = 'CAST(0.5 AS double precision) AS "y_score", 1 AS "y_true"'
    query = f'SELECT {cells}, CAST(0.1 AS real) AS "ward"'
    there = discreet.read(IbisTable(engine.connection, query), group="ward")
    here = discreet.Examples([0.5], [1], groups=np.array([0.1], np.float32))
    named = [[b.groups.tolist() for b in site.batches()] for site in (there, here)]
    assert named[0] == named[1]

"""Engines count as NumPy does, bit by bit; where they cannot, rows are read."""

import decimal
import warnings

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import discreet
from discreet import InputError
from discreet.data.arrow_columns import Names
from discreet.data.edges import Cuts, Edges, Uniform, Warped
from discreet.data.pushdown import RowLimit, written
from discreet.data.scores import ScoreRange
from discreet.data.tables import TableSource
from discreet.errors import ReadHereWarning
from discreet.privacy.unit import Unit
from discreet.session.respond import bounded
from discreet.statistic import ClassHistogram, Grouped, Paired
from engine_tables import (
    IbisTable,
    executed,
    in_duckdb,
    in_sqlite,
    loaded,
)
from tests.unit.data import engines

pytestmark = pytest.mark.long

SMALL = ClassHistogram(Edges.realise(Warped(16), thresholds=(0.3,)))


ENGINES = {"duckdb": in_duckdb, "sqlite": in_sqlite}


@pytest.fixture(params=ENGINES)
def held(request, tmp_path):
    """Put rows into an engine; any reading of single rows is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReadHereWarning)
        yield lambda rows: ENGINES[request.param](rows, tmp_path)


@pytest.fixture
def queries(monkeypatch):
    """Return how many queries some work asks of the engine."""
    asked = []
    run = TableSource.fetched

    def noted(self, rows):
        asked.append(rows)
        return run(self, rows)

    monkeypatch.setattr(TableSource, "fetched", noted)

    def number(work):
        asked.clear()
        work()
        return len(asked)

    return number


def test_one_query_counts_a_site_its_two_models_or_its_groups(held, rng, queries):
    edges = Edges.realise(Uniform(16))
    one = ClassHistogram(edges)
    rows = pa.table(
        {
            "y_score": rng.random(300),
            "other": rng.random(300),
            "y_true": rng.integers(0, 2, 300),
            "ward": rng.choice(["a", "b"], 300),
        }
    )
    table, both = held(rows), {"score": ["y_score", "other"]}
    for statistic, given in (
        (one, {}),
        (Paired(edges, edges), both),
        (Paired(edges, edges, "joint"), both),
        (Grouped(one, ("a", "b")), {"group": "ward"}),
    ):
        here = statistic.count(discreet.read(rows, **given))
        there = discreet.read(table, **given).fitted()
        assert queries(lambda s=statistic, t=there: s.count(t)) == 1
        assert np.array_equal(statistic.count(there), here)


def test_each_of_two_rounds_asks_each_site_once(held, rng, queries):
    rows = pa.table({"y_score": rng.random(300), "y_true": rng.integers(0, 2, 300)})
    table = held(rows)
    sites = [
        discreet.read(table, kind="other", low=0.0, high=1.0, name=f"site {k}")
        for k in range(3)
    ]
    privacy = discreet.DistributedDP(8)
    assert queries(lambda: discreet.evaluate(sites, privacy=privacy)) == 2 * len(sites)


def test_a_persons_rows_are_read_from_sqlite_whose_cells_may_be_text(rng, tmp_path):
    rows = engines.rows_of_people(rng)
    with pytest.warns(ReadHereWarning, match="not told apart there as here"):
        there = engines.bounded_outcomes(in_sqlite(rows, tmp_path), SMALL)
    assert there == engines.bounded_outcomes(rows, SMALL)


def test_rows_of_nobody_are_refused_before_joining():
    rows = pa.table(
        {"y_score": [0.1, 0.2], "y_true": [0, 1], "who": pa.array([1, None])}
    )
    site = discreet.read(in_duckdb(rows, None), subject="who")
    with pytest.raises(InputError, match="1 rows name no subject"):
        bounded(site, Unit("subject", "add_remove", max_examples=1))


@pytest.mark.parametrize("kind", ["int64", "float32", "decimal(9, 4)"])
def test_scores_of_other_kinds_are_cast_to_the_nearest_double(kind, rng):
    plain = np.round(rng.uniform(0, 1, 400), 4)
    connection = duckdb.connect()
    loaded(connection, "doubles", pa.table({"y_score": plain}))
    cast = {"float32": "FLOAT", "int64": "BIGINT"}.get(kind, kind)
    text = f"SELECT CAST(y_score AS {cast}) AS y_score, 1 AS y_true FROM doubles"  # noqa: S608
    table = IbisTable(connection, text)
    expected = {
        "int64": np.rint(plain),
        "float32": plain.astype(np.float32).astype(float),
        "decimal(9, 4)": np.array([float(decimal.Decimal(str(v))) for v in plain]),
    }
    statistic = ClassHistogram(Edges.realise(Uniform(10_000)))
    here = discreet.Examples(expected[kind], np.ones(400, dtype=int))
    counts = statistic.count(discreet.read(table))
    assert np.array_equal(counts, statistic.count(here))


def test_where_an_engine_would_differ_rows_are_read_and_a_warning_says_so(rng):
    connection = duckdb.connect()
    wide = pa.array([decimal.Decimal("0.12345678901234567890")] * 3)
    table = loaded(connection, "wide", pa.table({"y_score": wide, "y_true": [0, 1, 1]}))
    site = discreet.read(table, name="wide")
    with pytest.warns(ReadHereWarning, match="wide: rows are read instead of counted"):
        assert SMALL.count(site).sum() == 3
    assert site.query([Cuts.within(site.scores, SMALL.edges)]) is None
    rows = pa.table({"s1": rng.random(9), "s2": rng.random(9), "y_true": [0, 1, 1] * 3})
    pair = Paired(SMALL.edges, SMALL.edges)
    many = discreet.read(loaded(connection, "two", rows), score=["s1", "s2"])
    with pytest.warns(ReadHereWarning, match="too many combinations"):
        assert np.array_equal(
            pair.count(many), pair.count(discreet.read(rows, score=["s1", "s2"]))
        )


def test_text_in_a_number_column_of_sqlite_is_no_number(tmp_path):
    rows = pa.table({"y_score": [0.2, 0.8], "y_true": [0, 1]})
    table = in_sqlite(rows, tmp_path)
    executed(tmp_path / "rows.sqlite", rows=[("high", 1), ("0.9", 1)])
    fitted = discreet.read(table).fitted()
    assert SMALL.count(fitted).sum() == 3  # SQLite itself reads '0.9' as a number
    assert fitted.set_aside == 1


CELLS = {"y_true": ["unknown", 1.5, b"\xff", None], "who": ["p7", None, 1.5]}
CELLS["ward"] = [1, 2.5, b"caf\xe9", "b", None]


@pytest.mark.parametrize("column", CELLS)
def test_a_cell_of_any_type_in_sqlite_decides_about_its_own_row(column, tmp_path, rng):
    """A text in a column of whole numbers was a refusal inside a session."""
    rows = pa.table(
        {
            "y_score": rng.random(40),
            "y_true": rng.integers(0, 2, 40),
            "ward": rng.choice(["a", "b"], 40),
            "who": rng.integers(0, 9, 40),
        }
    )
    in_sqlite(rows, tmp_path)
    grouped = Grouped(SMALL, ("a", "b", "other"))
    person = Unit("subject", "add_remove", max_examples=2)

    def counted():
        site = discreet.read(path, table="rows", group="ward", subject="who").fitted()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReadHereWarning)
            return grouped.count(site), grouped.count(bounded(site, person))

    path = tmp_path / "rows.sqlite"
    before = counted()
    for odd in CELLS[column]:
        row = {"y_score": 0.5, "y_true": 1, "ward": "a", "who": 77, column: odd}
        executed(path, rows=[list(row.values())])
        after = counted()
        assert np.abs(after[0] - before[0]).sum() <= 1
        assert np.abs(after[1] - before[1]).sum() <= 2
        before = after
    if column == "y_true":
        with pytest.raises(InputError, match="labels are missing or other than 0"):
            SMALL.count(discreet.read(path, table="rows"))


def test_a_query_by_hand_counts_no_row_of_sqlite_unbounded(tmp_path):
    """A label or a person that is text there is left out, not taken for the number 0."""
    names = Names(("y_score",), "y_true", subject="who")
    cuts = [Cuts.within(ScoreRange(), SMALL.edges)]
    bound = RowLimit("subject", "add_remove", 2, "who")
    text = written("rows", names, cuts, "sqlite", scores=ScoreRange(), bound=bound)
    path = tmp_path / "rows.sqlite"
    rows = [(0.3, "true", 1)] * 9 + [(0.4, 1, "p")] * 9 + [(0.6, 1, 0)] * 9
    made = "CREATE TABLE rows (y_score REAL, y_true INTEGER, who INTEGER)"
    executed(path, made, rows=rows)
    (found,) = executed(path, text)
    assert sum(n for _, score, n in found if score is not None) == 2


def test_a_column_of_sqlite_without_a_type_is_opened_whatever_its_first_row_holds(
    tmp_path,
):
    path = tmp_path / "rows.sqlite"
    for first in ((None, None), ("0.2", "0"), (0.2, 0), ("high", "x")):
        path.unlink(missing_ok=True)
        rows = [first, (0.3, 0), (0.9, 1.0), (1, "1")]
        executed(path, "CREATE TABLE rows (y_score, y_true)", rows=rows)
        counts = SMALL.count(discreet.read(path, table="rows").fitted())
        assert counts.sum() == 3 + (first == (0.2, 0))


def test_labels_and_groups_of_other_types_are_cast_to_text_by_the_engine():
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE odd AS SELECT 0.25 AS y_score, 1::DECIMAL(9, 2) AS y_true, "
        "DATE '2025-01-31' AS day UNION ALL SELECT 0.75, 0, '290000-01-01'"
    )
    table = IbisTable(connection, "SELECT * FROM odd")
    statistic = Grouped(SMALL, ("2025-01-31", "other"))
    counts = statistic.count(discreet.read(table, group="day"))
    assert counts.reshape(2, 2, -1).sum(axis=2).tolist() == [[0, 1], [1, 0]]


def test_subjects_beyond_64_bits_with_a_sign_are_read(rng):
    rows = engines.rows_of_people(rng, 60)
    connection = duckdb.connect()
    loaded(connection, "rows", rows)
    text = "SELECT * REPLACE (18446744073709551615::UBIGINT AS person) FROM rows"
    table = IbisTable(connection, text)
    with pytest.warns(ReadHereWarning, match="not told apart there as here"):
        engines.bounded_outcomes(table, SMALL)


def test_a_file_and_an_address_are_opened_by_table_where_and_query(tmp_path):
    rows = pa.table({"y_score": [0.2, 0.8, 0.5], "y_true": [0, 1, 1]})
    in_sqlite(rows, tmp_path)
    path = tmp_path / "rows.sqlite"
    duck = tmp_path / "rows.duckdb"
    with duckdb.connect(duck) as made:
        loaded(made, "rows", rows)
    for address in (path, str(path), f"sqlite://{path}", duck, f"duckdb://{duck}"):
        assert len(discreet.read(address, table="rows")) == 3
        assert len(discreet.read(address, table="rows", where="y_score > 0.4")) == 2
        assert len(discreet.read(address, query="SELECT * FROM rows LIMIT 1")) == 1
        assert discreet.read(address, table="rows").name == "rows"


@pytest.mark.parametrize(
    "address",
    [
        "postgres://me:hunter2@nowhere.invalid/db",
        "postgres://nowhere.invalid/db?password=hunter2",
        "sqlite:///nowhere/hunter2.sqlite",
    ],
)
def test_no_message_repeats_an_address(address):
    with pytest.raises(InputError) as caught:
        discreet.read(address, table="rows")
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_failing_engine_is_told_in_one_sentence_without_values(tmp_path):
    rows = pa.table({"y_score": [0.2], "y_true": [0]})
    table = in_sqlite(rows, tmp_path)
    executed(tmp_path / "rows.sqlite", "DROP TABLE rows")
    with pytest.raises(InputError, match="the engine gave up") as caught:
        SMALL.count(discreet.read(table))
    assert caught.value.__suppress_context__


def test_a_database_needs_a_table_or_a_query(tmp_path):
    for wrong in ({}, {"table": "a", "query": "b"}, {"query": "b", "where": "c"}):
        with pytest.raises(InputError, match="needs table="):
            discreet.read(tmp_path / "x.sqlite", **wrong)
    with pytest.raises(InputError, match="are for a database"):
        discreet.read(pa.table({"y_score": [0.1], "y_true": [1]}), table="a")


def test_a_lazy_frame_is_run_again_on_every_pass(rng):
    frame = pl.DataFrame({"p": rng.random(300), "y_true": rng.integers(0, 2, 300)})
    lazy = frame.lazy().with_columns(y_score=pl.col("p") / 2)
    site = discreet.read(lazy)
    expected = discreet.Examples(frame["p"] / 2, frame["y_true"])
    for _ in range(2):
        assert np.array_equal(SMALL.count(site), SMALL.count(expected))


def test_the_query_is_the_engines_own_sql_and_gives_the_counts(rng):
    rows = pa.table({"y_score": rng.random(200), "y_true": rng.integers(0, 2, 200)})
    connection = duckdb.connect()
    site = discreet.read(loaded(connection, "rows", rows))
    text = site.query([Cuts.within(site.scores, SMALL.edges)])
    assert "1048576" in text
    by_hand = connection.sql(text).fetchall()
    assert sum(row[-1] for row in by_hand) == 200

"""What Snowflake and BigQuery would be asked: compiled and read, never run there.

The SQL of a warehouse is read back by sqlglot as DuckDB's and run there on hard rows: so
what is written means what is meant, as far as sqlglot knows the dialect. What a warehouse
makes of it nobody has seen, so rows are read from them instead of counted.
"""

import ibis
import pytest
import sqlglot

import discreet
from discreet.data import pushdown
from discreet.data.arrow_columns import Names, plain_columns
from discreet.data.edges import column_cuts
from discreet.data.examples import Examples
from discreet.data.labels import LabelCode
from tests.unit.data import engines

WAREHOUSES = ("snowflake", "bigquery")
NAMES = Names(("y_score",), "y_true", "ward")
COLUMNS = {"y_score": "float64", "y_true": "int64", "ward": "string"}


def query(warehouse, statistic):
    cuts = column_cuts(statistic.binnings[0].scores, 1, statistic.binnings)
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
    statistic = engines.STATISTICS["uniform"]
    cuts = column_cuts(statistic.binnings[0].scores, 1, statistic.binnings)
    reason = pushdown.obstacle(unseen, NAMES, cuts, warehouse)
    assert reason == "this engine was not seen to count as NumPy does"

"""``preview``, ``query`` and ``site --counts`` with rows that stay in a database."""

import json
import sys
from dataclasses import replace
from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

import discreet
from discreet.cli.files import Rows
from discreet.cli.main import app
from discreet.data import batches
from discreet.data.edges import Edges, Uniform, Warped
from discreet.data.pushdown import weight_name
from discreet.errors import InputError
from discreet.plan import file as planfile
from discreet.plan.plan import Plan
from discreet.plan.rounds import Round
from discreet.session.preview import own_rows, plan_bound, plan_cuts
from discreet.session.respond import bounded
from discreet.statistic import ClassHistogram, EquiDepthFrom, Grouped, Hierarchy

WARDS = ("a", "b", "other")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def rows(rng):
    n = 3000
    scores = np.concatenate([rng.random(n - 3), [1.0, 0.3, np.nextafter(0.3, 0)]])
    labels = (rng.random(n) < scores).astype(int)
    return pa.table(
        {"p": scores, "died": labels, "ward": rng.choice(["a", "b", "c"], n)}
    )


def stored(rows, path):
    with duckdb.connect(path) as made:
        made.register("given", rows)
        made.execute("CREATE TABLE prediction AS SELECT * FROM given")
    return path


@pytest.fixture
def database(rows, tmp_path):
    return stored(rows, tmp_path / "icu.duckdb")


def by_hand(database, text, path):
    """Run a query and save its result, as a data manager would."""
    with duckdb.connect(database, read_only=True) as opened:
        opened.sql(text).write_csv(str(path))


COLUMNS = ("--score", "p", "--label", "died")


def written(plan, tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(planfile.dumps(plan))
    return path


def query(run, plan, tmp_path, *more):
    """Return the text of a plan's query."""
    asked = ("--engine", "duckdb", "--table", "prediction", *COLUMNS, *more)
    shown = run("query", written(plan, tmp_path), *asked)
    assert shown.exit_code == 0, (shown.output, shown.exception)
    return shown.output


def pasted(database, text, tmp_path, **columns):
    """Name the counts of a query that was run by hand."""
    counts = tmp_path / "counts.csv"
    by_hand(database, text, counts)
    return Rows(score=["p"], label="died", counts=counts, **columns)


@pytest.fixture
def plan():
    edges = Edges.realise(Warped(64), thresholds=(0.3,))
    rounds = (Round(ClassHistogram(edges)),)
    return Plan(discreet.SecureAggregation(), rounds, thresholds=(0.3,))


def test_preview_shows_the_query_and_reads_no_row(run, plan, database, tmp_path):
    path = written(plan, tmp_path)
    named = ("--table", "prediction", *COLUMNS, "--json", "preview.json")
    shown = run("preview", path, database, *named)
    assert shown.exit_code == 0, shown.output
    assert "3,000 examples were counted where they are, by" in shown.output
    assert 'FROM "prediction"' in shown.output.replace('"icu"."main".', "")
    found = json.loads((tmp_path / "preview.json").read_text())
    assert "GROUP BY" in found["query"]


def test_own_values_come_from_an_engines_counts_and_from_pasted_ones(
    run, plan, database, rows, tmp_path, monkeypatch
):
    """An engine is asked once, for the plan's own counts; its AUC has the plan's bins."""
    counts = pasted(database, query(run, plan, tmp_path), tmp_path)
    found = own_rows(plan, counts.read(plan))
    labels = rows["died"].to_numpy()
    assert (found.examples, found.positives) == (3000, labels.sum())
    exact = roc_auc_score(labels, rows["p"].to_numpy())
    assert found.areas[0].value == pytest.approx(exact, abs=2e-3)
    in_place = discreet.read(database, table="prediction", score="p", label="died")
    asked, source = [], type(in_place._source)
    folded = source.folded
    monkeypatch.setattr(
        source, "folded", lambda own, cuts: asked.append(cuts) or folded(own, cuts)
    )
    monkeypatch.setattr(source, "__call__", None)  # rows must not be read
    assert own_rows(plan, in_place) == found
    assert asked == [plan_cuts(plan, 1)]


def test_counts_pasted_back_are_what_the_rows_give(run, plan, database, rows, tmp_path):
    text = query(run, plan, tmp_path, "--group", "ward")
    site = pasted(database, text, tmp_path, group="ward").read(plan)
    here = discreet.read(rows, score="p", label="died", group="ward")
    assert np.array_equal(plan.statistic.count(site), plan.statistic.count(here))
    grouped = Grouped(ClassHistogram(*plan.statistic.binnings), WARDS)
    assert np.array_equal(grouped.count(site), grouped.count(here))
    assert len(site) == 3000
    with pytest.raises(InputError, match="holds no rows"):
        list(site.batches())
    other = ClassHistogram(Edges.realise(Uniform(10)))
    with pytest.raises(InputError, match="made for other edges"):
        other.count(site)


def test_one_query_serves_both_rounds(run, database, rows, tmp_path):
    tree = Hierarchy.over_unit_interval(2, 6)
    second = EquiDepthFrom(tree, 8, (0.3,))
    half = Fraction(1, 2)
    plan = Plan(
        discreet.DistributedDP(1),
        rounds=(Round(tree, half), Round(second, half)),
        thresholds=(0.3,),
    )
    site = pasted(database, query(run, plan, tmp_path), tmp_path).read(plan)
    here = discreet.read(rows, score="p", label="died")
    released = tree.count(here)
    assert np.array_equal(tree.count(site), released)
    resolved = second.resolve(released.astype(float))
    assert np.array_equal(resolved.count(site), resolved.count(here))


def test_counts_of_another_plan_are_refused(plan, tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text("died,p,rows_0123456789ab\n0,0.5,12\n")
    with pytest.raises(InputError, match="not the counts of this plan's query"):
        Rows(score=["p"], label="died", counts=path).read(plan)


def test_rows_or_counts_and_not_both(plan, tmp_path):
    for place, counts in ((None, None), ("a.csv", tmp_path / "counts.csv")):
        with pytest.raises(InputError, match="and not both"):
            Rows(scores=place, label="died", counts=counts).read(plan)


def test_counts_of_bounded_people_are_what_the_rows_give(run, rows, rng, tmp_path):
    people = rows.append_column("who", pa.array(rng.integers(0, 900, rows.num_rows)))
    path = stored(people, tmp_path / "people.duckdb")
    edges = Edges.realise(Warped(64), thresholds=(0.3,))
    privacy = discreet.DistributedDP(1, unit="subject", max_examples=2)
    plan = Plan(privacy, (Round(ClassHistogram(edges)),), thresholds=(0.3,))
    text = query(run, plan, tmp_path, "--subject", "who")
    asked = ("--engine", "duckdb", "--table", "prediction", *COLUMNS)
    assert "--subject" in str(run("query", tmp_path / "plan.toml", *asked).exception)
    named = pasted(path, text, tmp_path, subject="who")
    site = named.read(plan)
    unit = plan.privacy.protects
    here = discreet.read(people, score="p", label="died", subject="who")
    expected = plan.statistic.count(bounded(here, unit))
    assert np.array_equal(plan.statistic.count(bounded(site, unit)), expected)
    assert expected.sum() < rows.num_rows
    for asking, unit in (
        (named, {"unit": "subject", "max_examples": 3}),
        (named, {"unit": "client", "max_examples": 2}),
        (named, {"unit": "example"}),
        (replace(named, subject="died"), {"unit": "subject", "max_examples": 2}),
    ):
        other = Plan(discreet.DistributedDP(1, **unit), plan.rounds, thresholds=(0.3,))
        with pytest.raises(InputError, match="not the counts of this plan's query"):
            asking.read(other)
    with pytest.raises(InputError, match="name their column with --subject"):
        replace(named, subject=None).read(plan)


def bad_counts(plan, tmp_path, *lines):
    """Write counts by hand, with the header of a plan's own query."""
    path = tmp_path / "counts.csv"
    weight = weight_name(plan_cuts(plan, 1), plan_bound(plan, None))
    path.write_text("\n".join([f"died,p,{weight}", *lines, ""]))
    return Rows(score=["p"], label="died", counts=path).read(plan)


@pytest.mark.parametrize("odd", ["-7", "1.5", "many", "", "1e300", "inf", "7,7"])
def test_a_count_that_is_none_is_an_error_here_and_nothing_in_a_session(
    plan, tmp_path, odd
):
    rows = ["1,0.25,3", "0,0.75,2"]
    expected = plan.statistic.count(bad_counts(plan, tmp_path, *rows))
    site = bad_counts(plan, tmp_path, *rows, f"1,0.5,{odd}")
    assert np.array_equal(plan.statistic.count(site.fitted()), expected)
    with pytest.raises(InputError, match="1 lines have a count that is no whole"):
        plan.statistic.count(site)


def test_counts_of_more_rows_than_a_client_has_are_cut(plan, tmp_path):
    client = Plan(
        discreet.DistributedDP(1, unit="client", max_examples=4),
        plan.rounds,
        thresholds=(0.3,),
    )
    unit, statistic = client.privacy.protects, client.statistic
    site = bad_counts(client, tmp_path, "1,0.25,3", "0,0.75,1")
    assert statistic.count(bounded(site, unit)).sum() == 4
    site = bad_counts(client, tmp_path, "1,0.25,3", "0,0.75,2000")
    assert statistic.count(bounded(site.fitted(), unit)).sum() <= 4
    with pytest.raises(InputError, match="more than the 4 rows"):
        statistic.count(bounded(site, unit))


def test_one_cell_of_counts_decides_about_no_other(plan, tmp_path):
    """Arrow would read 0 and 1 as text, where one label is text."""
    lines = [f"{k % 2},{k / 40},{1 + k % 3}" for k in range(40)]
    alone = plan.statistic.count(bad_counts(plan, tmp_path, *lines).fitted())
    assert alone.sum() > 40
    for odd in ("unknown,0.5,1", "1,high,1", "1.0,0.5,0"):
        site = bad_counts(plan, tmp_path, *lines, odd)
        assert np.array_equal(plan.statistic.count(site.fitted()), alone)


@pytest.mark.parametrize("terminal", [True, False])
def test_only_a_terminal_is_told_how_far_a_long_pass_is(
    plan, rows, tmp_path, monkeypatch, capsys, terminal
):
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=100)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(batches, "_QUIET", 0)
    monkeypatch.setattr(batches, "_EVERY", 0)
    site = Rows(scores=str(tmp_path / "rows.parquet"), score=["p"], label="died").read(
        plan
    )
    assert plan.statistic.count(site).sum() == len(rows)
    told = capsys.readouterr()
    assert told.out == ""
    if not terminal:
        assert told.err == ""
    else:
        assert "counting the rows: " in told.err
        assert told.err.endswith("\r\x1b[K")  # the line is wiped at the end

"""Several labels of the same rows: counts, sensitivity and missing labels, by brute force."""

import csv
import sqlite3
import warnings
from itertools import combinations, product

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import discreet
from discreet import Examples, InputError, PlanError
from discreet.data.edges import Edges, Uniform
from discreet.errors import ReadHereWarning
from discreet.privacy.unit import Sensitivity, Unit
from discreet.session.respond import bounded
from discreet.statistic import ClassHistogram, MultiLabel, Paired
from discreet.statistic.histogram import PairedInGroups
from engine_tables import loaded

EDGES = Edges.realise(Uniform(2))
BOTH = MultiLabel(EDGES, ("p", "q"))
FEW = (0.1, 0.9)
KINDS = list(product(FEW, FEW, (0, 1, None), (0, 1, None)))
COLUMNS = {"label": ["y1", "y2"], "score": ["s1", "s2"]}


def examples(rows, **more):
    table = np.array(rows, dtype=object).reshape(len(rows), 4)
    return Examples(table[:, :2].astype(float), table[:, 2:], check=False, **more)


def oracle(rows, edges=EDGES):
    """Count each label by itself, row by row; a missing label or score is left out."""
    bins = len(edges)
    counts = np.zeros((2, 2, bins), dtype=int)
    for s1, s2, y1, y2 in rows:
        for k, (s, y) in enumerate(((s1, y1), (s2, y2))):
            if y is not None and not np.isnan(s):
                place = int(edges.bins_of(np.array([s]))[0])
                counts[k, int(y), place] += 1
    return counts.ravel().tolist()


def largest(changes, unit):
    return Sensitivity(
        max(int(d.sum()) for d in changes),
        max(int((d**2).sum()) for d in changes),
        max(int(d.max()) for d in changes),
        unit,
    )


def count(rows, unit=None, **more):
    every = unit is not None and unit.relation == "replace"
    held = examples(rows, **more).fitted(every_row=every)
    return BOTH.count(bounded(held, unit))


@pytest.mark.parametrize("relation", ["add_remove", "replace", "flip"])
def test_the_sensitivity_is_the_largest_change_of_one_example(relation):
    """A missing label is one of the kinds of rows; a flip is of all labels of a row."""
    unit = Unit("label" if relation == "flip" else "example", relation)
    other = KINDS[0]
    changes = []
    for row in KINDS:
        match relation:
            case "add_remove":
                pairs = [([row, other], [other])]
            case "replace":
                pairs = [([row, other], [another, other]) for another in KINDS]
            case _:
                if None in row:
                    continue
                same = [k for k in KINDS if k[:2] == row[:2] and None not in k]
                pairs = [([row, other], [flipped, other]) for flipped in same]
        changes += [np.abs(count(a, unit) - count(b, unit)) for a, b in pairs]
    assert BOTH.sensitivity(unit) == largest(changes, unit)
    assert BOTH.sensitivity(unit).l1 == {"add_remove": 2}.get(relation, 4)


@pytest.mark.parametrize("kind", ["subject", "client"])
def test_a_person_or_client_moves_as_many_cells_as_the_bound_allows(kind):
    unit = Unit(kind, "add_remove", 2)
    changes = []
    for held in [
        *([a] for a in KINDS),
        *combinations(KINDS, 2),
        *([a] * 5 for a in KINDS),
    ]:
        people = {"subjects": ["p"] * len(held)} if kind == "subject" else {}
        changes.append(count(list(held), unit, **people))
    assert BOTH.sensitivity(unit) == largest(changes, unit)


def test_a_missing_label_leaves_the_row_out_for_that_label_alone():
    rows = [
        (0.1, 0.9, 1, None),
        (0.9, 0.9, None, 0),
        (0.1, 0.1, None, None),
        (0.9, 0.1, 0, 1),
    ]
    assert BOTH.count(examples(rows)).tolist() == oracle(rows)
    assert len(examples(rows)) == 4
    lenient = examples([*rows, (np.nan, 0.1, 1, 1), (0.1, 0.9, 7, 1)]).fitted()
    expected = oracle([*rows, (np.nan, 0.1, 1, 1), (0.1, 0.9, None, 1)])
    assert BOTH.count(lenient).tolist() == expected
    assert lenient.set_aside == 6
    every = BOTH.count(examples(rows).fitted(every_row=True)).reshape(2, -1)
    assert every.sum(axis=1).tolist() == [4, 4]  # the number of rows is public there


def test_a_label_that_is_none_of_two_is_named_by_its_place():
    with pytest.raises(InputError, match="label 2: 1 of 2 labels are missing or other"):
        BOTH.count(examples([(0.1, 0.1, 0, 1), (0.1, 0.1, 0, 7)]))
    with pytest.raises(InputError, match="1 of 4 scores are missing"):
        BOTH.count(examples([(0.1, np.nan, 0, 1), (0.1, 0.1, 0, 1)]))


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    return [
        (
            *rng.random(2).round(3).tolist(),
            *(None if m < 0.1 else int(m < 0.5) for m in rng.random(2)),
        )
        for _ in range(400)
    ]


@pytest.fixture(scope="module")
def frame(rows):
    table = pd.DataFrame(rows, columns=["s1", "s2", "y1", "y2"])
    return table.astype({"y1": "Int64", "y2": "Int64"})


FINE = MultiLabel(Edges.realise(Uniform(16)), ("p", "q"))


@pytest.mark.parametrize(
    "kind", ["pandas", "polars", "lazy", "csv", "parquet", "duckdb", "sqlite"]
)
def test_every_source_gives_the_oracles_counts(kind, frame, rows, tmp_path):
    """In one pass over files; databases count in place, one query for each label."""
    more, path = {}, tmp_path / f"rows.{kind}"
    match kind:
        case "pandas":
            source = frame
        case "polars":
            source = pl.from_pandas(frame)
        case "lazy":
            source = pl.from_pandas(frame).lazy()
        case "csv":
            frame.to_csv(path, index=False)
            source = path
        case "parquet":
            frame.to_parquet(path, row_group_size=100)
            source = path
        case "duckdb":
            source = loaded(duckdb.connect(), "t", pa.Table.from_pandas(frame))
        case _:
            with sqlite3.connect(path) as made:
                made.execute(
                    "CREATE TABLE t (s1 REAL, s2 REAL, y1 INTEGER, y2 INTEGER)"
                )
                made.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
            made.close()
            source, more = path, {"table": "t"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReadHereWarning)
        held = discreet.read(source, **COLUMNS, **more)
        assert FINE.count(held).tolist() == oracle(rows, FINE.edges)
        assert FINE.count(held.fitted()).tolist() == oracle(rows, FINE.edges)
    if kind == "duckdb":
        assert (
            held.query(
                [discreet.data.edges.Cuts.within(held.scores, FINE.edges)] * 2
            ).count("GROUP BY")
            == 2
        )


def test_a_database_bounds_each_persons_rows_for_each_label_as_here(frame):
    unit = Unit("subject", "add_remove", 2)
    people = frame.assign(who=np.arange(len(frame)) % 90)
    table = loaded(duckdb.connect(), "t", pa.Table.from_pandas(people))
    here, there = (
        FINE.count(bounded(discreet.read(s, **COLUMNS, subject="who").fitted(), unit))
        for s in (people, table)
    )
    assert there.tolist() == here.tolist()
    assert here.reshape(2, -1).sum(axis=1).max() <= 2 * 90


def test_a_csv_file_is_read_once_for_all_labels(frame, tmp_path, monkeypatch):
    path, passes = tmp_path / "rows.csv", []
    frame.to_csv(path, index=False, quoting=csv.QUOTE_MINIMAL)
    held = discreet.read(path, **COLUMNS)
    real = type(held._source).batches
    monkeypatch.setattr(
        type(held._source), "batches", lambda self: passes.append(1) or real(self)
    )
    FINE.count(held)
    assert len(passes) == 1


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda f: discreet.read(f, label=["y1", "y2"]), "2 labels and 1 score"),
        (
            lambda f: discreet.read(f, **COLUMNS, classes=["a", "b"]),
            "leave out classes=",
        ),
        (
            lambda f: BOTH.count(discreet.read(f, label="y1", score="s1")),
            "counts 2 labels",
        ),
        (lambda f: ClassHistogram(EDGES).count(discreet.read(f, **COLUMNS)), "have 2"),
        (lambda f: Paired(EDGES, EDGES).count(discreet.read(f, **COLUMNS)), "have 2"),
    ],
)
def test_labels_that_do_not_fit_the_plan_are_refused(frame, wrong, sentence):
    with pytest.raises(InputError, match=sentence):
        wrong(frame)


@pytest.mark.parametrize("names", [(), ("a", "a"), ("1", "1.0"), ("a", "NA")])
def test_labels_have_distinct_names(names):
    with pytest.raises(PlanError):
        MultiLabel(EDGES, names)


@pytest.mark.parametrize("form", ["joint", "marginals"])
def test_pairs_in_groups_are_the_pairs_of_each_group(form, rng):
    s, y = rng.random((300, 2)), rng.random(300) < 0.4
    g = np.where(rng.random(300) < 0.5, "f", "m")
    statistic = PairedInGroups(EDGES, EDGES, form, ("f", "m"))
    counts = statistic.count(Examples(s, y, groups=g)).reshape(2, -1)
    for k, group in enumerate(("f", "m")):
        own = statistic.inner.count(Examples(s[g == group], y[g == group]))
        assert counts[k].tolist() == own.tolist()
    for unit in (Unit("example", "add_remove"), Unit("example", "replace")):
        assert statistic.sensitivity(unit) == statistic.inner.sensitivity(unit)

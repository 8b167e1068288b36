"""Tables that others read: every measure, no small cell, nothing that runs."""

import csv
import json

import numpy as np
import pytest

import discreet
from discreet.result.exports import hidden, table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(2)
    s = rng.random(12_000)
    site = discreet.Examples(s, rng.random(12_000) < s)
    result = discreet.evaluate([site], thresholds=[0.4], model="sepsis")
    where = tmp_path_factory.mktemp("tables")
    result.export(where, min_cell_count=40)
    return where, result


def _rows(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_measure_is_a_row(folder):
    where, result = folder
    rows = {
        r["measure"]: r for r in _rows(where / "measures.csv") if not r["threshold"]
    }
    assert float(rows["auc"]["value"]) == result.auc.value
    at = [r for r in _rows(where / "measures.csv") if r["threshold"] == "0.4"]
    assert {"recall", "npv", "true_positives"} <= {r["measure"] for r in at}


def test_the_curves_are_points_with_their_limits(folder):
    where, result = folder
    rows = [r for r in _rows(where / "curves.csv") if r["curve"] == "roc"]
    assert [float(r["y"]) for r in rows] == result.roc_curve()[1].tolist()
    assert all(float(r["low"]) <= float(r["y"]) <= float(r["high"]) for r in rows)


def test_small_cells_are_hidden_with_all_that_would_tell_them(folder):
    where, _ = folder
    rows = _rows(where / "plp" / "thresholdSummary.csv")
    counts = [c for c in rows[0] if c.endswith("Count")]
    small = [r for r in rows if r["truePositiveCount"] == "-1"]
    assert 0 < len(small) < len(rows)
    for row in small:
        assert {row[c] for c in counts} == {"-1"}
        assert row["sensitivity"] == row["f1Score"] == ""
    told = {int(row[c]) for row in rows for c in counts}
    assert not told & set(range(1, 40))


def test_the_tables_have_the_columns_that_ohdsi_reads(folder):
    where, _ = folder
    assert set(_rows(where / "plp" / "evaluationStatistics.csv")[0]) == {
        "evaluation",
        "metric",
        "value",
    }
    assert {"predictionThreshold", "PersonCountAtRisk", "observedIncidence"} <= set(
        _rows(where / "plp" / "calibrationSummary.csv")[0]
    )


def test_the_model_card_says_what_its_numbers_mean(folder):
    where, result = folder
    card = json.loads((where / "model-card.json").read_text(encoding="utf-8"))
    first = card["key_metrics"]["usefulness_usability_efficacy"][0]
    assert card["name"] == "sepsis"
    assert first["result"] == str(result.auc)
    assert "chance is 50%" in first["interpretation"]


def test_no_cell_runs_in_a_spreadsheet():
    assert table([{"part": "=1+1", "value": float("nan")}]) == "part,value\n'=1+1,\n"


def test_zero_is_no_small_cell():
    assert hidden([0, 1, 4.6, 5], 5) == [0, -1, 5, 5]

"""Tables that others read: every measure, no small cell, nothing that runs."""

import csv
import json

import numpy as np
import pyarrow as pa
import pytest

import discreet
from discreet.report.exports import hidden, table


def _data():
    rng = np.random.default_rng(2)
    s = rng.random(12_000)
    return s, rng.random(12_000) < s


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    site = discreet.Examples(*_data())
    result = discreet.evaluate([site], thresholds=[0.4], name="sepsis")
    where = tmp_path_factory.mktemp("tables")
    result.exports.write(where, min_cell_count=40)
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


def test_the_averages_over_labels_are_rows_of_their_own(tmp_path):
    rng = np.random.default_rng(4)
    labels = rng.random((5_000, 2)) < (0.3, 0.2)
    scores = 1 / (1 + np.exp(rng.normal(1 - 2 * labels)))
    columns = {
        f"{kind}{k}": values[:, k]
        for kind, values in (("y", labels.astype(int)), ("s", scores))
        for k in range(2)
    }
    site = pa.table(columns)
    found = discreet.evaluate(
        [site], labels=["y0", "y1"], scores=["s0", "s1"], privacy="secure-aggregation"
    )
    found.exports.write(tmp_path)
    rows = {r["measure"]: r for r in _rows(tmp_path / "summary.csv")}
    each = [part.auc.value for part in found.values()]
    assert float(rows["AUC macro"]["value"]) == pytest.approx(np.mean(each), abs=1e-9)
    assert float(rows["AUC macro"]["low"]) < np.mean(each)
    assert not (tmp_path / "plp" / "summary.csv").exists()


def test_one_model_has_no_summary(folder):
    where, _ = folder
    assert not (where / "summary.csv").exists()


def test_the_curves_are_points_with_their_limits(folder):
    where, result = folder
    rows = [r for r in _rows(where / "curves.csv") if r["curve"] == "roc"]
    _, tpr, thresholds = result.roc_curve()
    rate = dict(zip(thresholds.tolist(), tpr.tolist(), strict=True))
    at = [float(r["threshold"] or "inf") for r in rows]
    assert [float(r["y"]) for r in rows] == [rate[t] for t in at]
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
    """As PatientLevelPrediction's own R functions make them, in their order."""
    where, _ = folder
    rows = _rows(where / "plp" / "evaluationStatistics.csv")
    assert list(rows[0]) == ["evaluation", "metric", "value"]
    found = {row["metric"]: float(row["value"]) for row in rows}
    assert list(found) == [
        "populationSize", "outcomeCount", "AUROC", "95% lower AUROC",
        "95% upper AUROC", "AUPRC", "brier score", "brier score scaled", "Eavg", "E90",
        "Emax", "ici", "calibrationInLarge mean prediction",
        "calibrationInLarge observed risk", "calibrationInLarge intercept",
        "weak calibration intercept", "weak calibration gradient", "Average Precision",
    ]  # fmt: skip
    s, y = _data()
    assert found["populationSize"] == 12_000
    assert found["outcomeCount"] == y.sum()
    mean = found["calibrationInLarge mean prediction"]
    assert mean == pytest.approx(s.mean(), rel=1e-3)
    scaled = 1 - np.mean((y - s) ** 2) / (s.mean() * (1 - s.mean()))
    assert found["brier score scaled"] == pytest.approx(scaled, rel=2e-3)
    assert list(_rows(where / "plp" / "thresholdSummary.csv")[0]) == [
        "evaluation", "predictionThreshold", "preferenceThreshold", "positiveCount",
        "negativeCount", "trueCount", "falseCount", "truePositiveCount",
        "trueNegativeCount", "falsePositiveCount", "falseNegativeCount", "f1Score",
        "accuracy", "sensitivity", "falseNegativeRate", "falsePositiveRate",
        "specificity", "positivePredictiveValue", "falseDiscoveryRate",
        "negativePredictiveValue", "falseOmissionRate", "positiveLikelihoodRatio",
        "negativeLikelihoodRatio", "diagnosticOddsRatio",
    ]  # fmt: skip
    assert list(_rows(where / "plp" / "calibrationSummary.csv")[0]) == [
        "predictionThreshold", "PersonCountAtRisk", "PersonCountWithOutcome",
        "averagePredictedProbability", "StDevPredictedProbability",
        "MinPredictedProbability", "P25PredictedProbability",
        "MedianPredictedProbability", "P75PredictedProbability",
        "MaxPredictedProbability", "observedIncidence", "evaluation",
    ]  # fmt: skip


def test_calibration_is_summed_up_in_tenths_of_the_examples(folder):
    where, _ = folder
    s, y = _data()
    rows = _rows(where / "plp" / "calibrationSummary.csv")
    cuts = np.quantile(s, np.arange(10) / 10)
    assert len(rows) == 10
    for k, row in enumerate(rows):
        inside = (s >= cuts[k]) & (s < (cuts[k + 1] if k < 9 else 2))
        begin = float(row["predictionThreshold"])
        assert begin == pytest.approx(cuts[k] if k else 0, abs=2e-3)
        assert int(row["PersonCountAtRisk"]) == pytest.approx(1200, abs=60)
        mean = float(row["averagePredictedProbability"])
        assert mean == pytest.approx(s[inside].mean(), abs=2e-3)
        rate = float(row["observedIncidence"])
        assert rate == pytest.approx(y[inside].mean(), abs=0.02)


def test_the_model_card_has_the_schemas_elements_and_says_what_numbers_mean(folder):
    where, result = folder
    card = json.loads((where / "model-card.json").read_text(encoding="utf-8"))
    assert card["BasicInfo"]["ModelName"] == "sepsis"
    sections = card["KeyMetrics"]
    assert list(sections) == [
        "UsefulnessUsabilityEfficacy",
        "FairnessEquity",
        "SafetyReliability",
    ]
    for section in sections.values():
        assert list(section) == [
            "MetricGoal",
            "Results",
            "Interpretation",
            "TestType",
            "TestingDataDescription",
            "ValidationProcessAndJustification",
        ]
        assert section["Results"]["MetricResult"]
        for each in section["Results"]["MetricResult"]:
            assert list(each) == ["Label", "ValueJson"]
            assert json.loads(each["ValueJson"])["kind"] == "estimate_ci"
    first = sections["UsefulnessUsabilityEfficacy"]["Results"]["MetricResult"][0]
    value = json.loads(first["ValueJson"])
    low, high = result.auc.interval()
    assert (value["estimate"], value["lower"], value["upper"]) == (
        result.auc.value,
        low,
        high,
    )
    said = sections["UsefulnessUsabilityEfficacy"]["Interpretation"]
    assert "chance is 50%" in said
    assert "No groups were declared" in sections["FairnessEquity"]["Interpretation"]


def test_no_cell_runs_in_a_spreadsheet():
    assert table([{"part": "=1+1", "value": float("nan")}]) == "part,value\n'=1+1,\n"


def test_zero_is_no_small_cell():
    assert hidden([0, 4.6, 5], 5) == [0, 5, 5]
    assert hidden([0, 1, 4.6, 5], 5) == [-1] * 4

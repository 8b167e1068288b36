"""The zoo of scored populations: its halves stand still, and its counts are curves."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

BENCH = Path(__file__).resolve().parents[2] / "bench"
JUDGING = {
    *("cal-15k-p12-sd1.3", "cal-40k-p35-sd4", "cal-150k-p45-sd1.4"),
    *("rare-2m-p0005-sd1.8", "rare-800k-p001-sd1.2", "rare-150k-p004-sd1.6"),
    *("rare-180k-p02-sd1.3", "over-30k-p25-sd1.2-x3", "over-90k-p06-sd1.4-x2.5"),
    *("hesitant-25k-p25-sd1.5-x.15", "hesitant-80k-p10-sd2-x.25"),
    *("hesitant-10k-p50-sd1-x.1", "weighted-60k-p03-sd2.2"),
    *("weighted-400k-p004-sd1.8", "beta-25k-p20", "beta-15k-p50-tight"),
    *("bimodal-120k-p04", "bimodal-20k-p50", "zeros-60k-p15-25", "zeros-150k-p03-40"),
    *("near0-80k-p08-30", "round100-40k-p25", "round100-150k-p03"),
    *("round1000-70k-p12", "isotonic12-50k-p20"),
}


@pytest.fixture
def zoo(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("zoo")


def test_the_split_into_tuning_and_judging_has_not_moved(zoo):
    assert len(zoo.ZOO) == 45
    assert set(zoo.names(judging=True, real=False)) == JUDGING
    assert set(zoo.names(judging=False, real=False)) == set(zoo.ZOO) - JUDGING


def test_every_kind_is_in_both_halves(zoo):
    for judging in (True, False):
        kinds = {zoo.ZOO[name][0] for name in zoo.names(judging=judging, real=False)}
        assert kinds == {kind for kind, _, _ in zoo.ZOO.values()}


def test_a_population_is_always_the_same_and_its_areas_are_scikit_learns(zoo):
    found, again = (zoo.population("cal-2k-p40-sd1") for _ in range(2))
    np.testing.assert_array_equal(found.scores, again.scores)
    assert found.counts.sum(axis=1).tolist() == [1193, 807]
    s = np.tile(found.scores, 2).repeat(found.counts.ravel())
    y = np.repeat([0, 1], found.counts.sum(axis=1))
    assert found.auc == pytest.approx(roc_auc_score(y, s), abs=1e-12)
    assert found.average_precision == pytest.approx(
        average_precision_score(y, s), abs=1e-12
    )


def test_many_examples_are_counts_of_the_size_and_prevalence_that_are_written(zoo):
    found = zoo.population("rare-800k-p001-sd1.2")
    assert found.examples == 800_000
    assert found.scores.size <= 50_000
    # 800 positives, give or take 6 standard deviations.
    assert found.minority == pytest.approx(800, abs=170)

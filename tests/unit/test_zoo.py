"""The zoo of scored populations: its halves stand still, and its counts are curves."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

BENCH = Path(__file__).resolve().parents[2] / "bench"
JUDGING = {
    "beta-171k-p.0129",
    "beta-335k-p.0269",
    "bimodal-185k-p.0147",
    "bimodal-271k-p.0612",
    "calibrated-113k-p.0130",
    "calibrated-76k-p.1803",
    "heaped-37k-p.0151",
    "heaped-70k-p.0373",
    "hesitant-17k-p.0547",
    "hesitant-2k-p.2950",
    "mixed-12k-p.1702",
    "mixed-21k-p.4238",
    "over-confident-35k-p.0238",
    "rare-1127k-p.0007",
    "rare-317k-p.0038",
    "rounded-414k-p.0124",
    "rounded-5k-p.1687",
    "rounded-73k-p.0403",
    "saturated-155k-p.0382",
    "saturated-304k-p.2717",
    "saturated-79k-p.0786",
    "stepped-14k-p.0283",
    "stepped-166k-p.1247",
    "tailed-168k-p.0222",
    "tailed-183k-p.0128",
    "tailed-72k-p.2197",
    "weighted-47k-p.0114",
}


@pytest.fixture
def zoo(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("zoo")


def test_the_split_into_tuning_and_judging_has_not_moved(zoo):
    assert len(zoo.WRITTEN) == 45
    assert len(zoo.DRAWN) == len(zoo.FRESH) == 65
    assert set(zoo.names(judging=True)) == JUDGING
    assert set(zoo.names(judging=False, real=False)) == set(zoo.ZOO) - JUDGING


def test_every_kind_is_in_both_halves(zoo):
    for judging in (True, False):
        kinds = {zoo.ZOO[name][0] for name in zoo.names(judging=judging, real=False)}
        assert kinds == {kind for kind, _, _ in zoo.ZOO.values()}


def test_what_has_been_looked_at_judges_nothing(zoo):
    assert not any(zoo.is_judging(name) for name in {**zoo.WRITTEN, **zoo.DRAWN})
    assert not any(name.startswith("real:") for name in zoo.names(judging=True))


def test_drawn_populations_cover_what_is_written(zoo):
    judging = [zoo.FRESH[name] for name in zoo.names(judging=True)]
    assert min(size for _, size, _ in judging) < 5_000
    assert max(size for _, size, _ in judging) > 1_000_000


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

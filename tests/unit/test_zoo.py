"""The zoo of scored populations: its halves stand still, and its counts are curves."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

BENCH = Path(__file__).resolve().parents[2] / "bench"
JUDGING = {
    "beta-20k-p.2433",
    "beta-277k-p.0161",
    "bimodal-150k-p.0270",
    "bimodal-61k-p.0655",
    "calibrated-73k-p.0215",
    "heaped-165k-p.0166",
    "heaped-45k-p.0338",
    "hesitant-17k-p.0382",
    "hesitant-230k-p.0719",
    "hesitant-69k-p.0347",
    "mixed-234k-p.0432",
    "mixed-25k-p.0836",
    "mixed-57k-p.0352",
    "over-confident-3k-p.4021",
    "over-confident-441k-p.0552",
    "rare-163k-p.0034",
    "rare-306k-p.0044",
    "rare-579k-p.0009",
    "rounded-138k-p.2104",
    "rounded-2k-p.2549",
    "saturated-139k-p.0890",
    "saturated-22k-p.1961",
    "saturated-44k-p.0335",
    "saturated-91k-p.0486",
    "stepped-316k-p.0282",
    "stepped-326k-p.0662",
    "stepped-43k-p.0371",
    "stepped-466k-p.0263",
    "tailed-20k-p.0496",
    "tailed-63k-p.1986",
    "weighted-220k-p.2543",
    "weighted-6k-p.2158",
}


@pytest.fixture
def zoo(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("zoo")


def test_the_split_into_tuning_and_judging_has_not_moved(zoo):
    assert len(zoo.SEEN) == 45
    assert len(zoo.DRAWN) == 65
    assert set(zoo.names(judging=True)) == JUDGING
    assert set(zoo.names(judging=False, real=False)) == set(zoo.ZOO) - JUDGING


def test_every_kind_is_in_both_halves(zoo):
    for judging in (True, False):
        kinds = {zoo.ZOO[name][0] for name in zoo.names(judging=judging, real=False)}
        assert kinds == {kind for kind, _, _ in zoo.ZOO.values()}


def test_what_has_been_looked_at_judges_nothing(zoo):
    assert not any(zoo.is_judging(name) for name in zoo.SEEN)
    assert not any(name.startswith("real:") for name in zoo.names(judging=True))


def test_drawn_populations_cover_what_is_written(zoo):
    drawn = list(zoo.DRAWN.values())
    assert min(size for _, size, _ in drawn) < 10_000
    assert max(size for _, size, _ in drawn) > 500_000


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

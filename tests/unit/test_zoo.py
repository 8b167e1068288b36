"""The zoo of scored populations: its halves stand still, and its counts are curves."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

BENCH = Path(__file__).resolve().parents[2] / "bench"
JUDGING = {
    "beta-13k-p.0685",
    "beta-233k-p.0141",
    "beta-28k-p.1938",
    "beta-29k-p.0281",
    "beta-300k-p.0689",
    "bimodal-11k-p.2446",
    "bimodal-120k-p.0138",
    "calibrated-40k-p.1793",
    "calibrated-7k-p.0820",
    "heaped-45k-p.0112",
    "heaped-4k-p.2022",
    "heaped-90k-p.0142",
    "hesitant-15k-p.1925",
    "hesitant-25k-p.1170",
    "mixed-32k-p.1119",
    "over-confident-108k-p.0567",
    "over-confident-49k-p.3429",
    "rare-1523k-p.0012",
    "rare-85k-p.0062",
    "rounded-115k-p.2887",
    "rounded-13k-p.0436",
    "rounded-15k-p.2188",
    "rounded-41k-p.4456",
    "rounded-5k-p.3902",
    "saturated-133k-p.0151",
    "saturated-170k-p.0223",
    "saturated-5k-p.1429",
    "stepped-121k-p.0338",
    "stepped-54k-p.0217",
    "tailed-3k-p.3838",
    "tailed-74k-p.0244",
    "weighted-173k-p.0557",
    "weighted-42k-p.0869",
    "weighted-5k-p.2160",
    "weighted-60k-p.0127",
}


@pytest.fixture
def zoo(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("zoo")


def test_the_split_into_tuning_and_judging_has_not_moved(zoo):
    assert len(zoo.WRITTEN) == 45
    assert (len(zoo.DRAWN), len(zoo.FRESH)) == (130, 65)
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

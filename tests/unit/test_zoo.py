"""The zoo of scored populations: its halves stand still, and its counts are curves."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

BENCH = Path(__file__).resolve().parents[2] / "bench"
JUDGING = {
    "beta-13k-p.4487",
    "beta-23k-p.0797",
    "beta-24k-p.0214",
    "beta-97k-p.0125",
    "bimodal-332k-p.0106",
    "calibrated-17k-p.1797",
    "heaped-114k-p.0183",
    "heaped-3k-p.3928",
    "hesitant-239k-p.0324",
    "hesitant-56k-p.0176",
    "mixed-41k-p.4534",
    "mixed-60k-p.0212",
    "mixed-6k-p.0742",
    "over-confident-14k-p.0452",
    "over-confident-3k-p.4307",
    "over-confident-77k-p.0129",
    "rare-1270k-p.0006",
    "rare-356k-p.0070",
    "rare-649k-p.0016",
    "rounded-51k-p.0114",
    "saturated-11k-p.0728",
    "saturated-178k-p.0551",
    "saturated-20k-p.0956",
    "saturated-52k-p.0597",
    "stepped-14k-p.1920",
    "tailed-36k-p.0124",
    "weighted-103k-p.0227",
    "weighted-136k-p.2398",
    "weighted-16k-p.2981",
}


@pytest.fixture
def zoo(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("zoo")


def test_the_split_into_tuning_and_judging_has_not_moved(zoo):
    assert len(zoo.WRITTEN) == 45
    assert (len(zoo.DRAWN), len(zoo.FRESH)) == (195, 65)
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

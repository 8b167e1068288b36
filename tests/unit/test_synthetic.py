"""Synthetic populations: the halves stand still, and the counts are curves."""

import hashlib
import importlib
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture
def synthetic(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("synthetic")


def test_the_split_into_tuning_and_held_out_has_not_moved(synthetic):
    assert len(synthetic.WRITTEN) == 45
    assert (len(synthetic.DRAWN), len(synthetic.FRESH)) == (260, 65)
    held_out = set(synthetic.names(held_out=True))
    assert len(held_out) == 32
    listed = hashlib.sha256("\n".join(sorted(held_out)).encode()).hexdigest()
    assert listed.startswith("f0e36acf69448ae9ac59b3ea20c125a1")
    tuning = set(synthetic.names(held_out=False, real=False))
    assert tuning == set(synthetic.POPULATIONS) - held_out


def test_every_kind_is_in_both_halves(synthetic):
    for held_out in (True, False):
        kinds = {
            synthetic.POPULATIONS[name][0]
            for name in synthetic.names(held_out=held_out, real=False)
        }
        assert kinds == {kind for kind, _, _ in synthetic.POPULATIONS.values()}


def test_what_has_been_looked_at_is_not_held_out(synthetic):
    assert not any(
        synthetic.is_held_out(name) for name in {**synthetic.WRITTEN, **synthetic.DRAWN}
    )
    assert not any(name.startswith("real:") for name in synthetic.names(held_out=True))


def test_drawn_populations_cover_what_is_written(synthetic):
    held_out = [synthetic.FRESH[name] for name in synthetic.names(held_out=True)]
    assert min(size for _, size, _ in held_out) < 5_000
    assert max(size for _, size, _ in held_out) > 1_000_000


def test_a_population_is_always_the_same_and_its_areas_are_scikit_learns(synthetic):
    found, again = (synthetic.population("cal-2k-p40-sd1") for _ in range(2))
    np.testing.assert_array_equal(found.scores, again.scores)
    assert found.counts.sum(axis=1).tolist() == [1193, 807]
    s = np.tile(found.scores, 2).repeat(found.counts.ravel())
    y = np.repeat([0, 1], found.counts.sum(axis=1))
    assert found.auc == pytest.approx(roc_auc_score(y, s), abs=1e-12)
    assert found.average_precision == pytest.approx(
        average_precision_score(y, s), abs=1e-12
    )


def test_many_examples_are_counts_of_the_size_and_prevalence_that_are_written(
    synthetic,
):
    found = synthetic.population("rare-800k-p001-sd1.2")
    assert found.examples == 800_000
    assert found.scores.size <= 50_000
    # 800 positives, give or take 6 standard deviations.
    assert found.minority == pytest.approx(800, abs=170)

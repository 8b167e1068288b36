"""Scores on a grid are seen through noise, and read as the ties that they are."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

import discreet
from discreet.data.edges import Edges
from discreet.data.prior_spread import PriorSpread
from discreet.errors import InputError
from discreet.estimate.grid import Grid, find_grid
from discreet.estimate.smooth_fit import Smooth
from discreet.metrics.errors import measures
from discreet.metrics.thresholds import at_threshold
from discreet.noise.laplace import LaplaceNoise, simulate_discrete_laplace
from discreet.statistic.observed import NoisyHistogram


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def scored(rng, steps, rows=60_000):
    z = rng.normal(-1.9, 1.6, rows)
    s = 1 / (1 + np.exp(-z))
    y = rng.random(rows) < s
    return (s if steps is None else np.round(s * steps) / steps), y


def released(scores, labels, bins, epsilon, rng):
    edges = Edges.realise(PriorSpread(bins, 0.2))
    cells = edges.bins_of(scores) + len(edges) * labels
    counts = np.bincount(cells, minlength=2 * len(edges)).astype(np.float64)
    counts += simulate_discrete_laplace(1 / epsilon, counts.shape, rng)
    return NoisyHistogram(edges, *np.split(counts, 2), LaplaceNoise(1 / epsilon))


@pytest.mark.parametrize("epsilon", [1.0, 0.3])
@pytest.mark.parametrize("steps", [10, 50, 100])
def test_a_grid_is_found_through_noise(rng, steps, epsilon):
    observed = released(*scored(rng, steps), 34, epsilon, rng)
    assert find_grid(observed).steps == steps


@pytest.mark.parametrize("bins", [20, 34, 80])
def test_smooth_scores_are_on_no_grid(rng, bins):
    observed = released(*scored(rng, None), bins, 1.0, rng)
    assert find_grid(observed) is None
    heaped, labels = scored(rng, None)
    heaped[rng.random(heaped.size) < 0.3] = 0.0
    assert find_grid(released(heaped, labels, bins, 1.0, rng)) is None


def test_a_few_values_somewhere_are_no_grid(rng):
    scores, labels = scored(rng, None)
    values = np.sort(1 / (1 + np.exp(-rng.normal(-1.9, 1.6, 12))))
    stepped = values[np.clip(np.searchsorted(values, scores), 0, 11)]
    assert find_grid(released(stepped, labels, 60, 1.0, rng)) is None


def test_every_multiple_has_one_bin():
    edges = Edges.realise(PriorSpread(30, 0.2))
    grid = Grid.over(edges, 50)
    bins = edges.bins_of(np.arange(51) / 50)
    assert grid.held.tolist() == np.isin(np.arange(30), bins).tolist()


def test_ties_on_a_grid_are_read_as_scikit_learn_reads_them(rng):
    scores, labels = scored(rng, 50)
    fit = Smooth().fit(released(scores, labels, 34, 0.3, rng))
    found = measures(fit, ("auc", "average_precision"))
    right = average_precision_score(labels, scores)
    assert found["auc"].value == pytest.approx(roc_auc_score(labels, scores), abs=0.004)
    assert found["average_precision"].value == pytest.approx(right, abs=0.01)
    low, high = found["average_precision"].interval()
    assert low < right < high
    assert "discreet.Grid(1/50)" in fit.notes[-1]


def test_a_threshold_on_the_grid_takes_the_tie_with_it(rng):
    scores, labels = scored(rng, 50)
    fit = Smooth().fit(released(scores, labels, 34, 1.0, rng))
    for t in (0.3, 0.42, 0.5):  # between edges all
        above = scores >= t
        found = at_threshold(fit, t)
        assert found.specificity.value == pytest.approx(
            (~above)[~labels].mean(), abs=0.005
        )
        assert found.recall.value == pytest.approx(above[labels].mean(), abs=0.01)


def test_a_declared_grid_counts_every_value(rng):
    scores, labels = scored(rng, 50, rows=5_000)
    site = discreet.Examples(scores, labels)
    found = discreet.evaluate([site], edges=discreet.Grid(1 / 50))
    assert found.auc.value == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
    right = average_precision_score(labels, scores)
    assert found.average_precision.value == pytest.approx(right, abs=1e-12)


@pytest.mark.parametrize("step", [0.0, 0.03, 1.5, 1e-5, float("nan")])
def test_a_step_that_does_not_divide_one_is_refused(step):
    with pytest.raises(InputError, match="whole number"):
        Edges.realise(discreet.Grid(step))

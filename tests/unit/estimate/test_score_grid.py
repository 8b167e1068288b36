"""Scores on a grid: seen through noise and fitted as ties, or allowed for where unseen."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

import discreet
from discreet.data.edges import Edges, Support, Warped
from discreet.data.examples import Examples
from discreet.data.prior_spread import PriorSpread
from discreet.errors import InputError
from discreet.estimate.fit import Flat
from discreet.estimate.score_grid import (
    STEPS,
    ScoreGrid,
    find_grid,
    possible_places,
    possible_steps,
)
from discreet.estimate.smooth_fit import Smooth
from discreet.metrics.errors import measures
from discreet.metrics.thresholds import at_threshold
from discreet.noise.arc import CircularArc, simulate_arc_counts
from discreet.statistic import ClassHistogram
from discreet.statistic.observed import NoisyHistogram
from histograms import counted, histogram, noisy


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def scored(rng, steps, rows=60_000, mean=-1.9):
    """Calibrated scores, smooth or rounded to a grid."""
    z = rng.normal(mean, 1.6, rows)
    s = 1 / (1 + np.exp(-z))
    y = rng.random(rows) < s
    return (s if steps is None else np.rint(s * steps) / steps), y


def released(scores, labels, bins, epsilon, rng):
    return noisy(counted(scores, labels, realised(bins)), 1 / epsilon, rng)


def realised(bins, prevalence=0.2):
    return Edges.realise(PriorSpread(bins, prevalence))


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
    edges = realised(30, 0.2)
    grid = ScoreGrid.over(edges, 50)
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


def examples(steps, n, rng):
    return Examples(*scored(rng, steps, n, mean=-1.5))


def drawn(edges, steps, rng, scale=2.0):
    return noisy(counted(*scored(rng, steps, 20_000, mean=-1.5), edges), scale, rng)


@pytest.mark.parametrize("t", [0.3, 0.311, 0.35, 0.6])
@pytest.mark.parametrize("steps", [10, 33, 50, 100])
def test_a_threshold_on_a_grid_cuts_like_smooth_scores_half_a_step_away(t, steps):
    rng = np.random.default_rng(1)
    votes = rng.integers(0, steps + 1, 10_000)
    spread = (votes + rng.uniform(-0.5, 0.5, votes.size)) / steps
    one = histogram(Edges.realise(Warped(2)), np.ones(2), np.ones(2))
    places = possible_places(one, np.array([steps]), t)
    place = min(places) if min(places) < t else max(places)
    assert np.count_nonzero(votes / steps >= t) == np.count_nonzero(spread >= place)


@pytest.mark.parametrize("true", [20, 50, 100])
def test_a_release_allows_the_grid_that_made_it_and_few_coarser_ones(true):
    rng = np.random.default_rng(true)
    edges = realised(40, 0.3)
    for _ in range(10):
        observed = drawn(edges, true, rng)
        found = possible_steps(observed, observed)
        assert true in found
        assert found.min() > true / 2


def test_a_grid_that_was_seen_is_not_the_only_one_that_fits():
    rng = np.random.default_rng(5)
    edges = realised(20, 0.25)
    truth = examples(50, 400_000, rng)
    scores, labels = truth.to_arrays()
    recall = np.mean(scores[labels == 1] >= 0.18)
    taken, held = [], 0
    for _ in range(12):
        fit = Smooth().fit(drawn(edges, 50, rng, scale=3.0))
        taken += [fit.atoms.steps] if fit.atoms is not None else []
        low, high = at_threshold(fit, 0.18).recall.interval()
        held += low <= recall <= high
    assert any(steps != 50 for steps in taken)  # or this would show nothing
    assert held >= 10


def test_smooth_scores_rule_out_grids_that_leave_bins_empty():
    observed = drawn(realised(40, 0.3), None, np.random.default_rng(2))
    assert possible_steps(observed, observed).min() > 90


def test_a_declared_threshold_and_declared_values_leave_nothing_open():
    edges = realised(24, 0.3)
    observed = drawn(edges, 50, np.random.default_rng(3))
    edge = float(edges.array[9])
    assert possible_places(observed, np.array(STEPS), edge) == (edge, edge)
    votes = histogram(Edges.realise(Support((0.0, 0.5, 1.0))), np.ones(3), np.ones(3))
    assert not possible_steps(votes, votes).size
    assert possible_places(votes, np.array(STEPS), 0.4) == (0.4, 0.4)


def test_no_place_lies_outside_the_bin_that_is_cut():
    edges = realised(60, 0.3)
    observed = drawn(edges, None, np.random.default_rng(4))
    t = float(edges.array[30:32].mean())
    low, high = possible_places(observed, np.array(STEPS), t)
    assert (low, high) == pytest.approx((edges.array[30], edges.array[31]), abs=0.01)
    assert edges.array[30] <= low < t < high <= edges.array[31]


def test_a_bin_that_is_seen_to_hold_ties_may_hold_them_anywhere():
    edges = Edges.realise(Warped(64))
    data = scored(np.random.default_rng(5), 5, 20_000, mean=-1.5)
    observed = counted(*data, edges)
    heavy = int(np.argmax(observed.totals[20:44])) + 20
    t = float(edges.array[heavy : heavy + 2].mean())
    ends = tuple(edges.array[heavy : heavy + 2])
    assert possible_places(observed, np.array([1000]), t) == ends


def arcs(steps, n, rng):
    edges = Edges.realise(Warped(32))
    arc = CircularArc(Fraction(5), edges)
    counts = ClassHistogram(edges).count(examples(steps, n, rng))
    opened = arc.open(simulate_arc_counts(arc, counts, rng), 1)
    negatives, positives = np.split(opened.counts, 2)
    return NoisyHistogram(edges, negatives, positives, opened.noise)


def test_bins_that_hold_nothing_cost_arcs_nothing_and_full_ones_much():
    observed = arcs(50, 20_000, np.random.default_rng(6))
    steps = possible_steps(observed, observed)
    assert {50, 100} <= set(steps.tolist())
    assert steps.min() > 33


def test_intervals_under_local_noise_hold_rates_of_votes_that_nobody_declared():
    rng = np.random.default_rng(7)
    population = examples(50, 2_000_000, rng)
    scores, labels = population.to_arrays()
    negatives = scores[labels == 0]
    thresholds = (0.06, 0.14, 0.2, 0.3, 0.4)
    held, bare = np.zeros(5), np.zeros(5)
    for _ in range(12):
        fit = Flat().fit(arcs(50, 100_000, rng))
        for i, t in enumerate(thresholds):
            true = float(np.mean(negatives < t))
            found = at_threshold(fit, t).specificity
            low, high = found.interval()
            held[i] += low <= true <= high
            low, high = found.shape.ends(found.value, 0.0, 0.0, 1.96)
            bare[i] += low <= true <= high
    assert held.min() >= 11
    assert bare.min() <= 6  # the curve alone does not know


def test_intervals_under_noise_hold_rates_of_cents_that_the_release_does_not_show():
    rng = np.random.default_rng(8)
    edges = realised(14, 0.5)
    votes = np.rint(100 / (1 + np.exp(-rng.normal(0, 1.5, 2_000_000)))) / 100
    t, held = 0.31, 0
    true = float(np.mean(votes >= t))
    for _ in range(12):
        exact = counted(rng.choice(votes, 40_000), np.arange(40_000) % 2, edges)
        observed = noisy(exact, 3.0, rng)
        low, high = at_threshold(Smooth().fit(observed), t).recall.interval()
        held += low <= true <= high
    assert held >= 11


def test_counts_of_a_grid_respond_as_those_of_its_bins_do_and_empty_bins_not_at_all():
    held = np.array([True, False, True])
    inner = np.arange(16.0).reshape(4, 4)
    response = ScoreGrid(2, held).responding(lambda rows: rows @ inner)
    wanted = np.zeros((6, 6))
    wanted[np.ix_(np.tile(held, 2), np.tile(held, 2))] = inner
    np.testing.assert_array_equal(response(np.eye(6)), wanted)

"""What a release leaves open inside a bin: scores on grids that it does not show."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from discreet.data.edges import Edges, Support, Warped
from discreet.data.examples import Examples
from discreet.data.prior_spread import PriorSpread
from discreet.estimate.fit import Flat
from discreet.estimate.inside_bins import STEPS, possible_places, possible_steps
from discreet.estimate.smooth_fit import Smooth
from discreet.metrics.thresholds import at_threshold
from discreet.noise.arc import CircularArc, simulate_arc_counts
from discreet.noise.laplace import LaplaceNoise
from discreet.noise.mechanism import NoNoise
from discreet.statistic import ClassHistogram
from discreet.statistic.observed import NoisyHistogram


def examples(steps, n, rng):
    """Calibrated scores, smooth or rounded to a grid."""
    z = rng.normal(-1.5, 1.6, n)
    scores = 1 / (1 + np.exp(-z))
    labels = rng.random(n) < scores
    return Examples(
        scores if steps is None else np.rint(scores * steps) / steps, labels
    )


def counted(edges, steps, n, rng):
    negatives, positives = np.split(
        ClassHistogram(edges).count(examples(steps, n, rng)).astype(float), 2
    )
    return NoisyHistogram(edges, negatives, positives, NoNoise())


def noisy(edges, steps, rng, scale=2.0):
    exact = counted(edges, steps, 20_000, rng)
    noise = rng.laplace(0, scale, (2, len(edges)))
    return replace(
        exact,
        negatives=exact.negatives + noise[0],
        positives=exact.positives + noise[1],
        noise=LaplaceNoise(scale),
    )


@pytest.mark.parametrize("t", [0.3, 0.311, 0.35, 0.6])
@pytest.mark.parametrize("steps", [10, 33, 50, 100])
def test_a_threshold_on_a_grid_cuts_like_smooth_scores_half_a_step_away(t, steps):
    rng = np.random.default_rng(1)
    votes = rng.integers(0, steps + 1, 10_000)
    spread = (votes + rng.uniform(-0.5, 0.5, votes.size)) / steps
    edges = Edges.realise(Warped(2))
    one = NoisyHistogram(edges, np.ones(2), np.ones(2), NoNoise())
    places = possible_places(one, np.array([steps]), t)
    place = min(places) if min(places) < t else max(places)
    assert np.count_nonzero(votes / steps >= t) == np.count_nonzero(spread >= place)


@pytest.mark.parametrize("true", [20, 50, 100])
def test_a_release_allows_the_grid_that_made_it_and_few_coarser_ones(true):
    rng = np.random.default_rng(true)
    edges = Edges.realise(PriorSpread(40, prevalence=0.3))
    for _ in range(10):
        observed = noisy(edges, true, rng)
        found = possible_steps(observed, observed)
        assert true in found
        assert found.min() > true / 2


def test_a_grid_that_was_seen_is_not_the_only_one_that_fits():
    rng = np.random.default_rng(5)
    edges = Edges.realise(PriorSpread(20, prevalence=0.25))
    truth = examples(50, 400_000, rng)
    scores, labels = truth.to_arrays()
    recall = np.mean(scores[labels == 1] >= 0.18)
    taken, held = [], 0
    for _ in range(12):
        fit = Smooth().fit(noisy(edges, 50, rng, scale=3.0))
        taken += [fit.atoms.steps] if fit.atoms is not None else []
        low, high = at_threshold(fit, 0.18).recall.interval()
        held += low <= recall <= high
    assert any(steps != 50 for steps in taken)  # or this would show nothing
    assert held >= 10


def test_smooth_scores_rule_out_grids_that_leave_bins_empty():
    observed = noisy(
        Edges.realise(PriorSpread(40, prevalence=0.3)), None, np.random.default_rng(2)
    )
    assert possible_steps(observed, observed).min() > 90


def test_a_declared_threshold_and_declared_values_leave_nothing_open():
    edges = Edges.realise(PriorSpread(24, prevalence=0.3))
    observed = noisy(edges, 50, np.random.default_rng(3))
    edge = float(edges.array[9])
    assert possible_places(observed, np.array(STEPS), edge) == (edge, edge)
    known = Edges.realise(Support((0.0, 0.5, 1.0)))
    votes = NoisyHistogram(known, np.ones(3), np.ones(3), NoNoise())
    assert not possible_steps(votes, votes).size
    assert possible_places(votes, np.array(STEPS), 0.4) == (0.4, 0.4)


def test_no_place_lies_outside_the_bin_that_is_cut():
    edges = Edges.realise(PriorSpread(60, prevalence=0.3))
    observed = noisy(edges, None, np.random.default_rng(4))
    t = float(edges.array[30:32].mean())
    low, high = possible_places(observed, np.array(STEPS), t)
    assert (low, high) == pytest.approx((edges.array[30], edges.array[31]), abs=0.01)
    assert edges.array[30] <= low < t < high <= edges.array[31]


def test_a_bin_that_is_seen_to_hold_ties_may_hold_them_anywhere():
    edges = Edges.realise(Warped(64))
    observed = counted(edges, 5, 20_000, np.random.default_rng(5))
    bins = observed.negatives + observed.positives
    heavy = int(np.argmax(bins[20:44])) + 20
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
            ends = (
                found.interval(),
                found.shape.ends(found.value, 0.0, 0.0, 1.96),
            )
            held[i] += ends[0][0] <= true <= ends[0][1]
            bare[i] += ends[1][0] <= true <= ends[1][1]
    assert held.min() >= 11
    assert bare.min() <= 6  # the curve alone does not know


def test_intervals_under_noise_hold_rates_of_cents_that_the_release_does_not_show():
    rng = np.random.default_rng(8)
    edges = Edges.realise(PriorSpread(14, prevalence=0.5))
    votes = np.rint(100 / (1 + np.exp(-rng.normal(0, 1.5, 2_000_000)))) / 100
    t, held = 0.31, 0
    true = float(np.mean(votes >= t))
    for _ in range(12):
        drawn = Examples(rng.choice(votes, 40_000), np.arange(40_000) % 2)
        counts = np.split(ClassHistogram(edges).count(drawn).astype(float), 2)
        noise = rng.laplace(0, 3.0, (2, len(edges)))
        observed = NoisyHistogram(
            edges, counts[0] + noise[0], counts[1] + noise[1], LaplaceNoise(3.0)
        )
        low, high = at_threshold(Smooth().fit(observed), t).recall.interval()
        held += low <= true <= high
    assert held >= 11

"""Rank sums: every flip of one label by brute force, and forged vectors are refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.entropy import Seeded
from discreet.errors import PlanError, ReleaseError
from discreet.label.rank_terms import read
from discreet.label.ranks import SiteRanks
from discreet.label.released_sums import LinearSums, Row, SummedEndpoint
from discreet.label.sum_noise import (
    GaussianSumNoise,
    LaplaceSumNoise,
    StaircaseSumNoise,
    discrete_delta,
)
from discreet.privacy.loss import PureDP
from discreet.session.protocols.ranks import RankSite, collect
from label_cases import (
    EPSILONS,
    GAUSSIAN,
    GAUSSIAN_BUDGET,
    LINEAR,
    linear_of,
    loss_of_move,
    moves,
    random_sites,
    rank_terms,
    staircase_pmf,
)
from oracles import gaussian_table


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_flip_of_any_labels_costs_more_than_epsilon(name, epsilon, rng):
    tight = 0
    for ranks in random_sites(12, rng):
        mechanism = linear_of(name, ranks, PureDP(epsilon))
        if mechanism is None:
            continue  # the choice fell on randomized response: tested by its channel
        worst = max(loss_of_move(mechanism, move) for move in moves(mechanism, ranks))
        assert worst <= epsilon
        assert worst == mechanism.epsilon_spent
        tight += worst > epsilon * Fraction(999, 1000)
    expected = 0 if name == "global-laplace" else 1
    assert tight >= expected  # the noise is not larger than the flips ask for


def test_the_endpoint_sums_move_by_exactly_their_range(rng):
    for ranks in random_sites(40, rng):
        if ranks.low == ranks.high:
            continue
        mechanism = linear_of("endpoint", ranks, PureDP(Fraction(1)))
        found = {int(np.abs(m).sum()) for m in moves(mechanism, ranks)}
        assert found == {ranks.high - ranks.low}


def test_the_common_endpoint_sums_move_by_exactly_the_range_of_all_ranks(rng):
    for ranks in random_sites(40, rng):
        common = SummedEndpoint(ranks.examples, PureDP(Fraction(1)), honest=1)
        found = {int(np.abs(m).sum()) for m in moves(common, ranks)}
        assert found == {2 * (ranks.examples - 1)}


@pytest.mark.parametrize("name", GAUSSIAN)
def test_gaussian_sums_keep_their_delta_for_every_flip(name, rng):
    epsilon, delta = GAUSSIAN_BUDGET.epsilon, GAUSSIAN_BUDGET.delta
    for ranks in random_sites(12, rng):
        mechanism = linear_of(name, ranks, GAUSSIAN_BUDGET)
        noises = [row.noise for row in mechanism.rows]
        moved = [tuple(move.tolist()) for move in moves(mechanism, ranks)]
        found = discrete_delta(float(epsilon), moved, noises)
        assert found <= delta
        if name in ("endpoint", "adaptive"):
            assert found > float(delta) * 0.95


@pytest.mark.parametrize(("sigma_squared", "apart"), [(30, (3, 2)), (200, (9, 0))])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
def test_the_bound_for_discrete_noise_is_above_its_exact_delta(
    sigma_squared, apart, epsilon
):
    table = gaussian_table(Fraction(sigma_squared))
    reach = table.reach
    p = table.probabilities
    here = np.outer(p, p)
    there = np.outer(*(np.pad(p, (m, 0))[: 2 * reach + 1] for m in apart))
    exact = np.maximum(here - math.exp(epsilon) * there, 0).sum()
    noise = GaussianSumNoise(sigma_squared)
    bound = discrete_delta(epsilon, [apart], [noise, noise])
    assert exact <= bound
    assert bound < 2 * exact + 1e-9  # and it is not idle


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2), Fraction(6)])
@pytest.mark.parametrize("step", [1, 2, 7, 24])
def test_no_move_within_a_step_changes_a_staircase_by_more_than_epsilon(step, epsilon):
    for width in range(1, step + 1):
        noise = StaircaseSumNoise(step, width, epsilon)
        x = np.arange(-20 * step, 20 * step + 1)
        p = staircase_pmf(noise, x)
        for move in range(1, step + 1):
            ratio = np.log(p[move:] / p[:-move])
            assert np.abs(ratio).max() <= float(epsilon) * (1 + 1e-12)
        beyond = np.log(p[step + width :] / p[: -step - width])
        assert np.abs(beyond).max() > float(epsilon) * 1.5  # one step is the limit


def test_a_mechanism_that_would_exceed_its_budget_cannot_be_made():
    ranks = SiteRanks(np.array([0, 4, 8]), examples=5)
    noise = LaplaceSumNoise(Fraction(8))
    rows = (Row(1, 0, noise), Row(-1, 8, noise))
    assert LinearSums(ranks, rows, PureDP(Fraction(1))).epsilon_spent == 1
    too_little = LaplaceSumNoise(Fraction(79, 10))
    for bad in ((Row(1, 0, too_little), rows[1]), (rows[0], Row(-1, 9, noise))):
        with pytest.raises(PlanError, match="exceed their budget"):
            LinearSums(ranks, bad, PureDP(Fraction(1)))


def test_gaussian_noise_that_is_too_small_cannot_be_made():
    ranks = SiteRanks(np.array([0, 4, 8]), examples=5)
    good = linear_of("endpoint", ranks, GAUSSIAN_BUDGET)
    small = [
        Row(r.slope, r.offset, GaussianSumNoise(int(r.noise.variance * 0.98)))
        for r in good.rows
    ]
    with pytest.raises(PlanError, match="exceed their budget"):
        LinearSums(ranks, tuple(small), GAUSSIAN_BUDGET)


TERMS = rank_terms(2)


def opened_of(values, seed):
    scores = np.array(values) / 10
    labels = np.array(values, dtype=np.int64) % 2
    entropy = Seeded(seed.to_bytes(5, "big"))
    site = RankSite(TERMS, scores, lambda: labels, entropy, lambda make: make())
    states = [b""]

    def ask(_, messages):
        states[0], reply = site.receive(states[0], messages[1])
        return {1: reply}

    return collect(ask, [1], TERMS)[0]


@given(st.lists(st.integers(0, 10), min_size=1, max_size=12), st.integers(0, 2**32))
def test_ranks_of_any_scores_are_accepted_by_the_site_that_sent_them(values, seed):
    assert read(TERMS, opened_of(values, seed)).examples == len(values)


@given(st.data())
def test_any_opened_vector_is_read_or_refused_as_a_release(data):
    total = opened_of([1, 4, 4, 9], 1)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, total.size - 1))
        total[place] = data.draw(
            st.integers(-20, 20) | st.integers(-(2**63), 2**63 - 1)
        )
    try:
        fit = read(TERMS, total)
    except ReleaseError:
        return
    assert fit.sites == 1

"""Draws of the curator's releases against their distributions.

Each check fails on correct code with probability ALPHA; each has a twin that a
wrong scale is rejected.
"""

from fractions import Fraction

import numpy as np
import pytest

from bench.simulated_releases import grid_probabilities
from discreet.curator.ranking import Ranking
from discreet.curator.smooth_noise import (
    GridNoise,
    PowerTail,
    draw_on_grid,
    simulate_smooth,
)
from discreet.curator.weighted_count import (
    UNIT,
    ap_weights,
    auc_weights,
    pair_count_weights,
    protect,
    simulate_weighted_count,
)
from discreet.entropy import Seeded
from discreet.published.boyd2015 import HeavyTail, LaplaceTail
from statistical_checks import ALPHA, chi_squared_p_value

pytestmark = pytest.mark.statistical

TAILS = [
    LaplaceTail(),
    PowerTail(Fraction(7, 2)),
    HeavyTail(Fraction(2)),
    pytest.param(HeavyTail(Fraction(3, 2)), marks=pytest.mark.slow),
]
STEPS, DRAWS = 8, 2500
VALUE, SCALE = Fraction(3, 5), Fraction(3, 20)


def expected(tail, factor=1.0):
    return DRAWS * grid_probabilities(float(VALUE), factor * float(SCALE), tail, STEPS)


@pytest.mark.parametrize("tail", TAILS, ids=repr)
def test_draws_on_the_grid_follow_their_distribution_and_another_scale_is_rejected(
    tail,
):
    entropy = Seeded(b"grid")
    noise = GridNoise(tail, SCALE)
    drawn = [
        draw_on_grid(VALUE, noise, steps=STEPS, entropy=entropy) for _ in range(DRAWS)
    ]
    observed = np.bincount(drawn, minlength=STEPS + 1).astype(float)
    # The rarest cells are pooled with their neighbours.
    pooled = [observed[:3].sum(), *observed[3:-1], observed[-1]]
    for factor, accepted in ((1.0, True), (0.6, False), (1.6, False)):
        distribution = expected(tail, factor)
        cells = np.array(
            [distribution[:3].sum(), *distribution[3:-1], distribution[-1]]
        )
        p = chi_squared_p_value(np.array(pooled), cells)
        assert (p > ALPHA) == accepted


@pytest.mark.parametrize("tail", TAILS, ids=repr)
def test_the_simulation_has_the_same_distribution(tail):
    rng = np.random.default_rng(2)
    noise = GridNoise(tail, SCALE)
    found = simulate_smooth(float(VALUE), noise, DRAWS, rng)
    observed = np.bincount(np.rint(found * STEPS).astype(int), minlength=STEPS + 1)
    distribution = expected(tail)
    pooled = np.array([observed[:3].sum(), *observed[3:]], dtype=float)
    assert (
        chi_squared_p_value(
            pooled, np.array([distribution[:3].sum(), *distribution[3:]])
        )
        > ALPHA
    )


def laplace_cells(noise, scale):
    """Counts in eight cells that Laplace noise of this scale fills equally."""
    u = np.where(
        noise < 0, 0.5 * np.exp(noise / scale), 1 - 0.5 * np.exp(-noise / scale)
    )
    return np.bincount((u * 8).astype(int).clip(0, 7), minlength=8).astype(float)


@pytest.mark.parametrize("weights", [auc_weights, ap_weights, pair_count_weights])
@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(2)])
def test_both_integers_carry_laplace_noise_of_their_sensitivity(weights, epsilon):
    table, runs = weights(500), 3000
    ranking = Ranking(200, 300, 2 * 48_000, 0.7)
    entropy = Seeded(b"pair")
    drawn = [
        protect(ranking, ranking.auc, table, epsilon, entropy) for _ in range(runs)
    ]
    weighted = round((ranking.auc - Fraction(1, 2)) * int(table.weights[200]))
    q = np.array([d[0] - weighted for d in drawn], dtype=float)
    g = np.array([d[1] - int(table.codes[200]) for d in drawn], dtype=float)
    scale = table.l1 / float(epsilon)
    flat = np.full(8, runs / 8)
    for noise in (q, g):
        assert chi_squared_p_value(laplace_cells(noise, scale), flat) > ALPHA
        assert chi_squared_p_value(laplace_cells(noise, 0.7 * scale), flat) < ALPHA
        assert chi_squared_p_value(laplace_cells(noise, 1.4 * scale), flat) < ALPHA
    # Independent: the correlation of 3,000 pairs is within 6.1 standard errors.
    assert abs(np.corrcoef(np.sign(q), np.sign(g))[0, 1]) < 6.1 / np.sqrt(runs)


def test_simulated_weighted_counts_spread_as_the_noise_predicts():
    rng = np.random.default_rng(4)
    table = auc_weights(2000)
    found = simulate_weighted_count(0.8, 1000, table, 1.0, 20_000, rng)
    weight = table.weights[1000] / UNIT
    # At equal classes the weight hardly depends on the count: Laplace(1/w).
    assert np.mean(np.abs(found - 0.8)) == pytest.approx(1.0 / weight, rel=0.1)
    assert np.median(found) == pytest.approx(0.8, abs=0.0005)

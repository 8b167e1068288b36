"""Density-ratio audits of every mechanism of the curator at epsilon .1 to 8.

For neighbours with any shift up to the smaller smooth sensitivity and any ratio
of the two up to e^beta, the realised loss is at most epsilon.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import curator_oracles as oracle
from bench.simulated_releases import grid_probabilities, log_density
from discreet.curator.ranking import auc_smooth_sensitivity
from discreet.curator.smooth_noise import power_law, tuned
from discreet.curator.weighted_count import (
    ap_weights,
    auc_weights,
    pair_count_weights,
)
from discreet.errors import PlanError
from discreet.published.boyd2015 import heavy_tailed, smooth_laplace, worst_delta

EPSILONS = [Fraction(e) for e in ("0.1", "0.3", "1", "2", "3", "5", "8")]
SHARES = [Fraction(s) for s in ("0.02", "0.1", "0.3", "0.7", "0.95")]
GAMMAS = [Fraction(g) for g in ("1.1", "1.5", "2", "4")]
SHIFTS = np.linspace(0.0, 1.0, 9)
THETAS = np.linspace(-1.0, 1.0, 17)
PLACES = np.concatenate([[0.0], np.logspace(-6, 9, 4001)])


def realised_loss(tail, factor, beta):
    """The largest log density ratio, by shift, scale ratio and place.

    ``factor`` is the noise's scale for a smooth sensitivity of 1.
    """
    largest = 0.0
    for theta in THETAS:
        other = math.exp(theta * beta)
        for shift in SHIFTS * min(1.0, other):
            x = np.concatenate([-PLACES[::-1], PLACES]) * factor
            # Places around both centres: the ratio peaks at one of them.
            x = np.concatenate([x, x + shift])
            one = log_density(tail, x / factor) - math.log(factor)
            two = log_density(tail, (x - shift) / (factor * other))
            two -= math.log(factor * other)
            largest = max(largest, float(np.max(np.abs(one - two))))
    return largest


def factor_of(mechanism):
    return float(mechanism.noise(1.0).scale)


def loss_of(mechanism, less=1.0):
    tail = mechanism.noise(1.0).tail
    return realised_loss(tail, less * factor_of(mechanism), mechanism.beta)


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("share", SHARES, ids=str)
def test_power_law_noise_keeps_its_epsilon_and_uses_all_of_it(epsilon, share):
    loss = loss_of(power_law(epsilon, share))
    assert loss <= float(epsilon) * (1 + 1e-9)
    assert loss > 0.99 * float(epsilon)


def without_the_second_term(epsilon, share):
    """The broken variant: kappa's first term alone."""
    whole = power_law(epsilon, share)
    gap = float(epsilon) - whole.beta
    kappa = math.exp(-whole.beta) / math.expm1(gap / float(whole.tail.exponent))
    return replace(whole, per_unit=kappa)


def test_the_broken_power_law_is_caught():
    caught = []
    for epsilon in EPSILONS:
        for share in SHARES:
            loss = loss_of(without_the_second_term(epsilon, share))
            caught.append((epsilon, loss > float(epsilon) * (1 + 1e-6)))
    assert any(found for epsilon, found in caught if epsilon >= 2)


def test_a_tenth_less_noise_is_caught():
    assert loss_of(power_law(Fraction(1), Fraction(1, 10)), less=0.9) > 1.05


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("gamma", GAMMAS, ids=str)
def test_heavy_tailed_noise_keeps_its_epsilon(epsilon, gamma):
    assert loss_of(heavy_tailed(epsilon, gamma)) <= float(epsilon)


def test_cauchy_noise_wastes_most_of_its_epsilon():
    loss = loss_of(heavy_tailed(Fraction(1)))
    assert loss == pytest.approx(0.226, abs=0.005)


def hockey_stick(epsilon, factor, shift, other):
    """The delta that two Laplace laws need at epsilon, by fine summation."""
    x = np.linspace(-60.0, 60.0, 400_001) * factor
    one = 0.5 / factor * np.exp(-np.abs(x) / factor)
    scale = factor * other
    two = 0.5 / scale * np.exp(-np.abs(x - shift) / scale)
    step = x[1] - x[0]
    return max(
        float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * step)
        for p, q in ((one, two), (two, one))
    )


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("delta", ["0.000001", "0.0001", "0.01"])
def test_laplace_noise_keeps_its_epsilon_and_delta(epsilon, delta):
    mechanism = smooth_laplace(epsilon, Fraction(delta))
    factor = factor_of(mechanism)
    for theta in (-1.0, -0.5, 0.0, 0.5, 1.0):
        other = math.exp(theta * mechanism.beta)
        for shift in (0.0, 0.5 * min(1.0, other), min(1.0, other)):
            spent = hockey_stick(float(epsilon), factor, shift, other)
            assert spent <= float(delta) + 1e-9


@pytest.mark.parametrize("epsilon", [1, 4, 8, 11])
@pytest.mark.parametrize("delta", ["0.000001", "0.0001", "0.01"])
def test_the_closed_form_of_laplace_noise_is_the_summed_delta(epsilon, delta):
    noise = smooth_laplace(Fraction(epsilon), Fraction(delta))
    narrow = math.exp(-noise.beta)
    summed = hockey_stick(float(epsilon), factor_of(noise), narrow, narrow)
    worst = worst_delta(float(epsilon), noise.beta)
    assert worst == pytest.approx(summed, rel=0.02, abs=1e-12)
    assert worst <= float(delta)


@pytest.mark.parametrize("delta", ["1e-10", "0.000001", "0.0001", "0.01"])
def test_laplace_noise_that_exceeds_its_delta_is_refused(delta):
    """The theorem's constants hold for a small epsilon, not for any."""
    kept = [e for e in range(1, 40) if _made(e, delta)]
    assert kept == list(range(1, len(kept) + 1))
    assert 8 <= len(kept) < 30
    with pytest.raises(PlanError, match="does not keep delta"):
        smooth_laplace(Fraction(2000), Fraction(delta))


def _made(epsilon, delta):
    try:
        smooth_laplace(Fraction(epsilon), Fraction(delta))
    except PlanError:
        return False
    return True


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("n", [1, 3, 20])
def test_neighbouring_data_sets_on_the_grid_keep_epsilon(epsilon, n):
    """The released law itself: truncated, on the grid, with smooth sensitivities."""
    rows = 40
    mechanism = tuned(epsilon, lambda beta: auc_smooth_sensitivity(20, 20, beta))
    here, there = (
        auc_smooth_sensitivity(k, rows - k, mechanism.beta) for k in (n, n + 1)
    )
    assert abs(math.log(here / there)) <= mechanism.beta
    for shift in (0.0, 0.5, 1.0):
        value = min(0.3 + shift * min(here, there), 1.0)
        one, two = (
            grid_probabilities(v, float(mechanism.noise(s).scale), mechanism.tail, 1000)
            for v, s in ((0.3, here), (value, there))
        )
        ratio = np.abs(np.log(one) - np.log(two))
        assert ratio.max() <= float(epsilon) * (1 + 1e-6)


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("weights", [auc_weights, pair_count_weights, ap_weights])
def test_weighted_counts_of_all_neighbours_keep_epsilon(epsilon, weights):
    """Discrete Laplace noise in both: the loss is the L1 distance over the scale."""
    rows = 6
    table = weights(rows)
    metric = oracle.average_precision if weights is ap_weights else oracle.auc
    scale = table.scale(epsilon)
    losses = []
    for ranking in oracle.strict_rankings(rows):
        for other in oracle.neighbours(ranking, ties=False):
            n, n_other = (oracle.class_counts(r)[0] for r in (ranking, other))
            q, q_other = (
                round((metric(r) - Fraction(1, 2)) * int(table.weights[k]))
                for r, k in ((ranking, n), (other, n_other))
            )
            distance = abs(q - q_other) + abs(
                int(table.codes[n] - table.codes[n_other])
            )
            losses.append(distance / scale)
    assert 0.8 * epsilon < max(losses) <= epsilon

import math
from fractions import Fraction

import numpy as np
import pytest

from audits import audit_scores
from bench.simulated_sums import (
    simulate_gaussian,
    simulate_laplace,
    simulate_response_errors,
    simulate_staircase,
)
from discreet.label.ranks import SiteRanks
from discreet.label.released_sums import LinearSums, ResponseSums, Row
from discreet.label.sum_noise import (
    GaussianSumNoise,
    LaplaceSumNoise,
    StaircaseSumNoise,
)
from discreet.privacy.loss import PureDP
from label_cases import mechanism_of, staircase_pmf
from oracles import gaussian_table
from statistical_checks import ALPHA, fit_p_value, same_law_p_value

pytestmark = pytest.mark.statistical

STAIRCASES = [
    StaircaseSumNoise(1, 1, Fraction(1, 2)),
    StaircaseSumNoise(6, 2, Fraction(1)),
    StaircaseSumNoise(6, 6, Fraction(2)),
    StaircaseSumNoise(5, 1, Fraction(3)),
]
SIZE = 100_000


def support_of(noise):
    reach = noise.width + noise.step - 1
    return range(-reach, reach + 1)


def pmf_of(noise):
    return lambda k: float(staircase_pmf(noise, np.array([k]))[0])


@pytest.mark.parametrize("noise", STAIRCASES)
def test_staircase_noise_follows_its_pmf(noise, entropy):
    sample = noise.draws(SIZE, entropy)
    assert fit_p_value(sample, pmf_of(noise), support_of(noise)) > ALPHA


@pytest.mark.parametrize("noise", STAIRCASES[1:])
def test_the_fit_rejects_a_staircase_of_another_epsilon_or_width(noise, entropy):
    sample = noise.draws(SIZE, entropy)
    louder = StaircaseSumNoise(noise.step, noise.width, noise.epsilon * Fraction(4, 5))
    assert fit_p_value(sample, pmf_of(louder), support_of(noise)) < ALPHA
    width = noise.width - 1 or noise.width + 1
    other = StaircaseSumNoise(noise.step, width, noise.epsilon)
    assert fit_p_value(sample, pmf_of(other), support_of(noise)) < ALPHA


@pytest.mark.parametrize("noise", STAIRCASES)
def test_the_variance_of_a_staircase_is_that_of_its_pmf(noise):
    x = np.arange(-400 * noise.step, 400 * noise.step + 1)
    p = staircase_pmf(noise, x)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert noise.variance == pytest.approx(float(p @ (x * x)), rel=1e-9)


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2), Fraction(6)])
def test_no_other_width_has_less_variance(epsilon):
    step = 400
    best = StaircaseSumNoise.narrowest(step, epsilon)
    others = [StaircaseSumNoise(step, w, epsilon).variance for w in range(1, step + 1)]
    assert best.variance <= min(others) * (1 + 1e-4)
    laplace = LaplaceSumNoise(Fraction(step) / epsilon)
    assert best.variance < laplace.variance


@pytest.mark.parametrize("noise", STAIRCASES)
def test_the_staircase_twin_has_the_same_distribution(noise, entropy, rng):
    exact = noise.draws(SIZE, entropy)
    twin = simulate_staircase(
        [noise.step], [noise.width], [float(noise.epsilon)], SIZE, rng
    )
    assert same_law_p_value(exact, twin[:, 0], support_of(noise)) > ALPHA


def test_the_laplace_twin_has_the_same_distribution(rng):
    twin = simulate_laplace([2.5], (SIZE, 1), rng)[:, 0]

    def pmf(scale):
        return lambda k: math.tanh(0.5 / scale) * math.exp(-abs(k) / scale)

    assert fit_p_value(twin, pmf(2.5), range(-6, 7)) > ALPHA
    assert fit_p_value(twin, pmf(2.2), range(-6, 7)) < ALPHA


@pytest.mark.parametrize("sigma_squared", [3, 20])
def test_gaussian_draws_follow_the_discrete_distribution(sigma_squared, entropy):
    noise = GaussianSumNoise(sigma_squared)
    sample = noise.draws(2500, entropy)
    reach = round(0.45 * math.sqrt(sigma_squared))

    def pmf(parameter):
        table = gaussian_table(Fraction(parameter))
        return lambda k: float(table.probabilities[k + table.reach])

    support = range(-reach, reach + 1)
    assert fit_p_value(sample, pmf(sigma_squared), support) > ALPHA
    assert fit_p_value(sample, pmf(sigma_squared * 2), support) < ALPHA


def test_large_gaussian_noise_has_its_standard_deviation(entropy, rng):
    noise = GaussianSumNoise(10**13)
    sample = noise.draws(400, entropy)
    twin = simulate_gaussian([10**13], (400, 1), rng)
    for drawn in (sample, twin):
        # The variance of 400 draws is within 6.2 sigma of its mean but in 1e-9.
        assert drawn.var() == pytest.approx(10**13, rel=6.2 * math.sqrt(2 / 400))


RANKS = SiteRanks(np.array([2, 9, 9, 17, 30], dtype=np.int64), examples=20)
ONE = np.array([1, 0, 1, 1, 0], dtype=np.int64)
OTHERS = [
    np.array([0, 0, 1, 1, 0], dtype=np.int64),
    np.array([1, 0, 1, 1, 1], dtype=np.int64),
]
AUDITED = ("endpoint", "slack", "staircase", "local-laplace", "orthogonal", "adaptive")
RUNS = 40_000


def attack(mechanism, other, entropy):
    """Score many releases of two neighbours by the direction in which they differ."""
    direction = (mechanism.exact(ONE, RANKS) - mechanism.exact(other, RANKS)).astype(
        np.float64
    )
    scales = np.array([math.sqrt(row.noise.variance) for row in mechanism.rows])
    scores = []
    for labels in (ONE, other):
        noise = [row.noise.draws(RUNS, entropy) for row in mechanism.rows]
        released = mechanism.exact(labels, RANKS) + np.column_stack(noise)
        scores.append(released @ (direction / scales**2))
    return audit_scores(*scores)


@pytest.mark.parametrize("name", AUDITED)
@pytest.mark.parametrize("other", OTHERS)
def test_an_audit_does_not_refute_epsilon(name, other, entropy):
    epsilon = Fraction(1)
    mechanism = mechanism_of(name, RANKS, PureDP(epsilon))
    assert not attack(mechanism, other, entropy).refutes(epsilon)


@pytest.mark.parametrize("name", ["endpoint", "slack", "staircase", "adaptive"])
def test_the_audit_refutes_half_the_noise(name, entropy):
    """The power twin: the mechanism for twice epsilon, audited for epsilon."""
    epsilon = Fraction(1)
    mechanism = mechanism_of(name, RANKS, PureDP(2 * epsilon))
    assert any(attack(mechanism, y, entropy).refutes(epsilon) for y in OTHERS)


@pytest.mark.parametrize("name", ["endpoint", "staircase", "adaptive"])
def test_every_released_sum_gets_its_noise(name, entropy):
    """The whole release path, in few runs: noise of the promised size on each sum."""
    mechanism = mechanism_of(name, RANKS, PureDP(Fraction(1)))
    runs = 150
    drawn = [mechanism.protect(ONE, RANKS, entropy=entropy) for _ in range(runs)]
    noise = np.array(drawn) - mechanism.exact(ONE, RANKS)
    variances = np.array([row.noise.variance for row in mechanism.rows])
    ratio = (noise**2).mean(axis=0) / variances
    # A mean of squares of Laplace noise over 150 runs: sd sqrt(5/150) = .18, skewed.
    assert (ratio > 0.3).all()
    assert (ratio < 3.5).all()
    assert abs(np.corrcoef(noise.T)[0, 1]) < 6.2 / math.sqrt(runs)


def test_flips_have_their_probability(entropy):
    site = SiteRanks(np.arange(0, 60_000, 2, dtype=np.int64), examples=30_000)
    mechanism = ResponseSums(site, PureDP(Fraction(1)))
    ones = np.ones(30_000, dtype=np.int64)
    _, kept = mechanism.protect(ones, site, entropy=entropy)
    rho = mechanism.flip_probability
    sd = math.sqrt(30_000 * rho * (1 - rho))
    assert abs(30_000 - kept - 30_000 * rho) < 6.2 * sd
    assert abs(30_000 - kept - 30_000 * rho * 1.15) > 6.2 * sd  # the power twin


def test_the_response_twin_has_the_covariance_of_the_mechanism(rng):
    doubled = np.arange(0, 400, 2, dtype=np.int64)
    site = SiteRanks(doubled, examples=200)
    labels = (rng.random(200) < 0.3).astype(np.int64)
    cov = ResponseSums(site, PureDP(Fraction(2))).covariance
    runs = 40_000
    s, p = simulate_response_errors(doubled / 2, labels, 2.0, runs, rng)
    room = 6.2 * math.sqrt(2 / runs)
    assert s.var() == pytest.approx(cov.rank_sum, rel=room)
    assert p.var() == pytest.approx(cov.positives, rel=room)
    assert np.cov(s, p)[0, 1] == pytest.approx(cov.cross, rel=room)
    assert abs(s.mean()) < 6.2 * math.sqrt(cov.rank_sum / runs)


def test_half_the_scale_is_another_mechanism():
    noise = LaplaceSumNoise(Fraction(28))
    rows = (Row(1, -2, noise), Row(-1, 30, noise))
    assert mechanism_of("endpoint", RANKS, PureDP(Fraction(1))) == LinearSums(
        RANKS, rows, PureDP(Fraction(1))
    )

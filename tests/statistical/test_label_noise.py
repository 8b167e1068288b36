"""Noise of rank sums: its size on every released sum, and that no width is better."""

import math
from fractions import Fraction

import numpy as np
import pytest

from bench.simulated_sums import simulate_gaussian
from discreet.label.ranks import SiteRanks
from discreet.label.released_sums import LinearSums, Row
from discreet.label.sum_noise import (
    GaussianSumNoise,
    LaplaceSumNoise,
    StaircaseSumNoise,
)
from discreet.privacy.loss import PureDP
from label_cases import mechanism_of, staircase_pmf

pytestmark = pytest.mark.statistical

ONE = PureDP(Fraction(1))
RANKS = SiteRanks(np.array([2, 9, 9, 17, 30], dtype=np.int64), examples=20)


@pytest.mark.parametrize(
    ("step", "width", "epsilon"), [(1, 1, "1/2"), (6, 2, "1"), (6, 6, "2"), (5, 1, "3")]
)
def test_the_variance_of_a_staircase_is_that_of_its_pmf(step, width, epsilon):
    noise = StaircaseSumNoise(step, width, Fraction(epsilon))
    x = np.arange(-400 * step, 400 * step + 1)
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


def test_large_gaussian_noise_has_its_standard_deviation(entropy, rng):
    noise = GaussianSumNoise(10**13)
    sample = noise.draws(400, entropy)
    twin = simulate_gaussian([10**13], (400, 1), rng)
    for drawn in (sample, twin):
        # The variance of 400 draws is within 6.2 sigma of its mean but in 1e-9.
        assert drawn.var() == pytest.approx(10**13, rel=6.2 * math.sqrt(2 / 400))


@pytest.mark.parametrize("name", ["endpoint", "staircase", "adaptive"])
def test_every_released_sum_gets_its_noise(name, entropy):
    """The whole release path, in few runs: noise of the promised size on each sum."""
    mechanism = mechanism_of(name, RANKS, ONE)
    labels = np.array([1, 0, 1, 1, 0], dtype=np.int64)
    runs = 150
    drawn = [mechanism.protect(labels, RANKS, entropy=entropy) for _ in range(runs)]
    noise = np.array(drawn) - mechanism.exact(labels, RANKS)
    variances = np.array([row.noise.variance for row in mechanism.rows])
    ratio = (noise**2).mean(axis=0) / variances
    # A mean of squares of Laplace noise over 150 runs: sd sqrt(5/150) = .18, skewed.
    assert (ratio > 0.3).all()
    assert (ratio < 3.5).all()
    assert abs(np.corrcoef(noise.T)[0, 1]) < 6.2 / math.sqrt(runs)


def test_endpoint_sums_have_the_scale_of_their_range():
    noise = LaplaceSumNoise(Fraction(28))
    rows = (Row(1, -2, noise), Row(-1, 30, noise))
    assert mechanism_of("endpoint", RANKS, ONE) == LinearSums(RANKS, rows, ONE)

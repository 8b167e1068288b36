from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from discreet.entropy import SYSTEM, Seeded
from discreet.errors import PlanError, ReleaseError
from discreet.noise.laplace import LaplaceNoise
from discreet.noise.polya import PolyaNoise, PolyaShares, _levels, polya_difference
from discreet.noise.skellam import SkellamShares
from discreet.privacy.loss import ApproxDP, PureDP
from discreet.privacy.unit import EXAMPLE, Sensitivity, Unit
from oracles import polya_log_pmf

ONE = Sensitivity(1, 1, 1, EXAMPLE)
SHARES = PolyaShares(PureDP(Fraction(1, 2)), ONE, honest=3)


@pytest.mark.parametrize("gamma", [3.0, 0.4, 0.05])
@pytest.mark.parametrize("shape", [0.02, 1 / 3, 1.0, 1.5, 2.0, 7.3])
def test_the_oracle_is_a_difference_of_negative_binomials(gamma, shape):
    nb, j = stats.nbinom(shape, -np.expm1(-gamma)), np.arange(4_000)
    k = np.array([0, 1, 2, 5, 40])
    expected = [(nb.pmf(j) * nb.pmf(j + each)).sum() for each in k]
    for values in (k, -k):
        got = np.exp(polya_log_pmf(PolyaNoise(gamma, shape), values))
        np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_the_pmf_of_contributors_equal_to_honest_is_discrete_laplace():
    k, a = np.arange(-30, 31), np.exp(-0.5)
    pmf = np.exp(polya_log_pmf(SHARES.noise(3), k))
    np.testing.assert_allclose(pmf, (1 - a) / (1 + a) * a ** np.abs(k), rtol=1e-12)


@pytest.mark.parametrize("shape", [0.01, 1.0, 1.7, 12.0, 300.0])
def test_the_variance_is_that_of_the_pmf(shape):
    noise, k = PolyaNoise(0.3, shape), np.arange(-1_500, 1_501)
    pmf = np.exp(polya_log_pmf(noise, k))
    assert pmf.sum() == pytest.approx(1.0, abs=1e-12)
    assert (pmf * k**2).sum() == pytest.approx(noise.variance, rel=1e-9)


def test_the_noise_of_the_honest_sum_has_the_variance_of_discrete_laplace():
    assert SHARES.noise(3).variance == pytest.approx(LaplaceNoise(2.0).variance)
    assert SHARES.noise(6).variance == pytest.approx(2 * SHARES.noise(3).variance)
    assert SHARES.noise(6).scale == 2.0


def test_the_scale_grows_with_the_l1_sensitivity():
    client = Sensitivity(5, 25, 5, Unit("client", "add_remove", 5))
    mechanism = PolyaShares(PureDP(Fraction(1, 2)), client, honest=3)
    assert mechanism.noise(3).scale == pytest.approx(10.0)


SKELLAM = SkellamShares(ApproxDP(Fraction(1), Fraction(1, 10**6)), ONE, honest=3)
each_kind_of_shares = pytest.mark.parametrize("shares", [SHARES, SKELLAM])


@each_kind_of_shares
def test_a_sum_of_too_few_shares_is_refused(shares):
    with pytest.raises(ReleaseError, match=r"2 sites contributed.*at least 3"):
        shares.noise(2)
    with pytest.raises(ReleaseError, match="2 sites contributed"):
        shares.open(np.zeros(4, dtype=np.int64), 2)


@each_kind_of_shares
def test_noise_that_nobody_is_sure_to_add_is_refused(shares):
    with pytest.raises(PlanError, match="min_survivors - colluders"):
        replace(shares, honest=0)


@pytest.mark.parametrize(
    ("gamma", "honest", "match"),
    [
        (Fraction(1), 0, "min_survivors"),
        (Fraction(0), 2, "positive"),
        (Fraction(1, 2**41), 2, "fewer digits"),
    ],
)
def test_shares_that_cannot_be_drawn_exactly_are_refused(gamma, honest, match):
    with pytest.raises(PlanError, match=match):
        polya_difference(gamma, honest, 4, Seeded(b"x"))


@pytest.mark.parametrize(
    ("gamma", "levels"),
    [("5", 0), ("1", 0), ("99/100", 1), ("1/2", 1), ("1/3", 2), ("1/1025", 11)],
)
def test_the_tail_starts_at_the_first_power_of_two_above_the_scale(gamma, levels):
    assert _levels(Fraction(gamma)) == levels
    assert 2**levels * Fraction(gamma) >= 1
    assert levels == 0 or 2 ** (levels - 1) * Fraction(gamma) < 1


@each_kind_of_shares
@pytest.mark.parametrize("entropy", [SYSTEM, Seeded(b"one site")])
def test_no_two_answers_hold_the_same_noise(shares, entropy):
    zeros = np.zeros(512, dtype=np.int64)
    drawn = {shares.protect(zeros, entropy=entropy).tobytes() for _ in range(20)}
    assert len(drawn) == 20


@each_kind_of_shares
def test_protecting_leaves_the_exact_counts_alone_and_stays_integer(shares):
    exact, zeros = np.arange(64, dtype=np.int64), np.zeros(64, dtype=np.int64)
    noisy = shares.protect(exact, entropy=Seeded(b"site"))
    assert noisy.dtype == np.int64
    assert np.array_equal(exact, np.arange(64))
    share = shares.protect(zeros, entropy=Seeded(b"site"))
    np.testing.assert_array_equal(noisy - exact, share)
    assert shares.loss() == shares.budget


def test_simulated_noise_has_the_shape_that_was_asked_for():
    noise = SHARES.noise(5)
    assert noise.sample(np.zeros(8), 100, np.random.default_rng(1)).shape == (100, 8)
    assert noise.covariance(np.zeros(8)).positives.shape == (4,)


@pytest.mark.parametrize("honest", [1, 3])
def test_no_cell_needs_no_noise(honest):
    assert polya_difference(Fraction(1), honest, 0, Seeded(b"x")).size == 0

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from discreet.entropy import SYSTEM, Seeded
from discreet.errors import PlanError, ReleaseError
from discreet.noise.laplace import LaplaceNoise
from discreet.noise.polya import PolyaNoise, PolyaShares, _levels, polya_difference
from discreet.privacy.loss import PureDP
from discreet.privacy.unit import EXAMPLE, Sensitivity, Unit

ONE = Sensitivity(1, 1, 1, EXAMPLE)
SHARES = PolyaShares(PureDP(Fraction(1, 2)), ONE, honest=3)


def brute_force_pmf(gamma, shape, k, terms=4_000):
    """The definition: the difference of two negative binomials."""
    j = np.arange(terms)
    nb = stats.nbinom(shape, -np.expm1(-gamma))
    return float((nb.pmf(j) * nb.pmf(j + k)).sum())


@pytest.mark.parametrize("gamma", [3.0, 0.4, 0.05])
@pytest.mark.parametrize("shape", [0.02, 1 / 3, 1.0, 1.5, 2.0, 7.3])
def test_the_pmf_is_that_of_a_difference_of_negative_binomials(gamma, shape):
    noise = PolyaNoise(gamma, shape)
    for k in (0, 1, 2, 5, 40):
        expected = brute_force_pmf(gamma, shape, k)
        got = noise.pmf(np.array([k, -k]))
        np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_the_pmf_of_contributors_equal_to_honest_is_discrete_laplace():
    k = np.arange(-30, 31)
    pmf = SHARES.noise(3).pmf(k)
    a = np.exp(-0.5)
    np.testing.assert_allclose(pmf, (1 - a) / (1 + a) * a ** np.abs(k), rtol=1e-12)


def test_the_log_pmf_reaches_where_probabilities_underflow():
    log_pmf = SHARES.noise(4).log_pmf(np.array([10_000]))
    assert -5_010 < log_pmf[0] < -4_980


@pytest.mark.parametrize("shape", [0.01, 1.0, 1.7, 12.0, 300.0])
def test_the_variance_is_that_of_the_pmf(shape):
    noise = PolyaNoise(0.3, shape)
    k = np.arange(-1_500, 1_501)
    assert noise.pmf(k).sum() == pytest.approx(1.0, abs=1e-12)
    assert (noise.pmf(k) * k**2).sum() == pytest.approx(noise.variance, rel=1e-9)


def test_the_law_of_the_honest_sum_has_the_variance_of_discrete_laplace():
    assert SHARES.noise(3).variance == pytest.approx(LaplaceNoise(2.0).variance)
    assert SHARES.noise(6).variance == pytest.approx(2 * SHARES.noise(3).variance)
    assert SHARES.noise(6).scale == 2.0


def test_the_scale_grows_with_the_l1_sensitivity():
    client = Sensitivity(5, 25, 5, Unit("client", "add_remove", 5))
    mechanism = PolyaShares(PureDP(Fraction(1, 2)), client, honest=3)
    assert mechanism.noise(3).scale == pytest.approx(10.0)


def test_a_sum_of_too_few_shares_is_refused():
    with pytest.raises(ReleaseError, match="at least 3"):
        SHARES.noise(2)
    with pytest.raises(ReleaseError, match="2 sites contributed"):
        SHARES.open(np.zeros(4, dtype=np.int64), 2)


def test_noise_that_nobody_is_sure_to_add_is_refused():
    with pytest.raises(PlanError, match="min_survivors - colluders"):
        PolyaShares(PureDP(Fraction(1)), ONE, honest=0)


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
    [(Fraction(5), 0), (Fraction(1), 0), (Fraction(99, 100), 1), (Fraction(1, 2), 1),
     (Fraction(1, 3), 2), (Fraction(1, 1024), 10), (Fraction(1, 1025), 11)],
)  # fmt: skip
def test_the_tail_starts_at_the_first_power_of_two_above_the_scale(gamma, levels):
    assert _levels(gamma) == levels
    assert 2**levels * gamma >= 1
    assert levels == 0 or 2 ** (levels - 1) * gamma < 1


def test_two_sites_never_draw_the_same_noise():
    zeros = np.zeros(512, dtype=np.int64)
    drawn = [SHARES.protect(zeros, entropy=SYSTEM).tobytes() for _ in range(20)]
    assert len(set(drawn)) == 20


def test_a_site_that_answers_twice_draws_fresh_noise_from_one_entropy():
    zeros, entropy = np.zeros(512, dtype=np.int64), Seeded(b"one site")
    first = SHARES.protect(zeros, entropy=entropy)
    assert not np.array_equal(first, SHARES.protect(zeros, entropy=entropy))


def test_protecting_leaves_the_exact_counts_alone_and_stays_integer():
    exact = np.arange(64, dtype=np.int64)
    noisy = SHARES.protect(exact, entropy=Seeded(b"site"))
    assert noisy.dtype == np.int64
    assert np.array_equal(exact, np.arange(64))
    zeros = np.zeros(64, dtype=np.int64)
    share = SHARES.protect(zeros, entropy=Seeded(b"site"))
    np.testing.assert_array_equal(noisy - exact, share)


def test_the_loss_is_the_whole_budget():
    assert SHARES.loss() == PureDP(Fraction(1, 2))


def test_simulated_noise_has_the_shape_that_was_asked_for():
    rng = np.random.default_rng(1)
    noise = SHARES.noise(5).sample(np.zeros(8), 100, rng)
    assert noise.shape == (100, 8)
    assert SHARES.noise(5).covariance(np.zeros(8)).positives.shape == (4,)


@pytest.mark.parametrize("honest", [1, 3])
def test_no_cell_needs_no_noise(honest):
    assert polya_difference(Fraction(1), honest, 0, Seeded(b"x")).size == 0

from fractions import Fraction

import numpy as np
import pytest

from discreet.entropy import Seeded
from discreet.noise.polya import (
    PolyaNoise,
    PolyaShares,
    polya_difference,
    simulate_polya_difference,
)
from discreet.privacy.loss import PureDP
from discreet.privacy.unit import EXAMPLE, Sensitivity
from oracles import polya_pmf
from statistical_checks import (
    ALPHA,
    around_zero,
    assert_fits,
    fit_p_value,
    laplace_pmf,
    same_law_p_value,
)

pytestmark = pytest.mark.statistical

ONE = Sensitivity(1, 1, 1, EXAMPLE)
CELLS = 40_000
SUMS = [(Fraction(1), 3), (Fraction(1, 10), 3), (Fraction(7, 3), 5), (Fraction(1), 40)]


def sum_of_shares(gamma, honest, sites, seed):
    mechanism = PolyaShares(PureDP(gamma), ONE, honest)
    zeros = np.zeros(CELLS, dtype=np.int64)
    shares = [
        mechanism.protect(zeros, entropy=Seeded(seed + site.to_bytes(2, "big")))
        for site in range(sites)
    ]
    return np.sum(shares, axis=0)


@pytest.mark.parametrize(("gamma", "honest"), SUMS)
def test_the_shares_of_the_honest_sites_add_up_to_discrete_laplace(gamma, honest):
    total = sum_of_shares(gamma, honest, honest, b"sum")
    scale = float(1 / gamma)
    assert_fits(total, laplace_pmf, scale, around_zero(2 * scale))


def test_half_the_sites_do_not_make_discrete_laplace_noise():
    total = sum_of_shares(Fraction(1, 2), 6, 3, b"half")
    assert fit_p_value(total, laplace_pmf(2.0), around_zero(4)) < ALPHA


@pytest.mark.parametrize(
    ("gamma", "honest", "reach"),
    [("2", 2, 1), ("1", 3, 2), ("3/10", 4, 4), ("1/20", 3, 30)],
)
def test_a_single_share_follows_its_pmf(gamma, honest, reach):
    sample = polya_difference(Fraction(gamma), honest, 150_000, Seeded(b"share"))

    def pmf_of(scale):
        return polya_pmf(PolyaNoise(1 / scale, 1 / honest))

    assert_fits(sample, pmf_of, float(1 / Fraction(gamma)), around_zero(reach))


def test_more_contributors_than_honest_sites_follow_the_wider_law():
    gamma, honest, sites = Fraction(1, 2), 4, 6
    total = sum_of_shares(gamma, honest, sites, b"wide")
    noise = PolyaShares(PureDP(gamma), ONE, honest).noise(sites)
    assert fit_p_value(total, polya_pmf(noise), range(-7, 8)) > ALPHA
    assert fit_p_value(total, laplace_pmf(2.0), range(-7, 8)) < ALPHA


@pytest.mark.parametrize(("gamma", "honest"), [(Fraction(1, 2), 3), (Fraction(1), 20)])
def test_the_simulation_twin_has_the_same_distribution(gamma, honest):
    exact = polya_difference(gamma, honest, 200_000, Seeded(b"twin"))
    rng = np.random.default_rng(9)
    twin = simulate_polya_difference(float(gamma), 1 / honest, (200_000,), rng)
    assert same_law_p_value(exact, twin, range(-2, 3)) > ALPHA
    wrong = simulate_polya_difference(float(gamma), 0.85 / honest, (200_000,), rng)
    assert same_law_p_value(exact, wrong, range(-2, 3)) < ALPHA


def test_the_cells_of_a_share_are_independent():
    """Jumps are strewn over all cells at once: neighbours must not be related."""
    share = polya_difference(Fraction(1, 4), 3, 200_000, Seeded(b"cells"))
    here, there = share[:-1], share[1:]
    z = float((here * there).mean() / share.var()) * here.size**0.5
    assert abs(z) < 7  # heavier tails than normal; 6.1 is ALPHA for a normal

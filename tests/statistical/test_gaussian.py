import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.entropy import Seeded
from discreet.noise.gaussian import GaussianShares, discrete_gaussian, gaussian_table
from discreet.privacy.loss import ApproxDP
from discreet.privacy.unit import EXAMPLE, Sensitivity
from statistical_checks import ALPHA, fit_p_value, same_law_p_value

pytestmark = pytest.mark.statistical

SIZE = 100_000
CASES = [
    (Fraction(1, 2), range(-1, 2)),
    (Fraction(4), range(-4, 5)),
    (Fraction(45, 8), range(-5, 6)),
    (Fraction(300), range(-30, 31)),
]


def gaussian_pmf(variance):
    x = np.arange(-400, 401)
    total = np.exp(-(x**2) / (2 * variance)).sum()
    return lambda k: math.exp(-(k**2) / (2 * variance)) / total


@pytest.mark.parametrize(("variance", "support"), CASES)
def test_discrete_gaussian_follows_its_pmf(variance, support):
    sample = discrete_gaussian(variance, SIZE, Seeded(b"gaussian"))
    assert fit_p_value(sample, gaussian_pmf(float(variance)), support) > ALPHA


@pytest.mark.parametrize(("variance", "support"), CASES)
@pytest.mark.parametrize("factor", [0.85, 1.15])
def test_the_fit_rejects_a_scale_that_is_15_percent_off(variance, support, factor):
    sample = discrete_gaussian(variance, SIZE, Seeded(b"gaussian"))
    wrong = gaussian_pmf(float(variance) * factor**2)
    assert fit_p_value(sample, wrong, support) < ALPHA


def test_the_simulation_twin_has_the_same_distribution():
    exact = discrete_gaussian(Fraction(4), SIZE, Seeded(b"twin"))
    rng = np.random.default_rng(2)
    twin = gaussian_table(Fraction(4)).simulate((SIZE,), rng)
    assert same_law_p_value(exact, twin, range(-4, 5)) > ALPHA
    narrow = gaussian_table(Fraction(3)).simulate((SIZE,), rng)
    assert same_law_p_value(exact, narrow, range(-4, 5)) < ALPHA


@pytest.mark.parametrize("honest", [3, 40])
def test_a_sum_of_shares_follows_the_law_that_readers_get(honest):
    """Also where shares are so small that their sum is far from Gaussian."""
    one = Sensitivity(1, 1, 1, EXAMPLE)
    budget = ApproxDP(Fraction(2), Fraction(1, 10**5))
    mechanism = GaussianShares(budget, one, honest)
    zeros = np.zeros(12_000, dtype=np.int64)
    total = sum(
        mechanism.protect(zeros, entropy=Seeded(site.to_bytes(2, "big")))
        for site in range(honest)
    )
    law = mechanism.law(honest)
    support = range(-2, 3)
    assert fit_p_value(total, pmf_of(law), support) > ALPHA
    assert fit_p_value(total, pmf_of(mechanism.law(2 * honest)), support) < ALPHA


def pmf_of(law):
    return lambda k: float(law.pmf(np.array([k]))[0])

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.entropy import Seeded
from discreet.noise.laplace import discrete_laplace, simulate_discrete_laplace
from statistical_checks import ALPHA, fit_p_value, same_law_p_value

pytestmark = pytest.mark.statistical

SCALES = [Fraction(1, 2), Fraction(5, 2), Fraction(10)]
SIZE = 200_000


def laplace_pmf(scale):
    return lambda k: math.tanh(0.5 / scale) * math.exp(-abs(k) / scale)


def support_of(scale):
    reach = math.ceil(2.5 * float(scale))
    return range(-reach, reach + 1)


@pytest.mark.parametrize("scale", SCALES)
def test_discrete_laplace_follows_its_pmf(scale):
    sample = discrete_laplace(scale, SIZE, Seeded(b"laplace"))
    assert fit_p_value(sample, laplace_pmf(float(scale)), support_of(scale)) > ALPHA


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("factor", [0.85, 1.15])
def test_the_fit_rejects_a_scale_that_is_15_percent_off(scale, factor):
    sample = discrete_laplace(scale, SIZE, Seeded(b"laplace"))
    wrong = laplace_pmf(float(scale) * factor)
    assert fit_p_value(sample, wrong, support_of(scale)) < ALPHA


@pytest.mark.parametrize("scale", SCALES)
def test_the_simulation_twin_has_the_same_distribution(scale):
    exact = discrete_laplace(scale, SIZE, Seeded(b"twin"))
    rng = np.random.default_rng(5)
    twin = simulate_discrete_laplace(float(scale), (SIZE,), rng)
    assert same_law_p_value(exact, twin, support_of(scale)) > ALPHA
    narrower = simulate_discrete_laplace(0.85 * float(scale), (SIZE,), rng)
    assert same_law_p_value(exact, narrower, support_of(scale)) < ALPHA

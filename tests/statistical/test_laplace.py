from fractions import Fraction

import numpy as np
import pytest

from discreet.entropy import Seeded
from discreet.noise.laplace import discrete_laplace, simulate_discrete_laplace
from statistical_checks import (
    ALPHA,
    around_zero,
    assert_fits,
    laplace_pmf,
    same_law_p_value,
)

pytestmark = pytest.mark.statistical

SIZE = 200_000


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(5, 2), Fraction(10)])
def test_discrete_laplace_and_its_simulation_twin_follow_the_pmf(scale):
    exact = discrete_laplace(scale, SIZE, Seeded(b"laplace"))
    support = around_zero(2.5 * scale)
    assert_fits(exact, laplace_pmf, float(scale), support)
    rng = np.random.default_rng(5)
    twin = simulate_discrete_laplace(float(scale), (SIZE,), rng)
    assert same_law_p_value(exact, twin, support) > ALPHA
    narrower = simulate_discrete_laplace(0.85 * float(scale), (SIZE,), rng)
    assert same_law_p_value(exact, narrower, support) < ALPHA

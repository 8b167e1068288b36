from fractions import Fraction

import numpy as np
import pytest

from discreet.entropy import Seeded
from discreet.errors import PlanError
from discreet.noise.laplace import DiscreteLaplace, LaplaceNoise, discrete_laplace
from discreet.privacy.loss import PureDP
from discreet.privacy.unit import EXAMPLE, Sensitivity

MECHANISM = DiscreteLaplace(PureDP(Fraction(1, 2)), Sensitivity(2, 4, 2, EXAMPLE))


def test_the_scale_is_the_l1_sensitivity_over_epsilon_exactly():
    assert MECHANISM.scale == 4
    assert MECHANISM.noise(1).scale == 4.0
    assert MECHANISM.loss() == PureDP(Fraction(1, 2))


def test_the_variance_is_that_of_the_pmf():
    k = np.arange(-400, 401)
    pmf = np.tanh(0.5 / 4) * np.exp(-np.abs(k) / 4)
    assert LaplaceNoise(4.0).variance == pytest.approx((pmf * k**2).sum())


@pytest.mark.parametrize(
    "scale", [Fraction(0), Fraction(-1), Fraction(2**40), Fraction(1, 2**40)]
)
def test_a_scale_that_cannot_be_drawn_exactly_is_refused(scale):
    with pytest.raises(PlanError, match="scale"):
        discrete_laplace(scale, 3, Seeded(b"x"))


def test_a_sum_of_several_contributors_has_other_noise():
    with pytest.raises(PlanError, match="single contributor"):
        MECHANISM.noise(2)


def test_no_cell_needs_no_bytes():
    def forbidden(size):
        raise AssertionError(f"{size} bytes were drawn for nothing")

    assert discrete_laplace(Fraction(1), 0, forbidden).size == 0


def test_protected_counts_are_integers_and_fresh_each_time():
    zeros, entropy = np.zeros(200, dtype=np.int64), Seeded(b"curator")
    first, second = (MECHANISM.protect(zeros, entropy=entropy) for _ in range(2))
    assert first.dtype == np.int64
    assert not np.array_equal(first, second)

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from discreet.entropy import Seeded
from discreet.noise.coins import geometric_half, poisson
from statistical_checks import ALPHA, fit_p_value

pytestmark = pytest.mark.statistical

MEANS = [
    (Fraction(1, 3), range(3)),
    (Fraction(1), range(5)),
    (Fraction(2), range(7)),
    (Fraction(37, 10), range(9)),
    (Fraction(8), range(4, 14)),
    (Fraction(121, 3), range(33, 48)),
]
SIZE = 60_000


@pytest.mark.parametrize(("mean", "support"), MEANS)
def test_poisson_counts_follow_their_pmf(mean, support):
    sample = poisson(mean, SIZE, Seeded(b"poisson"))
    assert fit_p_value(sample, stats.poisson(float(mean)).pmf, support) > ALPHA


@pytest.mark.parametrize(("mean", "support"), MEANS)
@pytest.mark.parametrize("factor", [0.85, 1.15])
def test_the_fit_rejects_a_mean_that_is_15_percent_off(mean, support, factor):
    sample = poisson(mean, SIZE, Seeded(b"poisson"))
    wrong = stats.poisson(float(mean) * factor).pmf
    assert fit_p_value(sample, wrong, support) < ALPHA


def test_one_count_of_a_large_mean_is_a_sum_of_small_ones():
    """Many chunks, a mean that is no integer."""
    mean = Fraction(100_001, 3)
    draws = [int(poisson(mean, 1, Seeded(bytes([i])))[0]) for i in range(40)]
    z = (np.array(draws) - float(mean)) / float(mean) ** 0.5
    assert stats.chi2.sf((z**2).sum(), z.size) > ALPHA
    assert stats.chi2.cdf((z**2).sum(), z.size) > ALPHA
    assert 2 * stats.norm.sf(abs(z.mean()) * z.size**0.5) > ALPHA


def test_geometric_counts_run_past_a_whole_byte_of_heads():
    sample = geometric_half(400_000, Seeded(b"geometric"))
    assert fit_p_value(sample, lambda k: 0.5 ** (k + 1), range(11)) > ALPHA
    assert fit_p_value(sample, lambda k: 0.46 * 0.54**k, range(11)) < ALPHA


def test_the_tail_of_a_block_is_exact():
    """Counts far above the mean come by another way than the others."""
    sample = poisson(Fraction(1), 2_000_000, Seeded(b"tail"))
    tail = sample[sample >= 2] - 2
    weights = stats.poisson(1).pmf(np.arange(2, 40))
    weights /= weights.sum()
    assert fit_p_value(tail, lambda g: weights[g], range(5)) > ALPHA
    assert fit_p_value(tail, lambda g: 0.65 * 0.35**g, range(5)) < ALPHA

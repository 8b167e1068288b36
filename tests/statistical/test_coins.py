import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy import stats

from discreet.entropy import Seeded
from discreet.noise.coins import (
    bernoulli,
    bernoulli_exp,
    bernoulli_exp_ratio,
    bernoulli_logistic,
    bernoulli_two_over_e,
    fair,
    geometric_half,
    poisson,
    uniform_below,
)
from statistical_checks import ALPHA, assert_fits, chi_squared_p_value, fit_p_value

pytestmark = pytest.mark.statistical

SIZE = 200_000


def many(value, dtype=np.int64):
    return np.full(SIZE, value, dtype=dtype)


COINS = {
    "fair": (0.5, lambda e: fair(SIZE, e)),
    "3/7": (3 / 7, lambda e: bernoulli(Fraction(3, 7), SIZE, e)),
    "exp(-2/5)": (math.exp(-0.4), lambda e: bernoulli_exp(many(2, np.uint64), 5, e)),
    "exp(-1)": (math.exp(-1), lambda e: bernoulli_exp(many(1, np.uint64), 1, e)),
    "exp(-0)": (1.0, lambda e: bernoulli_exp(many(0, np.uint64), 7, e)),
    "exp(-7/3)": (math.exp(-7 / 3), lambda e: bernoulli_exp_ratio(many(7), 3, e)),
    "2/e": (2 / math.e, lambda e: bernoulli_two_over_e(many(1), e)),
    "(2/e)^3": ((2 / math.e) ** 3, lambda e: bernoulli_two_over_e(many(3), e)),
    **{
        f"logistic({x})": (
            1 / (1 + math.exp(Fraction(x))),
            partial(bernoulli_logistic, Fraction(x), SIZE),
        )
        for x in ("1", "7/2", "1/10")
    },
}


@pytest.mark.parametrize("name", COINS)
def test_a_coin_has_its_probability_and_not_one_15_percent_off(name):
    probability, flip = COINS[name]
    heads = int(flip(Seeded(name.encode())).sum())
    assert stats.binomtest(heads, SIZE, probability).pvalue > ALPHA
    assert stats.binomtest(heads, SIZE, probability * 0.85).pvalue < ALPHA


@pytest.mark.parametrize("bound", [1, 2, 6, 10, 2**62 - 1])
def test_bounded_integers_are_uniform(bound):
    drawn = uniform_below(many(bound, np.uint64), Seeded(b"uniform"))
    assert int(drawn.max()) < bound
    cells = min(bound, 10)
    tenth = [int(d) * cells // bound for d in drawn]
    observed = np.bincount(tenth, minlength=cells)
    expected = np.full(cells, SIZE / cells)
    assert bound == 1 or chi_squared_p_value(observed, expected) > ALPHA


def test_a_word_beyond_the_last_multiple_is_drawn_again():
    """2^64 - 1 mod 3 is 0, so accepting the top word would favour 0."""
    stream = iter([2**64 - 1, 5])
    drawn = uniform_below(
        np.array([3], dtype=np.uint64), lambda _: next(stream).to_bytes(8, "little")
    )
    assert drawn.tolist() == [2]


MEANS = [
    (Fraction(1, 3), range(3)),
    (Fraction(1), range(5)),
    (Fraction(2), range(7)),
    (Fraction(37, 10), range(9)),
    (Fraction(8), range(4, 14)),
    (Fraction(121, 3), range(33, 48)),
]


@pytest.mark.parametrize(("mean", "support"), MEANS)
def test_poisson_counts_follow_their_pmf(mean, support):
    sample = poisson(mean, 60_000, Seeded(b"poisson"))
    assert_fits(sample, lambda m: stats.poisson(m).pmf, float(mean), support)


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

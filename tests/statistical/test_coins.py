import math
from fractions import Fraction

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
    uniform_below,
)
from statistical_checks import ALPHA, chi_squared_p_value

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
    "logistic(1)": (1 / (1 + math.e), lambda e: bernoulli_logistic(Fraction(1), SIZE, e)),
    "logistic(7/2)": (
        1 / (1 + math.exp(3.5)),
        lambda e: bernoulli_logistic(Fraction(7, 2), SIZE, e),
    ),
    "logistic(1/10)": (
        1 / (1 + math.exp(0.1)),
        lambda e: bernoulli_logistic(Fraction(1, 10), SIZE, e),
    ),
}  # fmt: skip


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

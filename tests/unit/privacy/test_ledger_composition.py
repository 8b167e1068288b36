"""Composition: basic and exact, and a tighter total that is never too small."""

import math
from fractions import Fraction

import pytest

from discreet.privacy.composition import compose, tighter_epsilon
from discreet.privacy.loss import ApproxDP, PureDP, Unbounded


def pure(epsilon):
    return PureDP(Fraction(str(epsilon)))


def delta_of(epsilon, count, total):
    """The oracle: the hockey-stick divergence of ``count`` randomized responses.

    Kairouz, Oh and Viswanath (2015): the worst case of adaptive composition of
    mechanisms that are epsilon-DP.
    """
    p = 1 / (1 + math.exp(-epsilon))
    return sum(
        math.comb(count, j)
        * max(
            p ** (count - j) * (1 - p) ** j
            - math.exp(total) * p**j * (1 - p) ** (count - j),
            0.0,
        )
        for j in range(count + 1)
    )


@pytest.mark.parametrize(
    ("epsilon", "count", "delta"), [(0.1, 50, 1e-6), (0.5, 12, 1e-3), (1.0, 30, 1e-9)]
)
def test_the_tighter_total_is_that_of_the_worst_mechanisms(epsilon, count, delta):
    total = tighter_epsilon([pure(epsilon)] * count, delta=delta)
    assert delta_of(epsilon, count, total) <= delta
    # Rounding up by 1e-4 a release is all that it may be above the best.
    assert delta_of(epsilon, count, total - count * 1e-4 - 1e-3) > delta
    assert total <= epsilon * count


def test_the_tighter_total_is_never_above_basic_composition():
    losses = [pure("0.3"), pure(1), ApproxDP(Fraction(1, 2), Fraction(1, 10**8))]
    total = tighter_epsilon(losses, delta=1e-6)
    assert total <= float(compose(losses).epsilon)
    assert tighter_epsilon([pure(1)], delta=1e-12) <= 1.0


def test_a_delta_below_the_sum_of_the_recorded_ones_is_not_promised():
    losses = [ApproxDP(Fraction(1), Fraction(1, 1000))] * 3
    assert tighter_epsilon(losses, delta=1e-3) == math.inf
    assert tighter_epsilon(losses, delta=4e-3) <= 3.0


def test_an_exact_sum_has_no_bound_and_nothing_costs_nothing():
    assert tighter_epsilon([pure(1), Unbounded()], delta=1e-6) == math.inf
    assert tighter_epsilon([], delta=1e-6) == 0.0

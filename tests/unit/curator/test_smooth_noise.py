import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from bench.simulated_releases import grid_probabilities, log_density, tail_of
from discreet.curator.smooth_noise import (
    GridNoise,
    PowerTail,
    draw_on_grid,
    grid_steps,
)
from discreet.entropy import Seeded
from discreet.errors import PlanError
from discreet.published.boyd2015 import HeavyTail, LaplaceTail

TAILS = [
    LaplaceTail(),
    PowerTail(Fraction(5, 2)),
    PowerTail(Fraction(20)),
    HeavyTail(Fraction(2)),
    HeavyTail(Fraction(11, 10)),
    HeavyTail(Fraction(6)),
]
PLACES = [0.0, 1e-3, 0.4, 0.999, 1.0, 1.7, 12.0, 1e5]


@pytest.mark.parametrize("tail", TAILS, ids=repr)
@pytest.mark.parametrize("x", PLACES)
def test_decimal_and_float_tails_agree(tail, x):
    with localcontext(Context(prec=40)):
        exact = float(tail.upper(Decimal(x)))
    assert exact == pytest.approx(
        float(tail_of(tail, np.array(x))), rel=1e-9, abs=1e-14
    )


@pytest.mark.parametrize("tail", TAILS, ids=repr)
@pytest.mark.parametrize("x", PLACES)
def test_more_digits_move_a_tail_by_less_than_it_promises(tail, x):
    found = []
    for digits in (40, 90):
        with localcontext(Context(prec=digits)):
            found.append(tail.upper(Decimal(x)))
    assert abs(found[0] - found[1]) < Decimal(10) ** -35


def test_the_heavy_tail_of_gamma_two_is_cauchy():
    x = np.array(PLACES)
    assert tail_of(HeavyTail(Fraction(2)), x) == pytest.approx(stats.cauchy.sf(x))


@pytest.mark.parametrize("tail", TAILS, ids=repr)
def test_the_density_is_minus_the_slope_of_the_tail(tail):
    x, step = np.array([0.05, 0.5, 1.3, 4.0]), 1e-5
    slope = (tail_of(tail, x - step) - tail_of(tail, x + step)) / (2 * step)
    assert np.exp(log_density(tail, x)) == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("tail", TAILS, ids=repr)
def test_quantiles_invert_tails(tail):
    x = np.array([1e-3, 0.4, 1.0, 30.0])
    assert tail.quantile(tail_of(tail, x)) == pytest.approx(x, rel=1e-6)


@pytest.mark.parametrize("tail", TAILS, ids=repr)
def test_grid_probabilities_add_up_and_collect_the_tails_at_the_ends(tail):
    p = grid_probabilities(0.9, 0.2, tail, 50)
    assert p.sum() == pytest.approx(1.0)
    assert p.min() > 0
    assert p[-1] == pytest.approx(float(tail_of(tail, np.array((0.99 - 0.9) / 0.2))))


def test_a_draw_lies_where_the_random_bits_fall():
    noise = GridNoise(LaplaceTail(), Fraction(1, 10))
    ends = {b"\x00": 0, b"\xff": 10}
    for byte, expected in ends.items():
        k = draw_on_grid(
            Fraction(1, 2), noise, steps=10, entropy=lambda size, b=byte: b * size
        )
        assert k == expected
    middle = draw_on_grid(
        Fraction(1, 2),
        noise,
        steps=10,
        entropy=lambda size: b"\x80" + bytes(size - 1),
    )
    assert middle == 5


class Doubtful:
    """Bits that agree with a probability as far as they go, then ones."""

    def __init__(self, head):
        self.head, self.calls = head, 0

    def __call__(self, size):
        self.calls += 1
        return self.head if self.calls == 1 else b"\xff" * size


def test_more_bits_and_digits_are_drawn_while_a_comparison_is_in_doubt():
    noise = GridNoise(LaplaceTail(), Fraction(1, 10))
    # The chance to stay below (k + 1/2)/10 for k = 6, to 128 bits, rounded down.
    with localcontext(Context(prec=80)):
        exact = 1 - Decimal("-1.5").exp() / 2
    head = int(Fraction(exact) * 2**128).to_bytes(16, "big")
    entropy = Doubtful(head)
    k = draw_on_grid(Fraction(1, 2), noise, steps=10, entropy=entropy)
    assert entropy.calls > 1  # 128 bits were not enough
    assert k == 7  # the ones put the number above the probability


def test_the_callers_decimal_context_does_not_matter():
    noise = GridNoise(HeavyTail(Fraction(3, 2)), Fraction(1, 50))
    first = draw_on_grid(Fraction(4, 5), noise, steps=10**6, entropy=Seeded(b"x"))
    with localcontext(Context(prec=3, rounding="ROUND_UP")):
        again = draw_on_grid(Fraction(4, 5), noise, steps=10**6, entropy=Seeded(b"x"))
    assert first == again


def test_the_grid_has_three_digits_more_than_the_number_of_rows():
    assert grid_steps(9) == 10**4
    assert grid_steps(10**6) == 10**10


def test_laws_without_a_distribution_are_refused():
    for make in (
        lambda: PowerTail(Fraction(1)),
        lambda: HeavyTail(Fraction(1)),
        lambda: GridNoise(LaplaceTail(), Fraction(0)),
    ):
        with pytest.raises(PlanError):
            make()


def test_the_error_of_a_probability_at_a_far_place_is_small():
    noise = GridNoise(LaplaceTail(), Fraction(1, 10**9))
    found = noise.below(Fraction(1), Fraction(0), 60)
    assert math.isclose(float(found), 1.0)

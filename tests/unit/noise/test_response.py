import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.errors import InputError, PlanError
from discreet.noise.response import RandomizedResponse, ResponseKey, flip_threshold
from discreet.privacy.loss import PureDP

KEY = ResponseKey(bytes(32))
IDS = [i.to_bytes(2, "big") for i in range(500)]
LABELS = np.arange(500) % 2
RESPONSE = RandomizedResponse(PureDP(Fraction(1)))


@pytest.mark.parametrize("epsilon", ["1/1000", "1/3", "1", "10", "40", "200"])
def test_the_flip_probability_is_rounded_to_the_private_side(epsilon):
    """Compared in exact arithmetic with a series for e^epsilon from below."""
    x = Fraction(epsilon)
    term, below = Fraction(1), Fraction(0)
    for k in range(1, 900):
        below += term
        term *= x / k
    rho = Fraction(flip_threshold(x), 2**128)
    assert rho >= 1 / (1 + below + term * 2)
    assert rho <= Fraction(1, 2)
    assert rho - 1 / (1 + below) < Fraction(1, 2**120)


def test_asking_again_brings_the_same_answer():
    first = RESPONSE.flip(LABELS, IDS, key=KEY)
    np.testing.assert_array_equal(first, RESPONSE.flip(LABELS, IDS, key=KEY))
    order = np.argsort([i[::-1] for i in IDS])
    shuffled = RESPONSE.flip(LABELS[order], [IDS[i] for i in order], key=KEY)
    np.testing.assert_array_equal(shuffled, first[order])


def test_a_flip_depends_on_the_key_and_on_the_budget():
    flips = RESPONSE.flip(LABELS, IDS, key=KEY) != LABELS
    other_key = RESPONSE.flip(LABELS, IDS, key=ResponseKey(bytes([1] * 32))) != LABELS
    assert not np.array_equal(flips, other_key)
    # If flips at a larger budget were a subset of those at a smaller one, any
    # difference between two answers would give the label away.
    small = RandomizedResponse(PureDP(Fraction(1, 2)))
    wider = small.flip(LABELS, IDS, key=KEY) != LABELS
    assert (flips & ~wider).any()
    assert (wider & ~flips).any()


def test_examples_that_share_an_id_are_refused():
    with pytest.raises(InputError, match="must differ"):
        RESPONSE.flip(np.array([0, 1]), [b"a", b"a"], key=KEY)


def test_bad_arguments_are_refused_without_echoing_them():
    with pytest.raises(InputError, match="3 labels need as many ids, got 1"):
        RESPONSE.flip(np.zeros(3, int), [b"a"], key=KEY)
    with pytest.raises(InputError, match="labels 0 and 1"):
        RESPONSE.flip(np.array([7]), [b"a"], key=KEY)
    with pytest.raises(InputError, match="32 bytes"):
        ResponseKey(b"short")
    with pytest.raises(PlanError, match="positive"):
        flip_threshold(Fraction(0))
    with pytest.raises(InputError, match="as many bins"):
        RESPONSE.open(np.zeros(3, dtype=np.int64), 1)


def test_the_key_is_not_shown():
    assert "x01" not in repr(ResponseKey(b"\x01" * 32))


def test_decoding_keeps_the_bin_totals_and_undoes_the_expected_flips():
    rho = RESPONSE.flip_probability
    decoded = RESPONSE.open(np.array([600, 100, 400, 900]), 5).counts
    np.testing.assert_allclose(decoded[:2] + decoded[2:], [1000, 1000])
    expected = decoded[2:] * (1 - rho) + decoded[:2] * rho
    np.testing.assert_allclose(expected, [400, 900])


def test_the_scale_of_the_noise_is_that_of_one_label():
    noise = RESPONSE.open(np.zeros(2, dtype=np.int64), 1).noise
    assert noise.scale == pytest.approx(math.sqrt(math.e) / (math.e - 1))
    assert RESPONSE.loss() == PureDP(Fraction(1))

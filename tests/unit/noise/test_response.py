import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.entropy import SYSTEM, Seeded
from discreet.errors import InputError, PlanError, ReleaseError
from discreet.noise.response import (
    RandomizedResponse,
    ResponseKey,
    flip_threshold,
)
from discreet.noise.unary import UnaryEncoding, simulate_unary
from discreet.privacy.loss import PureDP

KEY = ResponseKey(bytes(32))
IDS = [i.to_bytes(2, "big") for i in range(500)]
LABELS = np.arange(500) % 2
RESPONSE = RandomizedResponse(PureDP(Fraction(1)))
UNARY = UnaryEncoding(PureDP(Fraction(1)))


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
    response_key = RESPONSE.flip(LABELS, IDS, key=KEY) != LABELS
    other_key = RESPONSE.flip(LABELS, IDS, key=ResponseKey(bytes([1] * 32))) != LABELS
    assert not np.array_equal(response_key, other_key)
    # If flips at a larger budget were a subset of those at a smaller one, any
    # difference between two answers would give the label away.
    small = RandomizedResponse(PureDP(Fraction(1, 2)))
    wider = small.flip(LABELS, IDS, key=KEY) != LABELS
    assert (response_key & ~wider).any()
    assert (wider & ~response_key).any()


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
        RESPONSE.decode(np.zeros(3, dtype=np.int64), 1)


def test_the_key_is_not_shown():
    assert "x01" not in repr(ResponseKey(b"\x01" * 32))


def test_decoding_keeps_the_bin_totals_and_undoes_the_expected_flips():
    rho = RESPONSE.flip_probability
    decoded = RESPONSE.decode(np.array([600, 100, 400, 900]), 5)
    np.testing.assert_allclose(decoded[:2] + decoded[2:], [1000, 1000])
    expected = decoded[2:] * (1 - rho) + decoded[:2] * rho
    np.testing.assert_allclose(expected, [400, 900])


def test_the_scale_of_the_response_law_is_that_of_one_label():
    e = math.e
    assert RESPONSE.noise(1).scale == pytest.approx(math.sqrt(e) / (e - 1))
    assert RESPONSE.loss() == UNARY.loss() == PureDP(Fraction(1))


def test_a_client_sends_bits_and_fresh_ones_each_time():
    exact = np.zeros(200, dtype=np.int64)
    exact[17] = 1
    sent = {UNARY.protect(exact, entropy=SYSTEM).tobytes() for _ in range(10)}
    assert len(sent) == 10
    bits = UNARY.protect(exact, entropy=Seeded(b"client"))
    assert bits.dtype == np.int64
    assert set(bits.tolist()) == {0, 1}


def test_the_likelihood_ratio_of_two_examples_is_e_to_the_epsilon():
    q = UNARY.other_probability
    assert (0.5 / q) * ((1 - q) / 0.5) == pytest.approx(math.e)
    assert max(0.5 / q, (1 - q) / 0.5) < math.e  # no example: one bit differs


def test_a_client_holds_at_most_one_example():
    for bad in ([1, 1, 0], [2, 0, 0], [-1, 0, 0]):
        with pytest.raises(InputError, match="at most 1"):
            UNARY.protect(np.array(bad), entropy=Seeded(b"x"))
    with pytest.raises(InputError, match="below 3"):
        UNARY.encode(np.array([3]), cells=3, entropy=Seeded(b"x"))
    with pytest.raises(InputError, match="more examples than"):
        simulate_unary(np.array([5]), 4, 0.1, 1, np.random.default_rng(1))


def test_a_total_of_no_clients_is_refused():
    with pytest.raises(ReleaseError, match="no client"):
        UNARY.decode(np.zeros(2, dtype=np.int64), 0)
    with pytest.raises(ReleaseError, match="no client"):
        UNARY.noise(0)


def test_decoding_the_expected_total_gives_the_counts():
    counts, clients = np.array([10, 0, 90]), 100
    q = UNARY.other_probability
    totals = counts / 2 + (clients - counts) * q
    np.testing.assert_allclose(UNARY.decode(totals, clients), counts, atol=1e-9)


def test_the_variance_a_client_adds_to_an_empty_cell_is_the_known_one():
    """4 e^eps / (e^eps - 1)^2, of which papers sometimes drop the 4."""
    variance = UNARY.noise(1).covariance(np.zeros(2)).negatives[0]
    assert variance == pytest.approx(4 * math.e / (math.e - 1) ** 2)

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.entropy import SYSTEM, Seeded
from discreet.errors import InputError, ReleaseError
from discreet.noise.unary import UnaryEncoding, simulate_unary
from discreet.privacy.loss import PureDP

UNARY = UnaryEncoding(PureDP(Fraction(1)))


def test_clients_of_one_cell_send_fresh_bits_each_time():
    own = np.full(10, 17)
    sent = [UNARY.encode(own, cells=200, entropy=SYSTEM) for _ in range(2)]
    assert len(np.unique(np.concatenate(sent), axis=0)) == 20
    assert set(sent[0].ravel().tolist()) == {0, 1}


def test_the_likelihood_ratio_of_two_examples_is_e_to_the_epsilon():
    q = UNARY.other_probability
    assert (0.5 / q) * ((1 - q) / 0.5) == pytest.approx(math.e)
    assert max(0.5 / q, (1 - q) / 0.5) < math.e  # no example: one bit differs


def test_a_client_holds_at_most_one_example():
    for bad in (3, -2):
        with pytest.raises(InputError, match="below 3"):
            UNARY.encode(np.array([bad]), cells=3, entropy=Seeded(b"x"))
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

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from audits import audit_scores
from discreet.entropy import Seeded
from discreet.noise.unary import UnaryEncoding, simulate_unary
from discreet.privacy.loss import PureDP
from statistical_checks import ALPHA, same_law_p_value

pytestmark = pytest.mark.statistical

CLIENTS = 40_000


def unary(epsilon):
    return UnaryEncoding(PureDP(Fraction(epsilon)))


@pytest.mark.parametrize("epsilon", ["1/2", "1", "5"])
def test_bits_have_their_two_probabilities(epsilon):
    bits = unary(epsilon).encode(
        np.full(CLIENTS, 2), cells=4, entropy=Seeded(b"clients")
    )
    q = 1 / (1 + math.exp(Fraction(epsilon)))
    for cell, probability in enumerate([q, q, 0.5, q]):
        ones = int(bits[:, cell].sum())
        assert stats.binomtest(ones, CLIENTS, probability).pvalue > ALPHA
        if epsilon != "5":  # too few ones of probability .0067 to tell 15% apart
            assert stats.binomtest(ones, CLIENTS, 0.85 * probability).pvalue < ALPHA


def test_the_bits_of_a_client_are_independent():
    bits = unary("1").encode(np.zeros(CLIENTS, int), cells=3, entropy=Seeded(b"c"))
    z = (np.corrcoef(bits.T) - np.eye(3)) * math.sqrt(CLIENTS)
    assert np.abs(z).max() < 6.5


def test_a_real_run_bit_by_bit_has_the_distribution_of_two_binomials():
    counts, runs = np.array([12, 3, 0, 25]), 4_000
    mechanism = unary("1")
    own = np.repeat(np.arange(4), counts)
    bits = mechanism.encode(np.tile(own, runs), cells=4, entropy=Seeded(b"run"))
    real = bits.reshape(runs, own.size, 4).sum(axis=1)
    rng = np.random.default_rng(6)
    q = mechanism.other_probability
    fast = simulate_unary(counts, own.size, q, runs, rng)
    wrong = simulate_unary(counts, own.size, 0.85 * q, runs, rng)
    centres = np.rint(counts / 2 + (own.size - counts) * q).astype(int)
    for cell, centre in enumerate(centres):
        support = range(centre - 4, centre + 5)
        assert same_law_p_value(real[:, cell], fast[:, cell], support) > ALPHA
    widest = range(centres[2] - 4, centres[2] + 5)
    assert same_law_p_value(real[:, 2], wrong[:, 2], widest) < ALPHA


def test_decoded_counts_are_unbiased_with_the_variance_of_the_law():
    counts, clients, runs = np.array([700, 20, 0, 280]), 1_000, 20_000
    mechanism = unary("2")
    rng = np.random.default_rng(7)
    totals = simulate_unary(counts, clients, mechanism.other_probability, runs, rng)
    decoded = mechanism.decode(totals.astype(np.int64), clients)
    noise = mechanism.noise(clients)
    covariance = noise.covariance(counts.astype(float))
    variance = np.concatenate([covariance.negatives, covariance.positives])
    z = (decoded.mean(axis=0) - counts) / np.sqrt(variance / runs)
    assert np.abs(z).max() < 6.5
    assert np.abs(decoded.var(axis=0) / variance - 1).max() < 6.5 * math.sqrt(2 / runs)
    sampled = noise.sample(counts.astype(float), runs, rng)
    np.testing.assert_allclose(sampled.var(axis=0), variance, rtol=0.1)


def test_an_audit_confirms_epsilon_and_catches_twice_the_budget():
    """The likeliest event when cell 0 became cell 1: bit 0 off and bit 1 on."""

    def scores(epsilon):
        sides = [
            unary(epsilon).encode(
                np.full(CLIENTS, cell), cells=3, entropy=Seeded(bytes([cell]))
            )
            for cell in (0, 1)
        ]
        return tuple((bits[:, 0] - bits[:, 1]).astype(float) for bits in sides)

    honest = audit_scores(*scores("1"), alpha=ALPHA)
    assert not honest.refutes(Fraction(1))
    assert honest.epsilon_at_least > 0.75
    assert audit_scores(*scores("2"), alpha=ALPHA).refutes(Fraction(1))

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from audits import audit_scores
from discreet.noise.response import (
    RandomizedResponse,
    ResponseKey,
    ResponseNoise,
    simulate_response,
)
from discreet.privacy.loss import PureDP
from statistical_checks import ALPHA

pytestmark = pytest.mark.statistical

SIZE = 100_000
IDS = [i.to_bytes(4, "big") for i in range(SIZE)]
KEY = ResponseKey(bytes(range(32)))


def response(epsilon):
    return RandomizedResponse(PureDP(Fraction(epsilon)))


@pytest.mark.parametrize("epsilon", ["1/10", "1", "3"])
@pytest.mark.parametrize("label", [0, 1])
def test_labels_are_flipped_with_their_probability(epsilon, label):
    labels = np.full(SIZE, label)
    flips = int((response(epsilon).flip(labels, IDS, key=KEY) != labels).sum())
    rho = 1 / (1 + math.exp(Fraction(epsilon)))
    assert stats.binomtest(flips, SIZE, rho).pvalue > ALPHA
    assert stats.binomtest(flips, SIZE, 0.85 * rho).pvalue < ALPHA


def test_an_audit_confirms_epsilon_and_catches_half_the_flips():
    def scores(epsilon):
        return tuple(
            response(epsilon)
            .flip(np.full(SIZE, label), IDS, key=ResponseKey(bytes([label] * 32)))
            .astype(float)
            for label in (1, 0)
        )

    honest = audit_scores(*scores("1"), alpha=ALPHA)
    assert not honest.refutes(Fraction(1))
    assert honest.epsilon_at_least > 0.85
    assert audit_scores(*scores("2"), alpha=ALPHA).refutes(Fraction(1))


def test_decoded_histograms_are_unbiased_with_the_variance_of_the_noise():
    exact = np.array([400, 50, 3, 10, 60, 200])
    mechanism = response("1")
    rng = np.random.default_rng(4)
    seen = simulate_response(exact, mechanism.flip_probability, 20_000, rng)
    decoded = np.array([mechanism.open(row, 1).counts for row in seen.astype(np.int64)])
    noise, at = ResponseNoise(mechanism.flip_probability), exact.astype(float)
    covariance = noise.covariance(at)
    variance = np.concatenate([covariance.negatives, covariance.positives])
    z = (decoded.mean(axis=0) - exact) / np.sqrt(variance / len(seen))
    assert np.abs(z).max() < 6.5
    ratio = decoded.var(axis=0) / variance
    assert np.abs(ratio - 1).max() < 6.5 * math.sqrt(3 / len(seen))
    cross = [np.cov(decoded[:, b], decoded[:, b + 3])[0, 1] for b in range(3)]
    np.testing.assert_allclose(cross, covariance.cross, rtol=0.1)
    sampled = noise.sample(at, 20_000, rng)
    np.testing.assert_allclose(sampled.var(axis=0), variance, rtol=0.1)


def test_real_flips_and_simulated_ones_have_the_same_distribution():
    """One class histogram, flipped under many keys and by two binomials a bin."""
    mechanism = response("1")
    labels = np.array([0] * 40 + [1] * 25)
    ids = IDS[: labels.size]
    keys = [ResponseKey(k.to_bytes(32, "big")) for k in range(6_000)]
    real = [mechanism.flip(labels, ids, key=key).sum() for key in keys]
    rng = np.random.default_rng(8)
    rho = mechanism.flip_probability
    edges = [0, 24, 26, 28, 30, 32, 34, 65]
    for factor in (1, 0.85):
        fast = simulate_response(np.array([40, 25]), factor * rho, 6_000, rng)[:, 1]
        table = [np.histogram(x, edges)[0] for x in (real, fast)]
        assert (stats.chi2_contingency(table).pvalue > ALPHA) == (factor == 1)

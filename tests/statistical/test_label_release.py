"""What leaves a site under label privacy: its law, and audits of both paths.

A release over many score values is many independent releases of one bin: every
bin's labels are protected on their own. Each check fails on correct code with
probability at most ALPHA.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from audits import audit_scores
from discreet.data.edges import Support
from discreet.data.examples import Examples
from discreet.entropy import Seeded
from discreet.label.public_scores import PublicScores
from discreet.label.response_keys import ResponseKeys
from discreet.models.label import LabelDP, plan_curves
from discreet.noise.binned_positives import BinnedPositives, BinnedPositivesNoise
from discreet.privacy.loss import PureDP
from discreet.report.build import open_release
from discreet.transport.in_process import simulate
from statistical_checks import ALPHA, fit_p_value

RUNS = 20_000
VALUES = np.arange(RUNS) / RUNS


def released(mechanism, epsilon, labels, seed) -> np.ndarray:
    """Open the positives of every score value; ``labels`` has a row a copy of it."""
    site = Examples(np.tile(VALUES, len(labels)), np.concatenate(labels))
    plan = plan_curves(
        PublicScores.of([site]),
        LabelDP(epsilon, mechanism=mechanism),
        edges=Support(tuple(VALUES.tolist())),
        thresholds=(),
    )
    own = Seeded(seed)
    response_keys = [ResponseKeys.fresh(own)]
    release = simulate(plan, [site], response_keys=response_keys, entropy=own)[0]
    return np.split(open_release(plan, [release]).counts, 2)[1]


def audit(mechanism, epsilon, copies):
    """Audit one flipped label in each bin of so many examples."""
    zeros, ones = np.zeros(RUNS, dtype=int), np.ones(RUNS, dtype=int)
    rest = [zeros] * (copies - 1)
    one = released(mechanism, epsilon, [ones, *rest], b"with")
    other = released(mechanism, epsilon, [zeros, *rest], b"without")
    return audit_scores(one, other, alpha=ALPHA)


PATHS = [("response", 1), ("response", 2), ("binned", 1), ("binned", 2)]


@pytest.mark.statistical
@pytest.mark.parametrize(("mechanism", "copies"), PATHS)
def test_a_release_keeps_its_epsilon_for_one_flipped_label(mechanism, copies) -> None:
    found = audit(mechanism, 1, copies)
    assert not found.refutes(Fraction(1))
    assert found.epsilon_at_least > 0.6  # the audit has power


@pytest.mark.statistical
@pytest.mark.parametrize(("mechanism", "copies"), PATHS)
def test_half_the_noise_is_caught(mechanism, copies) -> None:
    assert audit(mechanism, 2, copies).refutes(Fraction(1))


def crowded_noise(epsilon: Fraction, size: int) -> np.ndarray:
    mechanism = BinnedPositives(PureDP(epsilon), size)
    exact = np.repeat([3, 4], size)
    opened = mechanism.open(mechanism.protect(exact, entropy=Seeded(b"law")), 1)
    counts = opened.counts
    return np.rint(counts[size:] - 4).astype(int)


def laplace_pmf(epsilon: float):
    a = math.exp(-epsilon)
    return lambda k: (1 - a) / (1 + a) * a ** abs(k)


@pytest.mark.statistical
def test_crowded_bins_have_discrete_laplace_noise_of_scale_one_over_epsilon() -> None:
    noise = crowded_noise(Fraction(1, 2), 60_000)
    assert fit_p_value(noise, laplace_pmf(0.5), range(-8, 9)) > ALPHA
    for wrong in (0.5 / 1.3, 0.5 * 1.3):
        assert fit_p_value(noise, laplace_pmf(wrong), range(-6, 7)) < ALPHA


@pytest.mark.statistical
def test_lone_labels_are_flipped_with_the_probability_of_the_response() -> None:
    size, epsilon = 60_000, Fraction(1)
    mechanism = BinnedPositives(PureDP(epsilon), size)
    exact = np.concatenate([np.zeros(size, int), np.ones(size, int)])
    sent = mechanism.protect(exact, entropy=Seeded(b"lone"))
    response_key = int(np.split(sent, 5)[2].sum())
    rho = 1 / (1 + math.e)
    assert stats.binomtest(response_key, size, rho).pvalue > ALPHA
    for wrong in (rho / 1.3, rho * 1.3):
        assert stats.binomtest(response_key, size, wrong).pvalue < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("positives", [0, 1])
def test_decoded_lone_labels_are_unbiased_with_the_stated_variance(positives) -> None:
    size = 60_000
    mechanism = BinnedPositives(PureDP(Fraction(1)), size)
    exact = np.concatenate([np.full(size, 1 - positives), np.full(size, positives)])
    opened = mechanism.open(mechanism.protect(exact, entropy=Seeded(b"u")), 1)
    counts, distribution = opened.counts, opened.noise
    noise = counts[size:] - positives
    z = abs(noise.mean()) / math.sqrt(distribution.variances[0] / size)
    assert z < stats.norm.isf(ALPHA / 2)
    # A two-valued noise: its variance is known within 2% from so many draws.
    assert noise.var() == pytest.approx(distribution.variances[0], rel=0.04)


def test_empty_bins_carry_no_noise_and_totals_are_exact() -> None:
    mechanism = BinnedPositives(PureDP(Fraction(1, 10)), 4)
    exact = np.array([0, 1, 0, 5, 0, 0, 1, 9])
    opened = mechanism.open(mechanism.protect(exact, entropy=Seeded(b"e")), 1)
    counts, noise = opened.counts, opened.noise
    assert counts[0] == counts[4] == 0
    np.testing.assert_allclose(counts[:4] + counts[4:], [0, 1, 1, 14])
    np.testing.assert_array_equal(noise.cells, [0, 0, 0, 1])
    np.testing.assert_array_equal(noise.flipped, [0, 1, 1, 0])


def test_simulated_noise_has_the_variances_of_the_law() -> None:
    # 40,000 draws: sums of geometric variables have a kurtosis below 10, so a
    # variance is known within 6 x sqrt(9/40,000) = 9%.
    noise = BinnedPositivesNoise(
        1.0, np.array([0, 1, 5, 0, 2]), np.array([0, 0, 0, 7, 3])
    )
    at = np.array([0.0, 10, 30, 4, 5, 0, 5, 20, 3, 2])
    draws = noise.sample(at, 40_000, np.random.default_rng(1))
    np.testing.assert_allclose(draws[:, :5], -draws[:, 5:])
    found = draws[:, 5:].var(axis=0)
    np.testing.assert_allclose(found, noise.variances, rtol=0.09)
    assert found[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["response", "binned"])
def test_intervals_hold_the_population_as_often_as_they_say(mechanism) -> None:
    # 120 intervals of 95%: fewer than 98 hits have a chance below 1e-7 (binomial).
    from discreet.report.evaluation import Evaluation
    from label_runs import evaluate_labels

    rng = np.random.default_rng(7)
    runs, size, rate, d = 120, 3000, 0.3, 1.2
    truth = {
        "auc": stats.norm.cdf(d / math.sqrt(2)),
        "recall": stats.norm.sf(0.5 * d - math.log(rate / (1 - rate)) / d - d),
    }
    hits = dict.fromkeys(truth, 0)
    for run in range(runs):
        y = (rng.random(size) < rate).astype(int)
        x = rng.normal(d * y, 1)
        s = 1 / (1 + (1 - rate) / rate * np.exp(-(d * x - d * d / 2)))
        result = evaluate_labels(
            [Examples(s[i::3], y[i::3]) for i in range(3)],
            privacy=LabelDP(2, mechanism=mechanism),
            entropy=Seeded(bytes([run])),
        )
        assert isinstance(result, Evaluation)
        found = {"auc": result.auc, "recall": result.at(0.5).recall}
        for name, estimate in found.items():
            low, high = estimate.interval()
            hits[name] += low <= truth[name] <= high
    for name, count in hits.items():
        assert count >= 98, (name, count)

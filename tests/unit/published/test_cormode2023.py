"""Equi-depth buckets, equation 5, and what the paper's theorems miss."""

import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from discreet.data.examples import Examples
from discreet.errors import PlanError, ReleaseError
from discreet.noise.laplace import LaplaceNoise, simulate_discrete_laplace
from discreet.published.cormode2023 import (
    BucketRule,
    EquiDepth,
    auc_noise_variance,
    exact_tree_height,
    histogram_auc,
    unary_variance,
)
from discreet.statistic.hierarchy import Hierarchy, NoisyTree
from oracles import auc_by_pairs


@pytest.fixture
def sample(rng):
    labels = rng.integers(0, 2, 30_000)
    scores = np.where(labels, rng.beta(3, 2, 30_000), rng.beta(2, 3, 30_000))
    return scores, labels


def exact_tree(scores, labels, height=12):
    tree = Hierarchy.over_unit_interval(2, height)
    counts = tree.count(Examples(scores, labels)).astype(float)
    return NoisyTree.from_release(tree, counts, variance=0.0)


def test_equation_5_counts_ties_as_one_half(rng):
    scores, labels = rng.integers(0, 6, 60), rng.integers(0, 2, 60)
    negatives = np.bincount(scores[labels == 0], minlength=6).astype(float)
    positives = np.bincount(scores[labels == 1], minlength=6).astype(float)
    expected = auc_by_pairs(scores.tolist(), labels.tolist())
    assert histogram_auc(negatives, positives) == pytest.approx(expected)


def test_equation_2_counts_a_spike_as_lost_and_equation_5_as_one_half():
    negatives = positives = np.array([0.0, 10.0, 0.0])
    pairs_won = 0.0
    assert histogram_auc(negatives, positives) == 0.5 != pairs_won


@pytest.mark.parametrize("buckets", [5, 20, 80])
def test_buckets_of_an_exact_tree_are_equally_deep(sample, buckets):
    found = EquiDepth.from_tree(exact_tree(*sample), buckets)
    depth = (found.negatives + found.positives) / sample[0].size
    assert depth.size == buckets
    assert depth.sum() == pytest.approx(1.0)
    assert np.abs(depth - 1 / buckets).max() < 0.25 / buckets


@pytest.mark.parametrize("buckets", [5, 20, 80])
def test_the_error_is_within_lemma_3_and_typically_one_over_3_b_squared(
    sample, buckets
):
    found = EquiDepth.from_tree(exact_tree(*sample), buckets)
    error = abs(found.auc - roc_auc_score(*sample[::-1]))
    assert error <= found.uncertainty <= 0.52 / buckets
    assert error < 1 / (3 * buckets**2) + 2e-5


def test_a_heavy_score_merges_buckets(rng):
    scores = np.where(rng.random(5000) < 0.6, 0.5, rng.random(5000))
    labels = rng.integers(0, 2, 5000)
    found = EquiDepth.from_tree(exact_tree(scores, labels), 10)
    assert found.negatives.size < 10
    assert found.negatives.sum() + found.positives.sum() == pytest.approx(5000)
    assert (np.diff(found.edges) > 0).all()


def test_noisy_buckets_still_tell_the_auc(sample, rng):
    tree = Hierarchy.over_unit_interval(2, 10)
    counts = tree.count(Examples(*sample)).astype(float)
    distribution = LaplaceNoise(10 / 1.0)
    noise = simulate_discrete_laplace(distribution.scale, counts.shape, rng)
    observed = NoisyTree.from_release(
        tree, counts + noise, variance=distribution.variance
    )
    found = EquiDepth.from_tree(observed, 20)
    assert found.auc == pytest.approx(roc_auc_score(*sample[::-1]), abs=0.01)


def measured_auc_deviation(buckets, epsilon, examples, rng, runs=2000):
    """The AUC's spread with flat noise on scores that say nothing (P = N)."""
    each = np.full(buckets, examples / 2 / buckets)
    scale = 1.0 / epsilon
    noisy = [
        histogram_auc(
            each + simulate_discrete_laplace(scale, (buckets,), rng),
            each + simulate_discrete_laplace(scale, (buckets,), rng),
        )
        for _ in range(runs)
    ]
    return float(np.std(noisy))


@pytest.mark.parametrize("buckets", [8, 64, 512])
def test_the_noise_of_a_flat_auc_follows_the_corrected_law(rng, buckets):
    each = np.full(buckets, 20_000 / buckets)
    expected = math.sqrt(auc_noise_variance(each, each, LaplaceNoise(1.0).variance))
    measured = measured_auc_deviation(buckets, 1.0, 40_000, rng)
    # 2,000 runs: a standard error of about 2%; 6 of them.
    assert measured == pytest.approx(expected, rel=0.12)


@pytest.mark.parametrize("buckets", [64, 512, 2048])
def test_the_flat_auc_noise_of_a_useful_classifier_is_root_b_over_eps_m(buckets):
    u = (np.arange(buckets) + 0.5) / buckets
    positives, negatives = 2 * u, 2 * (1 - u)
    positives *= 20_000 / positives.sum()
    negatives *= 20_000 / negatives.sum()
    found = math.sqrt(auc_noise_variance(negatives, positives, 2.0))
    factor = found * 40_000 / math.sqrt(buckets)
    assert 1.2 < factor < 1.7


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 5.0])
def test_unary_encoding_has_four_times_the_variance_that_theorem_6_takes(epsilon):
    p, q = 0.5, 1 / (math.exp(epsilon) + 1)
    exact = q * (1 - q) / (p - q) ** 2
    printed = math.exp(epsilon) / (math.exp(epsilon) - 1) ** 2
    assert unary_variance(epsilon) == pytest.approx(exact)
    assert unary_variance(epsilon) == pytest.approx(4 * printed)


def test_the_rules_are_those_of_the_theorems():
    m, eps = 1_000_000, 0.5
    assert BucketRule.RATES_DISTRIBUTED.buckets(m, eps) == round(500_000 ** (2 / 3))
    assert BucketRule.RATES_LOCAL.buckets(m, eps) == round(0.5 ** (2 / 3) * 100)
    assert BucketRule.CALIBRATION.buckets(m, eps) == 100
    assert BucketRule.CALIBRATION_LOCAL.buckets(m, eps) == round(0.5**0.5 * 1000**0.5)
    assert BucketRule.AUC_DISTRIBUTED.buckets(m, eps) == 20
    local = math.sqrt(m / unary_variance(eps)) / 10
    assert BucketRule.AUC_LOCAL.buckets(m, eps) == round(local)
    assert all(rule.buckets(1, 1e-6) >= 2 for rule in BucketRule)


def test_an_exact_tree_has_leaves_of_a_quarter_of_a_bucket():
    for buckets in (1, 20, 64, 65):
        assert 2 ** exact_tree_height(buckets) >= 4 * buckets


def test_what_makes_no_buckets_is_refused(sample):
    with pytest.raises(PlanError):
        EquiDepth.from_tree(exact_tree(*sample, height=4), 0)
    with pytest.raises(PlanError):
        exact_tree_height(0)
    with pytest.raises(PlanError):
        BucketRule.CALIBRATION.buckets(100, 0.0)
    with pytest.raises(ReleaseError, match="2 buckets"):
        EquiDepth(np.array([0, 0.5, 1]), np.ones(3), np.ones(2))
    with pytest.raises(ReleaseError, match="too few examples"):
        EquiDepth(np.array([0.0, 1.0]), np.array([-1.0]), np.array([5.0]))

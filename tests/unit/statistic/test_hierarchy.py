"""A consistent tree; properties/test_consistency_least_squares has the definition."""

import numpy as np
import pytest

from discreet.data.edges import Edges, Uniform
from discreet.data.examples import Examples
from discreet.errors import PlanError, ReleaseError
from discreet.noise.laplace import LaplaceNoise, simulate_discrete_laplace
from discreet.statistic.hierarchy import (
    Hierarchy,
    NoisyTree,
    consistent_levels,
    merged_levels,
)


def test_a_tree_without_noise_is_left_alone(rng):
    levels = merged_levels(rng.integers(0, 50, 27).astype(float), 3, 3)
    for before, after in zip(levels, consistent_levels(levels, [0.0] * 3), strict=True):
        np.testing.assert_array_equal(after, before)


def test_a_level_that_is_known_exactly_is_not_moved(rng):
    top, leaves = np.array([30.0, 12.0]), rng.normal(8, 3, 6)
    found = consistent_levels([top, leaves], [0.0, 5.0])
    np.testing.assert_allclose(found[0], top)
    np.testing.assert_allclose(found[1].reshape(2, 3).sum(axis=1), top)


def test_consistency_cuts_the_variance_of_range_queries(rng):
    b, h = 2, 7
    variance = LaplaceNoise(1.0).variance
    raw, after = [], []
    for _ in range(400):
        levels = [simulate_discrete_laplace(1.0, (b**k,), rng) for k in range(1, h + 1)]
        raw.append(levels[-1][: 2**6 + 1].sum())
        after.append(consistent_levels(levels, [variance] * h)[-1][: 2**6 + 1].sum())
    # Flat leaves: 65 noises. The tree: at most 7, and less after averaging.
    assert np.var(raw) > 40 * variance
    assert np.var(after) < 5 * variance


def test_a_released_vector_is_cut_into_the_levels_of_both_classes(rng):
    tree = Hierarchy.over_unit_interval(2, 4)
    scores, labels = rng.random(500), rng.integers(0, 2, 500)
    counts = tree.count(Examples(scores, labels)).astype(float)
    observed = NoisyTree.from_release(tree, counts, variance=0.0)
    for label, levels in enumerate((observed.negatives, observed.positives)):
        for k, level in enumerate(levels, start=1):
            bins = np.linspace(0, 1, 2**k + 1)
            expected = np.histogram(scores[labels == label], bins)[0]
            assert level.tolist() == expected.tolist()
    assert observed.totals == ((labels == 0).sum(), labels.sum())
    assert observed.merged[-1].sum() == 500


def test_a_class_total_that_is_not_positive_is_refused():
    edges = Edges.realise(Uniform(2))
    tree = NoisyTree(edges, (np.array([4.0, 3.0]),), (np.array([1.0, -3.0]),), (2.0,))
    with pytest.raises(ReleaseError, match="number of positives is not positive"):
        _ = tree.totals


@pytest.mark.parametrize(
    ("levels", "variances"),
    [
        ([], []),
        ([np.zeros(2)], [1.0, 1.0]),
        ([np.zeros(2), np.zeros(3)], [1.0, 1.0]),
        ([np.zeros(4), np.zeros(2)], [1.0, 1.0]),
        ([np.zeros(2)], [-1.0]),
        ([np.zeros(2)], [np.nan]),
        ([np.zeros(2)], [np.inf]),
    ],
)
def test_what_is_no_tree_is_refused(levels, variances):
    with pytest.raises(ReleaseError):
        consistent_levels(levels, variances)


def test_a_vector_or_leaves_of_the_wrong_size_are_refused():
    tree = Hierarchy.over_unit_interval(2, 3)
    with pytest.raises(ReleaseError, match="28 counts"):
        NoisyTree.from_release(tree, np.zeros(27), variance=1.0)
    with pytest.raises(PlanError, match="8 leaves"):
        merged_levels(np.zeros(9), 2, 3)
    with pytest.raises(ReleaseError, match="the edges make 8 bins"):
        NoisyTree(tree.edges, (np.zeros(4),), (np.zeros(4),), (1.0,))

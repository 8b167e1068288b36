"""The range-query baseline: answers, smoothing, and its noise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.metrics import roc_auc_score, roc_curve

from discreet.data.examples import Examples
from discreet.errors import PlanError, ReleaseError
from discreet.estimate.areas import area_error
from discreet.noise.laplace import LaplaceNoise, simulate_discrete_laplace
from discreet.published.xu2025.range_queries import (
    RangeQueries,
    counts_above,
    curves_through,
    simulate_path_noise,
    smooth,
)
from discreet.statistic.hierarchy import Hierarchy, NoisyTree, merged_levels
from fuzzing import draws

series = st.lists(st.floats(-0.5, 1.5, allow_nan=False), min_size=1, max_size=12)


def least_l1(values):
    """The least sum of |v_i| that makes the series monotone and inside [0, 1]."""
    n = len(values)
    cost = np.append(np.zeros(n), np.ones(n))
    eye = np.eye(n)
    near = np.block([[eye, -eye], [-eye, -eye]])  # |y - x| <= t
    rows, limits = [near], [np.concatenate([values, -np.array(values)])]
    if n > 1:
        falls = eye[:-1] - eye[1:]
        rows.append(np.hstack([falls, np.zeros((n - 1, n))]))
        limits.append(np.zeros(n - 1))
    bounds = [(0, 1)] * n + [(0, None)] * n
    found = linprog(
        cost, A_ub=np.vstack(rows), b_ub=np.concatenate(limits), bounds=bounds
    )
    return found.fun


@draws(100)
@given(series)
def test_l1_smoothing_reaches_the_linear_programs_optimum(values):
    found = smooth(np.array(values), "l1")
    assert (np.diff(found) >= 0).all()
    assert found.min() >= 0
    assert found.max() <= 1
    assert np.abs(found - values).sum() == pytest.approx(least_l1(values), abs=1e-5)


@draws(100)
@given(series, st.integers(0, 2**32 - 1))
def test_l2_smoothing_cannot_be_improved(values, seed):
    values = np.array(values)
    found = smooth(values, "l2")
    assert (np.diff(found) >= -1e-12).all()
    # The projection on a convex set: no member of it lies on the far side.
    rng = np.random.default_rng(seed)
    others = np.sort(rng.random((200, values.size)), axis=1)
    assert ((others - found) @ (values - found) <= 1e-9).all()


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_monotone_series_is_left_alone(norm):
    rates = np.array([0.0, 0.2, 0.2, 0.9, 1.0])
    assert smooth(rates, norm).tolist() == rates.tolist()


@pytest.mark.parametrize(("b", "h"), [(2, 5), (3, 3), (7, 1)])
def test_exact_range_queries_are_the_counts_above_every_edge(rng, b, h):
    leaves = rng.integers(0, 20, b**h).astype(float)
    expected = np.append(leaves[::-1].cumsum()[::-1], 0.0)
    found = counts_above(merged_levels(leaves, b, h))
    assert found.tolist() == expected.tolist()


def test_a_range_query_uses_no_more_than_one_node_a_level():
    height = 6
    used = np.zeros((2**height + 1, 0))
    for level in range(height):
        for node in range(2 ** (level + 1)):
            levels = [np.zeros(2 ** (k + 1)) for k in range(height)]
            levels[level][node] = 1.0
            used = np.column_stack([used, counts_above(levels)])
    nodes = used[1:].sum(axis=1)  # below the top: the whole is the two top nodes
    assert nodes.max() == height
    assert nodes.mean() == pytest.approx(height / 2)
    assert set(np.unique(used)) == {0.0, 1.0}


def test_path_noise_has_the_variance_of_its_levels(rng):
    n, epsilon = 16, 0.8
    draws = np.array([simulate_path_noise(n, epsilon, rng) for _ in range(20_000)])
    levels = 5
    each = LaplaceNoise(levels / epsilon).variance
    # Relative standard error of a variance here: about 1.1%; 7 of them.
    np.testing.assert_allclose(draws.var(axis=0), levels * each, rtol=0.08)
    near = np.mean(draws[:, 0] * draws[:, 1])  # all levels but the lowest
    far = np.mean(draws[:, 0] * draws[:, 15])  # the root alone
    assert near == pytest.approx((levels - 1) * each, rel=0.1)
    assert far == pytest.approx(each, rel=0.4)


def test_the_step_of_an_example_moves_at_most_one_noise_a_level():
    # Why path noise of scale L/eps is eps-DP: the change of the cumulative counts
    # when an example enters bin j is a sum of tree nodes, one a level at most.
    n, levels = 16, 5
    for j in range(n):
        step = (np.arange(n) >= j).astype(float)
        moved = 0
        for level in range(levels - 1, -1, -1):
            width = 2**level
            for node in range(0, n, width):
                if step[node : node + width].all():
                    step[node : node + width] -= 1
                    moved += 1
        assert not step.any()
        assert moved <= levels


@pytest.fixture
def sample(rng):
    labels = rng.integers(0, 2, 20_000)
    scores = np.where(labels, rng.beta(3, 2, 20_000), rng.beta(2, 3, 20_000))
    return scores, labels


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_curves_are_near_the_truth_with_and_without_noise(sample, rng, norm):
    tree = Hierarchy.over_unit_interval(2, 6)
    counts = tree.count(Examples(*sample)).astype(float)
    fpr, tpr, _ = roc_curve(*sample[::-1])
    exact = RangeQueries(norm).curves(
        NoisyTree.from_release(tree, counts, variance=0.0)
    )
    assert area_error((fpr, tpr), exact.roc) < 1e-3
    assert exact.auc == pytest.approx(roc_auc_score(*sample[::-1]), abs=1e-3)
    distribution = LaplaceNoise(6 / 1.0)
    noise = simulate_discrete_laplace(distribution.scale, counts.shape, rng)
    noisy = RangeQueries(norm).curves(
        NoisyTree.from_release(tree, counts + noise, variance=distribution.variance)
    )
    assert area_error((fpr, tpr), exact.roc) < area_error((fpr, tpr), noisy.roc) < 0.02
    assert norm in RangeQueries(norm).name


def test_path_noise_makes_a_curve_too(sample, rng):
    scores, labels = sample
    thresholds = np.linspace(0, 1, 33)
    above = [
        np.append(np.histogram(scores[labels == y], thresholds)[0][::-1].cumsum(), 0.0)
        for y in (0, 1)
    ]
    noisy = []
    for counts in above:
        cumulative = counts[:-1] + simulate_path_noise(32, 1.0, rng)
        noisy.append(np.append(0.0, cumulative)[::-1])
    curves = curves_through(thresholds, noisy[0], noisy[1], norm="l2")
    assert curves.auc == pytest.approx(roc_auc_score(labels, scores), abs=0.02)


def test_nothing_to_draw_is_refused():
    with pytest.raises(ReleaseError, match="too few examples"):
        curves_through(np.linspace(0, 1, 3), -np.ones(3), np.ones(3), norm="l2")
    with pytest.raises(ReleaseError, match="3 thresholds"):
        curves_through(np.linspace(0, 1, 3), np.ones(4), np.ones(4), norm="l2")
    with pytest.raises(PlanError):
        simulate_path_noise(0, 1.0, np.random.default_rng(0))

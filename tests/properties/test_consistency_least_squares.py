"""The two passes are generalised least squares, by brute force."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from discreet.data.edges import Edges, Uniform
from discreet.published.xu2025.quantiles import tree_quantiles
from discreet.statistic.hierarchy import consistent_levels, merged_levels
from fuzzing import draws

branchings = st.lists(st.integers(1, 4), min_size=1, max_size=4)
counts = st.floats(-1e3, 1e3, allow_nan=False)


def least_squares(levels, variances):
    """Leaves that minimise the weighted squares, from the normal equations."""
    leaves = levels[-1].size
    rows, values, weights = [], [], []
    for level, variance in zip(levels, variances, strict=True):
        width = leaves // level.size
        for k, value in enumerate(level):
            row = np.zeros(leaves)
            row[k * width : (k + 1) * width] = 1.0
            rows.append(row)
            values.append(value)
            weights.append(1.0 / variance)
    a, w = np.array(rows), np.array(weights)
    return np.linalg.solve(a.T * w @ a, a.T * w @ np.array(values))


@st.composite
def noisy_trees(draw):
    levels, size = [], 1
    for branching in draw(branchings):
        size *= branching
        values = draw(st.lists(counts, min_size=size, max_size=size))
        levels.append(np.array(values))
    variances = [draw(st.floats(0.01, 100.0)) for _ in levels]
    return levels, variances


@draws(100)
@given(noisy_trees())
def test_the_two_passes_solve_generalised_least_squares(tree):
    """So a consistent tree is left alone, and only ratios of the variances matter."""
    levels, variances = tree
    found = consistent_levels(levels, variances)
    expected = least_squares(levels, variances)
    np.testing.assert_allclose(found[-1], expected, rtol=1e-6, atol=1e-6)
    for parents, children in pairwise(found):
        sums = children.reshape(parents.size, -1).sum(axis=1)
        np.testing.assert_allclose(parents, sums, rtol=1e-9, atol=1e-9)


@st.composite
def noisy_binary_levels(draw):
    height = draw(st.integers(1, 5))
    size = 2**height
    leaves = draw(st.lists(st.integers(-20, 40), min_size=size, max_size=size))
    return merged_levels(np.array(leaves, dtype=float), 2, height)


@draws(100)
@given(noisy_binary_levels(), st.integers(2, 40))
def test_a_larger_fraction_never_has_a_smaller_quantile(levels, quantiles):
    if levels[0].sum() <= 0:
        return
    edges = Edges.realise(Uniform(levels[-1].size))
    found = tree_quantiles(levels, edges, np.linspace(0, 1, quantiles))
    assert (np.diff(found) >= 0).all()


@draws(100)
@given(
    st.integers(1, 3),
    st.integers(2, 4),
    st.lists(st.integers(0, 30), min_size=64, max_size=64),
    st.integers(2, 30),
)
def test_quantiles_of_exact_counts_are_within_half_a_leaf_of_mass(h, b, counted, q):
    leaves = np.array(counted[: b**h], dtype=float)
    if leaves.sum() == 0:
        return
    edges = Edges.realise(Uniform(leaves.size))
    fractions = np.linspace(0, 1, q)
    found = tree_quantiles(merged_levels(leaves, b, h), edges, fractions)
    place = np.searchsorted(edges.array, found)
    cumulative = np.append(0.0, np.cumsum(leaves)) / leaves.sum()
    slack = 0.5 / leaves.size + 1e-9
    # The mass left of the quantile does not exceed the target, and with the
    # quantile's own leaf it reaches it, up to where the search may stop.
    assert (cumulative[place] <= fractions + 1e-9).all()
    reached = cumulative[np.minimum(place + 1, leaves.size)]
    assert (reached >= fractions - slack).all()

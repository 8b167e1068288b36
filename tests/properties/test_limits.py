"""Binning limits hold every arrangement inside the bins, and are attained."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from discreet.estimate.areas import (
    auc_limits,
    aupr_limits,
    average_precision_limits,
)
from fuzzing import draws

METRICS = {
    "auc": (oracles.auc_by_pairs, auc_limits),
    "average precision": (oracles.average_precision, average_precision_limits),
    "trapezoid AUPR": (oracles.trapezoid_aupr, aupr_limits),
}
counts = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=3
).filter(
    lambda bins: (
        sum(n for n, _ in bins) > 0
        and sum(p for _, p in bins) > 0
        and sum(n + p for n, p in bins) <= 5
    )
)


@pytest.mark.parametrize("metric", METRICS)
@draws(80)
@given(bins=counts)
def test_limits_are_the_extremes_over_all_arrangements(metric, bins):
    value, limits = METRICS[metric]
    negatives = [n for n, _ in bins]
    positives = [p for _, p in bins]
    found = [value(s, y) for s, y in oracles.arrangements(negatives, positives)]
    low, high = limits(np.array(negatives, float), np.array(positives, float))
    assert low == pytest.approx(min(found), abs=1e-12)
    assert high == pytest.approx(max(found), abs=1e-12)

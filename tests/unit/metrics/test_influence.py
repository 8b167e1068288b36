"""What one malicious site can do: bounds that 100,000 adversaries do not exceed."""

from typing import NamedTuple

import numpy as np
import pytest

from discreet.metrics.influence import (
    auc_influence,
    average_precision_influence,
    brier_influence,
    rate_influence,
)
from discreet.metrics.table import METRICS, RATES

pytestmark = pytest.mark.long

SEARCHES = 100_000
BINS = 16
RATE_NAMES = ("precision", "recall", "specificity", "accuracy", "f1")
CUT = BINS // 2
"""Bins from here on are predicted positive."""


class Counts(NamedTuple):
    positives: np.ndarray
    negatives: np.ndarray

    def __add__(self, other):
        return Counts(
            self.positives + other.positives, self.negatives + other.negatives
        )


def oracle(counts):
    """Every metric from its definition, one row a sum."""
    p, n = counts
    total_p, total_n = p.sum(1), n.sum(1)
    below = np.cumsum(n, 1) - n
    scores = (np.arange(BINS) + 0.5) / BINS
    above_p = np.cumsum(p[:, ::-1], 1)[:, ::-1]
    above_n = np.cumsum(n[:, ::-1], 1)[:, ::-1]
    tp, fp = p[:, CUT:].sum(1), n[:, CUT:].sum(1)
    fn, tn = total_p - tp, total_n - fp
    return {
        "auc": (p * (below + n / 2)).sum(1) / (total_p * total_n),
        "average_precision": (p * above_p / np.maximum(above_p + above_n, 1)).sum(1)
        / total_p,
        "brier": (p @ (1 - scores) ** 2 + n @ scores**2) / (total_p + total_n),
        "precision": tp / (tp + fp),
        "recall": tp / total_p,
        "specificity": tn / total_n,
        "accuracy": (tp + tn) / (total_p + total_n),
        "f1": 2 * tp / (2 * tp + fp + fn),
    }


def denominators(counts):
    p, n = counts
    tp, fp = p[:, CUT:].sum(1), n[:, CUT:].sum(1)
    fn, tn = p.sum(1) - tp, n.sum(1) - fp
    parts = np.stack([tp, fn, fp, tn])
    return dict(
        zip(
            RATE_NAMES,
            np.array([[1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1], [1] * 4, [2, 1, 1, 0]])
            @ parts,
            strict=True,
        )
    )


def honest_sums(rng, count):
    """Sums of the other sites: random, perfectly sorted, or sorted the wrong way."""
    size = rng.integers(1, 60, (count, 2))
    shapes = rng.dirichlet(np.full(BINS, 0.3), (count, 2))
    kind = rng.integers(0, 3, count)
    for which, (low, high) in enumerate(((0, CUT), (CUT, BINS)), 1):
        positive = np.zeros((BINS,))
        positive[low:high] = 1 / CUT
        shapes[kind == which, 0] = positive
        shapes[kind == which, 1] = positive[::-1]
    return Counts(*np.moveaxis(rng.multinomial(size, shapes), 1, 0))


def false_counts(rng, most):
    """At most so many invented examples: anywhere, or where they harm the most."""
    count = most.size
    sent = np.where(rng.random(count) < 0.7, most, rng.integers(0, most + 1))
    positives = rng.binomial(sent, rng.choice([0.0, 0.5, 1.0, 0.8], count))
    shapes = rng.dirichlet(np.full(BINS, 0.2), (count, 2))
    ends = np.eye(BINS)[[0, CUT - 1, CUT, BINS - 1]]
    for class_ in (0, 1):
        pointed = rng.random(count) < 0.8
        shapes[pointed, class_] = ends[rng.integers(0, 4, pointed.sum())]
    each = np.stack([positives, sent - positives], 1)
    return Counts(*np.moveaxis(rng.multinomial(each, shapes), 1, 0))


def bounds_of(counts, most):
    totals = counts.positives.sum(1), counts.negatives.sum(1)
    found = {
        name: np.array(
            [bound(*case) for case in zip(most, *totals, strict=True)], dtype=float
        )
        for name, bound in (
            ("auc", auc_influence),
            ("average_precision", average_precision_influence),
            ("brier", brier_influence),
        )
    }
    for name, below in denominators(counts).items():
        share = RATES[name].measure
        found[name] = np.array(
            [rate_influence(share, *case) for case in zip(most, below, strict=True)]
        )
    return found


@pytest.fixture(scope="module")
def searched():
    """Return how far each false answer moved each metric, and how far it may."""
    rng = np.random.default_rng(18)
    others = honest_sums(rng, SEARCHES)
    most = rng.integers(1, 30, SEARCHES)
    false, other = false_counts(rng, most), false_counts(rng, most)
    with np.errstate(all="ignore"):  # a rate of nothing is no rate, and not compared
        before, after = oracle(others), oracle(others + false)
        otherwise = oracle(others + other)
    bounds = bounds_of(others + false, most)
    return {
        name: (
            np.abs(after[name] - before[name]),
            np.abs(after[name] - otherwise[name]),
            bounds[name],
        )
        for name in before
    }


@pytest.mark.parametrize("name", ["auc", "average_precision", "brier", *RATE_NAMES])
def test_no_false_answer_moves_a_metric_further_than_its_bound(searched, name):
    """Nor, for mixtures, further from what the site would have sent in truth.

    The power twin: the search nearly reaches a bound that says something.
    """
    moved, otherwise, bound = searched[name]
    known = np.isfinite(moved)
    assert known.sum() > SEARCHES / 2
    assert (moved <= bound + 1e-12)[known].all()
    if name != "average_precision":
        assert (otherwise <= bound + 1e-12)[np.isfinite(otherwise)].all()
    useful = known & (bound < 0.5)
    best = (moved[useful] / bound[useful]).max()
    assert best >= (0.8 if name in ("brier", "average_precision") else 0.95)


def test_negatives_on_top_of_perfect_scores_reach_the_bound_of_average_precision():
    """With many positives the sum of the proof becomes its integral."""
    positives, most = 20_000, 600
    ranks = np.arange(1, positives + 1)
    fallen = 1 - (ranks / (ranks + most)).mean()
    bound = average_precision_influence(most, positives, 10**6)
    assert fallen <= bound <= 1.01 * fallen


@pytest.mark.parametrize("most", [3, 40, 200, 700])
def test_the_worst_split_of_the_examples_is_all_in_the_smaller_class(most):
    positives, negatives = 1000, 3000
    every = [
        1 - (1 - p / positives) * (1 - (most - p) / negatives) for p in range(most + 1)
    ]
    assert auc_influence(most, positives, negatives) == pytest.approx(max(every))


@pytest.mark.parametrize("most", [3, 40, 200, 700, 999])
def test_the_worst_split_for_average_precision_is_found(most):
    positives = 1000
    every = [
        (p + n * np.log((positives - p + n) / n) if n else p) / positives
        for p, n in ((most - n, n) for n in range(most + 1))
    ]
    found = average_precision_influence(most, positives, 5000)
    assert found >= min(max(every), 1) - 1e-12
    rise = (np.sqrt(np.arange(positives - most) + most + 0.5)) - np.sqrt(
        np.arange(positives - most) + 0.5
    )
    risen = (most + (rise**2 / most).sum()) / positives
    assert found == pytest.approx(min(max(*every, risen), 1), rel=2e-3)


@pytest.mark.parametrize("name", ["auc", "average_precision", "brier"])
def test_more_examples_of_a_site_never_lower_a_bound_and_a_whole_class_can_all(name):
    bound = METRICS[name].measure.influence
    assert bound(100, 100, 0) == bound(100, -5, 20) == 1
    found = [bound(most, 300, 900) for most in range(310)]
    assert (np.diff(found) >= -1e-12).all()
    assert max(found) <= 1

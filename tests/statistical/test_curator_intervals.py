"""Coverage of the 95% interval about the population's value."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from discreet import curator
from discreet.curator.ranking import rank
from discreet.entropy import Seeded
from statistical_checks import ALPHA

pytestmark = pytest.mark.statistical

LOW, HIGH = 0.93, 0.985
"""Nominal 95%; a little more is fair under heavy-tailed noise."""


def coverage(rows, prevalence, separation, runs, release):
    truth = stats.norm.cdf(separation / np.sqrt(2))
    hits = 0
    rng = np.random.default_rng(6)
    entropy = Seeded(b"coverage")
    for _ in range(runs):
        labels = (rng.random(rows) < prevalence).astype(int)
        scores = rng.normal(separation * labels, 1.0)
        low, high = release(labels, scores, entropy).interval()
        hits += low <= truth <= high
    return hits


def assert_covers(hits, runs):
    """Fail only if coverage is outside the range at a level of ALPHA."""
    assert stats.binom.cdf(hits, runs, LOW) > ALPHA
    assert stats.binom.sf(hits - 1, runs, HIGH) > ALPHA


CASES = [
    (300, 0.5, 1.5, "1"),
    (1000, 0.1, 1.0, "1"),
    (1000, 0.3, 2.2, "0.3"),
    (2000, 0.02, 1.5, "1"),
]


@pytest.mark.parametrize(("rows", "prevalence", "separation", "epsilon"), CASES)
@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.slow
def test_the_interval_of_an_auc_covers_the_populations(
    rows, prevalence, separation, epsilon, declared
):
    options = {"prevalence": prevalence} if declared else {}

    def release(labels, scores, entropy):
        return curator.auc(labels, scores, epsilon=epsilon, entropy=entropy, **options)

    runs = 1200
    assert_covers(coverage(rows, prevalence, separation, runs, release), runs)


def test_the_interval_of_a_weighted_count_covers_and_half_of_it_does_not():
    runs = 250

    def release(labels, scores, entropy):
        return curator.auc(labels, scores, epsilon=1, entropy=entropy)

    assert_covers(coverage(300, 0.4, 1.5, runs, release), runs)

    class Half:
        def __init__(self, found):
            self.found = found

        def interval(self):
            low, high = self.found.interval()
            middle = (low + high) / 2
            return (middle + low) / 2, (middle + high) / 2

    hits = coverage(300, 0.4, 1.5, runs, lambda *a: Half(release(*a)))
    assert stats.binom.cdf(hits, runs, LOW) < ALPHA


def test_the_interval_of_an_average_precision_covers_the_value_without_noise():
    """Sampling left out: the exact value of the data lies in the noise's interval."""
    rng = np.random.default_rng(9)
    labels = (rng.random(800) < 0.3).astype(int)
    scores = rng.normal(1.5 * labels, 1.0)
    truth = rank(labels, scores, ties="scikit-learn").average_precision
    runs, hits, entropy = 400, 0, Seeded(b"ap")
    for _ in range(runs):
        found = curator.average_precision(
            labels, scores, epsilon=Fraction(1), entropy=entropy
        )
        errors = found.shape.errors
        low, high = found.shape.value - np.quantile(errors, [0.975, 0.025])
        hits += low <= truth <= high
    assert_covers(hits, runs)

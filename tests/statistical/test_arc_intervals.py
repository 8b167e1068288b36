"""The decoder's covariance covers the pooled data's own AUC and class totals.

Runs are counted and compared with a binomial at ALPHA, so a correct covariance
fails a test about once in 10^9 times; bars 2.5 times narrower are rejected.
"""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from discreet.data.edges import Edges, Warped
from discreet.noise.arc import CircularArc, simulate_arc_counts
from discreet.noise.arc_decoder import decode
from statistical_checks import ALPHA

pytestmark = pytest.mark.statistical

EDGES = Edges.realise(Warped(32))
RUNS = 150
CASES = [
    (8_000, 24_000, "1"),
    pytest.param(8_000, 24_000, "5", marks=pytest.mark.slow),
    pytest.param(5_000, 40_000, "2", marks=pytest.mark.slow),
]


def binned_auc(cells):
    """Return the AUC with ties one half, and its gradient in the counts."""
    n, p = np.split(cells, 2)
    below = np.cumsum(n) - n / 2
    above = p.sum() - np.cumsum(p) + p / 2
    pairs = p.sum() * n.sum()
    auc = p @ below / pairs
    slopes = (above / pairs - auc / n.sum(), below / pairs - auc / p.sum())
    return auc, np.concatenate(slopes)


def standardised_errors(positives, negatives, epsilon):
    """Return the errors of AUC and of the positives' total over their own sd."""
    rng = np.random.default_rng(7)
    labels = np.repeat([0, 1], [negatives, positives])
    z = np.where(labels, 1.0, -2.0) + 1.5 * rng.standard_normal(labels.size)
    cells = EDGES.bins_of(1 / (1 + np.exp(-z))).astype(np.int64) + 32 * labels
    exact = np.bincount(cells, minlength=64)
    arc = CircularArc(Fraction(epsilon), EDGES)
    found = []
    for _ in range(RUNS):
        run = decode(simulate_arc_counts(arc, exact, rng), arc)
        auc, slopes = binned_auc(run.counts)
        sd = np.sqrt(slopes @ run.noise.matrix @ slopes)
        total = np.split(run.counts, 2)[1].sum() - positives
        found.append(((auc - binned_auc(exact)[0]) / sd, total / run.noise.class_sd))
    return np.array(found).T


def rejected(errors):
    """Whether so few errors inside 1.96 sd are beyond bad luck for 95%."""
    inside = int(np.count_nonzero(np.abs(errors) < 1.96))
    return stats.binom.cdf(inside, errors.size, 0.95) < ALPHA


@pytest.mark.parametrize(("positives", "negatives", "epsilon"), CASES)
def test_intervals_cover_and_much_narrower_ones_would_not(
    positives, negatives, epsilon
):
    auc, total = standardised_errors(positives, negatives, epsilon)
    assert not rejected(auc)
    assert not rejected(total)
    assert rejected(2.5 * auc)
    assert rejected(2.5 * total)

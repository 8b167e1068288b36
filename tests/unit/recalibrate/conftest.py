import numpy as np
import pytest

from discreet.data.edges import Edges, Warped
from discreet.estimate.smooth_fit import Smooth
from histograms import counted as exact_counts
from histograms import noisy


def draw(size, seed, *, slope=1.0, shift=0.0):
    """Scores whose true log-odds are shift + slope x their own."""
    rng = np.random.default_rng(seed)
    z = rng.normal(-1.0, 2.0, size)
    labels = (rng.random(size) < 1 / (1 + np.exp(-(shift + slope * z)))).astype(int)
    return 1 / (1 + np.exp(-z)), labels


@pytest.fixture
def sample():
    return draw


def histogram(scores, labels, bins=64, scale=0.0, seed=0, edges=None):
    exact = exact_counts(scores, labels, edges or Edges.realise(Warped(bins)))
    return noisy(exact, scale, np.random.default_rng(seed)) if scale else exact


@pytest.fixture
def counted():
    return histogram


@pytest.fixture
def read():
    """A noisy release and what the default estimator reads it as."""

    def both(*args, **options):
        observed = histogram(*args, **options)
        return observed, Smooth().fit(observed).counts

    return both

import numpy as np
import pytest

from discreet.data.edges import Edges, Warped
from discreet.estimate.smooth_fit import Smooth
from discreet.noise.laplace import LaplaceNoise, simulate_discrete_laplace
from discreet.noise.mechanism import NoNoise
from discreet.statistic.observed import NoisyHistogram


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
    edges = edges or Edges.realise(Warped(bins))
    place = edges.bins_of(np.asarray(scores, dtype=float)).astype(np.int64)
    counts = [
        np.bincount(place[np.asarray(labels) == y], minlength=len(edges)).astype(float)
        for y in (0, 1)
    ]
    if scale == 0:
        return NoisyHistogram(edges, *counts, NoNoise())
    rng = np.random.default_rng(seed)
    noise = simulate_discrete_laplace(scale, (2, len(edges)), rng)
    return NoisyHistogram(
        edges, counts[0] + noise[0], counts[1] + noise[1], LaplaceNoise(scale)
    )


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

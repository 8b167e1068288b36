"""What property tests share: how many examples they draw, and noisy histograms.

``make fuzz`` draws many times as many examples.
"""

import os

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from discreet.data.edges import Edges, Warped
from discreet.noise.laplace import LaplaceNoise, simulate_discrete_laplace
from discreet.noise.mechanism import NoNoise
from discreet.statistic.observed import NoisyHistogram

TIMES = int(os.environ.get("FUZZ_TIMES", "1"))


def draws(examples: int) -> settings:
    """Return the settings of a property test that draws ``examples`` by default."""
    return settings(max_examples=examples * TIMES)


@st.composite
def noisy_histograms(draw, scales):
    """Draw histograms of any shape and size, with noise of one of these scales."""
    bins = draw(st.integers(1, 40))
    scale = draw(st.sampled_from(scales))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = 10.0 ** draw(st.floats(0, 5))
    spread = draw(st.sampled_from([0.05, 1.0, 10.0]))
    counts = rng.poisson(size * rng.dirichlet(np.full(2 * bins, spread))).astype(float)
    noise = LaplaceNoise(scale) if scale else NoNoise()
    if scale:
        counts += simulate_discrete_laplace(scale, counts.shape, rng)
    return NoisyHistogram(Edges.realise(Warped(bins)), *np.split(counts, 2), noise)

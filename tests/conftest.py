import os
import warnings

import numpy as np
import pytest

from discreet.entropy import Seeded
from discreet.errors import DisclosureWarning


def pytest_generate_tests(metafunc):
    """Sweep seeds: SEEDS=100 runs each statistical test under 100 seeds."""
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(int(os.environ.get("SEEDS", "1"))))


@pytest.fixture
def entropy(seed):
    return Seeded(b"test" + seed.to_bytes(4, "big"))


@pytest.fixture
def rng():
    return np.random.default_rng(20251115)


@pytest.fixture
def small_is_fine():
    """Small exact histograms are what these tests are about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisclosureWarning)
        yield

"""Clients split over the levels of a tree: unbiased, and as private as claimed."""

from fractions import Fraction

import numpy as np
import pytest

from discreet import InputError, ReleaseError
from discreet.entropy import SYSTEM
from discreet.noise.unary import LevelReports, UnaryEncoding
from discreet.privacy.loss import PureDP
from discreet.statistic import Hierarchy
from statistical_checks import ALPHA, chi_squared_p_value

TREE = Hierarchy.over_unit_interval(2, 3)
ONE = PureDP(Fraction(1))


def tree_of(leaves):
    """Return the exact vector of a tree with these leaves of both classes."""
    levels, level = [], np.asarray(leaves).reshape(2, -1)
    for _ in range(TREE.height):
        levels.insert(0, level.ravel())
        level = level.reshape(2, -1, 2).sum(axis=2)
    return np.concatenate(levels).astype(np.int64)


@pytest.mark.statistical
def test_levels_are_chosen_evenly_and_every_client_speaks_once():
    exact = tree_of([0, 0, 9000, 0, 0, 0, 0, 0, *[0] * 7, 9000])
    total = LevelReports(ONE, TREE).protect(exact, entropy=SYSTEM)
    clients = total[-3:]
    assert clients.sum() == 18_000
    assert chi_squared_p_value(clients, np.full(3, 6000.0)) > ALPHA


@pytest.mark.statistical
def test_bits_have_the_probabilities_of_unary_encoding():
    exact = tree_of([0, 0, 60_000, 0, 0, 0, 0, 0, *[0] * 8])
    reports = LevelReports(ONE, TREE)
    total = reports.protect(exact, entropy=SYSTEM)
    q = UnaryEncoding(ONE).other_probability
    start = 0
    for level, heard in enumerate(total[-3:]):
        width = 2 ** (level + 1)
        bits = total[start : start + 2 * width]
        own = 2 // 2 ** (2 - level)  # the node above leaf 2
        expected = np.full(2 * width, heard * q)
        expected[own] = heard / 2
        sd = np.sqrt(expected * (1 - expected / heard))
        # 28 nodes within six standard deviations: false alarm below 6e-8.
        assert (np.abs(bits - expected) < 6 * sd).all()
        # Half the noise, q(2 eps), would be seen at every node but the own one.
        wrong = heard / (np.exp(2.0) + 1)
        others = np.arange(2 * width) != own
        assert (np.abs(bits - wrong)[others] > 6 * sd[others]).all()
        start += 2 * width


@pytest.mark.statistical
def test_decoded_levels_are_unbiased_with_the_stated_variance():
    leaves = np.array([400, 0, 0, 0, 0, 0, 0, 0, *[0] * 7, 300])
    reports, exact = LevelReports(ONE, TREE), tree_of(leaves)
    runs = [reports.open(reports.protect(exact, entropy=SYSTEM), 1) for _ in range(400)]
    found = np.array([opened.counts for opened in runs])
    error = found.mean(axis=0) - exact
    assert (np.abs(error) < 6 * found.std(axis=0) / 20 + 1e-9).all()
    empty = np.flatnonzero(tree_of(leaves) == 0)
    at_leaves = empty[empty >= TREE.size - 16]
    variance = np.mean([opened.noise.variances[-1] for opened in runs])
    assert found[:, at_leaves].var() == pytest.approx(variance, rel=0.15)


def test_bad_vectors_are_refused():
    reports = LevelReports(ONE, TREE)
    with pytest.raises(InputError, match="28 exact counts"):
        reports.protect(np.zeros(5, dtype=np.int64), entropy=SYSTEM)
    with pytest.raises(ReleaseError, match="no client"):
        reports.open(np.zeros(reports.sent(reports.tree.size), dtype=np.int64), 1)

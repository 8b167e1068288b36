"""The bug in the papers' released code: one seed for every client and level.

Each client drew its share from a generator with the same seed, and drew every
level of its tree from that seed again. Ten equal shares add up to ten times one
share: the sum has the variance 100 V/10 = 10 V where it should have V (9.25 V was
measured), and levels repeat each other, so that averaging them gains nothing.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.entropy import Seeded
from discreet.noise.polya import PolyaShares
from discreet.privacy.loss import PureDP
from discreet.privacy.unit import Unit
from discreet.statistic.hierarchy import Hierarchy
from statistical_checks import ALPHA, fit_p_value

SITES = 10
TREE = Hierarchy.over_unit_interval(2, 11)
EPSILON = Fraction(11)  # eps/h = 1 a level
SUPPORT = range(-3, 4)


def laplace_pmf(k):
    return math.tanh(0.5) * math.exp(-abs(k))


def shares(seeds):
    """What each site adds to its counts, with the secret bytes it was given."""
    mechanism = PolyaShares(
        PureDP(EPSILON), TREE.sensitivity(Unit("example", "add_remove")), SITES
    )
    nothing = np.zeros(TREE.size, dtype=np.int64)
    return [mechanism.protect(nothing, entropy=Seeded(seed)) for seed in seeds]


def own_seeds(seed):
    return [b"site" + bytes([k, seed]) for k in range(SITES)]


@pytest.mark.statistical
def test_sites_with_entropy_of_their_own_add_up_to_discrete_laplace(seed):
    drawn = shares(own_seeds(seed))
    assert fit_p_value(sum(drawn), laplace_pmf, SUPPORT) > ALPHA


@pytest.mark.statistical
def test_two_sites_never_draw_the_same_noise(seed):
    drawn = shares(own_seeds(seed))
    for k, one in enumerate(drawn):
        for other in drawn[k + 1 :]:
            assert not np.array_equal(one, other)
            # Independent shares: the correlation of 8,188 cells has standard
            # error .011, though shares are heavy-tailed; equal ones have 1.
            assert abs(np.corrcoef(one, other)[0, 1]) < 0.2


@pytest.mark.statistical
def test_one_seed_for_all_sites_is_caught(seed):
    drawn = shares([b"shared" + bytes([seed])] * SITES)
    assert np.array_equal(drawn[0], drawn[1])
    assert fit_p_value(sum(drawn), laplace_pmf, SUPPORT) < ALPHA
    wanted = 2 * math.exp(-1) / (1 - math.exp(-1)) ** 2
    assert 7 < float(np.var(sum(drawn))) / wanted < 13


@pytest.mark.statistical
def test_no_level_repeats_the_noise_of_another(seed):
    total = sum(shares(own_seeds(seed))).astype(float)
    levels = [np.append(n, p) for n, p in TREE.levels(total)]
    for k, short in enumerate(levels[3:-1], start=3):  # 32 cells and more
        for longer in levels[k + 1 :]:
            assert not np.array_equal(short, longer[: short.size])
    # And the two classes are independent draws, too.
    negatives, positives = TREE.levels(total)[-1]
    assert abs(np.corrcoef(negatives, positives)[0, 1]) < 0.2

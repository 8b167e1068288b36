"""The noise in what is released, through the whole path from sites to release."""

import math
from fractions import Fraction

import numpy as np
import pytest

import discreet
from discreet.data.edges import Uniform
from discreet.entropy import SYSTEM, Seeded
from discreet.noise.polya import PolyaShares
from discreet.noise.unary import UnaryEncoding
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import recommend
from discreet.privacy.loss import PureDP
from discreet.privacy.unit import EXAMPLE
from discreet.session.respond import bounded
from discreet.statistic.hierarchy import Hierarchy
from discreet.transport.in_process import simulate
from statistical_checks import (
    ALPHA,
    around_zero,
    assert_fits,
    fit_p_value,
    laplace_pmf,
)

pytestmark = pytest.mark.statistical

BINS = 30_000
ONE_SHARE = 2 * math.exp(-1) / (1 - math.exp(-1)) ** 2
"""The variance of discrete Laplace noise at epsilon 1."""


def released_noise(privacy, cohort, sites, *, bins=BINS):
    """Return released minus exact counts, over many cells."""
    plan = recommend(PublicFacts(), privacy, edges=Uniform(bins), cohort=cohort)
    (release,) = simulate(plan, sites, entropy=SYSTEM)
    exact = sum(plan.statistic.count(bounded(s, privacy.protects)) for s in sites)
    return release.total - exact


def sites_of(rng, count, rows=40):
    return [
        discreet.Examples(
            rng.random(rows), rng.random(rows) < 0.4, subjects=rng.integers(0, 9, rows)
        )
        for _ in range(count)
    ]


CASES = {
    "all three sites survive": (discreet.DistributedDP(1), Cohort(3, 0), 3, 1.0),
    "one survivor is enough": (discreet.DistributedDP("0.5"), Cohort(1), 1, 2.0),
    "subjects with 4 examples": (
        discreet.DistributedDP(2, unit="subject", max_examples=4),
        *(Cohort(3, 0), 3, 2.0),
    ),
    "local, one site": (discreet.LocalDP(1, "laplace"), Cohort(1), 1, 1.0),
}


@pytest.mark.parametrize("case", CASES)
def test_released_noise_is_discrete_laplace_of_the_claimed_scale(rng, case):
    privacy, cohort, count, scale = CASES[case]
    noise = released_noise(privacy, cohort, sites_of(rng, count))
    support = around_zero(2 * scale)
    assert_fits(noise, laplace_pmf, scale, support, (0.85, 1.15, 0.5))


def test_noise_is_sized_for_survivors_minus_colluders_and_more_only_adds(rng):
    sites = sites_of(rng, 6)
    privacy = discreet.DistributedDP(1)
    exactly = released_noise(privacy, Cohort(6, 0), sites)
    cautious = released_noise(privacy, Cohort(4, 2), sites)
    # Six shares sized for two honest ones: three times the variance.
    assert exactly.var() == pytest.approx(ONE_SHARE, rel=0.1)
    assert cautious.var() == pytest.approx(3 * ONE_SHARE, rel=0.1)


def test_two_empty_sites_never_draw_the_same_noise():
    privacy = discreet.LocalDP(1, "laplace")
    plan = recommend(PublicFacts(), privacy, edges=Uniform(2000))
    empty = discreet.Examples([], [])
    alone = [simulate(plan, [empty])[0].total for _ in range(2)]
    assert not np.array_equal(*alone)
    both = simulate(plan, [empty, empty])[0].total
    # Identical noise would only have even sums, and four times the variance.
    assert np.any(both % 2 == 1)
    assert both.var() < 3 * alone[0].var()


def test_approximate_dp_noise_has_the_variance_of_its_distribution(rng):
    privacy = discreet.DistributedDP(1, "1e-6")
    noise = released_noise(privacy, Cohort(3), sites_of(rng, 3))
    plan = recommend(PublicFacts(), privacy, edges=Uniform(4), cohort=Cohort(3))
    distribution = plan.privacy.mechanism_for(plan.resolve(0, []), plan.cohort).noise(3)
    variance = distribution.covariance(np.zeros(8)).positives[0]
    assert noise.var() == pytest.approx(variance, rel=0.05)


def test_a_site_encodes_for_unary_clients_as_they_would_themselves(rng):
    site = discreet.Examples(rng.random(4000), rng.random(4000) < 0.4)
    privacy = discreet.LocalDP(2, "unary")
    plan = recommend(PublicFacts(), privacy, edges=Uniform(6), thresholds=())
    total = simulate(plan, [site])[0].total
    exact = plan.statistic.count(site)
    assert total[-1] == 4000
    encoding = UnaryEncoding(PureDP(privacy.loss.epsilon))
    decoded = encoding.decode(total[:-1], 4000)
    sd = np.sqrt(encoding.noise(4000).covariance(exact.astype(float)).positives)
    # Six standard deviations in twelve cells: false alarm below 3e-8.
    assert (np.abs(decoded - exact) < 6 * np.append(sd, sd)).all()
    assert np.abs(decoded - exact).max() > 0.2 * sd.min()


SITES = 10
TREE = Hierarchy.over_unit_interval(2, 11)


def shares(seeds):
    """What each site adds to a tree at epsilon 1 a level, with the bytes it was given."""
    budget = PureDP(Fraction(TREE.height))
    mechanism = PolyaShares(budget, TREE.sensitivity(EXAMPLE), SITES)
    nothing = np.zeros(TREE.size, dtype=np.int64)
    return [mechanism.protect(nothing, entropy=Seeded(seed)) for seed in seeds]


def test_sites_with_entropy_of_their_own_draw_noise_of_their_own_on_every_level(seed):
    drawn = shares([b"site" + bytes([k, seed]) for k in range(SITES)])
    total = sum(drawn)
    assert fit_p_value(total, laplace_pmf(1.0), range(-3, 4)) > ALPHA
    # Independent shares: the correlation of 8,188 cells has standard error .011,
    # though shares are heavy-tailed; equal ones have 1.
    assert np.abs(np.corrcoef(drawn) - np.eye(SITES)).max() < 0.2
    levels = [np.append(n, p) for n, p in TREE.levels(total.astype(float))]
    for k, short in enumerate(levels[3:-1], start=3):  # 32 cells and more
        for longer in levels[k + 1 :]:
            assert not np.array_equal(short, longer[: short.size])
    # And the two classes are independent draws, too.
    assert abs(np.corrcoef(*np.split(levels[-1], 2))[0, 1]) < 0.2


def test_one_seed_for_all_sites_is_caught(seed):
    """The papers' released code seeds every client alike.

    Ten equal shares add up to ten times one share: the sum has the variance
    100 V/10 = 10 V where it should have V.
    """
    drawn = shares([b"shared" + bytes([seed])] * SITES)
    assert np.array_equal(drawn[0], drawn[1])
    assert fit_p_value(sum(drawn), laplace_pmf(1.0), range(-3, 4)) < ALPHA
    assert 7 < float(np.var(sum(drawn))) / ONE_SHARE < 13

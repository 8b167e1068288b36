"""The noise in what is released, through the whole path from sites to release."""

import math

import numpy as np
import pytest

import discreet
from discreet.data.edges import Uniform
from discreet.entropy import SYSTEM
from discreet.noise.unary import UnaryEncoding
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import recommend
from discreet.privacy.loss import PureDP
from discreet.session.respond import bounded
from discreet.transport.in_process import simulate
from statistical_checks import around_zero, assert_fits, laplace_pmf

BINS = 30_000


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
        Cohort(3, 0),
        3,
        2.0,
    ),
    "local, one site": (discreet.LocalDP(1, "laplace"), Cohort(1), 1, 1.0),
}


@pytest.mark.statistical
@pytest.mark.parametrize("case", CASES)
def test_released_noise_is_discrete_laplace_of_the_claimed_scale(rng, case):
    privacy, cohort, count, scale = CASES[case]
    noise = released_noise(privacy, cohort, sites_of(rng, count))
    support = around_zero(2 * scale)
    assert_fits(noise, laplace_pmf, scale, support, (0.85, 1.15, 0.5))


@pytest.mark.statistical
def test_noise_is_sized_for_survivors_minus_colluders_and_more_only_adds(rng):
    sites = sites_of(rng, 6)
    privacy = discreet.DistributedDP(1)
    exactly = released_noise(privacy, Cohort(6, 0), sites)
    cautious = released_noise(privacy, Cohort(4, 2), sites)
    one = 2 * math.exp(-1) / (1 - math.exp(-1)) ** 2
    # Six shares sized for two honest ones: three times the variance.
    assert exactly.var() == pytest.approx(one, rel=0.1)
    assert cautious.var() == pytest.approx(3 * one, rel=0.1)


@pytest.mark.statistical
def test_two_sites_never_draw_the_same_noise(rng):
    site = discreet.Examples(rng.random(40), rng.random(40) < 0.4)
    privacy = discreet.LocalDP(1, "laplace")
    plan = recommend(PublicFacts(), privacy, edges=Uniform(2000))
    empty = discreet.Examples([], [])
    alone = [simulate(plan, [empty])[0].total for _ in range(2)]
    assert not np.array_equal(*alone)
    both = simulate(plan, [empty, empty])[0].total
    # Identical noise would only have even sums, and four times the variance.
    assert np.any(both % 2 == 1)
    assert both.var() < 3 * alone[0].var()
    assert len(site) == 40


@pytest.mark.statistical
def test_approximate_dp_noise_has_the_variance_of_its_distribution(rng):
    privacy = discreet.DistributedDP(1, "1e-6")
    sites = sites_of(rng, 3)
    noise = released_noise(privacy, Cohort(3), sites)
    plan = recommend(PublicFacts(), privacy, edges=Uniform(4), cohort=Cohort(3))
    distribution = plan.privacy.mechanism_for(plan.resolve(0, []), plan.cohort).noise(3)
    variance = distribution.covariance(np.zeros(8)).positives[0]
    assert noise.var() == pytest.approx(variance, rel=0.05)


@pytest.mark.statistical
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

"""Randomized messages of single examples: arcs, bits, flipped labels.

Encoders draw from their channel, decoded counts are unbiased with the stated variance,
and simulations follow the same distribution.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from bench.simulated_sums import simulate_response_errors
from discreet import InputError, ReleaseError
from discreet.data.edges import Edges, Uniform
from discreet.entropy import SYSTEM, Seeded
from discreet.label.ranks import SiteRanks
from discreet.label.released_sums import ResponseSums
from discreet.noise.arc import CircularArc, simulate_arc_counts
from discreet.noise.binned_positives import BinnedPositives, BinnedPositivesNoise
from discreet.noise.response import (
    RandomizedResponse,
    ResponseKey,
    ResponseNoise,
    simulate_response,
)
from discreet.noise.unary import LevelReports, UnaryEncoding, simulate_unary
from discreet.privacy.loss import PureDP
from discreet.statistic import Hierarchy
from statistical_checks import (
    ALPHA,
    assert_coin,
    chi_squared_p_value,
    same_law_p_value,
)

pytestmark = pytest.mark.statistical

ONE = PureDP(Fraction(1))
SIZE = 100_000
IDS = [i.to_bytes(4, "big") for i in range(SIZE)]
CLIENTS = 40_000


def arc_of(epsilon, bins=32):
    return CircularArc(Fraction(epsilon), Edges.realise(Uniform(bins)))


def sent(arc, cell, size, seed):
    return arc.randomise(np.full(size, cell), Seeded(seed))


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2", "5"])
@pytest.mark.parametrize("cell", [0, 40])
def test_symbols_follow_the_channel_and_none_15_percent_off(epsilon, cell):
    arc, size = arc_of(epsilon), 200_000
    observed = np.bincount(sent(arc, cell, size, b"channel"), minlength=arc.cells)
    assert chi_squared_p_value(observed, size * arc.channel()[cell]) > ALPHA
    for factor in ("0.85", "1.15"):
        wrong = arc_of(Fraction(epsilon) * Fraction(factor))
        wrong.__dict__["length"] = arc.length  # the odds alone are wrong
        wrong.__dict__.pop("total_weight")
        assert chi_squared_p_value(observed, size * wrong.channel()[cell]) < ALPHA


@pytest.mark.parametrize("epsilon", [1, 2])
def test_totals_of_real_and_simulated_clients_have_the_same_exact_distribution(epsilon):
    """Two clients, by the unordered pair of symbols that they sent.

    A multinomial of the mean channel has the right means and the wrong distribution.
    """
    arc, runs = arc_of(epsilon, bins=4), 20_000
    pairs = np.triu_indices(8)
    both = np.outer(arc.channel()[0], arc.channel()[5])
    expected = runs * ((both + both.T) / np.where(np.eye(8), 2, 1))[pairs]
    place = {pair: k for k, pair in enumerate(zip(*pairs, strict=True))}

    def p_value(tallies):
        found = [place[tuple(np.repeat(np.arange(8), tally))] for tally in tallies]
        return chi_squared_p_value(np.bincount(found, minlength=len(place)), expected)

    one, other = (sent(arc, cell, runs, b"pair%d" % cell) for cell in (0, 5))
    real = [np.bincount(pair, minlength=8) for pair in zip(one, other, strict=True)]
    assert p_value(real) > ALPHA
    rng, exact = np.random.default_rng(3), np.array([1, 0, 0, 0, 0, 1, 0, 0])
    assert p_value(simulate_arc_counts(arc, exact, rng) for _ in range(runs)) > ALPHA
    if epsilon == 2:
        pooled = exact @ arc.channel() / 2
        assert p_value(rng.multinomial(2, pooled, runs)) < ALPHA


def unary(epsilon):
    return UnaryEncoding(PureDP(Fraction(epsilon)))


@pytest.mark.parametrize("epsilon", ["1/2", "1", "5"])
def test_bits_have_their_two_probabilities(epsilon):
    cells = np.full(CLIENTS, 2)
    bits = unary(epsilon).encode(cells, cells=4, entropy=Seeded(b"clients"))
    q = 1 / (1 + math.exp(Fraction(epsilon)))
    # Too few ones of probability .0067 to tell 15% apart.
    wrong = () if epsilon == "5" else (0.85,)
    for ones, probability in zip(bits.sum(axis=0), [q, q, 0.5, q], strict=True):
        assert_coin(int(ones), CLIENTS, probability, wrong)


def test_the_bits_of_a_client_are_independent():
    bits = unary("1").encode(np.zeros(CLIENTS, int), cells=3, entropy=Seeded(b"c"))
    z = (np.corrcoef(bits.T) - np.eye(3)) * math.sqrt(CLIENTS)
    assert np.abs(z).max() < 6.5


def test_a_real_run_bit_by_bit_has_the_distribution_of_two_binomials():
    counts, runs = np.array([12, 3, 0, 25]), 4_000
    mechanism = unary("1")
    own = np.repeat(np.arange(4), counts)
    bits = mechanism.encode(np.tile(own, runs), cells=4, entropy=Seeded(b"run"))
    real = bits.reshape(runs, own.size, 4).sum(axis=1)
    rng = np.random.default_rng(6)
    q = mechanism.other_probability
    fast = simulate_unary(counts, own.size, q, runs, rng)
    wrong = simulate_unary(counts, own.size, 0.85 * q, runs, rng)
    centres = np.rint(counts / 2 + (own.size - counts) * q).astype(int)
    supports = [range(centre - 4, centre + 5) for centre in centres]
    for cell, support in enumerate(supports):
        assert same_law_p_value(real[:, cell], fast[:, cell], support) > ALPHA
    assert same_law_p_value(real[:, 2], wrong[:, 2], supports[2]) < ALPHA


def response(epsilon):
    return RandomizedResponse(PureDP(Fraction(epsilon)))


@pytest.mark.parametrize("epsilon", ["1/10", "1", "3"])
@pytest.mark.parametrize("label", [0, 1])
def test_labels_are_flipped_with_their_probability(epsilon, label):
    labels, key = np.full(SIZE, label), ResponseKey(bytes(range(32)))
    flips = int((response(epsilon).flip(labels, IDS, key=key) != labels).sum())
    assert_coin(flips, SIZE, 1 / (1 + math.exp(Fraction(epsilon))))


def test_real_flips_and_simulated_ones_have_the_same_distribution():
    """One class histogram, flipped under many keys and by two binomials a bin."""
    mechanism = response("1")
    labels = np.array([0] * 40 + [1] * 25)
    keys = [ResponseKey(k.to_bytes(32, "big")) for k in range(6_000)]
    real = [mechanism.flip(labels, IDS[: labels.size], key=key).sum() for key in keys]
    rng = np.random.default_rng(8)
    rho = mechanism.flip_probability
    edges = [0, 24, 26, 28, 30, 32, 34, 65]
    for factor in (1, 0.85):
        fast = simulate_response(np.array([40, 25]), factor * rho, 6_000, rng)[:, 1]
        table = [np.histogram(x, edges)[0] for x in (real, fast)]
        assert (stats.chi2_contingency(table).pvalue > ALPHA) == (factor == 1)


def decoded_unary(runs, rng):
    counts, mechanism = np.array([700, 20, 0, 280]), unary("2")
    totals = simulate_unary(counts, 1000, mechanism.other_probability, runs, rng)
    decoded = mechanism.decode(totals.astype(np.int64), 1000)
    return counts, decoded, mechanism.noise(1000), 2


def decoded_response(runs, rng):
    counts, mechanism = np.array([400, 50, 3, 10, 60, 200]), response("1")
    seen = simulate_response(counts, mechanism.flip_probability, runs, rng)
    decoded = np.array([mechanism.open(row, 1).counts for row in seen.astype(np.int64)])
    return counts, decoded, ResponseNoise(mechanism.flip_probability), 3


@pytest.mark.parametrize("decoded", [decoded_unary, decoded_response])
def test_decoded_counts_are_unbiased_with_the_covariance_of_the_noise(decoded):
    runs, rng = 20_000, np.random.default_rng(7)
    counts, found, noise, kurtosis = decoded(runs, rng)
    at, bins = counts.astype(float), counts.size // 2
    covariance = noise.covariance(at)
    variance = np.concatenate([covariance.negatives, covariance.positives])
    z = (found.mean(axis=0) - counts) / np.sqrt(variance / runs)
    assert np.abs(z).max() < 6.5
    ratio = found.var(axis=0) / variance
    assert np.abs(ratio - 1).max() < 6.5 * math.sqrt(kurtosis / runs)
    if decoded is decoded_response:  # a bin's two counts go together
        cross = [np.cov(found[:, b], found[:, b + bins])[0, 1] for b in range(bins)]
        np.testing.assert_allclose(cross, covariance.cross, rtol=0.1)
    sampled = noise.sample(at, runs, rng)
    np.testing.assert_allclose(sampled.var(axis=0), variance, rtol=0.1)


def test_flips_of_rank_sums_have_their_probability(entropy):
    site = SiteRanks(np.arange(0, 60_000, 2, dtype=np.int64), examples=30_000)
    mechanism = ResponseSums(site, ONE)
    _, kept = mechanism.protect(np.ones(30_000, np.int64), site, entropy=entropy)
    assert_coin(30_000 - int(kept), 30_000, mechanism.flip_probability, (1.15,))


def test_simulated_rank_sums_of_flips_have_the_covariance_of_the_mechanism(rng):
    doubled = np.arange(0, 400, 2, dtype=np.int64)
    site = SiteRanks(doubled, examples=200)
    labels = (rng.random(200) < 0.3).astype(np.int64)
    cov = ResponseSums(site, PureDP(Fraction(2))).covariance
    runs = 40_000
    s, p = simulate_response_errors(doubled / 2, labels, 2.0, runs, rng)
    room = 6.2 * math.sqrt(2 / runs)
    assert s.var() == pytest.approx(cov.rank_sum, rel=room)
    assert p.var() == pytest.approx(cov.positives, rel=room)
    assert np.cov(s, p)[0, 1] == pytest.approx(cov.cross, rel=room)
    assert abs(s.mean()) < 6.2 * math.sqrt(cov.rank_sum / runs)


TREE = Hierarchy.over_unit_interval(2, 3)
REPORTS = LevelReports(ONE, TREE)


def tree_of(leaves):
    """Return the exact vector of a tree with these counts by leaf, of both classes."""
    level = np.zeros(16, dtype=np.int64)
    level[list(leaves)] = list(leaves.values())
    levels, level = [], level.reshape(2, -1)
    for _ in range(TREE.height):
        levels.insert(0, level.ravel())
        level = level.reshape(2, -1, 2).sum(axis=2)
    return np.concatenate(levels)


def test_levels_are_chosen_evenly_and_every_client_speaks_once():
    total = REPORTS.protect(tree_of({2: 9000, 15: 9000}), entropy=SYSTEM)
    clients = total[-3:]
    assert clients.sum() == 18_000
    assert chi_squared_p_value(clients, np.full(3, 6000.0)) > ALPHA


def test_bits_of_levels_have_the_probabilities_of_unary_encoding():
    total = REPORTS.protect(tree_of({2: 60_000}), entropy=SYSTEM)
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


def test_decoded_levels_are_unbiased_with_the_stated_variance():
    exact = tree_of({0: 400, 15: 300})
    runs = [REPORTS.open(REPORTS.protect(exact, entropy=SYSTEM), 1) for _ in range(400)]
    found = np.array([opened.counts for opened in runs])
    error = found.mean(axis=0) - exact
    assert (np.abs(error) < 6 * found.std(axis=0) / 20 + 1e-9).all()
    empty = np.flatnonzero(exact == 0)
    at_leaves = empty[empty >= TREE.size - 16]
    variance = np.mean([opened.noise.variances[-1] for opened in runs])
    assert found[:, at_leaves].var() == pytest.approx(variance, rel=0.15)


def test_bad_vectors_are_refused():
    with pytest.raises(InputError, match="28 exact counts"):
        REPORTS.protect(np.zeros(5, dtype=np.int64), entropy=SYSTEM)
    with pytest.raises(ReleaseError, match="no client"):
        REPORTS.open(np.zeros(REPORTS.sent(TREE.size), dtype=np.int64), 1)


@pytest.mark.parametrize("positives", [0, 1])
def test_lone_labels_are_flipped_and_decoded_with_the_stated_variance(positives):
    size = 60_000
    mechanism = BinnedPositives(ONE, size)
    exact = np.repeat([1 - positives, positives], size)
    told = mechanism.protect(exact, entropy=Seeded(b"lone"))
    if positives:
        flips, rho = int(np.split(told, 5)[2].sum()), 1 / (1 + math.e)
        assert_coin(flips, size, rho, (1 / 1.3, 1.3))
    opened = mechanism.open(told, 1)
    noise, variance = opened.counts[size:] - positives, opened.noise.variances[0]
    assert abs(noise.mean()) / math.sqrt(variance / size) < stats.norm.isf(ALPHA / 2)
    # A two-valued noise: its variance is known within 2% from so many draws.
    assert noise.var() == pytest.approx(variance, rel=0.04)


def test_empty_bins_carry_no_noise_and_totals_are_exact():
    mechanism = BinnedPositives(PureDP(Fraction(1, 10)), 4)
    exact = np.array([0, 1, 0, 5, 0, 0, 1, 9])
    opened = mechanism.open(mechanism.protect(exact, entropy=Seeded(b"e")), 1)
    counts, noise = opened.counts, opened.noise
    assert counts[0] == counts[4] == 0
    np.testing.assert_allclose(counts[:4] + counts[4:], [0, 1, 1, 14])
    np.testing.assert_array_equal(noise.cells, [0, 0, 0, 1])
    np.testing.assert_array_equal(noise.flipped, [0, 1, 1, 0])


def test_simulated_noise_of_binned_labels_has_its_variances():
    # 40,000 draws: sums of geometric variables have a kurtosis below 10, so a
    # variance is known within 6 x sqrt(9/40,000) = 9%.
    noise = BinnedPositivesNoise(
        1.0, np.array([0, 1, 5, 0, 2]), np.array([0, 0, 0, 7, 3])
    )
    at = np.array([0.0, 10, 30, 4, 5, 0, 5, 20, 3, 2])
    draws = noise.sample(at, 40_000, np.random.default_rng(1))
    np.testing.assert_allclose(draws[:, :5], -draws[:, 5:])
    found = draws[:, 5:].var(axis=0)
    np.testing.assert_allclose(found, noise.variances, rtol=0.09)
    assert found[0] == 0

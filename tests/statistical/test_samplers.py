"""Integer samplers against their distributions, and fast simulations against them.

Each check fails on correct code with probability ALPHA; each has a twin: a wrong
scale is rejected.
"""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy import stats

from bench.simulated_sums import simulate_laplace, simulate_staircase
from discreet.entropy import Seeded
from discreet.label.sum_noise import GaussianSumNoise, StaircaseSumNoise
from discreet.noise.binned_positives import BinnedPositives
from discreet.noise.coins import (
    bernoulli,
    bernoulli_exp,
    bernoulli_exp_ratio,
    bernoulli_logistic,
    bernoulli_two_over_e,
    fair,
    geometric_half,
    poisson,
    uniform_below,
)
from discreet.noise.laplace import discrete_laplace, simulate_discrete_laplace
from discreet.noise.polya import (
    PolyaNoise,
    PolyaShares,
    polya_difference,
    simulate_polya_difference,
)
from discreet.noise.skellam import SkellamShares, skellam
from discreet.privacy.loss import ApproxDP, PureDP
from discreet.privacy.unit import EXAMPLE, Sensitivity
from label_cases import staircase_pmf
from oracles import gaussian_table, polya_pmf
from statistical_checks import (
    ALPHA,
    around_zero,
    assert_coin,
    assert_fits,
    chi_squared_p_value,
    fit_p_value,
    laplace_pmf,
    same_law_p_value,
)

pytestmark = pytest.mark.statistical

SIZE = 200_000
ONE = Sensitivity(1, 1, 1, EXAMPLE)
TINY = ApproxDP(Fraction(1), Fraction(1, 10**6))


def many(value, dtype=np.int64):
    return np.full(SIZE, value, dtype=dtype)


COINS = {
    "fair": (0.5, lambda e: fair(SIZE, e)),
    "3/7": (3 / 7, lambda e: bernoulli(Fraction(3, 7), SIZE, e)),
    "exp(-2/5)": (math.exp(-0.4), lambda e: bernoulli_exp(many(2, np.uint64), 5, e)),
    "exp(-1)": (math.exp(-1), lambda e: bernoulli_exp(many(1, np.uint64), 1, e)),
    "exp(-0)": (1.0, lambda e: bernoulli_exp(many(0, np.uint64), 7, e)),
    "exp(-7/3)": (math.exp(-7 / 3), lambda e: bernoulli_exp_ratio(many(7), 3, e)),
    "2/e": (2 / math.e, lambda e: bernoulli_two_over_e(many(1), e)),
    "(2/e)^3": ((2 / math.e) ** 3, lambda e: bernoulli_two_over_e(many(3), e)),
    **{
        f"logistic({x})": (
            1 / (1 + math.exp(Fraction(x))),
            partial(bernoulli_logistic, Fraction(x), SIZE),
        )
        for x in ("1", "7/2", "1/10")
    },
}


@pytest.mark.parametrize("name", COINS)
def test_a_coin_has_its_probability_and_not_one_15_percent_off(name):
    probability, flip = COINS[name]
    assert_coin(int(flip(Seeded(name.encode())).sum()), SIZE, probability)


@pytest.mark.parametrize("bound", [1, 2, 6, 10, 2**62 - 1])
def test_bounded_integers_are_uniform(bound):
    drawn = uniform_below(many(bound, np.uint64), Seeded(b"uniform"))
    assert int(drawn.max()) < bound
    cells = min(bound, 10)
    tenth = [int(d) * cells // bound for d in drawn]
    observed = np.bincount(tenth, minlength=cells)
    expected = np.full(cells, SIZE / cells)
    assert bound == 1 or chi_squared_p_value(observed, expected) > ALPHA


def test_a_word_beyond_the_last_multiple_is_drawn_again():
    """2^64 - 1 mod 3 is 0, so accepting the top word would favour 0."""
    stream = iter([2**64 - 1, 5])
    drawn = uniform_below(
        np.array([3], dtype=np.uint64), lambda _: next(stream).to_bytes(8, "little")
    )
    assert drawn.tolist() == [2]


def sum_of_shares(mechanism, sites, seed, cells=40_000):
    zeros = np.zeros(cells, dtype=np.int64)
    entropies = (Seeded(seed + site.to_bytes(2, "big")) for site in range(sites))
    return sum(mechanism.protect(zeros, entropy=entropy) for entropy in entropies)


def laplace(scale):
    return discrete_laplace(scale, SIZE, Seeded(b"laplace"))


def polya_sum(gamma, honest):
    return sum_of_shares(PolyaShares(PureDP(gamma), ONE, honest), honest, b"sum")


def polya_share(gamma, honest):
    return polya_difference(gamma, honest, 150_000, Seeded(b"share"))


def share_pmf(honest):
    return lambda scale: polya_pmf(PolyaNoise(1 / scale, 1 / honest))


def skellam_pmf(variance):
    return stats.skellam(variance / 2, variance / 2).pmf


def gaussian(variance):
    noise, entropy = GaussianSumNoise(variance), Seeded(b"test" + bytes(4))
    return noise.draws(2500, entropy)


def gaussian_pmf(variance):
    table = gaussian_table(Fraction(variance))
    return lambda k: float(table.probabilities[k + table.reach])


def crowded_bins(size=60_000):
    """The noise of bins with three negatives and four positives, at epsilon 1/2."""
    mechanism = BinnedPositives(PureDP(Fraction(1, 2)), size)
    exact = np.repeat([3, 4], size)
    opened = mechanism.open(mechanism.protect(exact, entropy=Seeded(b"law")), 1)
    return np.rint(opened.counts[size:] - 4).astype(int)


def poisson_tail():
    """Counts far above the mean come by another way than the others."""
    sample = poisson(Fraction(1), 2_000_000, Seeded(b"tail"))
    return sample[sample >= 2] - 2


def poisson_tail_pmf(mean):
    weights = stats.poisson(mean).pmf(np.arange(2, 40))
    return lambda g: (weights / weights.sum())[g]


SAMPLES = {
    **{
        f"Laplace, scale {b}": (partial(laplace, Fraction(b)), laplace_pmf, b, reach)
        for b, reach in (("1/2", 1.25), ("5/2", 6.25), ("10", 25))
    },
    **{
        f"{n} Polya shares, epsilon {g}": (
            partial(polya_sum, Fraction(g), n),
            *(laplace_pmf, 1 / Fraction(g), 2 / Fraction(g)),
        )
        for g, n in (("1", 3), ("1/10", 3), ("7/3", 5), ("1", 40))
    },
    **{
        f"one of {n} Polya shares, epsilon {g}": (
            partial(polya_share, Fraction(g), n),
            *(share_pmf(n), 1 / Fraction(g), reach),
        )
        for g, n, reach in (("2", 2, 1), ("1", 3, 2), ("3/10", 4, 4), ("1/20", 3, 30))
    },
    **{
        f"Skellam, variance {v}": (
            partial(skellam, Fraction(v), 100_000, Seeded(b"skellam")),
            *(skellam_pmf, v, reach, (0.85**2, 1.15**2)),
        )
        for v, reach in (("2/3", 1), ("7", 5), ("60", 14))
    },
    **{
        f"{n} Skellam shares": (
            partial(sum_of_shares, SkellamShares(TINY, ONE, n), n, b"", 20_000),
            *(skellam_pmf, n * SkellamShares(TINY, ONE, n).variance, 7, (1.3,)),
        )
        for n in (3, 200)
    },
    **{
        f"Poisson, mean {m}": (
            partial(poisson, Fraction(m), 60_000, Seeded(b"poisson")),
            *(lambda m: stats.poisson(m).pmf, m, support),
        )
        for m, support in (
            *(("1/3", range(3)), ("1", range(5)), ("2", range(7))),
            *(("37/10", range(9)), ("8", range(4, 14)), ("121/3", range(33, 48))),
        )
    },
    "Poisson, the tail of a block": (
        *(poisson_tail, poisson_tail_pmf, 1, range(5), (0.9, 1.1)),
    ),
    "geometric, past a whole byte of heads": (
        partial(geometric_half, 400_000, Seeded(b"geometric")),
        *(lambda p: lambda k: p * (1 - p) ** k, "1/2", range(11), (0.92,)),
    ),
    **{
        f"Gaussian, variance {v}": (
            *(partial(gaussian, v), gaussian_pmf, v, 0.45 * math.sqrt(v), (2,)),
        )
        for v in (3, 20)
    },
    "crowded bins under label privacy": (crowded_bins, laplace_pmf, 2, 6),
    "simulated rank sums": (
        lambda: simulate_laplace([2.5], (100_000, 1), np.random.default_rng(1))[:, 0],
        *(laplace_pmf, "5/2", 6),
    ),
}
"""What is drawn, its pmf at a scale, the scale, which cells, and scales to reject."""


@pytest.mark.parametrize("name", SAMPLES)
def test_draws_follow_their_distribution_and_no_other_scale(name):
    draw, pmf_of, scale, support, *wrong = SAMPLES[name]
    cells = support if isinstance(support, range) else around_zero(support)
    assert_fits(draw(), pmf_of, float(Fraction(scale)), cells, *wrong)


def test_half_the_sites_do_not_make_discrete_laplace_noise():
    shares = PolyaShares(PureDP(Fraction(1, 2)), ONE, 6)
    total = sum_of_shares(shares, 3, b"half")
    assert fit_p_value(total, laplace_pmf(2.0), around_zero(4)) < ALPHA


def test_more_contributors_than_honest_sites_follow_the_wider_distribution():
    mechanism = PolyaShares(PureDP(Fraction(1, 2)), ONE, 4)
    total = sum_of_shares(mechanism, 6, b"wide")
    assert fit_p_value(total, polya_pmf(mechanism.noise(6)), range(-7, 8)) > ALPHA
    assert fit_p_value(total, laplace_pmf(2.0), range(-7, 8)) < ALPHA


STAIRCASES = [
    StaircaseSumNoise(1, 1, Fraction(1, 2)),
    StaircaseSumNoise(6, 2, Fraction(1)),
    StaircaseSumNoise(6, 6, Fraction(2)),
    StaircaseSumNoise(5, 1, Fraction(3)),
]


@pytest.mark.parametrize("noise", STAIRCASES)
def test_staircase_noise_follows_its_pmf_and_none_of_another_epsilon_or_width(
    noise, entropy, rng
):
    sample = noise.draws(100_000, entropy)
    support = around_zero(noise.width + noise.step - 1)

    def p_value(other):
        return fit_p_value(
            sample, lambda k: float(staircase_pmf(other, np.array([k]))[0]), support
        )

    assert p_value(noise) > ALPHA
    if noise.step > 1:
        step, width, epsilon = noise.step, noise.width, noise.epsilon
        other_width = width - 1 or width + 1
        assert p_value(StaircaseSumNoise(step, width, epsilon * Fraction(4, 5))) < ALPHA
        assert p_value(StaircaseSumNoise(step, other_width, epsilon)) < ALPHA
    twin = simulate_staircase(
        [noise.step], [noise.width], [float(noise.epsilon)], 100_000, rng
    )
    assert same_law_p_value(sample, twin[:, 0], support) > ALPHA


TWINS = {
    **{
        f"Laplace, scale {b}": (
            partial(laplace, Fraction(b)),
            lambda f, rng, b=Fraction(b): simulate_discrete_laplace(
                f * float(b), (SIZE,), rng
            ),
            2.5 * Fraction(b),
        )
        for b in ("1/2", "5/2", "10")
    },
    **{
        f"one of {n} Polya shares": (
            partial(polya_difference, g, n, SIZE, Seeded(b"twin")),
            lambda f, rng, g=g, n=n: simulate_polya_difference(
                float(g), f / n, (SIZE,), rng
            ),
            2,
        )
        for g, n in ((Fraction(1, 2), 3), (Fraction(1), 20))
    },
}


@pytest.mark.parametrize("name", TWINS)
def test_a_simulation_has_the_distribution_of_the_exact_sampler(name):
    draw, simulate, reach = TWINS[name]
    exact, rng = draw(), np.random.default_rng(5)
    for factor in (1.0, 0.85):
        twin = simulate(factor, rng)
        p = same_law_p_value(exact, twin, around_zero(reach))
        assert (p > ALPHA) == (factor == 1.0)


def test_the_cells_of_a_share_are_independent():
    """Jumps are strewn over all cells at once: neighbours must not be related."""
    share = polya_difference(Fraction(1, 4), 3, 200_000, Seeded(b"cells"))
    here, there = share[:-1], share[1:]
    z = float((here * there).mean() / share.var()) * here.size**0.5
    assert abs(z) < 7  # heavier tails than normal; 6.1 is ALPHA for a normal


def test_one_count_of_a_large_mean_is_a_sum_of_small_ones():
    """Many chunks, a mean that is no integer."""
    mean = Fraction(100_001, 3)
    draws = [int(poisson(mean, 1, Seeded(bytes([i])))[0]) for i in range(40)]
    z = (np.array(draws) - float(mean)) / float(mean) ** 0.5
    assert stats.chi2.sf((z**2).sum(), z.size) > ALPHA
    assert stats.chi2.cdf((z**2).sum(), z.size) > ALPHA
    assert 2 * stats.norm.sf(abs(z.mean()) * z.size**0.5) > ALPHA

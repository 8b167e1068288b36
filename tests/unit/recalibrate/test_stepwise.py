"""Maps in steps, and the rates that they are made of."""

from dataclasses import replace

import numpy as np
import pytest

import recalibrate_oracles as oracle
from discreet.data.edges import Edges, Support, Uniform
from discreet.errors import InputError
from discreet.noise.laplace import LaplaceNoise
from discreet.recalibrate.stepwise import (
    APART,
    Rates,
    bins_for,
    fit_bbq,
    fit_binning,
    fit_isotonic,
    fit_levels,
    levels,
    log_score,
    numbers_of_groups,
    quantile_starts,
)
from histograms import histogram, no_examples

EDGES = Edges.realise(Uniform(12))
KNOWN = Edges.realise(Support(tuple(k / 12 for k in range(12))))


def examples(seed, size=60, bins=12):
    rng = np.random.default_rng(seed)
    place = np.minimum(rng.geometric(0.2, size) - 1, bins - 1)
    labels = (rng.random(size) < (place + 1) / (bins + 1)).astype(int)
    return list(zip(place.tolist(), labels.tolist(), strict=True))


def counts_of(pairs, edges=EDGES):
    place, labels = np.array(pairs).T
    both = (np.bincount(place[labels == y], minlength=len(edges)) for y in (0, 1))
    return histogram(edges, *both)


def rate_of_bins(fitted, edges=EDGES):
    return fitted.apply(edges.array[:-1])


@pytest.mark.parametrize("draw", range(12))
@pytest.mark.parametrize("groups", [1, 2, 3, 5, 12])
def test_binning_gives_the_rates_of_the_pooled_examples(draw, groups):
    pairs = examples(draw)
    found = rate_of_bins(fit_binning(counts_of(pairs), bins=groups))
    filled = sorted({b for b, _ in pairs})
    wanted = np.array(oracle.binning(pairs, 12, groups))
    assert found[filled] == pytest.approx(wanted[filled])


@pytest.mark.parametrize("edges", [EDGES, KNOWN])
@pytest.mark.parametrize("draw", range(12))
def test_bbq_gives_the_average_of_brute_force(draw, edges):
    pairs = examples(draw)
    found = rate_of_bins(fit_bbq(counts_of(pairs, edges)), edges)
    assert found == pytest.approx(oracle.bbq(pairs, 12, edges.values), rel=1e-9)


def test_the_score_is_the_probability_of_the_labels_one_by_one():
    pairs = examples(5)
    counts = counts_of(pairs)
    starts = np.array([0, 2, 7])
    group = oracle.members(12, [2, 7])
    middles = [(0 + 2) / 24, (2 + 7) / 24, (7 + 12) / 24]
    found = log_score(counts.negatives, counts.positives, starts, EDGES.array)
    assert found == pytest.approx(oracle.log_evidence(pairs, group, middles))


def test_scores_far_beyond_a_float_still_make_an_average():
    p = np.arange(12) * 1e6
    n = 12e6 - p
    fitted = fit_bbq(histogram(EDGES, n, p))
    assert rate_of_bins(fitted) == pytest.approx(p / (n + p), abs=1e-6)


def test_bbq_clips_noisy_counts_at_zero():
    n, p = np.array([50.0, -3.0, 5.0, 2.0]), np.array([2.0, 4.0, 20.0, -1.0])
    edges = Edges.realise(Uniform(4))
    noisy = histogram(edges, n, p, LaplaceNoise(1.0))
    clipped = histogram(edges, np.maximum(n, 0), np.maximum(p, 0))
    assert fit_bbq(noisy).rates == fit_bbq(clipped).rates


def test_bbq_averages_binnings_from_a_tenth_to_ten_times_the_cube_root():
    assert numbers_of_groups(27_500, bins=1024) == range(3, 302)
    assert numbers_of_groups(27_500, bins=40) == range(3, 41)
    assert numbers_of_groups(5, bins=40) == range(1, 18)
    assert numbers_of_groups(1e9, bins=20) == range(20, 21)


def test_the_number_of_bins_follows_the_written_rule():
    half = np.full(10, 2700.0)
    exact = histogram(Edges.realise(Uniform(10)), half, half)
    assert bins_for(exact) == round(54_000 ** (1 / 3))
    # The papers' local rule: noise of sqrt(M)/eps gives sqrt(eps sqrt(M)).
    local = replace(exact, noise=LaplaceNoise(np.sqrt(54_000) / 2.0))
    assert bins_for(local) == round(np.sqrt(2.0 * np.sqrt(54_000)))
    assert bins_for(replace(exact, noise=LaplaceNoise(1.0))) == bins_for(exact)


def test_no_group_is_empty_wherever_the_mass_is():
    for totals in ([0, 0, 5, 0, 0], [9, 0, 0, 0, 1], [0, 1, 1, 0, 0], [1, 0, 1, 0, 1]):
        starts = quantile_starts(np.array(totals, dtype=float), 4)
        assert (np.add.reduceat(np.array(totals), starts) > 0).all()


def test_no_examples_is_an_error_that_says_so():
    for fitter in (fit_binning, fit_bbq):
        with pytest.raises(InputError, match="no examples"):
            fitter(no_examples(EDGES))
    with pytest.raises(InputError, match="at least 1 group"):
        quantile_starts(np.ones(3), 0)


def test_levels_rise_and_neighbours_are_three_deviations_apart(sample, read):
    observed, counts = read(*sample(20_000, 1, slope=1.4), scale=1.0)
    found = levels(Rates.of(observed, counts))
    steps = np.diff(found.values)
    spread = np.sqrt(np.diag(found.covariance)[1:] + np.diag(found.covariance)[:-1])
    assert found.starts.size > 5
    assert (steps > 0).all()
    assert (steps > 0.8 * APART * spread).all()  # each with its own variance


def test_noise_leaves_fewer_levels(sample, read):
    data = sample(20_000, 2, slope=1.4)
    sizes = [
        levels(Rates.of(*read(*data, bins=32, scale=scale))).starts.size
        for scale in (0.0, 10.0, 100.0)
    ]
    assert sizes[0] > sizes[1] > sizes[2]


def test_counts_that_are_known_to_be_noisy_have_fewer_levels(sample, counted):
    """The same numbers, once exact and once with noise: only the law differs."""
    exact = counted(*sample(20_000, 2, slope=1.4), bins=32)
    noisy = replace(exact, noise=LaplaceNoise(40.0))
    found = [levels(Rates.of(each, exact)).starts.size for each in (exact, noisy)]
    assert found[1] < found[0] - 3


def test_flat_data_have_one_level_and_its_rate(sample, read):
    scores, _ = sample(5_000, 3)
    labels = np.arange(5_000) % 4 == 0
    fitted = fit_levels(*read(scores, labels.astype(int)))
    assert fitted.rates == pytest.approx([0.25], abs=1e-3)


def test_a_level_is_never_exactly_zero_or_one(sample, read):
    scores, _ = sample(5_000, 4)
    fitted = fit_levels(*read(scores, (scores > 0.5).astype(int)))
    assert 0 < min(fitted.rates) < 1e-3
    assert 1 - 1e-3 < max(fitted.rates) < 1


def test_falling_rates_are_pooled(sample, read):
    scores, labels = sample(5_000, 5)
    for fitter in (fit_isotonic, fit_levels):
        fitted = fitter(*read(scores, 1 - labels))
        assert fitted.monotone
        assert len(fitted.rates) <= 3


def test_runs_are_about_two_and_a_half_cube_roots_and_none_is_empty(sample, read):
    observed, counts = read(*sample(8_000, 6), bins=1024)
    rates = Rates.of(observed, counts)
    assert 40 <= rates.starts.size <= 50
    assert (rates.totals > 0).all()
    assert rates.totals.sum() == 8_000
    narrow = np.full(100, 0.5)
    squeezed = Rates.of(*read(narrow, np.arange(100) % 2))
    assert squeezed.starts.tolist() == [0]


def test_joining_runs_adds_counts_and_noise(sample, read):
    rates = Rates.of(*read(*sample(8_000, 7), bins=16, scale=3.0))
    keep = np.array([0, 5, 6])
    joined = rates.merged(keep)
    assert joined.totals.sum() == pytest.approx(rates.totals.sum())
    assert joined.positives[1] == rates.positives[5]
    assert joined.noise.sum() == pytest.approx(rates.noise.sum())
    assert joined.noise[0, 0] == pytest.approx(rates.noise[:5, :5].sum())


def test_the_covariance_of_rates_is_that_of_simulated_ones():
    """10,000 draws of sampling and noise: each variance within 6 percent."""
    rng = np.random.default_rng(8)
    n, p = np.array([900.0, 400.0]), np.array([100.0, 600.0])
    noise = np.diag([400.0, 400.0, 100.0, 100.0])
    rates = Rates(np.array([0, 1]), n, p, noise, np.array([0.1, 0.6]))
    t = (n + p).astype(int)
    positives = rng.binomial(t, p / t, (10_000, 2))
    drawn_p = positives + rng.normal(0, 10, (10_000, 2))
    drawn_n = t - positives + rng.normal(0, 20, (10_000, 2))
    found = np.cov((drawn_p / (drawn_p + drawn_n)).T)
    assert np.diag(found) == pytest.approx(np.diag(rates.covariance), rel=0.06)

from dataclasses import replace

import numpy as np
import pytest

from discreet.noise.laplace import LaplaceNoise
from discreet.recalibrate.rates import Rates
from discreet.recalibrate.stepwise import APART, fit_isotonic, fit_levels, levels


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

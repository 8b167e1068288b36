"""How counts lie inside their bins: of either class towards its fuller neighbours."""

import numpy as np
import pytest
from scipy.stats import beta

from discreet.data.edges import Edges, Support, Uniform, Warped
from discreet.estimate.sub_bins import cell_scores, within_bins
from discreet.metrics.calibration import expected_calibration_error
from histograms import histogram


@pytest.mark.parametrize("bins", [1, 2, 3, 8, 40])
def test_cells_hold_their_bins_counts_and_none_is_negative(rng, bins):
    for _ in range(50):
        every = rng.exponential(1.0, 2 * bins) ** 3 * (rng.random(2 * bins) < 0.7)
        counts = histogram(Edges.realise(Warped(bins)), *np.split(every, 2))
        masses, ends = within_bins(counts).masses(every), counts.edges.array
        cells = cell_scores(counts.edges)
        assert ((cells > ends[:-1, None]) & (cells < ends[1:, None])).all()
        assert masses.sum(axis=2).ravel() == pytest.approx(every)
        assert (masses >= -1e-12).all()


def test_what_is_read_from_cells_is_linear_in_the_counts(rng):
    every = rng.exponential(1.0, 20)
    inside = within_bins(histogram(Edges.realise(Uniform(10)), *np.split(every, 2)))
    masses = inside.masses(every)
    amounts = rng.normal(size=(3, *masses.shape[1:]))
    found = inside.linear(amounts) @ every
    assert found == pytest.approx((amounts[:, None] * masses).sum(axis=(1, 2, 3)))


def test_a_straight_density_is_found_and_a_peak_is_level():
    edges = Edges.realise(Uniform(6))
    places = edges.array ** (1 / 1.5) / (
        edges.array ** (1 / 1.5) + (1 - edges.array) ** (1 / 1.5)
    )
    rising = np.diff(places**2)  # a density of 2u
    peak = np.diff(places) * np.array([1.0, 2, 5, 2, 1, 1])
    counts = histogram(Edges.realise(Uniform(6)), rising, peak)
    masses = within_bins(counts).masses(np.concatenate([rising, peak]))
    u = places[:-1, None] + np.diff(places)[:, None] * (within_bins(counts).x + 0.5)
    assert masses[0] / rising[:, None] == pytest.approx(
        u / u.mean(axis=1, keepdims=True) / u.shape[1], rel=0.02
    )
    assert np.ptp(masses[1, 2]) == 0


def test_known_values_stay_where_they_are():
    counts = histogram(Edges.realise(Support((0.2, 0.7))), [3.0, 1.0], [1.0, 3.0])
    assert within_bins(counts).leaning is None
    assert cell_scores(counts.edges).shape == (2, 1)


def test_the_calibration_error_of_few_bins_is_nearly_that_of_the_scores():
    """Scores of a perfect model: what even bins would call an error is gone."""
    edges = Edges.realise(Warped(21))
    whole = np.diff(beta.cdf(edges.array, 1.0, 6.0))  # density f; positives s f
    p = np.diff(beta.cdf(edges.array, 2.0, 6.0)) / 7
    n = whole - p
    found = expected_calibration_error(histogram(edges, 1e6 * n, 1e6 * p))
    assert found.value < 0.0006

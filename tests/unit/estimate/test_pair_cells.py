"""Pairs of bins under noise: empty ones lose their noise, full ones keep their count."""

import numpy as np
import pytest

from discreet.estimate.pair_cells import expected_counts
from discreet.noise.laplace import LaplaceNoise
from discreet.noise.mechanism import NoNoise
from discreet.noise.response import ResponseNoise

BINS = 10
LAW = LaplaceNoise(1.0)


def table(rng, *, apart, examples=5_000):
    """Count pairs of bins of two models whose ranks differ by about ``apart``."""
    cells = []
    for share in (0.8, 0.2):
        first = rng.random(int(share * examples))
        second = np.clip(first + rng.normal(0, apart, first.size), 0, 1 - 1e-9)
        pair = (BINS * first).astype(int) * BINS + (BINS * second).astype(int)
        cells.append(np.bincount(pair, minlength=BINS**2))
    return np.concatenate(cells).astype(float)


def distances():
    i = np.arange(BINS)
    return np.tile((i[:, None] - i[None, :]).ravel(), 2)


def test_the_noise_of_empty_pairs_is_taken_off(rng):
    gaps, raw, left = distances(), [], []
    for _ in range(40):
        exact = table(rng, apart=0.04)
        counts = exact + LAW.sample(exact, 1, rng)[0]
        raw.append(gaps @ (counts - exact))
        left.append(gaps @ (expected_counts(counts, LAW, BINS).counts - exact))
    assert np.std(left) < 0.4 * np.std(raw)


def test_errors_about_the_population_are_as_large_as_they_are_said_to_be(rng):
    gaps = distances()
    for apart in (0.03, 0.1, 0.4):
        expected = np.mean([table(rng, apart=apart) for _ in range(200)], axis=0)
        ratios = []
        for _ in range(150):
            exact = table(rng, apart=apart)
            found = expected_counts(exact + LAW.sample(exact, 1, rng)[0], LAW, BINS)
            scatter = found.followed * np.maximum(found.counts, 0)
            said = gaps**2 @ (scatter + found.variance)
            ratios.append((gaps @ (found.counts - expected)) ** 2 / said)
        # A mean of 150 squares of about normal numbers strays by a ninth.
        assert 0.5 < np.mean(ratios) < 1.5


def test_models_that_rank_differently_keep_the_released_counts(rng):
    exact = table(rng, apart=30.0)
    counts = exact + LAW.sample(exact, 1, rng)[0]
    moved = expected_counts(counts, LAW, BINS).counts - counts
    assert np.sqrt(np.mean(moved**2)) < 0.5 * np.std(counts - exact)


def test_swapping_the_models_swaps_the_counts(rng):
    counts = table(rng, apart=0.1)
    counts += LAW.sample(counts, 1, rng)[0]

    def swapped(cells):
        return cells.reshape(2, BINS, BINS).transpose(0, 2, 1).ravel()

    found = expected_counts(counts, LAW, BINS).counts
    other = expected_counts(swapped(counts), LAW, BINS).counts
    assert swapped(other) == pytest.approx(found, abs=1e-9)


def test_scores_on_another_scale_are_compared_by_rank(rng):
    exact = table(rng, apart=0.04).reshape(2, BINS, BINS)
    # The second model's scores are drawn together: two of its bins become one.
    joined = exact.reshape(2, BINS, BINS // 2, 2).sum(axis=3).ravel()
    counts = joined + LAW.sample(joined, 1, rng)[0]
    found = expected_counts(counts, LAW, BINS).counts
    empty = joined == 0
    assert np.abs(found[empty]).mean() < 0.4 * np.abs(counts[empty]).mean()


def test_exact_sums_and_noise_that_classes_share_are_left_alone(rng):
    counts = table(rng, apart=0.1)
    assert expected_counts(counts, NoNoise(), BINS) is None
    assert expected_counts(counts, ResponseNoise(0.2), BINS) is None


@pytest.mark.parametrize("scale", [0.01, 1.0, 1e6])
def test_whatever_is_released_the_expected_counts_are_numbers(rng, scale):
    noise = LaplaceNoise(scale)
    for counts in (np.zeros(18), rng.normal(0, 10 * scale, 18), np.full(18, -1e9)):
        found = expected_counts(counts, noise, 3)
        assert all(np.isfinite(part).all() for part in found)
        assert found.variance.min() >= 0
        assert 0 <= found.followed.min() <= found.followed.max() <= 1

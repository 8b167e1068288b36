"""The estimator for exact bin totals and noisy labels, against its definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from discreet.data.edges import Edges, Support
from discreet.estimate.fit import PublicTotals, rising_within
from discreet.metrics.errors import measures
from discreet.noise.response import ResponseNoise
from discreet.statistic.observed import NoisyHistogram


@given(
    st.lists(st.tuples(st.floats(-6, 9), st.integers(0, 5)), min_size=1, max_size=12)
)
def test_the_projection_is_the_nearest_running_sum_within_the_totals(bins) -> None:
    steps = np.array([p for p, _ in bins])
    most = np.array([float(t) for _, t in bins])
    found = rising_within(steps, most)
    assert (found >= 0).all()
    assert (found <= most).all()
    triangle = np.tril(np.ones((steps.size, steps.size)))
    wanted = np.cumsum(steps)
    oracle = lsq_linear(triangle, wanted, bounds=(-1e-12, most + 1e-9), tol=1e-12).x
    distance = float(np.sum((triangle @ found - wanted) ** 2))
    least = float(np.sum((triangle @ oracle - wanted) ** 2))
    assert distance <= least + 0.05 * (1 + math.sqrt(least))


def test_counts_that_are_possible_stay_as_they_are() -> None:
    steps, most = np.array([0.5, 2.0, 0.0]), np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(rising_within(steps, most), steps, atol=1e-12)


def test_the_noise_of_the_auc_is_that_of_its_ranks() -> None:
    # Var = e^eps/(e^eps - 1)^2 sum (r_i - c)^2/(PN)^2, c = P - 1/2 + AUC (N - P),
    # ranks from 0, for bins of one example.
    rng = np.random.default_rng(1)
    y = (rng.random(400) < 0.4).astype(float)
    edges = Edges.realise(Support(tuple((np.arange(400) / 400).tolist())))
    epsilon = 3.0
    noise = ResponseNoise(1 / (1 + math.exp(epsilon)))
    # Exact counts with the law of noisy ones: what is tested is the error bar.
    observed = NoisyHistogram(edges, 1 - y, y, noise)
    auc = measures(PublicTotals().fit(observed), ["auc"])["auc"]
    p, n = y.sum(), 400 - y.sum()
    ranks = np.arange(400)
    area = (ranks @ y - p * (p - 1) / 2) / (p * n)
    assert auc.value == pytest.approx(area, abs=1e-12)
    c = p - 0.5 + area * (n - p)
    unit = math.exp(epsilon) / math.expm1(epsilon) ** 2
    sd = math.sqrt(unit * np.sum((ranks - c) ** 2)) / (p * n)
    assert auc.noise > 0
    # Ties count one half: a bin's own label moves the rank by up to one half.
    assert auc.noise == pytest.approx(sd, rel=5e-3)


def test_the_noise_of_areas_and_brier_is_what_resampled_flips_show() -> None:
    # 300 draws estimate a standard deviation within 5 x 4.1%. Noise that were
    # independent in the two classes would be off by 30% or more.
    rng = np.random.default_rng(2)
    t = rng.integers(150, 250, 60).astype(float)
    rate = 1 / (1 + np.exp(-(np.arange(60) - 30) / 10))
    p = np.rint(t * rate)
    edges = Edges.realise(Support(tuple((np.arange(1, 61) / 61).tolist())))
    distribution = ResponseNoise(1 / (1 + math.exp(2.0)))
    estimator = PublicTotals()
    true = NoisyHistogram(edges, t - p, p, distribution)
    wanted = ("auc", "average_precision", "aupr", "brier")
    stated = measures(estimator.fit(true), wanted)
    noise = np.split(
        distribution.sample(np.concatenate([t - p, p]), 300, rng), 2, axis=1
    )[1]
    found = {m: [] for m in wanted}
    for z in noise:
        noisy = NoisyHistogram(edges, t - p - z, p + z, distribution)
        for m, e in measures(estimator.fit(noisy), wanted).items():
            found[m].append(e.value)
    for m in wanted:
        sd = stated[m].noise
        assert sd > 0
        assert np.std(found[m]) == pytest.approx(sd, rel=0.21)
        assert np.mean(found[m]) == pytest.approx(stated[m].value, abs=sd)


def test_a_class_within_its_noise_has_no_curve() -> None:
    edges = Edges.realise(Support((0.2, 0.6)))
    noise = ResponseNoise(1 / (1 + math.exp(1.0)))
    observed = NoisyHistogram(
        edges, np.array([60.0, 50.0]), np.array([-3.0, 13.0]), noise
    )
    auc = measures(PublicTotals().fit(observed), ["auc"])["auc"]
    assert math.isnan(auc.value)
    assert PublicTotals().fit(observed).curves.thresholds.size == 1

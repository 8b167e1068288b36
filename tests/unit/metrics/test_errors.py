"""What a smooth model may cost: its distance to the flat reading, and the sure part."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from discreet.data.edges import Edges
from discreet.data.prior_spread import PriorSpread
from discreet.estimate.fit import Other
from discreet.estimate.smooth_fit import Smooth
from discreet.metrics.errors import measure
from discreet.metrics.table import METRICS
from discreet.noise.laplace import LaplaceNoise, simulate_discrete_laplace
from discreet.statistic.observed import NoisyHistogram

AUC = METRICS["auc"]


@pytest.fixture
def fit(rng):
    """Normal classes, 6,000 of them, noise of scale 3."""
    edges = Edges.realise(PriorSpread(32, prevalence=0.3))
    with np.errstate(divide="ignore"):
        z = np.log(edges.array) - np.log1p(-edges.array)
    means = np.stack([4_200 * np.diff(ndtr(z + 1.5)), 1_800 * np.diff(ndtr(z - 0.3))])
    seen = rng.poisson(means) + simulate_discrete_laplace(3.0, means.shape, rng)
    found = Smooth().fit(NoisyHistogram(edges, *seen.astype(float), LaplaceNoise(3.0)))
    assert found.way == "model"
    return found


def beside(fit, value):
    """Return the reading with another flat one beside it, whose AUC is this value."""
    flat = fit.other.fit
    worse = replace(flat, own={})
    low, high = 0.0, 0.5
    for _ in range(40):  # move so many positives down to the negatives' places
        share = (low + high) / 2
        mixed = flat.counts.negatives / flat.counts.total_negatives
        positives = (1 - share) * flat.counts.positives + (
            share * flat.counts.total_positives * mixed
        )
        worse = flat.moved(np.concatenate([flat.counts.negatives, positives]))
        low, high = (share, high) if AUC.measure.value(worse) > value else (low, share)
    return replace(fit, other=Other(worse, 0.5))


def test_a_distance_that_noise_cannot_have_made_is_reached_on_its_side(fit):
    value = measure(AUC, fit).value
    apart = 0.05  # dozens of the noise's standard deviations
    found = measure(AUC, beside(fit, value - apart))
    assert found.value == value
    assert found.binning.typical == pytest.approx(apart / 2, rel=0.05)
    assert found.binning.below == pytest.approx(apart, rel=0.05)
    assert found.binning.above == 0.0
    assert found.interval(0.95).low < value - apart


def test_a_distance_within_its_noise_adds_nothing_to_the_half(fit):
    plain = measure(AUC, fit)
    apart = plain.noise / 4
    found = measure(AUC, beside(fit, plain.value - apart))
    assert 0 <= found.binning.below < found.binning.typical
    assert math.isclose(found.binning.typical, apart / 2, rel_tol=0.2)


def test_noise_includes_what_the_choice_among_fits_may_cost(fit):
    known = measure(AUC, replace(fit, between=None)).noise
    unsure = fit.unsure(AUC.measure.slopes(fit.damped))
    assert unsure > 0
    assert measure(AUC, fit).noise == pytest.approx(math.hypot(known, unsure))

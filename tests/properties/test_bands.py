"""Bands hold their curve, stay in the unit square, nest, and cover."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from discreet.data.edges import Edges, Uniform
from discreet.data.scores import ScoreRange
from discreet.errors import InputError
from discreet.estimate.fit import Flat
from discreet.metrics.curve_points import band
from discreet.noise.laplace import LaplaceNoise, simulate_discrete_laplace
from discreet.noise.mechanism import NoNoise
from discreet.statistic.observed import NoisyHistogram
from fuzzing import draws

DISTANCE = 1.2


def drawn(observed, kind, **options):
    return band(Flat("linear").fit(observed), kind, **options)


@st.composite
def releases(draw):
    bins = draw(st.integers(2, 12))
    cells = st.lists(st.integers(0, 40), min_size=bins, max_size=bins)
    negatives = np.array(draw(cells), dtype=float)
    positives = np.array(draw(cells), dtype=float)
    negatives[0] += 3
    positives[-1] += 3
    noisy = draw(st.booleans())
    if noisy:
        rng = np.random.default_rng(draw(st.integers(0, 99)))
        negatives += 60 + simulate_discrete_laplace(2.0, (bins,), rng)
        positives += 60 + simulate_discrete_laplace(2.0, (bins,), rng)
    edges = Edges.realise(Uniform(bins), ScoreRange())
    return NoisyHistogram(
        edges, negatives, positives, LaplaceNoise(2.0) if noisy else NoNoise()
    )


@draws(60)
@given(release=releases(), kind=st.sampled_from(["roc", "pr"]))
def test_bands_hold_their_curve_in_the_unit_square_and_nest(release, kind):
    for whole in (False, True):
        narrow = drawn(release, kind, level=0.6, simultaneous=whole)
        wide = drawn(release, kind, level=0.99, simultaneous=whole)
        for found in (narrow, wide):
            assert (found.low >= 0).all()
            assert (found.high <= 1).all()
            assert (found.low <= found.value + 1e-12).all()
            assert (found.value <= found.high + 1e-12).all()
        assert (wide.low <= narrow.low + 1e-9).all()
        assert (narrow.high <= wide.high + 1e-9).all()


@draws(10)
@given(release=releases())
def test_two_readers_of_one_release_get_the_same_band(release):
    first, second = (drawn(release, "roc", simultaneous=True) for _ in range(2))
    np.testing.assert_array_equal(first.low, second.low)
    np.testing.assert_array_equal(first.high, second.high)


def binormal(rng, examples, prevalence, epsilon, bins=24):
    edges = Edges.realise(Uniform(bins), ScoreRange())
    x = norm.ppf(edges.array) * 1.6
    shares = np.append(
        (1 - prevalence) * np.diff(norm.cdf(x)),
        prevalence * np.diff(norm.cdf(x - DISTANCE)),
    )
    counts = rng.multinomial(examples, shares / shares.sum()).astype(float)
    if epsilon is None:
        return NoisyHistogram(edges, *np.split(counts, 2), NoNoise())
    counts += simulate_discrete_laplace(1 / epsilon, counts.shape, rng)
    return NoisyHistogram(edges, *np.split(counts, 2), LaplaceNoise(1 / epsilon))


def truth_at(band, kind, prevalence):
    """The population's curve where the band has its points."""
    inside = slice(1, -1)
    if kind == "roc":
        return norm.cdf(DISTANCE + norm.ppf(band.x[inside])), inside
    x = norm.ppf(band.thresholds[inside]) * 1.6
    tp = prevalence * norm.sf(x - DISTANCE)
    return tp / (tp + (1 - prevalence) * norm.sf(x)), inside


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["roc", "pr"])
@pytest.mark.parametrize("epsilon", [None, 0.5])
def test_bands_cover_as_often_as_they_say(rng, kind, epsilon):
    """300 test sets: 95% known to 1.3%; the limits are 4 of those below and above."""
    held, points = [], []
    for _ in range(300):
        release = binormal(rng, 2000, 0.4, epsilon)
        # Points whose rate is exactly 0 or 1 have no place on the true curve.
        whole = drawn(release, kind, simultaneous=True)
        each = drawn(release, kind)
        for found, tally in ((whole, held), (each, points)):
            truth, inside = truth_at(found, kind, 0.4)
            ok = (found.low[inside] <= truth) & (truth <= found.high[inside])
            inner = (found.x[inside] > 0.02) & (found.x[inside] < 0.98)
            tally.append(ok[inner].all() if tally is held else ok[inner].mean())
    assert 0.90 < np.mean(held) < 0.995
    assert 0.92 < np.mean(points) < 0.98


def test_a_level_outside_0_and_1_is_refused(rng):
    for whole in (False, True):
        with pytest.raises(InputError, match="level of a band"):
            drawn(binormal(rng, 500, 0.5, None), "roc", level=95, simultaneous=whole)

"""What every map of every release must satisfy."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

import recalibrate_oracles as oracle
from discreet.data.edges import Edges, Uniform
from discreet.estimate.smooth_fit import Smooth
from discreet.metrics.brier import brier_parts
from discreet.metrics.calibration import (
    calibration_curve,
    expected_calibration_error,
)
from discreet.noise.mechanism import NoNoise
from discreet.recalibrate import METHODS, effect, fit, from_json
from discreet.recalibrate.stepwise import fit_binning, quantile_starts
from discreet.statistic.observed import NoisyHistogram
from fuzzing import draws, noisy_histograms

GRID = np.concatenate([np.linspace(0, 1, 301), [1e-9, 1 - 1e-9]])


def releases():
    """Draw histograms, and counts that are read from them."""
    return noisy_histograms([0.0, 0.2, 1.0, 10.0]).map(
        lambda observed: (
            observed,
            observed
            if isinstance(observed.noise, NoNoise)
            else Smooth().fit(observed).counts,
        )
    )


def fit_where_defined(both, method):
    observed, counts = both
    assume(counts.negatives.sum() + counts.positives.sum() > 0)
    assume(np.maximum(observed.positives, 0).sum() > 0)
    return fit(observed, counts, method=method)


@draws(120)
@given(releases(), st.sampled_from(METHODS))
def test_maps_give_probabilities_and_rise_where_they_promise_it(both, method):
    fitted = fit_where_defined(both, method)
    said = fitted.apply(np.sort(GRID))
    assert ((said >= 0) & (said <= 1)).all()
    if fitted.monotone:
        assert (np.diff(said) >= 0).all()
    if method not in ("binning", "bbq"):
        assert fitted.monotone
    assert fitted.reason


@draws(80)
@given(releases(), st.sampled_from(METHODS))
def test_maps_survive_saving_and_keep_the_shape_of_scores(both, method):
    fitted = fit_where_defined(both, method)
    again = from_json(fitted.to_json())
    assert again == fitted
    square = GRID[:300].reshape(20, 15)
    assert (again.apply(square) == fitted.apply(square.ravel()).reshape(20, 15)).all()


@draws(80)
@given(releases())
def test_the_default_never_fails_and_its_effect_is_finite(both):
    observed, counts = both
    fitted = fit(observed, counts)
    if counts.negatives.sum() + counts.positives.sum() > 0:
        found = effect(counts, fitted)
        assert 0 <= found.ece_after.value <= 1
        assert 0 <= found.brier_after <= 1
        low, high = found.ece_after.interval()
        assert 0 <= low <= high <= 1


@draws(150)
@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=12).filter(any),
    st.integers(1, 15),
)
def test_groups_are_cut_where_brute_force_cuts_them(totals, groups):
    found = quantile_starts(np.array(totals, dtype=float), groups)
    assert found.tolist() == [0, *oracle.quantile_cuts(totals, groups)]


@draws(60)
@given(releases(), st.integers(1, 30))
def test_binning_keeps_the_number_of_positives(both, groups):
    _, counts = both
    p, n = np.maximum(counts.positives, 0), np.maximum(counts.negatives, 0)
    assume((p + n).sum() > 0)
    fitted = fit_binning(counts, bins=groups)
    said = fitted.apply(counts.edges.array[:-1])
    assert np.isclose(said @ (p + n), p.sum())


@st.composite
def examples(draw):
    size = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return rng.random(size) ** draw(st.sampled_from([1, 3])), rng.integers(0, 2, size)


@draws(200)
@given(examples(), st.integers(1, 12), st.integers(1, 20))
def test_the_examples_ece_lies_within_the_limits_of_its_bins(data, bins, groups):
    scores, labels = data
    edges = Edges.realise(Uniform(bins))
    place = edges.bins_of(scores).astype(np.int64)
    n, p = (np.bincount(place[labels == y], minlength=bins) for y in (0, 1))
    counts = NoisyHistogram(edges, n.astype(float), p.astype(float), NoNoise())
    found = expected_calibration_error(counts, groups)
    own = np.minimum((scores * groups).astype(int), groups - 1)
    wanted = oracle.calibration_error(scores, labels, own.tolist())
    assert found.binning.low - 1e-12 <= wanted <= found.binning.high + 1e-12


@draws(60)
@given(releases(), st.integers(1, 40), st.sampled_from(["width", "mass"]))
def test_calibration_is_within_its_range_for_every_release(both, bins, kind):
    _, counts = both
    assume(np.maximum(counts.negatives, 0).sum() + counts.positives.sum() > 0)
    found = expected_calibration_error(counts, bins, kind)
    assert 0 <= found.value <= 1
    parts = brier_parts(counts, bins, kind)
    assert parts.reliability.value >= 0
    assert -1e-12 <= parts.resolution.value <= parts.uncertainty.value + 1e-12
    curve = calibration_curve(counts, bins, kind)
    assert ((curve.low >= 0) & (curve.high <= 1)).all()

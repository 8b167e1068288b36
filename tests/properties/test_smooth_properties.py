"""What every reading of every noisy release must satisfy."""

import numpy as np
import pytest
from hypothesis import assume, given

from discreet.estimate.score_grid import find_grid
from discreet.estimate.smooth_fit import Smooth
from discreet.metrics.errors import measures
from discreet.statistic.observed import NoisyHistogram
from fuzzing import noisy_histograms

SCALES = [0.2, 1.0, 3.0, 10.0]
AREAS = ("auc", "average_precision", "aupr")
TURNED = 1e-6
"""Counts are equal to the last bit, but rates add up from the other end: the slope of
a curve that rises by 1e-12 over a bin has four digits."""


def like(observed, negatives, positives):
    return NoisyHistogram(
        observed.edges, negatives.copy(), positives.copy(), observed.noise
    )


@given(noisy_histograms(SCALES))
def test_curves_rise_from_corner_to_corner_or_there_are_none(observed):
    fit = Smooth().fit(observed)
    if fit.way == "unusable":
        assert fit.refusal
        assert np.isnan(fit.curves.fpr).all()
        return
    drawn = fit.curves.roc.polyline(4)
    for rates in (drawn.x, drawn.y):
        assert rates[0] == pytest.approx(0, abs=1e-12)
        assert rates[-1] == pytest.approx(1, abs=1e-12)
        assert (np.diff(rates) >= 0).all()
    assert (fit.counts.negatives >= 0).all()
    assert (fit.counts.positives >= 0).all()
    precision = fit.curves.pr.polyline(4).y
    assert ((precision >= 0) & (precision <= 1)).all()


@given(noisy_histograms(SCALES))
def test_areas_lie_in_their_limits_or_are_refused(observed):
    for estimate in measures(Smooth().fit(observed), AREAS).values():
        if np.isnan(estimate.value):
            assert Smooth().fit(observed).way == "unusable"
            continue
        assert 0 <= estimate.binning.low <= estimate.value
        assert estimate.value <= estimate.binning.high <= 1 + 1e-12
        # In a single bin all pairs are ties, whatever the noise does to its counts.
        assert estimate.noise > 0 or len(observed.edges) == 1


def turned(observed, negatives, positives):
    """The counts with the bins in reverse order.

    A bin holds its lower edge, a turned one its upper. Scores on a grid may lie on
    edges, and then no release has the turned counts.
    """
    found = like(observed, negatives[::-1], positives[::-1])
    assume(find_grid(observed) is None and find_grid(found) is None)
    return found


def auc_of(observed):
    return measures(Smooth().fit(observed), ["auc"])["auc"]


def assert_same(found, expected, *, mirrored=False, within=1e-9):
    """The AUC and its errors are equal, or mirrored at one half."""
    if np.isnan(expected.value):
        assert np.isnan(found.value)
        return
    numbers = [found.value, found.binning.low, found.binning.high]
    if mirrored:
        value, low, high = numbers
        numbers = [1 - value, 1 - high, 1 - low]
    wanted = [expected.value, expected.binning.low, expected.binning.high]
    assert numbers == pytest.approx(wanted, abs=within)
    for name in ("noise", "sampling"):
        sd = getattr(expected, name)
        assert getattr(found, name) == pytest.approx(sd, rel=1e-6, abs=1e-9)


@given(noisy_histograms(SCALES))
def test_swapped_classes_and_turned_scores_mirror_the_auc(observed):
    """Each mirrors it; both together change nothing."""
    negatives, positives, found = (
        observed.negatives,
        observed.positives,
        auc_of(observed),
    )
    swapped = auc_of(like(observed, positives, negatives))
    assert_same(swapped, found, mirrored=True)
    around = auc_of(turned(observed, negatives, positives))
    assert_same(around, found, mirrored=True, within=TURNED)
    both = auc_of(turned(observed, positives, negatives))
    assert_same(both, found, within=TURNED)


@given(noisy_histograms(SCALES))
def test_classes_with_equal_counts_have_an_auc_of_one_half(observed):
    found = auc_of(like(observed, observed.positives, observed.positives))
    assert np.isnan(found.value) or found.value == pytest.approx(0.5, abs=1e-9)


@given(noisy_histograms(SCALES))
def test_fitted_counts_of_a_mirrored_release_are_mirrored_to_the_last_bit(observed):
    negatives, positives = observed.negatives, observed.positives
    first = Smooth().fit(observed)
    if first.way != "model":
        return
    swapped = Smooth().fit(like(observed, positives, negatives)).counts
    np.testing.assert_array_equal(swapped.positives, first.counts.negatives)
    np.testing.assert_array_equal(swapped.negatives, first.counts.positives)
    both = Smooth().fit(turned(observed, positives, negatives)).counts
    np.testing.assert_array_equal(both.positives[::-1], first.counts.negatives)
    np.testing.assert_array_equal(both.negatives[::-1], first.counts.positives)

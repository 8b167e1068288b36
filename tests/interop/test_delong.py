"""DeLong's variance by its definition, pair by pair, against ours from bin counts."""

import numpy as np
import pytest

from discreet.data.edges import Edges, Uniform
from discreet.data.scores import ScoreRange
from discreet.estimate.slopes import Slopes, auc_slopes, sampling_sd

pytestmark = pytest.mark.interop


def structural_components(scores, labels):
    """V10 of every positive and V01 of every negative (DeLong 1988, section 3)."""
    positives, negatives = scores[labels], scores[~labels]
    wins = (positives[:, None] > negatives) + 0.5 * (positives[:, None] == negatives)
    return wins.mean(axis=1), wins.mean(axis=0)


def delong_covariance(first, second, labels):
    """Covariance of two AUCs of the same examples, O(n^2)."""
    a10, a01 = structural_components(first, labels)
    b10, b01 = structural_components(second, labels)
    s10 = np.cov(a10, b10, ddof=1)[0, 1]
    s01 = np.cov(a01, b01, ddof=1)[0, 1]
    return s10 / labels.sum() + s01 / (~labels).sum()


def counts(bins, labels, size):
    return (
        np.bincount(bins[~labels], minlength=size).astype(float),
        np.bincount(bins[labels], minlength=size).astype(float),
    )


@pytest.mark.parametrize("bins", [3, 16, 200])
@pytest.mark.parametrize("prevalence", [0.02, 0.3, 0.7])
def test_delongs_variance_of_binned_scores_agrees(rng, bins, prevalence):
    labels = rng.random(900) < prevalence
    scores = 1 / (1 + np.exp(-rng.normal(size=900) - 1.5 * labels))
    edges = Edges.realise(Uniform(bins), ScoreRange())
    place = edges.bins_of(scores)
    expected = delong_covariance(place, place, labels)
    found = counts(place, labels, bins)
    variance = sampling_sd(auc_slopes(*found), *found) ** 2
    assert variance == pytest.approx(expected, rel=1e-10)


def test_the_covariance_of_two_models_agrees_when_they_share_bins(rng):
    """Slopes of a model that is a coarser version of another: same cells."""
    labels = rng.random(700) < 0.4
    fine = rng.integers(0, 40, 700) + 8 * labels
    coarse = fine // 5
    size = 48
    of_fine, of_coarse = counts(fine, labels, size), counts(coarse, labels, 10)
    spread = auc_slopes(*of_coarse)
    on_fine = type(spread)(*(slope[np.arange(size) // 5] for slope in spread))
    # Cov(A, B) = (Var(A + B) - Var(A - B))/4
    pairs = list(zip(auc_slopes(*of_fine), on_fine, strict=True))
    added = sampling_sd(Slopes(*(a + b for a, b in pairs)), *of_fine)
    apart = sampling_sd(Slopes(*(a - b for a, b in pairs)), *of_fine)
    found = (added**2 - apart**2) / 4
    assert found == pytest.approx(delong_covariance(fine, coarse, labels), rel=1e-10)

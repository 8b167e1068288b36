"""Scores of few values are read as steps, though their bins do not tell them apart."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from discreet.data.edges import Edges, Uniform
from discreet.data.prior_spread import PriorSpread
from discreet.estimate.areas import pr_area
from discreet.estimate.curves import Curves
from discreet.estimate.smooth_fit import Smooth
from discreet.estimate.ties import STEPS_NOTE, Ties, values_a_bin, with_steps
from discreet.metrics.errors import measures
from discreet.noise.laplace import LaplaceNoise
from histograms import counted, histogram, noisy

LEVELS = 18


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def scored(rng, levels, rows=300_000):
    """Draw calibrated scores of prevalence .03; isotonic steps at random quantiles."""
    s = 1 / (1 + np.exp(-rng.normal(-4.3, 1.7, rows)))
    y = rng.random(rows) < s
    if levels is None:
        return s, y
    cuts = np.quantile(s, np.sort(rng.random(levels - 1)))
    level = np.searchsorted(cuts, s)
    return (np.bincount(level, s) / np.bincount(level))[level], y


def released(scores, labels, epsilon, rng, bins=36):
    exact = counted(scores, labels, Edges.realise(PriorSpread(bins, 0.03)))
    return noisy(exact, 1 / epsilon, rng)


def no_ties(bins):
    return Ties(np.zeros(bins, dtype=bool), np.zeros(bins, dtype=bool))


@pytest.mark.parametrize("epsilon", [0.3, 0.1])
def test_steps_that_share_bins_are_read_as_scikit_learn_reads_them(rng, epsilon):
    scores, labels = scored(rng, LEVELS)
    fit = Smooth().fit(released(scores, labels, epsilon, rng))
    found = measures(fit, ("auc", "average_precision"))
    right = average_precision_score(labels, scores)
    assert fit.notes[-1] == STEPS_NOTE
    assert found["auc"].value == pytest.approx(roc_auc_score(labels, scores), abs=0.004)
    assert found["average_precision"].value == pytest.approx(right, abs=0.012)
    # A curve that bends inside the bins of the same release is further off.
    other = fit.bend if fit.other is None else fit.other.fit.curves.roc
    counts = fit.counts
    area = pr_area(other, counts.total_positives, counts.total_negatives)
    assert abs(area - right) > 2 * abs(found["average_precision"].value - right)


def test_smooth_scores_have_no_steps(rng):
    for epsilon in (1.0, 0.3, 0.1):
        fit = Smooth().fit(released(*scored(rng, None), epsilon, rng))
        assert STEPS_NOTE not in fit.notes
        assert not fit.curves.roc.tied.any()


@pytest.mark.parametrize("values", [1, 2, 4])
def test_about_the_number_of_evenly_spaced_values_in_a_bin_is_found(values):
    bins = 40
    edges = Edges.realise(Uniform(bins))
    between = bins * (2 * values + 1) // 2  # k or k + 1 in every bin
    counts = np.bincount(
        edges.bins_of((np.arange(between) + 0.5) / between), minlength=bins
    )
    observed = histogram(edges, 3000.0 * counts, 300.0 * counts, LaplaceNoise(3.0))
    found = np.median(values_a_bin(observed, no_ties(bins)))
    assert abs(found - values) <= 1


def test_known_ties_hold_one_value_and_many_values_are_none(rng):
    edges = Edges.realise(Uniform(20))
    counts = 5000.0 + rng.integers(-50, 50, 20)
    observed = histogram(edges, counts, counts, LaplaceNoise(1.0))
    tied = np.zeros(20, dtype=bool)
    tied[3] = True
    found = values_a_bin(observed, Ties(tied, np.zeros(20, dtype=bool)))
    assert found[3] == 1
    assert not np.delete(found, 3).any()


def test_steps_are_chords_of_the_curve_and_zero_leaves_it():
    edges, law = Edges.realise(Uniform(4)), LaplaceNoise(1.0)
    counts = histogram(edges, [40, 30, 20, 10], [5, 0, 20, 75], law)
    curves = Curves.from_histogram(counts, "pchip")
    drawn = with_steps(curves, counts, np.array([1, 2, 0, 1]))
    w = (curves.fpr + curves.tpr) / 2
    low, high = w[0], w[1]  # the highest bin, one step: a straight line
    f, t = drawn.roc.at(np.array([(low + high) / 2]))
    assert f[0] == pytest.approx(curves.fpr[1] / 2)
    assert t[0] == pytest.approx(curves.tpr[1] / 2)
    joint = curves.roc.at(np.array([(w[2] + w[3]) / 2]))  # two steps meet on the curve
    points = np.column_stack([drawn.roc.fpr, drawn.roc.tpr])
    assert np.abs(points - np.ravel(joint)).sum(axis=1).min() < 1e-12
    inside = np.linspace(w[1], w[2], 33)
    f, t = curves.roc.at(inside)
    assert np.interp(f, drawn.roc.fpr, drawn.roc.tpr) == pytest.approx(t, abs=2e-3)
    assert drawn.ties.tolist() == [True, False, False, True]
    assert drawn.fpr.tolist() == curves.fpr.tolist()

"""Sampling error from counts: slopes against brute force, variances against draws."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.stats import norm

from discreet.data.edges import Edges, Support, Uniform
from discreet.errors import InputError
from discreet.estimate.curves import Curves
from discreet.estimate.slopes import (
    Cells,
    auc_slopes,
    noise_sd,
    precision_area_slopes,
    sampling_sd,
)
from discreet.estimate.sub_bins import refined
from discreet.metrics.brier import BRIER, brier_score
from discreet.statistic.observed import BinCovariance
from histograms import histogram
from oracles import auc_by_pairs, average_precision, trapezoid_aupr

BINS = 6
NEGATIVES = np.array([9.0, 7.0, 0.0, 4.0, 2.0, 1.0])
POSITIVES = np.array([1.0, 2.0, 0.0, 3.0, 0.0, 6.0])
EDGES = Edges.realise(Uniform(BINS))


def examples(negatives, positives):
    scores = np.repeat(np.arange(len(negatives)), negatives.astype(int))
    more = np.repeat(np.arange(len(positives)), positives.astype(int))
    labels = np.append(np.zeros(scores.size, int), np.ones(more.size, int))
    return np.append(scores, more).tolist(), labels.tolist()


def numerical(metric, negatives, positives, copies=400):
    """Slopes by adding one example to many copies of the data.

    The metric does not change with the number of copies, so one example among
    many moves it by its slope over that number.
    """
    slopes = []
    for which in range(2):
        for k in range(len(negatives)):
            moved = [negatives * copies, positives * copies]
            moved[which] = moved[which].copy()
            moved[which][k] += 1
            here = metric(negatives * copies, positives * copies)
            slopes.append((metric(*moved) - here) * copies)
    return np.split(np.array(slopes), 2)


def binned_auc(negatives, positives):
    below = np.cumsum(negatives) - negatives / 2
    return positives @ below / (positives.sum() * negatives.sum())


def binned_precision_area(negatives, positives, rule):
    p, n = positives[::-1], negatives[::-1]
    half = 0.5 if rule == "smooth" else 0.0
    tp, fp = np.cumsum(p) - half * p, np.cumsum(n) - half * n
    q = np.ones_like(p)
    np.divide(tp, tp + fp, out=q, where=tp + fp > 0)
    if rule == "trapezoid":
        q = (q + np.append(1.0, q[:-1])) / 2
    return p @ q / p.sum()


def test_the_binned_areas_of_this_file_are_the_definitions():
    scores, labels = examples(NEGATIVES, POSITIVES)
    assert binned_auc(NEGATIVES, POSITIVES) == pytest.approx(
        auc_by_pairs(scores, labels)
    )
    for rule, oracle in (("step", average_precision), ("trapezoid", trapezoid_aupr)):
        assert binned_precision_area(NEGATIVES, POSITIVES, rule) == pytest.approx(
            oracle(scores, labels)
        )


@pytest.mark.parametrize("rule", ["auc", "smooth", "step", "trapezoid"])
def test_slopes_are_derivatives_and_add_up_to_nothing_over_the_examples(rule):
    def area(n, p):
        return binned_precision_area(n, p, rule)

    of_auc = rule == "auc"
    expected = numerical(
        *(binned_auc if of_auc else area, NEGATIVES, POSITIVES),
        copies=400 if of_auc else 4000,
    )
    found = (
        auc_slopes(NEGATIVES, POSITIVES)
        if of_auc
        else precision_area_slopes(NEGATIVES, POSITIVES, rule)
    )
    close = {"rtol": 2e-3, "atol": 1e-6} if of_auc else {"rtol": 1e-2, "atol": 1e-5}
    for one, slope in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, slope, **close)
    total = found.negatives @ NEGATIVES + found.positives @ POSITIVES
    assert total == pytest.approx(0, abs=1e-12)


def test_noise_damps_the_slopes_of_precision_where_counts_are_small():
    plain = precision_area_slopes(NEGATIVES, POSITIVES)
    damped = precision_area_slopes(NEGATIVES, POSITIVES, noise=np.full(BINS, 50.0))
    assert np.abs(damped.negatives).max() < np.abs(plain.negatives).max()


@dataclass(frozen=True)
class SharedNoise:
    """Noise of these variances, correlated between the classes of a bin."""

    variances: np.ndarray
    across: float
    scale: float = 1.0

    def covariance(self, at):
        del at
        v = self.variances
        return BinCovariance(v, v, self.across * v)


@pytest.mark.parametrize(
    "rule", [Uniform(BINS), Support((0.0, 0.1, 0.4, 0.5, 0.8, 1.0))]
)
def test_the_brier_scores_sampling_error_is_that_of_a_mean(rule):
    edges = Edges.realise(rule)
    losses = []
    for k in range(2 * BINS):
        one = np.zeros(2 * BINS)
        one[k] = 1
        losses.append(brier_score(histogram(edges, one[:BINS], one[BINS:])).value)
    each = np.repeat(losses, np.append(NEGATIVES, POSITIVES).astype(int))
    slopes = BRIER.slopes(Cells(NEGATIVES, POSITIVES, tied=False, edges=edges))
    found = sampling_sd(slopes, NEGATIVES, POSITIVES)
    # Each class is inflated as a sample of its own: a little above 1/(M - 1).
    assert found == pytest.approx(each.std(ddof=1) / np.sqrt(each.size), rel=0.03)


@pytest.mark.parametrize("metric", ["auc", "smooth"])
def test_the_standard_deviation_is_that_of_repeated_test_sets(rng, metric):
    shares = np.append(NEGATIVES + 1, POSITIVES + 1)
    draws = rng.multinomial(3000, shares / shares.sum(), 3000).astype(float)
    halves = [np.split(row, 2) for row in draws]
    if metric == "auc":
        values = [binned_auc(*half) for half in halves]
        predicted = [sampling_sd(auc_slopes(*h), *h) for h in halves[:50]]
    else:
        values = [binned_precision_area(*half, metric) for half in halves]
        predicted = [sampling_sd(precision_area_slopes(*h), *h) for h in halves[:50]]
    # 3,000 draws know a standard deviation to 1.3%: 8% is 6 of those.
    assert np.mean(predicted) == pytest.approx(np.std(values), rel=0.08)


def test_noise_reaches_a_metric_through_its_slopes_within_and_across_the_classes():
    slopes = auc_slopes(NEGATIVES, POSITIVES)
    g, v = np.concatenate(slopes), np.linspace(1.0, 3.0, BINS)
    for across in (0.0, -1.0, 0.4):
        noise = SharedNoise(v, across)
        observed = replace(histogram(EDGES, NEGATIVES, POSITIVES), noise=noise)
        full = np.kron([[1, across], [across, 1]], np.diag(v))
        assert noise_sd(slopes, observed) == pytest.approx(np.sqrt(g @ full @ g))


def test_a_model_bin_with_next_to_no_positives_has_finite_slopes():
    tiny = np.append(POSITIVES[:-1], 1e-217)
    empty = np.append(NEGATIVES[:-1], 0.0)
    for noise in (None, np.full(BINS, 2.0)):
        for rule in ("smooth", "step", "trapezoid"):
            slopes = precision_area_slopes(empty, tiny, rule, noise=noise)
            assert np.isfinite(np.concatenate(slopes)).all()


def test_a_class_without_examples_has_no_slopes():
    with pytest.raises(InputError, match="both classes"):
        auc_slopes(NEGATIVES, np.zeros(BINS))


def binormal(bins, examples=4000, distance=1.5):
    edges = Edges.realise(Uniform(bins))
    x = norm.ppf(np.clip(edges.array, 0, 1)) * 2
    negatives = np.diff(norm.cdf(x)) * examples
    return histogram(edges, negatives, np.diff(norm.cdf(x - distance)) * examples)


def test_cutting_coarse_bins_along_the_curve_gives_back_the_fine_spread():
    def sd(counts, *, cut):
        found = counts.negatives, counts.positives
        if cut:
            found = refined(counts, Curves.from_histogram(counts, "pchip"))
        return sampling_sd(auc_slopes(*found), *found)

    coarse = binormal(8, distance=2.0)
    fine = sd(binormal(1024, distance=2.0), cut=False)
    assert sd(coarse, cut=True) == pytest.approx(fine, rel=0.02)
    assert abs(sd(coarse, cut=False) - fine) > 0.04 * fine


def test_ties_are_not_cut():
    counts = histogram(EDGES, NEGATIVES, POSITIVES)
    found = refined(counts, Curves.from_histogram(counts, "linear"))
    np.testing.assert_array_equal(found.positives, POSITIVES)

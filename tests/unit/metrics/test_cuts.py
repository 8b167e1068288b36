"""A threshold between two edges cuts a bin along the classes' own curves."""

import numpy as np
import pytest
from scipy.stats import norm

from discreet.data.edges import Edges, Support, Uniform
from discreet.data.examples import Examples
from discreet.data.prior_spread import PriorSpread
from discreet.estimate.fit import Flat
from discreet.metrics.thresholds import at_threshold, confusion_weights, cut_at
from discreet.noise.mechanism import NoNoise
from discreet.statistic import ClassHistogram
from discreet.statistic.observed import NoisyHistogram


def normal_logits(bins):
    """Return the expected counts of two normal classes on the logit scale."""
    edges = Edges.realise(PriorSpread(bins, prevalence=0.2))
    with np.errstate(divide="ignore"):
        z = np.log(edges.array) - np.log1p(-edges.array)
    negatives, positives = (
        1e4 * np.diff(norm.cdf(z, middle, 1.2)) for middle in (-2.0, -0.8)
    )
    return NoisyHistogram(edges, negatives, positives, NoNoise())


@pytest.mark.parametrize("t", [0.031, 0.1, 0.27, 0.3, 0.61])
def test_a_cut_bin_is_split_as_smooth_classes_are(t):
    counts = normal_logits(28)
    shares = cut_at(counts, t).curved
    z = np.log(t / (1 - t))
    for above, bins, middle in (
        (shares.negatives, counts.negatives, -2.0),
        (shares.positives, counts.positives, -0.8),
    ):
        assert above @ bins == pytest.approx(1e4 * norm.sf(z, middle, 1.2), abs=8)


def test_the_curve_is_nearer_than_the_straight_line_and_within_the_limits():
    counts = normal_logits(12)
    cut = cut_at(counts, 0.3)
    z = np.log(0.3 / 0.7)
    right = 1e4 * norm.sf(z, -2.0, 1.2)
    curve, line = (s.negatives @ counts.negatives for s in cut[:2])
    assert abs(curve - right) < abs(line - right) / 2
    assert cut.least @ counts.negatives <= curve <= cut.most @ counts.negatives


def test_an_edge_and_known_values_are_cut_exactly():
    counts = normal_logits(24)
    edge = float(counts.edges.array[7])
    for shares in cut_at(counts, edge)[:2]:
        assert set(shares.negatives) | set(shares.positives) == {0.0, 1.0}
    votes = Edges.realise(Support((0.0, 0.5, 1.0)))
    known = NoisyHistogram(votes, np.ones(3), np.ones(3), NoNoise())
    assert cut_at(known, 0.5).curved.positives.tolist() == [0.0, 1.0, 1.0]


def test_a_bin_without_examples_or_without_an_end_is_cut_evenly():
    counts = normal_logits(24)
    empty = NoisyHistogram(counts.edges, np.zeros(24), counts.positives, NoNoise())
    assert np.isfinite(cut_at(empty, 0.3).curved.negatives).all()
    last = (counts.edges.array[-2] + 1) / 2
    assert cut_at(counts, last).curved.negatives[-1] == pytest.approx(0.5)


def test_confusion_counts_add_up_whatever_the_shares():
    weights = confusion_weights(cut_at(normal_logits(24), 0.3).curved)
    np.testing.assert_allclose(weights.sum(axis=0), 1.0)


def at_one(rng, share, bins):
    """Counts of 4,000 smooth scores of which a share of the positives is moved to 1."""
    labels = np.repeat([0, 1], [3_000, 1_000])
    scores = np.where(labels, rng.beta(3, 2, 4_000), rng.beta(2, 3, 4_000))
    scores = np.where((labels == 1) & (rng.random(4_000) < share), 1.0, scores)
    statistic = ClassHistogram(Edges.realise(bins))
    counts = statistic.split(statistic.count(Examples(scores, labels)).astype(float))
    true = float(np.mean(scores[labels == 1] >= 1))
    observed = NoisyHistogram(
        statistic.edges, counts.negatives, counts.positives, NoNoise()
    )
    return at_threshold(Flat().fit(observed), 1.0)["recall"], true


@pytest.mark.parametrize("bins", [PriorSpread(256, prevalence=0.25), Uniform(20)])
@pytest.mark.parametrize("share", [0.0, 0.15])
def test_the_highest_score_may_be_a_tie_and_the_interval_says_so(rng, share, bins):
    recall, true = at_one(rng, share, bins)
    low, high = recall.interval(0.95)
    assert low <= true <= high
    if isinstance(bins, PriorSpread):  # what lies beyond its last edge is read as ties
        assert recall.value == pytest.approx(true, abs=0.002)

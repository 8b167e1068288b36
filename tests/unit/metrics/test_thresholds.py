"""Measures at a threshold are their definitions, and bins are cut as classes are."""

import math

import numpy as np
import pytest
from scipy.stats import norm
from sklearn import metrics as sk

import discreet
from discreet.data.edges import Edges, Support, Uniform
from discreet.data.prior_spread import PriorSpread
from discreet.estimate.fit import Flat
from discreet.metrics.table import RATES
from discreet.metrics.thresholds import at_threshold, confusion_weights, cut_at
from histograms import counted, histogram
from measure_oracles import at_threshold as by_definition

CUT = 0.3
pytestmark = pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    y = rng.random(4_000) < 0.3
    return y, rng.beta(2 + 2 * y, 4 - 2 * y)


@pytest.fixture(scope="module")
def at_cut(data):
    y, score = data
    site = discreet.Examples(score, y)
    return discreet.evaluate([site], thresholds=[CUT], examples=20_000).at(CUT)


def test_every_rate_is_its_definition_on_the_rows(data, at_cut):
    expected = by_definition(*data, CUT)
    assert set(expected) == set(RATES)
    for name, value in expected.items():
        assert at_cut[name].value == pytest.approx(value, rel=1e-12), name


@pytest.mark.parametrize("name", list(RATES))
def test_sampling_errors_are_those_of_the_bootstrap(data, at_cut, name):
    # 400 resamples know a standard deviation to 3.5%: 4 of those are 14%.
    y, _ = data
    rng = np.random.default_rng(1)
    counts = np.array([at_cut[n].value for n in ("true_positives", "false_negatives",
                                                "false_positives", "true_negatives")])  # fmt: skip
    drawn = rng.multinomial(y.size, counts / y.size, 400).astype(float)
    values = [RATES[name].measure(c, CUT) for c in drawn]
    assert at_cut[name].sampling == pytest.approx(np.std(values), rel=0.14)


def test_measures_agree_with_each_other(at_cut):
    v = {n: at_cut[n].value for n in RATES}
    assert v["youden"] == pytest.approx(2 * v["balanced_accuracy"] - 1)
    ratio = v["likelihood_ratio_positive"] / v["likelihood_ratio_negative"]
    assert v["diagnostic_odds_ratio"] == pytest.approx(ratio)
    assert v["number_needed_to_evaluate"] == pytest.approx(1 / v["precision"])
    prevalence = (at_cut.true_positives.value + at_cut.false_negatives.value) / 4_000
    odds = CUT / (1 - CUT)
    # Vickers: what is gained over treating all is what sparing negatives is worth.
    cost = prevalence * (1 - CUT) - (1 - CUT) * v["net_benefit"]
    assert v["expected_cost"] == pytest.approx(cost)
    assert v["standardised_net_benefit"] == pytest.approx(v["net_benefit"] / prevalence)
    assert v["net_benefit_all"] == pytest.approx(prevalence - (1 - prevalence) * odds)


def test_what_divides_by_nothing_is_undefined_and_has_a_reason(data):
    y, score = data
    result = discreet.evaluate([discreet.Examples(score, y)], examples=20_000)
    with pytest.warns(discreet.UndefinedMetricWarning, match="precision"):
        top = result.at(1.0)
    assert math.isnan(top.likelihood_ratio_positive.value)
    assert "nothing to divide by" in top.likelihood_ratio_positive.unusable


def test_scores_that_are_no_probabilities_have_no_net_benefit(data):
    y, score = data
    site = discreet.Examples(score * 10, y, kind="other", low=0, high=10)
    at = discreet.evaluate([site], thresholds=[3.0], examples=20_000).at(3.0)
    assert "not probabilities" in at.net_benefit.unusable
    assert at.mcc.value == pytest.approx(sk.matthews_corrcoef(y, score * 10 >= 3))


def test_a_logit_threshold_counts_as_its_probability(data):
    y, score = data
    logits = np.log(score / (1 - score))
    cut = math.log(CUT / (1 - CUT))
    site = discreet.Examples(logits, y, kind="logit")
    at = discreet.evaluate([site], thresholds=[cut], examples=20_000).at(cut)
    assert at.net_benefit.value == pytest.approx(
        by_definition(y, score, CUT)["net_benefit"]
    )


def normal_logits(bins):
    """Return the expected counts of two normal classes on the logit scale."""
    edges = Edges.realise(PriorSpread(bins, prevalence=0.2))
    with np.errstate(divide="ignore"):
        z = np.log(edges.array) - np.log1p(-edges.array)
    negatives, positives = (
        1e4 * np.diff(norm.cdf(z, middle, 1.2)) for middle in (-2.0, -0.8)
    )
    return histogram(edges, negatives, positives)


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
    known = histogram(Edges.realise(Support((0.0, 0.5, 1.0))), np.ones(3), np.ones(3))
    assert cut_at(known, 0.5).curved.positives.tolist() == [0.0, 1.0, 1.0]


def test_a_bin_without_examples_or_without_an_end_is_cut_evenly():
    counts = normal_logits(24)
    empty = histogram(counts.edges, np.zeros(24), counts.positives)
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
    true = float(np.mean(scores[labels == 1] >= 1))
    observed = counted(scores, labels, Edges.realise(bins))
    return at_threshold(Flat().fit(observed), 1.0)["recall"], true


@pytest.mark.parametrize("bins", [PriorSpread(256, prevalence=0.25), Uniform(20)])
@pytest.mark.parametrize("share", [0.0, 0.15])
def test_the_highest_score_may_be_a_tie_and_the_interval_says_so(rng, share, bins):
    recall, true = at_one(rng, share, bins)
    low, high = recall.interval(0.95)
    assert low <= true <= high
    if isinstance(bins, PriorSpread):  # what lies beyond its last edge is read as ties
        assert recall.value == pytest.approx(true, abs=0.002)

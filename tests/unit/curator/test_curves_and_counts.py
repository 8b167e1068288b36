"""Binormal curves, histograms, confusion counts."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import confusion_matrix, precision_score, roc_auc_score

from discreet import area_error, curator
from discreet.curator.areas import binormal_tpr
from discreet.data.edges import Edges, Uniform
from discreet.entropy import Seeded
from discreet.errors import BudgetError, InputError
from discreet.models.central import CentralDP
from discreet.privacy.loss import PureDP
from discreet.privacy.unit import ROW
from discreet.statistic import ClassHistogram

ROWS = 6000


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(8)
    labels = (rng.random(ROWS) < 0.4).astype(int)
    logit = rng.normal(2.0 * labels - 1.0, 1.0)
    return labels, 1.0 / (1.0 + np.exp(-logit))


@pytest.mark.parametrize("area", [0.1, 0.5, 0.86, 0.99])
def test_a_binormal_curve_has_its_area_and_is_symmetric(area):
    fpr = np.linspace(0, 1, 200_001)
    tpr = binormal_tpr(area, fpr)
    middles = (tpr[1:] + tpr[:-1]) / 2
    assert middles @ np.diff(fpr) == pytest.approx(area, abs=1e-4)
    # Symmetric over y = 1 - x: (x, y) lies on it with (1 - y, 1 - x).
    assert binormal_tpr(area, 1 - tpr[1:-1:5000]) == pytest.approx(1 - fpr[1:-1:5000])


def test_the_binormal_curve_is_that_of_two_normal_classes():
    fpr = np.array([0.05, 0.3, 0.8])
    area = stats.norm.cdf(1.3 / math.sqrt(2))
    expected = stats.norm.sf(stats.norm.isf(fpr) - 1.3)
    assert binormal_tpr(area, fpr) == pytest.approx(expected)


def test_binormal_curves_of_certain_and_undefined_areas():
    x = np.array([0.0, 0.5, 1.0])
    assert binormal_tpr(1.0, x).tolist() == [0, 1, 1]
    assert binormal_tpr(0.0, x).tolist() == [0, 0, 1]
    assert np.isnan(binormal_tpr(math.nan, x)).all()


def test_a_binormal_roc_curve_follows_the_data(data):
    found = curator.roc_curve(*data, epsilon=1, method="binormal", entropy=Seeded(b"a"))
    truth = np.linspace(0, 1, 501)
    exact = binormal_tpr(stats.norm.cdf(math.sqrt(2)), truth)
    assert area_error((truth, exact), found.curve) < 0.02
    assert found.thresholds is None
    assert found.claim is found.auc.claim


def test_the_histograms_roc_curve_follows_the_data(data):
    found = curator.roc_curve(*data, epsilon=1, entropy=Seeded(b"a"))
    assert found.thresholds is not None
    assert found.thresholds[0] == np.inf
    assert found.auc.value == pytest.approx(roc_auc_score(*data), abs=0.03)
    assert (np.diff(found.fpr) >= 0).all()


def test_an_unknown_method_is_refused(data):
    with pytest.raises(InputError, match="binormal"):
        curator.roc_curve(*data, epsilon=1, method="spline")


def test_a_replaced_row_moves_a_class_histogram_by_two_in_l1():
    statistic = ClassHistogram(Edges.realise(Uniform(4)))
    assert statistic.sensitivity(ROW).l1 == 2


def test_the_evaluation_has_noise_for_two_counts_and_claims_epsilon_for_a_row(data):
    with curator.Budget(epsilon=1) as budget:
        result = curator.evaluate(*data, epsilon=1, budget=budget, entropy=Seeded(b"b"))
        assert budget.remaining == 0
    assert result.claim.loss == PureDP(Fraction(1))
    assert str(result.claim.unit) == "one row replaced"
    noise = result.observed.noise.covariance(np.ones(2 * len(result.observed.edges)))
    # Discrete Laplace noise of scale 2/epsilon has a variance near 2 * 2^2.
    assert noise.negatives[0] == pytest.approx(8.0, rel=0.05)
    assert result.auc.value == pytest.approx(roc_auc_score(*data), abs=0.03)
    assert result.at(0.5).recall.value > 0.7


def test_the_plan_says_what_the_claim_says(data):
    result = curator.evaluate(*data, epsilon=1, entropy=Seeded(b"b"))
    assert result.plan.privacy == CentralDP(epsilon=1)
    assert result.plan.privacy.loss == result.claim.loss
    assert result.plan.privacy.protects == result.claim.unit
    assert any("nobody keeps count" in words for words in result.claim.not_protected)


def test_an_evaluation_that_the_budget_cannot_pay_publishes_nothing(data):
    def never(size):
        raise AssertionError(size)

    with curator.Budget(epsilon="0.9") as budget:
        with pytest.raises(BudgetError, match="evaluation at 1-DP would exceed"):
            curator.evaluate(*data, epsilon=1, budget=budget, entropy=never)
        assert budget.remaining == Fraction(9, 10)


def test_scores_of_any_declared_range_are_evaluated(data):
    labels, scores = data
    result = curator.evaluate(
        labels,
        1000 * scores - 300,
        epsilon=4,
        kind="other",
        low=-300,
        high=700,
        entropy=Seeded(b"c"),
    )
    assert result.auc.value == pytest.approx(roc_auc_score(*data), abs=0.05)


def test_confusion_counts_agree_with_scikit_learn_at_a_large_epsilon(data):
    labels, scores = data
    found = curator.confusion(
        labels, scores, epsilon=1000, threshold=0.6, entropy=Seeded(b"d")
    )
    tn, fp, fn, tp = confusion_matrix(labels, scores >= 0.6).ravel()
    counts = (
        found.true_negatives,
        found.false_positives,
        found.false_negatives,
        found.true_positives,
    )
    assert [c.value for c in counts] == [tn, fp, fn, tp]
    expected = precision_score(labels, scores >= 0.6)
    assert found.precision.value == pytest.approx(expected)
    assert found.threshold == 0.6
    assert found.claim.loss == PureDP(Fraction(1000))


def test_confusion_noise_has_a_scale_of_two_over_epsilon(data):
    labels, scores = data
    tp = int(np.sum(labels[scores >= 0.5]))
    drawn = [
        curator.confusion(
            labels, scores, epsilon="0.5", entropy=Seeded(bytes([k]))
        ).true_positives.value
        - tp
        for k in range(200)
    ]
    # Mean absolute noise about 4; its standard error over 200 draws is .29.
    assert 2.5 < np.mean(np.abs(drawn)) < 5.5
    with pytest.raises(InputError, match="NaN"):
        curator.confusion(labels, scores, epsilon=1, threshold=math.nan)

"""Two names for one number give one number: identities between metrics, to 1e-12."""

import warnings

import numpy as np
import pytest

import discreet
from discreet.data.edges import Uniform
from discreet.metrics.brier import brier_parts
from discreet.metrics.calibration import expected_calibration_error

EXACT = discreet.SecureAggregation()
NOISY = discreet.DistributedDP(1)
LOCAL = discreet.LocalDP(4)


def sites(groups=False):
    rng = np.random.default_rng(31)
    found = []
    for k in range(3):
        y = rng.random(1500) < 0.3
        z = rng.normal(1.4 * y - 1 + 0.2 * k, 1.1)
        names = np.where(rng.random(1500) < 0.4, "a", "b")
        told = {"groups": names} if groups else {}
        found.append(discreet.Examples(1 / (1 + np.exp(-z)), y, **told))
    return found


@pytest.fixture(scope="module", params=[EXACT, NOISY, LOCAL], ids=lambda p: p.name)
def result(request):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return discreet.evaluate(sites(), privacy=request.param, examples=4500)


def near(value):
    return pytest.approx(value, abs=1e-12)


def test_gini_is_twice_the_auc_less_one(result):
    gini, auc = result.metrics["gini"], result.metrics["auc"]
    assert gini.value == near(2 * auc.value - 1)
    assert gini.interval() == near([2 * end - 1 for end in auc.interval()])


def test_the_brier_score_is_the_sum_of_its_parts(result):
    brier = result.metrics["brier"].value
    assert brier_parts(result.fit.counts).total == near(brier)
    corp = [
        result.metrics[n].value
        for n in ("miscalibration", "discrimination", "uncertainty")
    ]
    assert corp[0] - corp[1] + corp[2] == near(brier)


def test_the_scaled_brier_score_is_one_less_its_share_of_no_models(result):
    most = result.metrics["uncertainty"].value
    scaled = result.metrics["scaled_brier"].value
    assert scaled == near(1 - result.metrics["brier"].value / most)


def test_ece_is_that_of_its_groups(result):
    groups = expected_calibration_error(result.fit.counts)
    assert result.metrics["ece"].value == near(groups.value)


def test_recalibration_starts_at_the_brier_score(result):
    assert result.recalibration.effect.brier_before == near(
        result.metrics["brier"].value
    )


def test_rates_at_a_threshold_follow_from_each_other(result):
    t = 0.5
    at = result.at(t)
    precision, recall = at.precision.value, at.recall.value
    assert at.f1.value == near(2 * precision * recall / (precision + recall))
    counts = result.fit.counts
    r = counts.positives.sum() / (counts.positives.sum() + counts.negatives.sum())
    false = (1 - at.specificity.value) * (1 - r)
    assert at.net_benefit.value == near(recall * r - t / (1 - t) * false)
    assert at.accuracy.value == near(recall * r + at.specificity.value * (1 - r))


def test_groups_add_up_to_the_whole():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        apart = discreet.evaluate(
            sites(groups=True), groups=["a", "b"], edges=Uniform(64)
        )
        whole = discreet.evaluate(sites(), edges=Uniform(64))
    added = sum(part.fit.counts.positives for part in apart.values())
    assert added == near(whole.fit.counts.positives)
    added = sum(part.fit.counts.negatives for part in apart.values())
    assert added == near(whole.fit.counts.negatives)

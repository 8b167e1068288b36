"""The binormal ROC curve of a private AUC."""

import math

import numpy as np
import pytest
from scipy import stats

from discreet import area_error, curator
from discreet.entropy import Seeded
from discreet.published.boyd2015 import binormal_tpr


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


def test_a_binormal_roc_curve_follows_the_data():
    rng = np.random.default_rng(8)
    labels = (rng.random(6000) < 0.4).astype(int)
    scores = rng.normal(2.0 * labels - 1.0, 1.0)
    found = curator.roc_curve(
        labels, scores, epsilon=1, method="binormal", entropy=Seeded(b"a")
    )
    truth = np.linspace(0, 1, 501)
    exact = binormal_tpr(stats.norm.cdf(math.sqrt(2)), truth)
    assert area_error((truth, exact), found.curve) < 0.02
    assert found.thresholds is None
    assert found.claim is found.auc.claim

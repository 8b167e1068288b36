"""Curves over thresholds are their definitions on the rows."""

import json

import numpy as np
import pytest
from scipy.stats import chi2

import discreet
from discreet.errors import InputError
from discreet.metrics.curves import CURVES
from measure_oracles import made_up

pytestmark = pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning")


@pytest.fixture(scope="module")
def data():
    return made_up(20_000, seed=12)


@pytest.fixture(scope="module")
def result(data):
    y, score = data
    return discreet.evaluate([discreet.Examples(score, y)], examples=20_000)


@pytest.fixture(scope="module")
def noisy(data):
    y, score = data
    return discreet.evaluate(
        [discreet.Examples(score, y)],
        privacy=discreet.DistributedDP(1),
        examples=20_000,
        prevalence=0.45,
    )


def test_the_decision_curve_is_net_benefit_on_the_rows(data, result):
    y, score = data
    curve = result.curves.decision([0.05, 0.2, 0.5, 0.9])
    for t, found in zip(curve.x, curve.y, strict=True):
        called = score >= t
        benefit = np.mean(called & y) - np.mean(called & ~y) * t / (1 - t)
        assert found == pytest.approx(benefit, abs=2e-3)
    assert (curve.low < curve.y).all()
    assert (curve.y < curve.high).all()
    everyone = y.mean() - (1 - y.mean()) * curve.x / (1 - curve.x)
    assert curve.references["treat all"] == pytest.approx(everyone)
    assert not curve.references["treat none"].any()


def test_the_cost_curve_is_the_least_cost_of_any_threshold(data, result):
    y, score = data
    curve = result.curves.over_thresholds("cost")
    cuts = np.unique(np.round(score, 3))
    miss = np.array([np.mean(score[y] < t) for t in cuts])
    alarm = np.array([np.mean(score[~y] >= t) for t in cuts])
    for x, found in list(zip(curve.x, curve.y, strict=True))[5:-5:10]:
        assert found == pytest.approx(np.min(x * miss + (1 - x) * alarm), abs=2e-3)


def test_gains_and_lift_are_those_of_the_highest_scores(data, result):
    y, score = data
    order = np.argsort(-score)
    gains, lift = (
        result.curves.over_thresholds("gains"),
        result.curves.over_thresholds("lift"),
    )
    for k in range(2, 45, 9):
        top = y[order[: round(gains.x[k] * y.size)]]
        assert gains.y[k] == pytest.approx(top.sum() / y.sum(), abs=1e-3)
        assert lift.y[k] == pytest.approx(top.mean() / y.mean(), abs=5e-3)


def test_precision_at_k_is_that_of_the_k_highest_scores(data, result):
    y, score = data
    top = y[np.argsort(-score)[:500]]
    assert result.thresholds.top(500).at.precision.value == pytest.approx(
        top.mean(), abs=4e-3
    )
    with pytest.raises(InputError, match="k is"):
        result.thresholds.top(0)


def test_the_area_under_the_drawn_gain_curve_is_the_measure(result):
    curve = result.curves.over_thresholds("pr_gain")
    steps = np.diff(curve.x)
    area = float(steps @ (curve.y[1:] + curve.y[:-1])) / 2
    area += curve.x[0] * curve.y[0]  # to recall gain 0, the first point's height
    assert area == pytest.approx(result.metrics["pr_gain_area"].value, abs=5e-3)


def test_the_distribution_of_risks_adds_up_in_either_class(data, result):
    y, score = data
    curve = result.curves.over_thresholds("risk_distribution")
    assert curve.y.sum() == pytest.approx(1)
    assert curve.references["negatives"].sum() == pytest.approx(1)
    ends = np.linspace(0, 1, 21)
    assert curve.y == pytest.approx(np.histogram(score[y], ends)[0] / y.sum(), abs=6e-3)


def test_predictiveness_is_the_quantile_of_the_scores(data, result):
    _, score = data
    curve = result.curves.over_thresholds("predictiveness")
    assert curve.y == pytest.approx(np.quantile(score, curve.x), abs=5e-3)
    # These scores are too extreme: high risks are lower than predicted.
    assert curve.references["observed, smooth"][-5] < curve.y[-5]


@pytest.mark.parametrize("name", list(CURVES))
def test_every_curve_is_there_under_noise_and_is_json(result, noisy, name):
    for one in (result, noisy):
        curve = one.curves.over_thresholds(name)
        assert np.isfinite(curve.y).all()
        json.dumps(curve.to_dict(), allow_nan=False)
        for other in curve.references.values():
            assert other.shape == curve.x.shape
    exact = np.interp(noisy.curves.over_thresholds(name).x, *np.sort([result.curves.over_thresholds(name).x] * 2)[:1],
                      result.curves.over_thresholds(name).y[np.argsort(result.curves.over_thresholds(name).x)])  # fmt: skip
    assert np.median(np.abs(exact - noisy.curves.over_thresholds(name).y)) < 0.03


def test_hosmer_and_lemeshow_come_with_the_reason_not_to_use_them(data, result, noisy):
    y, score = data
    found = result.recalibration.hosmer_lemeshow()
    groups = np.array_split(np.argsort(score), 10)
    terms = [
        (y[g].sum() - score[g].sum()) ** 2 / (score[g].sum() * (1 - score[g].mean()))
        for g in groups
    ]
    assert found.statistic == pytest.approx(sum(terms), rel=0.03)
    assert found.p_value == pytest.approx(chi2.sf(found.statistic, 10))
    assert "instead" in found.sentence
    with pytest.raises(discreet.NotReleasedError, match="noisy counts"):
        noisy.recalibration.hosmer_lemeshow()

"""Thresholds that reach an aim: the cheapest one, its interval, and what is said."""

import math

import numpy as np
import pytest

import discreet
from discreet.errors import InputError

pytestmark = [
    pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning"),
    pytest.mark.long,
]


def draw(rng, n):
    y = rng.random(n) < 0.3
    return y, rng.beta(2 + 2 * y, 4 - 2 * y)


def evaluated(y, score, privacy=None):
    return discreet.evaluate(
        [discreet.Examples(score, y)], privacy=privacy, examples=20_000, prevalence=0.3
    )


@pytest.fixture(scope="module")
def data():
    return draw(np.random.default_rng(2), 20_000)


@pytest.fixture(scope="module")
def result(data):
    return evaluated(*data)


@pytest.mark.parametrize(
    ("aim", "rate"),
    [
        ({"sensitivity": 0.95}, lambda y, c: c[y].mean()),
        ({"specificity": 0.95}, lambda y, c: 1 - c[~y].mean()),
        ({"precision": 0.6}, lambda y, c: y[c].mean()),
        ({"alert_rate": 0.1}, lambda _, c: c.mean()),
    ],
)
def test_a_rate_is_reached_on_the_rows_themselves(data, result, aim, rate):
    y, score = data
    ((name, target),) = aim.items()
    found = result.thresholds.find(**aim)
    assert rate(y, score >= found.threshold) == pytest.approx(target, abs=2e-3)
    assert found.interval.low < found.threshold < found.interval.high
    at = found.at["recall" if name == "sensitivity" else name]
    # Precision is no straight line between two edges.
    assert at.value == pytest.approx(target, abs=1e-4 if name == "precision" else 1e-9)
    assert "chosen on the data that judge it" in found.sentence


def test_the_best_threshold_is_the_best_of_all_edges(data, result):
    y, score = data
    edges = result.observed.edges.array
    for aim, gain in (
        ({"youden": True}, lambda c: c[y].mean() - c[~y].mean()),
        ({"cost_ratio": 9}, lambda c: (9 * (c & y).sum() - (c & ~y).sum()) / y.size),
    ):
        found = result.thresholds.find(**aim)
        best = max(gain(score >= t) for t in edges)
        assert gain(score >= found.threshold) == pytest.approx(best, abs=1e-12)
        assert found.interval.low <= found.threshold <= found.interval.high
        assert "too good" in found.sentence


@pytest.mark.parametrize(
    "privacy",
    [None, pytest.param(discreet.DistributedDP(1), marks=pytest.mark.slow)],
)
def test_the_interval_holds_the_populations_threshold_as_often_as_it_says(privacy):
    # A population whose quantiles are known: 40 of 40 outside has probability < 1e-9,
    # and fewer than 32 of 40 inside has probability 2e-4 at 95%.
    big_y, big = draw(np.random.default_rng(77), 400_000)
    truth = np.quantile(big[big_y], 0.05)
    inside = 0
    for seed in range(40):
        y, score = draw(np.random.default_rng(seed), 4_000)
        low, high = (
            evaluated(y, score, privacy).thresholds.find(sensitivity=0.95).interval
        )
        inside += low <= truth <= high
    assert inside >= 32


def test_what_no_threshold_reaches_is_said(result):
    y, score = draw(np.random.default_rng(3), 20_000)
    found = evaluated(y, np.where(score > 0.5, 0.5, score)).thresholds.find(
        precision=0.999
    )
    assert not found.reached
    assert "no threshold gives precision 0.999" in found.sentence
    assert math.isfinite(found.threshold)
    assert result.thresholds.find(precision=0.6).reached


def test_exactly_one_aim_is_taken(result):
    with pytest.raises(InputError, match="one aim"):
        result.thresholds.find()
    with pytest.raises(InputError, match="one aim"):
        result.thresholds.find(sensitivity=0.9, youden=True)
    with pytest.raises(InputError, match="strictly between"):
        result.thresholds.find(specificity=1.0)
    with pytest.raises(InputError, match="positive"):
        result.thresholds.find(cost_ratio=0)


def test_no_threshold_is_found_where_a_class_is_missing():
    site = discreet.Examples(np.linspace(0, 1, 20_000), np.zeros(20_000, bool))
    with pytest.warns(discreet.UndefinedMetricWarning):
        result = discreet.evaluate([site])
    with pytest.raises(discreet.NotReleasedError, match="no threshold"):
        result.thresholds.find(youden=True)


def test_one_tidy_row_a_measure(result):
    frame = result.exports.to_frame()
    assert {"measure", "value", "low", "high", "sampling_sd"} <= set(frame.columns)
    auc = frame[frame.measure == "auc"].iloc[0]
    assert auc.value == result.auc.value
    assert (frame.measure == "net_benefit").sum() == len(result.plan.thresholds)
    assert not frame.duplicated(["measure", "threshold"]).any()

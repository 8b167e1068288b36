import numpy as np
import pytest

from discreet.data.edges import Edges, Warped
from discreet.data.scores import ScoreRange
from discreet.errors import InputError
from discreet.recalibrate.logistic_map import fit_beta, fit_platt
from discreet.recalibrate.maps import Identity, LogCurve
from discreet.recalibrate.rates import Rates


def test_platt_finds_the_slope_and_the_shift(sample, counted):
    curve = fit_platt(counted(*sample(200_000, 1, slope=1.5, shift=-0.4), 256)).curve
    assert curve.intercept == pytest.approx(-0.4, abs=0.03)
    assert curve.on_log == curve.on_rest == pytest.approx(1.5, abs=0.03)


def test_beta_finds_two_slopes(counted):
    rng = np.random.default_rng(2)
    s = rng.beta(0.8, 1.2, 400_000)
    odds = 0.3 + 1.6 * np.log(s) - 0.7 * np.log1p(-s)
    labels = (rng.random(s.size) < 1 / (1 + np.exp(-odds))).astype(int)
    curve = fit_beta(counted(s, labels, 512)).curve
    found = (curve.intercept, curve.on_log, curve.on_rest)
    assert found == pytest.approx((0.3, 1.6, 0.7), abs=0.04)


def test_a_model_that_is_upside_down_gets_a_level_map(sample, counted):
    scores, labels = sample(20_000, 3, slope=2.0)
    for fitter in (fit_platt, fit_beta):
        curve = fitter(counted(scores, 1 - labels)).curve
        assert curve.on_log == curve.on_rest == 0
        wanted = 1 - labels.mean()
        assert curve.apply([0.1, 0.9]) == pytest.approx([wanted] * 2, abs=1e-3)


def test_separated_classes_give_a_finite_map(counted):
    scores = np.concatenate([np.full(50, 0.1), np.full(50, 0.9)])
    curve = fit_platt(counted(scores, (scores > 0.5).astype(int))).curve
    found = curve.apply([0.0, 0.1, 0.9, 1.0])
    assert np.isfinite(found).all()
    assert found[1] < 0.01
    assert found[2] > 0.99


def test_the_slopes_of_a_curve_are_its_differences(sample, read):
    """Move the positives of one run by a little and fit again."""
    observed, counts = read(*sample(20_000, 4, slope=1.3), bins=24)
    rates = Rates.of(observed, counts)
    for fitter in (fit_platt, fit_beta):
        values, slopes = fitter(counts).on(rates)
        k, step = 9, 1.0
        moved = counted_with(counts, k, step)
        shifted, _ = fitter(moved).on(Rates.of(moved, moved))
        change = (shifted - values) / (step / rates.totals[k])
        assert change == pytest.approx(slopes[:, k], abs=2e-3)


def counted_with(counts, k, step):
    from dataclasses import replace

    p, n = counts.positives.copy(), counts.negatives.copy()
    p[k] += step
    n[k] -= step
    return replace(counts, positives=p, negatives=n)


def test_logits_are_mapped_like_their_probabilities():
    logits = ScoreRange.declare("logit")
    curve = LogCurve("beta", 0.2, 1.5, 0.8)
    same = LogCurve("beta", 0.2, 1.5, 0.8, logits)
    z = np.array([-30.0, -2.0, 0.0, 3.0, 40.0])
    assert same.apply(z) == pytest.approx(curve.apply(1 / (1 + np.exp(-z))), abs=1e-9)
    assert Identity(scores=logits).apply([0.0]) == pytest.approx([0.5])
    assert len(Edges.realise(Warped(8), logits)) == 8


def test_scores_outside_the_range_are_counted_in_the_error():
    with pytest.raises(InputError, match="2 of 3 scores"):
        Identity().apply([0.5, 1.5, float("nan")])


def test_maps_that_cannot_be_are_refused():
    with pytest.raises(InputError, match="does not fall"):
        LogCurve("beta", 0.0, -1.0, 1.0)
    with pytest.raises(InputError, match="finite"):
        LogCurve("beta", float("nan"), 1.0, 1.0)
    with pytest.raises(InputError, match="not probabilities"):
        Identity(scores=ScoreRange.declare("other", 0, 9)).apply([3.0])


def test_the_identity_does_not_hand_out_the_callers_array():
    scores = np.array([0.25, 0.5])
    found = Identity().apply(scores)
    found[0] = 1.0
    assert scores[0] == 0.25

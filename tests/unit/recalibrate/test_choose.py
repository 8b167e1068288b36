"""Which map is chosen, its logistic curves, and what it does to the model."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from discreet.data.edges import Edges, Support, Warped
from discreet.data.scores import ScoreRange
from discreet.errors import InputError
from discreet.estimate.fit import Flat
from discreet.estimate.sub_bins import cell_scores
from discreet.noise.arc import CircularArc, simulate_arc_counts
from discreet.noise.arc_decoder import decode
from discreet.noise.laplace import LaplaceNoise
from discreet.recalibrate import METHODS, effect, fit
from discreet.recalibrate.choose import LogisticMap, mapped_predictions, risk
from discreet.recalibrate.maps import Identity, LogCurve
from discreet.recalibrate.stepwise import Rates
from histograms import histogram, no_examples


def ece(said, labels, bins=15):
    place = np.minimum((said * bins).astype(int), bins - 1)
    off = np.bincount(place, said - labels, bins)
    return np.abs(off).sum() / labels.size


def test_a_shift_that_stands_out_gets_levels_and_the_reason(sample, read):
    fitted = fit(*read(*sample(20_000, 1, slope=1.6), bins=256))
    assert fitted.name == "levels"
    assert "the scores are off by 0.0" in fitted.reason
    assert fitted.monotone


def test_the_default_repairs_fresh_examples_with_and_without_noise(sample, read):
    fresh, labels = sample(50_000, 99, slope=1.6, shift=0.3)
    for options in ({"bins": 256}, {"bins": 32, "scale": 1.0}):
        fitted = fit(*read(*sample(20_000, 2, slope=1.6, shift=0.3), **options))
        assert ece(fitted.apply(fresh), labels) < 0.25 * ece(fresh, labels)


def test_few_examples_get_a_curve_with_few_coefficients(sample, read):
    fitted = fit(*read(*sample(300, 3, slope=1.0, shift=2.0), bins=64))
    assert fitted.name in ("platt", "beta")
    assert "of the variance" in fitted.reason


def test_a_calibrated_model_with_few_examples_is_left_alone(sample, read):
    found = [fit(*read(*sample(600, seed), bins=32)).name for seed in range(20)]
    assert found.count("identity") >= 17


def test_a_model_that_is_right_in_every_bin_is_left_alone_however_many_examples():
    """Levels would be told apart and keep the variance, and repair nothing."""
    edges = Edges.realise(Warped(64))
    middles = cell_scores(edges).mean(axis=1)
    totals = np.full(64, 500.0)
    right = histogram(edges, totals * (1 - middles), totals * middles)
    fitted = fit(right, right)
    assert fitted.name == "identity"
    assert "worse than none" in fitted.reason
    off = replace(right, negatives=totals * middles[::-1] ** 2)
    assert fit(off, off).name == "levels"


def test_noise_that_drowns_the_shift_gives_the_identity_and_says_so(sample, read):
    fitted = fit(*read(*sample(3_000, 5), bins=14, scale=8.0))
    assert fitted.name == "identity"
    assert "worse than none" in fitted.reason
    assert fitted.apply([0.3]).tolist() == [0.3]


def test_a_total_within_its_noise_gives_the_identity_and_says_so(sample, read):
    observed, _ = read(*sample(30, 6), bins=14, scale=20.0)
    fitted = fit(observed, observed.projected())
    assert fitted.name == "identity"
    assert "no map can be fitted" in fitted.reason


@pytest.mark.parametrize(
    ("positives", "refusal", "words"),
    [(0.0, None, "no positives"), (9.0, "too little data", "too little data")],
)
def test_one_class_or_a_refused_release_gives_the_identity_and_says_so(
    positives, refusal, words
):
    edges, nine = Edges.realise(Warped(8)), np.full(8, 9.0)
    release = histogram(edges, nine, np.full(8, positives), refusal=refusal)
    fitted = fit(release, release)
    assert fitted.name == "identity"
    assert words in fitted.reason


def test_decoded_arcs_are_repaired_and_left_alone_when_epsilon_is_small(sample):
    edges = Edges.realise(Warped(32))
    fresh, fresh_labels = sample(50_000, 98, slope=1.6)
    for epsilon, names in ((5, {"levels"}), (Fraction(1, 2), {"identity"})):
        scores, labels = sample(20_000, 7, slope=1.6 if epsilon == 5 else 1.0)
        cells = edges.bins_of(scores).astype(np.int64) + 32 * labels
        arc = CircularArc(Fraction(epsilon), edges)
        exact = np.bincount(cells, minlength=64)
        found = decode(simulate_arc_counts(arc, exact, np.random.default_rng(8)), arc)
        observed = histogram(edges, *np.split(found.counts, 2), found.noise)
        fitted = fit(observed, Flat().fit(observed).counts)
        assert fitted.name in names
        if epsilon == 5:
            after = ece(fitted.apply(fresh), fresh_labels)
            assert after < 0.5 * ece(fresh, fresh_labels)


def test_the_risk_estimates_the_squared_distance_from_the_truth():
    """1,000 draws of binomial rates: the mean risk is the mean loss, within 4 errors."""
    rng = np.random.default_rng(9)
    truth, scores = np.array([0.1, 0.3, 0.6, 0.9]), np.array([0.15, 0.35, 0.5, 0.8])
    t = np.array([400, 300, 200, 100])
    gaps = []
    for _ in range(1000):
        p = rng.binomial(t, truth).astype(float)
        rates = Rates(np.arange(4), t - p, p, np.zeros((8, 8)), scores)
        half = 0.5 * np.eye(4)
        values = 0.5 * rates.values + 0.5 * scores  # a map with the slopes 1/2
        loss = float(rates.shares @ (values - truth) ** 2)
        gaps.append(risk(rates, values, half) - loss)
    assert abs(np.mean(gaps)) < 4 * np.std(gaps) / np.sqrt(1000)


def test_the_rule_reads_the_release_only_and_is_deterministic(sample, read):
    observed, counts = read(*sample(5_000, 10, slope=1.4), bins=24, scale=1.0)
    assert fit(observed, counts).to_json() == fit(observed, counts).to_json()


def test_an_unknown_map_is_refused_with_the_names(sample, read):
    with pytest.raises(InputError, match="auto, binning, bbq"):
        fit(*read(*sample(500, 11)), method="spline")


def test_counts_of_another_release_are_refused(sample, counted):
    data = sample(500, 12)
    with pytest.raises(InputError, match="different evaluations"):
        fit(counted(*data, bins=8), counted(*data, bins=9))


def test_every_map_has_its_name_and_a_reason(sample, read):
    both = read(*sample(5_000, 13, slope=1.4), bins=24, scale=1.0)
    for method in METHODS[1:]:
        fitted = fit(*both, method=method)
        assert fitted.name == method
        assert fitted.reason == "asked for"


def test_too_little_noise_twin_is_usable():
    """The twin of the refusal above: with less noise the same counts have a map."""
    edges = Edges.realise(Warped(8))
    n, p = np.linspace(900, 20, 8), np.linspace(300, 700, 8)
    for scale, refused in ((0.5, False), (1e4, True)):
        observed = histogram(edges, n, p, LaplaceNoise(scale))
        assert ("no map can be fitted" in fit(observed, observed).reason) == refused


def test_platt_finds_the_slope_and_the_shift(sample, counted):
    curve = LogisticMap.fitted(
        "platt", counted(*sample(200_000, 1, slope=1.5, shift=-0.4), 256)
    ).curve
    assert curve.intercept == pytest.approx(-0.4, abs=0.03)
    assert curve.on_log == curve.on_rest == pytest.approx(1.5, abs=0.03)


def test_beta_finds_two_slopes(counted):
    rng = np.random.default_rng(2)
    s = rng.beta(0.8, 1.2, 400_000)
    odds = 0.3 + 1.6 * np.log(s) - 0.7 * np.log1p(-s)
    labels = (rng.random(s.size) < 1 / (1 + np.exp(-odds))).astype(int)
    curve = LogisticMap.fitted("beta", counted(s, labels, 512)).curve
    found = (curve.intercept, curve.on_log, curve.on_rest)
    assert found == pytest.approx((0.3, 1.6, 0.7), abs=0.04)


def test_a_model_that_is_upside_down_gets_a_level_map(sample, counted):
    scores, labels = sample(20_000, 3, slope=2.0)
    for name in ("platt", "beta"):
        curve = LogisticMap.fitted(name, counted(scores, 1 - labels)).curve
        assert curve.on_log == curve.on_rest == 0
        wanted = 1 - labels.mean()
        assert curve.apply([0.1, 0.9]) == pytest.approx([wanted] * 2, abs=1e-3)


def test_separated_classes_give_a_finite_map(counted):
    scores = np.concatenate([np.full(50, 0.1), np.full(50, 0.9)])
    curve = LogisticMap.fitted(
        "platt", counted(scores, (scores > 0.5).astype(int))
    ).curve
    found = curve.apply([0.0, 0.1, 0.9, 1.0])
    assert np.isfinite(found).all()
    assert found[1] < 0.01
    assert found[2] > 0.99


def test_the_slopes_of_a_curve_are_its_differences(sample, read):
    """Move the positives of one run by a little and fit again."""
    observed, counts = read(*sample(20_000, 4, slope=1.3), bins=24)
    rates = Rates.of(observed, counts)
    for name in ("platt", "beta"):
        values, slopes = LogisticMap.fitted(name, counts).on(rates)
        one = np.eye(24)[9]
        p, n = counts.positives + one, counts.negatives - one
        moved = replace(counts, positives=p, negatives=n)
        shifted, _ = LogisticMap.fitted(name, moved).on(Rates.of(moved, moved))
        change = (shifted - values) * rates.totals[9]
        assert change == pytest.approx(slopes[:, 9], abs=2e-3)


def test_logits_are_mapped_like_their_probabilities():
    logits = ScoreRange.declare("logit")
    curve = LogCurve("beta", 0.2, 1.5, 0.8)
    same = LogCurve("beta", 0.2, 1.5, 0.8, scores=logits)
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


def test_the_identity_changes_neither_metric_of_the_scores(sample, counted):
    counts = counted(*sample(20_000, 1, slope=1.5), bins=1024)
    found = effect(counts, Identity())
    assert found.brier_after == found.brier_before
    assert found.ece_after == found.ece_before


def test_the_error_after_the_map_is_the_one_fresh_examples_show(sample, counted):
    """Over 30 fits the mean of the expected error is within a third of the truth."""
    fresh, _ = sample(200_000, 99)
    z = np.log(fresh / (1 - fresh))
    truth = 1 / (1 + np.exp(-1.5 * z))
    expected, seen = [], []
    for seed in range(30):
        counts = counted(*sample(8_000, seed, slope=1.5), bins=1024)
        fitted = fit(counts, counts)
        expected.append(effect(counts, fitted).ece_after.value)
        seen.append(ece(fitted.apply(fresh), truth))
    assert np.mean(expected) == pytest.approx(np.mean(seen), rel=0.33)


def test_noise_adds_to_the_expected_error(sample, read):
    data = sample(8_000, 3, slope=1.5)
    found = []
    for scale in (0.0, 5.0, 30.0):
        observed, counts = read(*data, bins=24, scale=scale)
        fitted = fit(observed, counts, method="levels")
        found.append(effect(counts, fitted).ece_after.value)
    assert found[0] < found[1] < found[2]


def test_a_map_that_helps_lowers_both(sample, counted):
    counts = counted(*sample(50_000, 4, slope=1.8), bins=1024)
    found = effect(counts, fit(counts, counts))
    assert found.ece_after.value < 0.3 * found.ece_before.value
    assert found.brier_after < found.brier_before


def test_no_examples_have_no_effect_to_show():
    found = effect(no_examples(Edges.realise(Warped(8))), Identity())
    assert math.isnan(found.ece_after.value)
    assert math.isnan(found.brier_after)


def test_predictions_of_logits_and_of_known_values_are_the_maps():
    logits = ScoreRange.declare("logit")
    edges = Edges.realise(Warped(16), logits)
    plain = mapped_predictions(Edges.realise(Warped(16)), Identity())
    said = mapped_predictions(edges, Identity(scores=logits))
    assert said.cells == pytest.approx(plain.cells, abs=1e-5)
    known = Edges.realise(Support((0.25, 0.75)))
    assert mapped_predictions(known, Identity()).low.tolist() == [0.25, 0.75]

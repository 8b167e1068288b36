import math

import numpy as np
import pytest

from discreet.data.edges import Edges, Support, Warped
from discreet.data.scores import ScoreRange
from discreet.noise.mechanism import NoNoise
from discreet.recalibrate import effect, fit
from discreet.recalibrate.effect import mapped_predictions
from discreet.recalibrate.maps import Identity
from discreet.statistic.observed import NoisyHistogram


def ece_of_truth(said, truth, bins=15):
    place = np.minimum((said * bins).astype(int), bins - 1)
    return np.abs(np.bincount(place, said - truth, bins)).sum() / said.size


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
        seen.append(ece_of_truth(fitted.apply(fresh), truth))
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
    edges = Edges.realise(Warped(8))
    nothing = NoisyHistogram(edges, np.zeros(8), np.zeros(8), NoNoise())
    found = effect(nothing, Identity())
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

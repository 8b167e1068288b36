from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from discreet.data.edges import Edges, Support, Warped
from discreet.data.scores import ScoreRange
from discreet.errors import PlanError, ReleaseError
from discreet.estimate.areas import roc_area
from discreet.estimate.fit import Flat
from discreet.metrics.errors import measure
from discreet.metrics.table import METRICS
from discreet.noise.arc import CircularArc, simulate_arc_counts
from discreet.noise.arc_decoder import decode
from discreet.statistic.observed import NoiseDistribution, NoisyHistogram

EDGES = Edges.realise(Warped(32))


def logits(positives, negatives, seed=0):
    """Scores of a binormal classifier, the labels, as logits."""
    rng = np.random.default_rng(seed)
    shift = np.repeat([-2.0, 1.0], [negatives, positives])
    return shift + 1.5 * rng.standard_normal(shift.size), np.repeat(
        [0, 1], [negatives, positives]
    )


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def cells_of(scores, labels, edges=EDGES):
    cells = edges.bins_of(scores).astype(np.int64) + len(edges) * labels
    return np.bincount(cells, minlength=2 * len(edges))


def decoded(scores, labels, epsilon, edges=EDGES, seed=1):
    arc = CircularArc(Fraction(epsilon), edges)
    exact = cells_of(scores, labels, edges)
    return decode(simulate_arc_counts(arc, exact, np.random.default_rng(seed)), arc)


def test_many_clients_give_the_histogram_back_and_mirrored_symbols_do_not():
    z, labels = logits(400_000, 600_000)
    arc, exact = CircularArc(Fraction(5), EDGES), cells_of(sigmoid(z), labels)
    total = simulate_arc_counts(arc, exact, np.random.default_rng(1))
    right, mirrored = (
        np.abs(decode(symbols, arc).counts - exact).sum() / exact.sum()
        for symbols in (total, total[::-1])
    )
    assert right < 0.02
    assert mirrored > 0.1


def test_the_curve_through_the_decoded_counts_has_the_pooled_auc():
    z, labels = logits(8_000, 24_000)
    found = decoded(sigmoid(z), labels, 2)
    observed = NoisyHistogram(EDGES, *np.split(found.counts, 2), found.noise)
    curves = Flat("pchip").fit(observed).curves
    below = np.searchsorted(np.sort(z[labels == 0]), z[labels == 1])
    assert roc_area(curves.roc) == pytest.approx(below.mean() / 24_000, abs=0.02)


@pytest.mark.parametrize(
    ("positives", "negatives", "enough"),
    [(500, 24_500, False), (24_500, 500, False), (8_000, 24_000, True)],
)
def test_a_class_that_noise_hides_at_epsilon_1_is_refused(positives, negatives, enough):
    z, labels = logits(positives, negatives)
    for seed in range(10):
        refusal = decoded(sigmoid(z), labels, 1, seed=seed).refusal
        assert (refusal is None) == enough
        assert enough or "too little data for this epsilon" in refusal


def test_scores_squeezed_into_few_bins_earn_a_warning():
    z, labels = logits(8_000, 24_000)
    assert decoded(sigmoid(z), labels, 2).notes == ()
    (warning,) = decoded(0.45 + 0.1 * sigmoid(z), labels, 2).notes
    assert "few bins" in warning


def test_decoding_is_deterministic_and_does_not_touch_the_total():
    arc, exact = CircularArc(Fraction(2), EDGES), np.arange(64) * 50
    total = simulate_arc_counts(arc, exact, np.random.default_rng(1))
    before = total.copy()
    one, other = decode(total, arc), decode(total, arc)
    assert (total == before).all()
    assert np.array_equal(one.counts, other.counts)
    assert np.array_equal(one.noise.matrix, other.noise.matrix)


def test_logits_and_probabilities_decode_alike():
    z, labels = logits(8_000, 24_000)
    edges = Edges.realise(Warped(32), ScoreRange.declare("logit"))
    one = decoded(sigmoid(z), labels, 5)
    other = decoded(z, labels, 5, edges)
    moved = np.abs(one.counts - other.counts)
    assert moved.sum() < 10  # an example or two next to a snapped edge


def test_thresholds_as_further_edges_do_not_spoil_the_fit():
    """Narrow bins hold few examples; the model must not take that for roughness."""
    z, labels = logits(8_000, 24_000)
    edges = Edges.realise(Warped(32), thresholds=(0.3, 0.301, 0.7))
    found = decoded(sigmoid(z), labels, 2, edges)
    exact = cells_of(sigmoid(z), labels, edges)
    wrong = np.abs(found.counts - exact).sum() / exact.sum()
    plain = decoded(sigmoid(z), labels, 2)
    before = np.abs(plain.counts - cells_of(sigmoid(z), labels)).sum()
    assert wrong < 1.5 * before / 32_000


def test_known_score_values_are_placed_by_number():
    rng = np.random.default_rng(2)
    edges = Edges.realise(Support((0.0, 0.2, 0.4, 0.6, 0.8, 1.0)))
    labels = (rng.random(200_000) < 0.4).astype(int)
    scores = edges.array[rng.binomial(5, 0.3 + 0.4 * labels)]
    found = decoded(scores, labels, 5, edges)
    exact = cells_of(scores, labels, edges)
    assert found.counts == pytest.approx(exact, rel=0.1, abs=600)


def test_the_law_gives_the_covariance_of_each_bin_and_draws_from_it():
    z, labels = logits(8_000, 24_000)
    found = decoded(sigmoid(z), labels, 2)
    noise: NoiseDistribution = found.noise
    at = found.counts
    draws = noise.sample(at, 4_000, np.random.default_rng(1))
    each = noise.covariance(at)
    assert draws[:, :32].var(axis=0) == pytest.approx(each.negatives, rel=0.15)
    assert draws[:, 32:].var(axis=0) == pytest.approx(each.positives, rel=0.15)
    cross = (draws[:, :32] * draws[:, 32:]).mean(axis=0)
    assert cross == pytest.approx(each.cross, abs=0.1 * noise.scale**2)
    assert draws[:, 32:].sum(axis=1).std() == pytest.approx(noise.class_sd, rel=0.1)


@pytest.mark.parametrize("total", [[1] * 63, [-1] + [1] * 63, [0] * 64])
def test_what_is_no_tally_is_refused(total):
    with pytest.raises(ReleaseError):
        decode(np.array(total), CircularArc(Fraction(1), EDGES))


def test_too_few_bins_for_third_differences_are_refused():
    arc = CircularArc(Fraction(1), Edges.realise(Warped(3)))
    with pytest.raises(PlanError, match="4 bins or more"):
        decode(np.ones(6, dtype=np.int64), arc)


def heaped(seed, examples=30_000):
    """Scores of which a third of the negatives' and a tenth of the positives' are 0."""
    z, labels = logits(examples // 10, examples - examples // 10, seed)
    at_zero = np.random.default_rng(seed).random(z.size) < np.where(labels, 0.1, 0.33)
    return np.where(at_zero, 0.0, sigmoid(z)), labels


def test_scores_that_heap_at_an_end_are_not_smoothed_into_its_neighbour():
    smooth, free = [], []
    for seed in range(6):
        scores, labels = heaped(seed)
        exact = cells_of(scores, labels).reshape(2, -1).sum(axis=0)[:3]
        found = decoded(scores, labels, 5, seed=seed)
        for errors, counts in (
            (smooth, found.noise.otherwise[1]),
            (free, found.counts),
        ):
            errors.append(np.sum(np.split(counts, 2), axis=0)[:3] - exact)
    assert np.square(free).mean() < 0.7 * np.square(smooth).mean()


def read(found):
    return Flat("pchip").fit(
        NoisyHistogram(EDGES, *np.split(found.counts, 2), found.noise)
    )


def test_the_interval_of_an_area_reaches_to_what_a_smooth_heap_would_make_it():
    scores, labels = heaped(1)
    found = decoded(scores, labels, 5)
    smooth = np.split(found.noise.otherwise[1], 2)
    smooth = NoisyHistogram(EDGES, *smooth, found.noise)
    way = roc_area(Flat("pchip").fit(smooth).curves.roc) - roc_area(
        read(found).curves.roc
    )
    binning = measure(METRICS["auc"], read(found)).binning
    reach = binning.above if way > 0 else binning.below
    assert reach >= abs(way) - 1e-12 > 0, "but for the last bits of two sums"


def test_ends_that_hold_little_stay_smooth():
    z, labels = logits(8_000, 24_000)
    found = decoded(sigmoid(z), labels, 5)
    assert len(found.noise.otherwise) == 1
    assert len(read(found).decodings) == 1


def saturated(seed, examples=20_000, most=0.7):
    """Calibrated scores, but rates that stop rising at ``most``."""
    rng = np.random.default_rng(seed)
    scores = sigmoid(rng.normal(-4.0, 2.0, examples))
    return scores, (rng.random(examples) < np.minimum(scores, most)).astype(np.int64)


def average_precision(negatives, positives):
    """Precision at the middle of each bin, weighted by its positives."""
    tp, fp = (np.cumsum(c[::-1]) - c[::-1] / 2 for c in (positives, negatives))
    kept = positives[::-1] > 0
    return float((positives[::-1] * tp)[kept] @ (1 / (tp + fp)[kept]) / positives.sum())


def test_odds_that_may_stop_rising_are_right_where_rates_stop_rising():
    """Odds in a line draw the head too high there, and no posterior of theirs knows."""
    errors = []
    for seed in range(12):
        scores, labels = saturated(seed)
        found = decoded(scores, labels, 5, seed=seed)
        each = (cells_of(scores, labels), found.counts, found.noise.otherwise[0])
        exact, *both = (average_precision(*np.split(c, 2)) for c in each)
        errors.append(np.array(both) - exact)
    line, constant = np.mean(errors, axis=0)
    assert line > 0.01
    assert abs(constant) < line / 2


def test_an_interval_reaches_to_the_other_odds_on_their_side_alone():
    found = read(decoded(*saturated(3), 5))
    row, other = METRICS["average_precision"], found.decodings[0]
    one = measure(row, replace(found, decodings=(other,)))
    alone = measure(row, replace(found, decodings=()))
    way = one.value - row.measure.value(other.fit)
    assert one.value == alone.value
    assert way > 0.005 > alone.binning.typical
    low, high = alone.interval()
    assert one.interval().low == pytest.approx(low + alone.binning.typical - way)
    assert one.interval().high == high

"""The default estimator under noise: its readings, fallbacks and refusals."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from discreet.data.edges import Edges, Listed, Support, Uniform, Warped
from discreet.data.prior_spread import PriorSpread
from discreet.errors import PlanError
from discreet.estimate.areas import area_error
from discreet.estimate.curves import Polyline
from discreet.estimate.fit import Flat
from discreet.estimate.smooth_fit import Smooth
from discreet.estimate.spline_model import ModelAverage
from discreet.estimate.ties import Ties, find_ties
from discreet.metrics.errors import measures
from discreet.metrics.table import METRICS
from discreet.noise.laplace import LaplaceNoise
from discreet.plan.bins import bins_under_noise
from discreet.statistic.observed import BinCovariance
from histograms import counted, following, histogram, noisy

pytestmark = pytest.mark.long

ALL = ("auc", "average_precision", "aupr", "brier")


def binormal(rng, negatives=8000, positives=2000, gap=2.0):
    """Scores of a calibrated-looking classifier, and their labels."""
    logits = np.concatenate(
        [rng.normal(-1 - gap, 1.6, negatives), rng.normal(-1 + gap / 4, 1.6, positives)]
    )
    labels = np.repeat([0.0, 1.0], [negatives, positives])
    return 1 / (1 + np.exp(-logits)), labels


def exact_roc(scores, labels):
    """Return the ROC curve of the rows; ties are one step."""
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scores[order])), scores.size - 1)
    tp = np.append(0.0, np.cumsum(labels[order])[last])
    fp = np.append(0.0, last + 1.0) - tp
    return Polyline(fp / fp[-1], tp / tp[-1])


@pytest.fixture
def data(rng):
    return binormal(rng)


# -- the rule for bins -------------------------------------------------------


@pytest.mark.parametrize(
    ("minority", "epsilon", "bins"),
    [(1e4, 1, 72), (1e4, 0.3, 28), (1e4, 0.1, 20), (1e5, 1, 128), (1e5, 0.3, 70)],
)
def test_the_number_of_bins_follows_the_rule(minority, epsilon, bins):
    assert bins_under_noise(minority, epsilon) == bins
    # A look spends on finding the scores, and then needs fewer bins.
    assert bins_under_noise(minority, epsilon, placed=True) < bins


def test_more_data_and_a_larger_epsilon_never_mean_fewer_bins():
    grid = [bins_under_noise(10.0**k, 1.0) for k in range(9)]
    assert grid == sorted(grid)
    grid = [bins_under_noise(1e4, e) for e in (0.01, 0.1, 0.5, 1.0, 5.0, 50.0)]
    assert grid == sorted(grid)
    assert {b % 2 for b in grid} == {0}


@pytest.mark.parametrize("bad", [0, -1.0, np.inf, np.nan])
def test_the_rule_refuses_impossible_facts(bad):
    with pytest.raises(PlanError, match="positive"):
        bins_under_noise(bad, 1.0)
    with pytest.raises(PlanError, match="positive"):
        bins_under_noise(1e4, bad)


# -- reading by the model ----------------------------------------------------


def test_it_errs_less_than_the_flat_estimator(data, rng):
    exact = counted(*data, Edges.realise(Warped(14)))
    truth = exact_roc(*data)
    ratios = []
    for _ in range(20):
        observed = noisy(exact, 10.0, rng)
        smooth, flat = (
            area_error(truth, e.fit(observed).curves.roc) for e in (Smooth(), Flat())
        )
        ratios.append((smooth, flat))
    smooth, flat = np.mean(ratios, axis=0)
    assert smooth < 0.9 * flat


def test_the_curve_passes_through_its_own_counts(data, rng):
    observed = noisy(counted(*data, Edges.realise(Warped(20))), 3.0, rng)
    curves = Smooth().fit(observed).curves
    f, t = curves.roc.at((curves.fpr + curves.tpr) / 2)
    np.testing.assert_allclose(f, curves.fpr, atol=1e-9)
    np.testing.assert_allclose(t, curves.tpr, atol=1e-9)
    assert curves.thresholds.size == 21


@pytest.mark.parametrize(
    "edges",
    [
        Edges.realise(Warped(13), thresholds=[0.1, 0.5, 0.51]),
        Edges.realise(Warped(20, exponent=1.0)),
        Edges.realise(Uniform(20)),
        Edges.realise(Listed((0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0))),
    ],
)
def test_any_edges_will_do(edges, data, rng):
    exact = counted(*data, edges)
    observed = noisy(exact, 2.0, rng)
    assert Smooth().fit(observed).way == "model"
    right = measures(Flat("pchip").fit(exact), ["auc"])["auc"].value
    found = measures(Smooth().fit(observed), ["auc"])["auc"].value
    assert found == pytest.approx(right, abs=0.015)


# -- fallbacks ---------------------------------------------------------------


def test_exact_counts_are_read_as_flat_reads_them(data):
    exact = counted(*data, Edges.realise(Warped(64)))
    assert measures(Smooth().fit(exact), ALL) == measures(Flat().fit(exact), ALL)
    assert Smooth().fit(exact).way == "flat"
    np.testing.assert_array_equal(
        Smooth().fit(exact).curves.roc.fpr, Flat().fit(exact).curves.roc.fpr
    )


def tied(rng, size=20_000):
    votes = rng.choice(6, size=size, p=[0.55, 0.15, 0.1, 0.08, 0.07, 0.05]) / 5
    return votes, (rng.random(size) < 0.05 + 0.8 * votes).astype(float)


@pytest.mark.parametrize(("bins", "scale"), [(40, 1.0), (16, 3.3), (14, 10.0)])
def test_ties_are_joined_by_straight_lines(bins, scale, rng):
    scores, labels = tied(rng)
    exact = counted(scores, labels, Edges.realise(Warped(bins)))
    observed = noisy(exact, scale, rng)
    fit = Smooth().fit(observed)
    assert fit.way == "ties"
    assert fit.notes == ()  # what shares a bin is tied: no edge could part it
    # Six values are six steps of the curve and nothing in between.
    assert fit.curves.roc.knots[0].size == 7
    truth = counted(scores, labels, Edges.realise(Support(tuple(np.arange(6) / 5))))
    right = measures(Flat().fit(truth), ALL)
    found = measures(Smooth().fit(observed), ALL)
    for metric in ("auc", "average_precision", "aupr"):
        assert found[metric].value == pytest.approx(
            right[metric].value, abs=4 * found[metric].noise
        )
    bent = measures(Flat("pchip").fit(observed), ["auc"])["auc"].value
    assert abs(found["auc"].value - right["auc"].value) < abs(bent - right["auc"].value)


def heaped(rng, share, size=40_000):
    """Scores of which a share, mostly negatives, is exactly 0."""
    z = rng.normal(-1.5, 1.5, size)
    labels = (rng.random(size) < 1 / (1 + np.exp(-z))).astype(float)
    zero = rng.random(size) < share * np.where(labels > 0, 0.25, 1.0)
    return np.where(zero, 0.0, 1 / (1 + np.exp(-z))), labels


def test_examples_beyond_the_farthest_edge_are_one_tie_and_the_rest_is_modelled(rng):
    scores, labels = heaped(rng, 0.4)
    exact = counted(scores, labels, Edges.realise(PriorSpread(40, 0.2)))
    fit = Smooth().fit(noisy(exact, 3.0, rng))
    assert fit.way == "model"
    assert fit.curves.ties is not None
    assert fit.curves.ties.tolist() == [False] * 39 + [True]
    # One straight segment for the heap, in the drawn curve too.
    assert fit.curves.roc.tied.sum() == 1
    truth = exact_roc(scores, labels)
    found = area_error(truth, fit.curves.roc)
    bent = Smooth()._drawn(
        fit.observed,
        ModelAverage(
            np.stack([fit.counts.negatives, fit.counts.positives])[:, :, None],
            following(np.ones(80)),
            np.zeros((1, 80)),
        ),
        Ties(np.zeros(40, dtype=bool), np.zeros(40, dtype=bool)),
        (),
        stepped=False,
    )
    assert found < area_error(truth, bent.curves.roc) / 2
    # The PR curve has a step there: constant to the last recall.
    line = fit.curves.pr.polyline(8)
    assert line.y[-1] == line.y[-2]
    assert line.x[-2] < line.x[-1]


def test_ties_among_spread_scores_are_found_bin_by_bin(rng):
    # Four heavy values below, a smooth hump above: gaps only beside the values.
    total = np.concatenate([np.tile([3000.0, 0.0], 4), np.full(12, 400.0)])
    edges = Edges.realise(Warped(20))
    exact = histogram(edges, total * 0.7, total * 0.3)
    found = find_ties(noisy(exact, 1.0, rng))
    assert np.flatnonzero(found.gaps).tolist() == [1, 3, 5, 7]
    assert {0, 2, 4, 6} <= set(np.flatnonzero(found.tied).tolist())
    assert not found.tied[9:].any()
    few = replace(exact, negatives=np.r_[3000.0, 0.0, 3000.0, 0.0, np.full(16, 900.0)])
    assert not find_ties(noisy(few, 1.0, rng)).tied.any()


@pytest.mark.parametrize(
    ("scores", "rule", "interpolation"),
    [
        (tied, Support(tuple(np.arange(6) / 5)), "linear"),
        (binormal, Listed((0.0, 0.05, 0.3, 1.0)), "pchip"),
    ],
)
def test_known_values_and_few_bins_are_read_without_a_model(
    rng, scores, rule, interpolation
):
    fit = Smooth().fit(noisy(counted(*scores(rng), Edges.realise(rule)), 1.0, rng))
    assert (fit.way, fit.curves.interpolation) == ("flat", interpolation)
    assert (fit.notes == ()) == (scores is tied)  # three bins are crowded


def test_a_jagged_histogram_that_no_noise_explains_is_kept(rng):
    # Alternating heavy and light bins: real, if strange. Light is not empty.
    jagged = np.tile([5000.0, 300.0], 10)
    edges = Edges.realise(Warped(20))
    observed = noisy(histogram(edges, jagged, jagged[::-1]), 1.0, rng)
    counts = Smooth().fit(observed).counts
    np.testing.assert_allclose(counts.negatives, observed.negatives, atol=5.0)
    np.testing.assert_allclose(counts.positives, observed.positives, atol=5.0)


@dataclass(frozen=True)
class OtherLaw:
    """A law that is not Laplace: wider, and perhaps shared by the classes."""

    variance: float
    cross: float = 0.0

    @property
    def scale(self):
        return self.variance**0.5

    def covariance(self, at):
        each = np.full(at.size // 2, self.variance)
        return BinCovariance(each, each, np.full(at.size // 2, self.cross))


def test_any_law_is_read_by_its_variance(data, rng):
    observed = noisy(counted(*data, Edges.realise(Warped(20))), 3.0, rng)
    same = replace(observed, noise=OtherLaw(LaplaceNoise(3.0).variance))
    np.testing.assert_allclose(
        Smooth().fit(same).curves.roc.tpr,
        Smooth().fit(observed).curves.roc.tpr,
        atol=1e-12,
    )
    assert Smooth().fit(replace(observed, noise=OtherLaw(18.0, 9.0))).way == "flat"


# -- refusals ----------------------------------------------------------------


@pytest.mark.parametrize("positives", [-500.0, 0.0, 40.0])
def test_too_little_data_for_epsilon_is_unusable_and_says_why(positives):
    edges = Edges.realise(Warped(14))
    n = np.full(14, 700.0)
    p = np.full(14, positives / 14)
    observed = histogram(edges, n, p, LaplaceNoise(10.0))
    found = measures(Smooth().fit(observed), ALL)
    for metric in ("auc", "average_precision", "aupr"):
        assert np.isnan(found[metric].value)
        assert found[metric].unusable is not None
        assert "positives" in found[metric].unusable
        assert "larger epsilon" in found[metric].unusable
    curves = Smooth().fit(observed).curves
    assert np.isnan(curves.tpr).all()
    assert Smooth().fit(observed).way == "unusable"
    # Positives and negatives trade places in the message, not in the rule.
    swapped = histogram(edges, p, n, LaplaceNoise(10.0))
    assert "negatives" in Smooth().fit(swapped).refusal


def test_enough_data_is_not_refused():
    sd = np.sqrt(14 * LaplaceNoise(10.0).variance)
    shape = np.linspace(0.5, 1.5, 14) / 14
    for times, usable in ((3.9, False), (4.1, True)):
        few, law = times * sd * shape, LaplaceNoise(10.0)
        observed = histogram(Edges.realise(Warped(14)), 5000 * shape[::-1], few, law)
        assert (Smooth().fit(observed).way != "unusable") is usable


def test_scores_in_few_bins_are_noted_and_never_refused(data, rng):
    scores, labels = data
    edges = Edges.realise(Warped(15))
    for crowded in (0.45 + 0.1 * scores, scores**8):
        fit = Smooth().fit(noisy(counted(crowded, labels, edges), 1.0, rng))
        assert fit.refusal is None
        assert "pilot round" in fit.notes[0]
        assert fit.other.share == 1.0
    for bins in (14, 40, 96):
        plain = counted(scores, labels, Edges.realise(Warped(bins)))
        assert Smooth().fit(noisy(plain, 1.0, rng)).notes == ()


def test_differing_scores_beyond_the_farthest_edge_are_noted_and_allowed_for(rng):
    z = 4 * rng.normal(-5.2, 1.7, 200_000)  # four times too sure, 70% of it below -14
    labels = rng.random(z.size) < 1 / (1 + np.exp(-z / 4))
    edges = Edges.realise(PriorSpread(40, 0.016))
    fit = Smooth().fit(noisy(counted(1 / (1 + np.exp(-z)), labels, edges), 1.0, rng))
    auc = measures(fit, ("auc",))["auc"]
    low, high = auc.interval()
    assert "beyond the farthest edge" in fit.notes[0]
    assert low < roc_auc_score(labels, z) < high
    assert high - low < 0.25
    few = np.where(rng.random(z.size) < 0.01, 0.0, 0.5 + z / 100)  # a harmless heap
    fit = Smooth().fit(noisy(counted(few.clip(0, 1), labels, edges), 1.0, rng))
    assert not any("farthest" in note for note in fit.notes)


# -- the spread of the noise -------------------------------------------------


def test_the_noise_of_each_metric_is_what_simulation_finds(data, rng):
    edges = Edges.realise(Warped(20))
    exact = counted(*data, edges)
    noise = LaplaceNoise(3.0)
    fit = replace(
        Smooth()._flat(replace(exact, noise=noise), find_ties(exact)), counts=exact
    )  # what the noise does at the true counts
    draws = [noisy(exact, 3.0, rng) for _ in range(400)]
    for metric, above in (
        ("auc", 1.15),
        # Its highest bins hold few examples: an upper estimate.
        ("average_precision", 1.6),
        ("brier", 1.15),
    ):
        predicted = measures(fit, [metric])[metric].noise
        values = [METRICS[metric].measure.value(Flat("pchip").fit(d)) for d in draws]
        assert 1 / 1.15 < predicted / np.std(values) < above


def test_intervals_cover_the_exact_value(data, rng):
    exact = counted(*data, Edges.realise(Warped(20)))
    right = {
        m: e.value
        for m, e in measures(
            Flat("pchip").fit(counted(*data, Edges.realise(Warped(2048)))), ALL
        ).items()
    }
    inside = dict.fromkeys(ALL, 0)
    for _ in range(100):
        found = measures(Smooth().fit(noisy(exact, 3.0, rng)), ALL)
        for metric in ALL:
            low, high = found[metric].interval(0.95)
            inside[metric] += low <= right[metric] <= high
    # Binomial(100, .95) stays above 85 but for 4 in 100,000 runs.
    assert min(inside.values()) >= 86


def test_counts_that_resist_the_model_are_read_flat(data, rng, monkeypatch):
    observed = noisy(counted(*data, Edges.realise(Warped(20))), 3.0, rng)
    expected = Flat("pchip").fit(observed).curves.roc
    cells = np.full((2, 20, 8), observed.total_negatives)
    for average in (
        None,
        ModelAverage(cells, following(np.ones(40)), np.zeros((1, 40))),
    ):
        monkeypatch.setattr(
            "discreet.estimate.smooth_fit.symmetric_average",
            lambda *_, average=average, **__: average,
        )
        fit = Smooth().fit(observed)
        assert fit.way == "flat"
        np.testing.assert_array_equal(fit.curves.roc.tpr, expected.tpr)


def test_the_model_never_moves_a_count_by_more_than_the_largest_noise(
    data, rng, monkeypatch
):
    observed = noisy(counted(*data, Edges.realise(Warped(20))), 3.0, rng)
    moved = np.stack([observed.negatives, observed.positives])
    moved[:, 4] += 100.0
    monkeypatch.setattr(
        "discreet.estimate.smooth_fit.symmetric_average",
        lambda *_, **__: ModelAverage(
            np.repeat(np.maximum(moved, 0)[:, :, None] / 8, 8, axis=2),
            following(np.ones(40)),
            np.zeros((1, 40)),
        ),
    )
    reach = (np.log(2 * 20) + 3) * np.sqrt(LaplaceNoise(3.0).variance / 2)
    counts = Smooth().fit(observed).counts
    assert counts.negatives[4] == pytest.approx(observed.negatives[4] + reach)
    assert counts.positives[4] == pytest.approx(observed.positives[4] + reach)


def test_what_came_with_the_release_is_passed_on(data, rng):
    exact = counted(*data, Edges.realise(Warped(20)))
    observed = replace(noisy(exact, 3.0, rng), notes=("wider noise",))
    assert Smooth().fit(observed).notes == ("wider noise",)
    counts = Smooth().fit(observed).counts
    assert (counts.negatives >= 0).all()
    assert counts.total_positives == pytest.approx(observed.total_positives, rel=0.05)


# -- orientation -------------------------------------------------------------

# fmt: off
ORIENTED = {
    "two maxima of the evidence": (3.0,
        (20, 13, 11, 27, 34, 6, 2, 7, 12, 3), (11, -5, -6, 2, -1, 17, 83, -2, 10, 2)),
    "lone heavy bins": (10.0,
        (10, 13, 2, 4, -2, 154, 739), (3, 743, 3, -10, 542, -29, 688)),
    "a search that goes the other way": (3.0,
        (-1, 37, 12, 5, 11, 15, 3), (103, 15, 5, 32, -5, 7, 14)),
    "more positives than negatives": (1.0,
        (-2, -3, 4, 0, -1, 168, 1, 53), (-1, 0, 0, -2, 0, 1044, 1, 552)),
    "equal classes": (0.2, (0, 0, 83, 0, 0), (0, 0, 83, 0, 0)),
    "each class its own mirror image": (10.0,
        (316, 803, 1370, 1163, 1163, 1370, 803, 316), (22, -2, 17, 49, 49, 17, -2, 22)),
    "each class the other's mirror image": (1.0,
        (0, 0, 3208, 7205, -1), (-1, 7205, 3208, 0, 0)),
    "bins that hardly rise": (3.0,
        (-5, -3, 47, 757, 0, -3), (511, -7, 8016, 778, 1, 4)),
    "as many positives as negatives": (1.0,
        (500, 300, 120, 60, 20), (10, 90, 150, 350, 400)),
}
# fmt: on


def fitted_auc(edges, scale, negatives, positives):
    fit = Smooth().fit(histogram(edges, negatives, positives, LaplaceNoise(scale)))
    assert fit.way == "model"
    return measures(fit, ["auc"])["auc"].value


@pytest.mark.parametrize("release", ORIENTED.values(), ids=ORIENTED)
def test_a_swapped_or_turned_release_has_the_swapped_or_turned_fit(release):
    scale, negatives, positives = release
    edges = Edges.realise(Warped(len(negatives)))
    found = fitted_auc(edges, scale, negatives, positives)
    mirrored = 1 - found
    for wanted, low, high in (
        (mirrored, positives, negatives),
        (mirrored, negatives[::-1], positives[::-1]),
        (found, positives[::-1], negatives[::-1]),
    ):
        assert fitted_auc(edges, scale, low, high) == pytest.approx(wanted, abs=1e-9)


def test_turned_edges_turn_the_fit_although_they_are_rounded():
    """Counts that no smooth curve fits make much of a last bit of their edges."""
    values = (0.0, 1 / 6, 2 / 6, 0.5, 4 / 6, 5 / 6, 1.0)
    negatives, positives = (0, 205, 0, 926, 0, 0), (0, 679, 0, 276, 0, 0)
    for inner in ((), (0.01, 0.013)):
        edges = Edges.realise(Listed(values), thresholds=inner)
        turned = Edges.realise(Listed(tuple(1 - v for v in edges.values[::-1])))
        low, high = ((0,) * len(inner) + row for row in (negatives, positives))
        assert fitted_auc(turned, 0.2, high[::-1], low[::-1]) == pytest.approx(
            fitted_auc(edges, 0.2, low, high), abs=1e-9
        )

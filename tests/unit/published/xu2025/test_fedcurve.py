"""The papers' curves: quantiles, ECDFs, ROC and PR with both strategies."""

import math

import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from discreet.data.edges import Edges, Uniform
from discreet.data.examples import Examples
from discreet.errors import InputError, PlanError, ReleaseError
from discreet.estimate.areas import area_error
from discreet.noise.laplace import LaplaceNoise, simulate_discrete_laplace
from discreet.published.xu2025.fedcurve import (
    PAPER_PRESET,
    FedCurve,
    ScoreCurves,
    tree_height,
)
from discreet.published.xu2025.quantiles import (
    Ecdf,
    exact_quantiles,
    quantile_fractions,
    tree_quantiles,
)
from discreet.statistic.hierarchy import NoisyTree, merged_levels


@pytest.fixture
def sample(rng):
    labels = (rng.random(20_000) < 0.3).astype(int)
    scores = 1 / (1 + np.exp(-rng.normal(1.6 * labels - 1.2, 1.1)))
    return scores, labels


def released(method, scores, labels, epsilon=None, rng=None):
    tree = method.hierarchy()
    counts = tree.count(Examples(scores, labels)).astype(float)
    if epsilon is None:
        return NoisyTree.from_release(tree, counts, variance=0.0)
    distribution = LaplaceNoise(tree.height / epsilon)
    noise = simulate_discrete_laplace(distribution.scale, counts.shape, rng)
    return NoisyTree.from_release(tree, counts + noise, variance=distribution.variance)


def roc_error(curves, scores, labels):
    fpr, tpr, _ = roc_curve(labels, scores)
    return area_error((fpr, tpr), curves.roc)


@pytest.mark.parametrize("b", [2, 3, 4, 10])
@pytest.mark.parametrize("q", [2, 9, 10, 64, 100, 1000, 1024])
def test_the_height_is_the_least_that_holds_the_quantiles_plus_c(q, b):
    h = tree_height(q, b, extra=3) - 3
    assert b**h >= q
    assert h == 1 or b ** (h - 1) < q


def test_the_papers_largest_setting_sends_about_8000_integers_a_class():
    tree = PAPER_PRESET.hierarchy()
    assert tree.height == 12
    assert tree.size == 2 * (2**13 - 2)


@pytest.mark.parametrize("wrong", [{"quantiles": 1}, {"branching": 1}])
def test_settings_that_make_no_tree_are_refused(wrong):
    with pytest.raises(PlanError):
        FedCurve(**wrong)


@pytest.mark.parametrize(
    ("levels", "fractions", "places"),
    [
        # .05 of the mass is within half an average leaf (1/16) of nothing: no search.
        (
            merged_levels(np.array([0.0, 10, 0, 40, 0, 0, 45, 5]), 2, 3),
            [0.05, 0.3, 0.8, 0.99],
            [0.0, 3 / 8, 6 / 8, 7 / 8],
        ),
        # A leaf that reaches the fraction exactly is the quantile.
        ([np.array([6.0, 2.0]), np.array([2.0, 4, 1, 1])], [0.25, 0.75], [0.0, 0.25]),
        # Negative counts are passed over.
        ([np.array([-2.0, 12.0]), np.array([3.0, -5, 6, 6])], [0.5, 0.9], [0.5, 0.75]),
    ],
)
def test_a_quantile_is_the_left_edge_of_the_leaf_that_reaches_it(
    levels, fractions, places
):
    edges = Edges.realise(Uniform(levels[-1].size))
    assert tree_quantiles(levels, edges, np.array(fractions)).tolist() == places


def test_exact_quantiles_are_numpys():
    scores = np.array([0.1, 0.4, 0.4, 0.9])
    found = exact_quantiles(scores, quantile_fractions(4))
    np.testing.assert_allclose(found, [0.1, 0.4, 0.4, 0.9])
    with pytest.raises(InputError):
        exact_quantiles(np.array([]), quantile_fractions(4))


def test_without_repeated_knots_the_ecdf_is_scipys_pchip(rng):
    knots = np.sort(rng.random(20))
    ecdf = Ecdf.through(knots)
    s = np.linspace(knots[0], knots[-1], 1000, endpoint=False)
    expected = PchipInterpolator(knots, np.linspace(0, 1, 20))(s)
    np.testing.assert_allclose(ecdf.at(s), expected, atol=1e-12)
    linear = Ecdf.through(knots, "linear").at(s)
    np.testing.assert_allclose(linear, np.interp(s, knots, np.linspace(0, 1, 20)))


def test_repeated_knots_are_one_jump_and_pchip_starts_afresh_on_each_side():
    scores = np.array([0.1, 0.2, 0.4, 0.4, 0.4, 0.5, 0.7, 0.9])
    heights = np.linspace(0, 1, 8)
    ecdf = Ecdf(scores, heights)
    at = np.array([0.4])
    assert ecdf.before(at) == pytest.approx(heights[2])
    assert ecdf.at(at) == pytest.approx(heights[4])
    left = PchipInterpolator(scores[:3], heights[:3])
    right = PchipInterpolator(scores[4:], heights[4:])
    s = np.linspace(0.1, 0.399, 50)
    np.testing.assert_allclose(ecdf.at(s), left(s), atol=1e-12)
    s = np.linspace(0.4, 0.899, 50)
    np.testing.assert_allclose(ecdf.at(s), right(s), atol=1e-12)


def test_outside_its_knots_an_ecdf_is_0_and_1():
    ecdf = Ecdf.through(np.array([0.2, 0.2, 0.6]))
    s = np.array([0.0, 0.2, 0.6, 1.0])
    assert ecdf.before(s).tolist() == [0.0, 0.0, 1.0, 1.0]
    assert ecdf.at(s).tolist() == [0.0, 0.5, 1.0, 1.0]
    atom = Ecdf.through(np.array([0.5, 0.5, 0.5]))
    assert atom.before(np.array([0.5])) == 0
    assert atom.at(np.array([0.5])) == 1


@pytest.mark.parametrize(
    ("scores", "heights"),
    [
        ([0.5, 0.2], [0.0, 1.0]),
        ([0.2, 0.5], [1.0, 0.0]),
        ([0.2, 0.5], [0.0, 1.5]),
        ([0.2], [0.0, 1.0]),
        ([], []),
    ],
)
def test_what_is_no_ecdf_is_refused(scores, heights):
    with pytest.raises(InputError):
        Ecdf(np.array(scores), np.array(heights))


def test_exact_quantiles_are_within_one_over_q_of_the_exact_areas(rng):
    positives, negatives = rng.beta(3, 2, 101), rng.beta(2, 3, 101)
    method = FedCurve(quantiles=101, interpolation="linear")
    curves = method.exact_curves(negatives, positives)
    scores = np.concatenate([negatives, positives])
    labels = np.repeat([0, 1], 101)
    assert curves.auc == pytest.approx(roc_auc_score(labels, scores), abs=1 / 101)
    expected = average_precision_score(labels, scores)
    assert curves.average_precision == pytest.approx(expected, abs=2 / 101)


def test_ties_are_straight_lines():
    ties = np.array([0.25, 0.25, 0.75, 0.75, 0.75])
    curves = FedCurve(quantiles=5).exact_curves(ties, np.full(5, 0.75))
    line = curves.roc.polyline(4)
    # Two fifths of the negatives, as four quantile gaps see them, lie below.
    assert np.interp(0.25, line.x, line.y) == pytest.approx(0.5)
    assert line.x[0] == line.y[0] == 0
    assert line.x[-1] == line.y[-1] == 1


def test_average_precision_takes_a_step_at_each_tie():
    places = np.array([0.2, 0.2, 0.8, 0.8])
    curves = ScoreCurves(
        Ecdf(places, np.array([0, 0.75, 0.75, 1]), "linear"),
        Ecdf(places, np.array([0, 0.25, 0.25, 1]), "linear"),
        total_negatives=4.0,
        total_positives=4.0,
    )
    scores = np.array([0.2, 0.2, 0.2, 0.8, 0.2, 0.8, 0.8, 0.8])
    labels = np.repeat([0, 1], 4)
    assert curves.auc == pytest.approx(roc_auc_score(labels, scores))
    expected = average_precision_score(labels, scores)
    assert curves.average_precision == pytest.approx(expected)


@pytest.mark.parametrize("interpolation", ["linear", "pchip"])
def test_the_error_of_exact_trees_falls_like_one_over_q(sample, interpolation):
    errors = []
    for quantiles in (8, 64, 512):
        method = FedCurve(quantiles=quantiles, interpolation=interpolation)
        curves = method.curves(released(method, *sample))
        errors.append(roc_error(curves, *sample))
    for quantiles, error in zip((8, 64, 512), errors, strict=True):
        assert error < 0.5 / quantiles


def test_noise_is_worse_than_none_and_less_epsilon_is_worse(sample, rng):
    method = FedCurve(quantiles=32)
    means = [
        np.mean(
            [
                roc_error(method.curves(released(method, *sample, eps, rng)), *sample)
                for _ in range(10)
            ]
        )
        for eps in (1.0, 0.1)
    ]
    exact = roc_error(method.curves(released(method, *sample)), *sample)
    assert exact < means[0] < means[1]


def test_areas_agree_with_the_polylines(sample):
    method = FedCurve(quantiles=64)
    curves = method.curves(released(method, *sample))
    roc, pr = curves.roc.polyline(64), curves.pr.polyline(64)
    area = float(np.diff(roc.x) @ (roc.y[1:] + roc.y[:-1])) / 2
    assert curves.auc == pytest.approx(area, abs=1e-5)
    area = float(np.diff(pr.x) @ (pr.y[1:] + pr.y[:-1])) / 2
    assert curves.average_precision == pytest.approx(area, abs=2e-3)
    assert curves.auc == pytest.approx(roc_auc_score(*sample[::-1]), abs=2e-3)
    expected = average_precision_score(*sample[::-1])
    assert curves.average_precision == pytest.approx(expected, abs=5e-3)


def test_precision_follows_equation_3(sample):
    method = FedCurve(quantiles=16)
    curves = method.curves(released(method, *sample))
    traced = curves.trace(4)
    n, p = curves.total_negatives, curves.total_positives
    some = traced.tpr > 0
    expected = p * traced.tpr[some] / (p * traced.tpr[some] + n * traced.fpr[some])
    np.testing.assert_allclose(traced.precision[some], expected)
    assert traced.precision[0] == 1


def test_combine_merges_what_is_released_and_stays_below_1(sample, rng):
    separate = FedCurve(quantiles=128)
    combine = FedCurve(quantiles=128, strategy="combine")
    observed = released(separate, *sample, 0.5, rng)
    one, other = separate.curves(observed), combine.curves(observed)
    assert combine.hierarchy() == separate.hierarchy()  # the same release, no more
    # The combined ECDF is that of the sum of the two classes' counts.
    expected = tree_quantiles(
        observed.consistent.merged, observed.edges, quantile_fractions(128)
    )
    assert other.everyone.scores.tolist() == expected.tolist()
    assert one.everyone is None
    precision = other.trace(4).precision
    assert precision.min() >= 0
    assert precision.max() <= 1
    assert other.average_precision == pytest.approx(one.average_precision, abs=0.05)
    assert other.average_precision != one.average_precision
    assert other.auc == pytest.approx(one.auc, abs=1e-4)


def test_too_few_examples_for_the_noise_are_refused():
    method = FedCurve(quantiles=4)
    tree = method.hierarchy()
    noisy = np.full(tree.size, -1.0)
    observed = NoisyTree.from_release(tree, noisy, variance=8.0)
    with pytest.raises(ReleaseError, match="too few examples"):
        method.curves(observed)
    ecdf = Ecdf.through(np.array([0.0, 1.0]))
    with pytest.raises(ReleaseError):
        ScoreCurves(ecdf, ecdf, 0.0, 10.0)


def test_names_and_heights_say_the_setting():
    method = FedCurve(quantiles=100, branching=4, extra_height=3, strategy="combine")
    assert method.height == math.ceil(math.log(100, 4)) + 3
    assert "100 quantiles" in method.name
    assert "combine" in method.name

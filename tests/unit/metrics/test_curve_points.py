"""The points that the curve methods return are the estimated curve itself."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from sklearn import metrics as sk

import discreet
from discreet.data.edges import Listed, Support, Uniform
from discreet.data.scores import ScoreRange
from discreet.entropy import Seeded
from discreet.estimate.fit import Flat
from discreet.metrics.curve_points import roc_points
from discreet.metrics.thresholds import at_threshold
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import recommend
from discreet.published.xu2025.fedcurve import FedCurve
from discreet.published.xu2025.range_queries import RangeQueries
from discreet.report.build import evaluation
from discreet.transport.in_process import simulate
from discreet.transport.simulation import run
from label_runs import evaluate_labels

pytestmark = pytest.mark.long

SA = discreet.SecureAggregation()
SIZE = 12_000
DECLARED = (0.31, 0.5)


def smooth(rng, y):
    """Return scores with a density."""
    return rng.beta(np.where(y, 4, 2), np.where(y, 2, 4))


def heaped(rng, y):
    """Return scores of which four in ten positives are the highest possible."""
    return np.where(y & (rng.random(y.size) < 0.4), 1.0, smooth(rng, y))


def rounded(rng, y):
    """Return scores on a grid of 1/50."""
    return np.round(smooth(rng, y) * 50) / 50


def few_values(rng, y):
    """Return scores on five values."""
    return np.round(smooth(rng, y) * 4) / 4


def stepped(rng, y):
    """Return scores on 60 values at random places, several to a bin."""
    values = np.sort(rng.random(60))
    return values[np.searchsorted(values, smooth(rng, y)).clip(0, 59)]


POPULATIONS = (smooth, heaped, rounded, few_values, stepped)
FIVE = Support((0, 0.25, 0.5, 0.75, 1))


@cache
def sample(population):
    rng = np.random.default_rng(11)
    y = rng.random(SIZE) < 0.3
    return discreet.Examples(population(rng, y), y)


@cache
def released(population, epsilon, edges=None, thresholds=DECLARED, seed=0):
    privacy = SA if epsilon is None else discreet.DistributedDP(epsilon)
    plan = recommend(
        PublicFacts(SIZE, 0.3),
        privacy,
        cohort=privacy.cohort(1),
        thresholds=thresholds,
        edges=edges,
    )
    return run(plan, [sample(population)], entropy=Seeded(b"points%d" % seed))


def read_by(result, estimator):
    """Return the evaluation of the same releases by another estimator."""
    return evaluation(
        result.plan, result.source.releases, result.claim, estimator=estimator
    )


def reread(population, epsilon, kind):
    return read_by(released(population, epsilon), Flat(kind))


def labels_only(population, mechanism):
    privacy = discreet.LabelDP(2, mechanism=mechanism)
    sites = [sample(population)]
    return evaluate_labels(sites, privacy=privacy, entropy=Seeded(b"1"))


def published(method, privacy):
    return discreet.evaluate([sample(smooth)], privacy=privacy, method=method)


EXACT_OR_1 = (None, 1)
CASES = {
    f"{made.__name__}: {', '.join(getattr(o, '__name__', str(o)) for o in options)}": (
        lambda m=made, o=options: m(*o)
    )
    for made, cases in (
        (released, product(POPULATIONS, (None, 1, 0.3))),
        (
            released,
            product((smooth, heaped), EXACT_OR_1, map(Uniform, (2, 3, 5, 40))),
        ),
        (reread, product(POPULATIONS, EXACT_OR_1, ("linear", "pchip"))),
        (released, product((smooth,), EXACT_OR_1, (Listed((0, 0.1, 0.15, 0.2, 1)),))),
        (released, product((few_values,), EXACT_OR_1, (FIVE,), ((0.5,),))),
        (labels_only, product((smooth,), ("response", "binned"))),
        (
            published,
            product(
                (FedCurve(quantiles=32), RangeQueries()),
                (SA, discreet.DistributedDP(1)),
            ),
        ),
    )
    for options in cases
}


@pytest.fixture(params=CASES, scope="module")
def result(request):
    return CASES[request.param]()


def test_trapezoids_of_the_points_are_the_quoted_auc(result):
    fpr, tpr, _ = result.roc_curve()
    assert sk.auc(fpr, tpr) == pytest.approx(result.auc.value, abs=1e-4)


def test_points_run_from_infinity_down_and_rise_from_corner_to_corner(result):
    fpr, tpr, thresholds = result.roc_curve()
    assert (fpr[0], tpr[0], thresholds[0]) == (0.0, 0.0, np.inf)
    assert (fpr[-1], tpr[-1]) == pytest.approx((1.0, 1.0))
    assert (np.diff(thresholds) < 0).all()
    assert np.isfinite(thresholds[1:]).all()
    assert min(np.diff(fpr).min(), np.diff(tpr).min()) >= 0
    assert fpr.size < 8000


def test_pr_and_det_points_belong_to_the_same_thresholds(result):
    fpr, tpr, thresholds = result.roc_curve()
    precision, recall, rising = result.precision_recall_curve()
    assert (precision[-1], recall[-1]) == (1.0, 0.0)
    np.testing.assert_array_equal(rising, thresholds[:0:-1])
    np.testing.assert_array_equal(recall, tpr[::-1])
    assert ((precision >= 0) & (precision <= 1)).all()
    false, missed, at = result.curves.det()
    assert (np.diff(at) > 0).all()
    place = np.searchsorted(-thresholds, -at)
    np.testing.assert_array_equal(fpr[place], false)
    np.testing.assert_array_equal(1 - tpr[place], missed)


def test_declared_thresholds_have_a_point_to_the_last_bit(result):
    exact_ties = result.observed.exact and result.fit.curves.joined_for_ties
    declared = () if exact_ties else result.plan.thresholds
    assert set(declared) <= set(result.roc_curve().thresholds)
    assert set(declared) <= set(result.precision_recall_curve().thresholds)


def test_a_point_has_the_rates_of_its_threshold(result):
    if result.fit.way == "tree":  # a published curve does not pass through its leaves
        return
    fpr, tpr, thresholds = result.roc_curve()
    for k in np.linspace(1, fpr.size - 1, 40).astype(int):
        found = at_threshold(result.fit, thresholds[k])
        assert found.recall.value == pytest.approx(tpr[k], abs=1e-9)
        assert found.false_positive_rate.value == pytest.approx(fpr[k], abs=1e-9)


def test_dropping_points_changes_no_drawn_curve(result):
    whole, fewer = (result.roc_curve(drop_intermediate=d) for d in (False, True))
    assert fewer.x.size <= whole.x.size
    assert set(fewer.thresholds) <= set(whole.thresholds)
    assert discreet.area_error(tuple(whole[:2]), tuple(fewer[:2])) < 1e-8
    precision, recall, _ = result.precision_recall_curve()
    shorter = result.precision_recall_curve(drop_intermediate=True)
    assert shorter.x.size <= precision.size
    assert sk.auc(shorter.y, shorter.x) == pytest.approx(sk.auc(recall, precision))


def test_steps_of_the_pr_points_are_the_average_precision(result):
    precision, recall, _ = result.precision_recall_curve()
    steps = -float(np.diff(recall) @ precision[:-1])
    # Above the lead the curve is higher than its counts, whose area is quoted.
    lead = result.fit.curves.lead
    hidden = float(result.fit.curves.tpr[lead]) if lead else 0.0
    found = result.average_precision.value
    assert found - 2e-3 <= steps <= found + 2e-3 + hidden


@pytest.mark.parametrize("epsilon", [None, 1, 0.3])
def test_trapezoids_of_smooth_pr_points_are_the_quoted_area(epsilon):
    result = released(smooth, epsilon)
    precision, recall, _ = result.precision_recall_curve()
    assert sk.auc(recall, precision) == pytest.approx(
        result.metrics["aupr"].value, abs=1e-3
    )


@pytest.mark.parametrize("population", [rounded, few_values])
def test_no_threshold_parts_a_tie(population):
    result = released(population, 1)
    values = np.unique(sample(population).to_arrays()[0])
    _, tpr, _ = result.roc_curve()
    assert np.unique(tpr).size <= values.size + 1


@pytest.mark.parametrize("noise", range(3))
@pytest.mark.parametrize("epsilon", [None, 1, 0.3])
def test_a_heap_at_the_highest_score_is_one_piece(epsilon, noise):
    result = released(heaped, epsilon, seed=noise)
    assert result.curves.roc.tied[0]
    fpr, tpr, thresholds = result.roc_curve()
    # Its last bin begins there, or the model found that all of it lies at 1.
    assert thresholds[1] in (result.observed.edges.array[-2], 1.0)
    counted = result.fit.curves.fpr[1], result.fit.curves.tpr[1]
    assert (fpr[1], tpr[1]) == pytest.approx(counted, abs=1e-12)


@pytest.mark.parametrize("noise", range(3))
def test_steps_inside_a_bin_are_one_piece_each(noise):
    result = released(stepped, 1, seed=noise)
    path = result.curves.roc
    assert path.tied.all()
    _, tpr, _ = result.roc_curve()
    # No point lies between two knots; those within 1e-9 of each other are one.
    away = np.abs(tpr[:, None] - path.knots[2]).min(axis=1)
    assert away.max() < 1e-9
    drawn, known = (np.unique(y.round(9)).size for y in (tpr, path.knots[2]))
    assert drawn <= known


@pytest.mark.parametrize("bins", [2, 8])
def test_a_low_precision_at_recall_zero_is_met_close_to_it(bins):
    rng = np.random.default_rng(5)
    y = rng.random(40_000) < 0.05
    scores = np.clip(rng.normal(0.4 + 0.08 * y, 0.15), 0.01, 0.99)
    result = discreet.evaluate(
        [discreet.Examples(scores, y)], edges=Uniform(bins), interpolation="pchip"
    )
    precision, recall, _ = result.precision_recall_curve()
    assert precision[-2] < 0.7
    assert recall[-2] < 1e-6
    assert sk.auc(recall, precision) == pytest.approx(
        result.metrics["aupr"].value, abs=1e-6
    )


def test_points_on_a_grid_are_at_its_multiples():
    result = released(rounded, 1)
    _, _, thresholds = result.roc_curve()
    multiples = np.arange(51) / 50
    assert result.fit.atoms is not None
    assert set(thresholds[1:]) <= set(multiples) | set(DECLARED)


def test_exact_counts_joined_for_ties_are_scikit_learns_points():
    result = read_by(released(smooth, None, Uniform(30)), Flat("linear"))
    scores, labels = sample(smooth).to_arrays()
    edges = result.observed.edges
    binned = edges.array[edges.bins_of(scores)]
    theirs = sk.roc_curve(labels, binned, drop_intermediate=False)
    for ours, other in zip(result.roc_curve(), theirs, strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-12)


@pytest.mark.parametrize("population", [smooth, heaped])
def test_an_empty_bin_at_a_declared_threshold_has_a_point_too(population):
    edges = Listed((0.0, 0.2, 0.4, 0.6, 0.8, 1.0))
    y = np.arange(9000) % 3 == 0
    rng = np.random.default_rng(3)
    scores = population(rng, y)
    scores = np.where((scores >= 0.4) & (scores < 0.8), scores / 2, scores)
    plan = recommend(PublicFacts(), SA, edges=edges, thresholds=(0.5, 0.7))
    made = simulate(plan, [discreet.Examples(scores, y)], entropy=Seeded(b"1"))
    result = evaluation(plan, made, plan.claim("simulated", sites=1))
    _, tpr, thresholds = result.roc_curve()
    recall = np.mean(scores[y] >= 0.7)
    for t in (0.5, 0.7):
        (place,) = np.flatnonzero(thresholds == t)
        assert tpr[place] == pytest.approx(recall)


@pytest.mark.parametrize("kind", ["logit", "other"])
def test_scores_on_other_scales_have_the_same_points(kind):
    scores, labels = sample(smooth).to_arrays()
    z = np.log(scores) - np.log1p(-scores)
    limits = {} if kind == "logit" else {"low": -12.0, "high": 12.0}
    site = discreet.Examples(z, labels, kind=kind, **limits)
    for privacy in (SA, discreet.DistributedDP(1)):
        facts = PublicFacts(SIZE, 0.3, ScoreRange.declare(kind, **limits))
        plan = recommend(facts, privacy, cohort=privacy.cohort(1), thresholds=(0.2,))
        result = run(plan, [site], entropy=Seeded(b"z"))
        fpr, tpr, thresholds = result.roc_curve()
        assert sk.auc(fpr, tpr) == pytest.approx(result.auc.value, abs=1e-4)
        assert np.isfinite(thresholds[1:-1]).all()  # logits have no lower limit
        for k in np.linspace(1, fpr.size - 1, 30).astype(int):
            recall = at_threshold(result.fit, thresholds[k]).recall.value
            assert recall == pytest.approx(tpr[k], abs=1e-9)


def test_points_at_the_edges_alone_are_the_released_thresholds():
    result = released(smooth, 0.3)
    few = roc_points(result.fit, inside_bins=False)
    np.testing.assert_array_equal(few.thresholds, result.fit.curves.thresholds)
    whole = result.roc_curve()
    place = np.searchsorted(-whole.thresholds, -few.thresholds)
    np.testing.assert_array_equal(whole.x[place], few.x)
    np.testing.assert_array_equal(whole.y[place], few.y)
    document = result.exports.to_dict()
    assert document["curve_points"] == "edges of the bins"
    assert document["roc"]["tpr"] == few.y.tolist()

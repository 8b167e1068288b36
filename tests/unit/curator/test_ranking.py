"""Rankings by definition; sensitivities against all rankings and their neighbours."""

import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

import curator_oracles as oracle
from discreet.curator.ranking import (
    LEAST_BETA,
    ap_local_sensitivity,
    ap_positive_moved,
    ap_relabelled,
    ap_smooth_sensitivity,
    auc_local_sensitivity,
    auc_smooth_sensitivity,
    harmonic,
    rank,
)
from discreet.errors import InputError, PlanError

pytestmark = pytest.mark.long


@pytest.mark.parametrize("rows", [2, 3, 4, 5])
def test_rankings_agree_with_the_definitions(rows):
    for groups in oracle.tied_rankings(rows):
        scores, labels = oracle.to_arrays(groups)
        half = rank(labels, scores, ties="scikit-learn")
        strict = rank(labels, scores, ties="paper")
        assert (half.positives, half.negatives) == oracle.class_counts(groups)
        assert half.auc == oracle.auc(groups)
        assert strict.auc == oracle.auc(groups, half_credit=False)
        for found, grouped in ((half, True), (strict, False)):
            expected = float(oracle.average_precision(groups, grouped))
            assert found.average_precision == pytest.approx(expected, rel=1e-15)


def test_ties_are_counted_as_scikit_learn_does(rng):
    labels = rng.integers(0, 2, 500)
    scores = rng.integers(0, 30, 500) + 8 * labels
    found = rank(labels, scores, ties="scikit-learn")
    assert float(found.auc) == pytest.approx(roc_auc_score(labels, scores))
    expected = average_precision_score(labels, scores)
    assert found.average_precision == pytest.approx(expected)


def test_infinite_scores_have_an_order_and_nan_has_none():
    assert rank([0, 1], [-np.inf, np.inf], ties="paper").auc == 1
    with pytest.raises(InputError, match="no number"):
        rank([0, 1], [0.1, np.nan], ties="paper")


@pytest.mark.parametrize("rows", [0, 1])
def test_fewer_than_two_examples_are_refused(rows):
    with pytest.raises(InputError, match="at least 2"):
        rank([1] * rows, [0.5] * rows, ties="scikit-learn")


def test_an_unknown_way_to_count_ties_is_refused():
    with pytest.raises(InputError, match="paper"):
        rank([0, 1], [0.1, 0.2], ties="random")


STRICT = [(rows, False) for rows in range(2, 10)]
TIED = [(rows, True) for rows in range(2, 6)]
SLOW = [pytest.param(rows, True, marks=pytest.mark.slow) for rows in (6, 7)]


def largest_changes(rows, ties, metric):
    """The largest change of a metric from each pair of class counts."""
    found = defaultdict(Fraction)
    for ranking in oracle.rankings(rows, ties):
        key, value = oracle.class_counts(ranking), metric(ranking)
        for other in oracle.neighbours(ranking, ties=ties):
            found[key] = max(found[key], abs(metric(other) - value))
    return found


@pytest.mark.parametrize(("rows", "ties"), STRICT + TIED + SLOW)
@pytest.mark.parametrize("half_credit", [True, False])
def test_theorem_3_is_valid_and_tight_for_auc(rows, ties, half_credit):
    changes = largest_changes(rows, ties, lambda r: oracle.auc(r, half_credit))
    for (n, m), change in changes.items():
        assert change <= auc_local_sensitivity(n, m) + 1e-15
        if n and m:
            assert float(change) == pytest.approx(auc_local_sensitivity(n, m))


@pytest.mark.parametrize(("rows", "ties"), STRICT + TIED + SLOW)
@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("bound", ["exact", "equation-10", "equation-33"])
def test_every_bound_of_average_precision_is_valid(rows, ties, grouped, bound):
    limits = ap_local_sensitivity(np.arange(rows + 1), bound)
    changes = largest_changes(
        rows, ties, lambda r: oracle.average_precision(r, grouped)
    )
    for (n, _), change in changes.items():
        assert change <= limits[n] + 1e-12


@pytest.mark.parametrize("rows", range(4, 10))
def test_the_exact_bound_of_average_precision_is_attained_from_four_positives(rows):
    limits = ap_local_sensitivity(np.arange(rows + 1))
    changes = largest_changes(rows, False, oracle.average_precision)
    for (n, _), change in changes.items():
        if n >= 4:
            assert float(change) == pytest.approx(limits[n], abs=1e-12)


@pytest.mark.parametrize(("rows", "ties"), [(9, False), (5, True)])
def test_each_kind_of_change_of_average_precision_keeps_its_own_bound(rows, ties):
    counts = np.arange(rows + 2)
    relabelled, moved = ap_relabelled(counts), ap_positive_moved(counts)
    for ranking in oracle.rankings(rows, ties):
        n = oracle.class_counts(ranking)[0]
        value = oracle.average_precision(ranking)
        for other in oracle.neighbours(ranking, ties=ties):
            n_other = oracle.class_counts(other)[0]
            change = abs(oracle.average_precision(other) - value)
            if n_other == n:
                assert change <= max(relabelled[n + 1], moved[n]) + 1e-12
            else:
                assert change <= relabelled[max(n, n_other)] + 1e-12


def test_a_moved_positive_needs_its_own_term_among_many_negatives():
    """Two positives, the upper one moved from the top to the bottom."""
    below = ((0, 1),) * 200
    top = ((1, 0), (0, 1), (1, 0), *below)
    bottom = ((0, 1), (1, 0), *below, (1, 0))
    assert bottom in set(oracle.neighbours(top, ties=False))
    change = float(oracle.average_precision(top) - oracle.average_precision(bottom))
    (limit,) = ap_local_sensitivity(np.array([2]))
    assert ap_relabelled(np.array([2]))[0] < change <= limit
    assert change == pytest.approx(limit, abs=0.01)


def test_a_bound_ten_percent_lower_would_be_caught():
    limits = 0.9 * ap_local_sensitivity(np.arange(10))
    changes = largest_changes(9, False, oracle.average_precision)
    assert any(change > limits[n] for (n, _), change in changes.items() if n >= 4)


def test_the_exact_bound_is_about_half_of_the_papers():
    exact, paper = (
        ap_local_sensitivity(np.arange(1001), b) for b in ("exact", "equation-10")
    )
    assert 0.45 < exact[1000] / paper[1000] < 0.5
    assert (exact <= paper).all()


def test_the_sums_agree_with_adding_them_up():
    n = np.arange(2, 2000)
    whole, odd = np.cumsum(1.0 / np.arange(1, 2000))[1:], np.cumsum(1.0 / (2 * n - 1))
    assert harmonic(n) == pytest.approx(whole, rel=1e-13)
    assert ap_relabelled(n) == pytest.approx((whole - 1) / (n - 1), rel=1e-12)
    assert ap_positive_moved(n) == pytest.approx((1 + odd / 2) / n, rel=1e-13)


def test_an_unknown_bound_is_refused():
    with pytest.raises(PlanError, match="equation-33"):
        ap_local_sensitivity(np.arange(5), "tight")


BETAS = [LEAST_BETA, 0.003, 0.02, 0.1, 0.5, 3.0]


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("rows", [2, 3, 10, 101, 400])
def test_the_closed_form_for_auc_is_the_maximum_of_theorem_4(rows, beta):
    local = np.array([auc_local_sensitivity(i, rows - i) for i in range(rows + 1)])
    for n in range(rows + 1):
        away = np.abs(np.arange(rows + 1) - n)
        expected = np.max(local * np.exp(-beta * away))
        found = auc_smooth_sensitivity(n, rows - n, beta)
        assert found == pytest.approx(expected, rel=1e-6)
        assert found >= expected


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("bound", ["exact", "equation-10"])
def test_average_precision_is_the_maximum_of_theorem_6(beta, bound):
    rows = 300
    local = ap_local_sensitivity(np.arange(rows + 1), bound)
    for n in (0, 1, 2, 50, 300):
        expected = np.max(local * np.exp(-beta * np.abs(np.arange(rows + 1) - n)))
        found = ap_smooth_sensitivity(n, beta, bound)
        assert found == pytest.approx(expected, rel=1e-6)
        assert found >= expected


@pytest.mark.parametrize("beta", BETAS)
def test_neighbours_differ_by_at_most_e_to_the_beta(beta):
    rows = 500
    auc = [auc_smooth_sensitivity(n, rows - n, beta) for n in range(rows + 1)]
    ap = [ap_smooth_sensitivity(n, beta) for n in range(rows + 1)]
    for found in (auc, ap):
        steps = np.abs(np.diff(np.log(found)))
        assert steps.max() <= beta
        if beta <= 0.1:  # else the local sensitivity is smooth enough by itself
            assert steps.max() == pytest.approx(beta, rel=1e-6)


def test_a_smoothness_too_small_for_floats_is_refused():
    with pytest.raises(PlanError, match="drown"):
        auc_smooth_sensitivity(5, 5, LEAST_BETA / 2)
    with pytest.raises(PlanError, match="drown"):
        ap_smooth_sensitivity(5, math.nan)

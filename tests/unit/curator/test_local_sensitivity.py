"""The local sensitivities against all rankings and all their neighbours."""

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest

import curator_oracles as oracle
from discreet.curator.sensitivity import (
    ap_local_sensitivity,
    ap_positive_moved,
    ap_relabelled,
    auc_local_sensitivity,
    harmonic,
)
from discreet.errors import InputError

pytestmark = pytest.mark.long

STRICT = [(rows, False) for rows in range(2, 10)]
TIED = [(rows, True) for rows in range(2, 6)]
SLOW = [pytest.param(rows, True, marks=pytest.mark.slow) for rows in (6, 7)]


def rankings(rows, ties):
    return oracle.tied_rankings(rows) if ties else oracle.strict_rankings(rows)


def largest_changes(rows, ties, metric):
    """The largest change of a metric from each pair of class counts."""
    found = defaultdict(Fraction)
    for ranking in rankings(rows, ties):
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
    for ranking in rankings(rows, ties):
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
    with pytest.raises(InputError, match="equation-33"):
        ap_local_sensitivity(np.arange(5), "tight")

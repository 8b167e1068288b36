"""The joint sensitivity of weighted counts, by brute force and by the table."""

from fractions import Fraction

import numpy as np
import pytest

import curator_oracles as oracle
from discreet.curator.ranking import Ranking
from discreet.curator.weighted_count import (
    UNIT,
    WeightTable,
    ap_weights,
    auc_table,
    auc_weights,
    pair_count_weights,
    protect,
)
from discreet.entropy import Seeded
from discreet.errors import PlanError
from discreet.noise.laplace import discrete_laplace

pytestmark = pytest.mark.long

CASES = [(rows, False) for rows in range(2, 10)] + [(rows, True) for rows in (3, 4, 5)]
SLOW = [pytest.param(rows, True, marks=pytest.mark.slow) for rows in (6, 7)]


def integers(table, ranking, value):
    n = oracle.class_counts(ranking)[0]
    weighted = round((value - Fraction(1, 2)) * int(table.weights[n]))
    return weighted, int(table.codes[n])


def joint_sensitivity(table, rows, ties, metric):
    """The largest L1 distance of (Q, G) between neighbours."""
    largest = 0
    for ranking in oracle.rankings(rows, ties):
        q, g = integers(table, ranking, metric(ranking))
        for other in oracle.neighbours(ranking, ties=ties):
            q_other, g_other = integers(table, other, metric(other))
            largest = max(largest, abs(q - q_other) + abs(g - g_other))
    return largest


@pytest.mark.parametrize(("rows", "ties"), CASES + SLOW)
@pytest.mark.parametrize(
    ("weights", "metric", "used"),
    [
        (auc_weights, oracle.auc, 0.999),
        (auc_weights, lambda r: oracle.auc(r, False), 0.999),
        (pair_count_weights, oracle.auc, 1.0),
        (ap_weights, oracle.average_precision, 0.6),
        (ap_weights, lambda r: oracle.average_precision(r, False), 0.6),
    ],
)
def test_weighted_counts_keep_and_use_their_joint_sensitivity(
    rows, ties, weights, metric, used
):
    table = weights(rows)
    assert table.l1 == (2 * rows - 1 if weights is pair_count_weights else UNIT)
    found = joint_sensitivity(table, rows, ties, metric)
    assert used * table.l1 <= found <= table.l1


@pytest.mark.parametrize("rows", [5, 8])
def test_the_codes_are_as_steep_as_any_weights_allow(rows):
    """The formula for the largest change is attained, whatever the weights."""
    rng = np.random.default_rng(rows)
    for _ in range(5):
        weights = np.append(0, rng.integers(1, 1000, rows - 1))
        weights = np.append(weights, 0) * UNIT // 2000
        table = auc_table(weights.astype(np.int64), UNIT)
        for n in range(rows):
            change = 0
            for ranking in oracle.strict_rankings(rows):
                if oracle.class_counts(ranking)[0] != n:
                    continue
                q, _ = integers(table, ranking, oracle.auc(ranking))
                for other in oracle.neighbours(ranking, ties=False):
                    if oracle.class_counts(other)[0] == n + 1:
                        q_other, _ = integers(table, other, oracle.auc(other))
                        change = max(change, abs(q - q_other))
            left = UNIT - int(table.codes[n + 1] - table.codes[n])
            assert left - 2 <= change <= left


@pytest.mark.parametrize("rows", [2, 7, 60, 61, 1000, 20_001])
def test_the_weights_are_symmetric_and_leave_a_quarter_for_the_count(rows):
    table = auc_weights(rows)
    assert (table.weights == table.weights[::-1]).all()
    # The turning points fall between whole numbers: a little less in small tables.
    assert np.diff(table.codes).min() >= (0.25 - 0.4 / rows) * UNIT


@pytest.mark.parametrize("rows", [60, 85, 1000])
def test_the_closed_form_solves_the_recursion(rows):
    w = [0.0]
    for n in range(rows // 2):
        m = rows - n
        grown = w[-1] * (1 - 2 / m) + 1.5
        w.append(n + 1.0 if n + 1 <= rows // 5 else min(grown, n + 1, m - 1))
    found = auc_weights(rows).weights[: rows // 2 + 1] / (UNIT - 1)
    assert found == pytest.approx(np.array(w), abs=2 / UNIT)


def test_larger_weights_are_refused_or_leave_nothing_for_the_count():
    weights = auc_weights(100).weights
    with pytest.raises(PlanError, match=r"exceed|increase"):
        auc_table(weights * 3 // 2, UNIT)


def test_the_scale_is_never_below_the_sensitivity_over_epsilon():
    table = auc_weights(50)
    for epsilon in (Fraction(1, 10), Fraction(1, 3), Fraction(22, 7), Fraction(8)):
        scale = table.scale(epsilon)
        assert (
            table.l1 / epsilon <= scale < table.l1 / epsilon * Fraction(1000001, 10**6)
        )
    with pytest.raises(PlanError, match="too small"):
        table.scale(Fraction(1, 10**9))


def test_counts_and_weights_are_found_again_without_noise():
    for table in (auc_weights(40), ap_weights(40), pair_count_weights(40)):
        counts = table.counts_of(table.codes.astype(float))
        assert counts == pytest.approx(np.arange(41))
        assert table.weights_of(counts) == pytest.approx(table.weights.astype(float))
        beyond = np.array([-1e12, 1e12])
        assert table.counts_of(beyond).tolist() == [0.0, 40.0]


def test_a_release_is_the_rounded_product_and_the_code_plus_noise():
    ranking = Ranking(12, 28, 2 * 200, 0.5)
    table = auc_weights(40)
    exact = round((ranking.auc - Fraction(1, 2)) * int(table.weights[12]))
    found = protect(ranking, ranking.auc, table, Fraction(1), Seeded(b"a"))
    noise = discrete_laplace(Fraction(UNIT), 2, Seeded(b"a"))
    assert (found - noise).tolist() == [exact, table.codes[12]]


def test_a_table_that_does_not_increase_is_refused():
    with pytest.raises(PlanError, match="increase"):
        WeightTable(np.array([0, 1]), np.array([0, 0]), 3)
    with pytest.raises(PlanError, match="starts at 0"):
        WeightTable(np.array([1, 1]), np.array([0, 1]), 3)

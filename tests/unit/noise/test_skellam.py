import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from discreet.entropy import Seeded
from discreet.errors import InputError, PlanError
from discreet.noise.skellam import (
    ORDERS,
    SkellamShares,
    SymmetricTable,
    delta_from_renyi,
    least_variance,
    skellam,
    skellam_renyi,
    skellam_table,
)
from discreet.privacy.loss import ApproxDP
from discreet.privacy.unit import EXAMPLE, Sensitivity, Unit

ONE = Sensitivity(1, 1, 1, EXAMPLE)
ROW = Sensitivity(2, 2, 1, Unit("row", "replace"))
CLIENT = Sensitivity(3, 9, 3, Unit("client", "add_remove", 3))
BUDGET = ApproxDP(Fraction(1), Fraction(1, 10**6))


def renyi(table, order, shift):
    """The definition, on the two shifted tables."""
    p = np.pad(table.probabilities, (0, shift))
    q = np.pad(table.probabilities, (shift, 0))
    both = (p > 0) & (q > 0)
    logs = order * np.log(p[both]) + (1 - order) * np.log(q[both])
    return math.log(np.exp(logs).sum()) / (order - 1)


@pytest.mark.parametrize("honest", [1, 4, 300])
@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(Fraction(1), Fraction(1, 10**6)), (Fraction(3), Fraction(1, 10**9))],
)
def test_the_exact_delta_of_the_honest_sum_is_within_the_budget_and_near_it(
    honest, epsilon, delta
):
    mechanism = SkellamShares(ApproxDP(epsilon, delta), ONE, honest)
    spent = mechanism.noise(honest).hockey_stick(float(epsilon), shift=1)
    assert 0.9 * delta < spent <= delta


def test_half_the_noise_breaks_the_budget():
    mechanism = SkellamShares(BUDGET, ONE, 4)
    for fewer in (1, 2, 3):
        table = skellam_table(mechanism.variance * fewer)
        assert table.hockey_stick(1.0, shift=1) > BUDGET.delta


@pytest.mark.parametrize("sensitivity", [ROW, CLIENT])
def test_bounds_for_larger_sensitivities_cover_the_exact_delta(sensitivity):
    """The worst shift that one cell can see, in one cell."""
    noise = SkellamShares(BUDGET, sensitivity, 3).noise(3)
    assert noise.hockey_stick(1.0, shift=sensitivity.linf) < BUDGET.delta


@pytest.mark.parametrize("variance", [0.5, 2.0, 10.0, 100.0])
@pytest.mark.parametrize("shift", [1, 3])
def test_the_renyi_bound_of_skellam_noise_holds(variance, shift):
    table = skellam_table(Fraction(variance))
    sensitivity = Sensitivity(shift, shift**2, shift, EXAMPLE)
    for order in (2, 3, 8, 20):
        bound = skellam_renyi(np.array([float(order)]), variance, sensitivity)[0]
        assert renyi(table, order, shift) <= bound


@pytest.mark.parametrize("variance", [Fraction(1, 9), Fraction(3), Fraction(500)])
def test_the_skellam_table_agrees_with_scipy(variance):
    table = skellam_table(variance)
    k = np.arange(-12, 13)
    expected = stats.skellam(float(variance) / 2, float(variance) / 2).pmf(k)
    np.testing.assert_allclose(
        table.probabilities[table.reach + k], expected, rtol=1e-9
    )
    assert table.variance == pytest.approx(variance)


def test_a_table_without_a_middle_is_refused():
    with pytest.raises(InputError, match="middle"):
        SymmetricTable(np.array([0.5, 0.5]))


def test_a_variance_that_cannot_be_drawn_exactly_is_refused():
    with pytest.raises(PlanError, match="positive"):
        skellam(Fraction(0), 3, Seeded(b"x"))


def test_the_least_variance_is_checked_and_near_the_true_threshold():
    threshold = Fraction(271, 100)
    found = least_variance(lambda v: v >= threshold)
    assert threshold <= found < threshold * Fraction(1025, 1024)
    with pytest.raises(PlanError, match="no noise"):
        least_variance(lambda _: False)


def test_the_conversion_of_a_gaussian_curve_is_above_its_exact_delta():
    sigma = 5.0
    bound = delta_from_renyi(1.0, ORDERS / (2 * sigma**2))
    exact = stats.norm.sf(sigma - 0.5 / sigma) - math.e * stats.norm.sf(
        sigma + 0.5 / sigma
    )
    assert exact < bound < 6 * exact


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
def test_the_exact_delta_is_its_definition(epsilon):
    """Over every event: the sum of what exceeds e^epsilon times the other."""
    p = stats.skellam(1.5, 1.5).pmf
    exact = sum(max(p(x) - math.exp(epsilon) * p(x - 1), 0.0) for x in range(-60, 61))
    table = skellam_table(Fraction(3))
    assert table.hockey_stick(epsilon, shift=1) == pytest.approx(exact, rel=1e-9)

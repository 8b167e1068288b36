import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from discreet.entropy import Seeded
from discreet.errors import InputError, PlanError, ReleaseError
from discreet.noise.gaussian import (
    GaussianShares,
    _exponent,
    discrete_gaussian,
    gaussian_table,
    sum_of_gaussians_delta,
    sum_of_gaussians_rho,
)
from discreet.noise.renyi import delta_from_renyi, least_variance
from discreet.noise.skellam import (
    SkellamShares,
    skellam,
    skellam_renyi,
    skellam_table,
)
from discreet.noise.table import SymmetricTable
from discreet.privacy.loss import ZCDP, ApproxDP
from discreet.privacy.unit import EXAMPLE, Sensitivity, Unit

ONE = Sensitivity(1, 1, 1, EXAMPLE)
ROW = Sensitivity(2, 2, 1, Unit("row", "replace"))
CLIENT = Sensitivity(3, 9, 3, Unit("client", "add_remove", 3))
BUDGET = ApproxDP(Fraction(1), Fraction(1, 10**6))
FAMILIES = [GaussianShares, SkellamShares]


def renyi(table, order, shift):
    """The definition, on the two shifted tables."""
    p = np.pad(table.probabilities, (0, shift))
    q = np.pad(table.probabilities, (shift, 0))
    both = (p > 0) & (q > 0)
    logs = order * np.log(p[both]) + (1 - order) * np.log(q[both])
    return math.log(np.exp(logs).sum()) / (order - 1)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("honest", [1, 4, 300])
@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(Fraction(1), Fraction(1, 10**6)), (Fraction(3), Fraction(1, 10**9))],
)
def test_the_exact_delta_of_the_honest_sum_is_within_the_budget_and_near_it(
    family, honest, epsilon, delta
):
    mechanism = family(ApproxDP(epsilon, delta), ONE, honest)
    spent = mechanism.law(honest).hockey_stick(float(epsilon), shift=1)
    assert 0.9 * delta < spent <= delta


@pytest.mark.parametrize("family", FAMILIES)
def test_half_the_noise_breaks_the_budget(family):
    mechanism = family(BUDGET, ONE, 4)
    for fewer in (1, 2, 3):
        if family is GaussianShares:
            table = gaussian_table(mechanism.variance).times(fewer)
        else:
            table = skellam_table(mechanism.variance * fewer)
        assert table.hockey_stick(1.0, shift=1) > BUDGET.delta


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("sensitivity", [ROW, CLIENT])
def test_bounds_for_larger_sensitivities_cover_the_exact_delta(family, sensitivity):
    """The worst shift that one cell can see, in one cell."""
    law = family(BUDGET, sensitivity, 3).law(3)
    assert law.hockey_stick(1.0, shift=sensitivity.linf) < BUDGET.delta


@pytest.mark.parametrize("shares", [1, 2, 5, 20])
@pytest.mark.parametrize("variance", [Fraction(1, 4), Fraction(1, 2), Fraction(2)])
@pytest.mark.parametrize("shift", [1, 3])
def test_the_renyi_bound_of_a_sum_of_gaussians_holds(variance, shares, shift):
    table = gaussian_table(variance).times(shares)
    bound = sum_of_gaussians_rho(
        variance, Sensitivity(shift, shift**2, shift, EXAMPLE), shares
    )
    for order in (1.2, 2.0, 4.0):
        assert renyi(table, order, shift) <= order * bound * (1 + 1e-9)


@pytest.mark.parametrize("variance", [0.5, 2.0, 10.0, 100.0])
@pytest.mark.parametrize("shift", [1, 3])
def test_the_renyi_bound_of_skellam_noise_holds(variance, shift):
    table = skellam_table(Fraction(variance))
    sensitivity = Sensitivity(shift, shift**2, shift, EXAMPLE)
    for order in (2, 3, 8, 20):
        bound = skellam_renyi(np.array([float(order)]), variance, sensitivity)[0]
        assert renyi(table, order, shift) <= bound


def test_a_share_too_small_for_the_bound_is_not_trusted_to_it():
    assert sum_of_gaussians_rho(Fraction(24, 100), ROW, 5) == math.inf
    assert sum_of_gaussians_delta(Fraction(24, 100), ROW, 5, 1.0) == 1.0


def test_zcdp_shares_keep_rho():
    mechanism = GaussianShares(ZCDP(Fraction(1, 50)), ONE, 3)
    assert sum_of_gaussians_rho(mechanism.variance, ONE, 3) <= 1 / 50
    assert mechanism.law(3).variance == pytest.approx(25, rel=0.01)
    assert mechanism.loss() == ZCDP(Fraction(1, 50))


@pytest.mark.parametrize("variance", [Fraction(1, 9), Fraction(3), Fraction(500)])
def test_the_skellam_table_agrees_with_scipy(variance):
    k = np.arange(-12, 13)
    expected = stats.skellam(float(variance) / 2, float(variance) / 2).pmf(k)
    np.testing.assert_allclose(skellam_table(variance).pmf(k), expected, rtol=1e-9)


def test_a_table_times_a_count_is_the_sum_of_copies():
    table = gaussian_table(Fraction(3, 4))
    five = table.times(5)
    assert five.variance == pytest.approx(5 * table.variance)
    by_hand = np.convolve(table.probabilities, table.probabilities)
    middle = by_hand[by_hand.size // 2 : by_hand.size // 2 + 5]
    np.testing.assert_allclose(table.times(2).pmf(np.arange(5)), middle, rtol=1e-12)
    with pytest.raises(InputError, match="at least 1"):
        table.times(0)
    with pytest.raises(InputError, match="middle"):
        SymmetricTable(np.array([0.5, 0.5]))


def test_no_probability_lies_beyond_a_table():
    table = gaussian_table(Fraction(1))
    assert table.pmf(np.array([10**9, -(10**9)])).tolist() == [0.0, 0.0]


def test_an_exponent_far_out_is_divided_exactly():
    """Where squares leave 63 bits the arithmetic must not wrap."""
    p, q, t = 4_000_001, 3, 1155
    near = np.array([0, 7, 1200])
    far = np.array([0, 7, 1200, 10**12])
    whole, rest = _exponent(near, p, q, t)
    whole_far, rest_far = _exponent(far, p, q, t)
    assert whole_far[:3].tolist() == whole.tolist()
    assert rest_far[:3].tolist() == rest.tolist()
    expected = divmod((10**12 * t * q - p) ** 2, 2 * p * q * t * t)
    assert (whole_far[3], rest_far[3]) == expected


def test_a_variance_that_cannot_be_drawn_exactly_is_refused():
    with pytest.raises(PlanError, match="positive"):
        discrete_gaussian(Fraction(0), 3, Seeded(b"x"))
    with pytest.raises(PlanError, match="too large"):
        discrete_gaussian(Fraction(10**9), 3, Seeded(b"x"))
    with pytest.raises(PlanError, match="positive"):
        skellam(Fraction(0), 3, Seeded(b"x"))


@pytest.mark.parametrize("family", FAMILIES)
def test_sums_of_too_few_shares_and_plans_without_honest_sites_are_refused(family):
    with pytest.raises(ReleaseError, match="at least 3"):
        family(BUDGET, ONE, 3).law(2)
    with pytest.raises(ReleaseError, match="2 sites"):
        family(BUDGET, ONE, 3).decode(np.zeros(2, dtype=np.int64), 2)
    with pytest.raises(PlanError, match="min_survivors"):
        family(BUDGET, ONE, 0)


@pytest.mark.parametrize("family", FAMILIES)
def test_two_sites_never_draw_the_same_noise(family):
    zeros = np.zeros(256, dtype=np.int64)
    mechanism = family(BUDGET, ONE, 3)
    drawn = {
        mechanism.protect(zeros, entropy=Seeded(bytes([i]))).tobytes()
        for i in range(10)
    }
    assert len(drawn) == 10
    entropy = Seeded(b"one site")
    again = {mechanism.protect(zeros, entropy=entropy).tobytes() for _ in range(10)}
    assert len(again) == 10


def test_the_least_variance_is_checked_and_near_the_true_threshold():
    threshold = Fraction(271, 100)
    found = least_variance(lambda v: v >= threshold)
    assert threshold <= found < threshold * Fraction(1025, 1024)
    with pytest.raises(PlanError, match="no noise"):
        least_variance(lambda _: False)


def test_the_conversion_of_a_gaussian_curve_is_above_its_exact_delta():
    sigma = 5.0
    bound = delta_from_renyi(1.0, lambda order: order / (2 * sigma**2))
    exact = stats.norm.sf(sigma - 0.5 / sigma) - math.e * stats.norm.sf(
        sigma + 0.5 / sigma
    )
    assert exact < bound < 6 * exact

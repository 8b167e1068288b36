"""Our accounting of noise against dp-accounting's."""

import math
from fractions import Fraction

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.rdp.rdp_privacy_accountant import compute_delta

from discreet.noise.polya import PolyaShares
from discreet.noise.skellam import ORDERS, SkellamShares, delta_from_renyi
from discreet.privacy.loss import ApproxDP, PureDP
from discreet.privacy.unit import EXAMPLE, Sensitivity
from oracles import gaussian_table, polya_log_pmf

pytestmark = pytest.mark.interop

ONE = Sensitivity(1, 1, 1, EXAMPLE)


@pytest.mark.parametrize("sigma", [1.0, 3.0, 8.0])
@pytest.mark.parametrize("shift", [1, 2])
def test_the_exact_delta_of_a_discrete_gaussian_agrees(sigma, shift):
    theirs = privacy_loss_distribution.from_discrete_gaussian_mechanism(
        sigma, sensitivity=shift, value_discretization_interval=1e-5
    )
    ours = gaussian_table(Fraction(sigma) ** 2)
    for epsilon in (0.3, 1.0):
        delta = theirs.get_delta_for_epsilon(epsilon)
        got = ours.hockey_stick(epsilon, shift=shift)
        assert got == pytest.approx(delta, rel=1e-3, abs=1e-12)


def test_calibrated_skellam_noise_matches_the_analytic_gaussian():
    """The continuous mechanism of Balle and Wang; integers cost next to nothing."""
    for epsilon, delta in ((0.1, 1e-6), (1.0, 1e-6), (0.5, 1e-9)):
        budget = ApproxDP(Fraction(str(epsilon)), Fraction(str(delta)))
        analytic = dp_accounting.get_sigma_gaussian(epsilon, delta)
        skellam = SkellamShares(budget, ONE, honest=3).noise(3).scale
        assert skellam <= 1.005 * analytic


@pytest.mark.parametrize("rho", [0.001, 0.02, 0.5])
def test_the_conversion_from_renyi_agrees(rho):
    for epsilon in (0.5, 1.0, 4.0):
        theirs, _ = compute_delta(ORDERS, ORDERS * rho, epsilon)
        ours = delta_from_renyi(epsilon, ORDERS * rho)
        # They also take a bound from the divergence at order 1, for large deltas.
        assert theirs <= ours * (1 + 1e-9)
        if theirs < 0.9 * math.sqrt(-math.expm1(-rho)):
            assert ours == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2)])
def test_the_loss_of_the_sum_of_polya_shares_is_that_of_discrete_laplace(epsilon):
    theirs = privacy_loss_distribution.from_discrete_laplace_mechanism(
        float(epsilon), sensitivity=1, value_discretization_interval=1e-5
    )
    noise = PolyaShares(PureDP(epsilon), ONE, honest=5).noise(5)
    k = np.arange(-60, 61)
    logs, moved = polya_log_pmf(noise, k), polya_log_pmf(noise, k - 1)
    losses = logs - moved
    assert np.abs(losses).max() <= float(epsilon) * (1 + 1e-9)
    for smaller in (0.25, 0.75):
        at = smaller * float(epsilon)
        delta = np.maximum(np.exp(logs) - np.exp(at + moved), 0.0).sum()
        assert delta == pytest.approx(theirs.get_delta_for_epsilon(at), rel=1e-3)
    assert theirs.get_epsilon_for_delta(0.0) == pytest.approx(float(epsilon), rel=1e-4)

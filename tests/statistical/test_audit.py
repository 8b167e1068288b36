"""Audits of whole releases: the claim holds, and half the noise is caught.

An audit's bound is wrong with probability at most ALPHA, so on a correct
mechanism each of these tests fails at most that often.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from audits import audit_mechanism, audit_scores, clopper_pearson
from discreet.entropy import Seeded
from discreet.errors import InputError
from discreet.noise.laplace import DiscreteLaplace
from discreet.noise.polya import PolyaShares
from discreet.noise.skellam import SkellamShares
from discreet.privacy.loss import ApproxDP, PureDP
from discreet.privacy.unit import EXAMPLE, Sensitivity, Unit
from statistical_checks import ALPHA

ONE = Sensitivity(1, 1, 1, EXAMPLE)
CLIENT = Sensitivity(3, 9, 3, Unit("client", "add_remove", 3))
RUNS = 60_000


def scores(mechanism, sites, difference, seed):
    """Open one cell of RUNS releases at once: cells have independent noise."""
    total = np.full(RUNS, difference, dtype=np.int64)
    for site in range(sites):
        zeros = np.zeros(RUNS, dtype=np.int64)
        total += mechanism.protect(zeros, entropy=Seeded(seed + bytes([site])))
    return total.astype(float)


def audit(mechanism, *, sites, difference=1, delta=0.0):
    one = scores(mechanism, sites, difference, b"with")
    other = scores(mechanism, sites, 0, b"without")
    return audit_scores(one, other, delta=delta, alpha=ALPHA)


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(1), Fraction(2)])
def test_polya_shares_keep_their_epsilon(epsilon):
    mechanism = PolyaShares(PureDP(epsilon), ONE, honest=4)
    found = audit(mechanism, sites=4)
    assert not found.refutes(epsilon)
    assert found.epsilon_at_least > 0.6 * epsilon  # the audit has power


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(1), Fraction(2)])
def test_half_the_noise_is_caught(epsilon):
    broken = PolyaShares(PureDP(2 * epsilon), ONE, honest=4)
    assert audit(broken, sites=4).refutes(epsilon)


@pytest.mark.statistical
def test_half_the_sites_leave_too_little_noise_and_are_caught():
    mechanism = PolyaShares(PureDP(Fraction(1)), ONE, honest=8)
    assert audit(mechanism, sites=4).refutes(Fraction(1))


@pytest.mark.statistical
def test_further_sites_only_add_noise():
    mechanism = PolyaShares(PureDP(Fraction(1)), ONE, honest=4)
    found = audit(mechanism, sites=8)
    assert found.epsilon_at_least < audit(mechanism, sites=4).epsilon_at_least


@pytest.mark.statistical
def test_a_client_of_three_examples_is_protected_by_three_times_the_scale():
    mechanism = PolyaShares(PureDP(Fraction(1)), CLIENT, honest=3)
    assert not audit(mechanism, sites=3, difference=3).refutes(Fraction(1))
    forgot = replace(mechanism, sensitivity=ONE)
    assert audit(forgot, sites=3, difference=3).refutes(Fraction(1))


@pytest.mark.statistical
def test_shares_for_epsilon_and_delta_keep_them_and_half_the_noise_is_caught():
    budget = ApproxDP(Fraction(1), Fraction(1, 100))
    mechanism = SkellamShares(budget, ONE, honest=4)
    assert not audit(mechanism, sites=4, delta=0.01).refutes(Fraction(1))
    # A quarter of the variance is half of the noise.
    assert audit(mechanism, sites=1, delta=0.01).refutes(Fraction(1))


@pytest.mark.statistical
def test_a_whole_histogram_release_is_audited_run_by_run():
    one = np.array([3, 0, 5, 1], dtype=np.int64)
    other = np.array([3, 0, 4, 1], dtype=np.int64)

    def release(exact, entropy):
        return DiscreteLaplace(PureDP(Fraction(3)), ONE).protect(exact, entropy=entropy)

    found = audit_mechanism(
        release, (one, other), runs=600, entropy=Seeded(b"a"), alpha=ALPHA
    )
    assert 0.5 < found.epsilon_at_least <= 3
    assert found.refutes(Fraction(1, 2))


@pytest.mark.statistical
def test_delta_forgives_what_it_should():
    """A mechanism that reveals everything with probability 0.05."""
    rng = np.random.default_rng(1)
    caught = (rng.random(RUNS) < 0.05).astype(float)
    nothing = np.zeros(RUNS)
    assert audit_scores(caught, nothing, alpha=ALPHA).refutes(Fraction(3))
    forgiving = audit_scores(caught, nothing, delta=0.06, alpha=ALPHA)
    assert not forgiving.refutes(Fraction(1, 10))


def test_an_event_is_judged_on_other_runs_than_those_that_chose_it():
    """Runs that tell the sides apart only while the event is chosen prove nothing."""
    half = np.zeros(500)
    found = audit_scores(np.append(half + 1, half), np.append(half, half))
    assert found.epsilon_at_least == 0.0
    assert found.runs == 500


@pytest.mark.parametrize(("hits", "runs"), [(0, 50), (3, 50), (50, 50)])
def test_clopper_pearson_agrees_with_scipy(hits, runs):
    low, high = clopper_pearson(hits, runs, alpha=0.01)
    expected = stats.binomtest(hits, runs).proportion_ci(0.98, method="exact")
    assert (low, high) == pytest.approx((expected.low, expected.high))


def test_an_audit_of_few_or_uneven_runs_is_refused():
    with pytest.raises(InputError, match="equally many"):
        audit_scores(np.zeros(200), np.zeros(199))
    same = np.zeros(2, dtype=np.int64)
    with pytest.raises(InputError, match="differ"):
        audit_mechanism(lambda x, _: x, (same, same), runs=100, entropy=Seeded(b"a"))

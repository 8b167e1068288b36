"""Audits of whole releases: the claim holds, and half the noise is caught.

An audit's bound is wrong with probability at most ALPHA, so on a correct
mechanism each of these tests fails at most that often.
"""

from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy import stats

from audits import audit_scores, clopper_pearson
from discreet.data.edges import Edges, Support, Uniform
from discreet.data.examples import Examples
from discreet.entropy import Seeded
from discreet.errors import InputError
from discreet.label.public_scores import PublicScores
from discreet.label.ranks import SiteRanks
from discreet.label.response_keys import ResponseKeys
from discreet.models.label import LabelDP, plan_curves
from discreet.noise.arc import CircularArc
from discreet.noise.laplace import DiscreteLaplace
from discreet.noise.polya import PolyaShares
from discreet.noise.response import RandomizedResponse, ResponseKey
from discreet.noise.skellam import SkellamShares
from discreet.noise.unary import UnaryEncoding
from discreet.privacy.loss import ApproxDP, PureDP
from discreet.privacy.unit import EXAMPLE, Sensitivity, Unit
from discreet.report.build import open_release
from discreet.transport.in_process import simulate
from label_cases import mechanism_of
from statistical_checks import ALPHA

pytestmark = pytest.mark.statistical

ONE = Sensitivity(1, 1, 1, EXAMPLE)
CLIENT = Sensitivity(3, 9, 3, Unit("client", "add_remove", 3))
RUNS = 60_000


def shares(mechanism, sites, *, moved=1):
    """Open one cell of RUNS releases at once: cells have independent noise."""
    for difference, seed in ((moved, b"with"), (0, b"without")):
        total = np.full(RUNS, difference, dtype=np.int64)
        for site in range(sites):
            zeros = np.zeros(RUNS, dtype=np.int64)
            total += mechanism.protect(zeros, entropy=Seeded(seed + bytes([site])))
        yield total.astype(float)


def audit(mechanism, *, sites, moved=1, delta=0.0):
    scores = shares(mechanism, sites, moved=moved)
    return audit_scores(*scores, delta=delta, alpha=ALPHA)


def polya(epsilon):
    return shares(PolyaShares(PureDP(epsilon), ONE, honest=4), 4)


def discrete_laplace(epsilon):
    return shares(DiscreteLaplace(PureDP(epsilon), ONE), 1)


def arc(epsilon):
    """The best guess of an attacker: is cell 0 in the arc, and cell 40 not?"""
    arc = CircularArc(epsilon, Edges.realise(Uniform(32)))
    for cell, seed in ((0, b"one"), (40, b"other")):
        symbols = arc.randomise(np.full(200_000, cell), Seeded(seed))
        near, far = ((c - symbols) % arc.cells < arc.length for c in (0, 40))
        yield near.astype(float) - far


def response(epsilon):
    ids = [i.to_bytes(4, "big") for i in range(100_000)]
    for label in (1, 0):
        labels, key = np.full(len(ids), label), ResponseKey(bytes([label] * 32))
        flipped = RandomizedResponse(PureDP(epsilon)).flip(labels, ids, key=key)
        yield flipped.astype(float)


def unary(epsilon):
    """The likeliest event when cell 0 became cell 1: bit 0 off and bit 1 on."""
    for cell in (0, 1):
        cells, entropy = np.full(40_000, cell), Seeded(bytes([cell]))
        bits = UnaryEncoding(PureDP(epsilon)).encode(cells, cells=3, entropy=entropy)
        yield (bits[:, 0] - bits[:, 1]).astype(float)


def labels(mechanism, copies, epsilon):
    """One flipped label in each of 20,000 bins of so many examples.

    Every bin's labels are protected on their own: a release over many score values
    is many independent releases of one bin.
    """
    values = np.arange(20_000) / 20_000
    for first, seed in ((1, b"with"), (0, b"without")):
        y = np.zeros((copies, values.size), dtype=int)
        y[0] = first
        site = Examples(np.tile(values, copies), y.ravel())
        plan = plan_curves(
            PublicScores.of([site]),
            LabelDP(epsilon, mechanism=mechanism),
            edges=Support(tuple(values.tolist())),
            thresholds=(),
        )
        own = Seeded(seed)
        keys = [ResponseKeys.fresh(own)]
        release = simulate(plan, [site], response_keys=keys, entropy=own)[0]
        yield np.split(open_release(plan, [release]).counts, 2)[1]


RANKS = SiteRanks(np.array([2, 9, 9, 17, 30], dtype=np.int64), examples=20)
FLIPPED = {"first": 0, "last": 4}


def rank_sums(name, flip, epsilon):
    """Releases of a site whose label is flipped, by the direction in which they differ."""
    mechanism, entropy = mechanism_of(name, RANKS, PureDP(epsilon)), Seeded(b"ranks")
    one = np.array([1, 0, 1, 1, 0], dtype=np.int64)
    other = one.copy()
    other[flip] = 1 - one[flip]
    exact = [mechanism.exact(y, RANKS) for y in (one, other)]
    weights = [1 / row.noise.variance for row in mechanism.rows]
    for sums in exact:
        noise = [row.noise.draws(40_000, entropy) for row in mechanism.rows]
        yield (sums + np.column_stack(noise)) @ ((exact[0] - exact[1]) * weights)


ATTACKS = {
    **{f"Polya shares, epsilon {e}": (polya, e, 0.6) for e in ("1/3", "1", "2")},
    "discrete Laplace": (discrete_laplace, "1", 0.6),
    **{f"arc, epsilon {e}": (arc, e, 0.8) for e in ("1/2", "1", "2")},
    "response": (response, "1", 0.85),
    "unary": (unary, "1", 0.75),
    **{
        f"labels, {name}, {copies} in a bin": (partial(labels, name, copies), "1", 0.6)
        for name in ("response", "binned")
        for copies in (1, 2)
    },
    **{
        f"rank sums, {name}, {which}": (partial(rank_sums, name, flip), "1", 0.0)
        for name in ("endpoint", "slack", "staircase", "adaptive")
        for which, flip in FLIPPED.items()
    },
}
"""An attacker's scores at an epsilon, the epsilon, and which share an audit finds."""


@pytest.mark.parametrize("name", ATTACKS)
def test_an_audit_confirms_epsilon_and_refutes_half_the_noise(name):
    attack, epsilon, share = ATTACKS[name]
    epsilon = Fraction(epsilon)
    found = audit_scores(*attack(epsilon), alpha=ALPHA)
    assert not found.refutes(epsilon)
    assert found.epsilon_at_least > share * epsilon  # the audit has power
    assert audit_scores(*attack(2 * epsilon), alpha=ALPHA).refutes(epsilon)


@pytest.mark.parametrize("flip", FLIPPED.values(), ids=FLIPPED)
@pytest.mark.parametrize("name", ["local-laplace", "orthogonal"])
def test_an_audit_does_not_refute_noise_that_is_not_tight(name, flip):
    assert not audit_scores(*rank_sums(name, flip, Fraction(1))).refutes(Fraction(1))


def test_half_the_sites_leave_too_little_noise_and_further_ones_only_add():
    mechanism = PolyaShares(PureDP(Fraction(1)), ONE, honest=8)
    assert audit(mechanism, sites=4).refutes(Fraction(1))
    mechanism = replace(mechanism, honest=4)
    few, many = (audit(mechanism, sites=sites).epsilon_at_least for sites in (4, 8))
    assert many < few


def test_a_client_of_three_examples_is_protected_by_three_times_the_scale():
    mechanism = PolyaShares(PureDP(Fraction(1)), CLIENT, honest=3)
    assert not audit(mechanism, sites=3, moved=3).refutes(Fraction(1))
    forgot = replace(mechanism, sensitivity=ONE)
    assert audit(forgot, sites=3, moved=3).refutes(Fraction(1))


def test_shares_for_epsilon_and_delta_keep_them_and_half_the_noise_is_caught():
    budget = ApproxDP(Fraction(1), Fraction(1, 100))
    mechanism = SkellamShares(budget, ONE, honest=4)
    assert not audit(mechanism, sites=4, delta=0.01).refutes(Fraction(1))
    # A quarter of the variance is half of the noise.
    assert audit(mechanism, sites=1, delta=0.01).refutes(Fraction(1))


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


def test_clopper_pearson_agrees_with_scipy():
    hits = np.array([0, 3, 50])
    low, high = clopper_pearson(hits, 50, alpha=0.01)
    for k, count in enumerate(hits.tolist()):
        expected = stats.binomtest(count, 50).proportion_ci(0.98, method="exact")
        assert (low[k], high[k]) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(("one", "other"), [(200, 199), (50, 50)])
def test_an_audit_of_few_or_uneven_runs_is_refused(one, other):
    with pytest.raises(InputError, match="equally many"):
        audit_scores(np.zeros(one), np.zeros(other))

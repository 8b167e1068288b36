from fractions import Fraction

import numpy as np
import pytest

from discreet.errors import InputError, PlanError, ReleaseError
from discreet.label.mechanisms import (
    CANDIDATES,
    ENDPOINT,
    Option,
    Prior,
    SumKind,
    build,
    option_for,
    predict,
)
from discreet.label.ranks import SiteRanks, rank_sites
from discreet.label.released_sums import LinearSums, SummedEndpoint
from discreet.label.sum_noise import calibrated_mu, drawable, gaussian_delta
from discreet.models.label import LabelDP
from discreet.privacy.loss import ApproxDP, PureDP
from discreet.statistic.rank_sums import RANK_MECHANISMS
from label_cases import (
    EPSILONS,
    EVERY,
    GAUSSIAN,
    GAUSSIAN_BUDGET,
    linear_of,
    mechanism_of,
    random_sites,
)

ONE = PureDP(Fraction(1))


def ranks_of(*doubled, examples=1000):
    return SiteRanks(np.array(doubled, dtype=np.int64), examples)


def true_sums(ranks, labels):
    return int(ranks.doubled @ labels) / 2, float(labels.sum())


@pytest.mark.parametrize(
    ("name", "budget"),
    [
        *((name, PureDP(epsilon)) for name in EVERY[:-2] for epsilon in EPSILONS),
        *((name, GAUSSIAN_BUDGET) for name in GAUSSIAN),
    ],
)
def test_sums_without_noise_are_read_back_exactly(name, budget, rng):
    for ranks in random_sites(12, rng):
        mechanism = linear_of(name, ranks, budget)
        if mechanism is None:
            continue
        labels = rng.integers(0, 2, len(ranks))
        found = mechanism.decode(mechanism.exact(labels, ranks))
        assert found == pytest.approx(true_sums(ranks, labels), abs=1e-9)
        assert mechanism.budget == budget


@pytest.mark.parametrize("name", EVERY)
def test_everything_that_is_released_is_an_integer(name, rng, entropy):
    for ranks in random_sites(8, rng):
        mechanism = mechanism_of(name, ranks, ONE)
        released = mechanism.protect(
            rng.integers(0, 2, len(ranks)), ranks, entropy=entropy
        )
        assert released.dtype == np.int64
        assert released.shape == (mechanism.length,)


@pytest.mark.parametrize("name", EVERY)
def test_a_site_without_examples_releases_nothing(name, entropy):
    ranks = ranks_of(examples=50)
    mechanism = mechanism_of(name, ranks, ONE)
    nobody = np.zeros(0, dtype=np.int64)
    assert mechanism.protect(nobody, ranks, entropy=entropy).size == 0
    assert mechanism.decode(nobody) == (0.0, 0.0)
    assert mechanism.covariance.variance_at(3.0) == 0.0


@pytest.mark.parametrize("name", ["adaptive", "endpoint", "slack", "staircase"])
def test_one_draw_serves_both_sums_where_all_ranks_agree(name, entropy):
    for ranks in (ranks_of(84), ranks_of(84, 84, 84)):
        mechanism = mechanism_of(name, ranks, ONE)
        assert mechanism.length == 1
        labels = np.ones(len(ranks), dtype=np.int64)
        for _ in range(3):
            found = mechanism.decode(mechanism.protect(labels, ranks, entropy=entropy))
            assert found.rank_sum == pytest.approx(42 * found.positives)
        cov = mechanism.covariance
        assert cov.variance_at(42.0) == pytest.approx(0.0, abs=1e-6)


def test_analytic_gaussian_noise_is_that_of_balle_and_wang():
    # Independent figures: the least sigma for sensitivity 1 at (1, 1e-5) is 3.730632.
    mu = calibrated_mu(Fraction(1), Fraction(1, 10**5))
    assert 1 / mu == pytest.approx(3.7306, rel=2e-3)
    assert gaussian_delta(1.0, mu) < 1e-5
    assert gaussian_delta(1.0, mu * 1.01) > 1e-5


def test_slack_with_tau_zero_at_an_end_is_the_endpoint_mechanism():
    ranks = ranks_of(100, 300, 1400)
    end = mechanism_of("endpoint", ranks, ONE).covariance
    slack = build(Option(SumKind.SLACK, 8 * 100, 0), ranks, ONE).covariance
    assert slack == pytest.approx(end, rel=1e-2)


@pytest.mark.parametrize(
    ("doubled", "epsilon", "kind"),
    [
        (np.arange(0, 100_000, 2), 1, SumKind.SLACK),
        (np.arange(0, 100_000, 2), 8, SumKind.STAIRCASE),
        (np.arange(80_000, 80_400, 2), 4, SumKind.STAIRCASE),
        (np.arange(0, 100_000, 9999), 8, SumKind.RESPONSE),
        (np.array([60_000]), 1, SumKind.RESPONSE),
    ],
)
def test_the_choice_depends_on_the_ranks_and_epsilon(doubled, epsilon, kind):
    site = SiteRanks(doubled.astype(np.int64), examples=60_000)
    assert option_for("choice", site, PureDP(Fraction(epsilon))).kind == kind


@pytest.mark.parametrize("epsilon", [1, 2, 4, 8])
@pytest.mark.parametrize("iid", [True, False])
def test_the_choice_is_predicted_no_worse_than_the_adaptive_allocation(
    epsilon, iid, rng
):
    order = rng.permutation(3000) if iid else np.arange(3000)
    sites = rank_sites([p.astype(float) for p in np.array_split(order, 30)])
    budget = PureDP(Fraction(epsilon))
    prior = Prior.wide(3000)

    def expected(name):
        total = 0.0
        for site in sites:
            cov = build(option_for(name, site, budget), site, budget).covariance
            total += cov.variance_at(prior.mean) + prior.sd**2 * cov.positives
        return total

    assert expected("choice") <= 1.02 * expected("adaptive")


@pytest.mark.parametrize("kind", CANDIDATES)
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(4)])
def test_predictions_are_the_variances_of_what_is_built(kind, epsilon, rng):
    order, prior = rng.permutation(500), Prior.wide(500)
    for site in rank_sites([p.astype(float) for p in np.array_split(order, 9)]):
        value, option = predict(site, epsilon, kind)
        cov = build(option, site, PureDP(epsilon)).covariance
        found = cov.variance_at(prior.mean) + prior.sd**2 * cov.positives
        assert found == pytest.approx(value, rel=0.02)


def test_secure_sums_are_read_back_and_their_noise_does_not_grow(rng):
    sites = rank_sites([rng.random(5), rng.random(7), rng.random(8)])
    labels = [rng.integers(0, 2, len(s)) for s in sites]
    common = SummedEndpoint(20, ONE, honest=3)
    total = sum(common.exact(y, s) for y, s in zip(labels, sites, strict=True))
    truth = [true_sums(s, y) for s, y in zip(sites, labels, strict=True)]
    assert common.decode(total) == tuple(map(sum, zip(*truth, strict=True)))
    three = common.covariance(3)
    many = SummedEndpoint(20, ONE, honest=3000).covariance(3000)
    assert many == three
    assert three.positives == pytest.approx(4.0, rel=1e-2)  # two sums, scale 38 of 38


@pytest.mark.parametrize(
    "make",
    [
        lambda: SummedEndpoint(1, ONE, 3),
        lambda: SummedEndpoint(20, ONE, 0),
        lambda: build(Option(SumKind.SLACK), ranks_of(1, 5), GAUSSIAN_BUDGET),
        lambda: build(Option(SumKind.LOCAL, part=0), ranks_of(1, 5), ONE),
        lambda: build(Option(SumKind.STAIRCASE, part=10_000), ranks_of(1, 5), ONE),
        lambda: build(Option(SumKind.NOTHING), ranks_of(1, 5), ONE),
        lambda: Option(SumKind.SLACK, part=10_001),
        lambda: option_for("best", ranks_of(1), ONE),
        lambda: drawable(Fraction(0)),
    ],
)
def test_what_cannot_be_is_refused(make):
    with pytest.raises(PlanError):
        make()


def test_labels_that_do_not_belong_to_the_ranks_are_refused(entropy):
    ranks = ranks_of(1, 5, 9)
    for name in ("endpoint", "response"):
        mechanism = mechanism_of(name, ranks, ONE)
        with pytest.raises(InputError, match="3 ranks need as many labels, got 2"):
            mechanism.protect(np.array([0, 1]), ranks, entropy=entropy)
        with pytest.raises(InputError, match="labels 0 and 1"):
            mechanism.protect(np.array([0, 1, 2]), ranks, entropy=entropy)


@pytest.mark.parametrize("name", ["endpoint", "response", "response-labels"])
def test_a_release_of_the_wrong_length_is_refused(name):
    mechanism = mechanism_of(name, ranks_of(1, 5, 9), ONE)
    with pytest.raises(ReleaseError, match="expected"):
        mechanism.decode(np.zeros(5, dtype=np.int64))


@pytest.mark.parametrize(
    "scale", [Fraction(10**15, 7), Fraction(1, 3), Fraction(2**60)]
)
def test_a_scale_is_rounded_up_and_by_little(scale):
    found = drawable(scale)
    assert scale <= found <= scale * (1 + Fraction(1, 2**35))


def test_a_budget_with_delta_needs_gaussian_noise():
    ranks = ranks_of(1, 5, 9)
    pure = mechanism_of("endpoint", ranks, ONE)
    with pytest.raises(PlanError, match="Gaussian"):
        LinearSums(ranks, pure.rows, ApproxDP(Fraction(1), Fraction(1, 100)))
    gaussian = mechanism_of("endpoint", ranks, GAUSSIAN_BUDGET)
    with pytest.raises(PlanError, match="give a delta"):
        LinearSums(ranks, gaussian.rows, ONE)


def test_a_mechanism_from_outside_is_found_by_its_name(monkeypatch):
    monkeypatch.setattr(RANK_MECHANISMS, "_entries", {"endpoint": ENDPOINT})
    RANK_MECHANISMS.add("mine", ENDPOINT)
    ranks = ranks_of(1, 5, 9)
    assert mechanism_of("mine", ranks, ONE) == mechanism_of("endpoint", ranks, ONE)
    assert LabelDP(1, mechanism="mine").loss == ONE

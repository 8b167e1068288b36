"""Evaluations under noise: plans, claims, refusals, two rounds."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import discreet
from discreet import DistributedDP, LocalDP, PlanError, PublicFacts, recommend
from discreet.data.edges import Uniform, Warped
from discreet.data.scores import ScoreRange
from discreet.entropy import Seeded
from discreet.errors import UndefinedMetricWarning
from discreet.plan.cohort import Cohort
from discreet.plan.file import dumps, loads
from discreet.plan.plan import Plan
from discreet.plan.rounds import Round
from discreet.privacy.loss import ApproxDP, PureDP
from discreet.report.build import evaluation
from discreet.statistic import EquiDepthFrom, Hierarchy
from discreet.transport.in_process import simulate
from discreet.transport.simulation import run

pytestmark = pytest.mark.long

FACTS = PublicFacts(examples=30_000, prevalence=0.25)
UNIT_RANGE = ScoreRange.declare("other", 0, 1)
MODELS = {
    "distributed": DistributedDP("0.3"),
    "subjects": DistributedDP(1, unit="subject", max_examples=3),
    "clients": DistributedDP(1, unit="client", max_examples=100),
    "approximate": DistributedDP(1, "1e-6"),
    "arc": LocalDP(2),
    "unary": LocalDP("2.5", "unary"),
    "levels": LocalDP(5, "levels"),
    "laplace": LocalDP(1, "laplace"),
}


def site(rng, n, prevalence=0.25, **options):
    y = rng.random(n) < prevalence
    logit = rng.normal(size=n) * 1.2 + 2 * y - 1.5
    return discreet.Examples(1 / (1 + np.exp(-logit)), y, **options)


@pytest.fixture
def sites(rng):
    return [site(rng, n, subjects=np.arange(n) // 2) for n in (14_000, 9000, 7000)]


@pytest.mark.parametrize("name", MODELS)
def test_a_private_plan_survives_toml_and_has_its_own_digest(name):
    plan = recommend(FACTS, MODELS[name], cohort=Cohort(4, 1))
    assert loads(dumps(plan)) == plan
    assert len({recommend(FACTS, m).digest() for m in MODELS.values()}) == len(MODELS)


@pytest.mark.parametrize(
    "name", [name for name in MODELS if name not in ("clients", "levels")]
)
def test_every_model_gives_an_auc_near_the_exact_one_with_a_noise_error(sites, name):
    exact = discreet.evaluate(sites).auc.value
    options = {"examples": 30_000, "prevalence": 0.25}
    result = discreet.evaluate(sites, privacy=MODELS[name], **options)
    assert result.auc.noise > 0
    assert result.auc.value == pytest.approx(exact, abs=6 * result.auc.noise + 0.005)
    at = result.at(0.5)
    assert at.recall.noise > 0
    assert "about" in str(result)
    assert json.loads(result.to_json())["examples"]["noisy"]
    assert math.isfinite(result.average_precision.value)
    result.plot("pr")


def test_clients_with_few_examples_each_are_evaluated_together(rng):
    clients = [site(rng, 30) for _ in range(600)]
    privacy = DistributedDP(8, unit="client", max_examples=20)
    result = discreet.evaluate(
        clients, privacy=privacy, examples=12_000, prevalence=0.25
    )
    total = result.observed.total_positives + result.observed.total_negatives
    assert total == pytest.approx(12_000, abs=200)  # 20 of each client's 30
    assert result.observed.noise.scale == pytest.approx(20 / 8)
    assert 0.85 < result.auc.value < 0.9


def test_the_papers_local_way_splits_clients_over_the_levels(sites):
    exact = discreet.evaluate(sites).auc.value
    result = discreet.evaluate(sites, privacy=LocalDP(5, "levels"))
    assert result.auc.value == pytest.approx(exact, abs=0.08)
    assert result.auc.noise > 0
    assert "one example replaced" in str(result.claim)
    arcs = discreet.evaluate(sites, privacy=LocalDP(5))
    assert arcs.auc.noise < result.auc.noise
    wider = discreet.evaluate(
        sites, privacy=LocalDP(5, "levels"), method=discreet.FedCurve(quantiles=64)
    )
    assert wider.plan.statistic.height == 8
    with pytest.raises(PlanError, match="its own tree"):
        recommend(FACTS, LocalDP(1, "levels"), groups=["f", "m"])


def test_the_claim_names_loss_unit_cohort_and_limits(sites):
    privacy = DistributedDP(
        "0.5", unit="subject", max_examples=2, min_survivors=3, colluders=1
    )
    claim = discreet.evaluate(sites, privacy=privacy).claim
    text = str(claim)
    assert claim.loss == PureDP(Fraction(1, 2))
    assert "0.5-DP for one subject (at most 2 examples a site) added or removed" in text
    assert "at least 3 sites are in the sum, and at most 1 of them" in text
    assert "same person at two sites" in text
    assert claim.computational
    assert "Computational" in text
    local = discreet.evaluate(sites, privacy=LocalDP(2)).claim
    assert "one example replaced" in str(local)
    assert not local.computational
    assert "Computational" not in str(local)
    laplace = recommend(FACTS, LocalDP(2, "laplace")).claim("deployed", sites=3)
    assert "one example added or removed" in str(laplace)
    approximate = recommend(FACTS, DistributedDP(1, "1e-6")).claim("deployed", sites=3)
    assert approximate.loss == ApproxDP(Fraction(1), Fraction(1, 10**6))


@pytest.mark.parametrize(
    ("facts", "privacy", "bins"),
    [
        (PublicFacts(), DistributedDP(1), 40),
        (FACTS, DistributedDP(1), 64),
        (FACTS, DistributedDP("0.1"), 20),
        (PublicFacts(10**7, 0.5), DistributedDP(1), 128),
        (FACTS, DistributedDP(4, unit="subject", max_examples=4), 64),
        (FACTS, LocalDP(1), 32),
        (FACTS, LocalDP(1, "unary"), 10),
    ],
)
def test_bins_follow_from_public_facts_alone(facts, privacy, bins):
    plan = recommend(facts, privacy, thresholds=())
    assert len(plan.statistic.edges) == bins


@pytest.mark.parametrize(
    ("examples", "prevalence", "privacy"),
    [(60, 0.25, DistributedDP("0.1")), (25_000, 0.02, LocalDP(1))],
)
def test_too_little_data_is_refused_with_the_reason(rng, examples, prevalence, privacy):
    with pytest.warns(UndefinedMetricWarning, match="too little data"):
        result = discreet.evaluate([site(rng, examples, prevalence)], privacy=privacy)
    assert math.isnan(result.auc.value)
    assert "too little data" in str(result)
    assert "too little" in json.loads(result.to_json())["refusal"]
    with pytest.raises(discreet.NotReleasedError, match="too little data"):
        result.plot()


@pytest.mark.parametrize("squeeze", [lambda s: 0.45 + 0.1 * s, lambda s: s**4])
def test_two_rounds_find_scores_that_sit_in_a_corner(rng, squeeze):
    y = rng.random(30_000) < 0.25
    s = 1 / (1 + np.exp(-(rng.normal(size=30_000) * 1.2 + 2 * y - 1.5)))
    sites = [discreet.Examples(squeeze(s), y, kind="other", low=0, high=1)]
    exact = discreet.evaluate([discreet.Examples(s, y)]).auc.value
    privacy = DistributedDP(1)
    result = discreet.evaluate(
        sites, privacy=privacy, examples=30_000, prevalence=0.25, thresholds=(0.5,)
    )
    assert [r.loss for r in result.source.releases] == [
        PureDP(Fraction(1, 5)),
        PureDP(Fraction(4, 5)),
    ]
    assert result.auc.value == pytest.approx(exact, abs=0.01)
    assert 0.5 in result.observed.edges.values
    # Equi-depth: no bin of the second round holds much of the data.
    total = result.observed.positives + result.observed.negatives
    assert total.max() < 0.3 * total.sum()  # s^4 puts a quarter into one leaf


def test_second_round_edges_come_from_the_release_alone(rng):
    facts = PublicFacts(30_000, 0.25, UNIT_RANGE)
    plan = recommend(facts, DistributedDP(1))
    y = rng.random(30_000) < 0.25
    a = discreet.Examples(rng.random(30_000), y, kind="other", low=0, high=1)
    first = simulate(plan, [a], entropy=Seeded(b"1"))
    again = plan.resolve(1, first[:1]).statistic
    assert again == plan.resolve(1, first[:1]).statistic
    assert first[1].total.size == again.size
    result = run(plan, [a], entropy=Seeded(b"1"))
    assert result.observed.edges == again.edges
    assert loads(dumps(plan)) == plan


def test_two_rounds_without_noise_are_refused():
    facts = PublicFacts(scores=UNIT_RANGE)
    plan = recommend(facts, DistributedDP(1))
    assert isinstance(plan.statistic, EquiDepthFrom)
    with pytest.raises(PlanError, match="two rounds need"):
        replace(plan, privacy=discreet.SecureAggregation())
    with pytest.raises(PlanError, match="follow that round"):
        Plan(DistributedDP(1), (Round(plan.statistic),), facts=facts)
    tree = plan.rounds[0].statistic
    assert isinstance(tree, Hierarchy)
    with pytest.raises(PlanError, match="between 2 and"):
        EquiDepthFrom(tree, 1)


def test_results_do_not_depend_on_how_examples_are_spread_over_sites(rng):
    """With the same seed the noise is the same; so is everything else."""
    y, s = rng.random(20_000) < 0.3, rng.random(20_000)
    plan = recommend(FACTS, DistributedDP(1), edges=Warped(32), cohort=Cohort(2))
    order = rng.permutation(20_000)
    one, two = (
        run(
            plan,
            [discreet.Examples(s[part], y[part]) for part in np.split(order, [first])],
            entropy=Seeded(b"same"),
        )
        for first in (500, 15_000)
    )
    totals = [result.source.releases[0].total.tolist() for result in (one, two)]
    assert totals[0] == totals[1]
    assert one.auc == two.auc
    assert one.at(0.2) == two.at(0.2)


def test_local_messages_count_two_classes_only():
    with pytest.raises(PlanError, match="two classes and no groups"):
        recommend(FACTS, LocalDP(1), groups=["f", "m"])
    recommend(FACTS, LocalDP(1, "laplace"), groups=["f", "m"])


def test_groups_and_classes_are_evaluated_under_one_budget(rng):
    y = rng.random(60_000) < 0.3
    s = np.clip(rng.normal(0.4 + 0.2 * y, 0.2), 0, 1)
    g = np.where(rng.random(60_000) < 0.5, "f", "m")
    result = discreet.evaluate(
        [discreet.Examples(s, y, groups=g)],
        groups=["f", "m"],
        privacy=DistributedDP(1),
        examples=30_000,
        prevalence=0.3,
    )
    exact = discreet.evaluate([discreet.Examples(s, y)], edges=Uniform(512)).auc.value
    assert result["f"].auc.value == pytest.approx(exact, abs=0.02)
    names = ["a", "b", "c"]
    classes = rng.integers(0, 3, 30_000)
    raw = np.exp(rng.normal(size=(30_000, 3)) + 2 * np.eye(3)[classes])
    multi = discreet.evaluate(
        [
            discreet.Examples(
                raw / raw.sum(axis=1, keepdims=True),
                np.array(names)[classes],
                classes=names,
            )
        ],
        classes=names,
        multiclass="ovo",
        privacy=DistributedDP(3),
        examples=30_000,
        prevalence=0.33,
    )
    # Three counts an example: the noise's scale is 3 / 3.
    assert multi["a"].observed.noise.scale == pytest.approx(1.0)
    assert multi.average().noise > 0
    # A rest adds up the noise of two other classes.
    at = np.zeros(2 * len(multi["a"].observed.edges))
    noise = multi["a"].observed.noise.covariance(at)
    np.testing.assert_allclose(noise.negatives, 2 * noise.positives)
    drawn = multi["a"].observed.noise.sample(at, 2000, rng)
    assert drawn[:, 0].var() == pytest.approx(noise.negatives[0], rel=0.3)
    assert 0.8 < multi.average_pairs().value < 1


@pytest.mark.parametrize(
    "method",
    [
        discreet.FedCurve(quantiles=64),
        discreet.FedCurve(quantiles=64, strategy="combine", interpolation="linear"),
        discreet.RangeQueries("l1"),
    ],
)
@pytest.mark.parametrize("privacy", [discreet.SecureAggregation(), DistributedDP(1)])
def test_the_papers_methods_can_be_selected(sites, method, privacy):
    exact = discreet.evaluate(sites)
    result = discreet.evaluate(sites, privacy=privacy, method=method)
    assert result.auc.value == pytest.approx(exact.auc.value, abs=0.02)
    assert result.average_precision.value == pytest.approx(
        exact.average_precision.value, abs=0.08
    )
    assert result.fit.estimator == method.name
    assert discreet.area_error(exact.curves.roc, result.curves.roc) < 0.02
    assert (result.auc.noise > 0) == (privacy.protects is not None)
    fpr, tpr, _ = result.roc_curve()
    assert (np.diff(fpr) >= 0).all()
    assert (np.diff(tpr) >= 0).all()
    again = evaluation(
        result.plan, result.source.releases, result.claim, estimator=method
    )
    assert again.auc == result.auc
    if privacy.protects is not None:
        # Each level has eps/h: the L1 sensitivity of a tree is its height.
        height = result.plan.statistic.height
        assert result.observed.noise.scale == pytest.approx(height)


@pytest.mark.parametrize(
    "make",
    [
        lambda: DistributedDP(0),
        lambda: DistributedDP(1, 1),
        lambda: DistributedDP(1, unit="subject"),
        lambda: DistributedDP(1, unit="site"),
        lambda: DistributedDP(1, max_examples=3),
        lambda: LocalDP(-1),
        lambda: LocalDP(1, "magic"),
        lambda: recommend(FACTS, DistributedDP(1, min_survivors=2, colluders=2)),
    ],
)
def test_models_that_make_no_sense_are_refused(make):
    with pytest.raises(PlanError):
        make()

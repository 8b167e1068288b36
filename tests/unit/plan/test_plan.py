import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import discreet
from discreet import PlanError, SecureAggregation
from discreet.data.edges import Edges, Listed, Support, Uniform, Warped
from discreet.data.prior_spread import PriorSpread
from discreet.data.scores import ScoreRange
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.file import dumps, loads
from discreet.plan.plan import ModelRef, Plan, recommend
from discreet.plan.rounds import Round
from discreet.statistic import ClassHistogram, Hierarchy, Paired
from discreet.transport.simulation import evaluate

SA = SecureAggregation()
FACTS = PublicFacts(examples=32_000, prevalence=0.24)
WIDE = ScoreRange.declare("other", -3, 30.5)
TREE = Hierarchy(Edges.realise(Uniform(8)))
HALVES = Edges.realise(Uniform(2), thresholds=(0.5,))
PLANS = {
    "default": recommend(PublicFacts(), SA),
    "facts": recommend(FACTS, SA, model=ModelRef("sepsis-xgb", "sha256:ab")),
    "thresholds": recommend(FACTS, SA, thresholds=(0.1, 1 / 3), edges=Uniform(10)),
    "warped": recommend(FACTS, SA, edges=Warped(16, 1.25)),
    "listed": recommend(FACTS, SA, edges=Listed((0.0, 0.1, 1.0))),
    "support": recommend(FACTS, SA, edges=Support((0.0, 0.2, 1.0))),
    "logit": recommend(PublicFacts(scores=ScoreRange.declare("logit")), SA),
    "other": recommend(PublicFacts(scores=WIDE), SA, thresholds=(1.5,)),
    "classes": recommend(FACTS, SA, classes=["a", "b"]),
    "pairs": recommend(FACTS, SA, classes=["a", "b"], multiclass="ovo"),
    "groups": recommend(FACTS, SA, groups=["f", "m"]),
    "cohort": recommend(FACTS, SA, cohort=Cohort(8, 2, 100)),
    "tree": Plan(SA, (Round(TREE),)),
    "two models": Plan(SA, (Round(Paired(HALVES, HALVES, "joint")),), (0.5,)),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_survives_toml(name):
    plan = PLANS[name]
    again = loads(dumps(plan))
    assert again == plan
    assert again.digest() == plan.digest()


def test_plans_that_differ_in_anything_have_different_digests():
    digests = {plan.digest() for plan in PLANS.values()}
    assert len(digests) == len(PLANS)
    base = PLANS["facts"]
    for changed in (
        replace(base, thresholds=(0.25,)),
        replace(base, facts=PublicFacts(32_001, 0.24)),
        replace(base, cohort=Cohort(2)),
        replace(base, metrics=frozenset({"auc"})),
    ):
        assert changed.digest() != base.digest()


def test_canonical_bytes_are_sorted_json_with_hex_floats_and_realised_edges():
    plan = recommend(PublicFacts(prevalence=0.1), SA, edges=Uniform(4))
    document = json.loads(plan.canonical())
    assert document["facts"]["prevalence"] == (0.1).hex()
    edges = document["rounds"][0]["statistic"]["edges"]["values"]
    assert [float.fromhex(v) for v in edges] == [0, 0.25, 0.5, 0.75, 1]
    text = plan.canonical().decode()
    assert text == json.dumps(document, sort_keys=True, separators=(",", ":"))


def test_the_digest_of_the_default_plan_is_the_published_one():
    """A new digest is a change of the wire: note it in the CHANGELOG."""
    assert PLANS["default"].digest().hex() == DEFAULT_DIGEST


def test_an_edited_plan_is_refused():
    text = dumps(PLANS["facts"]).replace("prevalence = 0.24", "prevalence = 0.25")
    with pytest.raises(PlanError, match="edited after it was written"):
        loads(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("version = 1", "version = 2"), "version 1"),
        (("[facts]", "[fact]"), "unknown keys: fact"),
        (("budget =", "max_weight = 5\nbudget ="), "unknown keys: max_weight"),
        (('rule = "prior"', 'rule = "magic"'), "unknown rule"),
        (('model = "secure-aggregation"', 'model = "trust me"'), "unknown privacy"),
        (('statistic = "histogram"', 'statistic = "mean"'), "unknown statistic"),
        (("min_survivors = 1", "min_survivors = 0"), "sites that survive"),
        (('budget = "1"', 'budget = "1/0"'), "ratio"),
        (
            ('scores = "probability"', "scores = 1"),
            "scores in facts in the plan is one of",
        ),
        (("bins = 128", 'bins = "many"'), "whole number"),
        (("version = 1", "version = "), "not valid TOML"),
        (('scores = "probability"', ""), "lacks the key 'scores'"),
    ],
)
def test_a_malformed_plan_gets_one_sentence(change, message):
    text = dumps(PLANS["default"])
    assert change[0] in text
    with pytest.raises(PlanError, match=message):
        loads(text.replace(*change))


def test_the_plan_does_not_change_with_the_data(rng):
    results = []
    for _ in range(2):
        s = rng.random(20_000)
        y = rng.random(20_000) < rng.random()
        results.append(evaluate([discreet.Examples(s, y)], examples=20_000))
    assert results[0].plan == results[1].plan
    assert not np.array_equal(
        results[0].source.releases[0].total, results[1].source.releases[0].total
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: PublicFacts(examples=0),
        lambda: PublicFacts(prevalence=1.0),
        lambda: Cohort(min_survivors=2, colluders=2),
        lambda: Plan(SA, ()),
        lambda: Plan(SA, (Round(TREE, Fraction(1, 2)),)),
        lambda: Plan(SA, (Round(TREE),), thresholds=(1.5,)),
        lambda: Plan(SA, (Round(TREE),), metrics=frozenset({"accuracy"})),
        lambda: Plan(SA, (Round(TREE),), facts=PublicFacts(scores=WIDE)),
        lambda: replace(PLANS["other"], metrics=frozenset({"brier"})),
        lambda: recommend(FACTS, SA, classes=["a", "b"], groups=["f"]),
        lambda: PLANS["default"].resolve(1, []),
    ],
)
def test_plans_that_make_no_sense_are_refused(make):
    with pytest.raises(PlanError):
        make()


def test_default_edges_and_thresholds_follow_the_kind_of_scores():
    assert PLANS["default"].statistic == ClassHistogram(
        Edges.realise(PriorSpread(128, 0.05), thresholds=(0.5,))
    )
    assert PLANS["logit"].thresholds == (0.0,)
    other = recommend(PublicFacts(scores=WIDE), SA)
    assert other.thresholds == ()
    assert "brier" not in other.metrics


@pytest.mark.parametrize(
    ("examples", "bins"),
    [(None, 128), (1, 10), (500, 50), (5_000, 500), (10_240, 1024), (10**7, 1024)],
)
def test_bins_without_noise_leave_ten_examples_in_each_and_are_at_most_1024(
    examples, bins
):
    plan = recommend(PublicFacts(examples, 0.2), SA)
    assert plan.statistic.edges.rule == PriorSpread(bins, 0.2)


def test_bins_without_noise_leave_ten_examples_in_every_group_of_people_and_of_sites():
    grouped = recommend(PublicFacts(6_000, 0.2), SA, groups=["f", "m"])
    assert grouped.statistic.binnings[0].rule == PriorSpread(300, 0.2)
    split = recommend(PublicFacts(6_000), SA, cohort=Cohort(2, 0, 0, None, 3))
    assert split.statistic.edges.rule == PriorSpread(200, 0.05)


def test_more_bins_are_for_who_asks_and_the_claim_says_how_many_examples_are_alone():
    chosen = recommend(PublicFacts(2_000, 0.1), SA, edges=Uniform(1000), thresholds=())
    negatives, positives = 1.8, 0.2  # expected in a cell of each class
    alone = 1000 * (negatives / (1 + negatives) ** 2 + positives / (1 + positives) ** 2)
    found = chosen.lone_examples()
    assert (found.expected, found.cells) == (pytest.approx(alone), 2000)
    text = str(chosen.claim("deployed", sites=3))
    assert f"about {alone:,.0f} of 2,000 cells hold one example alone" in text
    noisy = recommend(PublicFacts(2_000, 0.1), discreet.DistributedDP(1))
    assert noisy.lone_examples() is None
    assert PLANS["default"].lone_examples() is None  # it declares no size


@pytest.mark.parametrize("n", [500, 5_000, 50_000])
@pytest.mark.parametrize("prevalence", [0.03, 0.3])
def test_about_as_many_examples_are_alone_as_the_plan_says(rng, n, prevalence):
    plan = recommend(PublicFacts(n, prevalence), SA, groups=["f", "m"])
    y = rng.random(n) < prevalence
    scores = 1 / (1 + np.exp(-rng.normal(1.5 * y - 1.5, 1.2)))
    site = discreet.Examples(scores, y, groups=rng.choice(["f", "m"], n))
    alone = np.count_nonzero(plan.statistic.count(site) == 1)
    assert 0.4 < alone / plan.lone_examples().expected < 2.5


DEFAULT_DIGEST = "96ea17806892f4880693418cfe17350872a4aa4566af9615d50192ab29d5520f"


def test_a_purpose_is_part_of_the_plan_and_its_absence_changes_no_digest():
    plan = PLANS["cohort"]
    named = replace(plan, purpose="external validation of the sepsis model")
    assert named.digest() != plan.digest()
    assert named.asked() == plan.asked()  # the same counts, whatever they are for
    assert loads(dumps(named)) == named
    assert "purpose" not in dumps(plan)
    assert b"purpose" not in plan.canonical()
    for wrong in ("two\nlines", "x" * 201):
        with pytest.raises(PlanError, match="purpose"):
            replace(plan, purpose=wrong)

"""A site's policy: what it allows, in a file whose every key is known."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import discreet
from discreet.data.edges import Uniform
from discreet.models.label import LabelDP
from discreet.plan.cohort import Cohort, Member, PublicFacts, Roster, key_text
from discreet.plan.plan import ModelRef, recommend
from discreet.privacy.account import Cap, Limits
from discreet.session import policy as policyfile
from discreet.session.policy import Policy, PolicyError

TEXT = """
population = "icu-2025-test"
[allow]
privacy = ["distributed", "secure-aggregation", "local"]
units = ["example", "subject"]
coordinators = ["ed25519:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="]
models = ["sepsis-*"]
groups = ["ward-*", "icu"]
[caps]
epsilon_per_plan = "1"
epsilon_total = 3
delta_total = "1e-5"
exact_sums = 2
sessions_per_plan = 3
max_bins = 200
[floors]
sites = 3
examples = 100
colluders = 1
smallest_cell = 4
require_roster = false
"""
POLICY = policyfile.loads(TEXT)
ROSTER = Roster(
    tuple(Member(name, name.encode() * 32) for name in "abcd"), coordinator=b"\1" * 32
)
PLAN = replace(
    recommend(
        PublicFacts(),
        discreet.DistributedDP(1),
        cohort=Cohort(4, 1),
        model=ModelRef("sepsis-xgb"),
    ),
    roster=ROSTER,
)


def test_every_key_of_the_file_is_read():
    expected = Policy(
        population="icu-2025-test",
        privacy=("distributed", "secure-aggregation", "local"),
        units=("example", "subject"),
        coordinators=(key_text(b"\1" * 32),),
        models=("sepsis-*",),
        groups=("ward-*", "icu"),
        epsilon_per_plan=Fraction(1),
        epsilon_total=Fraction(3),
        delta_total=Fraction(1, 10**5),
        exact_sums=2,
        sessions_per_plan=3,
        max_bins=200,
        sites=3,
        examples=100,
        colluders=1,
        smallest_cell=4,
        require_roster=False,
    )
    assert policyfile.loads(TEXT) == expected


def test_a_policy_survives_its_file():
    assert policyfile.loads(policyfile.dumps(POLICY)) == POLICY
    bare = Policy(population="p", privacy=("local",))
    assert policyfile.loads(policyfile.dumps(bare)) == bare


def test_what_is_not_said_is_not_allowed_or_not_spent():
    bare = policyfile.loads('population = "p"\n[allow]\nprivacy = ["distributed"]')
    cap = Cap(Fraction(0), Fraction(0), 0)
    assert bare.limits() == Limits(cap, 1, 3)
    with pytest.raises(PolicyError, match="allows epsilon 0 a plan"):
        bare.check(PLAN)
    said = replace(bare, epsilon_per_plan=Fraction(1))
    with pytest.raises(PolicyError, match="the policy allows no coordinator"):
        said.check(PLAN)
    said = replace(said, coordinators=POLICY.coordinators)
    with pytest.raises(PolicyError, match="'sepsis-xgb', and the policy allows none"):
        said.check(PLAN)
    replace(said, models=("sepsis-xgb",)).check(PLAN)


def test_anybody_and_any_model_have_to_be_said():
    anybody = replace(POLICY, coordinators=("*",), models=("*",))
    for plan in (
        replace(PLAN, roster=None, model=ModelRef("mortality")),
        replace(PLAN, roster=replace(ROSTER, coordinator=None)),
        replace(PLAN, roster=replace(ROSTER, coordinator=b"\2" * 32)),
    ):
        anybody.check(plan)
        with pytest.raises(PolicyError):
            POLICY.check(plan)


def test_a_plan_without_a_roster_is_refused_where_one_is_required():
    strict = replace(POLICY, coordinators=("*",), require_roster=True)
    strict.check(PLAN)
    with pytest.raises(PolicyError, match="has no roster, and the policy requires one"):
        strict.check(replace(PLAN, roster=None))
    assert Policy(population="p", privacy=()).require_roster


def test_only_plans_of_summed_answers_count_on_colluders():
    with pytest.raises(PolicyError, match=r"counts on 0 colluding .* --colluders 1"):
        POLICY.check(replace(PLAN, cohort=Cohort(4, 0)))
    # What a site sends is private on its own: others can tell nothing about it.
    POLICY.check(replace(PLAN, privacy=discreet.LocalDP(1), cohort=Cohort(4, 0)))


def test_bins_are_counted_with_those_at_thresholds():
    bins = len(PLAN.statistic.binnings[0])
    replace(POLICY, max_bins=bins).check(PLAN)
    with pytest.raises(
        PolicyError, match=f"asks for {bins} bins, .* allows {bins - 1}"
    ):
        replace(POLICY, max_bins=bins - 1).check(PLAN)
    many = tuple(np.linspace(0.001, 0.999, 500))
    fine = recommend(
        PublicFacts(), discreet.DistributedDP(1), edges=Uniform(4), thresholds=many
    )
    with pytest.raises(PolicyError, match=r"asks for 50\d bins"):
        POLICY.check(replace(PLAN, rounds=fine.rounds, thresholds=many))


@pytest.mark.parametrize(
    ("facts", "more", "message"),
    [
        (PublicFacts(4_000, 0.2), {}, None),  # 8 positives in a bin
        (PublicFacts(4_000, 0.8), {}, None),
        (PublicFacts(1_900, 0.2), {}, r"expects 3\.8 examples .* asks for 4: .* --bins 95"),
        (PublicFacts(1_900, 0.8), {}, r"expects 3\.8 examples"),
        (PublicFacts(4_000, 0.2), {"groups": ["icu", "ward-1", "ward-2"]}, r"expects 2\.67"),
        (PublicFacts(4_000, 0.2), {"cohort": Cohort(4, 1, 0, None, 3)}, r"expects 2\.67"),
        (PublicFacts(4_000), {}, "does not declare its examples and prevalence"),
        (PublicFacts(prevalence=0.2), {}, "does not declare its examples and prevalence"),
    ],
)  # fmt: skip
def test_an_exact_plan_whose_declared_size_makes_small_cells_likely_is_refused(
    facts, more, message
):
    plan = recommend(
        facts,
        discreet.SecureAggregation(),
        edges=Uniform(100),
        thresholds=(),
        **{"cohort": Cohort(4, 1), **more},
    )
    plan = replace(plan, model=ModelRef("sepsis-xgb"))
    policy = replace(POLICY, coordinators=("*",))
    if message is None:
        policy.check(plan)
    else:
        with pytest.raises(PolicyError, match=message):
            policy.check(plan)
    replace(policy, smallest_cell=0).check(plan)
    noisy = replace(plan, privacy=discreet.DistributedDP(1))
    policy.check(noisy)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("epsilon_total", "epsilon_totals", "unknown keys: epsilon_totals"),
        ("[floors]", "[floor]", "unknown keys: floor"),
        ('population = "icu-2025-test"', "", "lacks the key 'population'"),
        ('population = "icu-2025-test"', 'population = " "', "names the population"),
        ("privacy = [", "units2 = [", "unknown keys"),
        ('"local"]', '"locale"]', "'locale'"),
        ('"subject"]', '"person"]', "'person'"),
        ("epsilon_total = 3", 'epsilon_total = "three"', "decimal number"),
        ("epsilon_total = 3", "epsilon_total = -1", "not negative"),
        ("epsilon_total = 3", "epsilon_total = true", "decimal number"),
        ('"1e-5"', '"1"', r"\[0, 1\)"),
        ("exact_sums = 2", 'exact_sums = "2"', "whole number"),
        ("exact_sums = 2", "exact_sums = true", "whole number"),
        ("exact_sums = 2", "exact_sums = -1", "not negative"),
        ("sites = 3", "sites = 0", "at least 1 site"),
        ("colluders = 1", "colluders = -1", "no negative"),
        ("smallest_cell = 4", "smallest_cell = 0.5", "whole number"),
        ("max_bins = 200", "max_bins = 0", "at least 1"),
        ("require_roster = false", "require_roster = 0", "true or false"),
        ("require_roster = false", 'require_roster = "no"', "true or false"),
        (
            'models = ["sepsis-*"]',
            'models = "sepsis-*"',
            "models in the policy must be a list",
        ),
        ("ed25519:AQ", "ed25519:!Q", "neither base64 nor hexadecimal"),
        ("[caps]", "[caps", "not valid TOML"),
    ],
)
def test_a_file_with_a_mistake_is_refused(old, new, message):
    assert old in TEXT
    with pytest.raises(PolicyError, match=message):
        policyfile.loads(TEXT.replace(old, new))


def test_a_policy_without_privacy_models_or_without_a_file_is_refused(tmp_path):
    with pytest.raises(PolicyError, match=r"lacks allow\.privacy"):
        policyfile.loads('population = "p"')
    with pytest.raises(PolicyError, match="no readable policy file"):
        policyfile.load(tmp_path / "none.toml")
    (tmp_path / "policy.toml").write_text(TEXT)
    assert policyfile.load(tmp_path / "policy.toml") == POLICY


def test_a_plan_within_the_policy_passes():
    POLICY.check(PLAN)


GROUPED = recommend(
    PublicFacts(), discreet.DistributedDP(1), groups=["icu", "surgery"]
).rounds


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"privacy": LabelDP(1, mechanism="binned")}, "'label'"),
        (
            {"privacy": discreet.DistributedDP(1, unit="client", max_examples=9)},
            "one client",
        ),
        ({"privacy": discreet.DistributedDP("1.01")}, "allows epsilon 1 a plan"),
        ({"privacy": discreet.DistributedDP(1, "1e-4")}, "delta 0.00001 in all"),
        ({"cohort": Cohort(2)}, "sum of 2 sites .* at least 3"),
        ({"model": ModelRef("mortality")}, "'mortality', and the policy allows"),
        ({"rounds": GROUPED}, "1 groups apart .* 'surgery'"),
        ({"roster": None}, "the plan names none"),
        ({"roster": replace(ROSTER, coordinator=b"\2" * 32)}, "not one that"),
    ],
)
def test_a_plan_beyond_the_policy_is_refused_with_the_reason(change, message):
    with pytest.raises(PolicyError, match=message):
        POLICY.check(replace(PLAN, **change))


def test_exact_sums_are_refused_where_none_is_allowed():
    facts = PublicFacts(4_000, 0.5)
    exact = replace(PLAN, privacy=discreet.SecureAggregation(), facts=facts)
    POLICY.check(exact)
    with pytest.raises(PolicyError, match="exact sums, and the policy allows none"):
        replace(POLICY, exact_sums=0).check(exact)


def test_label_privacy_has_to_be_named_as_a_unit():
    label = replace(PLAN, privacy=LabelDP(1, mechanism="binned"))
    allowed = replace(POLICY, privacy=("label",))
    with pytest.raises(PolicyError, match="one label"):
        allowed.check(label)
    replace(allowed, units=("label",)).check(label)


def test_a_pattern_does_not_match_part_of_a_name_or_another_case():
    for name in ("Sepsis-xgb", "my-sepsis-xgb", "sepsis", ""):
        with pytest.raises(PolicyError, match="measures the model"):
            POLICY.check(replace(PLAN, model=ModelRef(name)))


@pytest.mark.parametrize("words", ["two\nlines", "x" * 81, "\x1b[31mred", 7])
def test_what_is_said_when_declining_is_one_short_line(words):
    text = TEXT.replace("[allow]", f"when_declining = {json.dumps(words)}\n[allow]")
    with pytest.raises(PolicyError, match="when_declining"):
        policyfile.loads(text)


def test_what_is_said_when_declining_survives_the_file():
    policy = replace(POLICY, when_declining="Datenschutz: Durchwahl 17")
    assert policyfile.loads(policyfile.dumps(policy)) == policy


def test_the_number_of_bins_that_a_refusal_names_is_accepted():
    facts, exact = PublicFacts(1_900, 0.2), discreet.SecureAggregation()
    policy = replace(POLICY, coordinators=("*",), models=("*",))
    for thresholds in ((), (0.5,), (0.11, 0.22, 0.33)):
        asked = {"thresholds": thresholds, "cohort": Cohort(4, 1)}
        with pytest.raises(PolicyError, match="plan with --bins") as refused:
            policy.check(recommend(facts, exact, edges=Uniform(190), **asked))
        bins = int(str(refused.value).split()[-1])
        policy.check(recommend(facts, exact, edges=Uniform(bins), **asked))
    tiny = recommend(PublicFacts(20, 0.2), exact, cohort=Cohort(4, 1))
    with pytest.raises(PolicyError, match="plan with noise"):
        policy.check(tiny)

"""A site's policy: what it allows, in a file whose every key is known; the starter."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import discreet
from discreet.cli.main import app
from discreet.data.edges import Uniform
from discreet.data.scores import ScoreRange
from discreet.data.scoring import Scoring
from discreet.models.label import LabelDP
from discreet.plan.cohort import Cohort, Member, PublicFacts, Roster, key_text
from discreet.plan.file import dumps
from discreet.plan.plan import ModelRef, recommend
from discreet.privacy.account import Cap, Limits
from discreet.session import policy as policyfile
from discreet.session.policy import _TABLES, AllowAll, Policy, PolicyError, Starter

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
    wordy = replace(POLICY, when_declining="Datenschutz: Durchwahl 17")
    assert policyfile.loads(policyfile.dumps(wordy)) == wordy


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


def test_a_simulated_site_refuses_no_plan_and_no_charge():
    free = AllowAll(population="made up", privacy=())
    free.check(PLAN)
    assert (free.limits().cap, free.limits().sessions_per_plan) == (Cap(), None)


def test_a_digest_allows_the_file_that_scores_here_and_nothing_that_is_called_so():
    digest, other = (f"sha256:{c * 64}" for c in "ab")
    policy = Policy(population="p", privacy=("distributed",), coordinators=("*",))
    policy = replace(policy, models=(digest,), epsilon_per_plan=Fraction(1))
    plan = recommend(PublicFacts(1000, 0.2), discreet.DistributedDP(1))
    scoring = Scoring(("age",), "probabilities", (1,))

    def question(*model):
        policy._check_questions(replace(plan, model=ModelRef(*model)))

    question("any name", digest, scoring)
    for refused in (
        ("any name", other, scoring),  # another file
        (
            "any name",
            digest,
            None,
        ),  # a column of scores, and a digest that nobody checks
        (digest, other, scoring),  # a model that is called like the file
        (digest, "", None),
    ):
        with pytest.raises(PolicyError, match=r"allow\.models"):
            question(*refused)


def test_a_starter_allows_the_file_of_its_plan_and_no_name():
    digest = f"sha256:{'a' * 64}"
    plan = recommend(PublicFacts(1000, 0.2), discreet.DistributedDP(1))
    model = ModelRef("sepsis", digest, Scoring(("age",), "probabilities", (1,)))
    starter = Starter.for_plan("north", bytes(32), replace(plan, model=model), [])
    assert starter.models == (digest,)


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
        with pytest.raises(PolicyError, match=r"(measures the|names no) model"):
            POLICY.check(replace(PLAN, model=ModelRef(name)))


@pytest.mark.parametrize("words", ["two\nlines", "x" * 81, "\x1b[31mred", 7])
def test_what_is_said_when_declining_is_one_short_line(words):
    text = TEXT.replace("[allow]", f"when_declining = {json.dumps(words)}\n[allow]")
    with pytest.raises(PolicyError, match="when_declining"):
        policyfile.loads(text)


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


KEY = b"\1" * 32
TRIO = Roster(tuple(Member(n, n.encode() * 32) for n in "abc"), coordinator=KEY)


def planned(privacy, **more):
    made = recommend(
        more.pop("facts", PublicFacts(3_000, 0.3)),
        privacy,
        cohort=more.pop("cohort", Cohort(3, 1)),
        model=ModelRef("sepsis-xgb"),
        **more,
    )
    return replace(made, roster=TRIO)


NOISY = planned(discreet.DistributedDP(1))


def starter(plan=NOISY, models=(), site="north") -> Policy:
    return policyfile.loads(Starter.for_plan(site, KEY, plan, models).text())


def test_a_starter_answers_the_agreed_plan_under_noise():
    starter().check(NOISY)
    starter(None, ["sepsis-*"]).check(NOISY)
    starter().check(planned(discreet.LocalDP(1)))
    other = PublicFacts(3_000, 0.3, ScoreRange.declare("other", 0, 9))
    starter().check(planned(discreet.DistributedDP(1), facts=other))  # a pilot round


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (planned(discreet.SecureAggregation()), "'secure-aggregation', and"),
        (planned(discreet.DistributedDP("1.1")), "allows epsilon 1 a plan"),
        (planned(discreet.DistributedDP(1, "1e-9")), "delta 0 in all"),
        (planned(discreet.DistributedDP(1), cohort=Cohort(3, 0)), "counts on 0"),
        (planned(discreet.DistributedDP(1), cohort=Cohort(2, 1)), "sum of 2 sites"),
        (planned(discreet.DistributedDP(1), groups=["f"]), "1 groups apart"),
        (replace(NOISY, model=ModelRef("sepsis-xgb2")), "allows 'sepsis-xgb'"),
        (
            replace(NOISY, model=ModelRef()),
            "names no model, and the policy allows 'sepsis",
        ),
        (replace(NOISY, roster=None), "has no roster"),
        (
            replace(NOISY, roster=replace(TRIO, coordinator=b"\2" * 32)),
            "not one that the policy lists",
        ),
    ],
)
def test_a_starter_declines_whatever_was_not_said(plan, message):
    with pytest.raises(PolicyError, match=message):
        starter().check(plan)


def test_exact_sums_are_answered_where_an_operator_says_so():
    text = Starter.for_plan("north", KEY, NOISY, ()).text()
    page = (Path(__file__).parents[3] / "docs" / "policy.md").read_text()
    (said,) = re.findall(r"takes these lines.*?```toml\n(.*?)```", page, re.DOTALL)
    for line in said.splitlines():
        key, equals, _ = line.partition(" = ")
        if equals:
            text, changed = re.subn(rf"(?m)^{key} = .*$", line, text)
            assert changed == 1
    exact, facts = discreet.SecureAggregation(), PublicFacts(20_000, 0.3)
    policy = policyfile.loads(text)
    policy.check(planned(exact, facts=facts))
    with pytest.raises(PolicyError, match="smaller class in a cell"):
        policy.check(planned(exact, facts=PublicFacts(2_000, 0.3)))
    with pytest.raises(PolicyError, match="plan with --colluders 1"):
        policy.check(planned(exact, facts=facts, cohort=Cohort(3)))


def test_a_starter_that_knows_no_model_allows_none_and_says_where_to_name_it():
    text = Starter.for_plan("north", KEY, None, ()).text()
    assert "# None yet: no plan is answered before one is named here." in text
    with pytest.raises(PolicyError, match=r"allows none: allow\.models lists"):
        policyfile.loads(text).check(NOISY)


def test_every_key_of_a_starter_has_a_line_that_says_what_it_does():
    text = Starter.for_plan("north", KEY, NOISY, ()).text()
    lines = text.splitlines()
    keys = [i for i, line in enumerate(lines) if re.match(r"\w+ = ", line)]
    assert all(lines[i - 1].startswith("# ") for i in keys)
    said = {lines[i].split(" = ")[0] for i in keys}
    assert said == {"population"}.union(*_TABLES.values())


def test_the_name_of_a_plans_model_is_no_pattern_and_no_end_of_a_string():
    for name in ("*", "a?c", "[ab]", 'x"]', "back\\slash", "ähren 🌾"):
        plan = replace(NOISY, model=ModelRef(name))
        policy = starter(plan)
        policy.check(plan)
        for other in ("sepsis", "abc", "a"):
            with pytest.raises(PolicyError, match="measures the model"):
                policy.check(replace(plan, model=ModelRef(other)))


def test_a_starter_asks_for_as_many_sites_as_the_plan_and_never_for_two():
    assert starter(planned(discreet.DistributedDP(1))).sites == 3
    five = recommend(PublicFacts(), discreet.DistributedDP(1), cohort=Cohort(5))
    assert starter(five).sites == 5
    two = recommend(PublicFacts(), discreet.DistributedDP(1), cohort=Cohort(2))
    assert starter(two).sites == 3


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result.output


def test_trust_writes_a_starter_for_the_named_models_and_never_writes_over_one(
    tmp_path: Path,
) -> None:
    run("keys", "new", "north", "--folder", tmp_path / "north")
    run("keys", "coordinator", tmp_path / "c")
    public = tmp_path / "c" / "coordinator.public.toml"
    said = run("keys", "trust", tmp_path / "north", public, "--name", "sepsis-*")
    assert "allows no model yet" not in said
    policy = policyfile.load(tmp_path / "north" / "policy.toml")
    assert policy.models == ("sepsis-*",)
    assert len(policy.coordinators) == 1
    assert (policy.exact_sums, policy.require_roster, policy.colluders) == (0, True, 1)
    assert "secure-aggregation" not in policy.privacy
    run("keys", "trust", tmp_path / "north", public, "--name", "other")
    assert policyfile.load(tmp_path / "north" / "policy.toml") == policy


def test_trust_without_a_model_says_what_to_fill_in(tmp_path: Path) -> None:
    run("keys", "new", "north", "--folder", tmp_path / "north")
    run("keys", "coordinator", tmp_path / "c")
    public = tmp_path / "c" / "coordinator.public.toml"
    assert "allows no model yet" in run("keys", "trust", tmp_path / "north", public)


def test_a_plan_without_a_models_name_is_told_to_get_one(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    unnamed = replace(NOISY, model=ModelRef())
    path.write_text(dumps(replace(unnamed, roster=None)))
    run("keys", "coordinator", tmp_path / "c")
    public = tmp_path / "c" / "coordinator.public.toml"
    place = ["--site", "north", "--folder", tmp_path / "north"]
    said = run("join", public, *place, "--plan", path)
    assert "the plan names none: ask for a plan made with" in " ".join(said.split())
    policy = policyfile.load(tmp_path / "north" / "policy.toml")
    with pytest.raises(PolicyError, match="names no model, and the policy allows none"):
        replace(policy, coordinators=("*",)).check(unnamed)


def test_a_consortium_allows_the_model_of_its_plan_and_the_named_ones(
    tmp_path: Path,
) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(dumps(replace(NOISY, roster=None)))
    sites = [part for name in "abc" for part in ("--site", name)]
    run("consortium", tmp_path / "m", *sites, "--plan", path, "--name", "mortality-*")
    for name in "abc":
        policy = policyfile.load(tmp_path / "m" / name / "policy.toml")
        assert policy.models == ("sepsis-xgb", "mortality-*")
        assert policy.population == f"{name}-test"
    said = run("consortium", tmp_path / "n", *sites)
    assert "allows no model yet" in said
    assert key_text(KEY) not in said

"""The starter policy: what nobody has said yet is not allowed by it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import discreet
from discreet.cli.main import app
from discreet.data.scores import ScoreRange
from discreet.plan.cohort import Cohort, Member, PublicFacts, Roster, key_text
from discreet.plan.file import dumps
from discreet.plan.plan import ModelRef, recommend
from discreet.session import policy as policyfile
from discreet.session.policy import _TABLES, Policy, PolicyError, Starter

KEY = b"\1" * 32
ROSTER = Roster(tuple(Member(n, n.encode() * 32) for n in "abc"), coordinator=KEY)


def planned(privacy, **more):
    made = recommend(
        more.pop("facts", PublicFacts(3_000, 0.3)),
        privacy,
        cohort=more.pop("cohort", Cohort(3, 1)),
        model=ModelRef("sepsis-xgb"),
        **more,
    )
    return replace(made, roster=ROSTER)


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
        (replace(NOISY, model=ModelRef()), "allows 'sepsis-xgb'"),
        (replace(NOISY, roster=None), "has no roster"),
        (
            replace(NOISY, roster=replace(ROSTER, coordinator=b"\2" * 32)),
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

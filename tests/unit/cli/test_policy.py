"""``discreet policy``: its sentences say what the policy does, and its exit code too."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from discreet.cli.main import app
from discreet.cli.policy import _PROTECTED, explained
from discreet.errors import InputError, PlanError
from discreet.models.distributed import DistributedDP
from discreet.models.label import LabelDP
from discreet.models.local import LocalDP
from discreet.models.secure_aggregation import SecureAggregation
from discreet.plan.cohort import Cohort, Member, PublicFacts, Roster, key_text
from discreet.plan.file import dumps
from discreet.plan.plan import ModelRef, Plan, recommend
from discreet.plan.privacy_model import MODELS, PrivacyModel
from discreet.privacy.account import Use
from discreet.privacy.ledger import Ledger
from discreet.privacy.loss import PureDP
from discreet.session.policy import UNIT_NAMES, Policy, Starter, loads
from discreet.session.policy import dumps as policy_text

KEY = b"k" * 32
ROSTER = Roster(tuple(Member(name, name.encode() * 32) for name in "abc"), KEY)
STARTER = loads(Starter(site="north", coordinator=KEY, models=("sepsis-*",)).text())
OPEN = replace(STARTER, privacy=tuple(MODELS), units=UNIT_NAMES, exact_sums=2)


def plan_of(privacy: PrivacyModel) -> Plan:
    plan = recommend(PublicFacts(20_000, 0.3), privacy, cohort=Cohort(3, 1))
    return replace(plan, model=ModelRef("sepsis-xgb"), roster=ROSTER)


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["policy", *map(str, words)])


def write(folder: Path, policy: Policy, plan: Plan) -> tuple[Path, Path]:
    paths = folder / "policy.toml", folder / "plan.toml"
    paths[0].write_text(policy_text(policy))
    paths[1].write_text(dumps(plan))
    return paths


@pytest.mark.parametrize(
    "privacy", [DistributedDP(1), LocalDP(1), SecureAggregation(), LabelDP(1)]
)
@pytest.mark.parametrize(
    "policy",
    [
        STARTER,
        OPEN,
        replace(OPEN, exact_sums=0),
        replace(OPEN, epsilon_total=Fraction(0)),
        replace(OPEN, units=("subject", "label")),
        replace(OPEN, units=("example", "subject", "client")),
    ],
)
def test_a_model_stands_among_the_allowed_exactly_when_its_plans_are(
    policy: Policy, privacy: PrivacyModel
) -> None:
    said = explained(policy)
    named = f"({privacy.name})"
    allowed = any(named in line for line in said["It allows"])
    declined = any(named in line for line in said["It does not allow"])
    assert allowed != declined
    plans = [privacy]
    if isinstance(privacy, DistributedDP):
        plans.append(DistributedDP(1, unit="subject", max_examples=1))
    with_ledger = min(policy.epsilon_total, 1) or privacy.protects is None
    assert allowed == any(
        with_ledger and not list(policy.reasons(plan_of(each))) for each in plans
    )


def test_every_key_of_a_policy_changes_a_sentence() -> None:
    changes: dict[str, object] = {
        "population": "ward",
        "privacy": ("local",),
        "units": ("subject",),
        "coordinators": (key_text(b"c" * 32),),
        "models": ("*",),
        "groups": ("female",),
        "epsilon_per_plan": Fraction(1, 2),
        "epsilon_total": Fraction(5),
        "delta_total": Fraction(1, 1000),
        "exact_sums": 7,
        "sessions_per_plan": 9,
        "refusals_per_day": 3,
        "max_bins": 77,
        "retention_days": 11,
        "sites": 8,
        "examples": 55,
        "colluders": 4,
        "smallest_cell": 6,
        "require_roster": False,
        "when_declining": "call extension 17",
    }
    assert set(changes) == set(Policy.__dataclass_fields__)
    for key, value in changes.items():
        assert explained(replace(OPEN, **{key: value})) != explained(OPEN), key


@pytest.mark.parametrize(
    ("lacking", "why"),
    [
        ({"coordinators": ()}, "no coordinator"),
        ({"models": ()}, "no model"),
        ({"privacy": ()}, "no privacy model"),
        ({"epsilon_total": Fraction(0)}, "no budget"),
        ({"units": ()}, "does not name"),
        ({"privacy": ("label",)}, "does not name label"),
        ({"privacy": ("secure-aggregation",)}, "caps.exact_sums is 0"),
        ({"sessions_per_plan": 0}, "no session"),
    ],
)
def test_a_policy_that_declines_every_plan_says_so(
    lacking: dict[str, object], why: str
) -> None:
    (only,) = explained(replace(STARTER, **lacking))["It allows"]
    assert why in only


def test_explain_prints_the_sentences(tmp_path: Path) -> None:
    policy, _ = write(tmp_path, STARTER, plan_of(DistributedDP(1)))
    said = run("explain", policy)
    assert said.exit_code == 0
    for sentences in explained(STARTER).values():
        for sentence in sentences:
            assert sentence in said.output


def test_check_answers_by_its_exit_code_and_names_every_reason(tmp_path: Path) -> None:
    policy, plan = write(tmp_path, STARTER, plan_of(DistributedDP(1)))
    allowed = run("check", policy, plan)
    assert allowed.exit_code == 0
    assert "give --ledger" in allowed.output
    greedy = replace(plan_of(DistributedDP(8)), model=ModelRef("other"), roster=None)
    plan.write_text(dumps(greedy))
    declined = run("check", policy, plan)
    assert declined.exit_code == 1
    for reason in ("epsilon 1 a plan", "no roster", "names none", "'other'"):
        assert reason in declined.output
    plan.write_text("no plan")
    assert run("check", policy, plan).exception is not None


def test_check_compares_the_caps_with_a_ledger_and_charges_nothing(
    tmp_path: Path,
) -> None:
    policy, plan = write(tmp_path, STARTER, plan_of(DistributedDP(1)))
    path = tmp_path / "ledger.sqlite"
    with Ledger.new(path) as ledger:
        spent = PureDP(Fraction(5, 2))
        ledger.reserve(Use(STARTER.population, b"s", 0, spent, plan=b"p"))
    declined = run("check", policy, plan, "--ledger", path)
    assert declined.exit_code == 1
    assert "exceed the cap" in declined.output
    with Ledger(path) as ledger:
        assert len(ledger.entries()) == 1


@pytest.mark.parametrize("name", [n for n in MODELS if n != "secure-aggregation"])
def test_the_units_that_are_explained_are_those_that_the_models_protect(
    name: str,
) -> None:
    found = set()
    for unit in ({}, {"unit": "subject"}, {"unit": "client"}):
        most = {"max_examples": 2} if unit else {}
        try:
            model = MODELS[name](epsilon=1, **unit, **most)
        except (InputError, PlanError):
            continue  # it knows one unit alone
        assert model.protects is not None
        found.add(model.protects.kind)
    assert found == _PROTECTED[name]

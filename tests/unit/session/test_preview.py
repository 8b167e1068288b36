"""The preview: what would leave, without drawing, charging or sending anything."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

import discreet
from discreet.cli.preview import preview as preview_command
from discreet.data.scores import ScoreRange
from discreet.entropy import SYSTEM
from discreet.errors import InputError
from discreet.models.label import LabelDP
from discreet.plan import file as planfile
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import ModelRef, recommend
from discreet.privacy.account import MemoryAccount
from discreet.privacy.ledger import Ledger
from discreet.session import policy as policyfile
from discreet.session.preview import preview
from discreet.session.respond import respond
from policies import open_policy

POLICY = open_policy(
    population="icu",
    privacy=("distributed", "local"),
    epsilon_per_plan=Fraction(1),
    epsilon_total=Fraction(1),
    sessions_per_plan=9,
    examples=10,
)
PLAN = recommend(
    PublicFacts(20_000, 0.5),
    discreet.DistributedDP(1),
    cohort=Cohort(4, 1),
    model=ModelRef("sepsis"),
)


@pytest.fixture
def site(rng):
    scores = rng.random(3000)
    return discreet.Examples(scores, rng.random(3000) < scores)


def no_randomness(monkeypatch):
    def refuse(*size):
        raise AssertionError(f"{size} random bytes were drawn")

    monkeypatch.setattr("random._urandom", refuse)
    monkeypatch.setattr(type(SYSTEM), "__call__", refuse)  # see the root conftest.py
    with pytest.raises(AssertionError, match="were drawn"):
        SYSTEM(1)


MODELS = {
    "exact": discreet.SecureAggregation(),
    "pure": discreet.DistributedDP(1),
    "approximate": discreet.DistributedDP(1, "1e-6"),
    "arc": discreet.LocalDP(1),
    "unary": discreet.LocalDP(1, "unary"),
    "levels": discreet.LocalDP(1, "levels"),
    "laplace": discreet.LocalDP(1, "laplace"),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_preview_tells_the_size_of_what_a_site_sends(site, name):
    plan = recommend(PublicFacts(), MODELS[name], cohort=Cohort(4, 1))
    found = preview(plan, site)
    this = plan.resolve(0, [])
    account = MemoryAccount()
    names = {"session": b"s", "population": "icu"}
    sent = respond(site, account, plan, this, entropy=SYSTEM, **names)
    assert found.rounds[0].numbers == sent.size
    assert found.rounds[0].size == 8 * sent.size
    assert found.charged() == account.spent("icu")


@pytest.mark.parametrize("name", MODELS)
def test_a_preview_draws_no_noise_and_charges_nothing(
    site, tmp_path, monkeypatch, name
):
    plan = recommend(PublicFacts(), MODELS[name], cohort=Cohort(4, 1))
    policy = replace(
        POLICY,
        privacy=(*POLICY.privacy, "secure-aggregation"),
        exact_sums=1,
        delta_total=Fraction(1, 1000),
    )
    with Ledger.new(tmp_path / "ledger.db", limits=policy.limits()) as ledger:
        no_randomness(monkeypatch)
        found = preview(plan, site, policy=policy, ledger=ledger)
        assert found.refusal is None
        assert ledger.entries() == ()


def test_a_preview_says_what_policy_and_ledger_would_say(site, tmp_path):
    strict = replace(POLICY, epsilon_per_plan=Fraction(1, 2))
    assert "epsilon 0.5 a plan" in (preview(PLAN, site, policy=strict).refusal or "")
    few = replace(POLICY, examples=5000)
    assert "5000 examples" in (preview(PLAN, site, policy=few).refusal or "")
    with Ledger.new(tmp_path / "l.db", limits=POLICY.limits()) as ledger:
        this = PLAN.resolve(0, [])
        names = {"session": b"s", "population": "icu"}
        respond(site, ledger, PLAN, this, entropy=SYSTEM, **names)
        found = preview(PLAN, site, policy=POLICY, ledger=ledger)
    assert "exceed the cap" in (found.refusal or "")
    assert found.spent.epsilon == 1


def test_a_preview_shows_nothing_that_a_count_would_tell(site):
    document = preview(PLAN, site).to_dict()
    other = discreet.Examples(np.linspace(0, 1, 3000), np.arange(3000) % 2)
    assert document == preview(PLAN, other).to_dict()


def test_a_preview_of_two_rounds_has_both():
    facts = PublicFacts(scores=ScoreRange.declare("other", 0.0, 9.0))
    plan = recommend(facts, discreet.DistributedDP(1), cohort=Cohort(4, 1))
    site = discreet.Examples([1.0, 8.0], [0, 1], kind="other", low=0.0, high=9.0)
    found = preview(plan, site)
    assert [str(r.loss) for r in found.rounds] == ["0.2-DP", "0.8-DP"]
    assert found.charged().epsilon == 1


def test_flipped_labels_can_be_previewed(site):
    plan = replace(PLAN, privacy=LabelDP(1, mechanism="response"))
    found = preview(plan, site)
    assert found.rounds[0].numbers == plan.statistic.size
    assert found.sent == "in the clear"


@pytest.fixture
def command(tmp_path, rng, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scores = rng.random(300)
    table = {"y_score": scores, "y_true": (rng.random(300) < scores).astype(int)}
    pq.write_table(pa.table(table), "scores.parquet")
    (tmp_path / "plan.toml").write_text(planfile.dumps(PLAN))
    (tmp_path / "policy.toml").write_text(policyfile.dumps(POLICY))
    app = typer.Typer()
    app.command()(preview_command)

    def run(*arguments):
        return CliRunner().invoke(app, ["plan.toml", "scores.parquet", *arguments])

    return run


def test_the_command_prints_the_shapes_the_claim_and_the_charge(command, tmp_path):
    run = command("--policy", "policy.toml", "--json", "out.json")
    assert run.exit_code == 0, run.output
    numbers = PLAN.statistic.size
    for words in (
        f"{numbers:,}",
        f"{8 * numbers:,}",
        "Claim: 1-DP for one example",
        "Would be charged: epsilon 1.",
        "This site would take part, as far as the policy alone tells; caps",
        "were not checked: give --ledger.",
    ):
        assert words in run.output
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["rounds"][0]["numbers"] == numbers
    assert document["refusal"] is None


def test_the_command_exits_with_1_when_the_site_would_decline(command, tmp_path):
    text = policyfile.dumps(replace(POLICY, privacy=("local",)))
    (tmp_path / "policy.toml").write_text(text)
    run = command("--policy", "policy.toml")
    assert run.exit_code == 1
    assert "would decline: the plan's privacy model is 'distributed'" in run.output


def test_the_command_makes_no_ledger_and_needs_a_policy_for_one(command, tmp_path):
    run = command("--ledger", "ledger.db")
    assert isinstance(run.exception, InputError)
    run = command("--policy", "policy.toml", "--ledger", "ledger.db")
    assert "there is no ledger" in str(run.exception)
    assert not (tmp_path / "ledger.db").exists()
    Ledger.new(tmp_path / "ledger.db").close()
    run = command("--policy", "policy.toml", "--ledger", "ledger.db")
    assert "Spent so far: nothing." in run.output
    assert "This site would take part.\n" in run.output


def test_a_verdict_goes_no_further_than_what_was_given(command):
    run = command()
    assert "take part, as far as the data alone tell; policy and caps" in run.output
    assert "take part." not in run.output

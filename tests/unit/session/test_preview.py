"""What an operator is shown before joining; it draws, charges and sends nothing."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

import discreet
from discreet.cli.main import app
from discreet.cli.preview import asking
from discreet.data.scores import ScoreRange
from discreet.entropy import SYSTEM
from discreet.errors import InputError
from discreet.models.label import LabelDP
from discreet.plan import file as planfile
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import ModelRef, Plan, recommend
from discreet.plan.rounds import Round
from discreet.privacy.ledger import Ledger
from discreet.session import policy as policyfile
from discreet.session.preview import OwnAuc, OwnRows, own_rows, preview
from discreet.statistic import Paired
from policies import open_policy, respond

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
def test_a_preview_tells_what_a_site_sends_and_draws_and_charges_nothing(
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
        with monkeypatch.context() as patched:
            no_randomness(patched)
            found = preview(plan, site, policy=policy, ledger=ledger)
        assert found.refusal is None
        assert ledger.entries() == ()
        sent = respond(
            site, ledger, plan, plan.resolve(0, []), session=b"s", policy=policy
        )
        assert found.rounds[0].numbers == sent.size
        assert found.rounds[0].size == 8 * sent.size
        assert found.charged() == ledger.spent("icu")


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
    """Run ``preview`` on this site's scores, with right or with inverted labels."""
    monkeypatch.chdir(tmp_path)
    scores = rng.random(300)
    labels = (rng.random(300) < scores).astype(int)
    own, truth = sample()
    for name, *columns in (
        ("scores", scores, labels),
        ("right", own, truth),
        ("inverted", own, 1 - truth),
    ):
        table = dict(zip(("y_score", "y_true"), columns, strict=True))
        pq.write_table(pa.table(table), f"{name}.parquet")
    (tmp_path / "plan.toml").write_text(planfile.dumps(PLAN))
    (tmp_path / "declared.toml").write_text(planfile.dumps(DECLARED))
    (tmp_path / "policy.toml").write_text(policyfile.dumps(POLICY))

    def run(*arguments, plan="plan.toml", rows="scores.parquet"):
        return CliRunner().invoke(app, ["preview", plan, rows, *arguments])

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


DECLARED = recommend(
    PublicFacts(9_000, 0.25), discreet.DistributedDP(1), cohort=Cohort(3, 1)
)


def sample(rows=3000, prevalence=0.25, *, distance=1.2, seed=4):
    rng = np.random.default_rng(seed)
    y = (rng.random(rows) < prevalence).astype(int)
    return 1 / (1 + np.exp(-rng.normal(distance * y - 1, 1))), y


def test_the_own_values_are_those_of_the_rows():
    scores, labels = sample()
    found = own_rows(DECLARED, discreet.Examples(scores, labels))
    assert (found.examples, found.positives) == (3000, labels.sum())
    assert found.areas[0].value == pytest.approx(
        roc_auc_score(labels, scores), abs=1e-4
    )
    assert (found.prevalence, found.a_site) == (0.25, 3000)
    assert found.concerns() == ()
    assert str(found).startswith("3,000 examples (the plan: 3,000 a site), ")
    assert "prevalence 0.245 (the plan: 0.25)" in str(found)
    assert f"AUC {roc_auc_score(labels, scores):.3f}" in str(found)


def test_inverted_labels_and_inverted_scores_are_noticed():
    scores, labels = sample()
    labelled = own_rows(DECLARED, discreet.Examples(scores, 1 - labels)).concerns()
    assert [words.split(" ")[1] for words in labelled] == ["share", "AUC"]
    scored = own_rows(DECLARED, discreet.Examples(1 - scores, labels)).concerns()
    assert [words.split(" ")[1] for words in scored] == ["AUC"]
    assert all("inverted" in words for words in (*labelled, *scored))
    # A sentence may travel; the numbers are for the screen alone.
    assert not any(c.isdigit() for words in (*labelled, *scored) for c in words)


@pytest.mark.parametrize(
    ("rows", "positives", "odd"),
    [
        (1000, 571, False),  # odds 4 times those of .25 are 4/3
        (1000, 604, True),  # two standard errors beyond
        (1000, 76, False),
        (1000, 59, True),
        (4, 4, False),  # chance
        (10, 10, True),
        (0, 0, False),
        (1000, 0, True),  # one class only
    ],
)
def test_a_prevalence_is_far_by_a_factor_of_four_in_odds_and_by_more_than_chance(
    rows, positives, odd
):
    found = OwnRows(rows, positives, (), 0.25)
    assert found.far_prevalence is odd
    assert replace(found, prevalence=None).far_prevalence is False


def test_chance_below_one_half_is_no_concern_and_an_undefined_auc_neither():
    error = math.sqrt(2001 / (12 * 1000 * 1000))
    assert not OwnAuc("", 0.5 - 1.9 * error, error).inverted
    assert OwnAuc("", 0.5 - 2.1 * error, error).inverted
    few = own_rows(DECLARED, discreet.Examples([0.9, 0.1], [0, 1]))
    assert few.areas[0].value == 0
    assert few.concerns() == ()
    one = own_rows(
        replace(DECLARED, facts=PublicFacts()), discreet.Examples([0.5], [1])
    )
    assert math.isnan(one.areas[0].value)
    assert one.concerns() == ()
    assert "AUC undefined" in str(one)
    none = own_rows(DECLARED, discreet.Examples([], []))
    assert (none.examples, none.concerns()) == (0, ())


def test_two_models_and_several_classes_have_an_auc_each():
    scores, labels = sample()
    edges = DECLARED.statistic.edges
    paired = Plan(discreet.DistributedDP(1), (Round(Paired(edges, edges)),))
    both = np.column_stack([scores, np.sqrt(1 - scores)])
    found = own_rows(paired, discreet.Examples(both, labels))
    first, second = found.areas
    assert first.value + second.value == pytest.approx(1, abs=1e-4)
    assert "the AUC of score 2 is below" in found.concerns()[0]
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 3, 900)
    raw = np.exp(rng.normal(0, 1, (900, 3)) + np.eye(3)[truth])
    named = np.array(["cat", "dog", "eel"])
    plan = recommend(
        PublicFacts(900, 0.3), discreet.DistributedDP(1), classes=tuple(named)
    )
    shares = raw / raw.sum(axis=1, keepdims=True)
    right = discreet.Examples(shares, named[truth], classes=tuple(named))
    assert own_rows(plan, right).concerns() == ()
    swapped = discreet.Examples(
        shares[:, [1, 0, 2]], named[truth], classes=tuple(named)
    )
    titles = {
        words.split(" is below")[0] for words in own_rows(plan, swapped).concerns()
    }
    assert titles == {"the AUC of class cat", "the AUC of class dog"}


def test_ranks_have_no_bins_and_the_rows_are_read():
    scores, labels = sample()
    plan = recommend(PublicFacts(9_000, 0.25), LabelDP(1), cohort=Cohort(3))
    found = own_rows(plan, discreet.Examples(scores, labels))
    assert found.areas[0].value == pytest.approx(
        roc_auc_score(labels, scores), abs=1e-4
    )


def test_preview_shows_the_rows_and_stops_at_inverted_labels(command, tmp_path):
    right = command(plan="declared.toml", rows="right.parquet")
    assert right.exit_code == 0, right.output
    assert "Your own rows, shown here alone: 3,000 examples" in right.output
    wrong = command("--json", "out.json", plan="declared.toml", rows="inverted.parquet")
    assert wrong.exit_code == 1
    assert "Do not join; mend the rows, or say --confirmed" in wrong.output
    assert "inverted labels" in wrong.output
    meant = command("--confirmed", plan="declared.toml", rows="inverted.parquet")
    assert meant.exit_code == 0
    assert "Confirmed by the operator" in meant.output
    command("--json", "right.json", plan="declared.toml", rows="right.parquet")
    # What may be handed on says nothing of it.
    written = (tmp_path / "out.json").read_text()
    assert written == (tmp_path / "right.json").read_text()


def test_a_terminal_is_asked(monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    for answer in (True, False):
        monkeypatch.setattr(typer, "confirm", lambda *_, a=answer, **__: a)
        assert asking(False)("odd") is answer
    assert asking(True)("odd")
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    assert not asking(False)("odd")

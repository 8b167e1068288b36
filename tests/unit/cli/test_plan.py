"""``discreet plan``: a plan, its predicted errors, or the advice not to run it."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from discreet.cli.main import app
from discreet.errors import InputError, PlanError
from discreet.plan import file as planfile
from discreet.plan.cohort import key_text
from discreet.statistic import RankSums

pytestmark = pytest.mark.long

USUAL = ("--examples", "20000", "--prevalence", "0.2", "--repetitions", "2")
NOISY = ("--privacy", "distributed", "--epsilon", "1")
LABEL = ("--privacy", "label", "--epsilon", "1")
SITES = [f"{name}={key_text(name.encode() * 32)}" for name in "abc"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *options: CliRunner().invoke(app, ["plan", *options])


def planned(run, *options):
    """Return what is printed, its lines joined, and the plan that is written."""
    made = run(*options, "-o", "plan.toml")
    assert made.exit_code == 0, (made.output, made.exception)
    text = Path("plan.toml").read_text(encoding="utf-8")
    return " ".join(made.output.split()), planfile.loads(text)


def test_a_plan_with_a_roster_is_written_with_its_predicted_errors(run):
    text, written = planned(
        run,
        *USUAL,
        *NOISY,
        *(part for site in SITES for part in ("--site", site)),
        *("--coordinator", key_text(b"k" * 32), "--name", "sepsis-xgb"),
        *("--colluders", "1", "--threshold", "0.3"),
        *("--max-examples-per-site", "9000"),
    )
    assert "1-DP for one example added or removed" in text
    assert "Predicted errors, if the AUC is 0.8" in text
    assert [site.name for site in written.roster.sites] == ["a", "b", "c"]
    assert written.roster.coordinator == b"k" * 32
    assert written.cohort.min_survivors == 3
    assert written.cohort.colluders == 1
    assert written.cohort.max_examples_per_site == 9_000
    assert written.thresholds == (0.3,)
    assert written.facts.examples == 20_000
    assert written.model.name == "sepsis-xgb"


def test_no_group_of_a_plan_is_called_pooled(run):
    made = run(*USUAL, *NOISY, "--in-group", "Pooled", "--in-group", "rest")
    assert "cannot be called pooled" in str(made.exception)


def test_more_bins_without_noise_say_how_many_examples_would_be_alone(run):
    exact = ("--privacy", "secure-aggregation", "--sites", "3")
    few = run("--examples", "2000", "--prevalence", "0.2", "--repetitions", "2", *exact)
    assert few.exit_code == 0, few.output
    assert "200 bins spread" in few.output
    alone = "Without noise: by the plan's public facts about {} cells hold one example"
    assert alone.format("65 of 402") in few.output
    many = run(*USUAL, *exact, "--bins", "4096")
    assert alone.format("1,689 of 8,194") in many.output
    noisy = run(*USUAL, *NOISY, "--sites", "3")
    assert "Without noise" not in noisy.output


def test_periods_that_would_not_show_a_drop_are_not_planned(run, tmp_path):
    periods = [part for k in range(4) for part in ("--in-group", f"p{k}")]
    asked = (*USUAL, *NOISY, *periods, "-o", "plan.toml")
    seen = run(*asked, "--watch-drop", "0.2")
    assert seen.exit_code == 0, seen.output
    assert "Watched over 4 periods" in seen.output
    (tmp_path / "plan.toml").unlink()
    missed = run(*asked, "--watch-drop", "0.001")
    assert missed.exit_code == 1
    said = " ".join(missed.output.split())
    assert "Do not run: a drop of the AUC by 0.001 would be missed" in said
    assert not (tmp_path / "plan.toml").exists()
    alone = run(*USUAL, *NOISY, "--watch-drop", "0.1")
    assert isinstance(alone.exception, InputError)
    assert "name them with --in-group" in str(alone.exception)


def test_a_plan_that_is_no_use_is_not_written_unless_it_must_be(run, tmp_path):
    hopeless = ("--examples", "300", "--repetitions", "2", "--prevalence", "0.1")
    noise = ("--privacy", "distributed", "--epsilon", "0.01", "-o", "plan.toml")
    made = run(*hopeless, *noise)
    assert made.exit_code == 1
    assert "Do not run: " in made.output
    assert "no result" in made.output
    assert not (tmp_path / "plan.toml").exists()
    assert run(*hopeless, *noise, "--anyway").exit_code == 0
    assert (tmp_path / "plan.toml").exists()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (("--privacy", "distributed"), InputError, "needs --epsilon"),
        (("--epsilon", "1"), InputError, "has no --epsilon: leave out"),
        (("--site", "north"), PlanError, "NAME=ed25519:KEY"),
        (("--coordinator", key_text(b"k" * 32)), InputError, "belongs to a roster"),
        ((*NOISY, "--sites", "1"), InputError, "min_survivors must be at least 2"),
        (("--auc", "0.4"), PlanError, "assumed AUC"),
        ((*LABEL, "--mechanism", "response"), InputError, "give --bins"),
        (
            (*LABEL, "--mechanism", "curves"),
            InputError,
            "--mechanism response or binned",
        ),
        ((*LABEL, "--bins", "32"), PlanError, "gives the AUC alone: it has no edges"),
        (("--privacy", "exact"), InputError, "discreet exact session"),
        ((*NOISY, "--mechanism", "arc"), InputError, "leave out --mechanism"),
    ],
)
def test_options_that_do_not_fit_are_refused(run, options, error, message):
    made = run(*USUAL, *options)
    assert isinstance(made.exception, error)
    assert message in str(made.exception)


THREE = tuple(part for name in "xyz" for part in ("--class", name))
MADE = {
    "several classes": (
        THREE,
        "no prediction for more than two classes",
        lambda plan: plan.statistic.classes == (*"xyz",),
    ),
    "labels in bins": (
        (*LABEL, "--bins", "32", "--mechanism", "binned"),
        "1-DP for one label flipped There is no prediction under label privacy",
        # One half is an edge more.
        lambda plan: (
            (plan.privacy.mechanism, len(plan.statistic.edges)) == ("binned", 33)
        ),
    ),
    "labels by default": (
        LABEL,
        "rank-sums",
        lambda plan: (
            (plan.statistic, plan.protocol.name) == (RankSums("choice"), "public ranks")
        ),
    ),
    "a curator alone": (
        ("--privacy", "central", "--epsilon", "1"),
        "1-DP for one row replaced",
        lambda plan: plan.cohort.min_survivors == 1,
    ),
    "one site reads the result": (
        (*NOISY, "--sites", "5"),
        "",
        lambda plan: (plan.cohort.min_survivors, plan.cohort.colluders) == (5, 1),
    ),
    "no site reads the result": (
        (*NOISY, "--sites", "5", "--colluders", "0"),
        "",
        lambda plan: plan.cohort.colluders == 0,
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_asked_for_is_planned(run, name):
    options, said, holds = MADE[name]
    text, plan = planned(run, *USUAL, *options)
    assert said in text
    assert holds(plan)


PRIVATE = (
    *("--examples", "30000", "--prevalence", "0.25", "--repetitions", "2"),
    *("--privacy", "distributed", "--unit", "client", "--max-examples", "50"),
    *("--heterogeneity", "auc", "--sites", "30"),
)


def test_a_plan_for_too_few_sites_is_not_written(run, tmp_path):
    made = run(*PRIVATE, "--epsilon", "1", "-o", "plan.toml")
    assert made.exit_code == 1, made.output
    assert "50% of the budget for how sites differ" in made.output
    assert "Do not run" in made.output
    assert not (tmp_path / "plan.toml").exists()


def test_a_plan_that_is_of_use_says_how_much_the_noise_costs(run):
    text, plan = planned(run, *PRIVATE, "--epsilon", "40")
    assert "times as far as without" in text
    assert [terms.key for terms in plan.statistic.effects] == ["auc"]

"""A site's own rows beside the plan's facts: odd ones are confirmed or stay home."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

import discreet
from discreet.cli.confirming import asking
from discreet.cli.preview import preview as preview_command
from discreet.models.label import LabelDP
from discreet.plan import file as planfile
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import Plan, recommend
from discreet.plan.rounds import Round
from discreet.session.preview import OwnAuc, OwnRows, own_rows
from discreet.statistic import Paired

PLAN = recommend(
    PublicFacts(9_000, 0.25), discreet.DistributedDP(1), cohort=Cohort(3, 1)
)


def sample(rows=3000, prevalence=0.25, *, distance=1.2, seed=4):
    rng = np.random.default_rng(seed)
    y = (rng.random(rows) < prevalence).astype(int)
    return 1 / (1 + np.exp(-rng.normal(distance * y - 1, 1))), y


def test_the_own_values_are_those_of_the_rows():
    scores, labels = sample()
    found = own_rows(PLAN, discreet.Examples(scores, labels))
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
    labelled = own_rows(PLAN, discreet.Examples(scores, 1 - labels)).concerns()
    assert [words.split(" ")[1] for words in labelled] == ["share", "AUC"]
    scored = own_rows(PLAN, discreet.Examples(1 - scores, labels)).concerns()
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
    few = own_rows(PLAN, discreet.Examples([0.9, 0.1], [0, 1]))
    assert few.areas[0].value == 0
    assert few.concerns() == ()
    one = own_rows(replace(PLAN, facts=PublicFacts()), discreet.Examples([0.5], [1]))
    assert math.isnan(one.areas[0].value)
    assert one.concerns() == ()
    assert "AUC undefined" in str(one)
    none = own_rows(PLAN, discreet.Examples([], []))
    assert (none.examples, none.concerns()) == (0, ())


def test_two_models_and_several_classes_have_an_auc_each():
    scores, labels = sample()
    edges = PLAN.statistic.edges
    paired = Plan(discreet.DistributedDP(1), (Round(Paired(edges, edges)),))
    both = np.column_stack([scores, 1 - scores])
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


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Run `preview`, with right or with inverted labels."""
    monkeypatch.chdir(tmp_path)
    scores, labels = sample()
    for name, column in (("right", labels), ("inverted", 1 - labels)):
        table = pa.table({"y_score": scores, "y_true": column})
        pq.write_table(table, f"{name}.parquet")
    (tmp_path / "plan.toml").write_text(planfile.dumps(PLAN))
    app = typer.Typer()
    app.command()(preview_command)

    def run(*words):
        return CliRunner().invoke(app, list(words))

    return run


def test_preview_shows_the_rows_and_stops_at_inverted_labels(command, tmp_path):
    right = command("plan.toml", "right.parquet")
    assert right.exit_code == 0, right.output
    assert "Your own rows, shown here alone: 3,000 examples" in right.output
    wrong = command("plan.toml", "inverted.parquet", "--json", "out.json")
    assert wrong.exit_code == 1
    assert "Do not join; mend the rows, or say --confirmed" in wrong.output
    assert "inverted labels" in wrong.output
    meant = command("plan.toml", "inverted.parquet", "--confirmed")
    assert meant.exit_code == 0
    assert "Confirmed by the operator" in meant.output
    command("plan.toml", "right.parquet", "--json", "right.json")
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

"""Time to event on the command line: the same words in every command, one sentence a fault."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from discreet.cli.main import app
from discreet.plan import file as planfile

pytestmark = pytest.mark.long

FOLLOWED = ("--time", "days", "--event", "died", "--score", "risk")
HORIZONS = ("--horizon", "365", "--horizon", "1825")
FACTS = ("--examples", "3000", "--prevalence", "0.4")


@pytest.fixture
def folder(tmp_path, monkeypatch, rng):
    monkeypatch.chdir(tmp_path)
    for name in ("north", "south"):
        n = 1500
        z = rng.normal(size=n)
        died, left = rng.exponential(2500 * np.exp(-z)), rng.uniform(0, 4000, n)
        table = pa.table(
            {
                "risk": 1 - np.exp(-1825 / 2500 * np.exp(z)),
                "other": rng.random(n),
                "days": np.minimum(died, left),
                "died": (died <= left).astype(int),
                "sex": rng.choice(["f", "m"], n),
            }
        )
        pq.write_table(table, f"{name}.parquet")
    return tmp_path


def run(*words):
    made = CliRunner().invoke(app, list(map(str, words)))
    text = made.output if made.exception is None else f"{made.output}{made.exception}"
    return made.exit_code, " ".join(text.split())


def done(*words):
    code, text = run(*words)
    assert code == 0, text
    return text


SITES = ("north.parquet", "south.parquet")
LABEL = ("--privacy", "label", "--epsilon", "1")


def test_files_are_evaluated_at_every_horizon(folder):
    text = done(
        "evaluate", *SITES, *FOLLOWED, *HORIZONS, *FACTS, "--json", "result.json"
    )
    assert "by 365" in text
    assert "by 1825" in text
    assert "Harrell's concordance" in text
    assert text.count("independent censoring") == 1
    assert json.loads((folder / "result.json").read_text())["release"] is not None


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--group", "sex", "--in-group", "f", "--in-group", "m"), "f: AUC by 1825"),
        (("--privacy", "distributed", "--epsilon", "2"), "2-DP for one example"),
        (("--secagg",), "2 of 2 sites"),
        (("--score", "other"), "integrated Brier score"),
        (("--intervals", "5"), "x 5 time intervals"),
        (("--cut", "365", "--cut", "1825", "--cut", "2000"), "x 3 time intervals"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_every_form_of_follow_up_is_evaluated(more, said):
    assert said in done("evaluate", *SITES, *FOLLOWED, *HORIZONS, *FACTS, *more)


@pytest.mark.parametrize(
    ("more", "pictures"),
    [
        ((), {"km", "auc", "calibration", "decision"}),
        (
            ("--group", "sex", "--in-group", "f", "--in-group", "m"),
            {
                f"{g}-{k}"
                for g in "fm"
                for k in ("km", "auc", "calibration", "decision")
            },
        ),
        (
            ("--group", "sex", *(f"--in-group={g}" for g in ("f", "m", "nobody"))),
            {
                f"{g}-{k}"
                for g in "fm"
                for k in ("km", "auc", "calibration", "decision")
            },
        ),
        (("--kind", "other", "--low", "0", "--high", "1"), {"km", "auc"}),
    ],
)
@pytest.mark.usefixtures("folder")
def test_every_part_is_drawn(more, pictures):
    done("evaluate", *SITES, *FOLLOWED, *HORIZONS, *FACTS, *more, "--plots", "plots")
    assert {path.stem for path in Path("plots").iterdir()} == pictures


@pytest.mark.usefixtures("folder")
def test_noise_alone_is_not_drawn():
    noisy = ("--privacy", "distributed", "--epsilon", "0.001")
    code, text = run(
        *("evaluate", *SITES, *FOLLOWED, *HORIZONS, *FACTS, *noisy, "--plots", "plots")
    )
    assert code
    assert "no curve to draw: too few examples for this epsilon" in text
    assert not Path("plots").exists()


@pytest.mark.usefixtures("folder")
def test_two_models_are_compared_on_the_same_follow_up():
    text = done("compare", *SITES, *FOLLOWED, "--score", "other", *HORIZONS, *FACTS)
    assert "risk: AUC by 1825" in text
    assert "first less second" in text


@pytest.mark.usefixtures("folder")
def test_a_plan_predicts_its_errors_and_is_previewed():
    noisy = ("--privacy", "distributed", "--epsilon", "1", "--sites", "2")
    text = done(
        *("plan", *FACTS, *HORIZONS, "--censoring", "0.4", *noisy, "-o", "plan.toml")
    )
    assert "4 time intervals" in text
    assert "40% events and 40% censored" in text
    plan = planfile.loads(Path("plan.toml").read_text(encoding="utf-8"))
    assert plan.horizons == (365.0, 1825.0)
    assert plan.facts.censoring == 0.4
    shown = done("preview", "plan.toml", "north.parquet", *FOLLOWED)
    assert "with an event by 1825" in shown
    code, text = run(
        *("preview", "plan.toml", "north.parquet", "--time", "days"),
        *("--event", "sex", "--score", "risk"),
    )
    assert code
    assert "code them so, as the plan does" in text
    code, text = run("preview", "plan.toml", "north.parquet", "--score", "risk")
    assert code
    assert "name the columns with --time and --event" in text


@pytest.mark.usefixtures("folder")
def test_a_plan_that_is_mostly_noise_is_not_written():
    code, text = run(
        *("plan", "--examples", "60", *HORIZONS, "--sites", "3", "-o", "plan.toml"),
        *("--privacy", "distributed", "--epsilon", "0.05"),
    )
    assert code == 1
    assert "Do not run" in text
    assert not Path("plan.toml").exists()


@pytest.mark.usefixtures("folder")
def test_counts_of_a_query_by_hand_are_those_of_the_rows():
    done("plan", *FACTS, *HORIZONS, "--sites", "3", "-o", "plan.toml")
    query = CliRunner().invoke(
        app,
        ["query", "plan.toml", "--engine", "sqlite", "--table", "patients", *FOLLOWED],
    )
    rows = pq.read_table("north.parquet").select(["risk", "days", "died"])
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE patients (risk REAL, days REAL, died INT)")
        cells = zip(*(c.to_pylist() for c in rows.columns), strict=True)
        database.executemany("INSERT INTO patients VALUES (?, ?, ?)", cells)
        found = database.execute(query.output)
        header = ",".join(column[0] for column in found.description)
        lines = [",".join(map(repr, row)) for row in found]
    Path("counts.csv").write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    by_rows = done("preview", "plan.toml", "north.parquet", *FOLLOWED)
    by_counts = done("preview", "plan.toml", "--counts", "counts.csv", *FOLLOWED)
    assert "1,500 examples" in by_rows
    assert "1,500 examples" in by_counts
    own = "with an event by 1825"
    assert by_rows.partition(own)[0][-6:] == by_counts.partition(own)[0][-6:]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("evaluate", *SITES, *FOLLOWED), "needs horizons"),
        (
            ("evaluate", *SITES, *FOLLOWED, *HORIZONS, "--label", "died"),
            "give label=, or time= and event= instead of it",
        ),
        (
            ("evaluate", *SITES, "--label", "died", "--score", "risk", *HORIZONS),
            "--time|time=",
        ),
        (("evaluate", *SITES, "--time", "days", "--score", "risk", *HORIZONS), "both"),
        (("plan", *FACTS, "--cut", "3"), "name a --horizon"),
        (("plan", *FACTS, "--time", "days"), "name a --horizon"),
        (("plan", *FACTS, *HORIZONS, "--heterogeneity", "auc"), "how sites differ"),
        (("plan", *FACTS, *HORIZONS, "--page", "p.html"), "--page is of two classes"),
        (
            ("plan", *FACTS, *HORIZONS, "--privacy", "local", "--epsilon", "1"),
            "use laplace for others",
        ),
        (
            ("evaluate", *SITES, *FOLLOWED, *HORIZONS, *LABEL),
            "no time to event",
        ),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_cannot_be_measured_is_one_sentence(words, said):
    code, text = run(*words)
    assert code
    assert any(part in text for part in said.split("|")), text

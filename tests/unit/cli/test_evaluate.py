"""``discreet evaluate``, ``demo`` and what all commands have in common."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from discreet.cli.main import app
from discreet.errors import InputError, NotReleasedError, PlanError

pytestmark = pytest.mark.long


def discreet(*arguments, cwd=None):
    return subprocess.run(  # noqa: S603 - our own command
        [
            sys.executable,
            "-c",
            "from discreet.cli.main import main; main()",
            *arguments,
        ],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
    )


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def files(tmp_path, rng):
    s = rng.random(24_000)
    y = rng.random(24_000) < s
    table = pa.table(
        {"y_score": s, "y_true": y.astype(int), "sex": np.where(s < 0.5, "f", "m")}
    )
    pq.write_table(table.slice(0, 9000), tmp_path / "north.parquet")
    pc.write_csv(table.slice(9000), tmp_path / "south.csv")
    return tmp_path


def test_two_files_give_the_pooled_table_json_and_plots(files):
    run = discreet(
        *("evaluate", "north.parquet", "south.csv", "--threshold", "0.25", "--wide"),
        *("--json", "out.json", "--plots", "plots"),
        cwd=files,
    )
    assert run.returncode == 0, run.stderr
    assert "2 of 2 sites, 24,000 examples" in run.stdout
    assert "at 0.25:" in run.stdout
    document = json.loads((files / "out.json").read_text())
    assert 0.8 < document["metrics"]["auc"]["value"] < 0.87
    names = sorted(path.name for path in (files / "plots").iterdir())
    assert names == ["calibration.png", "det.png", "pr.png", "roc.png"]


def test_private_models_and_the_real_protocol_from_the_command_line(files):
    run = discreet(
        *("evaluate", "north.parquet", "south.csv", "--privacy", "distributed"),
        *("--epsilon", "0.5", "--examples", "24000", "--prevalence", "0.5", "--secagg"),
        cwd=files,
    )
    assert run.returncode == 0, run.stderr
    assert "Claim: 0.5-DP for one example added or removed" in run.stdout
    assert "about 2" in run.stdout


def test_what_a_lying_site_can_do_is_shown_from_the_command_line(files):
    six = ["north.parquet", "south.csv"] * 3
    run = discreet(
        *("evaluate", *six, "--bins", "64", "--secagg"),
        *("--random-groups", "3", "--max-examples-per-site", "15000"),
        cwd=files,
    )
    assert run.returncode == 0, run.stderr
    assert "One malicious site of at most 15,000 examples can move AUC" in run.stdout
    assert "AUC in 3 random groups of sites: 0.8" in run.stdout


def test_weights_are_planned_previewed_and_added_up(files):
    y = np.tile([0, 1], 600)
    s = np.where(y, 0.35, 0.3) + np.tile([0, 0.1, 0.2, 0.3, 0.4, 0.05], 200)
    table = pa.table({"y_score": s, "y_true": y, "n": np.where(y, 1, 4)})
    pq.write_table(table, files / "w.parquet")
    weights = ("--weight", "n", "--max-weight", "4")
    run = discreet("evaluate", "w.parquet", *weights, "--bins", "20", cwd=files)
    assert run.returncode == 0, run.stderr
    assert "weights add up to 3,000" in run.stdout
    facts = ("--examples", "1200", "--prevalence", "0.2", "--epsilon", "4")
    facts += ("--privacy", "distributed", "--max-weight", "4", "--repetitions", "2")
    planned = discreet("plan", *facts, "-o", "plan.toml", cwd=files)
    assert planned.returncode == 0, planned.stderr
    said = " ".join(planned.stdout.split())
    assert "300 examples" in said  # at worst: nearly all weigh one
    see = ("preview", "plan.toml", "w.parquet", "--weight", "n")
    seen = discreet(*see, cwd=files)
    assert seen.returncode == 1, seen.stderr
    assert "AUC 0.444" in seen.stdout  # 4 of 9 pairs are in order
    assert discreet(*see, "--confirmed", cwd=files).returncode == 0
    for wrong, sentence in (
        (("preview", "plan.toml", "w.parquet"), "name the column of weights"),
        (
            ("query", "plan.toml", "--engine", "duckdb", "--table", "t"),
            "adds up weights",
        ),
        (("evaluate", "w.parquet", "--weight", "n"), "--max-weight"),
    ):
        refused = discreet(*wrong, cwd=files)
        assert refused.returncode == 2, wrong
        assert sentence in refused.stderr


def test_groups_are_reported_apart(files):
    run = discreet(
        *("evaluate", "north.parquet", "--group", "sex", "--bins", "64"),
        *("--in-group", "f", "--in-group", "m"),
        cwd=files,
    )
    assert run.returncode == 0, run.stderr
    assert "AUC f" in run.stdout
    assert "AUC macro" in run.stdout


def test_a_multi_class_file_gives_a_result_a_class(tmp_path, rng):
    y = rng.integers(0, 3, 30_000)
    s = rng.dirichlet([1, 1, 1], 30_000)
    table = pa.table({"y_true": y, **{f"p{k}": s[:, k] for k in range(3)}})
    pq.write_table(table, tmp_path / "a.parquet")
    run = discreet(
        *("evaluate", "a.parquet", "--ovo"),
        *(word for k in range(3) for word in ("--class", f"{k}", "--score", f"p{k}")),
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    assert "AUC 2" in run.stdout
    assert "AUC pairs, macro" in run.stdout


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("0.9,1\n0.2,0\n", (), "looks like data"),
        ("y_score,y_true\n1.9,1\n", (), "1 of 1 scores are NaN or outside [0, 1]"),
        ("y_score,y_true\n0.9,7\n", (), "other than 0 and 1"),
        ("y_score,y_true\n0.9,1\n", ("--kind", "other"), "low and high"),
        ("y_score,y_true\n0.9,1\n", ("--bins", "0"), "number of bins"),
        ("y_score,y_true\n0.9,1\n", ("--privacy", "local"), "needs --epsilon"),
        (
            "y_score,y_true\n0.9,1\n",
            ("--epsilon", "1"),
            "secure-aggregation has no --epsilon",
        ),
        (
            "y_score,y_true\n0.9,1\n",
            ("--privacy", "distributed", "--epsilon", "much"),
            "epsilon must be a decimal number",
        ),
        ("y_score,y_true\n0.9,1\n", ("--json", "no/where.json"), "No such file"),
    ],
)
def test_bad_input_exits_2_with_one_line(tmp_path, content, options, message):
    (tmp_path / "a.csv").write_text(content)
    run = discreet("evaluate", "a.csv", *options, cwd=tmp_path)
    assert run.returncode == 2
    line = run.stderr.strip().splitlines()[-1]
    assert line.startswith("discreet: ")
    assert message in line
    assert "Traceback" not in run.stderr


def test_a_small_exact_histogram_warns_on_one_line(tmp_path):
    (tmp_path / "a.csv").write_text("y_score,y_true\n0.9,1\n0.2,0\n")
    run = discreet("evaluate", "a.csv", cwd=tmp_path)
    assert run.returncode == 0
    (line,) = run.stderr.strip().splitlines()
    assert line.startswith("Warning: an exact histogram of 129 bins")


def test_help_and_version_teach():
    run = discreet("evaluate", "--help")
    assert run.returncode == 0
    assert "--positive" in run.stdout
    assert discreet("--version").stdout.startswith("discreet 0.")


def test_the_demo_is_right_against_scikit_learn(tmp_path):
    from sklearn.metrics import brier_score_loss, precision_score, roc_auc_score

    from discreet.cli.demo import simulate_hospitals

    run = discreet("demo", "--out", "out", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    hospitals = simulate_hospitals()
    s = np.concatenate([h.scores for h in hospitals])
    y = np.concatenate([h.labels for h in hospitals])
    local = np.mean([roc_auc_score(h.labels, h.scores) for h in hospitals])
    document = json.loads((tmp_path / "out" / "result.json").read_text())
    found = {name: m["value"] for name, m in document["metrics"].items()}
    assert found["auc"] == pytest.approx(roc_auc_score(y, s), abs=1e-4)
    assert found["brier"] == pytest.approx(brier_score_loss(y, s), abs=1e-4)
    (at,) = document["thresholds"]
    assert at["precision"]["value"] == precision_score(y, s >= 0.5)
    rows = {line[:40].strip(): line[40:].split() for line in run.stdout.splitlines()}
    pooled = f"{roc_auc_score(y, s):.4f}"
    assert rows["Pooling the data, if it were allowed"][0] == pooled
    assert rows["discreet, exact sums"][0] == pooled
    assert rows["Averaging the 12 local AUCs or curves"][0] == f"{local:.4f}"
    private = json.loads((tmp_path / "out" / "private.json").read_text())
    found = private["metrics"]["auc"]
    assert found["value"] == pytest.approx(
        roc_auc_score(y, s), abs=6 * found["noise_sd"] + 2e-4
    )
    assert (tmp_path / "out" / "roc.png").stat().st_size > 10_000


def test_the_old_command_of_the_papers_says_what_replaced_it():
    run = discreet("reproduce", "xu2025", "--item", "figure-4")
    assert (run.returncode, run.stdout) == (2, "")
    assert "run python -m papers xu2025 --item figure-4 from a clone" in run.stderr
    assert "reproduce" not in discreet("--help").stdout


@pytest.mark.mpc
def test_exact_areas_from_the_command_line(files):
    table = pq.read_table(files / "north.parquet")
    pc.write_csv(table.slice(0, 40), files / "a.csv")
    pc.write_csv(table.slice(40, 60), files / "b.csv")
    run = discreet("evaluate", "a.csv", "b.csv", "--privacy", "exact", cwd=files)
    assert run.returncode == 0, run.stderr
    assert "AUC" in run.stdout
    assert "compute part" in run.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--threshold", "0.5"), "no thresholds, edges"),
        (("--class", "a", "--class", "b"), "classes, groups or weights"),
        (("--mechanism", "arc"), "exact has no --mechanism: leave out --mechanism"),
    ],
)
def test_exact_areas_refuse_what_they_have_not(files, options, message):
    run = discreet("evaluate", "south.csv", "--privacy", "exact", *options, cwd=files)
    assert run.returncode == 2
    assert message in run.stderr


@pytest.fixture
def two_sites(tmp_path, rng) -> list[str]:
    paths = []
    for name in ("north", "south"):
        s = rng.random(3000)
        y = (rng.random(3000) < s).astype(int)
        rows = [f"{a:.6f},{b}" for a, b in zip(s, y, strict=True)]
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join(["y_score,y_true", *rows]), encoding="utf-8")
        paths.append(str(path))
    return paths


def test_curves_and_their_numbers_from_the_command_line(two_sites, tmp_path) -> None:
    out = tmp_path / "result.json"
    found = invoke(
        *("evaluate", *two_sites, "--privacy", "label", "--epsilon", "2"),
        *("--mechanism", "curves", "--json", str(out)),
    )
    assert found.exit_code == 0, found.output
    assert "2-DP for one label flipped" in found.output
    document = json.loads(out.read_text())
    assert document["metrics"]["auc"]["value"] == pytest.approx(5 / 6, abs=0.03)
    assert np.diff(document["roc"]["tpr"]).min() >= 0


def test_the_default_gives_the_auc_alone_and_draws_nothing(two_sites, tmp_path) -> None:
    label = ("evaluate", *two_sites, "--privacy", "label", "--epsilon", "2")
    assert "AUC" in invoke(*label).output
    refused = invoke(*label, "--plots", str(tmp_path / "plots"))
    assert isinstance(refused.exception, NotReleasedError)
    assert not (tmp_path / "plots").exists()


def test_wrong_choices_are_named(two_sites) -> None:
    label = ("evaluate", *two_sites, "--privacy", "label")
    assert isinstance(invoke(*label).exception, InputError)
    wrong = invoke(*label, "--epsilon", "1", "--mechanism", "arc")
    assert isinstance(wrong.exception, PlanError)
    assert "one of choice" in str(wrong.exception)
    grouped = invoke(*label, "--epsilon", "1", "--in-group", "f")
    assert isinstance(grouped.exception, InputError)
    assert "--group names the column" in str(grouped.exception)


@pytest.fixture
def ten_sites(tmp_path):
    rng = np.random.default_rng(5)
    paths = []
    for k in range(10):
        y = rng.random(800) < 0.4
        s = 1 / (1 + np.exp(-rng.normal(1.3 * y - 0.6, 1)))
        rows = [
            f"{a},{int(b)},{i // 4}" for i, (a, b) in enumerate(zip(s, y, strict=True))
        ]
        path = tmp_path / f"{k}.csv"
        path.write_text("\n".join(["y_score,y_true,who", *rows]))
        paths.append(str(path))
    return paths


def test_evaluate_says_how_the_files_differ(ten_sites):
    said = invoke(
        *("evaluate", *ten_sites, "--bins", "64", "--heterogeneity", "auc"),
        *(
            "--heterogeneity",
            "recall@0.5",
            "--clusters",
            "subject",
            "--subject",
            "who",
        ),
    )
    assert said.exit_code == 0, said.output
    text = " ".join(said.output.split())
    assert "AUC over 10 sites: mean" in text
    assert "recall at 0.5 over 10 sites" in text
    assert "Within a site, the AUC is" in text
    assert "If rows of one subject are alike" in text


def test_an_unknown_effect_is_one_clear_line(ten_sites):
    said = invoke("evaluate", *ten_sites, "--heterogeneity", "charm")
    assert said.exit_code != 0
    assert "unknown effect of a site" in str(said.exception or said.output)


def test_a_report_that_cannot_be_written_is_refused_before_any_session(tmp_path):
    """Sites would have paid for a result that is then lost."""
    run = invoke("coordinate", "plan.toml", "--keys", tmp_path, "--report", "r.pdf")
    assert isinstance(run.exception, InputError)
    assert ".html, .json or .txt" in str(run.exception)

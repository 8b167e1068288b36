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

import forked
from discreet.cli.entry import in_options
from discreet.cli.main import app
from discreet.errors import InputError, NotReleasedError
from discreet.failures import exit_code, sentence

pytestmark = pytest.mark.long

FILES = ("north.parquet", "south.csv")
NOISY = ("--privacy", "distributed", "--epsilon")
ONE_ROW = "y_score,y_true\n0.9,1\n"


def discreet(*words):
    """Run the command in a process of its own."""
    return forked.run(words)


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def printed(*words):
    """What a command that succeeds prints, its lines joined."""
    run = invoke(*words)
    assert run.exit_code == 0, (run.output, run.exception)
    return " ".join(run.output.split())


def refused(*words):
    """What a command says that is given something wrong."""
    error = invoke(*words).exception
    assert exit_code(error) == 2, error
    return sentence(error)


@pytest.fixture
def files(tmp_path, rng, monkeypatch):
    monkeypatch.chdir(tmp_path)
    s = rng.random(24_000)
    y = rng.random(24_000) < s
    table = pa.table(
        {"y_score": s, "y_true": y.astype(int), "sex": np.where(s < 0.5, "f", "m")}
    )
    pq.write_table(table.slice(0, 9000), "north.parquet")
    pc.write_csv(table.slice(9000), "south.csv")
    return tmp_path


def test_two_files_give_the_pooled_table_json_and_plots(files):
    run = discreet(
        *("evaluate", *FILES, "--threshold", "0.25", "--wide"),
        *("--json", "out.json", "--plots", "plots"),
    )
    assert run.returncode == 0, run.stderr
    assert "2 of 2 sites, 24,000 examples" in run.stdout
    assert "at 0.25:" in run.stdout
    document = json.loads((files / "out.json").read_text())
    assert 0.8 < document["metrics"]["auc"]["value"] < 0.87
    names = sorted(path.name for path in (files / "plots").iterdir())
    assert names == ["calibration.png", "decision.png", "det.png", "pr.png", "roc.png"]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            (*FILES, *NOISY, 0.5, "--examples", 24000, "--prevalence", 0.5, "--secagg"),
            ("Claim: 0.5-DP for one example added or removed", "about 2"),
        ),
        (
            (
                *(*FILES * 3, "--bins", 64, "--secagg"),
                *("--random-groups", 3, "--max-examples-per-site", 15000),
            ),
            (
                "One malicious site of at most 15,000 examples can move AUC",
                "AUC in 3 random groups of sites: 0.8",
            ),
        ),
        (
            (
                *("north.parquet", "--group", "sex", "--bins", 64),
                *("--in-group", "f", "--in-group", "m"),
            ),
            ("AUC f", "AUC pooled"),
        ),
    ],
    ids=["private, by the real protocol", "a malicious site", "groups"],
)
def test_a_choice_of_the_command_line_is_what_is_printed(words, said):
    text = printed("evaluate", *words)
    assert [part for part in said if part not in text] == []


@pytest.mark.usefixtures("files")
def test_weights_are_planned_previewed_and_added_up():
    y = np.tile([0, 1], 600)
    s = np.where(y, 0.35, 0.3) + np.tile([0, 0.1, 0.2, 0.3, 0.4, 0.05], 200)
    table = pa.table({"y_score": s, "y_true": y, "n": np.where(y, 1, 4)})
    pq.write_table(table, "w.parquet")
    weights = ("--weight", "n", "--max-weight", 4)
    text = printed("evaluate", "w.parquet", *weights, "--bins", 20)
    assert "weights add up to 3,000" in text
    facts = ("--examples", 1200, "--prevalence", 0.2, "--repetitions", 2)
    plan = ("plan", *facts, *NOISY, 4, "--max-weight", 4, "-o", "plan.toml")
    assert "300 examples" in printed(*plan)  # at worst: nearly all weigh one
    see = ("preview", "plan.toml", "w.parquet", "--weight", "n")
    seen = invoke(*see)
    assert seen.exit_code == 1
    assert "AUC 0.444" in seen.output  # 4 of 9 pairs are in order
    printed(*see, "--confirmed")
    by_hand = ("query", "plan.toml", "--engine", "duckdb", "--table", "t")
    assert "name the column of weights" in refused("preview", "plan.toml", "w.parquet")
    assert "adds up weights" in refused(*by_hand)


def test_a_multi_class_file_gives_a_result_a_class(tmp_path, rng):
    y = rng.integers(0, 3, 30_000)
    s = rng.dirichlet([1, 1, 1], 30_000)
    table = pa.table({"y_true": y, **{f"p{k}": s[:, k] for k in range(3)}})
    pq.write_table(table, tmp_path / "a.parquet")
    classes = (word for k in range(3) for word in ("--class", k, "--score", f"p{k}"))
    text = printed("evaluate", tmp_path / "a.parquet", "--ovo", *classes)
    assert "AUC 2" in text
    assert "AUC pairs, macro" in text


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("0.9,1\n0.2,0\n", (), "looks like data"),
        ("y_score,y_true\n1.9,1\n", (), "1 of 1 scores are outside [0, 1]"),
        ("y_score,y_true\n0.9,7\n", (), "other than 0 and 1"),
        (ONE_ROW, ("--bins", 0), "number of bins"),
        (ONE_ROW, ("--in-group", "f"), "--group names the column"),
        (ONE_ROW, ("--epsilon", 1), "secure-aggregation has no --epsilon"),
        (ONE_ROW, (*NOISY, "much"), "epsilon must be a decimal number"),
        (ONE_ROW, ("--json", "no/where.json"), "No such file"),
        (ONE_ROW, ("--heterogeneity", "charm"), "unknown effect of a site"),
        (ONE_ROW, ("--privacy", "label"), "needs --epsilon"),
        (
            ONE_ROW,
            ("--privacy", "label", "--epsilon", 1, "--mechanism", "arc"),
            "one of choice",
        ),
        (ONE_ROW, ("--privacy", "exact", "--threshold", 0.5), "no thresholds, edges"),
        (
            ONE_ROW,
            ("--privacy", "exact", "--class", "a", "--class", "b"),
            "classes, groups or weights",
        ),
        (
            ONE_ROW,
            ("--privacy", "exact", "--mechanism", "arc"),
            "exact has no --mechanism: leave out --mechanism",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning")
@pytest.mark.filterwarnings("ignore::discreet.UndefinedMetricWarning")
def test_bad_input_is_refused_with_a_sentence(tmp_path, content, options, message):
    (tmp_path / "a.csv").write_text(content)
    assert message in refused("evaluate", tmp_path / "a.csv", *options)


def test_a_small_exact_histogram_warns_on_one_line(tmp_path):
    (tmp_path / "a.csv").write_text("y_score,y_true\n0.9,1\n0.2,0\n")
    run = discreet("evaluate", str(tmp_path / "a.csv"))
    assert run.returncode == 0
    (line,) = run.stderr.strip().splitlines()
    assert line.startswith("Warning: an exact histogram of 129 bins")


def test_help_and_version_teach():
    assert "--positive" in printed("evaluate", "--help")
    assert printed("--version").startswith("discreet 1.")
    command = [sys.executable, "-m", "discreet", "--version"]
    assert subprocess.check_output(command, text=True).startswith("discreet 1.")  # noqa: S603
    assert "reproduce" not in printed("--help")


@pytest.mark.page("README.md")
def test_the_demo_is_right_against_scikit_learn(tmp_path):
    from sklearn.metrics import brier_score_loss, precision_score, roc_auc_score

    from discreet.cli.demo import simulate_hospitals

    run = invoke("demo", "--out", tmp_path)
    assert run.exit_code == 0, run.exception
    hospitals = simulate_hospitals()
    s = np.concatenate([h.scores for h in hospitals])
    y = np.concatenate([h.labels for h in hospitals])
    local = np.mean([roc_auc_score(h.labels, h.scores) for h in hospitals])
    document = json.loads((tmp_path / "result.json").read_text())
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
    private = json.loads((tmp_path / "private.json").read_text())
    found = private["metrics"]["auc"]
    assert found["value"] == pytest.approx(
        roc_auc_score(y, s), abs=6 * found["noise_sd"] + 2e-4
    )
    assert (tmp_path / "roc.png").stat().st_size > 10_000
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f'<div class="big">{found["value"]:.3f}</div>' in page
    assert "<h1>sepsis-demo</h1>" in page
    assert run.stdout.endswith(f"{tmp_path / 'followup.html'}\n")
    names = ("Pooling the follow-up, if allowed", "Averaging the 12 local concordances")
    together, averaged = (float(rows[name][0]) for name in names)
    assert float(rows["discreet, 1-DP"][0]) == pytest.approx(together, abs=0.02)
    assert averaged < together - 0.03


def test_the_demo_finds_out_first_that_its_folder_cannot_be_made(tmp_path):
    (tmp_path / "taken").write_text("a file")
    run = invoke("demo", "--out", tmp_path / "taken")
    assert isinstance(run.exception, FileExistsError)
    assert run.stdout == ""


def test_the_demos_follow_up_is_ranked_as_scikit_survival_ranks_it():
    from sksurv.metrics import concordance_index_censored

    from discreet.cli.demo import _concordance, simulate_follow_up, simulate_hospitals

    smallest = simulate_hospitals()[-4:]
    sites = simulate_follow_up(smallest)
    batches = [batch for site in sites for batch in site.batches()]
    s, d, t = (
        np.concatenate([each(batch) for batch in batches])
        for each in (lambda b: b.scores[0], lambda b: b.labels, lambda b: b.times)
    )
    inside = t <= 1825  # later events are past the last horizon
    expected = concordance_index_censored((d == 1) & inside, np.minimum(t, 1826), s)[0]
    assert _concordance(sites) == pytest.approx(expected, abs=0.002)


@pytest.mark.parametrize(
    ("terminal", "environment", "platform", "opens"),
    [
        (True, {"DISPLAY": ":0"}, "linux", True),
        (True, {"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        (True, {}, "darwin", True),
        (True, {}, "linux", False),
        (False, {"DISPLAY": ":0"}, "linux", False),
        (True, {"DISPLAY": ":0", "CI": "true"}, "linux", False),
        (True, {"DISPLAY": ":0", "SSH_CONNECTION": "a b"}, "linux", False),
    ],
)
def test_the_demo_opens_its_page_only_before_a_screen(
    terminal, environment, platform, opens, monkeypatch
):
    from discreet.cli import demo

    for name in ("DISPLAY", "WAYLAND_DISPLAY", "CI", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(demo.sys, "platform", platform)
    monkeypatch.setattr(demo.sys.stdout, "isatty", lambda: terminal, raising=False)
    assert demo.has_screen() is opens


def test_the_old_command_of_the_papers_says_what_replaced_it():
    said = refused("reproduce", "xu2025", "--item", "figure-4")
    assert "run python -m papers xu2025 --item figure-4 from a clone" in said


@pytest.mark.mpc
@pytest.mark.usefixtures("files")
def test_exact_areas_from_the_command_line():
    table = pq.read_table("north.parquet")
    pc.write_csv(table.slice(0, 40), "a.csv")
    pc.write_csv(table.slice(40, 60), "b.csv")
    text = printed("evaluate", "a.csv", "b.csv", "--privacy", "exact")
    assert "AUC" in text
    assert "compute part" in text


def test_curves_under_label_privacy_and_the_auc_alone(two_sites, tmp_path):
    label = ("evaluate", *two_sites, "--privacy", "label", "--epsilon", 2)
    out, plots = tmp_path / "result.json", tmp_path / "plots"
    text = printed(*label, "--mechanism", "curves", "--json", out)
    assert "2-DP for one label flipped" in text
    document = json.loads(out.read_text())
    assert document["metrics"]["auc"]["value"] == pytest.approx(5 / 6, abs=0.03)
    assert np.diff(document["roc"]["tpr"]).min() >= 0
    assert "AUC" in printed(*label)  # the default draws nothing
    assert isinstance(invoke(*label, "--plots", plots).exception, NotReleasedError)
    assert not plots.exists()


def test_evaluate_says_how_the_files_differ(tmp_path):
    rng = np.random.default_rng(5)
    paths = []
    for k in range(10):
        y = rng.random(800) < 0.4
        s = 1 / (1 + np.exp(-rng.normal(1.3 * y - 0.6, 1)))
        table = {"y_score": s, "y_true": y.astype(int), "who": np.arange(800) // 4}
        paths.append(tmp_path / f"{k}.csv")
        pc.write_csv(pa.table(table), paths[-1])
    text = printed(
        *("evaluate", *paths, "--bins", 64, "--heterogeneity", "auc"),
        *("--heterogeneity", "recall@0.5", "--clusters", "subject", "--subject", "who"),
    )
    assert "AUC over 10 sites: mean" in text
    assert "recall at 0.5 over 10 sites" in text
    assert "Within a site, the AUC is" in text
    assert "If rows of one subject are alike" in text


def test_a_report_that_cannot_be_written_is_refused_before_any_session(tmp_path):
    """Sites would have paid for a result that is then lost."""
    run = invoke("coordinate", "plan.toml", "--keys", tmp_path, "--report", "r.pdf")
    assert isinstance(run.exception, InputError)
    assert ".html, .json or .txt" in str(run.exception)


HOSPITALS = ("evaluate", "all.csv", "--label", "died", "--score", "risk")


@pytest.fixture
def hospitals(tmp_path, monkeypatch, rng):
    """Write one file with a column of sites, and a second label and score."""
    monkeypatch.chdir(tmp_path)
    rows = [["ward", "died", "late", "risk", "old", "sex"]]
    for _ in range(1500):
        died = int(rng.random() < 0.4)
        scores = np.clip(rng.normal(0.35 + 0.3 * died, 0.2, 2), 0, 1).round(4)
        ward, sex = "abc"[rng.integers(3)], "fm"[rng.integers(2)]
        rows.append([ward, died, died if rng.random() < 0.9 else "", *scores, sex])
    text = "\n".join(",".join(map(str, row)) for row in rows)
    (tmp_path / "all.csv").write_text(text)
    return tmp_path


@pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning")
@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        ((*HOSPITALS, "--site", "ward"), "A new site's AUC is expected", 0),
        (
            (*HOSPITALS, "--site", "ward", *NOISY, 3, "--per-site"),
            "and the pooled row is computed from the rows",
            0,
        ),
        (
            (
                *HOSPITALS,
                "--site",
                "ward",
                "--privacy",
                "secure-aggregation",
                "--per-site",
            ),
            "or leave out --privacy for data that are your own",
            2,
        ),
        ((*HOSPITALS, "all.csv", "--site", "ward"), "a column of one file", 2),
        (
            (
                *("evaluate", "all.csv", "--labels", "died", "--labels", "late"),
                *("--score", "risk", "--score", "old"),
            ),
            "AUC late",
            0,
        ),
        (
            ("evaluate", "all.csv", "--labels", "died", "--labels", "late"),
            "2 labels and 1 score columns",
            2,
        ),
        (
            (
                *("compare", "all.csv", "--label", "died", "--score", "risk"),
                *("--score", "old", "--group", "sex"),
                *("--in-group", "f", "--in-group", "m"),
            ),
            "AUC risk-old pooled",
            0,
        ),
    ],
)
@pytest.mark.usefixtures("hospitals")
def test_one_file_by_site_by_label_and_by_group(words, said, code):
    run = invoke(*words)
    text = run.output if run.exception is None else in_options(str(run.exception))
    assert said in text
    assert code == (0 if run.exception is None else exit_code(run.exception))


@pytest.mark.usefixtures("hospitals")
def test_a_warning_names_options_too():
    run = discreet(*HOSPITALS, "--site", "ward", *NOISY, "3")
    assert run.returncode == 0
    assert "charged for when you ask with --per-site\n" in run.stderr

"""The framework: seeded, stored, resumed, and honest about disagreement."""

import csv
import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet.errors import InputError
from papers import results
from papers.data import FACTS, UNPUBLISHED, Data
from papers.figures import Figure, Panel, Series, draw
from papers.registry import NAMES, Item, Paper, Report, Runs, paper
from papers.runner import Runner
from papers.tables import (
    Table,
    Verdict,
    check_number,
    check_ours,
    check_that,
)

ROOT = Path(__file__).resolve().parents[2]


class Counted:
    """An item that knows how often it was measured."""

    def __init__(self):
        self.calls = 0

    def measure(self, data, rng):
        del data
        self.calls += 1
        return {"x": rng.normal(size=3)}

    @staticmethod
    def report(data, runs):
        del data
        rows = tuple((float(v),) for v in runs.all("x").ravel())
        return Report((Table("t", "values", ("x",), rows),), ())

    def paper(self, *names):
        items = (
            Item(n, n, self.measure, self.report, runs=4) for n in names or ("one",)
        )
        return Paper("mine", "A paper.", tuple(items))


def values(out, found, name="one", *, runs=None, seed=0):
    item = found.chosen([name])[0]
    runner = Runner(out, Data(out), seed, runs)
    report = runner.reproduce(found, item, progress=lambda _: None)
    return [row[0] for row in report.tables[0].rows]


def test_a_second_call_measures_nothing(tmp_path):
    counted = Counted()
    first = values(tmp_path, counted.paper())
    again = values(tmp_path, counted.paper())
    assert counted.calls == 4
    assert first == again


def test_more_runs_add_to_those_that_are_stored(tmp_path):
    counted = Counted()
    few = values(tmp_path / "a", counted.paper(), runs=2)
    more = values(tmp_path / "a", counted.paper(), runs=5)
    assert counted.calls == 5
    assert more[:6] == few
    assert values(tmp_path / "b", counted.paper(), runs=5) == more


def test_a_line_that_a_crash_cut_short_is_measured_again(tmp_path):
    counted = Counted()
    whole = values(tmp_path, counted.paper())
    store = tmp_path / "mine" / "one.runs.jsonl"
    store.write_text(store.read_text()[:-20] + "\n")
    assert values(tmp_path, counted.paper()) == whole
    assert counted.calls == 5


def test_another_seed_or_other_data_start_anew(tmp_path):
    counted = Counted()
    first = values(tmp_path, counted.paper())
    assert values(tmp_path, counted.paper(), seed=1) != first
    assert counted.calls == 8
    pq.write_table(pa.table({"score": [0.5], "label": [1]}), tmp_path / "new.parquet")
    values(tmp_path, counted.paper(), seed=1)
    assert counted.calls == 12


def test_an_item_draws_the_same_alone_and_after_others(tmp_path):
    counted = Counted()
    both = counted.paper("one", "two")
    values(tmp_path / "a", both, "one")
    after = values(tmp_path / "a", both, "two")
    alone = values(tmp_path / "b", both, "two")
    assert after == alone
    assert after != values(tmp_path / "b", both, "one")


def test_an_exact_item_runs_once_however_many_are_asked_for(tmp_path):
    exact = Item("x", "x", Counted().measure, Counted.report)
    assert Runner(tmp_path, Data(tmp_path), runs=50).wanted(exact) == 1
    with pytest.raises(InputError, match="at least 1"):
        Runner(tmp_path, Data(tmp_path), runs=0)


def test_means_leave_out_refusals_and_errors_shrink_with_runs():
    runs = Runs([{"x": np.array([v, 1.0])} for v in (1.0, math.nan, 3.0)])
    assert runs.mean("x").tolist() == [2.0, 1.0]
    assert runs.error("x").tolist() == [1.0, 0.0]
    assert math.isnan(Runs([{"x": np.array([1.0])}]).error("x")[0])
    with pytest.raises(InputError, match="no run"):
        Runs([])


@pytest.mark.parametrize(
    ("ours", "error", "reason", "wanted"),
    [
        (1.25, 0.05, "", Verdict.agrees),
        (1.26, 0.05, "", Verdict.unexplained),
        (1.26, 0.05, "because", Verdict.explained),
        (1.09, math.nan, "", Verdict.agrees),
        (1.11, math.nan, "", Verdict.unexplained),
    ],
)
def test_a_number_agrees_within_its_tolerance_and_three_errors(
    ours, error, reason, wanted
):
    found = check_number(
        "x", paper=1.0, ours=ours, error=error, tolerance=0.1001, reason=reason
    )
    assert found.verdict is wanted


def test_a_disagreement_without_a_reason_is_never_called_an_error_of_the_paper():
    asked = {"paper": "", "ours": ""}
    assert check_that("x", False, **asked).verdict is Verdict.unexplained
    assert check_that("x", False, wrong=True, **asked).verdict is Verdict.unexplained
    found = check_that("x", False, wrong=True, reason="so", **asked)
    assert (found.verdict, found.note) == (Verdict.wrong, "so")
    assert check_that("x", True, wrong=True, **asked).verdict is Verdict.agrees
    assert check_ours("x", False, ours="").verdict is Verdict.unexplained


def test_csv_keeps_every_digit_and_markdown_few():
    table = Table("t", "title", ("a", "b"), ((1 / 3, "x, y"),))
    assert list(csv.reader(io.StringIO(table.to_csv())))[1] == [repr(1 / 3), "x, y"]
    assert table.to_markdown().splitlines()[-1] == "| 0.333 | x, y |"
    with pytest.raises(InputError, match="2 cells"):
        Table("t", "title", ("a", "b"), ((1.0,),))


def test_a_page_gets_three_digits_and_no_bar_that_ends_a_cell():
    cells = (0.12345, 1234567.0, 24.53, 3e-16, 0.0, 12, "a | b", math.nan, math.inf)
    written = [str(results.quoted(cell)) for cell in cells]
    assert written == [
        *(".123", "1,234,567", "24.5", "3e-16", "0"),
        *("12", "a / b", "", "infinity"),
    ]


def test_a_part_of_a_table_has_the_rows_asked_for_without_their_common_cells():
    rows = (("a", 1.0, 3), ("a", 2.0, 4), ("b", 1.0, 5))
    whole = Table("t", "title", ("data", "eps", "x"), rows)
    part = results.part(whole, "t-a", {"data": "a", "eps": 1.0})
    assert (part.name, part.columns, part.rows) == ("t-a", ("x",), ((3,),))


def test_every_part_is_of_a_table_that_has_such_rows():
    for file in sorted((ROOT / "results").glob("papers-*.json")):
        tables = json.loads(file.read_text())["tables"]
        for name, (whole, _) in results.PARTS.items():
            if whole in tables and name in tables:
                assert tables[name]["rows"]


def test_figures_are_the_same_bytes_for_the_same_numbers(tmp_path):
    x = np.array([1.0, 2.0, 3.0])
    line = Series(x, x - 1, "label", low=x - 2)
    bars = Series(x, x, "bars", "bars", 1)
    panel = Panel("title", (line, bars), "x", "y", "log", "log")
    figure = Figure("f", "two", (panel, panel, panel, panel))
    first = [path.read_bytes() for path in draw(figure, tmp_path)]
    assert [path.suffix for path in draw(figure, tmp_path)] == [".png", ".svg"]
    assert [path.read_bytes() for path in draw(figure, tmp_path)] == first


def test_a_missing_set_is_replaced_by_a_stand_in_that_says_so(tmp_path):
    data = Data(tmp_path, stand_ins=True)
    found = data.scored("adult-lr")
    facts = FACTS["adult-lr"]
    assert "simulated stand-in" in found.source
    assert found.labels.size == facts.rows
    # Standard errors are .0025 and .0015: five of them.
    assert abs(found.auc - facts.auc) < 0.0125
    assert abs(found.labels.mean() - facts.prevalence) < 0.0075
    assert data.scored("adult-lr") is found
    assert data.rows(10) == 10


def test_a_missing_set_is_refused_unless_a_stand_in_is_asked_for(tmp_path):
    data = Data(tmp_path)
    assert data.missing(FACTS) == tuple(n for n in FACTS if n not in UNPUBLISHED)
    assert data.scored("diabetes").simulated, "nobody can give this one"
    with pytest.raises(InputError, match=r"has no adult-lr\.parquet"):
        data.scored("adult-lr")


def test_a_file_is_read_and_cut_to_the_rows_asked_for(tmp_path):
    scores = np.linspace(0, 1, 200)
    table = pa.table({"score": scores, "label": (scores > 0.3).astype(np.int8)})
    pq.write_table(table, tmp_path / "adult-lr.parquet")
    whole = Data(tmp_path).scored("adult-lr")
    assert (whole.auc, whole.average_precision) == (1.0, 1.0)
    assert "real scores" in whole.source
    part = Data(tmp_path, 50).scored("adult-lr")
    assert part.labels.size == 50
    assert set(part.scores) <= set(scores)
    assert Data(tmp_path).digest != Data(tmp_path, 50).digest


def test_exact_curves_are_scikit_learns():
    sklearn = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 40, 500) / 40
    labels = (rng.random(500) < scores).astype(np.int64)
    from papers.data import Scored

    found = Scored("x", scores, labels)
    assert found.auc == pytest.approx(sklearn.roc_auc_score(labels, scores))
    wanted = sklearn.average_precision_score(labels, scores)
    assert found.average_precision == pytest.approx(wanted)
    fpr, tpr, _ = sklearn.roc_curve(labels, scores, drop_intermediate=False)
    assert np.allclose(found.roc.x, fpr)
    assert np.allclose(found.roc.y, tpr)


def test_items_are_found_by_every_figure_they_make():
    found = paper("xu2025")
    assert found.chosen(["figure-9"]) == found.chosen(["figure-3"])
    assert len(found.chosen(["figure-9", "figure-3", "seeding"])) == 2
    assert found.chosen([]) == found.items
    with pytest.raises(InputError, match=r"no item figure-99.*figure-3, figure-9"):
        found.chosen(["figure-99"])
    with pytest.raises(InputError, match="only boyd2015"):
        paper("nobody1999")


def test_no_two_items_of_a_paper_share_a_name():
    for name in NAMES:
        words = [w for item in paper(name).items for w in (item.name, *item.also)]
        assert len(words) == len(set(words))


def command(*arguments, env=None):
    """Run the real command from the root of the clone."""
    # So wide that no word of the help is broken.
    env = {**os.environ, "COLUMNS": "200", **(env or {})}
    call = [sys.executable, "-m", "papers", *map(str, arguments)]
    return subprocess.run(  # noqa: S603 - the command of this clone
        call, capture_output=True, text=True, cwd=ROOT, env=env, check=False
    )


def test_the_command_prints_tables_and_a_summary(tmp_path):
    result = command("boyd2015", "--item", "figure-3", "--out", tmp_path)
    assert result.returncode == 0, result.stderr
    assert "Smooth sensitivity of AUC" in result.stdout
    assert "4 statements: 3 agrees, 1 ours: holds" in result.stdout
    assert (tmp_path / "boyd2015" / "figure-3.svg").exists()
    assert (tmp_path / "boyd2015" / "figure-3.csv").exists()


def test_without_its_data_an_item_that_is_asked_for_is_not_begun(tmp_path):
    asked = ["--item", "figure-3", "--item", "figure-2", "--data", tmp_path / "none"]
    result = command("boyd2015", *asked, "--out", tmp_path / "out")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("papers: figure-2 did not run:")
    assert "lacks adult-lr.parquet; give --data FOLDER" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_whole_paper_without_data_runs_the_items_that_need_none(tmp_path):
    few = ["--runs", 1, "--rows", 1000, "--data", tmp_path / "none"]
    result = command("boyd2015", *few, "--out", tmp_path / "out")
    assert result.returncode == 2
    pages = {path.stem for path in (tmp_path / "out" / "boyd2015").glob("*.md")}
    assert pages == {"figure-3", "figure-4", "theorem-5"}
    *_, last = result.stderr.splitlines()
    assert last.startswith("papers: figure-1, figure-2, figure-5, figure-6 did not run")


def test_the_tables_of_a_paper_are_saved_for_its_page(tmp_path):
    few = ["--runs", 1, "--rows", 1000, "--stand-ins", "--out", tmp_path / "out"]
    folder = {"DISCREET_RESULTS": str(tmp_path / "results")}
    result = command("index", *few, "--save", env=folder)
    assert result.returncode == 0, result.stderr
    saved = json.loads((tmp_path / "results" / "papers-index.json").read_text())
    assert saved["command"].startswith("python -m papers index --runs 1")
    assert saved["settings"] == {"seed": 0, "runs": 1, "rows": 1000}
    assert {"comparison", "comparison-checks", "verdicts"} <= set(saved["tables"])
    assert saved["figures"]["statements"]["text"] == "3"
    assert "estimate/smooth_fit.py" in saved["code"]["modules"]


def test_a_part_of_a_paper_is_not_saved(tmp_path):
    result = command("boyd2015", "--item", "figure-3", "--save", "--out", tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert "leave out --item" in result.stderr


def test_help_teaches_the_commands():
    result = command("--help")
    assert result.returncode == 0
    for word in (*NAMES, "--item", "--data", "--stand-ins", "--save", "../shared/data"):
        assert word in result.stdout
    assert str(ROOT) not in result.stdout, "help is the same on every machine"

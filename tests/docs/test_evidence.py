"""Pages quote what the results say."""

import json
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
import evidence

RESULT = {
    "tables": {
        "errors": {
            "columns": ["", "AUC"],
            "rows": [["real", {"text": ".56", "value": 0.561}]],
        }
    },
    "figures": {"mean": {"text": ".34", "value": 0.341}},
}
PAGE = (
    "A mean of <!-- results: curves/mean -->{mean}<!-- end -->.\n\n"
    "<!-- results: curves/errors -->{table}<!-- end -->\n"
)
TABLE = "\n\n|  | AUC |\n| --- | --- |\n| real | .56 |\n\n"


def test_every_page_quotes_what_its_result_says():
    assert evidence.differing() == []


@pytest.mark.parametrize("name", evidence._known())
def test_a_result_was_measured_as_it_would_be_measured_again(name):
    command = evidence._known()[name]["command"].removesuffix(" --save")
    script = re.sub(r"^python (bench/\S+|-m papers \S+) ?", "", command)
    assert script == evidence.RUNS[name][0]


def _column(name, table, column):
    """Return a column of a result's table by the first cells of its rows."""
    shown = evidence._known()[name]["tables"][table]
    at = shown["columns"].index(column)
    return {row[0]: evidence._text(row[at]) for row in shown["rows"]}


def _least(table, asked):
    cell = _column("hard_coverage", table, "coverage (least)")[asked]
    return f"{float(re.search(r'[(]([0-9.]+)[)]', cell)[1]):.0f}%"


def test_what_misses_its_goal_is_quoted_from_the_results():
    page = (Path(__file__).parents[2] / "docs" / "limitations.md").read_text()
    goals = page.partition("## What misses its goal")[2].partition("\n## ")[0]
    ap, between = "average precision", "{}, between two edges"
    exact, noisy = _least("real-exact", ap), _least("real-distributed", ap)
    local = _least("real-local", ap)
    assert f"{exact} of runs without noise, {noisy} under noise, {local}" in goals
    rates = [between.format(rate) for rate in ("specificity", "recall")]
    of_rates = [_least("real-distributed", rate) for rate in rates]
    assert "specificity {}, recall {}".format(*of_rates) in goals
    assert f"at epsilon .3: {_least('trained-distributed', 'AUC')}" in goals
    near = [
        _column("prediction", "near", f"{name} within 1.5 times (range)")
        for name in (ap, "AUC")
    ]
    of_ap, of_auc = (
        n["real sets on which nothing was chosen"].split()[0] for n in near
    )
    assert f"in {of_ap} of 60 cells; AUC: in {of_auc} of 60" in goals
    refused = _column("heterogeneity", "noise", "refused")["30"]
    assert f"30 sites: {refused} of results" in goals
    for name in ("AUC", "AP"):
        shown = evidence._known()["accuracy"]["tables"]["all"]
        at = shown["columns"].index(name)
        worst = [row[at] for row in shown["rows"] if row[0].startswith("worst")]
        assert f"{max(cell['value'] for cell in worst):.2f} times" in goals


def test_bytes_and_rounds_of_exact_areas_are_quoted_from_their_result():
    page = (Path(__file__).parents[2] / "docs" / "waiting.md").read_text()
    exact = evidence._known()["exact"]["tables"]["paper"]
    shown = next(row for row in exact["rows"] if row[0] == "8 x 1000")
    cells = dict(zip(exact["columns"], map(evidence._text, shown), strict=True))
    assert f"{cells['MB between parties']} MB, {cells['rounds']} rounds |" in page


def test_a_result_is_rendered_between_its_comments():
    page = evidence.rendered(PAGE.format(mean="?", table=""), {"curves": RESULT})
    assert page == PAGE.format(mean=".34", table=TABLE)


def test_an_edited_table_is_noticed(tmp_path, monkeypatch):
    results, page = tmp_path / "results", tmp_path / "README.md"
    results.mkdir()
    (results / "curves.json").write_text(json.dumps(RESULT))
    monkeypatch.setattr(evidence, "RESULTS", results)
    monkeypatch.setattr(evidence, "ROOT", tmp_path)
    page.write_text(PAGE.format(mean=".34", table=TABLE))
    assert evidence.differing() == []
    page.write_text(PAGE.format(mean=".33", table=TABLE))
    assert evidence.differing() == [page]
    evidence.render()
    assert evidence.differing() == []


def test_a_page_cannot_quote_what_nobody_measured():
    with pytest.raises(LookupError, match="no median"):
        evidence.rendered("<!-- results: curves/median --><!-- end -->", {})


def test_a_result_is_stale_when_its_code_changes_and_not_for_a_docstring(
    tmp_path, monkeypatch
):
    module = tmp_path / "src" / "discreet" / "noise" / "laplace.py"
    module.parent.mkdir(parents=True)
    monkeypatch.setattr(evidence, "ROOT", tmp_path)
    module.write_text('"""Noise."""\nSCALE = 1\n')
    before = evidence.code_digest(["noise/laplace.py"])
    module.write_text('"""Laplace noise."""\n# why\nSCALE = 1\n')
    assert evidence.code_digest(["noise/laplace.py"]) == before
    module.write_text('"""Noise."""\nSCALE = 2\n')
    assert evidence.code_digest(["noise/laplace.py"]) != before
    module.unlink()
    assert evidence.code_digest(["noise/laplace.py"]) != before


def test_a_result_depends_on_the_modules_that_its_benchmark_loaded(monkeypatch):
    import discreet.noise.laplace

    name = discreet.noise.laplace.__name__
    assert "noise/laplace.py" in evidence.modules(["noise"], whole=False)
    monkeypatch.delitem(sys.modules, name)
    assert "noise/laplace.py" not in evidence.modules(["noise"], whole=False)
    assert "noise/laplace.py" in evidence.modules(["noise"], whole=True)
    assert evidence.modules(["errors"], whole=True) == ["errors.py"]

"""Pages quote what the results say."""

import json
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

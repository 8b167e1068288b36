"""The data manager's tutorial, executed as it is written; only ports differ."""

from __future__ import annotations

import json
from pathlib import Path

from e2e.tutorials import commands, execute


def test_the_data_managers_tutorial(tmp_path: Path) -> None:
    said = execute(commands("tutorial-data-manager.md"), tmp_path)
    result = json.loads((tmp_path / "result.json").read_text())
    assert 0.5 < result["metrics"]["auc"]["value"] < 1
    assert "3 of 3 sites" in said
    assert "Even a coordinator that breaks the protocol" in said
    assert said.count("The coordinator of the roster signed it.") == 3
    assert "The receipts of north, south fit" in said
    assert said.count("The page is, byte by byte, what this release gives.") == 2
    assert (tmp_path / "plots" / "roc.png").exists()


def test_the_tutorial_of_follow_up(tmp_path: Path) -> None:
    said = execute(commands("tutorial-survival.md"), tmp_path)
    assert "3 of 3 sites" in said
    assert "independent censoring" in said
    assert "GROUP BY" in said
    assert said.count("Done:") == 3
    assert "The coordinator of the roster signed it." in said
    assert "The page is, byte by byte, what this release gives." in said
    assert (tmp_path / "plots" / "km.png").exists()
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["release"] is not None

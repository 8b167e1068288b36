"""From a model file to a page over three sites, executed as the page is written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from e2e.tutorials import commands, execute


@pytest.mark.long
@pytest.mark.page("docs/tutorial-scoring.md")
def test_from_a_model_file_to_a_page_over_three_sites(tmp_path: Path) -> None:
    said = execute(commands("tutorial-scoring.md"), tmp_path)
    result = json.loads((tmp_path / "result.json").read_text())
    assert 0.6 < result["metrics"]["auc"]["value"] < 1
    assert "3 of 3 sites" in said
    digest = re.search(r"scored at their site by the model file (sha256:\w{64})", said)
    assert digest is not None
    assert f'"{digest.group(1)}"' in (tmp_path / "north" / "policy.toml").read_text()
    assert digest.group(1) in (tmp_path / "report.html").read_text()
    assert f"Scores: made here by the model file {digest.group(1)}" in said
    fetched, served = (tmp_path / f"{n}.onnx" for n in ("fetched", "sepsis"))
    assert fetched.read_bytes() == served.read_bytes()
    assert "4,000 rows are scored" in said
    assert (tmp_path / "boosted.html").exists()

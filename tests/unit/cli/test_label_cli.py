"""Label privacy from the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from discreet.cli.main import app
from discreet.errors import InputError, NotReleasedError, PlanError


@pytest.fixture
def files(tmp_path, rng) -> list[str]:
    paths = []
    for name in ("north", "south"):
        s = rng.random(3000)
        y = (rng.random(3000) < s).astype(int)
        rows = [f"{a:.6f},{b}" for a, b in zip(s, y, strict=True)]
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join(["y_score,y_true", *rows]), encoding="utf-8")
        paths.append(str(path))
    return paths


def run(*arguments: str):
    return CliRunner().invoke(app, arguments)


def test_curves_and_their_numbers_from_the_command_line(files, tmp_path) -> None:
    out = tmp_path / "result.json"
    found = run(
        *("evaluate", *files, "--privacy", "label", "--epsilon", "2"),
        *("--mechanism", "curves", "--json", str(out)),
    )
    assert found.exit_code == 0, found.output
    assert "2-DP for one label flipped" in found.output
    document = json.loads(out.read_text())
    assert document["metrics"]["auc"]["value"] == pytest.approx(5 / 6, abs=0.03)
    assert np.diff(document["roc"]["tpr"]).min() >= 0


def test_the_default_gives_the_auc_alone_and_draws_nothing(files, tmp_path) -> None:
    label = ("evaluate", *files, "--privacy", "label", "--epsilon", "2")
    assert "AUC" in run(*label).output
    refused = run(*label, "--plots", str(tmp_path / "plots"))
    assert isinstance(refused.exception, NotReleasedError)
    assert not (tmp_path / "plots").exists()


def test_wrong_choices_are_named(files) -> None:
    label = ("evaluate", *files, "--privacy", "label")
    assert isinstance(run(*label).exception, InputError)
    wrong = run(*label, "--epsilon", "1", "--mechanism", "arc")
    assert isinstance(wrong.exception, PlanError)
    assert "one of choice" in str(wrong.exception)
    grouped = run(*label, "--epsilon", "1", "--in-group", "f")
    assert isinstance(grouped.exception, InputError)
    assert "--group names the column" in str(grouped.exception)


def test_the_attack_prints_the_top_k_in_order_and_shuffled(files) -> None:
    found = run("attack", "top-scores", *files, "--top", "10", "--top", "1000")
    assert found.exit_code == 0, found.output
    ten = found.output.splitlines()[2].split()
    assert ten[0] == "10"
    # The ten highest of 6,000 calibrated scores are nearly all positive; shuffled,
    # half are.
    assert float(ten[2]) >= 0.9
    assert 0.4 < float(ten[5]) < 0.6

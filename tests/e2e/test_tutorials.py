"""The tutorials and the README's session, executed as they are written.

Only ports differ, and the README's host name.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet.transport.addresses import free_port
from e2e.tutorials import REPOSITORY, commands, execute

SITES = ("north", "south", "east")
PHONES = """
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
from discreet import phone
parameters = phone.Parameters.read(open("parameters.json").read())
scores = np.random.default_rng(1).beta(1, 4, 20_000).tolist()
labels = [int(place % 7 < 7 * score) for place, score in enumerate(scores)]
reports = [phone.randomize(parameters, *row) for row in zip(scores, labels)]
pq.write_table(pa.table({
    name: [getattr(report, name) for report in reports] for name in ("plan", "id", "symbol")
}), "reports.parquet")
"""
"""What the phones and the pipeline between them do."""


@pytest.mark.page("docs/tutorial-data-manager.md")
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


@pytest.mark.page("docs/tutorial-survival.md")
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


@pytest.mark.page("README.md")
def test_the_readmes_session(tmp_path: Path) -> None:
    """Everybody in a folder of their own; what the README sends is copied."""
    page = (REPOSITORY / "README.md").read_text()
    block = page.split("## Between real sites")[1].split("## ")[0]
    plan, keys, join, roster, coordinate, site, verify = re.findall(
        r"^    (discreet .*?)(?: +#.*)?$", block, re.MULTILINE
    )
    keys = (
        keys.replace("hub.example.org", "127.0.0.1")
        + f" --port {(port := free_port())}"
    )
    for name in SITES:
        (tmp_path / name).mkdir()
        rng = np.random.default_rng(len(name))
        risk = rng.beta(1, 9, 16_000)
        rows = {"y_score": risk, "y_true": (rng.random(16_000) < risk).astype(np.int8)}
        pq.write_table(pa.table(rows), tmp_path / name / "scores.parquet")

    def each(line: str) -> list[str]:
        return [f"(cd {name} && {line.replace('north', name)})" for name in SITES]

    (tmp_path / "hub").mkdir()
    script = [
        "set -e",
        f"cd hub; {plan}; {keys}; cd ..",
        *(f"cp hub/plan.toml hub/coordinator/*.public.toml {name}" for name in SITES),
        *each(join),
        *(f"cp {name}/{name}/{name}.public.toml hub" for name in SITES),
        f"cd hub; {roster}; cd ..",
        *(f"cp hub/plan.toml {name}" for name in SITES),
        f"(cd hub && {coordinate} --port {port}) & hub=$!",
        *(f"{line} & site{i}=$!" for i, line in enumerate(each(site))),
        "wait $hub; wait $site0; wait $site1; wait $site2",
        f"cd hub; {verify}",
    ]
    said = execute("\n".join(script), tmp_path)
    assert "3 of 3 sites" in said
    assert "names no model" not in said
    assert "The page is, byte by byte, what this release gives." in said


@pytest.mark.page("docs/ledger.md")
def test_the_ledgers_commands(tmp_path: Path) -> None:
    said = execute(commands("ledger.md"), tmp_path)
    assert "Intact: 0 entries" in said


@pytest.mark.page("docs/phones.md")
def test_reports_of_phones(tmp_path: Path) -> None:
    (tmp_path / "phones.py").write_text(PHONES)
    first, collecting, rest = commands("phones.md").partition("discreet collect")
    said = execute(f"{first}python phones.py\n{collecting}{rest}", tmp_path)
    assert "20,000 reports of one example each" in said
    assert "The page is, byte by byte, what this release gives." in said

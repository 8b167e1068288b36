"""Every command of the signing pack, in the order of a deployment, as it is written."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet.plan.cohort import fingerprint
from discreet.plan.file import loads
from discreet.transport.addresses import free_port
from e2e.tutorials import REPOSITORY, execute

pytestmark = pytest.mark.slow
PACK = REPOSITORY / "docs" / "signing"
PAGES = ("key-ceremony", "dpia", "sign-off", "retention", "incident")


def typed() -> list[str]:
    """Return what the pages tell one to type, one command a line."""
    lines = []
    for page in PAGES:
        text = (PACK / f"{page}.md").read_text()
        for block in re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL):
            said = [line.strip() for line in block.strip().splitlines()]
            assert all(line.startswith("$ ") for line in said)
            lines += [line[2:] for line in said]
        if page == "sign-off":
            lines += signed_for(lines)
    return lines


def signed_for(lines: list[str]) -> list[str]:
    """Return the session that was rehearsed, on the sites' own data."""
    real = [line.replace(" --rehearse", "") for line in lines if "--rehearse" in line]
    made = "--report report.html --json result.json"
    return [
        *(x.replace("--json rehearsal.json", made) for x in real),
        "wait",
        *(f"! {x}" for x in refused_forms(lines)),
    ]


def refused_forms(lines: list[str]) -> list[str]:
    """Return forms that are not filled in: inverted labels, and no rehearsal's record."""
    (form,) = (x for x in lines if "sign_off.py" in x)
    return [
        form.replace("north.parquet", "inverted.parquet"),
        form.replace("rehearsal.json", "result.json"),
        form.replace("plan.toml", "no.toml"),
    ]


def test_all_pages_with_commands_are_executed() -> None:
    with_commands = {
        page.stem for page in PACK.glob("*.md") if "```console" in page.read_text()
    }
    assert with_commands == set(PAGES)


@pytest.mark.page(
    "docs/signing/dpia.md",
    "docs/signing/incident.md",
    "docs/signing/key-ceremony.md",
    "docs/signing/retention.md",
    "docs/signing/sign-off.md",
)
def test_the_pack_runs_from_the_ceremony_to_the_incident(tmp_path: Path) -> None:
    for place, site in enumerate(("north", "south", "east")):
        rng = np.random.default_rng(place)
        y = (rng.random(6_000) < 0.25).astype(int)
        score = 1 / (1 + np.exp(-(rng.normal(0, 1, y.size) + 2 * y - 1)))
        table = pa.table({"y_true": y, "y_score": score})
        pq.write_table(table, tmp_path / f"{site}.parquet")
        inverted = pa.table({"y_true": 1 - y, "y_score": score})
        pq.write_table(inverted, tmp_path / "inverted.parquet")
    script = "\n".join(["set -e", *typed()]).replace("9443", str(free_port()))
    said = execute(script, tmp_path)
    for words in (
        "Compare these digits with every site, by voice.",
        "plan.toml is allowed, as far as the policy and the ledger's caps tell.",
        "This site would take part.",
        "sign-off.html is filled in",
        "The stored answers of 1 session were erased.",
        "No answer is stored.",
        "0 saved sessions were deleted.",
        "holds a new secret",
        "does not allow this coordinator yet",
        "old-plan.toml would be declined:",
        "that was revoked on 20",
        "a key of east that was revoked on 20",
        "It is signed by a key of coordinator that was revoked on 20",
    ):
        assert words in said, words
    assert said.count("sign-off.html is filled in") == 1
    assert said.count("Not filled in: ") == 3
    assert said.count("The roster is in plan.toml") == 3
    form = (tmp_path / "sign-off.html").read_text()
    assert "3 of 3 sites" in form
    assert "External validation of the sepsis model" in form
    assert "not reviewed by an outside cryptographer" in form
    assert_one_page(tmp_path)
    (disclosure,) = csv.DictReader((tmp_path / "record.csv").read_text().splitlines())
    assert disclosure["purpose"] == "External validation of the sepsis model"
    assert disclosure["loss"] == "1-DP"
    assert disclosure["answer"].startswith("erased 20")
    assert "<td>1-DP</td>" in (tmp_path / "record.html").read_text()
    roster = loads((tmp_path / "old-plan.toml").read_text()).roster
    assert roster is not None
    assert disclosure["coordinator"] == fingerprint(roster.coordinator or b"")


def assert_one_page(folder: Path) -> None:
    """The form fits one page of paper."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return
    options = ("--headless", "--no-sandbox", "--disable-gpu")
    subprocess.run(  # noqa: S603 - our own page
        [
            *(chromium, *options, f"--print-to-pdf={folder / 'form.pdf'}"),
            (folder / "sign-off.html").as_uri(),
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
    pages = re.findall(rb"/Type\s*/Page\b(?!s)", (folder / "form.pdf").read_bytes())
    assert len(pages) == 1

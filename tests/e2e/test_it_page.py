"""The page for the IT department: its commands, its units, and the mistakes table."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from discreet.cli.main import app
from e2e.tutorials import REPOSITORY, commands, execute

UNITS = sorted((REPOSITORY / "examples" / "systemd").glob("*.service"))
PROGRAM = "/opt/discreet/bin/discreet"


@pytest.mark.slow
@pytest.mark.page("docs/for-it.md")
def test_the_it_page(tmp_path: Path) -> None:
    said = execute(commands("for-it.md"), tmp_path)
    assert said.count("Nothing stands in the way") == 2
    assert "intact" in said


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd is not installed"
)
def test_the_units_are_what_systemd_understands(tmp_path: Path) -> None:
    assert len(UNITS) == 2
    for unit in UNITS:
        text = unit.read_text().replace(PROGRAM, sys.executable)
        (tmp_path / unit.name).write_text(text)
    found = subprocess.run(  # noqa: S603 - our own units
        ["systemd-analyze", "verify", *map(str, tmp_path.glob("*.service"))],  # noqa: S607
        capture_output=True,
        check=False,
        env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning"},
    )
    complaints = [
        line
        for line in found.stderr.decode().splitlines()
        if any(unit.stem.rstrip("@") in line for unit in UNITS)
    ]
    assert not complaints, complaints


@pytest.mark.parametrize("unit", UNITS, ids=lambda u: u.name)
def test_every_option_of_a_unit_is_one_of_the_command(unit: Path) -> None:
    for line in re.findall(
        rf"^Exec\w+={PROGRAM} (.*)$", unit.read_text(), re.MULTILINE
    ):
        words = line.split()
        command = words[:2] if words[1] == "doctor" else words[:1]
        shown = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200"})
        for option in (word for word in words if word.startswith("--")):
            assert option in shown.output, (command, option)


@pytest.mark.slow
def test_every_mistake_is_said_in_a_sentence() -> None:
    """The driver judges: words, exit codes, no traceback, nothing of the data."""
    done = subprocess.run(  # noqa: S603 - our own driver
        [sys.executable, str(REPOSITORY / "bench" / "mistakes.py")],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]

"""The tutorials' commands, executed as they are written; only ports differ."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from discreet.transport.flower.processes import OFFLINE

from discreet.transport.addresses import free_port

pytestmark = pytest.mark.flower

REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS = 420.0


def commands(page: str) -> str:
    """Return what the console blocks of a page tell one to type, as one script."""
    text = (REPOSITORY / "docs" / page).read_text()
    blocks = re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL)
    lines = [line[2:] for block in blocks for line in block.splitlines()]
    assert lines, f"{page} has no commands"
    for port in sorted(set(re.findall(r"\b9[1-4]\d\d\b", "\n".join(lines)))):
        free = str(free_port())
        lines = [re.sub(rf"\b{port}\b", free, line) for line in lines]
    return "\n".join(["set -e", *lines])


def execute(script: str, folder: Path) -> str:
    """Run a script in a session of its own, and end whatever it leaves behind."""
    tools = folder / "tools"
    tools.mkdir()
    discreet = tools / "discreet"
    discreet.write_text(
        f"#!{sys.executable}\nfrom discreet.cli.main import main\nmain()\n"
    )
    discreet.chmod(0o755)
    own = Path(sys.executable).parent
    environment = {
        **os.environ,
        **OFFLINE,
        "REPOSITORY": str(REPOSITORY),
        "PATH": os.pathsep.join((str(tools), str(own), os.environ["PATH"])),
    }
    with (folder / "output.txt").open("wb") as output:
        shell = subprocess.Popen(  # noqa: S603 - our own documentation
            ["/bin/bash", "-c", script],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = shell.wait(SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGTERM)
    said = (folder / "output.txt").read_text(errors="replace")
    assert code == 0, said
    return said


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_engineers_tutorial(tmp_path: Path) -> None:
    execute(commands("tutorial-fl-engineer.md"), tmp_path)
    result = json.loads((tmp_path / "evaluation.json").read_text())
    assert 0.6 < result["metrics"]["auc"]["value"] < 1
    assert result["claim"]["loss"] == "1-DP"

"""The tutorials' commands, executed as they are written; only ports differ."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from discreet.transport.addresses import free_port
from forked import write_command

REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS = 900.0
OFFLINE = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}


def commands(page: str, *, before_last: str = "") -> str:
    """Return what the console blocks of a page tell one to type, as one script.

    ``before_last`` is executed before the page's last command.
    """
    text = (REPOSITORY / "docs" / page).read_text()
    blocks = re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL)
    lines = [line[2:] for block in blocks for line in block.splitlines()]
    assert lines, f"{page} has no commands"
    script = "\n".join(["set -e", *lines[:-1], before_last, lines[-1]])
    for port in sorted(set(re.findall(r"\b9[1-4]\d\d\b", script))):
        script = re.sub(rf"\b{port}\b", str(free_port()), script)
    return script


def execute(script: str, folder: Path) -> str:
    """Run a script in a session of its own, and end whatever it leaves behind."""
    tools = folder / "tools"
    tools.mkdir()
    write_command(tools / "discreet")
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
        except subprocess.TimeoutExpired as error:
            said = (folder / "output.txt").read_text(errors="replace")
            raise AssertionError(f"not over after {SECONDS} s:\n{said}") from error
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGTERM)
    said = (folder / "output.txt").read_text(errors="replace")
    assert code == 0, said
    # ``wait`` returns 0 whatever ended in the background.
    assert "a fault of the program" not in said, said
    return said

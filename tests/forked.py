"""Commands in processes of their own, forked from one that has loaded the package.

A command of ``discreet`` spends most of its time on imports, and the tests of sessions and
tutorials start a hundred commands. A server process imports everything once and forks for
each command. A forked command has its own arguments, environment, folder and output, and
ends and dies as a process does.

Imports are what this cannot test. ``FRESH_PROCESSES=1``, which ``make test-all`` sets,
starts each command afresh.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

TESTS = Path(__file__).resolve().parent
FRESH = bool(os.environ.get("FRESH_PROCESSES"))
_MAIN = "from discreet.cli.main import main; main()"
_STATUS = 4
_LOADED = (
    *("discreet.transport.https.server", "discreet.transport.https.client"),
    *("discreet.report.verification", "e2e.https_consortium"),
)
"""What commands import when they run, beside what their own modules import."""


class Forked:
    """A forked command, to wait for and to end like a ``subprocess.Popen``."""

    def __init__(
        self,
        words: Sequence[str],
        server: str,
        *,
        script: str = "",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        files: Sequence[int] = (0, 1, 2),
    ) -> None:
        job = {
            "script": script,
            "words": list(words),
            "folder": str(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
        }
        said = json.dumps(job).encode()
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(server)
        socket.send_fds(self._server, [len(said).to_bytes(_STATUS, "big")], files)
        self._server.sendall(said)
        self.returncode: int | None = None
        self.pid = self._number()

    def _number(self) -> int:
        got = _exactly(self._server, _STATUS)
        return int.from_bytes(got, "big", signed=True)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, negative after a signal."""
        if self.returncode is None:
            if not select.select([self._server], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a forked command", timeout or 0)
            self.returncode = self._number()
            self._server.close()
        return self.returncode

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def start(
    script: Path, words: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: IO
) -> Forked | subprocess.Popen[bytes]:
    """Run a Python script in a process of its own; stdin is empty, errors go to ``log``."""
    if FRESH:
        return subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, str(script), *words],
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    with Path(os.devnull).open("rb") as nothing:
        files = (nothing.fileno(), log.fileno(), log.fileno())
        place = str(script)
        return Forked(words, _server(), script=place, cwd=cwd, env=env, files=files)


def run(
    words: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the command ``discreet`` to its end, and return what it printed."""
    if FRESH:
        return subprocess.run(  # noqa: S603 - our own command
            [sys.executable, "-c", _MAIN, *words],
            capture_output=True,
            text=True,
            cwd=cwd,
            env=env,
            check=False,
        )
    with (
        Path(os.devnull).open("rb") as nothing,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        files = [file.fileno() for file in (nothing, out, err)]
        code = Forked(words, _server(), cwd=cwd, env=env, files=files).wait()
        out.seek(0)
        err.seek(0)
        printed = out.read().decode(), err.read().decode()
    return subprocess.CompletedProcess(["discreet", *words], code, *printed)


def write_command(path: Path) -> None:
    """Write the command ``discreet``, for a shell to find."""
    if FRESH:
        text = f"#!{sys.executable}\n{_MAIN}\n"
    else:  # -S: without site-packages Python starts in a fifth of the time
        text = (
            f"#!{sys.executable} -S\nimport sys\nsys.path.insert(0, {str(TESTS)!r})\n"
            f"from forked import stand_in\nstand_in({_server()!r})\n"
        )
    path.write_text(text)
    path.chmod(0o755)


def stand_in(server: str) -> None:
    """Be the command that the server forks: pass signals on, and end as it ends."""
    command = Forked(sys.argv[1:], server)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda sent, _: command.send_signal(sent))
    code = command.wait()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


@cache
def _server() -> str:
    """Start this process's server; it ends when its standard input does."""
    path = str(Path(tempfile.mkdtemp()) / "server")
    python_path = os.pathsep.join((str(TESTS), os.environ.get("PYTHONPATH", "")))
    process = subprocess.Popen(  # noqa: S603 - this file
        [sys.executable, str(Path(__file__).resolve()), path],
        env={**os.environ, "PYTHONPATH": python_path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # an interrupt at the terminal is for pytest
    )
    atexit.register(process.communicate)  # closes its standard input, and waits
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return path


def _exactly(connection: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        piece = connection.recv(size - len(got))
        if not piece:
            raise EOFError
        got += piece
    return got


def _serve(path: str) -> str | None:
    """Fork a process for each command. Return in that process: the script to run."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    os.write(1, b"ready\n")
    while True:
        ready, _, _ = select.select([listener, 0], [], [])
        if 0 in ready:
            os._exit(0)
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return _begin(connection)
        connection.close()


def _begin(connection: socket.socket) -> str:
    """Fork the command, and wait for it. Return in the command alone."""
    size, files, _, _ = socket.recv_fds(connection, _STATUS, 3)
    job = json.loads(_exactly(connection, int.from_bytes(size, "big")))
    if pid := os.fork():
        connection.sendall(pid.to_bytes(_STATUS, "big"))
        threading.Thread(target=_orphan, args=(connection, pid), daemon=True).start()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        connection.sendall(code.to_bytes(_STATUS, "big", signed=True))
        os._exit(0)
    connection.close()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["environment"])
    sys.argv = [job["script"] or "discreet", *job["words"]]
    return job["script"]


def _orphan(connection: socket.socket, pid: int) -> None:
    """End a command that nobody waits for any more."""
    connection.recv(1)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    import runpy
    from importlib import import_module

    from discreet.cli import main as commands

    own = {target.partition(":")[0] for target in commands._TARGETS.values()}
    for _module in (*sorted(own), *_LOADED):
        with suppress(ImportError):  # of an extra that is not installed
            import_module(_module)
    script = _serve(sys.argv[1])
    if script:
        runpy.run_path(script, run_name="__main__")
    else:
        commands.main()

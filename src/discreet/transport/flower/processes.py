"""The coordinator's SuperLink: a process of Flower, started and ended by its pid."""

from __future__ import annotations

import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from discreet.secret_files import write_secret
from discreet.transport.addresses import EVERYWHERE, LOOPBACK, TransportError
from discreet.transport.flower import link
from discreet.transport.keys import CA, CERTIFICATE, SERVER_KEY, CoordinatorKeys

OFFLINE: Final = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
"""Flower neither reports, nor asks for updates, nor installs anything."""
START_SECONDS: Final = 60.0
MOST_BYTES: Final = 2**26
"""Of one request to a SuperLink: two million counts and room to spare."""
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


class ProcessError(TransportError):
    """A process of Flower did not start, or ended before its time."""


@dataclass
class FlowerProcess:
    """A SuperLink of ours: a context that ends it on leaving.

    ``runtime`` is where it listens; ``secret`` is what an executor must know, so that
    nobody else can take a session's work away.
    """

    arguments: Sequence[str]
    runtime: str
    secret: bytes = field(repr=False)
    folder: tempfile.TemporaryDirectory[str] = field(repr=False)
    most_bytes: int = MOST_BYTES
    """Of one request."""
    process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start it; ``wait`` until it listens."""
        home = Path(self.folder.name)
        environment = {**os.environ, **OFFLINE, "FLWR_HOME": str(home)}
        known = str(os.getpid()), str(self.most_bytes)
        command = [sys.executable, "-m", link.__name__, *known]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own module
                [*command, *self.arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.stop()

    @property
    def log(self) -> Path:
        """Where it writes."""
        return Path(self.folder.name) / "superlink.log"

    @property
    def pid(self) -> int:
        """The process's number."""
        if self.process is None:
            raise ProcessError("the SuperLink is not started")
        return self.process.pid

    def check(self) -> None:
        """Raise when it has ended, with the last line that it wrote."""
        code = None if self.process is None else self.process.poll()
        if code is None:
            return
        why = f"by signal {-code}" if code < 0 else f"last words: {self._last_words()}"
        raise ProcessError(f"the SuperLink ended, {why}")

    def check_ending(self) -> None:
        """Give a process that answers no more the time to end, and then check it."""
        if self.process is not None:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(link.STOP_SECONDS)
        self.check()

    def stop(self) -> None:
        """End it at once: what it knows is in its memory, and nobody asks any more."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()

    def wait(self) -> None:
        """Wait until it listens.

        Raises:
            ProcessError: it ended, or does not listen in time.
        """
        host, port = self.runtime.rsplit(":", 1)
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            self.check()
            try:
                socket.create_connection((host, int(port)), timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise ProcessError(
            f"the SuperLink does not listen after {START_SECONDS:.0f} s: "
            f"{self._last_words()}"
        )

    def _last_words(self) -> str:
        text = _COLOURS.sub("", self.log.read_text(errors="replace"))
        spoken = [line.strip() for line in text.split("\n") if line.strip()]
        return spoken[-1] if spoken else "it wrote nothing"


def superlink(
    keys: CoordinatorKeys,
    *,
    host: str,
    port: int,
    most_bytes: int = MOST_BYTES,
    nodes: Iterable[bytes] | None = None,
) -> FlowerProcess:
    """Describe a SuperLink with TLS that only some node keys may join.

    Only whoever knows its ``secret`` may register them, or start and stop a run.
    ``nodes`` are those keys in PEM form, by default all that the coordinator has.
    """
    folder, secret = (
        tempfile.TemporaryDirectory(prefix="discreet-"),
        secrets.token_bytes(32),
    )
    secret_file = Path(folder.name) / "executor.secret"
    write_secret(secret_file, secret)
    guests = keys.nodes().values() if nodes is None else nodes
    (Path(folder.name) / link.GUESTS).write_bytes(b"".join(guests))
    arguments = [
        *("--host", host, "--port", str(port)),
        *("--ssl-ca-certfile", str(keys.folder / CA)),
        *("--ssl-certfile", str(keys.folder / CERTIFICATE)),
        *("--ssl-keyfile", str(keys.folder / SERVER_KEY)),
        *("--isolation", "process", "--enable-supernode-auth"),
        *(link.SECRET_FILE, str(secret_file)),
        "--disable-runtime-dependency-installation",
    ]
    reached = LOOPBACK if host in EVERYWHERE else host
    return FlowerProcess(arguments, f"{reached}:{port}", secret, folder, most_bytes)

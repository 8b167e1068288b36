"""Flower's own processes, started and ended by their pid.

Run as a module it becomes a SuperLink or a SuperNode that ends when the process
that started it is gone, even when that one was killed.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

from discreet.errors import DiscreetError, InputError
from discreet.runtime.flower.keys import (
    CA,
    CERTIFICATE,
    NODE_KEY,
    SERVER_KEY,
    CoordinatorKeys,
    SiteKeys,
)
from discreet.site.secret_files import read_secret, write_secret

Part: TypeAlias = Literal["superlink", "supernode"]

OFFLINE: Final = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
"""Flower neither reports, nor asks for updates, nor installs anything."""
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 5.0
FREE_SECONDS: Final = 5.0
"""How long a taken port is waited for."""
LOOPBACK: Final = "127.0.0.1"
MOST_BYTES: Final = 2**26
"""Of one request to a SuperLink: two million counts and room to spare."""
_SECRET_FILE: Final = "--superexec-auth-secret-file"  # noqa: S105 - an option's name


class ProcessError(DiscreetError):
    """A process of Flower did not start, or ended before its time."""


@dataclass
class FlowerProcess:
    """A SuperLink or SuperNode of ours: a context that ends it on leaving.

    ``runtime`` is where its apps are run from; ``secret`` is what an executor must
    know, so that nobody else on the machine can take a session's work away.
    """

    part: Part
    arguments: Sequence[str]
    runtime: str
    secret: bytes = field(repr=False)
    folder: tempfile.TemporaryDirectory[str] = field(repr=False)
    most_bytes: int = 0
    """Of one request, where this process has a door."""
    process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start it and wait until it listens."""
        home = Path(self.folder.name)
        environment = {**os.environ, **OFFLINE, "FLWR_HOME": str(home)}
        known = self.part, str(os.getpid()), str(self.most_bytes)
        command = [sys.executable, "-m", __name__, *known]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own module
                [*command, *self.arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait_until_open()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it."""
        self.stop()

    @property
    def log(self) -> Path:
        """Where it writes."""
        return Path(self.folder.name) / f"{self.part}.log"

    @property
    def pid(self) -> int:
        """The process's number."""
        if self.process is None:
            raise ProcessError(f"the {self.part} is not started")
        return self.process.pid

    def said(self, words: str) -> int:
        """Return how often it has written these words."""
        return self.log.read_text(errors="replace").count(words)

    def check(self) -> None:
        """Raise when it has ended, with the last line that it wrote."""
        if self.process is None or self.process.poll() is None:
            return
        raise ProcessError(f"the {self.part} ended: {self._last_words()}")

    def check_ending(self) -> None:
        """Give a process that answers no more the time to end, and then check it."""
        if self.process is not None:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_SECONDS)
        self.check()

    def stop(self) -> None:
        """Ask it to end, then end it; it runs nothing of its own."""
        if self.process is not None:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGINT)
                try:
                    self.process.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    self.process.kill()
            self.process.wait()
        self.folder.cleanup()

    def _wait_until_open(self) -> None:
        host, port = self.runtime.rsplit(":", 1)
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            self.check()
            try:
                socket.create_connection((host, int(port)), timeout=1).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise ProcessError(
            f"the {self.part} does not listen after {START_SECONDS:.0f} s: "
            f"{self._last_words()}"
        )

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").split("\n")
        spoken = [line.strip() for line in lines if line.strip()]
        return spoken[-1] if spoken else "it wrote nothing"


def superlink(
    keys: CoordinatorKeys, *, host: str, port: int, most_bytes: int = MOST_BYTES
) -> FlowerProcess:
    """Describe a SuperLink with TLS that only registered node keys may join.

    Only whoever knows its ``secret`` may register them, or start and stop a run.
    """
    folder, secret, secret_file = _workplace()
    arguments = [
        *("--host", host, "--port", str(port)),
        *("--ssl-ca-certfile", str(keys.folder / CA)),
        *("--ssl-certfile", str(keys.folder / CERTIFICATE)),
        *("--ssl-keyfile", str(keys.folder / SERVER_KEY)),
        *("--isolation", "process", "--enable-supernode-auth"),
        *(_SECRET_FILE, str(secret_file)),
        "--disable-runtime-dependency-installation",
    ]
    reached = LOOPBACK if host in {"0.0.0.0", "::"} else host  # noqa: S104 - compared
    return FlowerProcess(
        "superlink", arguments, f"{reached}:{port}", secret, folder, most_bytes
    )


def supernode(keys: SiteKeys, *, address: str) -> FlowerProcess:
    """Describe a SuperNode that trusts one authority and shows its node key."""
    folder, secret, secret_file = _workplace()
    runtime = f"{LOOPBACK}:{free_port()}"
    arguments = [
        *("--superlink", address),
        *("--root-certificates", str(keys.folder / CA)),
        *("--auth-supernode-private-key", str(keys.folder / NODE_KEY)),
        *("--host", LOOPBACK, "--port", runtime.rsplit(":", 1)[1]),
        *("--isolation", "process"),
        *(_SECRET_FILE, str(secret_file)),
    ]
    return FlowerProcess("supernode", arguments, runtime, secret, folder)


def wait_until_free(host: str, port: int) -> None:
    """Wait for a program that is just ending, such as our own killed SuperLink.

    Raises:
        ProcessError: somebody else keeps the port.
    """
    deadline = time.monotonic() + FREE_SECONDS
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    while True:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                return probe.bind((host, port))
            except OSError as error:
                if time.monotonic() > deadline:
                    raise ProcessError(
                        f"cannot listen at {host}:{port} ({error.strerror}): end the "
                        "program that does, or choose another --host or --port"
                    ) from error
        time.sleep(0.2)


def free_port() -> int:
    """Return a port of the loopback address that nobody uses now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def _workplace() -> tuple[tempfile.TemporaryDirectory[str], bytes, Path]:
    folder = tempfile.TemporaryDirectory(prefix="discreet-")
    secret = secrets.token_bytes(32)
    path = Path(folder.name) / "executor.secret"
    write_secret(path, secret)
    return folder, secret, path


def _become(part: str, parent: int, most_bytes: int, arguments: Sequence[str]) -> None:
    """Turn this process into a part of Flower, bound to its parent's life."""
    # A shell starts what runs beside it with this signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    # Only the process that becomes a part of Flower pays for loading it.
    from flwr.superlink.cli import flower_superlink  # noqa: PLC0415
    from flwr.supernode.cli import flower_supernode  # noqa: PLC0415

    from discreet.runtime.flower import door  # noqa: PLC0415

    parts: dict[str, Callable[[], None]] = {
        "superlink": flower_superlink,
        "supernode": flower_supernode,
    }
    if part not in parts:
        raise InputError("a part of Flower is a superlink or a supernode")
    if part == "superlink":
        secret = Path(arguments[arguments.index(_SECRET_FILE) + 1])
        door.put_up(read_secret(secret, what="the executor's secret"), most_bytes)
    sys.argv = [f"flower-{part}", *arguments]
    parts[part]()


def _end_with(parent: int) -> None:
    """End this process when its parent is gone, also one that is just starting.

    Flower's own monitor asks once, and what is not yet listening does not hear it:
    a SuperLink without a coordinator would keep the port for good.
    """
    while os.getppid() == parent:
        time.sleep(0.2)
    signal.raise_signal(signal.SIGINT)
    time.sleep(STOP_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    _become(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])

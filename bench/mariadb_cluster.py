"""A MariaDB of its own, for as long as it is needed: private, local, deleted after."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PASSWORD = "discreet"  # noqa: S105 - of a server that only this machine reaches
_PATIENCE = 60.0
"""Seconds until a server must answer."""


def programs() -> bool:
    """Say whether Debian's server is installed."""
    return bool(shutil.which("mariadbd") and shutil.which("mariadb-install-db"))


@contextlib.contextmanager
def cluster() -> Iterator[int]:
    """Start a server on a free port of this machine alone; yield the port.

    Its user and its database are called discreet.
    """
    if not programs():
        raise SystemExit("no MariaDB here: run tests/engines/install.sh")
    with tempfile.TemporaryDirectory(prefix="discreet-my-", dir="/tmp") as folder:
        data = f"{folder}/data"
        mine = ["--no-defaults", f"--datadir={data}"]
        if os.geteuid() == 0:  # it refuses to run as root unless told
            mine.append("--user=root")
        subprocess.run(  # noqa: S603 - our own words
            ["mariadb-install-db", *mine, "--skip-test-db"],  # noqa: S607
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=300,
        )
        start = Path(folder, "start.sql")
        start.write_text(
            "CREATE DATABASE discreet CHARACTER SET utf8mb4;\n"
            f"CREATE USER discreet@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
            "GRANT ALL ON discreet.* TO discreet@'127.0.0.1';\n",
            encoding="ascii",
        )
        port = _free_port()
        server = subprocess.Popen(  # noqa: S603 - our own words
            [  # noqa: S607
                "mariadbd",
                *mine,
                f"--port={port}",
                "--bind-address=127.0.0.1",
                "--skip-name-resolve",
                f"--socket={folder}/socket",
                f"--init-file={start}",
                "--innodb-flush-log-at-trx-commit=0",
                "--innodb-buffer-pool-size=1G",
                # A million groups fit in memory; by default they go to the disk.
                "--tmp-table-size=1G",
                "--max-heap-table-size=1G",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait(server, port)
            yield port
        finally:
            server.terminate()
            server.wait(timeout=_PATIENCE)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait(server: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end and server.poll() is None:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port)),
        ):
            return
        time.sleep(0.1)
    raise SystemExit("MariaDB did not start")

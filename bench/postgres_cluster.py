"""A PostgreSQL of its own, for as long as it is needed: private, local, deleted after."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path


def programs() -> Path | None:
    """Return where Debian keeps the server's programs; None when there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


@contextlib.contextmanager
def cluster(port: int = 55432) -> Iterator[str]:
    """Start a server that listens on a socket in a folder; yield its address.

    The server refuses to run as root: then it runs as the user postgres.
    """
    where = programs()
    if where is None:
        raise SystemExit("no PostgreSQL here: run tests/engines/install.sh")
    with tempfile.TemporaryDirectory(prefix="discreet-pg-", dir="/tmp") as folder:
        data = f"{folder}/data"
        other = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        if other:
            shutil.chown(folder, "postgres")

        def run(*words: str) -> None:
            subprocess.run(  # noqa: S603 - our own words
                [*other, *words],
                check=True,
                stdout=subprocess.DEVNULL,
                cwd=folder,
                timeout=300,
            )

        run(
            f"{where}/initdb", "-D", data, "-U", "discreet", "-A", "trust", "-E", "UTF8"
        )
        options = f"-k {folder} -p {port} -c listen_addresses='' -c fsync=off"
        run(
            f"{where}/pg_ctl",
            "-D",
            data,
            "-o",
            options,
            "-l",
            f"{folder}/log",
            "-w",
            "start",
        )
        try:
            yield f"host={folder} port={port} user=discreet dbname=postgres"
        finally:
            run(f"{where}/pg_ctl", "-D", data, "-m", "immediate", "stop")

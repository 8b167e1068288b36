"""Every mistake that an operator can make: what is said, the exit code, the seconds.

    python bench/mistakes.py              # the table
    python bench/mistakes.py --only port  # the rows whose names hold a word

Each row is one command line of its own process in a fresh copy of a consortium. The
driver exits with 1 when a message lacks the words that it must have, an exit code is
another one, a traceback is printed, or anything of the data is.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from discreet.data.edges import Warped
from discreet.models.distributed import DistributedDP
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.file import dumps
from discreet.plan.plan import recommend
from discreet.privacy.ledger import Ledger
from discreet.session import policy as policyfile
from discreet.transport.addresses import LOOPBACK
from discreet.transport.keys import make_consortium
from mistakes_table import MAIN, PATIENT, ROWS, SECRET, Mistake, Place
from sessions import POLICY, SITES

GIVE_UP = 180.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="a word in the names of the rows")
    chosen = parser.parse_args()
    rows = [row for row in ROWS if chosen.only in row.name]
    wrong, seconds, processor = [], [], []
    with tempfile.TemporaryDirectory(prefix="discreet-bench-") as place:
        folder = Path(place)
        _prepare(folder / "own", [LOOPBACK])
        _prepare(folder / "others", [LOOPBACK])
        print(
            "| mistake | what is said | exit | s | processor s |\n|---|---|---|---|---|"
        )
        for row in rows:
            said, code, took, worked = _try(row, folder)
            bad = _judge(row, said, code)
            wrong += [f"{row.name}: {bad}"] if bad else []
            seconds.append(took)
            processor.append(worked)
            told = " ".join(said.replace(place, "").split())[-160:].replace("|", "/")
            print(
                f"| {row.name} | {told} | {code} | {took:.1f} | {worked:.1f} |",
                flush=True,
            )
    load = os.getloadavg()[0]
    print(
        f"{len(rows)} mistakes, {len(wrong)} wrong; median {median(seconds):.1f} s "
        f"({median(processor):.1f} s of a processor), slowest {max(seconds):.1f} s, at a load of {load:.0f} on {os.cpu_count()} cores"
    )
    sys.exit("\n".join(wrong) or 0)


def _try(row: Mistake, folder: Path) -> tuple[str, int, float, float]:
    own = Path(shutil.copytree(folder / "own", folder / "row"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, own)
        at = Place(own, folder / "others", stack=stack)
        command = [sys.executable, "-c", MAIN, *row.make(at)]
        began, before = time.monotonic(), _worked()
        done = subprocess.run(  # noqa: S603 - our own command
            command,
            env={**os.environ, **at.environment, "COLUMNS": "200"},
            capture_output=True,
            timeout=GIVE_UP,
            check=False,
            cwd=own,
        )
        took, worked = time.monotonic() - began, _worked() - before
    said = (done.stdout + done.stderr).decode(errors="replace")
    return said, done.returncode, took, worked


def _worked() -> float:
    """Return the processor seconds of all commands until now."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _judge(row: Mistake, said: str, code: int) -> str:
    if "Traceback" in said:
        return "a traceback"
    if str(SECRET) in said or PATIENT in said or PATIENT.split()[1] in said:
        return "data was printed"
    if code != row.code:
        return f"exit {code}, not {row.code}: {said[-300:]}"
    return (
        "" if row.words in " ".join(said.split()) else f"it does not say: {row.words}"
    )


def _prepare(folder: Path, hosts: list[str]) -> None:
    folder.mkdir()
    roster = make_consortium(folder, SITES, hosts=hosts)
    plan = recommend(
        PublicFacts(1200, 0.3), DistributedDP("1"), edges=Warped(16), cohort=Cohort(3)
    )
    (folder / "plan.toml").write_text(dumps(replace(plan, roster=roster)))
    labels = np.arange(400) % 2
    table = pa.table({"y_true": labels, "y_score": np.full(400, SECRET)})
    pq.write_table(table, folder / "north.parquet")
    (folder / "north" / "policy.toml").write_text(policyfile.dumps(POLICY))
    Ledger.new(folder / "north" / "ledger.sqlite").close()


if __name__ == "__main__":
    main()

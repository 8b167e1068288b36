"""Where the seconds of a whole session go, from command to result.

Three sites and a coordinator as processes of this machine, started at once, TLS, one
round under distributed noise. CPU seconds are of all processes: on two cores nobody
can be done in less than half of them. A first session, which compiles Python's modules,
is not counted. With --bad-line every site is 100 ms away, on a line with stalls and resets.

    python bench/waiting.py [--sessions 5] [--bad-line] [--save]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import secrets
import statistics
import tempfile
import time
from contextlib import ExitStack
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import numpy as np

import sessions
from bad_line import bad_line
from discreet.transport.addresses import free_port
from evidence import Evidence, Figure

PHASES = (
    "loading the coordinator, and its checks",
    "opening the port, until all sites are connected",
    "messages, until the sum is revealed",
    "computing the result, printing it, leaving",
    "the whole command",
    "CPU seconds of all processes",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=5)
    parser.add_argument("--bad-line", action="store_true")
    parser.add_argument("--save", action="store_true", help="into results/")
    chosen = parser.parse_args()
    phases(chosen.bad_line)
    measured = [phases(chosen.bad_line) for _ in range(chosen.sessions)]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; best and median")
    rows: list[list[str | Figure]] = []
    for name, seconds in zip(PHASES, zip(*measured, strict=True), strict=True):
        best, median = min(seconds), statistics.median(seconds)
        rows.append([name, Figure(best), Figure(median)])
        print(f"{name:48} {best:6.2f} {median:6.2f}")
    if chosen.save:
        evidence = Evidence(
            "waiting_bad_line" if chosen.bad_line else "waiting",
            ("cli", "secagg", "session", "transport"),
            {"sessions": chosen.sessions, "load": os.getloadavg()[0]},
            whole=True,
        )
        evidence.table("phases", ("seconds", "best", "median"), rows)
        evidence.figure(
            "whole", Figure(statistics.median([m[4] for m in measured]), digits=1)
        )
        evidence.save()


def phases(bad: bool) -> list[float]:
    """Run one session; return its phases in the order of ``PHASES``."""
    with (
        tempfile.TemporaryDirectory(prefix="discreet-bench-") as place,
        ExitStack() as lines,
    ):
        folder, before, port = Path(place), _cpu_of_children(), free_port()
        reached = lines.enter_context(bad_line(port, 0)) if bad else port
        sessions.prepare(folder, np.random.default_rng(0), reached)
        began = time.time()
        commands = sessions.start(folder, secrets.token_hex(16), 120.0, port)
        codes = [command.process.wait() for command in commands]
        if any(codes):
            raise SystemExit(f"the session failed: {codes}")
        done = time.time()
        marks = [began, *_marks(folder / "coordinator.events"), done]
        spent = _cpu_of_children() - before
    steps = [late - early for early, late in pairwise(marks)]
    return [*steps, done - began, spent]


def _marks(events: Path) -> list[float]:
    """Return when the coordinator started, had its sites, and had the sum."""
    last = {}
    for line in events.read_text().splitlines():
        event = json.loads(line)
        last[event["event"]] = datetime.fromisoformat(event["time"]).timestamp()
    return [last[name] for name in ("started", "connected", "ended")]


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()

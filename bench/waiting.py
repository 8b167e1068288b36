"""Where the seconds of a whole session over Flower go, from command to result.

Three sites and a coordinator as processes of this machine, started at once, TLS, one
round under distributed noise. CPU seconds are of all processes: on two cores nobody
can be done in less than half of them. A first session, which compiles Python's modules,
is not counted.

    python bench/waiting.py [--sessions 5]
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
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import numpy as np

import sessions

PHASES = (
    "loading the coordinator, and its checks",
    "starting Flower, until all sites are connected",
    "messages, until the sum is revealed",
    "computing the result, printing it, leaving",
    "the whole command",
    "CPU seconds of all processes",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=5)
    chosen = parser.parse_args()
    phases()
    found = [phases() for _ in range(chosen.sessions)]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; best and median")
    for name, seconds in zip(PHASES, zip(*found, strict=True), strict=True):
        print(f"{name:48} {min(seconds):6.1f} {statistics.median(seconds):6.1f}")


def phases() -> list[float]:
    """Run one session; return its phases in the order of ``PHASES``."""
    with tempfile.TemporaryDirectory(prefix="discreet-bench-") as place:
        folder, before = Path(place), _cpu_of_children()
        sessions.prepare(folder, np.random.default_rng(0))
        began = time.time()
        commands = sessions.start(folder, secrets.token_hex(16), 120.0)
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

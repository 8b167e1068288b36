"""What an evaluation costs beside other work, with and without threads of its algebra.

Three sites of 100,000 rows under distributed noise, evaluated and printed, beside
scikit-learn's two areas of the same 300,000 rows, called in turn in the same process.
Each process is started with the number of threads of OpenBLAS unset, then with one; on
an idle machine, then beside busy loops. Products that are shared among threads show as
rows of ``unset`` that are slower than those of ``1``, above all beside busy loops.

    python bench/threads.py [--calls 9] [--loops 0 8] [--bins 128 1024]

Warm calls are medians. First calls load modules. Ratios are to scikit-learn's warm calls
of the same process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

SITES: Final = 3
ROWS: Final = 100_000
LONGEST: Final = 120
"""Seconds after which a busy loop ends by itself."""
BUSY: Final = (
    f"import time\nend = time.time() + {LONGEST}\nwhile time.time() < end: pass"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=9)
    parser.add_argument("--loops", type=int, nargs="+", default=[0, 8])
    parser.add_argument("--bins", type=int, nargs="+", default=[128, 1024])
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure is not None:
        print(json.dumps(_measured(chosen.measure, chosen.calls)))
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
    columns = ("first s", "warm s", "CPU s", "x wall", "x CPU", "MB more", "sklearn s")
    print(
        f"{'bins':>5}{'loops':>6}{'threads':>8}" + "".join(f"{c:>10}" for c in columns)
    )
    for loops in chosen.loops:
        for bins in chosen.bins:
            for threads in ("unset", "1"):
                with _busy(loops):
                    found = _in_a_process(bins, chosen.calls, threads)
                print(f"{bins:5}{loops:6}{threads:>8}" + _row(found), flush=True)


def _row(found: dict[str, float]) -> str:
    wall, cpu = found["sklearn wall"], found["sklearn CPU"]
    numbers = (found["first"], found["wall"], found["CPU"])
    ratios = (found["wall"] / wall, found["CPU"] / cpu)
    cells = [f"{n:10.3f}" for n in numbers] + [f"{r:10.2f}" for r in ratios]
    return "".join([*cells, f"{found['megabytes']:10.0f}", f"{wall:10.3f}"])


@contextmanager
def _busy(loops: int) -> Iterator[None]:
    """Keep the processors busy; what was started is ended, and ends by itself."""
    command = [sys.executable, "-c", BUSY]
    started = [subprocess.Popen(command) for _ in range(loops)]  # noqa: S603 - our own
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()


def _in_a_process(bins: int, calls: int, threads: str) -> dict[str, float]:
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    if threads != "unset":
        environment["OPENBLAS_NUM_THREADS"] = threads
    command = [sys.executable, __file__, "--measure", str(bins), "--calls", str(calls)]
    done = subprocess.run(  # noqa: S603 - our own command
        command, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _measured(bins: int, calls: int) -> dict[str, float]:
    """Call both in turn in this process."""
    rng = np.random.default_rng(1)
    labels = rng.random(SITES * ROWS) < 0.25
    scores = 1 / (1 + np.exp(-(rng.normal(size=labels.size) + 1.5 * labels - 1)))
    before, began = _peak(), time.perf_counter()
    ours = _evaluation(scores, labels, bins)
    ours()
    first, megabytes = time.perf_counter() - began, _peak() - before
    theirs = _areas(scores, labels)
    theirs()
    each = [(_timed(ours), _timed(theirs)) for _ in range(calls)]
    (wall, cpu), (their_wall, their_cpu) = (
        [statistics.median(column) for column in zip(*side, strict=True)]
        for side in zip(*each, strict=True)
    )
    return {
        "first": first,
        "wall": wall,
        "CPU": cpu,
        "megabytes": megabytes,
        "sklearn wall": their_wall,
        "sklearn CPU": their_cpu,
    }


def _evaluation(scores: Any, labels: Any, bins: int) -> Callable[[], str]:
    import discreet  # noqa: PLC0415 - a first call loads it

    warnings.simplefilter("ignore", discreet.DisclosureWarning)
    sites = [
        discreet.Examples(scores[i::SITES], labels[i::SITES]) for i in range(SITES)
    ]

    def evaluated() -> str:
        result = discreet.evaluate(
            sites,
            privacy=discreet.DistributedDP(epsilon=1),
            edges=discreet.Warped(bins),
            examples=SITES * ROWS,
        )
        return str(result)

    return evaluated


def _areas(scores: Any, labels: Any) -> Callable[[], float]:
    from sklearn.metrics import (  # noqa: PLC0415 - after ours was measured
        average_precision_score,
        roc_auc_score,
    )

    return lambda: float(
        roc_auc_score(labels, scores) + average_precision_score(labels, scores)
    )


def _timed(task: Callable[[], object]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    task()
    return time.perf_counter() - wall, time.process_time() - cpu


def _peak() -> float:
    """Return the most megabytes that this process held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()

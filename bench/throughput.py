"""Counting speed: ten million pairs in memory, a hundred million in a file.

Prints ratios against ``sklearn.metrics.roc_auc_score`` on the same arrays in the
same run, and against a bare sum over them; the exact equality to ``searchsorted`` is
checked before the clock starts. CPU seconds are of all threads: where they exceed the
seconds, cores worked side by side; where they fall short, other programs did. Ratios of
CPU seconds are those of one core, whatever else the machine does.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike
from rich.progress import track

import discreet
from discreet.data.edges import EdgeRule, Edges, Uniform, Warped
from discreet.statistic import ClassHistogram
from evidence import Evidence, Figure

CHUNK = 2**20


def scored(
    rng: np.random.Generator, n: int
) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], pa.Array]:
    labels = rng.random(n) < 0.3
    logit = rng.normal(size=n) + 1.5 * labels - 1.0
    return 1.0 / (1.0 + np.exp(-logit)), labels.astype(np.int64)


def best_of(repeats: int, job: Callable[[], object]) -> tuple[float, float]:
    """Return the best seconds and the best CPU seconds: others only add to them."""
    times, spent = [], []
    for _ in range(repeats):
        start, cpu = time.perf_counter(), time.process_time()
        job()
        times.append(time.perf_counter() - start)
        spent.append(time.process_time() - cpu)
    return min(times), min(spent)


def check_every_edge(edges: Edges) -> int:
    near = edges.array
    near = np.concatenate([near, np.nextafter(near, -1), np.nextafter(near, 2)])
    near = near[(near >= 0) & (near <= 1)]
    by_search = np.searchsorted(edges.array, near, side="right") - 1
    expected = np.minimum(by_search, len(edges) - 1)
    if not np.array_equal(edges.bins_of(near), expected):
        raise SystemExit("bins differ from searchsorted")
    return near.size


def in_memory(n: int, repeats: int, evidence: Evidence) -> None:
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415 - a dev dependency

    scores, labels = scored(np.random.default_rng(0), n)
    anchor, anchor_cpu = best_of(2, lambda: roc_auc_score(labels, scores))
    fit, reading_cpu = best_of(repeats, lambda: (scores.sum(), labels.sum()))
    print(f"\n{n:,} (score, label) pairs in memory; load {os.getloadavg()[0]:.1f}")
    print(
        f"{'':38} {'ms':>7} {'CPU ms':>7} {'M rows/s':>9} {'x sklearn':>10} {'in CPU':>7}"
        f" {'x fit':>10} {'in CPU':>7}"
    )

    rows: list[list[str | Figure]] = []

    def line(name: str, job: Callable[[], object], repeats: int = repeats) -> None:
        seconds, cpu = best_of(repeats, job)
        rows.append(
            [
                name.strip(),
                Figure(1e3 * seconds, digits=0),
                Figure(1e3 * cpu, digits=0),
                Figure(anchor / seconds, digits=1),
                Figure(anchor_cpu / cpu, digits=1),
            ]
        )
        print(
            f"{name:38} {seconds * 1e3:7.0f} {cpu * 1e3:7.0f} {n / seconds / 1e6:9.1f} "
            f"{anchor / seconds:10.1f} {anchor_cpu / cpu:7.1f} {seconds / fit:10.1f} "
            f"{cpu / reading_cpu:7.1f}",
            flush=True,
        )

    line("sklearn.metrics.roc_auc_score", lambda: roc_auc_score(labels, scores), 1)
    line("reading: a sum over both arrays", lambda: (scores.sum(), labels.sum()))
    rules: tuple[EdgeRule, ...] = (Warped(1024), Uniform(8192))
    for rule in rules:
        edges = Edges.realise(rule, thresholds=(0.5,))
        checked = check_every_edge(edges)
        count = ClassHistogram(edges).count
        print(f"{rule!s}: {checked:,} floats equal to searchsorted")
        rows.append([f"**{rule!s}**", "", "", "", ""])
        line("  validated, then counted", partial(_counted, count, scores, labels))
        line(
            "  counted (and validated) once",
            partial(_counted, count, scores, labels, check=False),
        )
        site = discreet.Examples(scores, labels, check=False).fitted()
        line("  as a site in a session counts", partial(count, site))
        small = scores.astype(np.float32), labels.astype(np.int8)
        line("  float32 and int8, once", partial(_counted, count, *small, check=False))
        arrow = discreet.read(pa.table({"y_score": scores, "y_true": labels}))
        line("  an Arrow table, once", partial(count, arrow))
    columns = ("10 million scores", "ms", "CPU ms", "x scikit-learn", "x its CPU")
    evidence.table("memory", columns, rows)
    evidence.figure("sklearn", Figure(anchor, digits=1, unit=" s"))
    # The sites of a session count so: it is what users wait for.
    told = next(row for row in rows if row[0] == "as a site in a session counts")
    evidence.figure(
        "site", Figure(float(str(told[1]).replace(",", "")), digits=0, unit=" ms")
    )


def _counted(
    count: Callable[[discreet.Examples], object], *arrays: ArrayLike, check: bool = True
) -> object:
    return count(discreet.Examples(*arrays, check=check))


def write_parquet(path: Path, rows: int) -> None:
    rng = np.random.default_rng(1)
    schema = pa.schema([("y_score", pa.float64()), ("y_true", pa.int64())])
    with pq.ParquetWriter(path, schema, compression="snappy") as writer:
        for start in track(range(0, rows, CHUNK), description="writing the file"):
            scores, labels = scored(rng, min(CHUNK, rows - start))
            writer.write_table(pa.table({"y_score": scores, "y_true": labels}))


def _peak_megabytes() -> float:
    """Return this program's peak memory; getrusage would count its parent's too."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = (row for row in status.splitlines() if row.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def count_file(path: Path) -> None:
    """Count one file in this process and print its peak memory."""
    histogram = ClassHistogram(Edges.realise(Warped(1024), thresholds=(0.5,)))
    start = time.perf_counter()
    total = histogram.count(discreet.read(path))
    seconds = time.perf_counter() - start
    peak = _peak_megabytes()
    rows = int(total.sum())
    print(
        f"{rows:,} rows of Parquet: {seconds:.1f} s, {rows / seconds / 1e6:.1f} M "
        f"rows/s, peak memory {peak:.0f} MB"
    )


def from_file(rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.parquet"
        write_parquet(path, rows)
        print(f"\na file of {path.stat().st_size / 2**20:,.0f} MB")
        # A process of its own, so that its peak memory is the counting's.
        subprocess.run([sys.executable, __file__, "--count", path], check=True)  # noqa: S603


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--save", action="store_true", help="into results/")
    parser.add_argument("--count", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.count is not None:
        count_file(options.count)
        return
    evidence = Evidence(
        "throughput",
        ("data", "statistic"),
        {
            "pairs": options.pairs,
            "repeats": options.repeats,
            "load": os.getloadavg()[0],
        },
    )
    in_memory(options.pairs, options.repeats, evidence)
    if options.save:
        evidence.save()
    from_file(options.rows)


if __name__ == "__main__":
    main()

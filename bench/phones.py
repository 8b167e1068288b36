"""Reports of phones: growth of the errors, counting ten million, receiving a million.

    python bench/phones.py growth [--seeds 5]
    python bench/phones.py count [--reports 10000000] [--engine duckdb spark]
    python bench/phones.py http [--single 100000] [--batched 1000000] [--kills 10]

``growth``: errors of AUC, ROC, AP and PR beside the papers' hierarchy of optimized unary
encoding (Cormode 2023, as ``bench/local.py`` has it: printed, and with Hay's consistency; its
number of buckets is the best for each metric, chosen with the truth in hand), on samples of the
same clients. ``count``: reports of the vectorised twin in Parquet files. ``http``: real processes
on loopback; the collector is ended by SIGKILL while a driver sends, and every report is sent again
until it is answered. Singles have one report and a browser's headers in each request.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import secrets
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datasets import load, needs
from discreet import LocalDP, Plan, PublicFacts, recommend
from discreet.arrays import FloatVector, IntVector
from discreet.data.client_reports import count_reports
from discreet.data.edges import Edges, Uniform, Warped
from discreet.entropy import SYSTEM
from discreet.estimate.fit import Flat
from discreet.metrics.table import METRICS
from discreet.noise.arc import CircularArc, simulate_arc_counts
from discreet.noise.arc_decoder import decode
from discreet.noise.coins import stretched
from discreet.noise.mechanism import NoNoise
from discreet.plan.file import dumps
from discreet.statistic.observed import NoisyHistogram
from discreet.transport.collecting import evaluate_reports, parameters_of
from local import (
    ARC_BINS,
    BUCKETS,
    HEIGHT,
    Truth,
    consistent_prefixes,
    equi_depth,
    errors,
    greedy_prefixes,
    simulate_tree,
)

SETS: Final = ("adult-xgb-oof", "bank-xgb-oof")
CLIENTS: Final = (10**4, 10**5, 10**6, 10**7)
HEADERS: Final = (
    "Host: collector.example\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0\r\n"
    "Accept: */*\r\nOrigin: https://app.example\r\nAccept-Encoding: gzip, deflate\r\n"
    "Accept-Language: en\r\nConnection: keep-alive\r\n"
)


# -- growth ----------------------------------------------------------------------------


def growth(seeds: int) -> None:
    needs(*SETS)
    print(f"mean absolute errors x 1e4 over {seeds} seeds; in brackets their spread")
    print(
        f"{'data':15}{'eps':>4}{'clients':>11}  {'method':14}"
        + "".join(f"{m:>16}" for m in ("AUC", "ROC", "PR", "AP"))
    )
    for name in SETS:
        data = load(name)
        truth = Truth(name, data.scores, data.labels)
        for epsilon in (1, 2, 5):
            for clients in CLIENTS:
                runs = [_run(truth, epsilon, clients, seed) for seed in range(seeds)]
                for method in runs[0]:
                    each = np.array([run[method] for run in runs])  # seed, B, metric
                    best = each.mean(axis=0).argmin(axis=0)
                    shown = each[:, best, np.arange(each.shape[2])] * 1e4
                    cells = "".join(
                        f"{m:9.1f} ({s:4.1f})"
                        for m, s in zip(
                            shown.mean(axis=0), shown.std(axis=0), strict=True
                        )
                    )
                    print(
                        f"{name:15}{epsilon:4}{clients:11,}  {method:14}{cells}",
                        flush=True,
                    )


def _run(truth: Truth, epsilon: int, clients: int, seed: int) -> dict[str, FloatVector]:
    """Return errors by method: a row for each number of buckets."""
    rng = np.random.default_rng([epsilon, clients, seed])
    size = truth.scores.size
    drawn = rng.multinomial(clients, np.full(size, 1 / size))

    def cells(edges: Edges) -> IntVector:
        place = edges.bins_of(truth.scores) + len(edges) * truth.labels
        return np.bincount(place, drawn, 2 * len(edges)).astype(np.int64)

    edges = Edges.realise(Warped(ARC_BINS))
    arc = CircularArc(Fraction(epsilon), edges)
    negatives, positives = np.split(
        decode(simulate_arc_counts(arc, cells(edges), rng), arc).counts, 2
    )
    own = NoisyHistogram(edges, negatives, positives, NoNoise())
    tree = simulate_tree(cells(Edges.realise(Uniform(2**HEIGHT))), epsilon, rng)
    found = {"arcs": np.array([_errors(truth, own, linear=False)])}
    for method, prefixes in (
        ("paper", greedy_prefixes(tree)),
        ("paper + Hay", consistent_prefixes(tree)),
    ):
        found[method] = np.array(
            [_errors(truth, equi_depth(prefixes, b), linear=True) for b in BUCKETS]
        )
    return found


def _errors(truth: Truth, counts: NoisyHistogram, *, linear: bool) -> FloatVector:
    auc, roc, pr = errors(truth, counts, "linear" if linear else "pchip")[:3]
    if counts.missing_class is not None:
        return np.array([auc, roc, pr, 0.5])
    tp, fp = truth.above
    exact = float((np.diff(tp) * tp[1:] / (tp[1:] + fp[1:])).sum() / tp[-1])
    fit = Flat("linear" if linear else "pchip").fit(counts)
    own = METRICS["average_precision"].measure.value(fit)
    return np.array([auc, roc, pr, abs(own - exact)])


# -- counting --------------------------------------------------------------------------


def _plan(epsilon: int, clients: int) -> Plan:
    facts = PublicFacts(clients, 0.25)
    return recommend(facts, LocalDP(epsilon, reports_per_person=1))


def write_reports(plan: Plan, path: Path, reports: int) -> None:
    """Write reports of the vectorised twin, a million at a time, 1% of them twice."""
    rng = np.random.default_rng(1)
    arc = plan.privacy.mechanism_for(plan.resolve(0, []), plan.cohort)
    if not isinstance(arc, CircularArc):
        raise TypeError
    writer = None
    for _ in range(0, reports, 10**6):
        size = min(10**6, reports)
        labels = (rng.random(size) < 0.25).astype(np.int64)
        scores = 1 / (1 + np.exp(-rng.normal(2.2 * labels - 1.8, 1.2)))
        cells = arc.edges.bins_of(scores) + len(arc.edges) * labels
        symbols = arc.randomise(cells, stretched(SYSTEM))
        raw = secrets.token_bytes(16 * size)
        ids = pa.Array.from_buffers(pa.binary(16), size, [None, pa.py_buffer(raw)])
        table = pa.table({"id": ids, "symbol": pa.array(symbols, pa.uint8())})
        table = pa.concat_tables([table, table.slice(0, size // 100)])
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def count(reports: int, engine: str) -> None:
    plan = _plan(1, reports)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reports.parquet"
        start = time.perf_counter()
        write_reports(plan, path, reports)
        made = time.perf_counter() - start
        source: object = path
        if engine == "spark":
            sessions: Any = import_module("pyspark.sql").SparkSession  # an extra

            warnings.simplefilter("ignore")
            session = (
                sessions.builder.master("local[2]")
                .config("spark.driver.memory", "6g")
                .config("spark.ui.enabled", "false")
                .getOrCreate()
            )
            source = session.read.parquet(str(path))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.perf_counter()
        tag = parameters_of(plan).plan[:16]
        counted = count_reports(source, symbols=parameters_of(plan).cells, plan=tag)
        spent = time.perf_counter() - start
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(
            f"{engine}: {counted}; made in {made:.0f} s, counted in {spent:.1f} s, "
            f"{counted.rows / spent:,.0f} rows a second; peak memory of this process "
            f"{most / 1024:,.0f} MB ({before / 1024:,.0f} MB before)"
        )
        if counted.reports != reports:
            raise SystemExit("WRONG: not every report was counted once")
        result = evaluate_reports(plan, counted)
        low, high = result.auc.interval()
        print(f"AUC {result.auc.value:.4f} [{low:.4f}, {high:.4f}]")


# -- receiving -------------------------------------------------------------------------


class Collector:
    """The real command, started again whenever it is killed."""

    def __init__(self, plan: Path, store: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        code = "from discreet.cli.main import main; main()"
        self._command = [
            *(sys.executable, "-c", code, "collect", "serve", str(plan), str(store)),
            *("--port", str(self.port), "--behind-proxy"),
        ]
        self.start()

    def start(self) -> None:
        """Start it."""
        self.process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)  # noqa: S603

    def kill(self) -> None:
        """End it without a word."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def memory(self) -> float:
        """Return megabytes in memory now, 0 while it starts."""
        with suppress(OSError):
            status = Path(f"/proc/{self.process.pid}/status").read_text()
            for line in status.splitlines():
                if line.startswith("VmRSS"):
                    return int(line.split()[1]) / 1024
        return 0.0


async def send(port: int, bodies: Sequence[bytes], connections: int) -> None:
    """Send every body until it is answered with 204."""
    places = iter(bodies)

    async def client() -> None:
        streams = None
        for body in places:
            head = f"POST /v1/reports HTTP/1.1\r\n{HEADERS}Content-Length: {len(body)}\r\n\r\n"
            while True:
                try:
                    if streams is None:
                        streams = await asyncio.open_connection("127.0.0.1", port)
                    reader, writer = streams
                    writer.write(head.encode() + body)
                    await writer.drain()
                    reply = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
                    if reply.startswith(b"HTTP/1.1 204"):
                        break
                    raise OSError  # noqa: TRY301 - sent again, as after a break
                except (OSError, asyncio.IncompleteReadError, TimeoutError):
                    if streams is not None:
                        streams[1].close()
                    streams = None
                    await asyncio.sleep(0.05)

    await asyncio.gather(*(client() for _ in range(connections)))


def receive(title: str, reports: int, together: int, kills: int) -> None:
    plan = _plan(1, reports)
    head = b"\1" + plan.digest()[:8]
    rng = np.random.default_rng(2)
    symbols = rng.integers(0, parameters_of(plan).cells, reports)
    raw = [head + secrets.token_bytes(16) + bytes([s]) for s in symbols.tolist()]
    bodies = [b"".join(raw[k : k + together]) for k in range(0, reports, together)]
    with tempfile.TemporaryDirectory() as folder:
        path, store = Path(folder) / "plan.toml", Path(folder) / "reports.sqlite"
        path.write_text(dumps(plan))
        collector, memory = Collector(path, store), []
        start = time.perf_counter()

        async def run() -> None:
            sending = asyncio.create_task(send(collector.port, bodies, 32))
            killed, next_kill = 0, time.perf_counter() + 4
            while not sending.done():
                await asyncio.sleep(0.2)
                memory.append(collector.memory())
                if killed < kills and time.perf_counter() > next_kill:
                    await asyncio.to_thread(collector.kill)
                    collector.start()
                    killed += 1
                    next_kill = time.perf_counter() + 4
            await sending
            print(f"killed {killed} times")

        asyncio.run(run())
        spent = time.perf_counter() - start
        collector.kill()
        size = sum(f.stat().st_size for f in Path(folder).iterdir()) / 2**20
        database = sqlite3.connect(store)
        rows = dict(database.execute("SELECT id, symbol FROM reports").fetchall())
        total = database.execute("SELECT COUNT(*) FROM reports").fetchone()[0]
        database.close()
    sent = {one[9:25].hex(): one[25] for one in raw}
    lost, doubled = sum(rows.get(k) != v for k, v in sent.items()), total - len(sent)
    third = sorted(memory[len(memory) // 3 :])
    print(
        f"{title}: {reports:,} reports, {together} a request, {spent:.0f} s, "
        f"{reports / spent:,.0f} a second; lost or changed {lost}, doubled {doubled}; "
        f"collector's memory median {third[len(third) // 2]:.0f} MB, most {max(memory):.0f} MB; "
        f"{size:.0f} MB on disk",
        flush=True,
    )
    if lost or doubled:
        raise SystemExit("WRONG: reports were lost or doubled")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["growth", "count", "http"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--reports", type=int, default=10**7)
    parser.add_argument("--engine", nargs="+", default=["duckdb"])
    parser.add_argument("--single", type=int, default=10**5)
    parser.add_argument("--batched", type=int, default=10**6)
    parser.add_argument("--kills", type=int, default=10)
    given = parser.parse_args()
    match given.part:
        case "growth":
            growth(given.seeds)
        case "count":
            for engine in given.engine:
                count(given.reports, engine)
        case _:
            if given.single:
                receive("browser-like", given.single, 1, 0)
            if given.batched:
                receive("load driver", given.batched, 100, given.kills)


if __name__ == "__main__":
    main()

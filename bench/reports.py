"""Reports of phones: counting ten million, receiving a million.

    python bench/reports.py [--engines duckdb spark] [--reports 10000000]
                            [--single 100000] [--batched 1000000] [--kills 10] [--save]

*Counting*: reports of the vectorised twin in a Parquet file, one in a hundred of them twice.
*Receiving*: real processes on loopback; the collector is ended by SIGKILL while a driver sends,
and every report is sent again until it is answered. Singles have one report and a browser's
headers in each request. Spark needs Java 17 and pyspark.
"""

from __future__ import annotations

import argparse
import asyncio
import os
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
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from discreet import LocalDP, Plan, PublicFacts, recommend
from discreet.data.client_reports import count_reports
from discreet.entropy import SYSTEM
from discreet.noise.arc import CircularArc
from discreet.noise.coins import stretched
from discreet.plan.file import dumps
from discreet.transport.collecting import evaluate_reports, parameters_of
from evidence import Cell, Evidence

APART: Final = 1.0
"""Seconds that a started collector receives before it is killed."""
HEADERS: Final = (
    "Host: collector.example\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0\r\n"
    "Accept: */*\r\nOrigin: https://app.example\r\nAccept-Encoding: gzip, deflate\r\n"
    "Accept-Language: en\r\nConnection: keep-alive\r\n"
)


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


def count(reports: int, engine: str) -> list[Cell]:
    """Count a file of so many reports, and return a row of the table."""
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
                .config("spark.driver.host", "127.0.0.1")
                .config("spark.driver.bindAddress", "127.0.0.1")
                .getOrCreate()
            )
            source = session.read.parquet(str(path))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.perf_counter()
        tag = parameters_of(plan).plan[:16]
        counted = count_reports(source, symbols=parameters_of(plan).cells, plan=tag)
        spent = time.perf_counter() - start
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"{engine}: {counted}; made in {made:.0f} s, counted in {spent:.1f} s")
        if counted.reports != reports:
            raise SystemExit("WRONG: not every report was counted once")
        result = evaluate_reports(plan, counted)
    low, high = result.auc.interval()
    memory = f"{most / 1024:,.0f} MB at the peak, {before / 1024:,.0f} MB before"
    if engine == "spark":
        memory += "; Java's heap, 6 GB allowed, beside it"
    counts = f"{counted.reports:,} of {counted.rows:,} rows"
    area = f"AUC {result.auc.value:.4f} [{low:.4f}, {high:.4f}]"
    rate = f"{counted.rows / spent:,.0f}"
    row: list[Cell] = [engine, rate, memory, f"{counts}, {area}"]
    print(row, flush=True)
    return row


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


def receive(title: str, reports: int, together: int, kills: int) -> list[Cell]:
    """Send so many reports to the real command, and return a row of the table."""
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
            killed, next_kill = 0, time.perf_counter() + APART
            while not sending.done():
                await asyncio.sleep(0.2)
                memory.append(collector.memory())
                if collector.process.poll() is not None:
                    raise SystemExit("the collector ended: run it by hand to see why")
                if killed < kills and time.perf_counter() > next_kill:
                    await asyncio.to_thread(collector.kill)
                    collector.start()
                    killed += 1
                    next_kill = time.perf_counter() + APART
            await sending
            if killed < kills:
                raise SystemExit(f"killed {killed} times: send more reports")

        try:
            asyncio.run(run())
            spent = time.perf_counter() - start
        finally:
            collector.kill()
        size = sum(f.stat().st_size for f in Path(folder).iterdir()) / 2**20
        database = sqlite3.connect(store)
        rows = dict(database.execute("SELECT id, symbol FROM reports").fetchall())
        total = database.execute("SELECT COUNT(*) FROM reports").fetchone()[0]
        database.close()
    sent = {one[9:25].hex(): one[25] for one in raw}
    lost, doubled = sum(rows.get(k) != v for k, v in sent.items()), total - len(sent)
    if lost or doubled:
        raise SystemExit(f"WRONG: {lost} lost or changed, {doubled} doubled")
    later = sorted(memory[len(memory) // 3 :])
    row: list[Cell] = [
        title,
        f"{reports:,}",
        f"{reports / spent:,.0f}",
        f"median {later[len(later) // 2]:.0f} MB, most {max(memory):.0f} MB",
        "0",
    ]
    print(row, f"{size:.0f} MB on disk", flush=True)
    return row


COUNTED: Final = ("engine", "rows a second", "memory", "result")
RECEIVED: Final = (
    *("sent by", "reports", "reports a second", "memory of the collector"),
    "lost, changed or doubled",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=int, default=10**7, help="that are counted")
    parser.add_argument("--engines", nargs="*", default=["duckdb", "spark"])
    parser.add_argument("--single", type=int, default=10**5)
    parser.add_argument("--batched", type=int, default=10**6)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--save", action="store_true", help="keep it in results/")
    given = parser.parse_args()
    evidence = Evidence(
        "reports",
        ("data/client_reports", "transport/https/collector"),
        {"load": os.getloadavg()[0], "kills": given.kills},
        whole=True,
    )
    rows = []
    for engine in given.engines:  # a process each: a peak of memory is a process's
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            rows.append(pool.submit(count, given.reports, engine).result())
    if rows:
        evidence.table("counted", COUNTED, rows)
    kills = f"load driver, 100 reports a request, collector killed {given.kills} times"
    evidence.table(
        "received",
        RECEIVED,
        [
            receive("browser-like client, one a request", given.single, 1, 0),
            receive(kills, given.batched, 100, given.kills),
        ],
    )
    if given.save:
        evidence.save()


if __name__ == "__main__":
    main()

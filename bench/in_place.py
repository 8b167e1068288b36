"""Counting where the data live: rows a second, beside what each engine asks by itself.

Prints, for every engine that is here, how long discreet's counts take, and how long
the engine's own bare GROUP BY over the same cells of 2^-20; Parquet on one core and
on two, beside what two processes that share nothing gain on this machine; and, with
--growth, time and peak memory from a million rows on. Counts are compared with NumPy's
before anything is printed. Folders are deleted after.

Beside the seconds of Parquet stand those "alone": the slowest thread's, without the time
in which it could have run and another program had the core. Waiting for a lock, for
another thread or for the disk is in them.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import discreet
import mariadb_cluster
import postgres_cluster
from discreet.data.batches import spread
from discreet.data.edges import Edges, Warped
from discreet.optional import load
from discreet.statistic import ClassHistogram

HISTOGRAM = ClassHistogram(Edges.realise(Warped(1024), thresholds=(0.5,)))
BARE = (
    "SELECT y_true, FLOOR(y_score * 1048576), COUNT(*) FROM scored "
    "GROUP BY y_true, FLOOR(y_score * 1048576)"
)
PART = 10_000_000
CHUNK = 2**20


def chunks(rows: int, seed: int) -> Iterator[pa.Table]:
    rng = np.random.default_rng(seed)
    for start in range(0, rows, CHUNK):
        n = min(CHUNK, rows - start)
        labels = (rng.random(n) < 0.3).astype(np.int8)
        scores = 1 / (1 + np.exp(1 - 1.5 * labels - rng.normal(size=n)))
        yield pa.table({"y_score": scores, "y_true": labels})


def write(folder: Path, rows: int, *, part: int = PART) -> None:
    """Write a partitioned folder; parts differ in their rows."""
    for k, start in enumerate(range(0, rows, part)):
        place = folder / f"part={k}"
        place.mkdir(parents=True)
        first = next(chunks(1, 0))
        with pq.ParquetWriter(
            place / "0.parquet", first.schema, compression="none", use_dictionary=False
        ) as writer:
            for chunk in chunks(min(part, rows - start), seed=k):
                writer.write_table(chunk)


def timed(job: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Return the best time: other programs only ever add to it."""
    best, found = float("inf"), None
    for _ in range(repeats):
        start = time.perf_counter()
        found = job()
        best = min(best, time.perf_counter() - start)
    return best, found


def peak_megabytes() -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = (row for row in status.splitlines() if row.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def ready_seconds() -> float:
    """Return for how long this thread could have run and had no core."""
    place = f"/proc/self/task/{threading.get_native_id()}/schedstat"
    return int(Path(place).read_text(encoding="ascii").split()[1]) / 1e9


def count_folder(folder: Path, cores: list[int], repeats: int) -> None:
    """Count in this process on these cores; print rows, seconds, megabytes.

    And the slowest thread's seconds but for those in which others had its core.
    """
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, [allowed[core % len(allowed)] for core in cores])
    alone: list[float] = []

    def noted(parts: Any, work: Callable[[Iterator[Any]], Any], *_: Any) -> list[Any]:
        def run(raws: Iterator[Any]) -> Any:
            start, ready = time.perf_counter(), ready_seconds()
            found = work(raws)
            threads.append(time.perf_counter() - start - (ready_seconds() - ready))
            return found

        threads: list[float] = []
        found = spread(parts, run)
        alone.append(max(threads))
        return found

    with patch("discreet.data.examples.spread", noted):
        seconds, total = timed(lambda: HISTOGRAM.count(discreet.read(folder)), repeats)
    print(int(total.sum()), seconds, peak_megabytes(), min(alone))


class Figures(NamedTuple):
    """What counting a folder took."""

    rows: int
    seconds: float
    megabytes: float
    alone: float


def folder_figures(
    folder: Path, *cores: int, repeats: int, processes: int = 1
) -> Figures:
    """Count in processes of their own, so that peak memory is the counting's.

    Several take one of the cores each, all at once; the slowest tells the seconds.
    """
    shares = [cores] if processes == 1 else [(core,) for core in cores]
    running = []
    for share in shares:
        words = ["--folder", str(folder), "--repeats", str(repeats)]
        words += [word for core in share for word in ("--core", str(core))]
        running.append(
            subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True
            )
        )
    found = [one.communicate()[0].split() for one in running]
    if any(one.returncode for one in running):
        raise SystemExit("counting the folder failed")
    each = [Figures(int(f[0]), *(float(v) for v in f[1:])) for f in found]
    return max(each, key=lambda figures: figures.seconds)


class Held(NamedTuple):
    """Rows in an engine: how discreet counts them, and the engine's own bare query."""

    site: discreet.Examples
    bare: Callable[[], object]


def duckdb(folder: Path, stack: ExitStack) -> Held:
    path = folder.parent / "scored.duckdb"
    driver = load("duckdb", "sql")
    with driver.connect(path) as made:
        made.execute(
            f"CREATE TABLE scored AS SELECT * FROM '{folder}/*/*.parquet'"  # noqa: S608 - our own folder
        )
    stack.callback(path.unlink)
    site = discreet.read(path, table="scored")
    con = stack.enter_context(driver.connect(path, read_only=True))
    # What ``arrow`` returns since 1.4 has not run yet.
    return Held(site, lambda: con.sql(BARE).to_arrow_table())


def sqlite(folder: Path, stack: ExitStack) -> Held:
    path = folder.parent / "scored.sqlite"
    con = stack.enter_context(closing(sqlite3.connect(path)))
    con.execute("CREATE TABLE scored (y_score REAL, y_true INTEGER)")
    for rows in pairs(folder):
        con.executemany("INSERT INTO scored VALUES (?, ?)", rows)
    con.commit()
    stack.callback(path.unlink)
    site = discreet.read(path, table="scored")
    return Held(site, lambda: con.execute(BARE).fetchall())


def pairs(folder: Path) -> Iterator[Iterator[tuple[float, int]]]:
    """Yield scores and labels of a few rows at a time."""
    for batch in discreet.read(folder).batches():
        yield zip(batch.scores[0].tolist(), batch.labels.tolist(), strict=True)


def postgres(folder: Path, stack: ExitStack) -> Held:
    address = stack.enter_context(postgres_cluster.cluster())
    con = stack.enter_context(load("psycopg", "sql").connect(address, autocommit=True))
    con.execute("CREATE TABLE scored (y_score double precision, y_true smallint)")
    with con.cursor() as cursor, cursor.copy("COPY scored FROM STDIN") as copy:
        for rows in pairs(folder):
            for row in rows:
                copy.write_row(row)
    con.execute("VACUUM ANALYZE scored")
    words = dict(word.split("=") for word in address.split())
    url = "postgres:///{dbname}?host={host}&port={port}&user={user}".format(**words)
    site = discreet.read(url, table="scored")
    return Held(site, lambda: con.execute(BARE).fetchall())


def mariadb(folder: Path, stack: ExitStack) -> Held:
    port = stack.enter_context(mariadb_cluster.cluster())
    con = load("pymysql", "mysql").connect(
        host="127.0.0.1",
        port=port,
        user="discreet",
        password=mariadb_cluster.PASSWORD,
        database="discreet",
        autocommit=True,
        local_infile=True,
    )
    stack.callback(con.close)
    cursor = con.cursor()
    cursor.execute("CREATE TABLE scored (y_score double, y_true smallint)")
    with tempfile.NamedTemporaryFile("w", encoding="ascii") as text:
        for rows in pairs(folder):
            text.writelines(f"{score!r}\t{label}\n" for score, label in rows)
        text.flush()
        cursor.execute(f"LOAD DATA LOCAL INFILE '{text.name}' INTO TABLE scored")
    cursor.execute("ANALYZE TABLE scored")
    cursor.fetchall()

    def bare() -> object:
        cursor.execute(BARE)
        return cursor.fetchall()

    with patch.dict(os.environ, MYSQL_PWD=mariadb_cluster.PASSWORD):
        site = discreet.read(
            f"mysql://discreet@127.0.0.1:{port}/discreet", table="scored"
        )
    return Held(site, bare)


def spark(folder: Path, stack: ExitStack) -> Held:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = load("pyspark.sql", "spark").SparkSession.builder.master("local[2]")
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    stack.callback(session.stop)
    frame = session.read.parquet(str(folder)).select("y_score", "y_true").cache()
    frame.count()
    frame.createOrReplaceTempView("scored")
    return Held(discreet.read(frame), lambda: session.sql(BARE).toArrow())


ENGINES = {
    "duckdb": duckdb,
    "sqlite": sqlite,
    "postgres": postgres,
    "mariadb": mariadb,
    "spark": spark,
}


def engines(rows: int, names: list[str], repeats: int) -> None:
    print(
        f"\n{rows:,} rows, 1,025 bins, two classes; load average {os.getloadavg()[0]:.1f}"
    )
    print(f"{'':22} {'s':>8} {'M rows/s':>9} {'bare GROUP BY, s':>17} {'ratio':>6}")

    def line(name: str, seconds: float, bare: float | None = None) -> None:
        beside = "" if bare is None else f"{bare:17.2f} {seconds / bare:6.2f}"
        print(
            f"{name:22} {seconds:8.2f} {rows / seconds / 1e6:9.1f} {beside}", flush=True
        )

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "lake"
        write(folder, rows, part=max(rows // 8, 1))
        table = pq.read_table(folder, columns=["y_score", "y_true"])
        arrays = [column.to_numpy() for column in table.columns]
        seconds, expected = timed(
            lambda: HISTOGRAM.count(discreet.Examples(*arrays, check=False)), repeats
        )
        line("NumPy, in memory", seconds)
        one = folder_figures(folder, 0, repeats=repeats)
        line("Parquet, 1 core", one.seconds)
        two = folder_figures(folder, 0, 1, repeats=repeats)
        line("Parquet, 2 cores", two.seconds)
        apart = folder_figures(folder, 0, 1, repeats=repeats, processes=2)
        print(
            f"{'':22} two cores {one.seconds / two.seconds:.2f} x one (alone "
            f"{one.alone:.2f} s and {two.alone:.2f} s, {one.alone / two.alone:.2f} x); "
            f"two processes that share nothing {2 * one.seconds / apart.seconds:.2f} x "
            f"(alone {2 * one.alone / apart.alone:.2f} x)",
            flush=True,
        )
        for name in names:
            with ExitStack() as stack:
                try:
                    held = ENGINES[name](folder, stack)
                except (SystemExit, discreet.MissingExtraError) as why:
                    print(f"{name:22} left out: {why}")
                    continue
                # In turns, so that other programs slow both down alike.
                seconds = bare = float("inf")
                for _ in range(repeats):
                    once, found = timed(partial(HISTOGRAM.count, held.site), 1)
                    seconds = min(seconds, once)
                    bare = min(bare, timed(held.bare, 1)[0])
                    if not np.array_equal(found, expected):
                        raise SystemExit(f"{name} counts other than NumPy")
                line(name, seconds, bare)


def growth(most: int, where: Path | None) -> None:
    print(
        f"\n{'rows':>15} {'writing, s':>11} {'counting, s':>12} {'alone, s':>8} {'M rows/s':>9} {'peak MB':>8}"
    )
    rows = 10**6
    while rows <= most:
        with tempfile.TemporaryDirectory(dir=where) as made:
            folder = Path(made) / "lake"
            start = time.perf_counter()
            write(folder, rows)
            writing = time.perf_counter() - start
            found = folder_figures(folder, 0, 1, repeats=1)
            if found.rows != rows:
                raise SystemExit(
                    f"{found.rows:,} rows were counted instead of {rows:,}"
                )
        print(
            f"{rows:15,} {writing:11.1f} {found.seconds:12.1f} {found.alone:8.1f} "
            f"{rows / found.seconds / 1e6:9.1f} {found.megabytes:8.0f}",
            flush=True,
        )
        rows *= 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="for the engines")
    parser.add_argument(
        "--engine", action="append", choices=ENGINES, help="all by default"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--growth", type=int, help="count 10^6 to so many rows instead")
    parser.add_argument("--where", type=Path, help="a disk with 10 bytes a row free")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--core", type=int, action="append", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder is not None:
        count_folder(options.folder, options.core, options.repeats)
    elif options.growth is not None:
        growth(options.growth, options.where)
    else:
        engines(options.rows, options.engine or list(ENGINES), options.repeats)


if __name__ == "__main__":
    main()

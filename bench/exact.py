"""What exact areas cost between real processes, beside the paper's tables.

Three parties with their engines, the owners and the analyst are separate processes
on this machine, over TLS. All three areas come out of one run; each is compared with
scikit-learn on the pooled rows. The paper's figures are those of Ünal, Pfeifer and
Akgün (2023), "ppAURORA", tables 1 and 2, delta = 1, AUROC with ties and AUPR, each a
run of its own; the network behind them is not named, and where the paper speaks of
its local network it says 12 to 14 times faster than with 10 ms.

    python bench/exact.py                the paper's settings, 10 ms, growth to 100,000
    python bench/exact.py --quick        two settings and 10,000 rows
    python bench/exact.py --million      also 1,000,000 rows (minutes, several GB)

A round trip of 10 ms is emulated by relays between the engines, which hold every
byte back for 5 ms on its way: a network that is slow, not one that is narrow.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn import metrics

from discreet.mpc.fleet import Fleet, local_session
from discreet.mpc.session import Address, MpcSession
from discreet.mpc.shares import PARTIES
from discreet.transport.addresses import free_port
from evidence import Evidence, Figure

ONE_WAY_SECONDS: Final = 0.005
PATIENCE: Final = 900.0
UNBALANCED: Final = (12, 18, 32, 58, 107, 258, 507, 1008)


@dataclass(frozen=True)
class Setting:
    """Owners' sizes, and what the paper reports: MB and seconds."""

    name: str
    sizes: tuple[int, ...]
    auroc: tuple[float, float]
    aupr: tuple[float, float]


PAPER: Final = (
    Setting("3 x 64", (64,) * 3, (3.34, 24.72), (4.39, 24.41)),
    Setting("3 x 128", (128,) * 3, (12.89, 48.96), (14.72, 48.05)),
    Setting("3 x 256", (256,) * 3, (50.7, 97.65), (54.73, 95.65)),
    Setting("3 x 512", (512,) * 3, (198.12, 193.25), (209.93, 191.55)),
    Setting("3 x 1024", (1024,) * 3, (801.04, 356.31), (812.7, 355.32)),
    Setting("2 x 1000", (1000,) * 2, (271.46, 173.79), (281.61, 174.16)),
    Setting("4 x 1000", (1000,) * 4, (1623.3, 523.06), (1643.82, 523.39)),
    Setting("8 x 1000", (1000,) * 8, (7564.75, 1404.6), (7607.16, 1404.22)),
    Setting("unbalanced", UNBALANCED, (273.48, 379.71), (293.9, 379.99)),
)


@dataclass(frozen=True)
class Measured:
    """One run between processes."""

    compute: float
    cpu: float
    startup: float
    between: float
    owners: float
    rounds: int
    memory: float
    error: float


def simulate_files(folder: Path, sizes: Sequence[int], seed: int) -> list[Path]:
    """Write scored rows with ties: scores in steps of 1/4096."""
    rng = np.random.default_rng(seed)
    files = []
    for number, size in enumerate(sizes):
        labels = (rng.random(size) < 0.25).astype(np.int64)
        labels[0] = number % 2  # both classes are there however small the sizes
        logits = 1.6 * labels - 1.2 + rng.standard_normal(size)
        scores = np.round(4096 / (1 + np.exp(-logits))) / 4096
        path = folder / f"rows-{number}.parquet"
        pq.write_table(pa.table({"y_score": scores, "y_true": labels}), path)
        files.append(path)
    return files


def largest_error(result: Mapping[str, Any], files: Sequence[Path]) -> float:
    """Compare with scikit-learn on the pooled rows."""
    table = pa.concat_tables([pq.read_table(file) for file in files])
    scores, labels = table["y_score"].to_numpy(), table["y_true"].to_numpy()
    precision, recall, _ = metrics.precision_recall_curve(labels, scores)
    expected = {
        "auc": metrics.roc_auc_score(labels, scores),
        "average_precision": metrics.average_precision_score(labels, scores),
        "aupr": metrics.auc(recall, precision),
    }
    found = result["metrics"]
    return max(
        abs(float(found[m]["value"]) - float(value)) for m, value in expected.items()
    )


def measure(sizes: Sequence[int], *, slow: bool = False, seed: int = 1) -> Measured:
    """Run one session to its end; every party compiles once, ahead of the run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = simulate_files(folder, sizes, seed)
        session = local_session(sizes)
        with Fleet(session, folder, timeout=PATIENCE) as fleet:
            with relays(session, folder) if slow else direct(folder) as views:
                executable = str(fleet.compile())
                for party, view in zip(session.parties, views, strict=True):
                    fleet.start(
                        "party", party.name, "--executable", executable, session=view
                    )
                fleet.start_owners(files)
                fleet.start_analyst()
                for member in fleet.members:
                    if member.wait(4 * PATIENCE):
                        raise SystemExit(f"{member.name}: {member.last_line()}")
            result = fleet.result()
            costs = result["costs"]
            return Measured(
                compute=costs["compute_seconds"],
                cpu=costs["cpu_seconds"],
                startup=costs["ready_seconds"] + costs["connect_seconds"],
                between=costs["bytes_between_parties"] / 1e6,
                owners=costs["bytes_from_owners"] / 1e6,
                rounds=int(result["facts"]["rounds"]),
                memory=costs["party_memory_bytes"] / 1e9,
                error=largest_error(result, files),
            )


@contextmanager
def direct(folder: Path) -> Iterator[list[Path]]:
    """Let every party use the addresses as they are."""
    yield [folder / "session.toml"] * PARTIES


@contextmanager
def relays(session: MpcSession, folder: Path) -> Iterator[list[Path]]:
    """Put a delaying relay on every way between two engines."""
    ports = iter([free_port() for _ in range(PARTIES * (PARTIES - 1))])
    ways: list[tuple[int, Address]] = []
    views = []
    for own in range(PARTIES):
        seen = []
        for number, party in enumerate(session.parties):
            if number == own:
                seen.append(party)
            else:
                port = next(ports)
                ways.append((port, party.link))
                seen.append(replace(party, link=Address("127.0.0.1", port)))
        path = folder / f"session-{own}.toml"
        path.write_text(replace(session, parties=tuple(seen)).to_toml(), "utf-8")
        views.append(path)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    for port, target in ways:
        asyncio.run_coroutine_threadsafe(serve(port, target), loop).result()
    try:
        yield views
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


async def serve(port: int, target: Address) -> None:
    """Relay every connection to the target, each direction late by 5 ms."""

    async def connected(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            far = await asyncio.open_connection(target.host, target.port)
        except OSError:
            writer.close()  # the engine is not up yet; the caller tries again
            return
        await asyncio.gather(late(reader, far[1]), late(far[0], writer))

    await asyncio.start_server(connected, "127.0.0.1", port)


async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy a stream; order is kept because every byte waits equally long."""
    loop = asyncio.get_running_loop()
    try:
        while chunk := await reader.read(2**18):
            loop.call_later(ONE_WAY_SECONDS, writer.write, chunk)
    except OSError:
        pass
    loop.call_later(ONE_WAY_SECONDS, writer.close)


def print_paper(settings: Sequence[Setting], evidence: Evidence) -> None:
    rows: list[list[str | Figure]] = []
    print("\nBetween real processes on this machine, all three areas in one run.")
    print("CPU s is the sum over the three engines, which share these processors.")
    print("The paper's seconds and MB are for AUROC with ties / AUPR, one run each.\n")
    print(
        f"{'owners x rows':14}{'compute s':>10}{'CPU s':>7}{'start s':>9}{'MB':>8}{'+owners':>9}"
        f"{'rounds':>8}{'error':>9}   {'paper MB':>19}{'paper s':>17}"
    )
    for setting in settings:
        run = measure(setting.sizes)
        mb = f"{setting.auroc[0]:,.0f} / {setting.aupr[0]:,.0f}"
        seconds = f"{setting.auroc[1]:,.0f} / {setting.aupr[1]:,.0f}"
        print(
            f"{setting.name:14}{run.compute:10.2f}{run.cpu:7.2f}{run.startup:9.1f}{run.between:8.1f}"
            f"{run.owners:9.2f}{run.rounds:8,}{run.error:9.0e}   {mb:>19}{seconds:>17}",
            flush=True,
        )
        ours = (Figure(run.compute), Figure(run.cpu), Figure(run.between, digits=1))
        rounds = Figure(run.rounds, digits=0)
        rows.append([setting.name, *ours, rounds, f"{run.error:.0e}", mb, seconds])
        if setting.name == "8 x 1000":
            evidence.figure("seconds", Figure(run.compute, unit=" s"))
    columns = (
        *("owners x rows", "seconds", "CPU seconds", "MB between parties", "rounds"),
        *("error", "paper's MB, AUROC / AUPR", "paper's seconds"),
    )
    evidence.table("paper", columns, rows)


def print_slow_network(settings: Sequence[Setting]) -> None:
    print("\nThe same with an emulated round trip of 10 ms between the engines.")
    print("Beside it rounds x 10 ms, computed, and the paper's seconds.\n")
    print(
        f"{'owners x rows':14}{'compute s':>10}{'rounds x 10':>13}{'error':>9}"
        f"{'paper s':>17}"
    )
    for setting in settings:
        run = measure(setting.sizes, slow=True)
        seconds = f"{setting.auroc[1]:,.0f} / {setting.aupr[1]:,.0f}"
        print(
            f"{setting.name:14}{run.compute:10.2f}{run.rounds * 0.01:13.1f}"
            f"{run.error:9.0e}{seconds:>17}",
            flush=True,
        )


def print_growth(totals: Sequence[int], evidence: Evidence) -> None:
    rows: list[list[str | Figure]] = []
    print("\nGrowth, four owners. The paper's costs are quadratic in the rows.\n")
    print(
        f"{'rows':>10}{'compute s':>11}{'CPU s':>8}{'us/row':>9}{'MB':>10}{'bytes/row':>11}"
        f"{'rounds':>8}{'GB/party':>10}{'error':>9}"
    )
    for total in totals:
        run = measure((total // 4,) * 4)
        print(
            f"{total:10,}{run.compute:11.2f}{run.cpu:8.1f}{1e6 * run.compute / total:9.0f}"
            f"{run.between:10,.1f}{1e6 * run.between / total:11,.0f}{run.rounds:8,}"
            f"{run.memory:10.2f}{run.error:9.0e}",
            flush=True,
        )
        spent = (Figure(run.compute), Figure(run.cpu, digits=1))
        sent = (Figure(run.between, digits=1), Figure(run.rounds, digits=0))
        rows.append([f"{total:,}", *spent, *sent, Figure(run.memory)])
    columns = ("rows", "seconds", "CPU seconds", "MB", "rounds", "GB a party")
    evidence.table("growth", columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a minute or two")
    parser.add_argument("--million", action="store_true", help="also 1,000,000 rows")
    parser.add_argument("--only", choices=["paper", "slow", "growth"])
    parser.add_argument("--save", action="store_true", help="into results/")
    arguments = parser.parse_args()
    load = " ".join(f"{x:.1f}" for x in os.getloadavg())
    evidence = Evidence("exact", ("mpc",), {"load": load}, whole=True)
    print(f"{os.cpu_count()} processors, load averages before the run: {load}")
    settings = (PAPER[0], PAPER[7]) if arguments.quick else PAPER
    if arguments.only in {None, "paper"}:
        print_paper(settings, evidence)
    if arguments.only in {None, "slow"}:
        print_slow_network((PAPER[0], PAPER[7]))
    if arguments.only in {None, "growth"}:
        totals = [1_000, 10_000] if arguments.quick else [1_000, 10_000, 100_000]
        print_growth([*totals, 1_000_000] if arguments.million else totals, evidence)
    load = " ".join(f"{x:.1f}" for x in os.getloadavg())
    print(f"\nload averages after the run: {load}")
    if arguments.save:
        evidence.save()


if __name__ == "__main__":
    main()

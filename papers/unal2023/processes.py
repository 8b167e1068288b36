"""The same areas between real processes: three parties, the owners, an analyst."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from discreet.mpc.fleet import Fleet, local_session
from discreet.mpc.model import ExactMPC
from discreet.mpc.transport import SessionFailedError
from papers.data import Data, Scored
from papers.registry import Item, Measured, Report, Runs
from papers.tables import Table, check_ours, check_that, shown
from papers.unal2023.costs import EXACT
from papers.unal2023.pooled import (
    from_shares,
    largest_error,
    pool,
    simulate_rows,
)
from papers.unal2023.printed import SETTINGS

WHOLE: Final = (SETTINGS[0].sizes, SETTINGS[7].sizes)
"""3 x 64 and 8 x 1000."""
QUICK: Final = ((16, 16, 16),)
_PATIENCE: Final = 600.0
_MEASURES: Final = ("megabytes", "rounds", "seconds", "start", "memory", "error")


def sizes_of(data: Data) -> tuple[tuple[int, ...], ...]:
    """Return the owners' sizes, tiny ones for ``--rows``."""
    return WHOLE if data.most_rows is None else QUICK


def write_files(folder: Path, owners: Sequence[Scored]) -> list[Path]:
    """Write one file an owner."""
    files = []
    for number, owner in enumerate(owners):
        path = folder / f"rows-{number}.parquet"
        pq.write_table(
            pa.table({"y_score": owner.scores, "y_true": owner.labels}), path
        )
        files.append(path)
    return files


def run_session(owners: Sequence[Scored]) -> dict[str, float]:
    """Start every member as a process of its own; return costs and the error."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = write_files(folder, owners)
        areas_alone = ExactMPC(interval=False)  # as in the paper
        sizes = [owner.labels.size for owner in owners]
        session = local_session(sizes, areas_alone)
        with Fleet(session, folder, timeout=_PATIENCE) as fleet:
            fleet.start_parties("--executable", str(fleet.compile()))
            fleet.start_owners(files)
            fleet.start_analyst()
            for member in fleet.members:
                if member.wait(2 * _PATIENCE):
                    raise SessionFailedError(f"{member.name}: {member.last_line()}")
            result = fleet.result()
    costs = result["costs"]
    areas = {m: float(found["value"]) for m, found in result["metrics"].items()}
    return {
        "megabytes": costs["bytes_between_parties"] / 1e6,
        "rounds": float(result["facts"]["rounds"]),
        "seconds": float(costs["compute_seconds"]),
        "start": float(costs["ready_seconds"] + costs["connect_seconds"]),
        "memory": costs["party_memory_bytes"] / 1e6,
        "error": largest_error(areas, pool(owners)),
    }


def measure(data: Data, rng: np.random.Generator) -> Measured:
    """Run one session a setting, and the same rows in one process beside it."""
    found: dict[str, list[float]] = {word: [] for word in (*_MEASURES, "in one")}
    for sizes in sizes_of(data):
        owners = simulate_rows(sizes, rng)
        for word, value in run_session(owners).items():
            found[word].append(value)
        found["in one"].append(from_shares(owners).cost.bytes_sent / 1e6)
    return {word: np.array(values) for word, values in found.items()}


def report(data: Data, runs: Runs) -> Report:
    """Show costs between processes."""
    chosen = sizes_of(data)
    names = [f"{len(sizes)} x {sizes[0]}" for sizes in chosen]
    found = {word: [float(v) for v in runs.mean(word)] for word in _MEASURES}
    error = float(runs.all("error").max())
    apart = np.abs(runs.all("megabytes") / runs.all("in one") - 1)
    printed = {row.name: row.aupr for row in SETTINGS}
    less = all(
        mb < printed[name][0] and seconds < printed[name][1]
        for name, mb, seconds in zip(
            names, found["megabytes"], found["seconds"], strict=True
        )
        if name in printed
    )
    said = "; ".join(
        f"{name}: {shown(printed[name][0])} MB, {shown(printed[name][1])} s"
        for name in names
        if name in printed
    )
    return Report(
        (
            Table(
                "processes",
                "Three areas in one run between separate processes, over TLS",
                ("owners x rows", "MB", "rounds", "s", "start s", "MB memory", "error"),
                tuple(
                    (name, *(found[word][k] for word in _MEASURES))
                    for k, name in enumerate(names)
                ),
            ),
        ),
        (
            check_that(
                "processes reveal the areas of the pooled rows",
                error < EXACT,
                paper="the exact same AUC",
                ours=f"largest difference {shown(error)}",
                note=f"tolerance {EXACT:g}",
            ),
            check_ours(
                "bytes between processes are those of the run in one process",
                float(apart.max()) < 0.02,
                ours=f"they differ by {float(apart.max()):.2%}",
            ),
            check_ours(
                "a session takes less than the paper's",
                less,
                ours="; ".join(
                    f"{name}: {shown(found['megabytes'][k])} MB, "
                    f"{shown(found['seconds'][k])} s"
                    for k, name in enumerate(names)
                )
                + " on this machine",
                better=f"the paper, AUPR alone: {said}" if said else "",
            ),
        ),
        (),
        ("Loopback on a machine that does other work: seconds are an upper bound.",),
    )


PROCESSES: Final = Item(
    "processes", "Tables 1 and 2 between real processes", measure, report
)

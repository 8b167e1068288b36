"""Run items: seeded run by run, stored as they finish, skipped when stored."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from discreet.errors import InputError
from papers.data import Data
from papers.figures import FORMATS, draw
from papers.registry import Item, Measured, Paper, Report, Runs
from papers.tables import Table, checks_table

_VERSION: Final = 1
"""Of the stored runs: raise it when a measurement changes its meaning."""


@dataclass(frozen=True)
class Runner:
    """Where results go and what they start from.

    ``runs`` replaces the default number of every item that is random at all.
    """

    out: Path
    data: Data
    seed: int = 0
    runs: int | None = None
    formats: tuple[str, ...] = FORMATS

    def __post_init__(self) -> None:
        if self.runs is not None and self.runs < 1:
            raise InputError("ask for at least 1 run")

    def wanted(self, item: Item) -> int:
        """Return how many runs an item gets."""
        return 1 if item.exact else (self.runs or item.runs)

    def reproduce(
        self, paper: Paper, item: Item, *, progress: Callable[[int], None]
    ) -> Report:
        """Make the runs that are not stored, and report on all of them."""
        store = self._store(paper, item)
        store.parent.mkdir(parents=True, exist_ok=True)
        wanted, header = self.wanted(item), self._header(paper, item)
        done = dict(stored_runs(store, header))
        if not done:
            store.write_text(json.dumps(header) + "\n", encoding="utf-8")
        for run in range(wanted):
            if run not in done:
                found = item.measure(self.data, self._rng(paper, item, run))
                done[run] = found
                _append(store, run, found)
            progress(run + 1)
        report = item.report(self.data, Runs([done[run] for run in range(wanted)]))
        self._write(paper, item, report)
        return report

    def _rng(self, paper: Paper, item: Item, run: int) -> np.random.Generator:
        """Return a generator that depends on the item and the run, not on the order."""
        name = zlib.crc32(f"{paper.name}/{item.name}".encode())
        return np.random.default_rng([self.seed, name, run])

    def _store(self, paper: Paper, item: Item) -> Path:
        return self.out / paper.name / f"{item.name}.runs.jsonl"

    def _header(self, paper: Paper, item: Item) -> dict[str, object]:
        return {
            "version": _VERSION,
            "item": f"{paper.name}/{item.name}",
            "seed": self.seed,
            "data": self.data.digest,
        }

    def _write(self, paper: Paper, item: Item, report: Report) -> None:
        """Write tables as CSV, figures, and everything as one page."""
        folder = self.out / paper.name
        tables = (*report.tables, checks_table(item.name, report.checks))
        for table in tables:
            (folder / f"{table.name}.csv").write_text(table.to_csv(), encoding="utf-8")
        for figure in report.figures:
            draw(figure, folder, self.formats)
        page = _page(item, report, tables)
        (folder / f"{item.name}.md").write_text(page, encoding="utf-8")


def stored_runs(
    store: Path, header: dict[str, object]
) -> Iterator[tuple[int, Measured]]:
    """Read finished runs; none when they belong to other data or another seed."""
    if not store.exists():
        return
    lines = store.read_text(encoding="utf-8").splitlines()
    if not lines or _json(lines[0]) != header:
        return
    for line in lines[1:]:
        record = _json(line)  # a line cut short by a crash is no run
        if isinstance(record, dict):
            found = {k: np.asarray(v, float) for k, v in record["found"].items()}
            yield int(record["run"]), found


def _append(store: Path, run: int, found: Measured) -> None:
    values = {name: np.asarray(vector).tolist() for name, vector in found.items()}
    with store.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps({"run": run, "found": values}) + "\n")


def _json(line: str) -> object:
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return None


def _page(item: Item, report: Report, tables: tuple[Table, ...]) -> str:
    parts = [f"### {item.title}"]
    parts += [f"{table.title}\n\n{table.to_markdown()}" for table in tables]
    parts += [f"![{f.title}]({f.name}.png)" for f in report.figures]
    parts += list(report.notes)
    return "\n\n".join(parts) + "\n"

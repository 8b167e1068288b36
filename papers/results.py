"""Save a paper's tables as ``results/papers-NAME.json``, which its page quotes.

Every table of every report is saved, and of the long ones the parts that a page shows.
The pictures of the page are drawn again beside it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from papers.figures import draw
from papers.registry import Paper, Report
from papers.tables import Cell, Table, Verdict, checks_table, shown

sys.path.append(str(Path(__file__).resolve().parents[1] / "bench"))

from evidence import FITS, RESULTS, ROOT, Evidence, Figure

PACKAGES: Final = (*FITS, "curator", "data/prior_spread", "published", "recalibrate")
"""Whose code the figures describe: of these, the modules that a paper's items load.

For unal2023 it is all of ``mpc``, which other processes load."""
_SMALL: Final = 1e-4
"""Below it a number is written as 1.2e-05."""

PARTS: Final[Mapping[str, tuple[str, Mapping[str, Cell]]]] = {
    "figure-2-small": ("figure-2", {"labels": "independent", "rows": 100}),
    "figure-2-large": ("figure-2", {"labels": "independent", "rows": 2500}),
    "figure-4-roc": ("figure-4", {"curve": "ROC"}),
    "figure-5-adult": ("figure-5", {"data": "adult-lr", "eps": 1.0}),
    "figure-6-roc": ("figure-6", {"error": "ROC"}),
    "figure-6-points": ("figure-6", {"error": "absolute"}),
    "table-2-eps-1": ("table-2", {"eps": 1}),
    "table-7-eps-1": ("table-7", {"eps": 1}),
    "table-7-ours-eps-1": ("table-7-ours", {"eps": 1}),
}
"""Name of a part, the table that it is of, and the cells of its rows."""


def save(
    asked: Paper, reports: Mapping[str, Report], settings: dict[str, object]
) -> None:
    """Write all tables of a paper, how many statements agree, and the page's pictures."""
    exact = asked.name == "unal2023"
    packages = ("mpc",) if exact else PACKAGES
    evidence = Evidence(f"papers-{asked.name}", packages, settings, whole=exact)
    for name, report in reports.items():
        for table in _with_parts((*report.tables, checks_table(name, report.checks))):
            evidence.table(
                table.name,
                table.columns,
                [[quoted(cell) for cell in row] for row in table.rows],
            )
    found = [check.verdict for report in reports.values() for check in report.checks]
    evidence.figure("statements", Figure(len(found), digits=0))
    counts = [(v.value, str(found.count(v))) for v in Verdict if v in found]
    evidence.table("verdicts", ("verdict", "statements"), counts)
    evidence.save()
    if ROOT / "results" == RESULTS:  # not a trial run's
        _draw_again(asked, reports.values())


def quoted(cell: Cell) -> str | Figure:
    """Return a cell for a page: three digits, and no bar that would end it.

    >>> [str(quoted(c)) for c in (0.12345, 1234567.0, 24.53, 3e-16, 12, "a | b")]
    ['.123', '1,234,567', '24.5', '3e-16', '12', 'a / b']
    """
    if isinstance(cell, str):
        return cell.replace("|", "/")
    if isinstance(cell, int):
        return Figure(cell, digits=0)
    if not math.isfinite(cell):
        return "" if math.isnan(cell) else "infinity"
    if cell == 0:
        return Figure(cell, digits=0)
    if abs(cell) < _SMALL:
        return shown(cell)
    return Figure(cell, digits=max(0, 2 - math.floor(math.log10(abs(cell)))))


def _with_parts(tables: Iterable[Table]) -> Iterator[Table]:
    for table in tables:
        yield table
        for name, (whole, cells) in PARTS.items():
            if whole == table.name and set(cells) <= set(table.columns):
                yield part(table, name, cells)


def part(table: Table, name: str, cells: Mapping[str, Cell]) -> Table:
    """Return the rows that have these cells, without them."""
    fixed = {table.columns.index(column): cell for column, cell in cells.items()}
    kept = [k for k in range(len(table.columns)) if k not in fixed]
    return replace(
        table,
        name=name,
        columns=tuple(table.columns[k] for k in kept),
        rows=tuple(
            tuple(row[k] for k in kept)
            for row in table.rows
            if all(row[k] == cell for k, cell in fixed.items())
        ),
    )


def _draw_again(asked: Paper, reports: Iterable[Report]) -> None:
    folder = Path(__file__).parent / "docs"
    for report in reports:
        for figure in report.figures:
            picture = replace(figure, name=f"{asked.name}-{figure.name}")
            if (folder / f"{picture.name}.png").exists():
                draw(picture, folder, ("png",))

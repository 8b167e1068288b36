"""The result as a table of plain text that can be pasted into a paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from discreet.estimate.estimate import Estimate, Normal, NotYet, ScalarDistribution
from discreet.metrics.table import METRICS

_WIDTH = 18
"""Of the names, unless one is longer."""


def metric_table(rows: Mapping[str, Estimate], title: str = "") -> str:
    """Lay out estimates: value, interval, then each source of error."""
    heading, cells_of = interval_column(rows)
    width = max(_WIDTH, *map(len, rows)) if rows else _WIDTH
    header = (
        f"{title:<{width}} {'value':>8}   {heading:<18} "
        f"{'sampling':>9} {'binning':>9} {'noise':>9}"
    )
    lines = [header]
    for name, found in rows.items():
        cells = cells_of(found)
        if math.isnan(found.value):
            lines.append(f"{name:<{width}} {cells.value:>9}")
            continue
        lines.append(
            f"{name:<{width}} {cells.value:>8}   {cells.interval:<18} "
            f"{cells.sampling:>9} {cells.binning:>9} {cells.noise:>9}"
        )
    return "\n".join(lines)


def interval_column(
    rows: Mapping[str, Estimate],
) -> tuple[str, Callable[[Estimate], EstimateCells]]:
    """Return the heading of a table's intervals, and how its rows are written.

    Where no sampling error is known there is no 95% interval: the limits of binning
    are all that can be said.
    """
    known = any(not isinstance(e.sampling, NotYet) for e in rows.values())
    heading = "95% interval" if known else "binning limits"
    return heading, partial(estimate_cells, worst_case_binning=not known)


class EstimateCells(NamedTuple):
    """One estimate as the cells of a table."""

    value: str
    interval: str = ""
    sampling: str = ""
    binning: str = ""
    noise: str = ""


def estimate_cells(
    found: Estimate, *, worst_case_binning: bool = False
) -> EstimateCells:
    """Write an estimate: its value, its interval, then each source of error."""
    if math.isnan(found.value):
        return EstimateCells("undefined")
    low, high = found.interval(worst_case_binning=worst_case_binning)
    return EstimateCells(
        f"{found.value:.4f}",
        f"[{low:.4f}, {high:.4f}]",
        _source(found.sampling),
        _size(found.binning.usual),
        _source(found.noise),
    )


def titled(metrics: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """Return estimates by their titles, in the order in which they are shown."""
    return {METRICS[name].title: metrics[name] for name in METRICS if name in metrics}


def rate_line(label: str, rates: Mapping[str, Estimate]) -> str:
    """Put the values of a few rates on one line."""
    parts = [f"{name} {number(found.value)}" for name, found in rates.items()]
    return f"{label} " + "   ".join(parts)


def number(value: float) -> str:
    """Write a rate, or that it is undefined."""
    return "undefined" if math.isnan(value) else f"{value:.4f}"


def _source(noise: ScalarDistribution | NotYet) -> str:
    if isinstance(noise, NotYet):
        return "-"
    return f"±{1.96 * noise.sd:.4f}" if isinstance(noise, Normal) else "0"


def _size(value: float) -> str:
    if value == 0:
        return "0"
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"

"""The page's tables and panels, as its template takes them: words and figures alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from discreet.estimate.estimate import Estimate
from discreet.report.explorer import COUNTS, MEASURES, Explorer
from discreet.report.text import interval_column, titled

if TYPE_CHECKING:
    from discreet.report.evaluation import Evaluation
    from discreet.report.fairness import Fairness


def explorer_panel(explorer: Explorer, models: Sequence[str]) -> dict[str, Any]:
    """Return the slider's frames, and every measure at the threshold shown first."""
    several = len(explorer.parts) > 1
    return {
        "thresholds": explorer.thresholds,
        "start": explorer.start,
        "shown": explorer.thresholds[explorer.start],
        "frames": [
            {"name": frame.name, "title": frame.title, "svg": frame.svg()}
            for frame in explorer.frames()
        ],
        "recalibrated": not several
        and explorer.first.calibratable
        and explorer.first.recalibrated is not None,
        "measures": [
            {
                "name": name,
                "title": MEASURES[name],
                "cells": [_cell(e) for e in explorer.shown(name)],
                "gap": _gap(explorer, name) if several else None,
            }
            for name in explorer.measures
        ],
        "counts": [
            {
                "name": name,
                "title": title,
                "cells": [_count(e) for e in explorer.shown(name)],
            }
            for name, title in COUNTS.items()
        ],
        "several": several,
        "gap": " less ".join(models) if models else "largest gap",
        "names": list(explorer.parts),
    }


def _cell(found: Estimate) -> tuple[str, str]:
    return _between(found.value, found.interval())


def _count(found: Estimate) -> tuple[str, str]:
    low, high = (f"{end:,.0f}" for end in found.interval())
    return f"{found.value:,.0f}", "" if low == high else f"[{low}, {high}]"


def _gap(explorer: Explorer, name: str) -> tuple[str, str]:
    value, interval = _cell(explorer.gap_at(name, explorer.start))
    return value, interval if explorer.gap is not None else ""


def gap_table(
    found: Fairness, at: float, untold: Mapping[str, str | None]
) -> dict[str, Any]:
    """Return the gaps between groups at a threshold, and which groups are unsure."""
    rows = []
    for row in found.rows():
        gaps = [g for g in row["gaps"] if g.difference == g.difference]
        widest = max(gaps, key=lambda g: abs(g.difference), default=None)
        rows.append(
            {
                "criterion": row["criterion"],
                "title": row["title"],
                "largest": _cell(row["largest"]),
                "between": f"{widest.first}, {widest.second}" if widest else "",
                "pairs": [
                    (g.first, g.second, _between(g.difference, g.interval),
                     _between(g.ratio, g.ratio_interval))
                    for g in gaps
                ],
            }
        )  # fmt: skip
    return {"threshold": at, "rows": rows, "unsure": {**found.small(), **untold}}


def _between(value: float, ends: tuple[float, float]) -> tuple[str, str]:
    if math.isnan(value):
        return "undefined", ""
    return f"{value:.3f}", f"[{ends[0]:.3f}, {ends[1]:.3f}]"


def shown_measures(part: Evaluation) -> dict[str, Estimate]:
    """Return what is in the big table: all that was asked for, one row a meaning.

    AUPR is average precision but for ties: it is shown where the two differ.
    """
    shown = dict(part.metrics)
    areas = [shown.get(name) for name in ("average_precision", "aupr")]
    if all(e is not None for e in areas):
        first, second = (f"{e.value:.4f}" for e in areas if e is not None)
        if first == second:
            del shown["aupr"]
    return titled(shown) if shown else {}


def rate_tables(part: Evaluation, name: str) -> list[dict[str, Any]]:
    """Return all thresholds of the plan as one table."""
    found = part.at_thresholds()
    if not found:
        return []
    titles = list(found[0].rates())
    rows = []
    for at in found:
        rates = at.rates()
        rows.append((f"{at.threshold:g}", [_cell(rates[title]) for title in titles]))
    return [{"name": name, "titles": titles, "rows": rows}]


def estimate_table(rows: Mapping[str, Estimate], name: str = "") -> dict[str, Any]:
    """Return estimates as the rows of a table."""
    interval, cells_of = interval_column(rows)
    written = {title: cells_of(found) for title, found in rows.items()}
    return {"name": name, "interval": interval, "rows": written}

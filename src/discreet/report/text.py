"""The result as a table of plain text that can be pasted into a paper."""

from __future__ import annotations

import math
from collections.abc import Mapping

from discreet.estimate.estimate import Estimate, Normal, NotYet, ScalarLaw

_WIDTH = 18


def metric_table(rows: Mapping[str, Estimate], title: str = "") -> str:
    """Lay out estimates: value, interval, then each source of error."""
    known = any(not isinstance(e.sampling, NotYet) for e in rows.values())
    interval = "95% interval" if known else "binning limits"
    header = (
        f"{title:<{_WIDTH}} {'value':>8}   {interval:<18} "
        f"{'sampling':>9} {'binning':>9} {'noise':>9}"
    )
    lines = [header]
    for name, found in rows.items():
        if math.isnan(found.value):
            lines.append(f"{name:<{_WIDTH}} {'undefined':>9}")
            continue
        low, high = found.interval(worst_case_binning=not known)
        span = f"[{low:.4f}, {high:.4f}]"
        lines.append(
            f"{name:<{_WIDTH}} {found.value:>8.4f}   {span:<18} "
            f"{_source(found.sampling):>9} {_size(found.binning.typical):>9} "
            f"{_source(found.noise):>9}"
        )
    return "\n".join(lines)


def rate_line(label: str, rates: Mapping[str, Estimate]) -> str:
    """Put the values of a few rates on one line."""
    parts = [f"{name} {number(found.value)}" for name, found in rates.items()]
    return f"{label} " + "   ".join(parts)


def number(value: float) -> str:
    """Write a rate, or that it is undefined."""
    return "undefined" if math.isnan(value) else f"{value:.4f}"


def _source(law: ScalarLaw | NotYet) -> str:
    if isinstance(law, NotYet):
        return "-"
    return f"±{1.96 * law.sd:.4f}" if isinstance(law, Normal) else "0"


def _size(value: float) -> str:
    if value == 0:
        return "0"
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"

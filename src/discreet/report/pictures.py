"""What is drawn of an evaluation, or of several in one picture: titles, lines, bands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from discreet.errors import NotReleasedError
from discreet.metrics.table import METRICS
from discreet.report import report
from discreet.report.plot import (
    PALETTE,
    TITLES,
    AnyPlot,
    Display,
    Line,
    PlotKind,
    draw,
    draw_reliability,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from discreet.report.evaluation import Evaluation

_PIECES: Final = 8
_AREA: Final = {"roc": "auc", "pr": "average_precision"}


def picture(
    parts: Mapping[str, Evaluation],
    kind: AnyPlot = "roc",
    *,
    ax: Axes | None = None,
    path: str | Path | None = None,
) -> Display:
    """Draw the curves of one evaluation, or of several by name in one picture."""
    for part in parts.values():
        part.curves  # noqa: B018 - refuses where there is none
        if part.refusal is not None:
            raise NotReleasedError(f"no curve to draw: {part.refusal}")
    first = next(iter(parts.values()))
    title = _title(first, kind)
    footnote = _footnote(first) if len(parts) == 1 else ""
    if kind == "calibration":
        curves = {name or "the model": part.calibration for name, part in parts.items()}
        return draw_reliability(
            curves, title=title, footnote=footnote, ax=ax, path=path
        )
    lines, bands = [], []
    for k, (name, part) in enumerate(parts.items()):
        color = PALETTE[k % len(PALETTE)]
        lines.append(curve(part, kind, _label(part, kind, name), color))
        if (band := _band(part, kind, color, named=len(parts) == 1)) is not None:
            bands.append(band)
    if kind == "pr" and len(parts) == 1:
        lines.append(_prevalence(first))
    return draw(
        kind, lines, bands=bands, title=title, footnote=footnote, ax=ax, path=path
    )


def curve(result: Evaluation, kind: PlotKind, label: str = "", color: str = "") -> Line:
    """Return the curve of one kind, as it is drawn."""
    if kind == "pr":
        drawn = result.curves.pr.polyline(_PIECES)
        return Line(drawn.x, drawn.y, label, color=color)
    drawn = result.curves.roc.polyline(_PIECES)
    y = drawn.y if kind == "roc" else 1.0 - drawn.y
    return Line(drawn.x, y, label, color=color)


def _title(result: Evaluation, kind: AnyPlot) -> str:
    plan = result.plan
    model = f" of {plan.model.name}" if plan is not None and plan.model.name else ""
    return TITLES.get(kind, str(kind)) + model


def _footnote(result: Evaluation) -> str:
    claim = result.claim
    return f"{report.count_words(result)}; {claim.loss}; {claim.setting}"


def _label(result: Evaluation, kind: PlotKind, name: str) -> str:
    area = _AREA.get(kind)
    if area is None or area not in result.metrics:
        return name or "the model"
    words = f"{METRICS[area].title} {result.metric(area)}"
    return f"{name}: {words}" if name else words


def _band(
    result: Evaluation, kind: PlotKind, color: str, *, named: bool
) -> Line | None:
    if result.way == "tree":  # a published method: it has no band
        return None
    limits = result.band("pr" if kind == "pr" else "roc")
    low, high = limits.low, limits.high
    if kind in ("det", "det-log"):
        low, high = 1.0 - high, 1.0 - low
    label = "95% at each threshold" if named else ""
    return Line(limits.x, low, label, upper=high, color=color)


def _prevalence(result: Evaluation) -> Line:
    seen = result.observed
    share = seen.total_positives / (seen.total_positives + seen.total_negatives)
    level = np.array([share, share])
    return Line(np.array([0.0, 1.0]), level, f"prevalence {share:.3f}", "quiet")

"""Figures as data, and one way to draw them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from discreet.arrays import FloatVector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Style: TypeAlias = Literal["line", "dashed", "dotted", "step", "bars"]
Scale: TypeAlias = Literal["linear", "log"]
COLOURS: Final = (
    "#1f5fa8",
    "#d1701f",
    "#2e8b57",
    "#a03060",
    "#6a51a3",
    "#8c8c8c",
    "#111111",
)
FORMATS: Final = ("png", "svg")
_WIDE, _HIGH = 3.7, 2.9
_LEFT, _RIGHT, _BOTTOM, _TOP = 0.74, 0.12, 0.5, 0.28
_TITLE: Final = 0.35
"""Inches: a panel with its margins, and the title of the figure."""
_STYLES: Final[Mapping[Style, Mapping[str, Any]]] = {
    "line": {"lw": 1.6, "marker": "o", "ms": 3},
    "dashed": {"lw": 1.3, "ls": "--", "marker": "o", "ms": 2.5},
    "dotted": {"lw": 1.2, "ls": ":"},
    "step": {"lw": 1.5},
    "bars": {},
}


@dataclass(frozen=True, eq=False)
class Series:
    """One line, or bars; ``colour`` counts through the palette."""

    x: FloatVector
    y: FloatVector
    label: str = ""
    style: Style = "line"
    colour: int = 0
    low: FloatVector | None = None
    """The lower side of a band whose upper side is ``y``."""


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes."""

    title: str
    series: tuple[Series, ...]
    x_label: str
    y_label: str
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"


@dataclass(frozen=True, eq=False)
class Figure:
    """Panels in rows of ``across``."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    across: int = 3


def draw(figure: Figure, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write a figure in every format and return the files."""
    # pyplot keeps global state and a display; a Figure of our own needs neither.
    from matplotlib import rc_context  # noqa: PLC0415 - slow to import
    from matplotlib.figure import Figure as Canvas  # noqa: PLC0415

    across = min(figure.across, len(figure.panels))
    down = -(-len(figure.panels) // across)
    # Fixed margins in inches: a layout engine takes seconds for a dozen log axes.
    wide, high = _WIDE * across, _HIGH * down + _TITLE
    canvas = Canvas(figsize=(wide, high))
    canvas.subplots_adjust(
        left=_LEFT / wide,
        right=1 - _RIGHT / wide,
        bottom=_BOTTOM / high,
        top=1 - (_TITLE + _TOP) / high,
        wspace=(_LEFT + _RIGHT) / (_WIDE - _LEFT - _RIGHT),
        hspace=(_BOTTOM + _TOP) / (_HIGH - _BOTTOM - _TOP),
    )
    grid = canvas.subplots(down, across, squeeze=False).ravel()
    for axes, panel in zip(grid, figure.panels, strict=False):
        _draw_panel(axes, panel)
    for axes in grid[len(figure.panels) :]:
        axes.set_visible(False)
    canvas.suptitle(figure.title, fontsize=10, x=0.1 / wide, ha="left")
    files = [folder / f"{figure.name}.{kind}" for kind in formats]
    # A fixed salt and no date: the same numbers give the same bytes.
    with rc_context({"svg.hashsalt": figure.name, "svg.fonttype": "none"}):
        for file in files:
            stamp = {"Date": None} if file.suffix == ".svg" else None
            canvas.savefig(file, dpi=110, metadata=stamp)
    return files


def _draw_panel(axes: Axes, panel: Panel) -> None:
    for one in panel.series:
        colour = COLOURS[one.colour % len(COLOURS)]
        label = one.label or None
        y = np.where(one.y > 0, one.y, np.nan) if panel.y_scale == "log" else one.y
        if one.low is not None:
            axes.fill_between(one.x, one.low, y, color=colour, alpha=0.18, lw=0)
        elif one.style == "bars":
            width = float(np.diff(one.x).mean()) if one.x.size > 1 else 1.0
            axes.bar(one.x, y, width=width, color=colour, alpha=0.6, label=label)
        elif one.style == "step":
            axes.step(one.x, y, where="post", color=colour, label=label, lw=1.5)
        else:
            axes.plot(one.x, y, color=colour, label=label, **_STYLES[one.style])
    axes.set_title(panel.title, fontsize=9, loc="left")
    axes.set_xlabel(panel.x_label, fontsize=8)
    axes.set_ylabel(panel.y_label, fontsize=8)
    axes.set_xscale(panel.x_scale)
    axes.set_yscale(panel.y_scale)
    axes.tick_params(which="both", labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.93", lw=0.6)
    axes.set_axisbelow(True)
    if any(one.label for one in panel.series):
        axes.legend(fontsize=6.5, framealpha=0.8, edgecolor="none")

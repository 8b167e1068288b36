"""Plots of curves. Figures hold no state: they draw the numbers they are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from discreet.arrays import FloatVector
from discreet.errors import InputError
from discreet.metrics.calibration import ReliabilityCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PlotKind: TypeAlias = Literal["roc", "pr", "det", "det-log"]


@dataclass(frozen=True, eq=False)
class Line:
    """One curve to draw."""

    x: FloatVector
    y: FloatVector
    label: str = ""
    style: Literal["main", "dotted", "dashed", "quiet"] = "main"
    """A quiet line is thin and grey, a background to the others."""
    upper: FloatVector | None = None
    """The upper side, when this is a band and ``y`` its lower side."""


_STYLES: Final[Mapping[str, Mapping[str, Any]]] = {
    "main": {"color": "#1f5fa8", "lw": 2.0, "zorder": 3},
    "dotted": {"color": "#111111", "lw": 1.4, "ls": ":", "zorder": 4},
    "dashed": {"color": "#d1701f", "lw": 1.6, "ls": "--", "zorder": 2},
    "quiet": {"color": "0.75", "lw": 0.8, "zorder": 1},
}
_AXES: Final[Mapping[PlotKind, tuple[str, str]]] = {
    "roc": ("false positive rate", "true positive rate"),
    "pr": ("recall", "precision"),
    "det": ("false positive rate", "false negative rate"),
    "det-log": ("false positive rate", "false negative rate"),
}


def draw(
    kind: PlotKind,
    lines: Sequence[Line],
    *,
    band: Line | None = None,
    title: str = "",
    footnote: str = "",
    path: str | Path | None = None,
) -> Figure:
    """Draw curves of one kind, and save the figure when a path is given."""
    # pyplot keeps global state and a display; a Figure of our own needs neither.
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import

    if kind not in _AXES:
        raise InputError(f"a plot is one of {', '.join(_AXES)}")
    figure = Figure(figsize=(5.2, 5.0), layout="constrained")
    axes = figure.add_subplot()
    if band is not None and band.upper is not None:
        axes.fill_between(
            band.x,
            band.y,
            band.upper,
            label=band.label or None,
            color="#1f5fa8",
            alpha=0.18,
            lw=0,
            zorder=2,
        )
    for line in lines:
        _draw_line(axes, kind, line)
    axes.set_xlabel(_AXES[kind][0])
    axes.set_ylabel(_AXES[kind][1])
    axes.set_title(title, fontsize=11, loc="left", parse_math=False)
    _dress(axes, kind)
    if any(line.label for line in lines):
        legend = axes.legend(frameon=False, fontsize=9, loc="best")
        for text in legend.get_texts():
            text.set_parse_math(False)  # names are no formulas
    if footnote:
        figure.supxlabel(footnote, fontsize=7.5, color="0.4", x=0.02, ha="left")
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _draw_line(axes: Axes, kind: PlotKind, line: Line) -> None:
    x, y = line.x, line.y
    if kind in ("det", "det-log"):
        inside = (x > 0) & (x < 1) & (y > 0) & (y < 1)
        x, y = x[inside], y[inside]
        if kind == "det":
            x, y = _deviate(x), _deviate(y)
    axes.plot(x, y, label=line.label or None, **_STYLES[line.style])


def _dress(axes: Axes, kind: PlotKind) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.93", lw=0.6, zorder=0)
    match kind:
        case "roc":
            axes.plot([0, 1], [0, 1], color="0.7", lw=0.8, ls=":")
            axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
        case "pr":
            axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
        case "det-log":
            axes.set(xscale="log", yscale="log")
        case "det":
            marks = np.array([0.001, 0.01, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 0.99, 0.999])
            reach = float(_deviate(np.array([0.9995]))[0])
            axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
            names = [f"{100 * m:g}%" for m in marks]
            axes.set_xticks(_deviate(marks), names, fontsize=8)
            axes.set_yticks(_deviate(marks), names, fontsize=8)


def _deviate(p: FloatVector) -> FloatVector:
    from scipy.special import ndtri  # noqa: PLC0415 - slow to import

    return np.asarray(ndtri(p), dtype=np.float64)


_BEFORE: Final[Mapping[str, Any]] = {"color": "#1f5fa8", "marker": "o", "zorder": 3}
_AFTER: Final[Mapping[str, Any]] = {"color": "#d1701f", "marker": "s", "zorder": 4}


def draw_reliability(
    curve: ReliabilityCurve,
    *,
    after: ReliabilityCurve | None = None,
    title: str = "",
    footnote: str = "",
    path: str | Path | None = None,
) -> Figure:
    """Draw a reliability curve with its 95% bands, and save it if a path is given.

    ``after`` is the curve of the same model after recalibration.
    """
    # pyplot keeps global state and a display; a Figure of our own needs neither.
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import

    if curve.rate.size == 0:
        raise InputError("no group of scores holds examples: there is no curve to draw")
    figure = Figure(figsize=(5.2, 6.0), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    top.plot([0, 1], [0, 1], color="0.7", lw=0.8, ls=":")
    _draw(top, curve, "scores" if after is not None else "", _BEFORE)
    if after is not None:
        _draw(top, after, "recalibrated", _AFTER)
        top.legend(frameon=False, fontsize=9, loc="upper left")
    top.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), ylabel="share of positives")
    top.set_title(title, fontsize=11, loc="left", parse_math=False)
    bottom.vlines(curve.predicted, 0, curve.share, color="#1f5fa8", lw=5, alpha=0.6)
    bottom.set(xlabel="predicted probability", ylabel="share", ylim=(0, None))
    for axes in (top, bottom):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="0.93", lw=0.6, zorder=0)
    if footnote:
        figure.supxlabel(footnote, fontsize=7.5, color="0.4", x=0.02, ha="left")
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _draw(
    axes: Axes, curve: ReliabilityCurve, label: str, style: Mapping[str, Any]
) -> None:
    reach = np.vstack([curve.rate - curve.low, curve.high - curve.rate])
    axes.fill_between(
        curve.predicted, curve.low, curve.high, color=style["color"], alpha=0.15, lw=0
    )
    axes.errorbar(
        curve.predicted,
        curve.rate,
        yerr=np.maximum(reach, 0.0),
        label=label or None,
        lw=1.6,
        ms=4,
        elinewidth=0.9,
        **style,
    )

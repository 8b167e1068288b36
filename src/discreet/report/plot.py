"""Plots of curves with matplotlib, in the manner of scikit-learn's displays.

A display is an ordinary figure and its axes: axes of the caller's own, or a figure that
no global state holds. It shows itself in a notebook.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from discreet.arrays import FloatVector
from discreet.errors import InputError, NotReleasedError
from discreet.metrics.calibration import ReliabilityCurve
from discreet.metrics.curves import MeasureCurve
from discreet.metrics.table import METRICS
from discreet.report.text import count_words
from discreet.report.views import counted, prevalence_of
from discreet.vocabulary import did_you_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from discreet.report.evaluation import Evaluation

PlotKind: TypeAlias = Literal["roc", "pr", "det", "det-log"]
AnyPlot: TypeAlias = PlotKind | Literal["calibration", "decision", "forest"]
KINDS: Final = ("roc", "pr", "det", "det-log", "calibration", "decision", "forest")
PALETTE: Final = (
    "#1f5fa8",
    "#c2541b",
    "#1a7f64",
    "#9b4f96",
    "#7a6a00",
    "#b3294e",
    "#4a5a6a",
)
"""Colours that stay apart for readers who see fewer; each darker than 4.5 to 1 on white."""
TITLES: Final[Mapping[AnyPlot, str]] = {
    "roc": "ROC curve",
    "pr": "Precision and recall",
    "det": "Detection error trade-off",
    "det-log": "Detection error trade-off, log scales",
    "calibration": "Calibration",
    "decision": "Decision curve",
    "forest": "Forest plot",
}
_AXES: Final[Mapping[PlotKind, tuple[str, str]]] = {
    "roc": ("false positive rate", "true positive rate"),
    "pr": ("recall", "precision"),
    "det": ("false positive rate", "false negative rate"),
    "det-log": ("false positive rate", "false negative rate"),
}


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
    color: str = ""
    """Its colour; by default the style's."""


_STYLES: Final[Mapping[str, Mapping[str, Any]]] = {
    "main": {"color": PALETTE[0], "lw": 2.0, "zorder": 3},
    "dotted": {"color": "#111111", "lw": 1.4, "ls": ":", "zorder": 4},
    "dashed": {"color": "#d1701f", "lw": 1.6, "ls": "--", "zorder": 2},
    "quiet": {"color": "0.6", "lw": 0.9, "ls": ":", "zorder": 1},
}


@dataclass(frozen=True, eq=False)
class Display:
    """A plot that was drawn: ``figure_`` and ``ax_`` are matplotlib's own."""

    figure_: Figure
    ax_: Axes

    def save(self, path: str | Path) -> None:
        """Save the picture in the form that the file's name asks for."""
        self.figure_.savefig(path, dpi=150)

    def _repr_png_(self) -> bytes:
        return png(self.figure_)


def png(figure: Figure, dpi: int = 90) -> bytes:
    """Return a figure as the bytes of a PNG file."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=dpi)
    return drawn.getvalue()


def draw(
    kind: PlotKind,
    lines: Sequence[Line],
    *,
    bands: Sequence[Line] = (),
    title: str = "",
    footnote: str = "",
    ax: Axes | None = None,
    path: str | Path | None = None,
) -> Display:
    """Draw curves of one kind, and save the figure when a path is given."""
    if kind not in _AXES:
        near = did_you_mean(kind, KINDS)
        raise InputError(f"a plot is one of {', '.join(KINDS)}{near}")
    axes = _axes() if ax is None else ax
    for line in (*bands, *lines):
        _draw_line(axes, kind, line)
    axes.set(xlabel=_AXES[kind][0], ylabel=_AXES[kind][1])
    _dress(axes, kind)
    return _finished(axes, title, footnote, own=ax is None, path=path)


def draw_reliability(
    curves: Mapping[str, ReliabilityCurve],
    *,
    title: str = "",
    footnote: str = "",
    ax: Axes | None = None,
    path: str | Path | None = None,
) -> Display:
    """Draw reliability curves by name with their 95% bands, the first one's shares below.

    Bars at the foot are the shares of all examples, the largest a tenth of the height.
    """
    if any(curve.rate.size == 0 for curve in curves.values()):
        raise InputError("no group of scores holds examples: there is no curve to draw")
    axes = _axes() if ax is None else ax
    axes.plot([0, 1], [0, 1], label="as predicted", **_STYLES["quiet"])
    for k, (name, curve) in enumerate(curves.items()):
        color, x = PALETTE[k % len(PALETTE)], curve.predicted
        axes.fill_between(x, curve.low, curve.high, color=color, alpha=0.15, lw=0)
        reach = np.vstack([curve.rate - curve.low, curve.high - curve.rate])
        axes.errorbar(
            x,
            curve.rate,
            yerr=np.maximum(reach, 0.0),
            label=_listed(name) or None,
            color=color,
            marker="osD^v"[k % 5],
            lw=1.6,
            ms=4,
            elinewidth=0.9,
            zorder=3,
        )
    first = next(iter(curves.values()))
    height = 0.1 * first.share / float(first.share.max())
    axes.vlines(first.predicted, 0, height, color="0.6", lw=4, label="share of all")
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
    axes.set(xlabel="predicted probability", ylabel="share of positives")
    _plain(axes)
    return _finished(axes, title, footnote, own=ax is None, path=path)


def display(
    draw_into: Callable[[Axes], None],
    *,
    title: str = "",
    footnote: str = "",
    size: tuple[float, float] = (5.2, 5.2),
    ax: Axes | None = None,
    path: str | Path | None = None,
) -> Display:
    """Draw into the given axes or new ones, and save the figure when a path is given."""
    axes = _axes(size) if ax is None else ax
    draw_into(axes)
    return _finished(axes, title, footnote, own=ax is None, path=path)


def draw_curves(axes: Axes, curves: Mapping[str, MeasureCurve]) -> None:
    """Draw curves over thresholds by name, with their limits and what each is beside.

    The height is that of the curves: where noise makes limits wide, they are cut off.
    """
    alone, shared = len(curves) == 1, set[str]()
    lines: list[FloatVector] = []
    for k, (name, curve) in enumerate(curves.items()):
        color = PALETTE[k % len(PALETTE)]
        if curve.low is not None and curve.high is not None:
            axes.fill_between(
                curve.x, curve.low, curve.high, color=color, alpha=0.15, lw=0
            )
        axes.plot(
            curve.x, curve.y, label=_listed(name) or "the model", color=color, lw=2.0
        )
        for title, y in curve.references.items():
            same = bool((y == y[0]).all())
            if same and title in shared:
                continue  # the same line for all
            label = "" if title in shared else title
            if not same and not alone and label:
                label = f"{title}, each in its colour"
            shared.add(title)
            axes.plot(
                curve.x,
                y,
                label=label or None,
                lw=1.0,
                color="0.4" if same else color,
                ls=":" if same else "--",
            )
        lines.append(curve.y)
    every = np.concatenate(lines)
    known = every[np.isfinite(every)]
    if known.size:
        low, high = min(float(known.min()), 0.0), max(float(known.max()), 0.0)
        reach = max(high - low, 1e-6)
        axes.set_ylim(max(low, -0.3 * high) - 0.08 * reach, high + 0.15 * reach)
    first = next(iter(curves.values()))
    axes.set(xlabel=first.x_title, ylabel=first.y_title)
    _plain(axes)


def _listed(name: str) -> str:
    """Return a name for a legend, from which matplotlib leaves out ``_names``."""
    return f" {name}" if name.startswith("_") else name


def _axes(size: tuple[float, float] = (5.2, 5.2)) -> Axes:
    # pyplot keeps global state and a display; a Figure of our own needs neither.
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import

    return Figure(figsize=size, layout="constrained").add_subplot()


def _finished(
    axes: Axes, title: str, footnote: str, *, own: bool, path: str | Path | None
) -> Display:
    axes.set_title(title, fontsize=11, loc="left", parse_math=False)
    if axes.get_legend_handles_labels()[1]:
        legend = axes.legend(frameon=False, fontsize=9, loc="best")
        for text in legend.get_texts():
            text.set_parse_math(False)  # names are no formulas
    figure = axes.get_figure(root=True)
    if figure is None:
        raise InputError("these axes belong to no figure: make them with add_subplot")
    if footnote and own:
        figure.supxlabel(footnote, fontsize=7.5, color="0.35", x=0.02, ha="left")
    shown = Display(figure, axes)
    if path is not None:
        shown.save(path)
    return shown


def _draw_line(axes: Axes, kind: PlotKind, line: Line) -> None:
    """Draw a line or a band, without what lies at infinity on the scales of DET."""
    x, sides = line.x, [line.y] if line.upper is None else [line.y, line.upper]
    if kind in ("det", "det-log"):
        inside = (x > 0) & (x < 1)
        if line.upper is None:
            inside &= (line.y > 0) & (line.y < 1)
        x, sides = x[inside], [y[inside] for y in sides]
        if line.upper is not None:
            sides = [np.clip(y, 1e-6, 1 - 1e-6) for y in sides]
        if kind == "det":
            x, *sides = (_deviate(values) for values in (x, *sides))
    style = dict(_STYLES[line.style])
    if line.color:
        style["color"] = line.color
    if line.upper is None:
        axes.plot(x, *sides, label=line.label or None, **style)
        return
    band = {"color": style["color"], "alpha": 0.18, "lw": 0, "zorder": 2}
    axes.fill_between(x, sides[0], sides[1], label=line.label or None, **band)


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.93", lw=0.6, zorder=0)


def _dress(axes: Axes, kind: PlotKind) -> None:
    _plain(axes)
    match kind:
        case "roc" | "pr":
            if kind == "roc":
                axes.plot([0, 1], [0, 1], label="chance", **_STYLES["quiet"])
            axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
        case "det-log":
            axes.set(xscale="log", yscale="log", xlim=(1e-4, 1), ylim=(1e-4, 1))
            axes.set(aspect="equal")
        case "det":
            marks = np.array([0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 0.999])
            reach = float(_deviate(np.array([0.9995]))[0])
            axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
            names = [f"{100 * m:g}%" for m in marks]
            axes.set_xticks(_deviate(marks), names, fontsize=8)
            axes.set_yticks(_deviate(marks), names, fontsize=8)


def _deviate(p: FloatVector) -> FloatVector:
    from scipy.special import ndtri  # noqa: PLC0415 - slow to import

    return np.asarray(ndtri(p), dtype=np.float64)


_PIECES: Final = 8


def picture(
    parts: Mapping[str, Evaluation],
    kind: AnyPlot = "roc",
    *,
    ax: Axes | None = None,
    path: str | Path | None = None,
) -> Display:
    """Draw the curves of one evaluation, or of several by name in one picture."""
    for part in parts.values():
        if counted(part.fit, "a curve").refusal is not None:
            raise NotReleasedError(f"no curve to draw: {part.fit.refusal}")
    first, alone = next(iter(parts.values())), len(parts) == 1
    plan, claim = first.plan, first.claim
    title = TITLES.get(kind, str(kind))
    if plan is not None and plan.model.name:
        title += f" of {plan.model.name}"
    words = f"{count_words(first)}; {claim.loss}; {claim.setting}"
    footnote = words if alone else ""
    if kind == "calibration":
        curves = {name or "the model": part.calibration for name, part in parts.items()}
        return draw_reliability(
            curves, title=title, footnote=footnote, ax=ax, path=path
        )
    if kind == "decision":
        benefits = {name: part.curves.decision() for name, part in parts.items()}
        return display(
            lambda axes: draw_curves(axes, benefits),
            title=title,
            footnote=footnote,
            size=(5.6, 4.4),
            ax=ax,
            path=path,
        )
    if kind == "forest":
        raise InputError(
            "a forest plot is of sites or groups: evaluate with site= or groups="
        )
    lines, bands = [], []
    for k, (name, part) in enumerate(parts.items()):
        color = PALETTE[k % len(PALETTE)]
        lines.append(curve_line(part, kind, _label(part, kind, name), color))
        label = "95% at each threshold" if alone else ""
        if (band := curve_band(part, kind, label, color)) is not None:
            bands.append(band)
    if kind == "pr" and alone:
        share = prevalence_of(first.observed)
        ends, level = np.array([0.0, 1.0]), np.array([share, share])
        lines.append(Line(ends, level, f"prevalence {share:.3f}", "quiet"))
    return draw(
        kind, lines, bands=bands, title=title, footnote=footnote, ax=ax, path=path
    )


def curve_line(
    result: Evaluation, kind: PlotKind, label: str = "", color: str = ""
) -> Line:
    """Return the curve of one kind, as it is drawn."""
    curve = result.curves.pr if kind == "pr" else result.curves.roc
    drawn = curve.polyline(_PIECES)
    y = drawn.y if kind in ("roc", "pr") else 1.0 - drawn.y
    return Line(drawn.x, y, label, color=color)


def _label(result: Evaluation, kind: PlotKind, name: str) -> str:
    area, name = {"roc": "auc", "pr": "average_precision"}.get(kind), _listed(name)
    if area is None or area not in result.metrics:
        return name or "the model"
    words = f"{METRICS[area].title} {result.metrics[area]}"
    return f"{name}: {words}" if name else words


def curve_band(
    result: Evaluation, kind: PlotKind, label: str = "", color: str = ""
) -> Line | None:
    """Return the pointwise 95% limits of a curve; a published method has none."""
    if counted(result.fit).way == "tree":
        return None
    limits = result.curves.band("pr" if kind == "pr" else "roc")
    low, high = limits.low, limits.high
    if kind in ("det", "det-log"):
        low, high = 1.0 - high, 1.0 - low
    return Line(limits.x, low, label, upper=high, color=color)

"""The reliability diagram: rates against predictions with bands, and where scores are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from discreet.errors import InputError
from discreet.estimate.reliability import ReliabilityCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    top.set_title(title, fontsize=11, loc="left")
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

"""Small pictures as SVG elements that a page's own style and script can reach.

A picture of the report is drawn once, by this module: it is the static picture of a
reader without scripts, and the script moves its markers. Colours are classes, so that
the page's style can turn them for a dark screen; no element has a style of its own,
which a strict content security policy forbids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

import numpy as np

from discreet.arrays import FloatVector

SIDE: Final = 300
"""Pixels of a plot's side, in the SVG's own units."""
_LEFT, _TOP, _BELOW, _RIGHT = 46, 10, 40, 12


@dataclass(frozen=True, eq=False)
class Stroke:
    """A curve, a band or points, in the colour of a number."""

    x: FloatVector
    y: FloatVector
    color: int = 0
    upper: FloatVector | None = None
    """The upper side of a band."""
    dashed: bool = False
    points: bool = False


@dataclass(frozen=True, eq=False)
class Frame:
    """A square plot: what it shows, its axes, and what is in it."""

    name: str
    """What the script calls it."""
    title: str
    description: str
    x_label: str
    y_label: str
    strokes: Sequence[Stroke]
    x_range: tuple[float, float] = (0.0, 1.0)
    y_range: tuple[float, float] = (0.0, 1.0)
    x_ticks: Sequence[tuple[float, str]] = ()
    """Marks of the x axis where these are not round numbers."""
    markers: Sequence[tuple[float, float]] = ()
    """One for each evaluation, at the threshold that is shown."""

    def svg(self) -> str:
        """Return the element."""
        ids = f"{self.name}-title {self.name}-text"
        inside = "".join(
            [*self._grid(), *(self._stroke(s) for s in self.strokes), *self._markers()]
        )
        width, height = SIDE + _LEFT + _RIGHT, SIDE + _TOP + _BELOW
        low_x, high_x = self.x_range
        low_y, high_y = self.y_range
        return (
            f'<svg viewBox="0 0 {width} {height}" role="img" aria-labelledby="{ids}" '
            f'class="plot" data-plot="{self.name}" data-x="{low_x!r} {high_x!r}" '
            f'data-y="{low_y!r} {high_y!r}">'
            f'<title id="{self.name}-title">{escape(self.title)}</title>'
            f'<desc id="{self.name}-text">{escape(self.description)}</desc>'
            f'<clipPath id="{self.name}-clip"><rect x="{_LEFT}" y="{_TOP}" '
            f'width="{SIDE}" height="{SIDE}"/></clipPath>{inside}</svg>'
        )

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point lies, in the SVG's units."""
        (low_x, high_x), (low_y, high_y) = self.x_range, self.y_range
        across = _LEFT + SIDE * (x - low_x) / (high_x - low_x)
        down = _TOP + SIDE * (1 - (y - low_y) / (high_y - low_y))
        return across, min(max(down, -SIDE), 3.0 * SIDE)

    def _grid(self) -> list[str]:
        elements = []
        marks = self.x_ticks or [(x, f"{x:g}") for x in _ticks(*self.x_range)]
        for x, mark in marks:
            across, _ = self.place(x, self.y_range[0])
            # A long number at the right end would leave the picture.
            inside = across + 3 * len(mark) < _LEFT + SIDE + _RIGHT
            elements.append(
                f'<path class="grid" d="M{across:.1f} {_TOP}v{SIDE}"/>'
                f'<text class="tick" x="{across:.1f}" y="{_TOP + SIDE + 15}" '
                f'text-anchor="{"middle" if inside else "end"}">{escape(mark)}</text>'
            )
        for y in _ticks(*self.y_range):
            _, down = self.place(self.x_range[0], y)
            elements.append(
                f'<path class="grid" d="M{_LEFT} {down:.1f}h{SIDE}"/>'
                f'<text class="tick" x="{_LEFT - 6}" y="{down + 4:.1f}" '
                f'text-anchor="end">{y:g}</text>'
            )
        middle, below = _LEFT + SIDE / 2, _TOP + SIDE + 34
        turned = f"translate(12 {_TOP + SIDE / 2:g}) rotate(-90)"
        elements.append(
            f'<text class="axis" x="{middle:g}" y="{below}" text-anchor="middle">'
            f"{escape(self.x_label)}</text>"
            f'<text class="axis" transform="{turned}" text-anchor="middle">'
            f"{escape(self.y_label)}</text>"
        )
        return elements

    def _stroke(self, stroke: Stroke) -> str:
        clip = f'clip-path="url(#{self.name}-clip)"'
        if stroke.upper is not None:
            there = self._path(stroke.x, stroke.y)
            back = self._path(stroke.x[::-1], stroke.upper[::-1]).replace("M", "L", 1)
            return f'<path class="band c{stroke.color}" {clip} d="{there}{back}z"/>'
        if stroke.points:
            return "".join(
                f'<circle class="dot c{stroke.color}" cx="{cx:.1f}" cy="{cy:.1f}" '
                'r="3"/>'
                for cx, cy in (
                    self.place(float(x), float(y))
                    for x, y in zip(stroke.x, stroke.y, strict=True)
                )
            )
        kind = "line quiet" if stroke.dashed else f"line c{stroke.color}"
        return f'<path class="{kind}" {clip} d="{self._path(stroke.x, stroke.y)}"/>'

    def _path(self, x: FloatVector, y: FloatVector) -> str:
        """Join points; those that fall on the same tenth of a pixel are one."""
        words, last = [], ""
        for one, other in zip(x, y, strict=True):
            across, down = self.place(float(one), float(other))
            word = f"{across:.1f} {down:.1f}"
            if word != last:
                words.append(word)
                last = word
        return "M" + "L".join(words)

    def _markers(self) -> list[str]:
        elements = []
        for k, (x, y) in enumerate(self.markers):
            known = np.isfinite(x) and np.isfinite(y)
            across, down = self.place(x, y) if known else (-99.0, -99.0)
            elements.append(
                f'<circle class="marker c{k}" data-part="{k}" cx="{across:.2f}" '
                f'cy="{down:.2f}" r="6"/>'
            )
        return elements


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers that cut a range into four to ten pieces.

    >>> _ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    raw = (high - low) / 5
    power = 10.0 ** np.floor(np.log10(raw))
    step = float(min(s for s in (1, 2, 5, 10) if s * power >= raw * 0.999) * power)
    first = int(np.ceil(low / step - 1e-9))
    last = int(np.floor(high / step + 1e-9))
    return [float(f"{k * step:.12g}") + 0.0 for k in range(first, last + 1)]

"""Small pictures as SVG elements that a page's own style and script can reach.

A picture of the report is drawn once, by this module: it is the static picture of a
reader without scripts, and the script moves its markers. Colours are classes, so that
the page's style can turn them for a dark screen; no element has a style of its own,
which a strict content security policy forbids.

A :class:`Frame` is a square plot with axes. :func:`interval_rows` draws the intervals of
a forest plot, one element per row of a table, in shares of the row's width: the table
holds the names and numbers as text, and fits a phone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from statistics import median
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from discreet.arrays import FloatVector
from discreet.report.forest import ForestRow

LARGE: Final = 300
"""Units of a plot's side, where it stands alone."""
SMALL: Final = 170
"""Likewise, one of several beside each other."""
_TOP, _BELOW, _RIGHT = 10, 40, 12
_FAR: Final = 4.0
"""An interval so many times wider than usual is cut off, and has an arrow."""
_THINNEST: Final = 0.03
"""Of the axis: a thinner diamond could not be seen."""


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
    quiet: bool = False
    """A grey curve behind the others, to compare them with."""


class Label(NamedTuple):
    """Words beside a line."""

    x: float
    y: float
    text: str
    anchor: str = "start"


def treated(
    x: FloatVector, everybody: FloatVector, low: float, last: float
) -> list[Label]:
    """Name the dashed lines of a decision curve whose axes end at ``low`` and ``last``.

    "treat all" stands right of its line, low in the picture, or left where there is
    more room; nowhere if the line does not reach so low.
    """
    labels = [Label(0.99 * last, 0.35 * low, "treat none", "end")]
    if everybody.size and everybody.min() < 0.8 * low:
        at = float(np.interp(-0.8 * low, -everybody, x))
        fits = at < 0.45 * last
        room, side = (0.02, "start") if fits else (-0.03, "end")
        labels.insert(0, Label(at + room * last, 0.8 * low, "treat all", side))
    return labels


@dataclass(frozen=True, eq=False)
class Frame:
    """A square plot: what it shows, its axes, and what is in it."""

    name: str
    """Its own among all pictures of a page."""
    title: str
    description: str
    x_label: str
    y_label: str
    strokes: Sequence[Stroke]
    x_range: tuple[float, float] = (0.0, 1.0)
    y_range: tuple[float, float] = (0.0, 1.0)
    x_ticks: Sequence[tuple[float, str]] = ()
    """Marks of the x axis where these are not round numbers."""
    markers: Sequence[tuple[int, float, float]] = ()
    """The point of each evaluation, by its number, at the threshold that is shown."""
    labels: Sequence[Label] = ()
    kind: str = ""
    """What the script moves the markers by; by default the name."""
    side: int = LARGE

    @property
    def _left(self) -> int:
        """Return the room for the numbers of the y axis, and its name beside them."""
        longest = max((len(f"{y:g}") for y in self._heights), default=0)
        return max(46 if self.side == LARGE else 44, 20 + round(6.6 * longest))

    @property
    def _heights(self) -> Sequence[float]:
        return _ticks(*self.y_range, 5 if self.side == LARGE else 4)

    def svg(self) -> str:
        """Return the element."""
        ids = f"{self.name}-title {self.name}-text"
        inside = "".join(
            [
                *self._grid(),
                *(self._stroke(s) for s in self.strokes),
                *map(self._label, self.labels),
                *map(self._marker, self.markers),
            ]
        )
        width, height = self.side + self._left + _RIGHT, self.side + _TOP + _BELOW
        low_x, high_x = self.x_range
        low_y, high_y = self.y_range
        return (
            f'<svg viewBox="0 0 {width} {height}" role="img" aria-labelledby="{ids}" '
            f'class="plot" data-plot="{self.kind or self.name}" '
            f'data-box="{self._left} {_TOP} {self.side}" '
            f'data-x="{low_x!r} {high_x!r}" data-y="{low_y!r} {high_y!r}">'
            f'<title id="{self.name}-title">{escape(self.title)}</title>'
            f'<desc id="{self.name}-text">{escape(self.description)}</desc>'
            f'<clipPath id="{self.name}-clip"><rect x="{self._left}" y="{_TOP}" '
            f'width="{self.side}" height="{self.side}"/></clipPath>{inside}</svg>'
        )

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point lies, in the SVG's units."""
        (low_x, high_x), (low_y, high_y) = self.x_range, self.y_range
        across = self._left + self.side * (x - low_x) / (high_x - low_x)
        down = _TOP + self.side * (1 - (y - low_y) / (high_y - low_y))
        return across, min(max(down, -self.side), 3.0 * self.side)

    def _grid(self) -> list[str]:
        elements = []
        many = 5 if self.side == LARGE else 4
        marks = self.x_ticks or [(x, f"{x:g}") for x in _ticks(*self.x_range, many)]
        for x, mark in marks:
            across, _ = self.place(x, self.y_range[0])
            # A long number at the right end would leave the picture.
            inside = across + 3 * len(mark) < self._left + self.side + _RIGHT
            elements.append(
                f'<path class="grid" d="M{across:.1f} {_TOP}v{self.side}"/>'
                f'<text class="tick" x="{across:.1f}" y="{_TOP + self.side + 15}" '
                f'text-anchor="{"middle" if inside else "end"}">{escape(mark)}</text>'
            )
        for y in self._heights:
            _, down = self.place(self.x_range[0], y)
            elements.append(
                f'<path class="grid" d="M{self._left} {down:.1f}h{self.side}"/>'
                f'<text class="tick" x="{self._left - 6}" y="{down + 4:.1f}" '
                f'text-anchor="end">{y:g}</text>'
            )
        middle, below = self._left + self.side / 2, _TOP + self.side + 34
        turned = f"translate(12 {_TOP + self.side / 2:g}) rotate(-90)"
        elements.append(
            f'<text class="axis" x="{middle:g}" y="{below}" text-anchor="middle">'
            f"{escape(self.x_label)}</text>"
            f'<text class="axis" transform="{turned}" text-anchor="middle">'
            f"{escape(self.y_label)}</text>"
        )
        return elements

    def _stroke(self, stroke: Stroke) -> str:
        if not len(stroke.x):  # nothing of it is known
            return ""
        clip = f'clip-path="url(#{self.name}-clip)"'
        if stroke.upper is not None:
            there = self._path(stroke.x, stroke.y)
            back = self._path(stroke.x[::-1], stroke.upper[::-1]).replace("M", "L", 1)
            return f'<path class="band c{stroke.color}" {clip} d="{there}{back}z"/>'
        if stroke.points:
            return "".join(
                f'<circle class="dot c{stroke.color}" {clip} cx="{cx:.1f}" '
                f'cy="{cy:.1f}" r="3"/>'
                for cx, cy in (
                    self.place(float(x), float(y))
                    for x, y in zip(stroke.x, stroke.y, strict=True)
                )
            )
        kind = f"c{stroke.color}"
        if stroke.dashed or stroke.quiet:
            kind = "dashed" if stroke.dashed else "quiet"
        return (
            f'<path class="line {kind}" {clip} d="{self._path(stroke.x, stroke.y)}"/>'
        )

    def _path(self, x: FloatVector, y: FloatVector) -> str:
        """Join points; those that fall on the same tenth of a unit are one."""
        words, last = [], ""
        for one, other in zip(x, y, strict=True):
            across, down = self.place(float(one), float(other))
            word = f"{across:.1f} {down:.1f}"
            if word != last:
                words.append(word)
                last = word
        return "M" + "L".join(words)

    def _label(self, label: Label) -> str:
        across, down = self.place(label.x, label.y)
        return (
            f'<text class="label" x="{across:.1f}" y="{down:.1f}" '
            f'text-anchor="{label.anchor}">{escape(label.text)}</text>'
        )

    def _marker(self, marker: tuple[int, float, float]) -> str:
        part, x, y = marker
        inside = all(
            low <= at <= high  # not of NaN
            for at, (low, high) in ((x, self.x_range), (y, self.y_range))
        )
        across, down = self.place(x, y) if inside else (-99.0, -99.0)
        return (
            f'<circle class="marker c{part if len(self.markers) > 1 else 0}" '
            f'data-part="{part}" cx="{across:.2f}" cy="{down:.2f}" '
            f'r="{6 if self.side == LARGE else 5}"/>'
        )


def _ticks(low: float, high: float, pieces: int = 5) -> list[float]:
    """Return round numbers that cut a range into about so many pieces.

    >>> _ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    raw = (high - low) / pieces
    power = 10.0 ** np.floor(np.log10(raw))
    step = float(min(s for s in (1, 2, 5, 10) if s * power >= raw * 0.999) * power)
    first = int(np.ceil(low / step - 1e-9))
    last = int(np.floor(high / step + 1e-9))
    return [float(f"{k * step:.12g}") + 0.0 for k in range(first, last + 1)]


def round_up(value: float) -> float:
    """Return a round number of at least a value between 0 and 1, where an axis may end.

    >>> round_up(0.13), round_up(0.61), round_up(0.0042)
    (0.15, 0.8, 0.005)
    """
    power = 10.0 ** math.floor(math.log10(value))
    steps = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)
    return float(f"{min(s * power for s in steps if s * power >= value * 0.999):.12g}")


# -- forest plots -------------------------------------------------------------------


_Place: TypeAlias = Callable[[float], str]
"""From a value to its place, in percent of the width."""


class IntervalRows(NamedTuple):
    """The drawn intervals of a forest plot, and the axis below them."""

    rows: list[str]
    axis: str


def interval_rows(
    rows: Sequence[ForestRow],
    *,
    reference: float | None,
    whole: Sequence[int] = (),
    pieces: int = 4,
) -> IntervalRows:
    """Draw the intervals of a forest plot's rows over one axis.

    Args:
        rows: one of them per row of the table; NaN is left empty.
        reference: where the dashed line stands; the axis holds it.
        whole: the places of rows about all examples, drawn as diamonds.
        pieces: into about how many the axis is cut.
    """
    if reference is not None and math.isnan(reference):
        reference = None
    low, high = _span(rows, reference)
    marks = _ticks(low, high, pieces)

    def at(value: float) -> str:
        return f"{100 * min(max((value - low) / (high - low), 0.0), 1.0):.2f}%"

    behind = "".join(
        f'<line class="grid" x1="{at(v)}" x2="{at(v)}" y1="0" y2="100%"/>'
        for v in marks
    )
    if reference is not None:
        behind += (
            f'<line class="line dashed" x1="{at(reference)}" x2="{at(reference)}" '
            'y1="0" y2="100%"/>'
        )
    drawn = [
        f'<svg class="interval" aria-hidden="true">{behind}'
        f"{_interval(row, at, (low, high), diamond=place in whole)}</svg>"
        for place, row in enumerate(rows)
    ]
    axis = "".join(
        f'<text class="tick" x="{at(v)}" y="14" text-anchor="middle">{v:g}</text>'
        for v in marks
    )
    return IntervalRows(drawn, f'<svg class="scale" aria-hidden="true">{axis}</svg>')


def _span(rows: Sequence[ForestRow], reference: float | None) -> tuple[float, float]:
    """Return the ends of the axis; what is far wider than usual does not decide them."""
    known = [row for row in rows if not math.isnan(row.low + row.high)]
    most = _FAR * median(r.high - r.low for r in known) if known else math.inf
    middle = [
        row.low / 2 + row.high / 2 if math.isnan(row.estimate) else row.estimate
        for row in known
    ]
    ends = [
        end
        for row, at in zip(known, middle, strict=True)
        for end in (max(row.low, at - most), min(row.high, at + most))
    ]
    if reference is not None:
        ends.append(reference)
    if not ends:
        return 0.0, 1.0
    low, high = min(ends), max(ends)
    room = 0.04 * (high - low) or 0.01
    return low - room, high + room


def _interval(
    row: ForestRow, at: _Place, span: tuple[float, float], *, diamond: bool
) -> str:
    if math.isnan(row.low + row.high):
        return ""
    if diamond:
        least = _THINNEST * (span[1] - span[0])
        short = max(least - (row.high - row.low), 0.0) / 2
        start, length = row.low - short, row.high - row.low + 2 * short
        width = 100 * length / (span[1] - span[0])
        across = 100 * (row.estimate - start) / length
        return (
            f'<svg x="{at(start)}" y="6" width="{width:.2f}%" height="18" '
            'viewBox="0 0 100 18" preserveAspectRatio="none">'
            f'<path class="diamond" d="M0 9L{across:.2f} 0L100 9L{across:.2f} 18z"/></svg>'
        )
    line = (
        f'<line class="reach" x1="{at(row.low)}" x2="{at(row.high)}" y1="15" y2="15"/>'
    )
    for end, outside, d in (
        (row.low, row.low < span[0], "M0 15l7 -5v10z"),
        (row.high, row.high > span[1], "M0 15l-7 -5v10z"),
    ):
        if outside:
            line += (
                f'<svg x="{at(end)}" class="beyond"><path class="arrow" d="{d}"/></svg>'
            )
    if math.isnan(row.estimate):
        return line
    return f'{line}<circle class="dot c0" cx="{at(row.estimate)}" cy="15" r="5"/>'

r"""Measures that are smooth functions of the counts: a value with its slopes, at once.

A measure of probabilities reads examples through a few sums over them: with
:math:`\phi_k(s, y)` of a score s and a label y,

.. math:: A = f\Bigl(\sum \phi_1(s, y), \dots, \sum \phi_K(s, y)\Bigr), \qquad
    \frac{\partial A}{\partial c} = \sum_k \frac{\partial f}{\partial v_k}\,\phi_k(s, y)

for one more example (s, y). A measure of a ranking is a function of the cumulative
counts with slopes of its own. Either way a measure is one function from cells to a
``Local``, and a row of the table follows: errors of sampling and noise from the slopes,
limits of binning from the scores' ends (probabilities) or from the two extreme orders
inside every bin (rankings).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple, NotRequired, TypeAlias, TypedDict, Unpack

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.data.edges import unit_edges
from discreet.errors import InputError
from discreet.estimate.estimate import UNIT, Binning, Interval
from discreet.estimate.fit import Fit
from discreet.estimate.intervals import SYMMETRIC, Shape
from discreet.estimate.slopes import Cells, Slopes
from discreet.estimate.sub_bins import cell_scores
from discreet.metrics.rate_row import complex_slopes
from discreet.metrics.table import Better, MetricRow


class Local(NamedTuple):
    """A measure at some counts, and its derivative in every one of them."""

    value: float
    slopes: Slopes


Measure: TypeAlias = Callable[[Cells], Local]
Terms: TypeAlias = Callable[[FloatArray, float], FloatArray]
"""What one example of a score and a label adds to each sum: a row a sum."""


@dataclass(frozen=True, eq=False)
class Placed:
    """Where the examples of each class lie: scores in cells, a row a bin.

    A bin's examples are spread over its cells, shifted towards the neighbour that
    holds more of their class as far as that difference stands out of its scatter:
    flat densities would put positives as low in a bin as negatives.
    """

    of_negatives: FloatArray
    of_positives: FloatArray
    negatives: FloatVector
    positives: FloatVector

    @classmethod
    def of(cls, cells: Cells, *, shifted: bool = True) -> Placed:
        """Place the examples of every bin."""
        if cells.edges is None:
            raise InputError("a measure of probabilities is read in bins")
        scores = cell_scores(cells.edges)
        ends = unit_edges(cells.edges)
        if cells.edges.atoms or not shifted:
            return cls(scores, scores, cells.negatives, cells.positives)
        low, high = ends[:-1, None], ends[1:, None]
        of_n, of_p = (
            np.clip(scores + _shift(c, ends)[:, None], low, high)
            for c in (cells.negatives, cells.positives)
        )
        return cls(of_n, of_p, cells.negatives, cells.positives)

    def slopes(self, on_negatives: FloatArray, on_positives: FloatArray) -> Slopes:
        """Average slopes of the cells to slopes in the bins."""
        return Slopes(on_negatives.mean(axis=-1), on_positives.mean(axis=-1))

    @property
    def masses(self) -> tuple[FloatArray, FloatArray]:
        """Examples of each class in every cell."""
        pieces = self.of_negatives.shape[1]
        return (
            np.repeat(self.negatives[:, None] / pieces, pieces, axis=1),
            np.repeat(self.positives[:, None] / pieces, pieces, axis=1),
        )


def _shift(counts: FloatVector, ends: FloatVector) -> FloatVector:
    """Return how far the mean score of a class lies above its bin's middle."""
    width = np.diff(ends)
    if counts.size < 3 or not width.all():
        return np.zeros_like(counts)
    middle = (ends[:-1] + ends[1:]) / 2
    density = counts / width
    rise, spread = np.zeros_like(counts), np.zeros_like(counts)
    rise[1:-1] = density[2:] - density[:-2]
    spread[1:-1] = counts[2:] / width[2:] ** 2 + counts[:-2] / width[:-2] ** 2
    run = np.ones_like(counts)
    run[1:-1] = middle[2:] - middle[:-2]
    # Of a difference that scatter could have made, only what exceeds it.
    sure = np.divide(
        np.maximum(rise**2 - spread, 0.0),
        rise**2,
        out=np.zeros_like(rise),
        where=rise != 0,
    )
    slope = np.divide(
        rise * sure, run * density, out=np.zeros_like(rise), where=density > 0
    )
    found: FloatVector = np.clip(slope, -2 / width, 2 / width) * width**2 / 12
    return found


@dataclass(frozen=True, eq=False)
class Summed:
    """A function of sums over examples; ``of`` takes complex numbers too."""

    terms: Terms
    of: Callable[[Any], Any]

    def __call__(self, cells: Cells, *, shifted: bool = True) -> Local:
        """Return the value and its slopes."""
        at = Placed.of(cells, shifted=shifted)
        on_n = self.terms(at.of_negatives, 0.0).mean(axis=2)
        on_p = self.terms(at.of_positives, 1.0).mean(axis=2)
        sums = on_n @ at.negatives + on_p @ at.positives
        slopes = complex_slopes(self.of, sums)
        return Local(
            float(np.real(self.of(sums))), Slopes(slopes @ on_n, slopes @ on_p)
        )

    def limits(self, fit: Fit, value: float) -> Binning:
        """Return the values at the corners of what the bins allow the sums to be."""
        cells = fit.bins
        if cells.edges is None or cells.edges.atoms:
            return Binning(value, value, 0.0)
        ends = unit_edges(cells.edges)[:, None]
        low = np.zeros(self.terms(ends[:1], 0.0).shape[0])
        high = low.copy()
        for y, counts in ((0.0, cells.negatives), (1.0, cells.positives)):
            one, other = self.terms(ends[:-1], y), self.terms(ends[1:], y)
            low = low + np.minimum(one, other)[:, :, 0] @ counts
            high = high + np.maximum(one, other)[:, :, 0] @ counts
        corners = product(*zip(low, high, strict=True))
        values = [float(np.real(self.of(np.array(c)))) for c in corners]
        typical = abs(value - self(cells, shifted=False).value) / 4
        return Binning(min(*values, value), max(*values, value), typical)


Limits: TypeAlias = Callable[[Fit, float], Binning]


class Columns(TypedDict):
    """What a row of the table says beside its measure."""

    formula: str
    hides: str
    support: NotRequired[Interval]
    shape: NotRequired[Callable[[Fit], Shape]]


def probability_row(
    name: str,
    title: str,
    measure: Measure,
    better: Better,
    source: str,
    *,
    limits: Limits | None = None,
    **columns: Unpack[Columns],
) -> MetricRow:
    """Return the row of a measure that reads scores as probabilities."""
    columns.setdefault("shape", _symmetric)
    support = columns.get("support", UNIT)
    everywhere = Binning(support.low, support.high, 0.0)
    return MetricRow(
        name=name,
        title=title,
        value=lambda fit: measure(fit.bins).value,
        limits=limits or (lambda _reading, _value: everywhere),
        slopes=lambda cells: measure(cells).slopes,
        better=better,
        source=source,
        needs_probabilities=True,
        smooth=True,
        **columns,
    )


def sum_row(
    name: str,
    title: str,
    measure: Summed,
    better: Better,
    source: str,
    **columns: Unpack[Columns],
) -> MetricRow:
    """Return the row of a function of sums over examples."""
    return probability_row(
        name, title, measure, better, source, limits=measure.limits, **columns
    )


def ranking_row(
    name: str,
    title: str,
    measure: Measure,
    better: Better,
    source: str,
    **columns: Unpack[Columns],
) -> MetricRow:
    """Return the row of a measure of the ranking alone, read along the curve."""

    def limits(fit: Fit, value: float) -> Binning:
        """Return the values where every bin's positives lie below or above."""
        bins = fit.bins
        if bins.edges is None or bins.edges.atoms:
            return Binning(value, value, 0.0)
        ends = [measure(ordered(bins, positives_above=way)).value for way in (0, 1)]
        typical = abs(value - measure(bins).value)
        return Binning(min(*ends, value), max(*ends, value), typical)

    columns.setdefault("shape", _symmetric)
    return MetricRow(
        name=name,
        title=title,
        value=lambda fit: measure(fit.pieces).value,
        limits=limits,
        slopes=lambda cells: measure(cells).slopes,
        better=better,
        source=source,
        needs_probabilities=False,
        smooth=True,
        **columns,
    )


def _symmetric(fit: Fit) -> Shape:
    del fit
    return SYMMETRIC


def ordered(cells: Cells, *, positives_above: int) -> Cells:
    """Cut every bin in two: its positives wholly above its negatives, or below."""
    none = np.zeros_like(cells.negatives)
    first, second = (cells.negatives, none), (none, cells.positives)
    if not positives_above:
        first, second = second, first
    return replace(
        cells,
        negatives=np.column_stack([first[0], second[0]]).ravel(),
        positives=np.column_stack([first[1], second[1]]).ravel(),
        edges=None,
    )

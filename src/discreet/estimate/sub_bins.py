"""Where examples lie inside their bins: along the curve, and on the score's scale.

Seen through its bins alone, an area takes examples of one bin as ties, and with
few, wide bins the spread of tied scores is not that of the scores. Cutting every bin
into pieces along an estimator's curve gives a histogram that is fine enough for DeLong's
variance (``refined``). Calibration needs scores instead: a few in every bin
(``cell_scores``), and how much of either class they hold (``within_bins``).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from discreet.arrays import FloatArray, FloatVector, product
from discreet.data.edges import Edges, unit_edges
from discreet.estimate.curves import Curves
from discreet.statistic import BinCounts
from discreet.statistic.observed import NoisyHistogram

_PIECES: Final = 8
_FINE_BINS: Final = 256
"""From so many filled bins on, what happens inside one does not matter."""
_WARP: Final = 1.5
"""Cells are even on the scale u, s = u^a/(u^a + (1-u)^a): as warped bins are."""
_THINNEST: Final = 1e-9
"""Edges may touch on the scale u."""
_CELLS: Final = 512
"""About so many cells in all: a fine histogram needs one per bin."""


def refined(counts: NoisyHistogram, curves: Curves) -> BinCounts:
    """Return the counts of pieces of the bins, ascending.

    Ties stay together: where the curve joins its points by straight lines for
    them, or the bins are fine, the counts are returned as they are.
    """
    knots = (curves.fpr + curves.tpr) / 2  # from the highest score down
    fine = not 2 < knots.size <= _FINE_BINS
    if curves.joined_for_ties or fine or np.isnan(knots).any():
        return BinCounts(counts.negatives, counts.positives)
    steps = np.arange(_PIECES) / _PIECES
    widths = np.diff(knots)
    if curves.ties is not None:
        widths = np.where(curves.ties, 0.0, widths)
    places = (knots[:-1, None] + widths[:, None] * steps).ravel()
    rates = curves.roc.at(np.append(places, knots[-1]))
    fpr, tpr = (np.maximum(np.diff(rate), 0.0)[::-1] for rate in rates)
    return BinCounts(counts.total_negatives * fpr, counts.total_positives * tpr)


def cell_scores(edges: Edges) -> FloatArray:
    """Return the cells' scores on the probability scale, one row per bin.

    Cells are equally wide on the scale u; a bin that holds one score
    value has that one cell.

    >>> from discreet.data.edges import Support, Uniform
    >>> cell_scores(Edges.realise(Support((0.2, 0.7)))).tolist()
    [[0.2], [0.7]]
    >>> cell_scores(Edges.realise(Uniform(2))).shape
    (2, 256)
    """
    if edges.atoms:
        return unit_edges(edges)[:-1, None]
    place = _places(edges)
    u = place[:-1, None] + np.diff(place)[:, None] * _inside(edges)
    up, down = u**_WARP, (1 - u) ** _WARP
    return up / (up + down)


class WithinBins(NamedTuple):
    """How counts lie in the cells of their bins: evenly, or leaning to one side.

    A cell at x, from -1/2 to 1/2 inside its bin, holds 1/K of the bin's count c and
    x/K of ``leaning`` @ c: sums over cells are linear in the counts.
    """

    x: FloatVector
    leaning: FloatArray | None
    """A row a count, the negatives' bins before the positives'; None if all is even."""

    def masses(self, every: FloatVector) -> FloatArray:
        """Return what the cells hold of all counts: (classes, bins, cells)."""
        lean = np.zeros_like(every)
        if self.leaning is not None:
            lean = product(self.leaning, every)
        masses = (every[:, None] + lean[:, None] * self.x) / self.x.size
        return masses.reshape(2, -1, self.x.size)

    def linear(self, amounts: FloatArray) -> FloatArray:
        """Turn amounts per cell, (rows, bins, cells), into amounts per count."""
        even: FloatArray = np.tile(amounts.mean(axis=2), (1, 2))
        if self.leaning is None:
            return even
        tilt = np.tile((amounts * self.x).mean(axis=2), (1, 2))
        return even + product(tilt, self.leaning)


def within_bins(counts: NoisyHistogram) -> WithinBins:
    """Return how a histogram's counts lie inside their bins.

    A class's density is a straight line inside a bin, as steep as the neighbouring
    bins say: the mean of the two rises beside it, at most twice the lesser, level at a
    peak or in a gap (van Leer 1977), and nowhere below 0.
    """
    bins = len(counts.edges)
    x = np.zeros(1) if counts.edges.atoms else _inside(counts.edges) - 0.5
    if x.size == 1 or bins == 1:
        return WithinBins(x, None)
    place, leaning = _places(counts.edges), np.zeros((2 * bins, 2 * bins))
    leaning[:bins, :bins] = _leaning(np.maximum(counts.negatives, 0.0), place)
    leaning[bins:, bins:] = _leaning(np.maximum(counts.positives, 0.0), place)
    return WithinBins(x, leaning)


def _leaning(counts: FloatVector, place: FloatVector) -> FloatArray:
    """Return the matrix that makes counts times their density's relative rise."""
    width = np.maximum(np.diff(place), _THINNEST)
    apart = (width[1:] + width[:-1]) / 2
    density = np.diag(1 / width)
    steps = np.diff(density, axis=0) / apart[:, None]
    left, right = np.vstack([steps[:1], steps]), np.vstack([steps, steps[-1:]])
    before, after = product(left, counts), product(right, counts)
    lesser = np.where((abs(before) < abs(after))[:, None], left, right)
    steep = abs(before + after) > 4 * np.minimum(abs(before), abs(after))
    slope = np.where(steep[:, None], 2 * lesser, (left + right) / 2)
    slope[before * after <= 0] = 0.0
    rise: FloatArray = slope * width[:, None] ** 2
    leant = product(rise, counts)
    most = 2 * np.sign(leant)[:, None] * np.eye(counts.size)

    return np.where((abs(leant) > 2 * counts)[:, None], most, rise)


def _places(edges: Edges) -> FloatVector:
    """Return the edges on the scale u."""
    values = unit_edges(edges)
    up, down = values ** (1 / _WARP), (1 - values) ** (1 / _WARP)
    return up / (up + down)


def _inside(edges: Edges) -> FloatVector:
    """Return where in its bin each cell lies, from 0 to 1."""
    pieces = math.ceil(_CELLS / len(edges))
    return np.linspace(0.5, pieces - 0.5, pieces) / pieces

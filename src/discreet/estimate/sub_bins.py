"""Where examples lie inside their bins: along the curve, and on the score's scale.

Seen through its bins alone, an area takes examples of one bin as ties, and with
few, wide bins the spread of tied scores is not that of the scores. An estimator
that draws a curve through the bins says where inside a bin the examples of either
class lie; cutting every bin into pieces along that curve gives back a histogram
that is fine enough for DeLong's variance (``refined``).

Calibration needs scores instead: a few of equal mass in every bin (``cell_scores``).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.data.edges import Edges, unit_edges
from discreet.estimate.curves import Curves
from discreet.statistic import BinCounts
from discreet.statistic.observed import NoisyHistogram

_PIECES: Final = 8
_FINE_BINS: Final = 256
"""From so many filled bins on, what happens inside one does not matter."""


def refined(counts: NoisyHistogram, curves: Curves) -> BinCounts:
    """Return the counts of pieces of the bins, ascending.

    Ties stay together: where the curve joins its points by straight lines for
    them, or the bins are fine, the counts are returned as they are.
    """
    as_they_are = BinCounts(counts.negatives, counts.positives)
    knots = (curves.fpr + curves.tpr) / 2  # from the highest score down
    fine = not 2 < knots.size <= _FINE_BINS
    if curves.joined_for_ties or fine or np.isnan(knots).any():
        return as_they_are
    steps = np.arange(_PIECES) / _PIECES
    widths = np.diff(knots)
    if curves.ties is not None:
        widths = np.where(curves.ties, 0.0, widths)
    places = (knots[:-1, None] + widths[:, None] * steps).ravel()
    fpr, tpr = curves.roc.at(np.append(places, knots[-1]))
    return BinCounts(
        _pieces(fpr, counts.total_negatives), _pieces(tpr, counts.total_positives)
    )


def _pieces(rates: FloatVector, total: float) -> FloatVector:
    """Turn cumulative rates from the top down into counts, bins ascending."""
    found: FloatVector = total * np.maximum(np.diff(rates), 0.0)[::-1]
    return found


WARP: Final = 1.5
"""Cells are even on the scale u, s = u^a/(u^a + (1-u)^a): as warped bins are."""
_CELLS: Final = 512
"""About so many cells in all: a fine histogram needs one a bin."""


def cell_scores(edges: Edges) -> FloatArray:
    """Return the cells' scores on the probability scale, a row a bin.

    A bin's examples are spread evenly over its cells; a bin that holds one score
    value has that one cell.

    >>> from discreet.data.edges import Support, Uniform
    >>> cell_scores(Edges.realise(Support((0.2, 0.7)))).tolist()
    [[0.2], [0.7]]
    >>> cell_scores(Edges.realise(Uniform(2))).shape
    (2, 256)
    """
    values = unit_edges(edges)
    if edges.atoms:
        return values[:-1, None]
    pieces = math.ceil(_CELLS / len(edges))
    up, down = values ** (1 / WARP), (1 - values) ** (1 / WARP)
    place = up / (up + down)
    inside = (np.arange(pieces) + 0.5) / pieces
    u = place[:-1, None] + np.diff(place)[:, None] * inside
    up, down = u**WARP, (1 - u) ** WARP
    scores: FloatArray = up / (up + down)
    return scores

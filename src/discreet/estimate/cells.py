"""Where scores may lie inside their bins: a few cells a bin, of equal mass."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from discreet.arrays import FloatArray
from discreet.data.edges import Edges, unit_edges

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

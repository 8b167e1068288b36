"""Bins of scores in [0, 1] by table: one product and one load a score.

A product with a power of two is exact, so truncation finds a score's cell of the
grid without error; a table says which bin the cell lies in. Sixteen cells at once
make a coarse table that stays in the processor's nearest cache: the few scores
whose sixteen cells differ are looked up in the fine one, and those whose cell an
edge cuts are searched.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import FloatVector

GRID: Final = 2**20
"""Computed edges are multiples of 1/GRID of the range, so that they are the same
numbers on every machine and a product with GRID finds a score's cell exactly."""
MANY_BINS: Final = 2**16 - 1
"""From so many bins on there is no table."""
_MIXED: Final = np.uint16(MANY_BINS)
_TOGETHER: Final = 16


class CellTable:
    """Which bin each cell of the unit interval lies in.

    >>> CellTable(np.array([0.5])).bins_of(np.array([0.0, 0.4999, 0.5, 1.0])).tolist()
    [0, 0, 1, 1]
    """

    def __init__(self, inner: FloatVector) -> None:
        """Take the edges between 0 and 1, in increasing order."""
        self._inner = inner
        place = inner * GRID
        first = np.ceil(place)
        cut = place != first
        # An edge is at or below the cells from its ceiling on.
        ends = np.bincount(first.astype(np.intp), minlength=GRID + 1)
        fine: NDArray[np.uint16] = np.cumsum(ends, dtype=np.uint16)
        fine[place[cut].astype(np.intp)] = _MIXED
        cells = fine[:-1].reshape(-1, _TOGETHER)
        # Bins increase, so that the first and the last cell tell of all.
        coarse = np.where(cells[:, 0] == cells[:, -1], cells[:, 0], _MIXED)
        self._fine = fine
        self._coarse: NDArray[np.uint16] = np.append(coarse, fine[-1])
        self._is_mixed = bool((coarse == _MIXED).any())
        self._is_cut = bool(cut.any())

    def bins_of(self, scores: FloatVector) -> NDArray[np.uint16]:
        """Return each score's bin, as ``searchsorted`` finds it."""
        bins = _looked_up(self._coarse, scores)
        if not self._is_mixed:
            return bins
        rest = np.flatnonzero(bins == _MIXED)
        if rest.size:
            near = scores[rest]
            found = _looked_up(self._fine, near)
            if self._is_cut:
                mixed = np.flatnonzero(found == _MIXED)
                found[mixed] = np.searchsorted(self._inner, near[mixed], side="right")
            bins[rest] = found
        return bins


def _looked_up(table: NDArray[np.uint16], scores: FloatVector) -> NDArray[np.uint16]:
    """Return the entry of each score's cell; the last entry is that of 1 itself."""
    # Processors convert several doubles at once to 32 bits, but only one to 64.
    cells = np.empty(scores.shape, dtype=np.int32)
    np.multiply(scores, table.size - 1, out=cells, casting="unsafe")
    # No index is out of range; "clip" only spares the check of each one.
    return table.take(cells, mode="clip")

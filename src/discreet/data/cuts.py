r"""Where scores must be told apart, and how to round them without losing that.

Only a score's bin counts. So each score s is replaced by

.. math:: \lfloor s\,2^g \rfloor / 2^g

except in the few cells of that grid that an edge cuts, where it stays as it is. The
product with a power of two, the floor and the quotient are exact in every engine that
has IEEE doubles. Rounded scores fall into the same bins as the scores themselves, and
a table has few of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from discreet.arrays import FloatVector
from discreet.data.edges import Edges
from discreet.data.scores import ScoreRange

_BITS: Final = 20
"""The finest grid has 2^20 cells, or up to twice as many, over the range."""
_EXACT: Final = 2.0**52
"""Below it every whole number and its neighbours are floats."""
_MOST_EXPONENT: Final = 60


@dataclass(frozen=True)
class Cuts:
    """The scores of one column at which something changes.

    Args:
        low: below it all scores count alike, or lie outside.
        high: above it all scores count alike, or lie outside.
        edges: where a bin begins, between the two.
        alone: scores that count each by itself (a declared support).

    >>> cuts = Cuts(0.0, 1.0, (0.25, 0.3))
    >>> cuts.rounded(np.array([-0.1, 0.2, 0.25, 0.3, 1.0, 1.5, np.nan])).tolist()
    [-1.0, 0.19999980926513672, 0.25, 0.3, 1.0, 2.0, nan]
    """

    low: float
    high: float
    edges: tuple[float, ...] = ()
    alone: tuple[float, ...] = ()

    @classmethod
    def within(
        cls, scores: ScoreRange, *every: Edges, thresholds: Sequence[float] = ()
    ) -> Cuts:
        """Return the cuts of a range, and of all these edges and thresholds in it."""
        inner = {v for e in every if not e.atoms for v in e.values[1:-1]}
        inner.update(t for t in thresholds if scores.low < t < scores.high)
        alone = {v for e in every if e.atoms for v in e.values}
        low, high = scores.low, scores.high
        if not (math.isfinite(low) and math.isfinite(high)):
            # Beyond the outermost edges all scores count alike.
            ends = inner | alone or {0.0}
            low, high = float(math.floor(min(ends))), float(math.ceil(max(ends)))
        return cls(low, high, tuple(sorted(inner)), tuple(sorted(alone)))

    @cached_property
    def exponent(self) -> int:
        """The grid's g: as coarse as the edges allow."""
        width = max(self.high - self.low, 2.0**-_BITS)
        finest = _BITS - math.ceil(math.log2(width))
        ends = (self.low, *self.edges)
        if self.alone or not _on_grid(ends, finest):
            return finest
        return next(g for g in range(min(finest, 0), finest + 1) if _on_grid(ends, g))

    @property
    def exact(self) -> bool:
        """Whether rounding loses nothing, in this range."""
        scale = 2.0**self.exponent if abs(self.exponent) < _MOST_EXPONENT else math.inf
        widest = max(abs(self.low), abs(self.high))
        return widest * max(scale, 1.0) < _EXACT

    @property
    def beyond(self) -> float:
        """How far out scores are moved that lie outside: a cell, at least."""
        return max(1.0, 2.0**-self.exponent)

    @property
    def cells(self) -> int:
        """Most different rounded scores, but for those that stay as they are."""
        return int((self.high - self.low) * 2.0**self.exponent) + 3

    @cached_property
    def mixed(self) -> tuple[int, ...]:
        """The grid's cells in which scores stay as they are."""
        scale = 2.0**self.exponent
        places = np.array([self.low, *self.edges]) * scale
        cut = places[places != np.floor(places)]
        alone = np.array(self.alone, dtype=np.float64) * scale
        return tuple(int(c) for c in np.unique(np.floor([*cut, *alone])))

    def covers(self, other: Cuts) -> bool:
        """Say whether scores that were rounded for these cuts do for others."""
        own = {*self.edges, *self.alone}
        return own.issuperset(other.edges) and {*self.alone}.issuperset(other.alone)

    def rounded(self, scores: FloatVector) -> FloatVector:
        """Round scores as an engine is asked to: what is meant, in NumPy."""
        scale = 2.0**self.exponent
        found = np.where(scores < self.low, self.low - self.beyond, scores)
        found = np.where(scores > self.high, self.high + self.beyond, found)
        cells = np.floor(found * scale)
        return np.where(np.isin(cells, self.mixed), found, cells / scale)


def column_cuts(
    scores: ScoreRange, columns: int, edges: Sequence[Edges]
) -> tuple[Cuts, ...]:
    """Return each column's cuts; one rule for the edges may serve all columns."""
    each = edges if len(edges) == columns else [edges[0]] * columns
    return tuple(Cuts.within(scores, one) for one in each)


def _on_grid(values: Sequence[float], exponent: int) -> bool:
    places = np.array(values) * 2.0**exponent
    return bool((places == np.floor(places)).all())

"""The law of counts that were decoded from symbols: errors over all cells at once.

Beside its covariance it keeps what was sent, so that a reader may ask how much worse other
counts would explain it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from discreet.arrays import BoolArray, FloatArray, FloatVector
from discreet.statistic.observed import BinCovariance

_REFITS: Final = 60
"""After so many steps only what the emptied bins cannot explain is left."""
_TRACE: Final = 1e-6
"""Added to every count, so that none is empty by rounding."""


class Tally(NamedTuple):
    """What was sent: the number of each symbol, and the channel it came through."""

    seen: FloatVector
    channel: FloatArray

    def refitted(self, cells: FloatArray) -> FloatArray:
        """Lead each row of shares towards the likeliest; empty cells stay empty.

        Steps of expectation and maximisation (Dempster, Laird and Rubin 1977).
        """
        cells = cells / cells.sum(axis=1, keepdims=True)
        shares = self.seen / self.seen.sum()
        for _ in range(_REFITS):
            cells = cells * ((shares / (cells @ self.channel)) @ self.channel.T)
        return cells

    def value(self, cells: FloatArray) -> FloatVector:
        """Return the log-likelihood of each row of shares."""
        found: FloatVector = np.log(cells @ self.channel) @ self.seen
        return found


@dataclass(frozen=True, eq=False)
class DecodedNoise:
    """Close to normal, and correlated over all cells."""

    matrix: FloatArray
    tally: Tally
    otherwise: tuple[FloatVector, ...] = ()
    """Counts that another smoothness finds in what was sent, where that may matter."""

    @property
    def scale(self) -> float:
        """The root mean square error of a cell."""
        return math.sqrt(float(np.diag(self.matrix).mean()))

    def covariance(self, at: FloatVector) -> BinCovariance:
        """Return the part within each bin."""
        bins = at.size // 2
        each = np.diag(self.matrix)
        return BinCovariance(
            each[:bins], each[bins:], np.diag(self.matrix[:bins, bins:])
        )

    def sample(
        self, at: FloatVector, size: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draw simulated errors."""
        return rng.multivariate_normal(
            np.zeros(at.size), self.matrix, size, method="eigh"
        )

    def lost_without(self, counts: FloatVector, held: BoolArray) -> FloatVector:
        """Return twice the log-likelihood lost if only ``held`` bins hold examples.

        A row of ``held`` a question; the decoded counts, and those with emptied bins,
        are first refitted alike.
        """
        every = np.ones((1, counts.size // 2), dtype=np.bool_)
        kept = np.tile(np.concatenate([every, held]), 2)
        cells = np.where(kept, np.maximum(counts, 0.0) + _TRACE, 0.0)
        value = self.tally.value(self.tally.refitted(cells))
        found: FloatVector = 2 * (value[0] - value[1:])
        return found

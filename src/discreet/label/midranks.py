r"""Public midranks: where each example stands among all examples of all sites.

The scores are public, so their ranks are. Ranks run from 0 to M - 1; examples with
equal scores share the mean of their places, so that the file's order decides
nothing. A midrank is a multiple of one half: ranks travel *doubled*, as integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.errors import InputError

MAX_EXAMPLES: Final = 2**27
"""Then doubled ranks fit 32 bits, and every sum of weights on a grid fits 64."""
_LOW_BITS: Final = 14


@dataclass(frozen=True)
class RankFacts:
    """What a reader needs to know of one site's ranks, in six public numbers.

    Everything about a site's mechanism but the noise and the labels follows from
    them: whoever holds them can read the site's release.

    Args:
        examples: M, how many examples all sites have.
        size: how many of them the site has.
        low: the least doubled rank of the site, 0 without examples.
        high: the greatest one.
        total: the sum of the doubled ranks.
        squares: the sum of their squares; it may need more than 64 bits.
    """

    examples: int
    size: int
    low: int
    high: int
    total: int
    squares: int

    def __post_init__(self) -> None:
        if not 0 <= self.examples <= MAX_EXAMPLES:
            raise InputError(
                f"{self.examples} examples were announced, at most {MAX_EXAMPLES} "
                "can be ranked"
            )
        if not 0 <= self.size <= self.examples:
            raise InputError(
                f"a site got {self.size} ranks among {self.examples} examples"
            )
        inside = 0 <= self.low <= self.high <= max(self.top, 0)
        between = self.size * self.low <= self.total <= self.size * self.high
        square = self.size * self.squares
        squares = self.total**2 <= square <= self.size * self.high * self.total
        if not (inside and between and squares):
            raise InputError("these are no sums of ranks between two ends")

    def __len__(self) -> int:
        return self.size

    @property
    def top(self) -> int:
        """The greatest doubled rank that anybody can have, 2(M - 1)."""
        return 2 * (self.examples - 1)

    @property
    def one_rank(self) -> bool:
        """Whether all examples of the site have the same rank."""
        return self.low == self.high


class SiteRanks(RankFacts):
    """The doubled midranks of one site's examples, and how many examples all have.

    >>> SiteRanks(np.array([0, 3, 3]), examples=5).low
    0
    """

    doubled: IntVector

    def __init__(self, doubled: IntVector, examples: int) -> None:
        if doubled.ndim != 1 or doubled.dtype != np.int64:
            raise InputError("doubled ranks are a vector of 64-bit integers")
        top = 2 * (examples - 1)
        outside = np.count_nonzero((doubled < 0) | (doubled > top))
        if outside and doubled.size <= examples:
            raise InputError(
                f"{outside} of {doubled.size} doubled ranks are outside 0 .. {top}"
            )
        ends = (int(doubled.min()), int(doubled.max())) if doubled.size else (0, 0)
        total = int(doubled.sum())
        super().__init__(examples, doubled.size, *ends, total, _squares(doubled))
        object.__setattr__(self, "doubled", doubled)

    def sums(self, labels: IntVector) -> tuple[int, int]:
        """Return the sum of the positives' doubled ranks, and their number."""
        if labels.shape != self.doubled.shape:
            raise InputError(
                f"{len(self)} ranks need as many labels, got {labels.size}"
            )
        if not np.isin(labels, (0, 1)).all():
            raise InputError("label privacy needs labels 0 and 1")
        return int(self.doubled @ labels.astype(np.int64)), int(labels.sum())


def _squares(doubled: IntVector) -> int:
    """Add up squares, in parts that fit 64 bits each."""
    high, low = doubled >> _LOW_BITS, doubled & (2**_LOW_BITS - 1)
    whole = int(high @ high) << (2 * _LOW_BITS)
    return whole + (int(high @ low) << (_LOW_BITS + 1)) + int(low @ low)


def midranks(scores: FloatVector) -> IntVector:
    """Return the doubled midranks of pooled scores.

    An example with b scores below its own and e equal ones, itself among them,
    stands at b + (e - 1)/2.

    >>> midranks(np.array([0.2, 0.9, 0.2, 0.1])).tolist()
    [3, 6, 3, 0]
    """
    if not np.isfinite(scores).all():
        raise InputError("scores to be ranked must be finite numbers")
    _, place, equal = np.unique(scores, return_inverse=True, return_counts=True)
    below = np.cumsum(equal) - equal
    doubled: IntVector = (2 * below + equal - 1)[place].astype(np.int64)
    return doubled


def rank_sites(scores: Sequence[FloatVector]) -> list[SiteRanks]:
    """Rank the examples of several sites among all of them."""
    sizes = [column.size for column in scores]
    pooled = np.concatenate([np.zeros(0), *scores])
    if pooled.size > MAX_EXAMPLES:
        raise InputError(
            f"{pooled.size} examples are too many to rank; {MAX_EXAMPLES} can be"
        )
    doubled = midranks(pooled)
    pieces = np.split(doubled, np.cumsum(sizes)[:-1])
    return [SiteRanks(piece, pooled.size) for piece in pieces[: len(sizes)]]

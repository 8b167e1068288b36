r"""Public midranks: where each example stands among all examples of all sites.

The scores are public, so their ranks are. Ranks run from 0 to M - 1; examples with
equal scores share the mean of their places, so that the file's order decides
nothing. A midrank is a multiple of one half: ranks travel *doubled*, as integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.errors import InputError

MAX_EXAMPLES: Final = 2**27
"""Then doubled ranks fit 32 bits, and every sum of weights on a grid fits 64."""


@dataclass(frozen=True, eq=False)
class SiteRanks:
    """The doubled midranks of one site's examples, and how many examples all have.

    >>> SiteRanks(np.array([0, 3, 3]), examples=5).low
    0
    """

    doubled: IntVector
    examples: int

    def __post_init__(self) -> None:
        if not 0 <= self.examples <= MAX_EXAMPLES:
            raise InputError(
                f"{self.examples} examples were announced, at most {MAX_EXAMPLES} "
                "can be ranked"
            )
        if self.doubled.ndim != 1 or self.doubled.dtype != np.int64:
            raise InputError("doubled ranks are a vector of 64-bit integers")
        if self.doubled.size > self.examples:
            raise InputError(
                f"a site got {self.doubled.size} ranks among {self.examples} examples"
            )
        top = 2 * (self.examples - 1)
        if len(self) and not 0 <= self.low <= self.high <= top:
            outside = np.count_nonzero((self.doubled < 0) | (self.doubled > top))
            raise InputError(
                f"{outside} of {self.doubled.size} doubled ranks are outside 0 .. {top}"
            )

    def __len__(self) -> int:
        return int(self.doubled.size)

    @cached_property
    def low(self) -> int:
        """The least doubled rank of the site."""
        return int(self.doubled.min())

    @cached_property
    def high(self) -> int:
        """The greatest doubled rank of the site."""
        return int(self.doubled.max())

    @property
    def top(self) -> int:
        """The greatest doubled rank that anybody can have, 2(M - 1)."""
        return 2 * (self.examples - 1)


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


def check_labels(labels: IntVector, ranks: SiteRanks) -> None:
    """Refuse labels that do not belong to these ranks."""
    if labels.shape != ranks.doubled.shape:
        raise InputError(f"{len(ranks)} ranks need as many labels, got {labels.size}")
    if not np.isin(labels, (0, 1)).all():
        raise InputError("label privacy needs labels 0 and 1")

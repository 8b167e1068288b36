r"""Pairs within a site, added up: how much of an AUC is "which patient".

The pooled AUC mixes pairs of two patients of one site with pairs of two sites. Site i
with n negatives, m positives and U pairs in the right order (ties one half) adds

.. math::
    2U, \quad nm, \quad (nm)^2 \operatorname{Var} A, \qquad
    N A, \quad N, \quad N^2 \operatorname{Var} A,

A = U/(nm) its own AUC, Var A by DeLong, N = n + m: from the totals follow the mean of
the sites' AUCs weighted by pairs and by size, and what sampling patients does to
either. Exact sums only. Sites of one class add zeros.

*Rounding.* A site gives twelve binary digits of each number, whatever its size: further
ones would tell the sites' own values more surely, and no result needs them.

*Overflow.* A site counts as at most ``MOST_EXAMPLES``: above, its counts are scaled
down. Numbers of more than 40 bits are cut into two limbs of 40, so that 100,000 sites
stay below 2^57 in each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.statistic.bounds import Bound
from discreet.statistic.protocol import BinCounts

SIZE: Final = 8
MOST_EXAMPLES: Final = 2**20
BOUND: Final = Bound(SIZE, 2**41)
_DIGITS: Final = 12
_LIMB: Final = 40
_FINE: Final = 2**10
"""What a 1 is where numbers are no whole ones."""


@dataclass(frozen=True, slots=True)
class WithinSums:
    """The totals, decoded: of pairs, and of sites weighted by size."""

    pairs: float
    concordant: float
    pair_variance: float
    examples: float
    weighted: float
    size_variance: float

    @classmethod
    def decoded(cls, numbers: FloatVector) -> Self:
        """Read the eight totals."""
        u2, pairs, low, high, area, examples, fine_low, fine_high = numbers.tolist()
        return cls(
            pairs,
            u2 / 2,
            low + high * 2.0**_LIMB,
            examples,
            area / _FINE,
            (fine_low + fine_high * 2.0**_LIMB) / _FINE,
        )

    def by_pairs(self) -> tuple[float, float]:
        """Return the concordance over all pairs within sites, and its deviation."""
        return _ratio(self.concordant, self.pairs, self.pair_variance)

    def by_size(self) -> tuple[float, float]:
        """Return the mean of the sites' AUCs weighted by size, and its deviation."""
        return _ratio(self.weighted, self.examples, self.size_variance)


def _ratio(part: float, whole: float, variance: float) -> tuple[float, float]:
    if not whole > 0:
        return math.nan, math.nan
    return part / whole, math.sqrt(max(variance, 0.0)) / whole


def encoded(counts: BinCounts) -> IntVector:
    """Return a site's eight integers, from its own exact counts."""
    n, m = float(counts.negatives.sum()), float(counts.positives.sum())
    if not (n > 0 and m > 0):
        return np.zeros(SIZE, dtype=np.int64)
    shrunk = min(1.0, MOST_EXAMPLES / (n + m))
    area, variance = auc_and_variance(counts)
    n, m = n * shrunk, m * shrunk
    size = n + m
    spread = min(variance, 1.0)
    return np.array(
        [
            coarse(2 * n * m * area, _DIGITS),
            coarse(n * m, _DIGITS),
            *_limbs(coarse(n * m * (n * m * spread), _DIGITS)),
            coarse(size * area * _FINE, _DIGITS),
            coarse(size, _DIGITS),
            *_limbs(coarse(size * size * spread * _FINE, _DIGITS)),
        ],
        dtype=np.int64,
    )


def coarse(number: float, digits: int) -> int:
    """Round to the nearest integer of so many binary digits, zeros after them.

    >>> coarse(1000.2, 12), coarse(1234567.0, 12)
    (1000, 1234432)
    """
    step = 2.0 ** max(0, math.frexp(number)[1] - digits)
    return round(number / step) * int(step)


def auc_and_variance(counts: BinCounts) -> tuple[float, float]:
    """Return a site's AUC, ties one half, and DeLong's variance of it.

    DeLong, DeLong and Clarke-Pearson (1988); a class of one example counts twice its
    square, as it has no spread of its own to show.
    """
    n, m = float(counts.negatives.sum()), float(counts.positives.sum())
    below = (np.cumsum(counts.negatives) - counts.negatives / 2) / n
    above = 1.0 - (np.cumsum(counts.positives) - counts.positives / 2) / m
    area = float(counts.positives @ below) / m
    variance = 0.0
    for values, count, total in (
        (below, counts.positives, m),
        (above, counts.negatives, n),
    ):
        squares = float(count @ (values - area) ** 2) / total**2
        variance += squares * (total / (total - 1) if total > 1 else 2.0)
    return area, variance


def _limbs(number: int) -> tuple[int, int]:
    return number & (2**_LIMB - 1), number >> _LIMB

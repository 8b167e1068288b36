r"""Public tables that replace division of secrets: reciprocals, cut into limbs.

Precision at rank i is a count over i, and i is public. The number of positives P is
secret, but there are only n of them to be: the parties make a secret vector with a one
at place P, and its product with a public table of 1/1, 1/2, ... is a share of 1/P.

Everything stays in 64-bit integers. With n rows, :math:`b = \lceil\log_2(n+1)\rceil`:

- 1/i has K limbs of w bits and 1/P has M limbs of v bits, each at least 52 + b + 2
  bits in all. A sum over rows with one limb is below :math:`2^{2b+1+w}`, times a limb
  of 1/P below :math:`2^{2b+1+w+v} \le 2^{62}`.
- AUROC is W/(2PN) with :math:`W < 2^{2b-1}`. The reciprocal has its 52 bits, and
  behind them A limbs of :math:`u = 63 - 2b` bits, until what is cut off cannot move
  the last bit of the product by more than one.

Each limb is a digit of a long division, so numpy does all places at once. Cutting
off costs at most a few units of :math:`2^{-52}`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import IntVector
from discreet.errors import InputError

SCALE: Final = 52
"""Bits behind the point of an opened area, as many as a float64 has."""
ONE: Final = 1 << SCALE
"""An opened area of exactly 1."""
UNDEFINED: Final = 1 << 60
"""What is added to an area that a class without examples leaves undefined."""
MAX_ROWS: Final = 2**21 - 1
"""Rows for which limbs of a few bits remain."""
_ROOM: Final = 62


@dataclass(frozen=True)
class Tables:
    """How long the limbs are, and the limbs, for a public number of rows."""

    rows: int

    def __post_init__(self) -> None:
        if not 1 <= self.rows <= MAX_ROWS:
            raise InputError(
                f"exact areas take between 1 and {MAX_ROWS:,} rows in all, got "
                f"{self.rows:,}; a histogram has no such limit"
            )

    @property
    def bits(self) -> int:
        """The bits b of a count."""
        return self.rows.bit_length()

    @property
    def rank_bits(self) -> int:
        """The bits w of a limb of 1/i."""
        return (_ROOM - 2 * self.bits - 1) // 2

    @property
    def count_bits(self) -> int:
        """The bits v of a limb of 1/P."""
        return _ROOM - 2 * self.bits - 1 - self.rank_bits

    @property
    def pair_bits(self) -> int:
        """The bits u of a low limb of 1/(2PN)."""
        return 63 - 2 * self.bits

    @property
    def rank_limbs(self) -> int:
        """The number K of limbs of 1/i."""
        return -(-(SCALE + self.bits + 2) // self.rank_bits)

    @property
    def count_limbs(self) -> int:
        """The number M of limbs of 1/P."""
        return -(-(SCALE + self.bits + 2) // self.count_bits)

    @property
    def pair_limbs(self) -> int:
        """The number of limbs of 1/(2PN), the one of 52 bits included."""
        return 1 - (-(2 * self.bits - 1) // self.pair_bits)

    @cached_property
    def by_rank(self) -> NDArray[np.int64]:
        """Limbs of 1/1, ..., 1/n, the highest first."""
        ranks = np.arange(1, self.rows + 1, dtype=np.int64)
        return _digits(np.ones_like(ranks), ranks, self.rank_limbs, self.rank_bits)

    @cached_property
    def by_count(self) -> NDArray[np.int64]:
        """For 0, ..., n positives: what is undefined, 1/(2PN), and 1/P, in limbs.

        The first row marks counts for which there are no pairs, the second the one
        without a positive.
        """
        counts = np.arange(self.rows + 1, dtype=np.int64)
        empty = np.where(counts == 0, UNDEFINED, 0)
        one_class = np.where(counts == self.rows, UNDEFINED, empty)
        pairs = np.maximum(2 * counts * (self.rows - counts), 1)
        whole, rest = np.divmod(np.int64(ONE), pairs)
        low = _digits(rest, pairs, self.pair_limbs - 1, self.pair_bits)
        ways = np.vstack([whole, low]) * (one_class == 0)
        ones = np.ones_like(counts)
        single = _digits(ones, np.maximum(counts, 1), self.count_limbs, self.count_bits)
        return np.vstack([one_class, empty, ways, single * (counts > 0)])

    def products(self) -> Iterator[tuple[int, int, int]]:
        """Yield limb k of 1/i, limb m of 1/P, and how far their product is shifted.

        The product stands for :math:`2^{-(k+1)w-(m+1)v}`; what would be shifted out
        altogether is left out.
        """
        most = 2 * self.bits + 1 + self.rank_bits + self.count_bits
        for k in range(self.rank_limbs):
            for m in range(self.count_limbs):
                shift = (k + 1) * self.rank_bits + (m + 1) * self.count_bits - SCALE
                if shift < most:
                    yield k, m, shift


def _digits(
    numerator: IntVector, denominator: IntVector, limbs: int, bits: int
) -> NDArray[np.int64]:
    """Return so many digits of a fraction below or at 1, by long division."""
    found = []
    rest = numerator
    for _ in range(limbs):
        digit, rest = np.divmod(rest << bits, denominator)
        found.append(digit)
    return np.array(found, dtype=np.int64).reshape(limbs, denominator.size)

r"""Public numbers of a computation: reciprocals of the ranks, and how many bits fit.

Precision at rank i is a count over i, and i is public: so instead of dividing
secrets, the program multiplies by :math:`c_i = \lfloor 2^{s+l}/i \rfloor`, cut into
a high limb of s bits and a low limb of l bits. Everything stays in 64-bit integers:
with r rows and :math:`b = \lceil\log_2(r+1)\rceil`

- the denominator of AUPR is :math:`P\,2^{s+1}`, and division by sixteen at a time
  multiplies it by up to 16: :math:`b + s + 1 + 4 \le 63`;
- the low limbs add up to at most :math:`2P^2 2^l`: :math:`1 + 2b + l \le 63`.

Rounding each :math:`c_i` down lowers an area by at most :math:`P/2^{s+l}`, cutting
the sum of the low limbs by at most :math:`1/(P\,2^s)`: together at most 5e-13 for
100,000 rows, 5e-12 for a million and 2e-11 for ``MAX_ROWS``. The AUC has no
reciprocals: it is exact up to the last of its 52 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from discreet.arrays import IntVector
from discreet.errors import InputError

MAX_ROWS: Final = 2**21 - 1
"""Rows for which a few bits remain behind the point."""
_MOST_BITS: Final = 62
"""What a limb and its fraction may take of a signed 64-bit integer."""
DIGIT_BITS: Final = 4
DIGITS: Final = 13
"""Hexadecimal digits of an opened area: 52 bits, as many as a float64 has."""
ONE: Final = 1 << (DIGIT_BITS * DIGITS)
"""An opened area of exactly 1."""


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """Bits behind the point in the two limbs, for a public number of rows."""

    rows: int

    def __post_init__(self) -> None:
        if not 1 <= self.rows <= MAX_ROWS:
            raise InputError(
                f"exact areas take between 1 and {MAX_ROWS:,} rows in all, got "
                f"{self.rows:,}; a histogram has no such limit"
            )

    @property
    def high_bits(self) -> int:
        """The bits s of the high limb."""
        return 58 - self.rows.bit_length()

    @property
    def low_bits(self) -> int:
        """The bits l of the low limb."""
        return min(62 - 2 * self.rows.bit_length(), _MOST_BITS - self.high_bits)

    def reciprocals(self) -> tuple[IntVector, IntVector]:
        """Return high and low limbs of 1/1, 1/2, ..., 1/rows.

        >>> high, low = FixedPoint(3).reciprocals()
        >>> bits = FixedPoint(3).low_bits
        >>> round(float((high[2] * 2.0**bits + low[2]) / (high[0] * 2.0**bits)), 9)
        0.333333333
        """
        ranks = np.arange(1, self.rows + 1, dtype=np.int64)
        whole = np.int64(1 << (self.high_bits + self.low_bits)) // ranks
        return whole >> self.low_bits, whole & np.int64((1 << self.low_bits) - 1)

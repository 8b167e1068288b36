r"""The sampling error of an exact AUC: DeLong's variance from three opened integers.

Opened are P, the positives, and with :math:`a_j = 2P V_{01}(j)` the doubled positives
above negative j and :math:`b_i = 2N(1 - V_{10}(i))` the doubled negatives above positive
i, ties one half, the sums :math:`Q_- = \sum_j a_j^2` and :math:`Q_+ = \sum_i b_i^2`.
With A the AUC and N the other rows (DeLong, DeLong and Clarke-Pearson 1988, equations
5 and 6),

.. math::
    V = \frac{1}{P(P-1)}\left[\frac{Q_+}{4N^2} - P(1-A)^2\right]
      + \frac{1}{N(N-1)}\left[\frac{Q_-}{4P^2} - N A^2\right].

A class of one example shows no spread: then Newcombe's variance stands for DeLong's.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from discreet.arrays import IntVector
from discreet.errors import ReleaseError
from discreet.estimate.intervals import AreaShape
from discreet.mpc.model import SPREAD
from discreet.mpc.program import Program


@dataclass(frozen=True, slots=True)
class Spread:
    """What was opened for an interval; both classes have examples."""

    positives: int
    negatives: int
    of_negatives: int
    of_positives: int

    def __post_init__(self) -> None:
        p, n = self.positives, self.negatives
        within = (
            0 <= self.of_negatives <= 4 * p * p * n
            and 0 <= self.of_positives <= 4 * n * n * p
        )
        if p < 1 or n < 1 or not within:
            raise ReleaseError("the opened sums of squares are of no data of this size")

    @classmethod
    def of(cls, program: Program, opened: IntVector) -> Spread | None:
        """Read what stands behind the areas; None where there is no interval."""
        if not program.interval:
            return None
        positives, *squares = (int(value) for value in opened[-SPREAD:])
        if not 0 < positives < program.rows:
            return None
        return cls(positives, program.rows - positives, *squares)

    def variance(self, area: float) -> float:
        """Return DeLong's variance of this AUC.

        >>> Spread(2, 2, 20, 4).variance(0.75)  # scores rank + - + -
        0.125
        """
        p, n = self.positives, self.negatives
        if min(p, n) < 2:
            return AreaShape(p, n).variance(area)
        # The area is a fraction over 2PN; in exact numbers nothing cancels.
        won = Fraction(round(Fraction(area) * 2 * p * n), 2 * p * n)
        above = Fraction(self.of_positives, 4 * n * n) - p * (1 - won) ** 2
        below = Fraction(self.of_negatives, 4 * p * p) - n * won**2
        found = above / (p * (p - 1)) + below / (n * (n - 1))
        return max(float(found), 0.0)

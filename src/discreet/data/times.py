"""Follow-up times: where public cuts put them, one rule for NumPy and for SQL.

A time is a finite number from 0 on, in any unit; what is missing, negative or infinite is
none, and its row does not fit. Interval k of the cuts 0 = t_0 < ... < t_K is
(t_(k-1), t_k]: a time at a cut belongs to the interval that ends there, and time 0 to the
first one. Longer times are *followed past* the last cut, whatever ended them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np

from discreet.arrays import BoolVector, CodeVector, FloatVector
from discreet.data.edges import Cuts
from discreet.data.scores import FARTHEST
from discreet.errors import InputError

MOST_INTERVALS: Final = 4096
"""More cuts are no plan for people."""


@dataclass(frozen=True)
class TimeCuts:
    """Public cuts of follow-up times, from 0 on; 0 alone tells no times apart.

    >>> cuts = TimeCuts((0.0, 365.0, 1825.0))
    >>> cuts.places(np.array([0.0, 365.0, 365.5, 1825.0, 1826.0])).tolist()
    [0, 0, 1, 1, 2]
    >>> TimeCuts.fits(np.array([0.0, -1.0, np.inf, np.nan])).tolist()
    [True, False, False, False]
    """

    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.values) <= MOST_INTERVALS + 1 or self.values[0] != 0:
            raise InputError(
                f"cuts of time begin at 0 and make at most {MOST_INTERVALS:,} intervals"
            )
        rising = all(a < b for a, b in zip(self.values, self.values[1:], strict=False))
        if not rising or not self.values[-1] <= FARTHEST:
            raise InputError(
                f"cuts of time increase strictly from 0 to at most {FARTHEST:g}"
            )

    @cached_property
    def array(self) -> FloatVector:
        """The cuts as an array."""
        return np.asarray(self.values, dtype=np.float64)

    def __len__(self) -> int:
        """Return the number of intervals."""
        return len(self.values) - 1

    @staticmethod
    def fits(times: FloatVector) -> BoolVector:
        """Say which numbers are times: finite, and not negative."""
        return (times >= 0) & (times < math.inf)

    def places(self, times: FloatVector) -> CodeVector:
        """Return each time's interval from 0 on, and K where it is past the last cut."""
        return np.searchsorted(self.array[1:], times, side="left")

    @property
    def past(self) -> float:
        """What stands for every time past the last cut."""
        return 2 * self.values[-1] or 1.0

    def covers(self, other: TimeCuts) -> bool:
        """Say whether times that were rounded for these cuts do for others."""
        return {*self.values}.issuperset(other.values)

    def rounded(self, times: FloatVector) -> FloatVector:
        """Replace each time by the end of its interval, as an engine is asked to.

        What is no time becomes NaN.
        """
        ends = np.append(self.array[1:], self.past)
        return np.where(self.fits(times), ends[self.places(times)], np.nan)


Rounding: TypeAlias = Cuts | TimeCuts
"""How numbers of one column may be rounded before they are counted."""

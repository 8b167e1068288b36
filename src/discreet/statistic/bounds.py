"""The range that a site's numbers have, held before noise is added to them.

Noise is sized for what a statistic argues that a unit can change. Here the argument is
made true: a vector is brought into the declared range whatever computed it, number by
number and in all. Moving a vector into its range depends on that vector alone and
changes none that is in it, so no neighbours get further apart than the range allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import IntVector
from discreet.parsing import MOST

MOST_COUNT: Final = MOST
"""No site counts more in one number: a float still holds it exactly."""


class Bound(NamedTuple):
    """Some consecutive numbers of a vector: none below 0, none above ``each``."""

    size: int
    each: int = MOST_COUNT
    total: int | None = None
    """The most that they add up to, where the statistic knows it."""


def within_bounds(vector: NDArray[np.generic], bounds: Sequence[Bound]) -> IntVector:
    """Return the vector in its range; what is not a number there is 0.

    >>> within_bounds(np.array([3, -1, 9, 9]), [Bound(2), Bound(2, each=5, total=8)])
    array([3, 0, 5, 3])
    """
    size = sum(bound.size for bound in bounds)
    if vector.shape != (size,) or vector.dtype.kind not in "iufb":
        return np.zeros(size, dtype=np.int64)
    if vector.dtype.kind == "f":
        limit = float(MOST_COUNT)
        vector = np.rint(np.nan_to_num(vector, nan=0, posinf=limit, neginf=0))
        vector = np.clip(vector, 0, limit)
    numbers: IntVector = np.clip(vector, 0, MOST_COUNT).astype(np.int64)
    start = 0
    for bound in bounds:
        block = numbers[start : start + bound.size]
        start += bound.size
        np.minimum(block, min(bound.each, MOST_COUNT), out=block)
        if bound.total is None or not block.size:
            continue
        # A float holds this sum exactly as far as any total reaches.
        left = min(bound.total, MOST_COUNT)
        if block.sum(dtype=np.float64) > left:
            for place in np.flatnonzero(block):
                block[place] = min(int(block[place]), left)
                left -= int(block[place])
    return numbers

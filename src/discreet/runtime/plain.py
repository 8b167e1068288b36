"""Plain addition: the oracle that every protocol must equal, and the simulation."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from discreet.arrays import IntVector
from discreet.errors import InputError

_ROOM = 2**63 - 1


def add(vectors: Iterable[IntVector], size: int) -> IntVector:
    """Add the sites' vectors, refusing a sum that 64 bits cannot hold."""
    total = np.zeros(size, dtype=np.int64)
    reach = 0
    for vector in vectors:
        if vector.shape != (size,) or vector.dtype != np.int64:
            raise InputError(f"a site's vector must be {size} 64-bit integers")
        # |x| of the most negative integer does not fit either: use Python's.
        reach += max(abs(int(vector.max())), abs(int(vector.min())))
        if reach > _ROOM:
            raise InputError("the sum of the sites' counts does not fit 64 bits")
        total += vector
    return total

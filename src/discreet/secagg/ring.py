r"""The ring :math:`\mathbb{Z}_{2^{64}}` and the signed integers that live in it.

Masks need a group in which they are uniform; sums of counts need integers. Both
meet in two's complement: a signed sum is read off the ring correctly as long as
it lies in :math:`[-2^{63}, 2^{63})`. A site therefore refuses a vector with an
entry beyond :func:`room`, and the sum of the sites cannot wrap.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import IntVector
from discreet.errors import InputError


def room(sites: int) -> int:
    """Return the largest magnitude that each of ``sites`` entries may have.

    >>> room(2) == (2**63 - 1) // 2
    True
    """
    return (2**63 - 1) // sites


def into_ring(vector: IntVector, *, length: int, sites: int) -> NDArray[np.uint64]:
    """Check one site's vector and copy it into the ring."""
    if vector.dtype != np.int64 or vector.shape != (length,):
        raise InputError(f"a site's vector must be {length} 64-bit integers")
    bound = room(sites)
    if length and (int(vector.max()) > bound or int(vector.min()) < -bound):
        raise InputError(
            f"an entry of the vector exceeds {bound}, the most that {sites} sites "
            "can add without wrapping; nothing was sent"
        )
    return vector.astype(np.uint64)


def from_ring(words: NDArray[np.uint64]) -> IntVector:
    """Read ring elements as signed integers."""
    return words.view(np.int64).copy()


def log2_overflow_bound(
    *, epsilon: float, length: int, sites: int, largest_count: int
) -> float:
    r"""Bound the base-2 logarithm of the chance that noise leaves a site's room.

    A site adds the difference of two negative binomials NB(r, a) with r <= 1 and
    :math:`a = e^{-\varepsilon}` (a unit of L1 sensitivity; divide epsilon by it
    otherwise). NB(r, a) is stochastically below the geometric law NB(1, a), whose
    tail is :math:`P(X \ge x) = a^x`. With x the room left by the counts, the
    union over both signs and all entries is
    :math:`2 \cdot \mathrm{length} \cdot e^{-\varepsilon x}`. In that event the
    site declines; the sum is never silently wrong.

    >>> log2_overflow_bound(epsilon=1e-6, length=16_384, sites=10_000,
    ...                     largest_count=10**9) < -(10**9)
    True
    """
    if epsilon <= 0 or length < 1:
        raise InputError("epsilon and the length must be positive")
    left = room(sites) - largest_count
    if left <= 0:
        return 0.0
    return min(0.0, math.log2(2 * length) - epsilon * left / math.log(2))

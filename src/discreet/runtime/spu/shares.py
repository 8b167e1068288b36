"""Replicated secret sharing among three parties over the integers modulo 2^64.

A value is x = x_0 + x_1 + x_2 (mod 2^64) with x_0 and x_1 uniform; party i holds
the pair (x_i, x_{i+1}), indices modulo 3 (Araki et al. 2016; Mohassel and Rindal
2018, ABY3). One party alone holds two uniform words and learns nothing; any two
hold all three. This is the layout that SPU keeps for ``aby3.AShr<FM64>``, so an
owner needs no engine to make shares and the analyst none to add them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import IntVector
from discreet.entropy import Entropy, words
from discreet.errors import DiscreetError

PARTIES: Final = 3
WORD_BYTES: Final = 8
PAIR_BYTES: Final = 2 * WORD_BYTES

Pairs: TypeAlias = NDArray[np.uint64]
"""One party's shares: a row (x_i, x_{i+1}) for each value."""


class InconsistentSharesError(DiscreetError, ValueError):
    """Three result shares do not fit: a party's disk, program or honesty failed."""


def split(values: IntVector, *, entropy: Entropy) -> tuple[Pairs, Pairs, Pairs]:
    """Split signed 64-bit values into the pairs of the three parties.

    >>> from discreet.entropy import SYSTEM
    >>> combine(split(np.array([3, -4]), entropy=SYSTEM))
    array([ 3, -4])
    """
    whole = np.ascontiguousarray(values, dtype=np.int64).view(np.uint64)
    first, second = words(entropy, len(whole)), words(entropy, len(whole))
    parts = (first, second, whole - first - second)
    zero, one, two = (
        np.stack([parts[i], parts[(i + 1) % PARTIES]], axis=1) for i in range(PARTIES)
    )
    return zero, one, two


def combine(pairs: Sequence[Pairs]) -> IntVector:
    """Add the parties' pairs up again, in the order of the parties.

    Every word is held twice; when the two copies differ the shares are not of one
    value, and nothing is returned.
    """
    if len(pairs) != PARTIES or len({p.shape for p in pairs}) != 1:
        raise InconsistentSharesError(
            f"the result needs equally long shares of {PARTIES} parties"
        )
    for i in range(PARTIES):
        if not np.array_equal(pairs[i][:, 1], pairs[(i + 1) % PARTIES][:, 0]):
            raise InconsistentSharesError(
                f"the result shares of party {i} and party {(i + 1) % PARTIES} do not "
                "fit together; nothing was opened, run the session again"
            )
    total = pairs[0][:, 0] + pairs[1][:, 0] + pairs[2][:, 0]
    return np.asarray(total, dtype=np.uint64).view(np.int64)

r"""What a data owner shares: one word a row, in the order of the scores.

The bits of a float64, read as an integer, order the non-negative numbers; a negative
number stands at minus the integer of its magnitude. Of these places a word keeps 62
bits and the label one:

.. math:: \text{word} = 2\,\text{key} + \text{label} \in [0, 2^{63} - 3],

with keys that ascend where scores descend. Nothing is rounded: scores that differ in
the last bit have different keys, and equal scores have equal ones. The 62 bits hold
zero, every magnitude from 2^-446 to 7e19 and both infinities; what lies outside is
refused.

Owners sort their own words, so that the parties only have to merge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.data.examples import Examples
from discreet.errors import InputError

PAD: Final = 2**63 - 2
"""A padding row: it has no label, and stands after every score."""
_MAGNITUDE: Final = np.int64(2**63 - 1)
_INFINITE: Final = np.int64(0x7FF << 52)
_SMALLEST: Final = np.int64((1023 - 446) << 52)
_LAST: Final = np.int64(2**61 - 1)
"""The place of infinity; finite magnitudes stand before it."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """One owner's rows, ready to be shared. It never prints them.

    ``PAD`` words are padding. The length is public; how many rows are real is not,
    if there is room for padding.
    """

    words: IntVector

    def __post_init__(self) -> None:
        if self.words.ndim != 1 or self.words.dtype != np.int64:
            raise InputError("an owner shares a vector of 64-bit integers")
        if self.words.size and (self.words.min() < 0 or self.words.max() > PAD):
            raise InputError("an owner's words lie between 0 and 2^63 - 2")
        if (self.words[1:] < self.words[:-1]).any():
            raise InputError("an owner's words ascend: sort them before sharing")

    @property
    def rows(self) -> int:
        """How many rows are shared, padding included: public."""
        return int(self.words.size)

    @property
    def count(self) -> int:
        """How many rows are real: the owner's own business where padding hides it."""
        return int(np.count_nonzero(self.words != PAD))

    def __repr__(self) -> str:
        return f"Encoded(rows={self.rows})"


def encode(examples: Examples, *, padded_to: int | None = None) -> Encoded:
    """Validate one owner's examples and turn them into sorted words.

    Args:
        examples: scores of any declared kind and 0/1 labels (or ``positive``).
        padded_to: a public number of rows to hide the owner's own behind.

    >>> encode(Examples([0.25, 1.0], [0, 1]), padded_to=4)
    Encoded(rows=4)
    """
    if examples.columns != 1 or examples.label_code.classes is not None:
        raise InputError(
            "exact areas take one score a row and two classes; compare one class "
            "with the rest, or one model at a time"
        )
    scores, labels = examples.to_arrays()
    count = int(scores.size)
    rows = count if padded_to is None else padded_to
    if rows < count:
        raise InputError(
            f"more examples than the agreed {rows} padded rows: agree on a larger size"
        )
    words = np.full(rows, PAD, dtype=np.int64)
    words[:count] = np.sort(2 * keys_of(scores) + labels.astype(np.int64))
    return Encoded(words)


def keys_of(scores: FloatVector) -> IntVector:
    """Return keys of 62 bits that ascend where scores descend, one to one.

    >>> zero = keys_of(np.array([0.0]))[0]
    >>> (zero - keys_of(np.array([-0.0, np.inf, -np.inf]))).tolist()
    [0, 2305843009213693951, -2305843009213693951]
    """
    bits = np.ascontiguousarray(scores, dtype=np.float64).view(np.int64)
    magnitude = bits & _MAGNITUDE
    place = np.where(magnitude == 0, 0, magnitude - _SMALLEST + 1)
    place = np.where(magnitude == _INFINITE, _LAST, place)
    outside = (place < 0) | ((magnitude != 0) & (place == 0)) | (place > _LAST)
    outside |= (place == _LAST) & (magnitude != _INFINITE)
    if outside.any():
        raise InputError(
            f"{np.count_nonzero(outside)} scores are not 0 and nearer to it than "
            "1e-134, or beyond 7e19: share logarithms or ranks of them instead"
        )
    found: IntVector = _LAST - np.where(bits < 0, -place, place)
    return found


def padded_size(largest: int) -> int:
    """Return the power of two at or above the largest owner's size.

    >>> padded_size(1000), padded_size(1024)
    (1024, 1024)
    """
    if largest < 1:
        raise InputError("there is nothing to pad: no owner has an example")
    return 1 << (largest - 1).bit_length()

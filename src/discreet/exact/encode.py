r"""What a data owner shares: one integer key a score, one 0/1 label.

The bits of a float64, read as an integer, order the non-negative numbers; a negative
number stands at minus the integer of its magnitude. The key is minus that place, so
ascending keys are descending scores. Nothing is rounded: scores that differ in the
last bit have different keys, and equal scores have equal ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.data.examples import Examples
from discreet.errors import InputError

PAD: Final = 2**63 - 1
"""Key of a padding row: it sorts after every score, minus infinity included."""
_MAGNITUDE: Final = np.int64(2**63 - 1)


@dataclass(frozen=True, eq=False)
class Encoded:
    """One owner's rows, ready to be shared. It never prints them.

    Rows with the key ``PAD`` and the label 0 are padding. The length is public; how
    many rows are real is not, if there is room for padding.
    """

    keys: IntVector
    labels: IntVector

    def __post_init__(self) -> None:
        if self.keys.ndim != 1 or self.keys.shape != self.labels.shape:
            raise InputError("an owner shares one key and one label a row")
        if self.keys.dtype != np.int64 or self.labels.dtype != np.int64:
            raise InputError("keys and labels are 64-bit integers")
        strange = int(np.count_nonzero((self.labels != 0) & (self.labels != 1)))
        if strange:
            raise InputError(
                f"{strange} of {self.rows} labels are not 0 or 1, and shares of them "
                "would make the result wrong; recode the labels"
            )
        if self.labels[self.keys == PAD].any():
            raise InputError("a padding row has no label")

    @property
    def rows(self) -> int:
        """How many rows are shared, padding included: public."""
        return int(self.keys.size)

    @property
    def count(self) -> int:
        """How many rows are real: the owner's own business where padding hides it."""
        return int(np.count_nonzero(self.keys != PAD))

    def __repr__(self) -> str:
        return f"Encoded(rows={self.rows})"


def encode(examples: Examples, *, padded_to: int | None = None) -> Encoded:
    """Validate one owner's examples and turn them into keys and labels.

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
    keys = np.full(rows, PAD, dtype=np.int64)
    keys[:count] = keys_of(scores)
    padded = np.zeros(rows, dtype=np.int64)
    padded[:count] = labels
    return Encoded(keys, padded)


def keys_of(scores: FloatVector) -> IntVector:
    """Return keys that ascend where scores descend, one to one.

    >>> keys_of(np.array([0.0, -0.0, 5e-324, -np.inf])).tolist()[:3]
    [0, 0, -1]
    """
    bits = np.ascontiguousarray(scores, dtype=np.float64).view(np.int64)
    # A negative number with magnitude bits g stands at -g: -0.0 where 0.0 does.
    ordered = np.where(bits < 0, -(bits & _MAGNITUDE), bits)
    found: IntVector = -ordered
    return found


def padded_size(largest: int) -> int:
    """Return the power of two at or above the largest owner's size.

    >>> padded_size(1000), padded_size(1024)
    (1024, 1024)
    """
    if largest < 1:
        raise InputError("there is nothing to pad: no owner has an example")
    return 1 << (largest - 1).bit_length()

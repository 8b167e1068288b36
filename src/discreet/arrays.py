"""Names for the arrays that pass between the packages, and their product."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatVector: TypeAlias = NDArray[np.float64]
"""A vector of real numbers."""
FloatArray: TypeAlias = NDArray[np.float64]
"""An array of real numbers of any shape."""
BoolVector: TypeAlias = NDArray[np.bool_]
"""A vector of marks."""
IntVector: TypeAlias = NDArray[np.int64]
"""A vector of exact counts: what sites add, and what noise is added to."""
CodeVector: TypeAlias = NDArray[np.integer[Any]]
"""A vector of small non-negative codes (classes, bins) of any integer type."""

_ONE_THREAD: Final = 1 << 18
"""Multiplications that OpenBLAS does in the calling thread (its ``interface/gemm.c``):
some versions share larger products with other threads."""
_ONE_THREAD_OF_A_VECTOR: Final = 9_216
"""Likewise of a matrix with a vector (``interface/gemv.c``)."""


def product(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return a matrix times a matrix or vector, without threads of the linear algebra.

    A product of a millisecond that is shared among threads lasts until the last of them
    has had its turn: where the processors do other work, several hundred times as long.
    Its last bits then also depend on how many threads there are. So a larger product is
    cut in halves until each one is small, in an order that depends on the shapes alone.
    No setting of the process is touched.

    >>> left, right = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    >>> (product(left, right) == left @ right).all()
    np.True_
    """
    if right.ndim == 1:
        column: FloatArray = product(left, right[:, None])[:, 0]
        return column
    (rows, inner), columns = left.shape, right.shape[1]
    vector = min(rows, columns) == 1
    if rows * inner * columns <= (_ONE_THREAD_OF_A_VECTOR if vector else _ONE_THREAD):
        small: FloatArray = left @ right
        return small
    if inner >= max(rows, columns):
        half = inner // 2
        total = product(left[:, :half], right[:half])
        total += product(left[:, half:], right[half:])
        return total
    if rows >= columns:
        halves = np.split(left, [rows // 2])
        return np.concatenate([product(each, right) for each in halves])
    halves = np.split(right, [columns // 2], axis=1)
    return np.concatenate([product(left, each) for each in halves], axis=1)

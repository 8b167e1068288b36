"""Names for the arrays that pass between the packages."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatVector: TypeAlias = NDArray[np.float64]
"""A vector of real numbers."""
FloatArray: TypeAlias = NDArray[np.float64]
"""An array of real numbers of any shape."""
BoolVector: TypeAlias = NDArray[np.bool_]
"""A vector of marks."""
BoolArray: TypeAlias = NDArray[np.bool_]
"""Truth values in several dimensions."""
IntVector: TypeAlias = NDArray[np.int64]
"""A vector of exact counts: what sites add, and what noise is added to."""
CodeVector: TypeAlias = NDArray[np.integer[Any]]
"""A vector of small non-negative codes (classes, bins) of any integer type."""

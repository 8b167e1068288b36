"""Slopes, means and the wording of several numbers, as reports need them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from discreet.arrays import FloatVector
from papers.tables import shown


def slope(x: FloatVector, y: FloatVector) -> float:
    """Return the slope of log y against log x by least squares.

    >>> round(slope(np.array([1.0, 10.0, 100.0]), np.array([5.0, 0.5, 0.05])), 6)
    -1.0
    """
    keep = np.isfinite(y) & (y > 0)
    if np.unique(x[keep]).size < 2:
        return float("nan")
    return float(np.polyfit(np.log(x[keep]), np.log(y[keep]), 1)[0])


def geometric_mean(values: FloatVector) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.log(values).mean()))


def each(values: Mapping[str, float]) -> str:
    """Write numbers with their names.

    >>> each({"adult": 0.25, "bank": 2.0})
    'adult 0.25, bank 2'
    """
    return ", ".join(f"{name} {shown(value)}" for name, value in values.items())

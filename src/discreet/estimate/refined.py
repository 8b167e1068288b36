"""Counts cut finer along a curve: what sampling would do to unbinned scores.

Seen through its bins alone, an area takes examples of one bin as ties, and with
few, wide bins the spread of tied scores is not that of the scores. An estimator
that draws a curve through the bins says where inside a bin the examples of either
class lie; cutting every bin into pieces along that curve gives back a histogram
that is fine enough for DeLong's variance.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from discreet.arrays import FloatVector
from discreet.estimate.curves import Curves
from discreet.statistic import BinCounts
from discreet.statistic.observed import NoisyHistogram

_PIECES: Final = 8
_FINE_BINS: Final = 256
"""From so many filled bins on, what happens inside one does not matter."""


def refined(counts: NoisyHistogram, curves: Curves) -> BinCounts:
    """Return the counts of pieces of the bins, ascending.

    Ties stay together: where the curve joins its points by straight lines for
    them, or the bins are fine, the counts are returned as they are.
    """
    as_they_are = BinCounts(counts.negatives, counts.positives)
    knots = (curves.fpr + curves.tpr) / 2  # from the highest score down
    smooth = curves.path is not None or curves.interpolation == "pchip"
    if not smooth or not 2 < knots.size <= _FINE_BINS or np.isnan(knots).any():
        return as_they_are
    steps = np.arange(_PIECES) / _PIECES
    places = (knots[:-1, None] + np.diff(knots)[:, None] * steps).ravel()
    fpr, tpr = curves.roc.at(np.append(places, knots[-1]))
    return BinCounts(
        _pieces(fpr, counts.total_negatives), _pieces(tpr, counts.total_positives)
    )


def _pieces(rates: FloatVector, total: float) -> FloatVector:
    """Turn cumulative rates from the top down into counts, bins ascending."""
    found: FloatVector = total * np.maximum(np.diff(rates), 0.0)[::-1]
    return found

r"""Scores that take few values somewhere, seen by how rough a release is.

Isotonic calibration, single trees and rounding leave scores on steps that bins do not
tell apart. If all scores of a bin are one value, its curve is straight and its precision
a step, and a curve that bends inside the bin is too high: an average precision by a
quarter of its value, where one step holds half of the positives. Bins cannot show where
steps lie, but they show that there are some: bins then hold whole steps, not single
examples, and their totals jump about any smooth density.

*How sure.* The model's dispersion is how many times the variance of a total exceeds its
mean. Single examples have 1; some 16 are reached by scores that repeat. From 64 on
totals move by more than examples do.

*How many.* Let c be a bin's total and v the squared distance to what its neighbours'
densities suggest, per example and less the noise. Values of equal spacing put
k - 1/2 or k + 1/2 of them into a bin, so :math:`v \approx c (1/2k)^2` per example, or

.. math:: k = \tfrac12\sqrt{c/v}

of them, at least one. Values at random have a larger v, and the k of this formula is
then 1, as it should be for most bins. The curve is read at the ends of k equal parts of
a bin, along the curve that smooth scores would have, and every part is a tie.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from discreet.arrays import IntVector
from discreet.data.edges import even_places
from discreet.estimate.curves import Curves, RocPath
from discreet.estimate.ties import Ties
from discreet.statistic.observed import NoisyHistogram

ROUGH: Final = 32.0
"""Dispersion from which on a release is one of steps: between the grid's 16 and 64."""
STEPS_NOTE: Final = (
    "the scores take few values that bins do not tell apart; declare them "
    "(edges=discreet.Support(values)) to have every value counted"
)
_MANY: Final = 8
"""So many values in a bin are as good as a smooth curve."""
_NEIGHBOURS: Final = 1.5
"""Variance of a total about the mean of its two neighbours, over its own."""
_PIECES: Final = 8


def values_a_bin(observed: NoisyHistogram, ties: Ties) -> IntVector:
    """Return how many values each bin may hold, 0 where that does not matter.

    Ties hold one. They and gaps say nothing about the others.
    """
    total = observed.negatives + observed.positives
    width = np.diff(even_places(observed.edges))
    noise = 4 * observed.law.scale**2
    density, spread = total / width, noise / width**2
    known = ~(ties.tied | ties.gaps)
    inner = known[:-2] & known[1:-1] & known[2:]
    expected = width[1:-1] * (density[:-2] + density[2:]) / 2
    by_noise = noise + width[1:-1] ** 2 * (spread[:-2] + spread[2:]) / 4
    squared = ((total[1:-1] - expected) ** 2 - by_noise)[inner].sum()
    examples = np.maximum(total[1:-1], 0.0)[inner].sum()
    mass = squared / _NEIGHBOURS / max(examples, 1.0)
    found = np.sqrt(np.maximum(total, 0.0) / max(mass, 1.0)) / 2
    values: IntVector = np.maximum(np.round(found), 1).astype(np.int64)
    values[values >= _MANY] = 0
    values[ties.tied] = 1
    return values


def with_steps(curves: Curves, counts: NoisyHistogram, values: IntVector) -> Curves:
    """Join the ends of each bin's steps by straight lines; 0 leaves its curve as it is.

    ``counts`` are those that the curves were drawn through.
    """
    filled = (counts.positives != 0) | (counts.negatives != 0)
    values = values[filled][::-1]
    knots = (curves.fpr + curves.tpr) / 2
    path = curves.roc
    bent = path.places(_PIECES)
    places, tied = [knots[:1]], []
    for low, high, steps in zip(knots[:-1], knots[1:], values, strict=True):
        if steps == 0:
            points = np.append(bent[(bent > low) & (bent < high)], high)
        else:
            points = low + (high - low) * np.arange(1, steps + 1) / steps
        places.append(points)
        tied.append(np.full(points.size, steps > 0))
    fpr, tpr = (np.maximum.accumulate(v) for v in path.at(np.concatenate(places)))
    stepped = RocPath(fpr, tpr, "linear", np.concatenate(tied))
    return replace(curves, path=stepped, ties=values == 1)

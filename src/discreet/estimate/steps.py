r"""Scores that take few values somewhere, seen by how rough a release is.

Isotonic calibration, single trees and rounding leave scores on steps that bins do not
tell apart. If all scores of a bin are one value, its curve is straight and its precision
a step, and a curve that bends inside the bin is too high: an average precision by a
quarter of its value, where one step holds half of the positives. Bins cannot show where
steps lie, but they show that there are some: bins then hold whole steps, not single
examples, and their totals jump about any smooth density.

*How sure.* Two things must come together. The model's dispersion is how many times the
variance of a total exceeds its mean: single examples have 1, scores that repeat some 16,
and from 32 on totals move by more than examples do. But one heap, or a hump that is
narrower than its bins, has a large dispersion too. So the logarithms of densities must
lie off the cubic through their four neighbours by .1 in the median (smooth scores on the
tuning half of ``bench/zoo.py`` have at most .1, steps mostly .13 to 2), or bins stand
alone between empty ones, or ties were found already.

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

from discreet.arrays import BoolVector, FloatVector, IntVector
from discreet.data.edges import even_places
from discreet.estimate.curves import Curves, RocPath
from discreet.estimate.ties import Ties
from discreet.statistic.observed import NoisyHistogram

_ROUGH: Final = 32.0
"""Dispersion from which on totals hold more than examples: the grid has 16 and 64."""
_OFF: Final = 0.1
_FEWEST: Final = 3
"""Median distance of a log density to its neighbours' cubic, and fewest such places."""
_ALONE, _FILLED = 2, 4
"""So many bins alone between empty ones, among so many filled, show steps as well."""
_HEAVY, _EMPTY = 40.0, 8.0
"""Noise scales from which on a bin is filled, and below which it is empty."""
_NARROW: Final = 0.25
"""A bin of less than this share of its neighbours' width says too little."""
STEPS_NOTE: Final = (
    "the scores take few values that bins do not tell apart; declare them "
    "(edges=discreet.Support(values)) to have every value counted"
)
_MANY: Final = 8
"""So many values in a bin are as good as a smooth curve."""
_NEIGHBOURS: Final = 1.5
"""Variance of a total about the mean of its two neighbours, over its own."""
_PIECES: Final = 8
_LIMIT: Final = 1e-6


def is_stepped(observed: NoisyHistogram, ties: Ties, dispersion: float) -> bool:
    """Say whether totals jump as those of few score values do."""
    if dispersion < _ROUGH or observed.edges.scores.kind == "other":
        return False
    if ties.gaps.any():
        return True
    total = observed.negatives + observed.positives
    unit = max(observed.noise.scale, 1.0)
    filled = (total >= _HEAVY * unit) & ~ties.tied
    empty = total < _EMPTY * unit
    alone = filled[1:-1] & empty[:-2] & empty[2:]
    if np.count_nonzero(alone) >= _ALONE and np.count_nonzero(filled) >= _FILLED:
        return True
    off = _off_cubic(observed, filled)
    return off.size >= _FEWEST and float(np.median(off)) >= _OFF


def _off_cubic(observed: NoisyHistogram, filled: BoolVector) -> FloatVector:
    """Return how far log densities lie off the cubic through their four neighbours.

    Each in units of what an equal error of all five would make of it.
    """
    places = np.clip(even_places(observed.edges), _LIMIT, 1 - _LIMIT)
    z = np.log(places / (1 - places))
    width, middle = np.diff(z), (z[1:] + z[:-1]) / 2
    total = np.maximum(observed.negatives + observed.positives, 1.0)
    # Places beyond the limits coincide: such bins have no width and no density.
    filled = filled & (width > 0)
    log_density = np.log(total / np.where(width > 0, width, 1.0))
    k = np.arange(2, total.size - 2)
    around = k[:, None] + np.array([-2, -1, 1, 2])
    wide = width[k] >= _NARROW * np.minimum(width[k - 1], width[k + 1])
    k, around = (v[filled[k] & filled[around].all(axis=1) & wide] for v in (k, around))
    x = middle[around] - middle[k][:, None]
    weights = np.ones_like(x)  # Lagrange's, at 0
    for i in range(4):
        for j in set(range(4)) - {i}:
            weights[:, i] *= x[:, j] / (x[:, j] - x[:, i])
    off = log_density[k] - (weights * log_density[around]).sum(axis=1)
    found: FloatVector = np.abs(off) / np.sqrt(1 + (weights**2).sum(axis=1))
    return found


def values_a_bin(observed: NoisyHistogram, ties: Ties) -> IntVector:
    """Return how many values each bin may hold, 0 where that does not matter.

    Ties hold one. They and gaps say nothing about the others.
    """
    total = observed.negatives + observed.positives
    width = np.diff(even_places(observed.edges))
    noise = 4 * observed.noise.scale**2
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

r"""Repeated score values, seen in a release: ties in some bins, or steps everywhere.

Interpolation bends curves inside heavy bins, where ties make them straight. Two things
show ties: heavy bins beside empty ones (votes, rounded scores), and examples beyond
the farthest edges, whose scores are 0 or 1 for all that edges can tell.

*Steps.* Isotonic calibration, single trees and rounding leave scores on values that bins
do not tell apart. A curve that bends inside such a bin overstates average precision, by a
quarter where one step holds half of the positives. Totals that jump about any smooth
density show steps, where two things come together:

- The model's dispersion (variance of a total over its mean) is 32 or more; single examples
  have 1, scores that repeat some 16. One heap or a narrow hump has a large one too.
- Log densities lie off the cubic through their four neighbours by .1 in the median (smooth
  scores on the tuning half of ``bench/synthetic.py``: at most .1, steps mostly .13 to 2),
  or bins stand alone between empty ones, or ties were found already.

*How many.* Let c be a bin's total and v the squared distance to what its neighbours'
densities suggest, per example and less the noise. Values of equal spacing put k - 1/2 or
k + 1/2 of them into a bin, so :math:`v \approx c (1/2k)^2` and
:math:`k = \tfrac12\sqrt{c/v}`, at least one; for values at random v is larger and k is 1.
A bin is cut into k equal parts along the curve of smooth scores, and every part is a tie.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from discreet.arrays import BoolVector, FloatVector, IntVector
from discreet.data.edges import even_places
from discreet.estimate.curves import Curves, Interpolation, RocPath, runs
from discreet.statistic.observed import NoisyHistogram

_HEAVY: Final = 40.0
_EMPTY: Final = 8.0
"""A heavy bin holds so many examples or noise scales, an empty one less than so many."""
_FEWEST_TIES: Final = 4
_LEAST_SHARE: Final = 0.25
"""Fewer heavy bins, or a smaller share of all examples in them, are no pattern."""
_END: Final = 20.0
"""Noise scales of examples beyond the farthest edge from which on they are ties."""
_FAR: Final = 13.5
"""Logit of a farthest edge: a bin beyond it is as good as one value."""
_ROUGH: Final = 32.0
"""Dispersion from which on totals hold more than examples: the grid has 16 and 64."""
_OFF: Final = 0.1
_FEWEST_OFF: Final = 3
"""Median distance of a log density to its neighbours' cubic, and fewest such places."""
_ALONE, _FILLED = 2, 4
"""So many bins alone between empty ones, among so many filled, show steps as well."""
_NARROW: Final = 0.25
"""A bin of less than this share of its neighbours' width says too little."""
_MANY: Final = 8
"""So many values in a bin are as good as a smooth curve."""
_NEIGHBOURS: Final = 1.5
"""Variance of a total about the mean of its two neighbours, over its own."""
_PIECES: Final = 8
_LIMIT: Final = 1e-6
STEPS_NOTE: Final = (
    "the scores take few values that bins do not tell apart; declare them "
    "(edges=discreet.Support(values)) to have every value counted"
)


class Ties(NamedTuple):
    """Which bins hold one value, and which between such bins hold nothing."""

    tied: BoolVector
    gaps: BoolVector


def find_ties(observed: NoisyHistogram) -> Ties:
    """Find ties in a noisy release, in part of the bins or in all of them.

    Bins beyond the farthest edges are ties as soon as they hold 20 noise scales. A bin
    of 40 beside a run of bins of less than 8 that stands between others is a tie, and
    the run a gap, where there are four ties or more with a quarter of all examples.
    """
    unit = max(observed.noise.scale, 1.0)
    ends = end_ties(observed)
    heavy = (observed.totals >= _HEAVY * unit) & ~ends
    empty = observed.totals < _EMPTY * unit
    gaps = np.zeros_like(empty)
    for start, stop in runs(empty):
        if start > 0 and stop < empty.size:
            gaps[start:stop] = (heavy | ends)[[start - 1, stop]].any()
    tied = ends | (heavy & _beside(gaps))
    if not _pattern(tied, observed.totals):
        return Ties(ends, np.zeros_like(gaps))
    return Ties(tied, gaps)


def end_ties(observed: NoisyHistogram) -> BoolVector:
    """Return the bins beyond the farthest edges, where they hold enough to matter."""
    edges = observed.edges
    ends = np.zeros(len(edges), dtype=np.bool_)
    if edges.scores.kind == "other" or edges.atoms or len(edges) < 3:
        return ends
    z = edges.array[[1, -2]]
    if edges.scores.kind == "probability":
        z = np.log(z / (1 - z))
    ends[0], ends[-1] = z[0] <= -_FAR, z[1] >= _FAR
    return ends & (observed.totals >= _END * max(observed.noise.scale, 1.0))


def choose_interpolation(observed: NoisyHistogram) -> Interpolation:
    """Choose from the release: PCHIP, unless the scores sit on a few values.

    Ties show as heavy bins beside empty ones: a bin of 40 examples or more (40 noise
    scales under noise) with an empty neighbour (less than 8 noise scales). Where such
    bins are four or more and hold a quarter of the examples, segments are straight.
    """
    if observed.edges.atoms:
        return "linear"
    unit = max(observed.noise.scale, 1.0)
    heavy = observed.totals >= _HEAVY * unit
    empty = observed.totals < _EMPTY * unit * (not observed.exact) + 0.5
    tied = _pattern(heavy & _beside(empty), observed.totals)
    return "linear" if tied else "pchip"


def _beside(marked: BoolVector) -> BoolVector:
    beside = np.zeros_like(marked)
    beside[1:] |= marked[:-1]
    beside[:-1] |= marked[1:]
    return beside


def _pattern(tied: BoolVector, total: FloatVector) -> bool:
    many = np.count_nonzero(tied) >= _FEWEST_TIES
    return bool(many and total[tied].sum() >= _LEAST_SHARE * total.sum())


def is_stepped(observed: NoisyHistogram, ties: Ties, dispersion: float) -> bool:
    """Return whether totals jump as those of few score values do."""
    if dispersion < _ROUGH or observed.edges.scores.kind == "other":
        return False
    if ties.gaps.any():
        return True
    unit = max(observed.noise.scale, 1.0)
    filled = (observed.totals >= _HEAVY * unit) & ~ties.tied
    empty = observed.totals < _EMPTY * unit
    alone = filled[1:-1] & empty[:-2] & empty[2:]
    if np.count_nonzero(alone) >= _ALONE and np.count_nonzero(filled) >= _FILLED:
        return True
    off = _off_cubic(observed, filled)
    return off.size >= _FEWEST_OFF and float(np.median(off)) >= _OFF


def _off_cubic(observed: NoisyHistogram, filled: BoolVector) -> FloatVector:
    """Return how far log densities lie off the cubic through their four neighbours.

    Each in units of what an equal error of all five would make of it.
    """
    places = np.clip(even_places(observed.edges), _LIMIT, 1 - _LIMIT)
    z = np.log(places / (1 - places))
    width, middle = np.diff(z), (z[1:] + z[:-1]) / 2
    total = np.maximum(observed.totals, 1.0)
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
    sizes: FloatVector = np.abs(off) / np.sqrt(1 + (weights**2).sum(axis=1))
    return sizes


def values_a_bin(observed: NoisyHistogram, ties: Ties) -> IntVector:
    """Return how many values each bin may hold, 0 where that does not matter.

    Ties hold one. They and gaps say nothing about the others.
    """
    total = observed.totals
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
    number = np.sqrt(np.maximum(total, 0.0) / max(mass, 1.0)) / 2
    values: IntVector = np.maximum(np.round(number), 1).astype(np.int64)
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

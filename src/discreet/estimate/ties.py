"""Ties, seen in a release: bins that hold one score value, and the gaps beside them.

Interpolation bends curves inside heavy bins, where ties make them straight. Two things
show ties: heavy bins beside empty ones (votes, rounded scores), and examples beyond
the farthest edges, whose scores are 0 or 1 for all that edges can tell.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from discreet.arrays import BoolVector, FloatVector
from discreet.data.edges import Edges
from discreet.estimate.curves import Interpolation, runs
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
    total = observed.positives + observed.negatives
    unit = max(observed.noise.scale, 1.0)
    ends = end_ties(observed)
    heavy, empty = (total >= _HEAVY * unit) & ~ends, total < _EMPTY * unit
    gaps = np.zeros_like(empty)
    for start, stop in runs(empty):
        if start > 0 and stop < empty.size:
            gaps[start:stop] = (heavy | ends)[[start - 1, stop]].any()
    tied = ends | (heavy & _beside(gaps))
    if not _pattern(tied, total):
        return Ties(ends, np.zeros_like(gaps))
    return Ties(tied, gaps)


def end_ties(observed: NoisyHistogram) -> BoolVector:
    """Return the bins beyond the farthest edges, where they hold enough to matter."""
    total = observed.positives + observed.negatives
    found: BoolVector = total >= _END * max(observed.noise.scale, 1.0)
    return found & _beyond(observed.edges)


def choose_interpolation(observed: NoisyHistogram) -> Interpolation:
    """Choose from the release: PCHIP, unless the scores sit on a few values.

    Ties show as heavy bins beside empty ones: a bin of 40 examples or more (40 noise
    scales under noise) with a neighbour a fifth of a fifth of that. Where such
    bins are four or more and hold a quarter of the examples, segments are
    straight.
    """
    if observed.edges.atoms:
        return "linear"
    unit = max(observed.noise.scale, 1.0)
    total = observed.positives + observed.negatives
    heavy = total >= _HEAVY * unit
    empty = total < _EMPTY * unit * (not observed.exact) + 0.5
    return "linear" if _pattern(heavy & _beside(empty), total) else "pchip"


def _beyond(edges: Edges) -> BoolVector:
    """Say which bins lie beyond the farthest edges that tell scores apart."""
    found = np.zeros(len(edges), dtype=np.bool_)
    if edges.scores.kind == "other" or edges.atoms or len(edges) < 3:
        return found
    z = edges.array[[1, -2]]
    if edges.scores.kind == "probability":
        z = np.log(z / (1 - z))
    found[0], found[-1] = z[0] <= -_FAR, z[1] >= _FAR
    return found


def _beside(marked: BoolVector) -> BoolVector:
    found = np.zeros_like(marked)
    found[1:] |= marked[:-1]
    found[:-1] |= marked[1:]
    return found


def _pattern(tied: BoolVector, total: FloatVector) -> bool:
    many = np.count_nonzero(tied) >= _FEWEST_TIES
    return bool(many and total[tied].sum() >= _LEAST_SHARE * total.sum())

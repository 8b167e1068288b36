r"""What a release leaves open inside a bin: where a threshold really cuts it.

A curve through the counts says how smooth scores lie inside a bin. Scores on a grid of
1/k (the votes of k trees, scores rounded to two decimals) are not smooth: the multiple
at or above a threshold t is above it as a whole, as if smooth scores were cut at

.. math:: t_k = (\lceil t k \rceil - 1/2)/k ,

up to half a step from t. The truth may be any of the places of the grids that a release
allows, and a reader who does not know must allow for them all: ``possible_places``. So
it is where the release shows a grid and is read on it, the coarsest that fits.

A grid is ruled out by the bins that hold none of its multiples: examples there are not
on it. Their sum under additive noise has a known spread. Behind a randomiser whose
decoder has smoothed the counts, the law itself says how much worse they explain what
was sent when these bins are emptied (``Refits``).

Scores that heap at one place of a bin, on no grid, are not covered where the
release does not show them as ties.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol, runtime_checkable

import numpy as np

from discreet.arrays import BoolArray, BoolVector, FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.estimate.ties import choose_interpolation, find_ties
from discreet.statistic.observed import NoisyHistogram

STEPS: Final = (*range(8, 101), 128, 200, 250, 500, 1000)
"""Grids that scores may lie on: votes of so many trees, decimals. Coarser ones are seen
one by one, as ties in their bins; finer ones move a threshold by too little."""
_RULED_OUT: Final = 4.0
"""Standard deviations of noise above which empty bins are not empty, and the square
root of a loss of twice the log-likelihood that does not happen by chance."""
_AT_EDGES, _BETWEEN = 0.5, 1.5
"""Of half a step: what smoothed counts may hide at an edge, of which the bins tell part,
and between two, whose own counts are then off by part of a step too."""
_ROUNDING: Final = 1e-9


@runtime_checkable
class Refits(Protocol):
    """A law whose counts were decoded with a smoothness that scores may not have."""

    @property
    def otherwise(self) -> tuple[FloatVector, ...]:
        """Counts that another smoothness finds, where that may matter."""
        ...

    def lost_without(self, counts: FloatVector, held: BoolArray) -> FloatVector:
        """Return twice the log-likelihood lost if only ``held`` bins hold examples."""
        ...


class Places(NamedTuple):
    """The lowest and the highest place at which a threshold may really cut."""

    low: float
    high: float


def possible_steps(observed: NoisyHistogram, counts: NoisyHistogram) -> IntVector:
    """Return the grids of 1/steps that a release does not rule out."""
    edges, steps = observed.edges, np.array(STEPS)
    if edges.atoms or edges.scores.kind != "probability":
        return steps[:0]
    held = _held(edges, steps)
    if isinstance(observed.noise, Refits):
        lost = observed.noise.lost_without(_vector(counts), held)
        return steps[lost <= _RULED_OUT**2]
    noise = observed.noise.covariance(_vector(observed))
    variance = np.maximum(noise.negatives + noise.positives + 2 * noise.cross, 0.0)
    stray = ~held @ (observed.negatives + observed.positives)
    allowed: BoolVector = np.abs(stray) <= _RULED_OUT * np.sqrt(~held @ variance)
    return steps[allowed]


def possible_places(
    observed: NoisyHistogram, steps: IntVector, threshold: float
) -> Places:
    """Return between which places smooth scores may stand for the true ones.

    Counts that were not smoothed are known at the edges: there, no place but the
    threshold itself; between two edges, none outside them. Smoothed ones hide part of
    a step everywhere. A bin that is seen to hold ties may hold them anywhere.
    """
    t, low, high = threshold, threshold, threshold
    if steps.size:
        places = (np.ceil(t * steps - _ROUNDING) - 0.5) / steps
        low, high = min(t, float(places.min())), max(t, float(places.max()))
    values = observed.edges.array
    cut = int(np.searchsorted(values, t, side="right")) - 1
    at_edge = not 0 <= cut < values.size - 1 or values[cut] == t
    if isinstance(observed.noise, Refits):
        share = _AT_EDGES if at_edge else _BETWEEN
        return Places(t - share * (t - low), t + share * (high - t))
    if observed.edges.atoms or at_edge:
        return Places(t, t)
    bottom, top = float(values[cut]), float(values[cut + 1])
    if _tied(observed)[cut]:
        return Places(bottom, top)
    return Places(max(low, bottom), min(high, top))


def _held(edges: Edges, steps: IntVector) -> BoolArray:
    """Say for each grid (row) which bins hold a multiple; the last holds its end."""
    after = np.ceil(edges.array * steps[:, None] - _ROUNDING)
    after[:, -1] = steps + 1
    found: BoolArray = np.diff(after, axis=1) > 0
    return found


def _tied(observed: NoisyHistogram) -> BoolVector:
    if observed.exact:
        every = choose_interpolation(observed) == "linear"
        return np.full(len(observed.edges), every)
    return find_ties(observed).tied


def _vector(counts: NoisyHistogram) -> FloatVector:
    return np.concatenate([counts.negatives, counts.positives])

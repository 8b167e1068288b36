r"""Scores on a grid, seen in a release: the votes of k trees, scores rounded to cents.

If every score is a multiple of 1/k, bins without a multiple are empty. Their sum is known
to a few noise scales, and their neighbours say what smooth scores would have put there.
Bins with a multiple are not empty, or the scores are a few values somewhere. The coarsest
grid that leaves all of its empty bins empty is taken, or a round one near it.

A release on a grid is fitted as one of smooth scores, each spread over the grid's cell
around it: bins without a multiple vanish, and the model fits. Its counts are cut at the
half steps and put back on the multiples, which are ties.

*Grids that a release does not show.* A multiple of 1/k at or above a threshold t is above
it as a whole, as if smooth scores were cut at

.. math:: t_k = (\lceil t k \rceil - 1/2)/k ,

up to half a step from t. Error bars allow for all grids that the release does not rule out
(``possible_places``): the coarsest that fits need not be the true one. A grid is ruled out
by examples in bins without its multiples: by their sum under additive noise, and where a
decoder smoothed the counts by how much worse emptied bins explain what was sent. Heaps at
one place of a bin, on no grid, are not covered where the release does not show them as ties.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import BoolVector, FloatArray, FloatVector, IntVector
from discreet.data.edges import Edges, Listed, even_places
from discreet.estimate.curves import Curves, RocPath, Traced
from discreet.estimate.estimate import Interval
from discreet.estimate.ties import choose_interpolation, find_ties
from discreet.noise.arc_decoder import DecodedNoise
from discreet.statistic.observed import BinCovariance, NoiseDistribution, NoisyHistogram

_COARSEST, _FINEST = 8, 100
"""Fewer values than that are seen one by one, as ties in their bins."""
STEPS: Final = (*range(_COARSEST, _FINEST + 1), 128, 200, 250, 500, 1000)
"""Grids that scores may lie on unseen: finer ones move a threshold by too little."""
_HEAVY: Final = 40.0
_FEWEST: Final = 4
"""So many bins of so many examples or noise scales show what is between them."""
_EMPTY, _MOSTLY = 8.0, 0.9
"""Of the bins with a multiple between heavy ones, so many hold so many noise scales."""
_SURE: Final = 3.0
_MISSED: Final = 10.0
"""Empty bins hold at most so many standard deviations of their noise, where smooth
scores would have put at least so many."""
_ROUNDING: Final = 1e-9
_ROUND: Final = (10, 20, 25, 50, 100)
_NEAR: Final = 1.25
"""Round numbers of steps go before others up to so many times coarser: where few
scores lie, bins cannot tell 48 steps from 50."""
_RULED_OUT: Final = 4.0
"""Standard deviations of noise above which empty bins are not empty, and the square
root of a loss of twice the log-likelihood that does not happen by chance."""
_AT_EDGES, _BETWEEN = 0.5, 1.5
"""Of half a step: what smoothed counts may hide at an edge, of which the bins tell part,
and between two, whose own counts are then off by part of a step too."""


class GridCounts(NamedTuple):
    """Counts of either class at the multiples of 1/steps, ascending."""

    negatives: FloatVector
    positives: FloatVector

    @property
    def steps(self) -> int:
        """How many steps there are from 0 to 1."""
        return self.negatives.size - 1


@dataclass(frozen=True, eq=False)
class ScoreGrid:
    """A grid of 1/steps and the bins of a release that hold a multiple."""

    steps: int
    held: BoolVector

    @classmethod
    def over(cls, edges: Edges, steps: int) -> ScoreGrid:
        """Place the multiples in bins; the last bin holds its upper end."""
        return cls(steps, _held(edges, np.array([steps]))[0])

    def spread(self, observed: NoisyHistogram) -> NoisyHistogram:
        """Return the histogram of scores spread over the grid's cells."""
        first = np.ceil(observed.edges.array[:-1] * self.steps - _ROUNDING)
        inner = (first[self.held][1:] - 0.5) / self.steps
        values = (0.0, *inner.tolist(), 1.0)
        return replace(
            observed,
            edges=Edges.realise(Listed(values), observed.edges.scores),
            negatives=observed.negatives[self.held],
            positives=observed.positives[self.held],
            noise=_NoiseOfSome(observed.noise, observed.vector, self.held),
        )

    def at_multiples(self, spread: NoisyHistogram) -> GridCounts:
        """Cut the counts of spread scores at the half steps."""
        from scipy.interpolate import PchipInterpolator  # noqa: PLC0415

        halves = (np.arange(self.steps) + 0.5) / self.steps
        places = np.concatenate([[0.0], halves, [1.0]])
        x, at = (np.arcsin(np.sqrt(v)) for v in (spread.edges.array, places))
        cut = (
            np.diff(PchipInterpolator(x, np.append(0.0, np.cumsum(counts)))(at))
            for counts in (spread.negatives, spread.positives)
        )
        return GridCounts(*(np.maximum(counts, 0.0) for counts in cut))

    def widened(self, rows: FloatArray) -> FloatArray:
        """Return rows of counts with columns for the empty bins, all 0."""
        wide = np.zeros((len(rows), 2 * self.held.size))
        wide[:, np.tile(self.held, 2)] = rows
        return wide

    def responding(
        self, response: Callable[[FloatArray], FloatArray]
    ) -> Callable[[FloatArray], FloatArray]:
        """Return how counts respond when nothing moves those of the empty bins."""
        held = np.tile(self.held, 2)
        return lambda rows: self.widened(response(rows[:, held]))

    def curves(self, counts: NoisyHistogram, multiples: GridCounts) -> Curves:
        """Draw the curves through the multiples."""
        whole = np.ones(self.held.size, dtype=np.bool_)
        drawn = Curves.from_histogram(counts, "linear", ties=whole)
        fpr, tpr = (_rates(each) for each in multiples)
        tied = np.ones(fpr.size - 1, dtype=np.bool_)
        places = np.append(np.inf, np.arange(self.steps, -1, -1) / self.steps)
        filled = np.append(True, (np.diff(fpr) > 0) | (np.diff(tpr) > 0))
        return replace(
            drawn,
            path=RocPath(fpr, tpr, "linear", tied),
            traced=Traced(places[filled], fpr[filled], tpr[filled]),
        )


@dataclass(frozen=True, eq=False)
class _NoiseOfSome:
    """The noise distribution of some of a release's bins."""

    noise: NoiseDistribution
    at: FloatVector
    kept: BoolVector

    @property
    def scale(self) -> float:
        """That of the release."""
        return self.noise.scale

    def covariance(self, at: FloatVector) -> BinCovariance:
        """Return that of the bins that are kept."""
        del at
        each, kept = self.noise.covariance(self.at), self.kept
        return BinCovariance(
            each.negatives[kept], each.positives[kept], each.cross[kept]
        )

    def sample(
        self, at: FloatVector, size: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draw noise of the whole release."""
        del at
        return self.noise.sample(self.at, size, rng)[:, np.tile(self.kept, 2)]


def find_grid(observed: NoisyHistogram) -> ScoreGrid | None:
    """Return the coarsest grid on which all scores lie, as far as a release shows it."""
    edges = observed.edges
    if edges.atoms or edges.scores.kind != "probability" or observed.exact:
        return None
    total, unit = observed.totals, max(observed.noise.scale, 1.0)
    heavy = total >= _HEAVY * unit
    if np.count_nonzero(heavy) < _FEWEST:
        return None
    every = np.arange(_COARSEST, _FINEST + 1)
    held = _held(edges, every)
    sd = np.sqrt((~held * _variance_of_totals(observed)).sum(axis=1))
    left = (~held * total).sum(axis=1)
    empty = ~held.all(axis=1) & (np.abs(left) <= _SURE * sd)
    enough = empty & (np.count_nonzero(held & heavy, axis=1) >= _FEWEST)
    first, last = np.flatnonzero(heavy)[[0, -1]]
    widths = np.diff(even_places(edges))
    fitting = []
    for k in np.flatnonzero(enough):
        inside = total[first : last + 1][held[k][first : last + 1]]
        # Where multiples are missing, the scores are few values and not on a grid.
        filled = float(np.mean(inside >= _EMPTY * unit)) >= _MOSTLY
        missed = _MISSED * max(float(sd[k]), 1.0)
        if filled and _missing(held[k], heavy, total, widths) > missed:
            fitting.append(int(every[k]))
    if not fitting:
        return None
    near = [r for r in _ROUND if r in fitting and r <= _NEAR * fitting[0]]
    return ScoreGrid.over(edges, min(near, default=fitting[0]))


def _missing(
    held: BoolVector, heavy: BoolVector, total: FloatVector, widths: FloatVector
) -> float:
    """Return what smooth scores would have put into empty bins between heavy ones."""
    filled = np.flatnonzero(held)
    void = np.flatnonzero(~held)
    void = void[(void > filled[0]) & (void < filled[-1])]
    if not void.size:
        return 0.0
    k = np.searchsorted(filled, void)
    left, right = filled[k - 1], filled[k]
    density = total / widths
    least = np.minimum(density[left], density[right])
    return float((least * widths[void])[heavy[left] & heavy[right]].sum())


def possible_steps(observed: NoisyHistogram, counts: NoisyHistogram) -> IntVector:
    """Return the grids of 1/steps that a release does not rule out."""
    edges, steps = observed.edges, np.array(STEPS)
    if edges.atoms or edges.scores.kind != "probability":
        return steps[:0]
    held = _held(edges, steps)
    if isinstance(observed.noise, DecodedNoise):
        lost = observed.noise.lost_without(counts.vector, held)
        return steps[lost <= _RULED_OUT**2]
    sd = np.sqrt((~held * _variance_of_totals(observed)).sum(axis=1))
    left = (~held * observed.totals).sum(axis=1)
    possible: IntVector = steps[np.abs(left) <= _RULED_OUT * sd]
    return possible


def possible_places(
    observed: NoisyHistogram, steps: IntVector, threshold: float
) -> Interval:
    """Return between which places a threshold may really cut smooth scores.

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
    if isinstance(observed.noise, DecodedNoise):
        share = _AT_EDGES if at_edge else _BETWEEN
        return Interval(t - share * (t - low), t + share * (high - t))
    if observed.edges.atoms or at_edge:
        return Interval(t, t)
    bottom, top = float(values[cut]), float(values[cut + 1])
    if observed.exact:
        tied = choose_interpolation(observed) == "linear"
    else:
        tied = bool(find_ties(observed).tied[cut])
    return Interval(bottom, top) if tied else Interval(max(low, bottom), min(high, top))


def _held(edges: Edges, steps: IntVector) -> NDArray[np.bool_]:
    """Return for each grid (row) which bins hold a multiple; the last holds its end."""
    after = np.ceil(edges.array * steps[:, None] - _ROUNDING)
    after[:, -1] = steps + 1
    return np.diff(after, axis=1) > 0


def _variance_of_totals(observed: NoisyHistogram) -> FloatVector:
    noise = observed.covariance
    return np.maximum(noise.negatives + noise.positives + 2 * noise.cross, 0.0)


def _rates(counts: FloatVector) -> FloatVector:
    running = np.append(0.0, np.cumsum(counts[::-1]))
    return np.minimum(running / float(running[-1]), 1.0)

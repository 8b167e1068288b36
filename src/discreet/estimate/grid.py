r"""Scores on a grid, seen in a release: the votes of k trees, scores rounded to cents.

If every score is a multiple of 1/k, bins without a multiple are empty. Together they
are a test that little noise spoils: their sum is known to a few noise scales, and their
neighbours say what smooth scores would have put there. Bins with a multiple are not
empty, or the scores are a few values somewhere. The coarsest grid that leaves
all of its empty bins empty is taken, or a round one near it.

A release on a grid is read as one of smooth scores, each spread over the grid's cell
around it: the bins then reach from one half step to another, those without a multiple
vanish, and the model fits. The counts it finds are cut at the half steps and put back
on the multiples, which are ties: straight lines in ROC, steps in PR.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from discreet.arrays import BoolVector, FloatArray, FloatVector
from discreet.data.edges import Edges, Listed, even_places
from discreet.estimate.curves import Curves, RocPath, Traced
from discreet.statistic.observed import BinCovariance, NoiseDistribution, NoisyHistogram

_COARSEST, _FINEST = 8, 100
"""Fewer values than that are seen one by one, as ties in their bins."""
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


class Atoms(NamedTuple):
    """Counts of either class at the multiples of 1/steps, ascending."""

    negatives: FloatVector
    positives: FloatVector

    @property
    def steps(self) -> int:
        """How many steps there are from 0 to 1."""
        return self.negatives.size - 1


@dataclass(frozen=True, eq=False)
class Grid:
    """A grid of 1/steps and the bins of a release that hold a multiple."""

    steps: int
    first: FloatVector
    """The least multiple in each bin, as a number of steps."""
    held: BoolVector

    @classmethod
    def over(cls, edges: Edges, steps: int) -> Grid:
        """Place the multiples in bins; the last bin holds its upper end."""
        low, high = edges.array[:-1] * steps, edges.array[1:] * steps
        first = np.ceil(low - _ROUNDING)
        last = np.ceil(high - _ROUNDING) - 1
        last[-1] = steps
        return cls(steps, first, first <= last)

    def spread(self, observed: NoisyHistogram) -> NoisyHistogram:
        """Return the histogram of scores spread over the grid's cells."""
        inner = (self.first[self.held][1:] - 0.5) / self.steps
        values = (0.0, *inner.tolist(), 1.0)
        return replace(
            observed,
            edges=Edges.realise(Listed(values), observed.edges.scores),
            negatives=observed.negatives[self.held],
            positives=observed.positives[self.held],
            noise=_Kept(observed.noise, _vector(observed), np.tile(self.held, 2)),
        )

    def atoms(self, spread: NoisyHistogram) -> Atoms:
        """Cut the counts of spread scores at the half steps."""
        from scipy.interpolate import PchipInterpolator  # noqa: PLC0415

        halves = (np.arange(self.steps) + 0.5) / self.steps
        places = np.concatenate([[0.0], halves, [1.0]])
        x, at = (np.arcsin(np.sqrt(v)) for v in (spread.edges.array, places))
        cut = (
            np.diff(PchipInterpolator(x, np.append(0.0, np.cumsum(counts)))(at))
            for counts in (spread.negatives, spread.positives)
        )
        return Atoms(*(np.maximum(counts, 0.0) for counts in cut))

    def widened(self, response: FloatArray) -> FloatArray:
        """Return a response with rows and columns for the empty bins, all 0."""
        kept = np.flatnonzero(np.tile(self.held, 2))
        found = np.zeros((2 * self.held.size, 2 * self.held.size))
        found[np.ix_(kept, kept)] = response
        return found

    def widened_rows(self, rows: FloatArray) -> FloatArray:
        """Return rows of counts with columns for the empty bins, all 0."""
        found = np.zeros((len(rows), 2 * self.held.size))
        found[:, np.tile(self.held, 2)] = rows
        return found

    def binned(
        self, observed: NoisyHistogram, spread: NoisyHistogram
    ) -> NoisyHistogram:
        """Return counts of spread scores in the release's own bins."""
        classes = np.zeros((2, self.held.size))
        classes[:, self.held] = spread.negatives, spread.positives
        return replace(observed, negatives=classes[0], positives=classes[1])

    def curves(self, counts: NoisyHistogram, atoms: Atoms) -> Curves:
        """Draw the curves through the multiples."""
        whole = np.ones(self.held.size, dtype=np.bool_)
        drawn = Curves.from_histogram(counts, "linear", ties=whole)
        fpr, tpr = (_rates(each) for each in atoms)
        tied = np.ones(fpr.size - 1, dtype=np.bool_)
        places = np.append(np.inf, np.arange(atoms.steps, -1, -1) / atoms.steps)
        filled = np.append(True, (np.diff(fpr) > 0) | (np.diff(tpr) > 0))
        return replace(
            drawn,
            path=RocPath(fpr, tpr, "linear", tied),
            traced=Traced(places[filled], fpr[filled], tpr[filled]),
        )

    def note(self) -> str:
        """Say what was found, and how to do better."""
        return (
            f"the scores lie on a grid of 1/{self.steps}; declare it "
            f"(edges=discreet.Grid(1/{self.steps})) to have every value counted"
        )


@dataclass(frozen=True, eq=False)
class _Kept:
    """The law of some of a release's counts."""

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
        found = self.noise.covariance(self.at)
        kept = self.kept[: self.kept.size // 2]
        return BinCovariance(
            found.negatives[kept], found.positives[kept], found.cross[kept]
        )

    def sample(
        self, at: FloatVector, size: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draw noise of the whole release."""
        del at
        drawn: FloatArray = self.noise.sample(self.at, size, rng)[:, self.kept]
        return drawn


def find_grid(observed: NoisyHistogram) -> Grid | None:
    """Return the coarsest grid on which all scores lie, as far as a release shows it."""
    edges = observed.edges
    if edges.atoms or edges.scores.kind != "probability" or observed.exact:
        return None
    total = observed.negatives + observed.positives
    heavy = total >= _HEAVY * max(observed.noise.scale, 1.0)
    if np.count_nonzero(heavy) < _FEWEST:
        return None
    noise = observed.noise.covariance(_vector(observed))
    variance = np.maximum(noise.negatives + noise.positives + 2 * noise.cross, 0.0)
    widths = np.diff(even_places(edges))

    unit = max(observed.noise.scale, 1.0)
    first, last = np.flatnonzero(heavy)[[0, -1]]

    def gapped(held: BoolVector) -> bool:
        """Say whether multiples are missing: then the scores are few, not on a grid."""
        inside = total[first : last + 1][held[first : last + 1]]
        return float(np.mean(inside >= _EMPTY * unit)) < _MOSTLY

    def fits(steps: int) -> bool:
        held = Grid.over(edges, steps).held
        sd = float(np.sqrt(variance[~held].sum()))
        if held.all() or abs(float(total[~held].sum())) > _SURE * sd:
            return False
        if np.count_nonzero(heavy & held) < _FEWEST or gapped(held):
            return False
        return _missing(held, heavy, total, widths) > _MISSED * max(sd, 1.0)

    steps = next(filter(fits, range(_COARSEST, _FINEST + 1)), None)
    if steps is None:
        return None
    near = [r for r in _ROUND if steps <= r <= _NEAR * steps and fits(r)]
    return Grid.over(edges, min(near, default=steps))


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


def _rates(counts: FloatVector) -> FloatVector:
    running = np.append(0.0, np.cumsum(counts[::-1]))
    rates: FloatVector = np.minimum(running / running[-1], 1.0)
    return rates


def _vector(observed: NoisyHistogram) -> FloatVector:
    return np.concatenate([observed.negatives, observed.positives])

r"""Where a threshold cuts a bin: how much of either class lies at or above it.

At an edge nothing is cut. Between two edges the threshold's point on the estimated ROC
curve says how a bin is cut (:mod:`discreet.estimate.curves`). Where the curve
has no points inside a bin, the cumulative counts of each class are joined by PCHIP on
the scale of the logit (of the score itself where it is no probability), on which
densities are smooth. Straight lines on the same scale are the other shape that the bin
may have, and all or none of its examples are the limits.

At the highest possible score (a threshold of 1) only ties are left, and nobody counted
them apart: forests that agree and clipped scores have them, smooth scores have none. A
last bin that is narrow is taken to hold nothing else, a wide one none; either may be
the case.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.data.edges import Edges
from discreet.estimate.curves import ThresholdPath
from discreet.estimate.fit import Fit
from discreet.estimate.score_grid import GridCounts
from discreet.statistic.observed import NoisyHistogram

_ROUNDING: Final = 1e-12
_NARROW: Final = 1e-3
"""Share of the scores' range up to which a last bin is taken for ties at its end."""
_AROUND: Final = 3
"""So many edges on either side decide the shape inside a bin."""


class Shares(NamedTuple):
    """The share of each bin at or above a threshold, of negatives and of positives."""

    negatives: FloatVector
    positives: FloatVector


class Cut(NamedTuple):
    """The shares as a curve has them, as a straight line has them, and their limits."""

    curved: Shares
    straight: Shares
    least: FloatVector
    most: FloatVector


def cut_of(fit: Fit, t: float) -> Cut:
    """Return how much of each bin and class of a reading lies at or above a threshold."""
    return cut_at(fit.counts, t, fit.atoms, fit.along)


def cut_at(
    counts: NoisyHistogram,
    t: float,
    atoms: GridCounts | None = None,
    along: ThresholdPath | None = None,
) -> Cut:
    """Return how much of each bin and class lies at or above a threshold.

    Where scores lie on a grid, ``atoms`` say what is at its multiples; ``along`` is the
    curve that cuts the bins.
    """
    even, least, most = shares_above(counts.edges, t)
    classes = (counts.negatives, counts.positives)
    (cut,) = np.flatnonzero(most != least) if (most != least).any() else (None,)
    if cut is None:
        return Cut(Shares(even, even), Shares(even, even), least, most)
    if t == counts.edges.array[-1] and atoms is None:
        return _at_the_end(counts.edges, least, most)
    if atoms is not None:
        return _between_atoms(counts.edges, atoms, int(cut), t, least, most)
    curved: list[FloatVector] = []
    straight: list[FloatVector] = []
    for bins in classes:
        bent, line = _inside(counts.edges, bins, int(cut), t) or (even[cut], even[cut])
        for share, kept in ((bent, curved), (line, straight)):
            found = least.copy()
            found[cut] = share
            kept.append(found)
    if along is not None:
        curved = _on_curve(along, int(cut), t, curved)
    return Cut(Shares(*curved), Shares(*straight), least, most)


def _on_curve(
    along: ThresholdPath, cut: int, t: float, without: list[FloatVector]
) -> list[FloatVector]:
    """Cut a bin where a curve has the threshold; a class that it lacks as without."""
    shares = []
    rates = along.at(np.array([t]))
    for rate, above, before in zip(rates, (along.fpr, along.tpr), without, strict=True):
        found, held = before.copy(), above[cut] - above[cut + 1]
        if held > 0:
            found[cut] = (rate[0] - above[cut + 1]) / held
        shares.append(found)
    return shares


def shares_above(
    edges: Edges, t: float
) -> tuple[FloatVector, FloatVector, FloatVector]:
    """Return the share of each bin at or above t: as a guess, at least, at most."""
    values = edges.array
    if edges.atoms:
        exact = (values[:-1] >= t).astype(np.float64)
        return exact, exact, exact
    most = (np.append(values[1:-1], np.inf) > t).astype(np.float64)
    if t > values[-1]:
        most[:] = 0.0
    least = (values[:-1] >= t).astype(np.float64)
    cut = np.flatnonzero(most != least)
    guess = least.copy()
    if cut.size:
        (k,) = cut
        width = values[k + 1] - values[k]
        guess[k] = (values[k + 1] - t) / width if math.isfinite(width) else 0.5
    return guess, least, most


def _at_the_end(edges: Edges, least: FloatVector, most: FloatVector) -> Cut:
    """Cut the last bin at its upper end: all of it is there, or nothing."""
    values = edges.array
    narrow = values[-1] - values[-2] <= _NARROW * (values[-1] - values[0])
    guess, other = (most, least) if narrow else (least, most)
    return Cut(Shares(guess, guess), Shares(other, other), least, most)


def confusion_weights(above: FloatVector | Shares) -> FloatArray:
    """Return TP, FN, FP, TN as sums over the negatives', then the positives' bins."""
    of_n, of_p = above if isinstance(above, Shares) else (above, above)
    none = np.zeros_like(of_p)
    return np.stack(
        [
            np.append(none, of_p),
            np.append(none, 1 - of_p),
            np.append(of_n, none),
            np.append(1 - of_n, none),
        ]
    )


def _between_atoms(
    edges: Edges,
    atoms: GridCounts,
    cut: int,
    t: float,
    least: FloatVector,
    most: FloatVector,
) -> Cut:
    """Cut a bin between two multiples of a grid: only how many are at each is unsure."""
    places = np.arange(atoms.steps + 1) / atoms.steps
    inside = edges.bins_of(places) == cut
    above = inside & (places >= t - _ROUNDING)
    shares, even = [], float(above.sum()) / max(float(inside.sum()), 1.0)
    for counts in atoms:
        held = float(counts[inside].sum())
        found = least.copy()
        found[cut] = float(counts[above].sum()) / held if held > 0 else even
        shares.append(found)
    plain = least.copy()
    plain[cut] = even
    return Cut(Shares(*shares), Shares(plain, plain), least, most)


def _inside(
    edges: Edges, counts: FloatVector, cut: int, t: float
) -> tuple[float, float] | None:
    """Return the share above t of one bin, by a curve and by a straight line.

    None where the bin holds nothing or ends where the scale has no end.
    """
    from scipy.interpolate import PchipInterpolator  # noqa: PLC0415 - slow to import

    z = _scale(edges, edges.array)
    near = slice(max(cut - _AROUND, 0), min(cut + _AROUND + 2, z.size))
    running = np.append(0.0, np.cumsum(np.maximum(counts, 0.0)))
    held = running[cut + 1] - running[cut]
    known = np.isfinite(z[near])
    if not (held > 0 and np.isfinite(z[cut : cut + 2]).all()):
        return None
    place = float(_scale(edges, np.array([t]))[0])
    below = float(PchipInterpolator(z[near][known], running[near][known])(place))
    bent = (running[cut + 1] - below) / held
    line = (z[cut + 1] - place) / (z[cut + 1] - z[cut])
    return min(max(bent, 0.0), 1.0), float(line)


def _scale(edges: Edges, scores: FloatVector) -> FloatVector:
    if edges.scores.kind != "probability":
        return scores
    with np.errstate(divide="ignore"):
        found: FloatVector = np.log(scores) - np.log1p(-scores)
    return found

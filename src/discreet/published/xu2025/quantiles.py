"""Quantiles of scores, from a noisy tree or exact, and the ECDF drawn through them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import FloatArray, FloatVector
from discreet.data.edges import Edges
from discreet.errors import InputError, PlanError, ReleaseError
from discreet.estimate.curves import Interpolation


def quantile_fractions(quantiles: int) -> FloatVector:
    """Return the Q fractions 0, 1/(Q-1), .., 1 of Xu and Cormode (2025)."""
    if quantiles < 2:
        raise PlanError(f"need at least 2 quantiles, got {quantiles}")
    return np.linspace(0.0, 1.0, quantiles)


def tree_quantiles(
    levels: Sequence[FloatVector], edges: Edges, fractions: FloatVector
) -> FloatVector:
    r"""Find the scores below which these fractions of the examples lie.

    Each search walks down the tree: at a node it passes over children while the
    mass to the left, counts below zero taken as zero, stays under the target,
    and then enters the next one. It stops at the ground, or as soon as the mass
    is within half an average leaf of the target, and returns the left edge of
    the node it stands on. A larger fraction never ends further left.

    That is the papers' search (Cormode 2023, section 2.3, with the choices of
    the code released with Xu 2025). The left edge is half a leaf too low on
    average, for both classes alike, so that an ROC curve hardly notices; still
    a reason for leaves much finer than the quantiles.

    >>> from discreet.data.edges import Uniform
    >>> edges = Edges.realise(Uniform(4))
    >>> tree = [np.array([6.0, 2.0]), np.array([2.0, 4.0, 1.0, 1.0])]
    >>> tree_quantiles(tree, edges, np.array([0.0, 0.5, 0.8, 1.0])).tolist()
    [0.0, 0.25, 0.5, 0.75]
    """
    leaves = levels[-1].size
    if leaves != len(edges):
        raise ReleaseError(f"{leaves} leaves do not fit edges of {len(edges)} bins")
    close = 0.5 / leaves
    node = np.zeros(fractions.size, dtype=np.intp)
    left = np.zeros(fractions.size)  # mass to the left of the node
    place = np.zeros(fractions.size, dtype=np.intp)  # the node's first leaf
    searching = np.ones(fractions.size, dtype=np.bool_)
    above = 1
    for level in levels:
        total = float(level.sum())
        if total <= 0:
            raise ReleaseError(
                "the released number of examples is not positive: too few "
                "examples for this epsilon"
            )
        mass = np.maximum(level / total, 0.0)
        branching = level.size // above
        node[searching] *= branching
        passing = searching.copy()
        for _ in range(branching - 1):
            at = np.where(passing, node, 0)
            passing &= left + mass[at] < fractions
            left[passing] += mass[node[passing]]
            node[passing] += 1
        place[searching] = node[searching] * (leaves // level.size)
        searching &= np.abs(fractions - left) >= close
        above = level.size
    return edges.array[place]


def exact_quantiles(scores: FloatVector, fractions: FloatVector) -> FloatVector:
    """Return the exact quantiles (EQ): the reference that needs the raw scores.

    Linear between neighbouring scores, as the papers take them. For comparison
    only: nothing about it is private.
    """
    if scores.size == 0:
        raise InputError("there are no scores to take quantiles of")
    return np.asarray(np.quantile(scores, fractions), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Ecdf:
    r"""A cumulative distribution :math:`\Phi` through knots, with jumps.

    ``scores`` do not fall and ``heights`` do not fall; heights lie in [0, 1].
    A run of equal scores is merged into one place where :math:`\Phi` jumps from
    the run's first height to its last one: a value that several quantiles share
    holds that much mass. Between places the knots are joined linearly or by
    PCHIP, each stretch between two jumps on its own (PCHIP needs increasing
    places, and a slope across a jump means nothing). Below the first place
    :math:`\Phi` is 0, from the last one on it is 1.
    """

    scores: FloatVector
    heights: FloatVector
    interpolation: Interpolation = "pchip"

    def __post_init__(self) -> None:
        if self.scores.shape != self.heights.shape or self.scores.ndim != 1:
            raise InputError("an ECDF is two equally long vectors")
        if self.scores.size == 0:
            raise InputError("an ECDF needs at least 1 knot")
        if (np.diff(self.scores) < 0).any() or (np.diff(self.heights) < 0).any():
            raise InputError("an ECDF's scores and heights must not fall")
        if self.heights[0] < 0 or self.heights[-1] > 1:
            raise InputError("an ECDF's heights lie in [0, 1]")

    @classmethod
    def through(
        cls, quantiles: FloatVector, interpolation: Interpolation = "pchip"
    ) -> Ecdf:
        """Join evenly spaced quantiles."""
        return cls(quantiles, quantile_fractions(quantiles.size), interpolation)

    @cached_property
    def _runs(self) -> tuple[FloatVector, FloatVector, FloatVector]:
        """Places, and the heights where each one's jump starts and ends."""
        places, first = np.unique(self.scores, return_index=True)
        last = np.append(first[1:], self.scores.size) - 1
        return places, self.heights[first], self.heights[last]

    @property
    def places(self) -> FloatVector:
        """The distinct scores of the knots."""
        return self._runs[0]

    @cached_property
    def _cubics(self) -> FloatArray:
        """The coefficients of each gap between places, highest power first."""
        from scipy.interpolate import PchipInterpolator  # noqa: PLC0415 - slow import

        places, low, high = self._runs
        gaps = np.diff(places)
        cubics = np.zeros((4, gaps.size))
        cubics[2], cubics[3] = (low[1:] - high[:-1]) / gaps, high[:-1]
        if self.interpolation == "linear":
            return cubics
        jumps = np.flatnonzero(high[1:-1] > low[1:-1]) + 1
        ends = np.concatenate([[0], jumps, [places.size - 1]])
        for start, stop in pairwise(ends):
            if stop - start < 2:
                continue  # two knots: PCHIP is the straight line
            y = low[start : stop + 1].copy()
            y[0] = high[start]
            cubics[:, start:stop] = PchipInterpolator(places[start : stop + 1], y).c
        return cubics

    def before(self, scores: FloatVector) -> FloatVector:
        r"""Return the left limit :math:`\Phi(s-)`."""
        return self._evaluate(scores, np.searchsorted(self.places, scores, "left"))

    def at(self, scores: FloatVector) -> FloatVector:
        r"""Return :math:`\Phi(s)`, the share of scores up to s."""
        return self._evaluate(scores, np.searchsorted(self.places, scores, "right"))

    def _evaluate(self, scores: FloatVector, passed: NDArray[np.intp]) -> FloatVector:
        """Evaluate in the gap after ``passed`` places."""
        places = self.places
        result: FloatVector = (passed == places.size).astype(np.float64)
        inside = (passed > 0) & (passed < places.size)
        gap = passed[inside] - 1
        step = scores[inside] - places[gap]
        c3, c2, c1, c0 = self._cubics[:, gap]
        result[inside] = np.clip(((c3 * step + c2) * step + c1) * step + c0, 0.0, 1.0)
        return result

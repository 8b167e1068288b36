r"""The range-query baseline: Barczewski, Mawass and Ramon (2025).

As Xu and Cormode (2025, section 5.2) describe and run it: the rates above N
evenly spaced thresholds are answered as range queries on a binary tree of noisy
counts, each rate is moved by a smoothing variable :math:`v_i` so that the series
is monotone and inside [0, 1] with the least :math:`\sum |v_i|` (l1) or
:math:`\sum v_i^2` (l2), and thresholds are joined linearly. Both classes are asked
at the same thresholds, and neither quantiles nor consistency are used.

Two forms of the noise are here. ``RangeQueries`` reads a released tree: a query is
the sum of at most one run of siblings a level, h/2 noisy counts on average in a
binary tree. ``simulate_path_noise`` is the released code's: every threshold gets
*all* the noises on its path to the root, :math:`L = \lceil \log_2 N \rceil + 1` of
them at scale L/eps. That is eps-DP too (the step at an example's bin is a sum of
tree nodes, at most one per level, so moving their noises by one hides it), but each
answer has variance :math:`2 L^3/\epsilon^2`, the worst case of the tree's.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.errors import PlanError, ReleaseError
from discreet.estimate.fit import Fit
from discreet.noise.laplace import simulate_discrete_laplace
from discreet.published.xu2025.fedcurve import FedCurve
from discreet.published.xu2025.quantiles import Ecdf
from discreet.published.xu2025.tree_fit import ScoreCurves, read_tree
from discreet.statistic.hierarchy import Hierarchy, NoisyTree
from discreet.statistic.observed import NoisyHistogram

Norm: TypeAlias = Literal["l1", "l2"]


def counts_above(levels: Sequence[FloatVector]) -> FloatVector:
    """Answer the range query above every edge of the leaves, the top edge last.

    What lies above an edge is the right siblings of the leaf below it, of that
    leaf's parent, and so on: the fewest nodes that cover it. The first answer,
    above the lowest edge, is the sum of the top level.

    >>> counts_above([np.array([3.0, 5.0]), np.array([1.0, 2.0, 1.0, 4.0])]).tolist()
    [8.0, 7.0, 5.0, 4.0, 0.0]
    """
    above = np.zeros(1)
    for level in levels:
        siblings = level.reshape(above.size, -1)
        right = siblings[:, ::-1].cumsum(axis=1)[:, ::-1] - siblings
        above = (above[:, None] + right).ravel()
    return np.append(float(levels[0].sum()), above)


def smooth(rates: FloatVector, norm: Norm) -> FloatVector:
    r"""Return the nearest series that does not fall and lies in [0, 1].

    l2 is isotonic regression, l1 isotonic median regression; clipping either of
    them to the interval gives the best series inside it. The l1 optimum need not
    be unique: the one returned takes the largest value so far that is optimal,
    by the heap of the slopes of the partial minimum (each new point moves one
    breakpoint).

    >>> smooth(np.array([0.1, 0.5, 0.2, 1.3]), "l2").tolist()
    [0.1, 0.35, 0.35, 1.0]
    >>> smooth(np.array([0.1, 0.5, 0.2, 1.3]), "l1").tolist()
    [0.1, 0.2, 0.2, 1.0]
    """
    fitted = _isotonic_means(rates) if norm == "l2" else _isotonic_medians(rates)
    return np.clip(fitted, 0.0, 1.0)


def _isotonic_means(values: FloatVector) -> FloatVector:
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - slow to import

    return np.asarray(isotonic_regression(values).x, dtype=np.float64)


def _isotonic_medians(values: FloatVector) -> FloatVector:
    heap: list[float] = []  # negated: the largest breakpoint first
    ends = np.empty(values.size)
    for k, value in enumerate(values.tolist()):
        heapq.heappush(heap, -value)
        if -heap[0] > value:
            heapq.heapreplace(heap, -value)
        ends[k] = -heap[0]
    return np.minimum.accumulate(ends[::-1])[::-1]


@dataclass(frozen=True, slots=True)
class RangeQueries:
    """Rates at evenly spaced thresholds from a released tree, smoothed."""

    norm: Norm = "l2"

    @property
    def name(self) -> str:
        """How a result names it."""
        return f"range queries (Barczewski 2025), {self.norm}"

    def hierarchy(self) -> Hierarchy:
        """Return the tree that it is compared on: that of ``FedCurve``."""
        return FedCurve().hierarchy()

    def fit(self, observed: NoisyHistogram) -> Fit:
        """Read the released tree."""
        return read_tree(self, observed)

    def curves(self, observed: NoisyTree) -> ScoreCurves:
        """Return the curves; thresholds are the edges of the tree's leaves."""
        edges = observed.edges.array
        return curves_through(
            edges,
            counts_above(observed.negatives),
            counts_above(observed.positives),
            norm=self.norm,
        )


def curves_through(
    thresholds: FloatVector,
    false_positives: FloatVector,
    true_positives: FloatVector,
    *,
    norm: Norm,
) -> ScoreCurves:
    """Smooth noisy counts above ascending thresholds and join them linearly.

    A class total is the largest of its counts, as in the released code.
    """
    return ScoreCurves(
        _smooth_ecdf(thresholds, false_positives, norm),
        _smooth_ecdf(thresholds, true_positives, norm),
        float(false_positives.max()),
        float(true_positives.max()),
    )


def _smooth_ecdf(thresholds: FloatVector, above: FloatVector, norm: Norm) -> Ecdf:
    if thresholds.shape != above.shape:
        raise ReleaseError(
            f"{thresholds.size} thresholds need as many counts, got {above.size}"
        )
    total = float(above.max())
    if total <= 0:
        raise ReleaseError(
            "no released count is positive: too few examples for this epsilon"
        )
    survival = smooth(above[::-1] / total, norm)[::-1]
    return Ecdf(thresholds, 1.0 - survival, "linear")


def simulate_path_noise(
    thresholds: int, epsilon: float, rng: np.random.Generator
) -> FloatArray:
    r"""Draw the noise that the released code adds to N cumulative counts.

    :math:`\sum_{l=0}^{L-1} \eta_{\lfloor i/2^l \rfloor, l}` with independent
    discrete Laplace noises of scale L/eps, :math:`L = \lceil \log_2 N \rceil + 1`.
    The released code draws continuous Laplace noise. For simulation only.
    """
    if thresholds < 1 or not epsilon > 0:
        raise PlanError("need at least 1 threshold and a positive epsilon")
    levels = math.ceil(math.log2(thresholds)) + 1
    total = np.zeros(thresholds)
    for level in range(levels):
        nodes = -(-thresholds // 2**level)
        noise = simulate_discrete_laplace(levels / epsilon, (nodes,), rng)
        total += np.repeat(noise, 2**level)[:thresholds]
    return total

"""Second-round edges: equally many examples a bin, read off a noisy first round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.arrays import FloatVector
from discreet.data.edges import Edges, Listed
from discreet.errors import PlanError
from discreet.statistic.consistency import consistent_levels
from discreet.statistic.hierarchy import Hierarchy
from discreet.statistic.histogram import ClassHistogram


@dataclass(frozen=True)
class EquiDepthFrom:
    """The class histogram over equi-depth edges of the previous round's tree.

    For scores whose distribution nobody knows in public: a small part of the
    budget finds out where they are, the rest counts there. Each site computes
    the edges from the broadcast release by itself, so no coordinator can choose
    them. ``thresholds`` become edges in any case.
    """

    tree: Hierarchy
    bins: int
    thresholds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not 2 <= self.bins <= len(self.tree.edges):
            raise PlanError(
                f"equi-depth bins are between 2 and the tree's {len(self.tree.edges)}"
            )

    @property
    def edges(self) -> Edges:
        """The edges that the second round refines: the tree's leaves."""
        return self.tree.edges

    @property
    def size(self) -> int:
        """At most this many counts: heavy leaves and thresholds add edges."""
        return 2 * (2 * self.bins + len(self.thresholds))

    def resolve(self, released: FloatVector) -> ClassHistogram:
        """Return the second round's statistic; the same at every reader.

        A leaf's position counts both classes half each, as the ROC curve's own
        parameter (F + T)/2 does, so that a rare class gets its share of bins. A
        leaf that alone holds more than a bin's share becomes a bin of its own:
        ties then stand between empty bins, where an estimator can see them.
        """
        cumulative = _balanced_cumulative(self.tree, released)
        wanted = np.arange(1, self.bins) / self.bins
        # The least leaf edge at or above each wanted share; empty ones merge.
        cuts = np.searchsorted(cumulative, wanted, side="left") + 1
        heavy = np.flatnonzero(np.diff(cumulative, prepend=0.0) >= 1 / self.bins)
        inner = np.unique(np.concatenate([cuts, heavy, heavy + 1]))
        leaves = self.tree.edges
        inner = inner[(inner > 0) & (inner < len(leaves))]
        scores = leaves.scores
        values = (scores.low, *leaves.array[inner].tolist(), scores.high)
        return ClassHistogram(
            Edges.realise(Listed(values), scores, thresholds=self.thresholds)
        )


def _balanced_cumulative(tree: Hierarchy, released: FloatVector) -> FloatVector:
    """Return the mean of both classes' rising cumulative shares over the leaves."""
    shares = []
    levels = tree.levels(released)
    for counts in zip(*levels, strict=True):  # the negatives' levels, the positives'
        leaves = consistent_levels(counts, [1.0] * tree.height)[-1]
        running = np.maximum.accumulate(np.maximum(np.cumsum(leaves), 0.0))
        total = float(running[-1])
        shares.append(running / total if total > 0 else np.linspace(0, 1, running.size))
    mean: FloatVector = (shares[0] + shares[1]) / 2
    return mean

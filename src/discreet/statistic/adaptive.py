"""Second-round edges: equally many examples a bin, read off a noisy first round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.data.edges import Edges, Listed
from discreet.data.examples import Examples
from discreet.errors import PlanError
from discreet.parsing import whole
from discreet.privacy.unit import Sensitivity, Unit
from discreet.statistic.consistency import consistent_levels
from discreet.statistic.hierarchy import Hierarchy
from discreet.statistic.histogram import ClassHistogram
from discreet.statistic.observed import NoiseLaw, NoisyHistogram
from discreet.statistic.protocol import Before, Statistic, only_edges


@dataclass(frozen=True)
class EquiDepthFrom(Statistic):
    """The class histogram over equi-depth edges of the previous round's tree.

    For scores whose distribution nobody knows in public: a small part of the
    budget finds out where they are, the rest counts there. Each site computes
    the edges by itself from the total that the coordinator broadcasts. No site can
    check that total, since it does not know the others' counts: a coordinator who
    lies about it chooses the edges, as it chooses those of a plan. It must tell all
    sites of a sum the same lie (the totals are in the digest that binds a round), and
    cannot change it later. Privacy does not rest on the edges: the noise is sized for
    any. ``thresholds`` become edges in any case.
    """

    tree: Hierarchy
    bins: int
    thresholds: tuple[float, ...] = ()

    name: ClassVar[str] = "equi-depth"

    def __post_init__(self) -> None:
        whole(self.bins, "the number of bins")
        if not 2 <= self.bins <= len(self.tree.edges):
            raise PlanError(
                f"equi-depth bins are between 2 and the tree's {len(self.tree.edges)}"
            )

    @property
    def edges(self) -> Edges:
        """The edges that the second round refines: the tree's leaves."""
        return self.tree.edges

    @property
    def binnings(self) -> tuple[Edges, ...]:
        """The edges that are refined."""
        return (self.edges,)

    @property
    def follows(self) -> Statistic:
        """The tree, whose round stands before."""
        return self.tree

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

    def count(self, examples: Examples) -> IntVector:
        """Refuse: what is counted follows from the round before."""
        del examples
        raise PlanError(_UNRESOLVED)

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """That of the class histogram that it becomes."""
        return ClassHistogram(self.edges).sensitivity(unit)

    def parts(self, counts: FloatVector, law: NoiseLaw) -> Mapping[str, NoisyHistogram]:
        """Refuse: what was counted follows from the round before."""
        del counts, law
        raise PlanError(_UNRESOLVED)

    def table(self) -> dict[str, Any]:
        """Return the number of bins; the edges are its tree's."""
        return {"bins": self.bins}

    @classmethod
    def from_table(
        cls, table: Mapping[str, Any], edges: Sequence[Edges], before: Before
    ) -> Self:
        """Read what ``table`` wrote."""
        only_edges(edges, 0)
        if not isinstance(before.statistic, Hierarchy):
            raise PlanError("an equi-depth round follows the round of its tree")
        return cls(before.statistic, table["bins"], before.thresholds)


_UNRESOLVED = "equi-depth edges are worked out from the release of the round before"


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

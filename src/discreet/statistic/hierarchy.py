"""A tree of histograms: the papers' way to answer range queries under noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.data.edges import Edges, Uniform
from discreet.data.examples import Examples
from discreet.errors import PlanError
from discreet.parsing import whole
from discreet.privacy.unit import Sensitivity, Unit, additive
from discreet.statistic.histogram import ClassHistogram
from discreet.statistic.observed import NoiseDistribution, NoisyHistogram
from discreet.statistic.protocol import Before, BinCounts, Statistic, only_edges
from discreet.statistic.tree import released_tree


@dataclass(frozen=True)
class Hierarchy(Statistic):
    r"""Class histograms at levels 1 .. h with :math:`b^l` bins at level l.

    The leaves are the bins of ``edges``; each higher level merges b neighbours.
    An example is counted once a level, so the L1 sensitivity is the height
    (Hay 2010; Xu 2025 section 3.2).
    """

    edges: Edges
    branching: int = 2

    name: ClassVar[str] = "hierarchy"
    edges_hold_thresholds: ClassVar[bool] = False
    """A tree has a power of its branching as leaves: no threshold is squeezed in."""

    def __post_init__(self) -> None:
        whole(self.branching, "the branching of a tree", least=2)
        if self.branching**self.height != len(self.edges):
            raise PlanError(
                f"a tree of branching {self.branching} needs a power of it as its "
                f"number of bins, got {len(self.edges)}"
            )

    @classmethod
    def over_unit_interval(cls, branching: int, height: int) -> Hierarchy:
        """The papers' tree: equal-width leaves over [0, 1]."""
        return cls(Edges.realise(Uniform(branching**height)), branching)

    @property
    def height(self) -> int:
        """The number of levels below the root."""
        height, leaves = 1, self.branching
        while leaves < len(self.edges):
            height, leaves = height + 1, leaves * self.branching
        return height

    @property
    def binnings(self) -> tuple[Edges, ...]:
        """The leaves."""
        return (self.edges,)

    @property
    def size(self) -> int:
        """Two classes, every node below the root."""
        widths = [int(self.branching**level) for level in range(1, self.height + 1)]
        return 2 * sum(widths)

    def count(self, examples: Examples) -> IntVector:
        """Count the leaves, then merge upwards."""
        leaves = ClassHistogram(self.edges).count(examples).reshape(2, -1)
        levels = [leaves]
        for _ in range(self.height - 1):
            merged = levels[0].reshape(2, -1, self.branching).sum(axis=2)
            levels.insert(0, merged)
        return np.concatenate([level.ravel() for level in levels])

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """One cell a level."""
        return additive(unit, cells=self.height, cells_flipped=2 * self.height)

    def levels(self, vector: FloatVector) -> list[BinCounts]:
        """Cut a released vector into its levels, the leaves last."""
        found, start = [], 0
        for level in range(1, self.height + 1):
            width = self.branching**level
            middle, end = start + width, start + 2 * width
            found.append(BinCounts(vector[start:middle], vector[middle:end]))
            start = end
        return found

    def parts(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, NoisyHistogram]:
        """The tree's consistent leaves, and the tree itself beside them."""
        tree = released_tree(self, counts, noise)
        leaves = tree.consistent
        return {
            "": NoisyHistogram(
                self.edges, leaves.negatives[-1], leaves.positives[-1], noise, tree=tree
            )
        }

    def table(self) -> dict[str, Any]:
        """Return the branching."""
        return {"branching": self.branching}

    @classmethod
    def from_table(
        cls, table: Mapping[str, Any], edges: Sequence[Edges], before: Before
    ) -> Self:
        """Read what ``table`` wrote."""
        del before
        return cls(only_edges(edges)[0], table["branching"])

r"""A released tree of counts over both classes, raw and made consistent.

See :mod:`discreet.statistic.consistency` for how the levels are combined.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.data.edges import Edges
from discreet.errors import PlanError, ReleaseError
from discreet.statistic.consistency import check_levels, consistent_levels

if TYPE_CHECKING:
    from discreet.statistic.hierarchy import Hierarchy
from discreet.statistic.observed import BinCovariance, NoiseDistribution


def merged_levels(
    leaves: FloatVector, branching: int, height: int
) -> list[FloatVector]:
    """Return the levels of an exact tree over these leaves, the leaves last."""
    if branching < 2 or height < 1 or leaves.size != branching**height:
        raise PlanError(
            f"a tree of branching {branching} and height {height} has "
            f"{branching**height} leaves, got {leaves.size}"
        )
    levels = [leaves]
    for _ in range(height - 1):
        levels.insert(0, levels[0].reshape(-1, branching).sum(axis=1))
    return levels


@dataclass(frozen=True, eq=False)
class NoisyTree:
    """A released tree over both classes: the counts of every level, with noise.

    ``variances`` holds the variance of one count at each level; zeros are an
    exact tree, from secure aggregation without noise.
    """

    edges: Edges
    negatives: tuple[FloatVector, ...]
    positives: tuple[FloatVector, ...]
    variances: tuple[float, ...]

    def __post_init__(self) -> None:
        for levels in (self.negatives, self.positives):
            check_levels(levels, self.variances)
            if levels[-1].size != len(self.edges):
                raise ReleaseError(
                    f"the tree has {levels[-1].size} leaves, the edges make "
                    f"{len(self.edges)} bins"
                )

    @classmethod
    def from_release(
        cls, hierarchy: Hierarchy, vector: FloatVector, *, variance: float
    ) -> NoisyTree:
        """Cut a released vector whose cells all have noise of one variance.

        With budget eps and L1 sensitivity h (the height), every cell has
        discrete Laplace noise of scale h/eps: eps/h a level.
        """
        if vector.shape != (hierarchy.size,):
            raise ReleaseError(
                f"a release of this tree has {hierarchy.size} counts, got {vector.size}"
            )
        levels = hierarchy.levels(vector)
        return cls(
            hierarchy.edges,
            tuple(level.negatives for level in levels),
            tuple(level.positives for level in levels),
            (variance,) * hierarchy.height,
        )

    @cached_property
    def consistent(self) -> NoisyTree:
        """The tree with every node the sum of its children.

        Its variances are those of the raw counts; the noise of consistent
        counts is smaller and correlated.
        """
        return NoisyTree(
            self.edges,
            tuple(consistent_levels(self.negatives, self.variances)),
            tuple(consistent_levels(self.positives, self.variances)),
            self.variances,
        )

    @property
    def merged(self) -> tuple[FloatVector, ...]:
        """The levels of all examples, both classes together.

        A sum of what is released already: it costs no further budget.
        """
        return tuple(n + p for n, p in zip(self.negatives, self.positives, strict=True))

    @property
    def totals(self) -> tuple[float, float]:
        """Released numbers of negatives and positives, which must be positive."""
        found = float(self.negatives[0].sum()), float(self.positives[0].sum())
        for name, total in zip(("negatives", "positives"), found, strict=True):
            if total <= 0:
                raise ReleaseError(
                    f"the released number of {name} is not positive: too few "
                    "examples for this epsilon; use a larger one or more sites"
                )
        return found


def released_tree(
    hierarchy: Hierarchy, vector: FloatVector, noise: NoiseDistribution
) -> NoisyTree:
    """Return a release as a tree, with the variances that its noise has."""
    variance = float(noise.covariance(vector).negatives[0])
    tree = NoisyTree.from_release(hierarchy, vector, variance=variance)
    if isinstance(noise, LevelNoise):
        return replace(tree, variances=noise.variances)
    return tree


@dataclass(frozen=True)
class LevelNoise:
    """Independent noise with one variance a level, that of a node nobody holds.

    What drawing the clients of a level adds is left out: it is small beside the
    bits' noise wherever the noise matters.
    """

    variances: tuple[float, ...]
    tree: Hierarchy

    @property
    def scale(self) -> float:
        """The standard deviation at the leaves."""
        return float(np.sqrt(self.variances[-1]))

    def covariance(self, at: FloatVector) -> BinCovariance:
        """The leaves' variance for every bin of a histogram over the leaves."""
        return BinCovariance.everywhere(self.variances[-1], at)

    def sample(
        self, at: FloatVector, size: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draw normal noise for a class's levels after each other, twice."""
        widths = [self.tree.branching ** (k + 1) for k in range(self.tree.height)]
        each = np.repeat(np.sqrt(self.variances), widths)
        if at.size != 2 * each.size:
            each = np.full(at.size // 2, self.scale)
        drawn: FloatArray = rng.normal(size=(size, at.size)) * np.tile(each, 2)
        return drawn

r"""A tree of histograms: the papers' way to answer range queries under noise.

*Consistency.* A ``Hierarchy`` counts each example once a level, each level with noise of
its own. Hay, Rastogi, Miklau and Suciu (2010) combine the levels by weighted averaging
(from the leaves up) and mean consistency (from the top down): two linear passes that give
the least-squares solution, in which every node is the sum of its children. Here in the
general form: any branching and any variance a level. As in the papers, the root is not
counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, TypeVar

import numpy as np

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.codec.parsing import whole
from discreet.data.edges import Edges, Uniform
from discreet.data.examples import Examples
from discreet.errors import PlanError, ReleaseError
from discreet.privacy.unit import Sensitivity, Unit, additive
from discreet.statistic.histogram import ClassHistogram
from discreet.statistic.observed import BinCovariance, NoiseDistribution, NoisyHistogram
from discreet.statistic.protocol import BinCounts, Statistic


def consistent_levels(
    levels: Sequence[FloatVector], variances: Sequence[float]
) -> list[FloatVector]:
    r"""Return the generalised least-squares estimate of every level.

    ``levels`` run from the top to the leaves; a level's length is a multiple of
    the length above it. ``variances`` are those of one count at each level.

    *Weighted averaging*, upwards: with b children of variance :math:`v_{l+1}`,

    .. math::
        z_l = w\,y_l + (1 - w) \sum_{\text{children}} z_{l+1}, \qquad
        w = \frac{b\,v_{l+1}}{\sigma_l^2 + b\,v_{l+1}}, \qquad
        v_l = \frac{\sigma_l^2\,b\,v_{l+1}}{\sigma_l^2 + b\,v_{l+1}}.

    *Mean consistency*, downwards: what a parent has more than its children is
    shared among them equally. With one variance for all levels, w at i levels
    above the ground is :math:`(b^i - b^{i-1})/(b^i - 1)`, as Hay prints it.

    A variance of zero at every level (exact counts) leaves the counts alone; at
    some of the levels it means that these are known exactly.

    >>> import numpy as np
    >>> top, leaves = consistent_levels(
    ...     [np.array([10.0]), np.array([3.0, 4.0])], [1.0, 1.0]
    ... )
    >>> top.tolist(), leaves.tolist()
    ([9.0], [4.0, 5.0])
    """
    check_levels(levels, variances)
    averaged, own = [levels[-1]], variances[-1]
    for level, variance in zip(levels[-2::-1], variances[-2::-1], strict=True):
        below = averaged[0].reshape(level.size, -1)
        summed = below.shape[1] * own
        total = variance + summed
        weight = summed / total if total else 1.0
        own = variance * weight
        averaged.insert(0, weight * level + (1.0 - weight) * below.sum(axis=1))
    consistent = averaged[:1]
    for level in averaged[1:]:
        children = level.reshape(consistent[-1].size, -1)
        missing = (consistent[-1] - children.sum(axis=1)) / children.shape[1]
        consistent.append((children + missing[:, None]).ravel())
    return consistent


def check_levels(levels: Sequence[FloatVector], variances: Sequence[float]) -> None:
    """Refuse levels that are not a tree, or variances that are not one per level."""
    if not levels or len(levels) != len(variances):
        raise ReleaseError(
            f"a tree needs one variance a level, got {len(levels)} levels and "
            f"{len(variances)} variances"
        )
    if not all(math.isfinite(v) and v >= 0 for v in variances):
        raise ReleaseError("the variance of a level must be finite and not negative")
    above = 1
    for level in levels:
        if level.ndim != 1 or level.size < above or level.size % above:
            raise ReleaseError(
                f"a level of {level.size} counts cannot hang below one of {above}"
            )
        above = level.size


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
    def widths(self) -> list[int]:
        """The bins of each level, the leaves last."""
        return [int(self.branching**level) for level in range(1, self.height + 1)]

    @property
    def size(self) -> int:
        """Two classes, every node below the root."""
        return 2 * sum(self.widths)

    def count(self, examples: Examples) -> IntVector:
        """Count the leaves, then merge upwards."""
        leaves = ClassHistogram(self.edges).count(examples).reshape(2, -1)
        classes = (merged_levels(c, self.branching, self.height) for c in leaves)
        return np.concatenate(
            [np.append(*level) for level in zip(*classes, strict=True)]
        )

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """One cell a level."""
        return additive(unit, cells=self.height, cells_flipped=2 * self.height)

    def levels(self, vector: FloatVector) -> list[BinCounts]:
        """Cut a released vector into its levels, the leaves last."""
        ends = np.cumsum([2 * width for width in self.widths])
        return [BinCounts(*np.split(x, 2)) for x in np.split(vector, ends[:-1])]

    def parts(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, NoisyHistogram]:
        """The tree's consistent leaves, and the tree itself beside them."""
        variance = float(noise.covariance(counts).negatives[0])
        tree = NoisyTree.from_release(self, counts, variance=variance)
        if isinstance(noise, LevelNoise):
            tree = replace(tree, variances=noise.variances)
        leaves = tree.consistent
        return {
            "": NoisyHistogram(
                self.edges, leaves.negatives[-1], leaves.positives[-1], noise, tree=tree
            )
        }


Leaves = TypeVar("Leaves", FloatVector, IntVector)


def merged_levels(leaves: Leaves, branching: int, height: int) -> list[Leaves]:
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
        negatives, positives = zip(*hierarchy.levels(vector), strict=True)
        variances = (variance,) * hierarchy.height
        return cls(hierarchy.edges, negatives, positives, variances)

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
        totals = float(self.negatives[0].sum()), float(self.positives[0].sum())
        for name, total in zip(("negatives", "positives"), totals, strict=True):
            if total <= 0:
                raise ReleaseError(
                    f"the released number of {name} is not positive: too few "
                    "examples for this epsilon; use a larger one or more sites"
                )
        return totals


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
        each = np.repeat(np.sqrt(self.variances), self.tree.widths)
        if at.size != 2 * each.size:
            each = np.full(at.size // 2, self.scale)
        drawn: FloatArray = rng.normal(size=(size, at.size)) * np.tile(each, 2)
        return drawn

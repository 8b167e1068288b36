"""What is observed: a released class histogram and the distribution of its noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.data.edges import Edges
from discreet.errors import ReleaseError

if TYPE_CHECKING:
    from discreet.statistic.hierarchy import NoisyTree


@dataclass(frozen=True, eq=False)
class BinCovariance:
    """The noise's covariance within each bin: 2 x 2, negatives and positives."""

    negatives: FloatVector
    positives: FloatVector
    cross: FloatVector

    @classmethod
    def everywhere(cls, variance: float, at: FloatVector) -> Self:
        """Return the same variance in all cells, and nothing across the classes."""
        each = np.full(at.size // 2, variance)
        return cls(each, each, np.zeros_like(each))


class NoiseDistribution(Protocol):
    """The distribution of the noise in a released vector.

    ``at`` is the released vector: the noise of randomized response depends on
    the counts that it is added to; additive noise ignores it.
    """

    @property
    def scale(self) -> float:
        """A typical size of the noise in one cell, 0 for exact sums."""
        ...

    def covariance(self, at: FloatVector) -> BinCovariance:
        """Return the covariance per bin of a class histogram."""
        ...

    def sample(
        self, at: FloatVector, size: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draw ``size`` simulated noise vectors, for error bars; never to release."""
        ...


@dataclass(frozen=True, eq=False)
class NoisyHistogram:
    """Counts per class and bin, as released: exact, or unbiased with noise."""

    edges: Edges
    negatives: FloatVector
    positives: FloatVector
    noise: NoiseDistribution
    refusal: str | None = None
    """Why this release must not be used, if so."""
    notes: tuple[str, ...] = ()
    """What a reader should know about it."""
    tree: NoisyTree | None = None
    """The released tree, when these counts are its consistent leaves."""

    def __post_init__(self) -> None:
        shape = (len(self.edges),)
        if self.negatives.shape != shape or self.positives.shape != shape:
            raise ReleaseError(f"a histogram over these edges has {shape[0]} bins")

    @property
    def exact(self) -> bool:
        """Whether the counts carry no noise."""
        return self.noise.scale == 0

    @cached_property
    def vector(self) -> FloatVector:
        """All counts: the negatives' bins, then the positives'."""
        return np.concatenate([self.negatives, self.positives])

    @cached_property
    def totals(self) -> FloatVector:
        """Examples of both classes in each bin."""
        return self.negatives + self.positives

    @cached_property
    def covariance(self) -> BinCovariance:
        """The covariance of the noise, bin by bin."""
        return self.noise.covariance(self.vector)

    @cached_property
    def total_negatives(self) -> float:
        """Released number of negatives."""
        return float(self.negatives.sum())

    @cached_property
    def total_positives(self) -> float:
        """Released number of positives."""
        return float(self.positives.sum())

    @property
    def missing_class(self) -> str | None:
        """Name the class of which there is none, if there is one."""
        if self.total_positives <= 0 and self.total_negatives <= 0:
            return "positives or negatives"
        if self.total_positives <= 0:
            return "positives"
        return "negatives" if self.total_negatives <= 0 else None

    def projected(self) -> NoisyHistogram:
        """Return the nearest histogram that is one: no negative counts.

        Exact counts stay as they are. Noisy ones are replaced by the steps of
        the isotonic regression of their cumulative sum, clipped to its total:
        a curve must not run backwards, and clipping bins one by one would add
        the positive part of the noise to every empty bin.
        """
        if self.exact:
            return self
        return replace(
            self,
            negatives=_isotonic_steps(self.negatives),
            positives=_isotonic_steps(self.positives),
        )


def _isotonic_steps(counts: FloatVector) -> FloatVector:
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - slow to import

    running = np.cumsum(counts)
    fitted = isotonic_regression(running).x
    return np.diff(np.clip(fitted, 0.0, max(float(running[-1]), 0.0)), prepend=0.0)


@dataclass(frozen=True)
class BlockNoise:
    """Independent noise of its own distribution in each block.

    As the noise of a class histogram it is that of the first block.
    """

    sizes: tuple[int, ...]
    noises: tuple[NoiseDistribution, ...]

    @property
    def scale(self) -> float:
        """The first block's."""
        return self.noises[0].scale

    def covariance(self, at: FloatVector) -> BinCovariance:
        """The first block's."""
        return self.noises[0].covariance(at[: self.sizes[0]])

    def sample(
        self, at: FloatVector, size: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draw simulated noise, block by block."""
        cuts = np.split(at, np.cumsum(self.sizes)[:-1])
        drawn = [
            noise.sample(cut, size, rng)
            for noise, cut in zip(self.noises, cuts, strict=True)
        ]
        return np.concatenate(drawn, axis=1)


def noise_of_block(noise: NoiseDistribution, place: int) -> NoiseDistribution:
    """Return one block's noise distribution; noise without blocks is the same everywhere."""
    return noise.noises[place] if isinstance(noise, BlockNoise) else noise


def cell_variance(noise: NoiseDistribution) -> float:
    """Return the variance of additive noise in any one number."""
    return float(noise.covariance(np.zeros(2)).negatives[0])


@dataclass(frozen=True)
class AddedNoise:
    """Independent additive noise, every count a sum of as many cells: groups added up."""

    noise: NoiseDistribution
    cells: int

    @property
    def scale(self) -> float:
        """The scale in a single cell times the root of their number."""
        return self.noise.scale * math.sqrt(self.cells)

    def covariance(self, at: FloatVector) -> BinCovariance:
        """Return the noise's own, as often as cells were added."""
        one, k = self.noise.covariance(at), self.cells
        return BinCovariance(k * one.negatives, k * one.positives, k * one.cross)

    def sample(
        self, at: FloatVector, size: int, rng: np.random.Generator
    ) -> FloatArray:
        """Add up draws."""
        total = self.noise.sample(at, size, rng)
        for _ in range(self.cells - 1):
            total = total + self.noise.sample(at, size, rng)
        return total


@dataclass(frozen=True)
class SummedNegatives:
    """Independent additive noise, the negatives' bins each a sum of several cells.

    A class against the rest of a one-vs-one release: the rest is the sum of the
    other classes' histograms, and so is its noise.
    """

    noise: NoiseDistribution
    cells: int

    @property
    def scale(self) -> float:
        """The scale in a single cell, as the positives have it."""
        return self.noise.scale

    def covariance(self, at: FloatVector) -> BinCovariance:
        """Return the noise's own, as often as cells were added."""
        one = self.noise.covariance(at)
        return BinCovariance(self.cells * one.negatives, one.positives, one.cross)

    def sample(
        self, at: FloatVector, size: int, rng: np.random.Generator
    ) -> FloatArray:
        """Add up draws for the negatives."""
        total = self.noise.sample(at, size, rng)
        half = at.size // 2
        for _ in range(self.cells - 1):
            total[:, :half] += self.noise.sample(at, size, rng)[:, :half]
        return total


@dataclass(frozen=True, eq=False)
class SummedNoise:
    """The noise of sums over one side of a table of joint counts.

    ``axis`` 1 leaves the second model's bins, 2 the first's.
    """

    joint: NoiseDistribution
    table: FloatArray
    axis: int

    @property
    def scale(self) -> float:
        """The scale of one cell's noise times the root of the cells added up."""
        return self.joint.scale * math.sqrt(self.table.shape[self.axis])

    def covariance(self, at: FloatVector) -> BinCovariance:
        """Add up the cells' variances; cells are independent of each other."""
        del at
        each = self.joint.covariance(self.table.ravel())
        shape = self.table.shape[1:]
        return BinCovariance(
            *(
                part.reshape(shape).sum(axis=self.axis - 1)
                for part in (each.negatives, each.positives, each.cross)
            )
        )

    def sample(
        self, at: FloatVector, size: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draw the cells' noise and add it up."""
        del at
        drawn = self.joint.sample(self.table.ravel(), size, rng)
        found: FloatArray = drawn.reshape(size, *self.table.shape).sum(
            axis=self.axis + 1
        )
        return found.reshape(size, -1)

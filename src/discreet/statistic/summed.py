"""The law of counts that are sums of several released cells."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.statistic.observed import BinCovariance, NoiseDistribution


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
        """Return the law's own, as often as cells were added."""
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

    ``axis`` 1 leaves the first model's bins, 2 the second's.
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

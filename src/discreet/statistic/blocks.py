"""A vector in blocks, each protected by its own share of a round's budget."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.privacy.unit import Sensitivity
from discreet.statistic.observed import BinCovariance, NoiseDistribution


class Block(NamedTuple):
    """Some numbers of a vector, how far one unit moves them, and their share."""

    size: int
    sensitivity: Sensitivity
    share: Fraction = Fraction(1)


@dataclass(frozen=True)
class BlockNoise:
    """Independent noise of its own law in each block.

    As the law of a class histogram it is that of the first block.
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


def law_of_block(noise: NoiseDistribution, place: int) -> NoiseDistribution:
    """Return one block's law; noise without blocks is the same everywhere."""
    return noise.noises[place] if isinstance(noise, BlockNoise) else noise


def cell_variance(noise: NoiseDistribution) -> float:
    """Return the variance of additive noise in any one number."""
    return float(noise.covariance(np.zeros(2)).negatives[0])

"""A vector in blocks, each protected by its own share of a round's budget."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.privacy.unit import Sensitivity
from discreet.statistic.observed import BinCovariance, NoiseLaw


class Block(NamedTuple):
    """Some numbers of a vector, how far one unit moves them, and their share."""

    size: int
    sensitivity: Sensitivity
    share: Fraction = Fraction(1)


@dataclass(frozen=True)
class BlockLaw:
    """Independent noise of its own law in each block.

    As the law of a class histogram it is that of the first block.
    """

    sizes: tuple[int, ...]
    laws: tuple[NoiseLaw, ...]

    @property
    def scale(self) -> float:
        """The first block's."""
        return self.laws[0].scale

    def covariance(self, at: FloatVector) -> BinCovariance:
        """The first block's."""
        return self.laws[0].covariance(at[: self.sizes[0]])

    def sample(
        self, at: FloatVector, size: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draw simulated noise, block by block."""
        cuts = np.split(at, np.cumsum(self.sizes)[:-1])
        drawn = [
            law.sample(cut, size, rng) for law, cut in zip(self.laws, cuts, strict=True)
        ]
        return np.concatenate(drawn, axis=1)


def law_of_block(law: NoiseLaw, place: int) -> NoiseLaw:
    """Return one block's law; noise without blocks is the same everywhere."""
    return law.laws[place] if isinstance(law, BlockLaw) else law


def cell_variance(law: NoiseLaw) -> float:
    """Return the variance of additive noise in any one number."""
    return float(law.covariance(np.zeros(2)).negatives[0])

"""Additive noise of its own size in each block of a vector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.arrays import IntVector
from discreet.entropy import Entropy
from discreet.noise.mechanism import AdditiveNoise
from discreet.privacy.loss import Loss
from discreet.statistic.blocks import BlockLaw


@dataclass(frozen=True, slots=True)
class BlockNoise(AdditiveNoise):
    """Each block is released by its own mechanism; their losses add up.

    Basic composition: blocks of one vector about the same people, each with a share of
    the budget, cost what their shares add up to.
    """

    budget: Loss
    sizes: tuple[int, ...]
    mechanisms: tuple[AdditiveNoise, ...]

    def protect(self, exact: IntVector, *, entropy: Entropy) -> IntVector:
        """Return every block with its own noise."""
        cuts = np.split(exact, np.cumsum(self.sizes)[:-1])
        return np.concatenate(
            [
                mechanism.protect(cut, entropy=entropy)
                for mechanism, cut in zip(self.mechanisms, cuts, strict=True)
            ]
        )

    def loss(self) -> Loss:
        """The whole budget."""
        return self.budget

    def law(self, contributors: int) -> BlockLaw:
        """Return the law of each block's noise."""
        return BlockLaw(self.sizes, tuple(m.law(contributors) for m in self.mechanisms))

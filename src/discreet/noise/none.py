"""No noise: exact sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.entropy import Entropy
from discreet.privacy.loss import Loss, Unbounded
from discreet.statistic.observed import BinCovariance


@dataclass(frozen=True, slots=True)
class NoNoise:
    """The law of an exact sum."""

    @property
    def scale(self) -> float:
        """There is none."""
        return 0.0

    def covariance(self, at: FloatVector) -> BinCovariance:
        """Zero in every bin."""
        zero = np.zeros(at.size // 2)
        return BinCovariance(zero, zero, zero)

    def sample(
        self, at: FloatVector, size: int, rng: np.random.Generator
    ) -> FloatArray:
        """Zero in every draw."""
        del rng
        return np.zeros((size, at.size))


@dataclass(frozen=True, slots=True)
class ExactSum:
    """The mechanism of secure aggregation without noise."""

    def protect(self, exact: IntVector, *, entropy: Entropy) -> IntVector:
        """Send the counts as they are."""
        del entropy
        return exact

    def loss(self) -> Loss:
        """No bound."""
        return Unbounded()

    def decode(self, total: IntVector, contributors: int) -> FloatVector:
        """Read the counts as they are."""
        del contributors
        return total.astype(np.float64)

    def law(self, contributors: int) -> NoNoise:
        """No noise, whoever contributed."""
        del contributors
        return NoNoise()

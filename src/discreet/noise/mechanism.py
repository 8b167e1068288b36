"""The ports of noise: what a mechanism does and what its law tells readers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.entropy import Entropy
from discreet.privacy.loss import Loss


@dataclass(frozen=True, eq=False)
class BinCovariance:
    """The noise's covariance within each bin: 2 x 2, negatives and positives."""

    negatives: FloatVector
    positives: FloatVector
    cross: FloatVector


class NoiseLaw(Protocol):
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


class Mechanism(Protocol):
    """Turns a site's exact vector into what it may send."""

    def protect(self, exact: IntVector, *, entropy: Entropy) -> IntVector:
        """Return the vector to send; draws secret bytes if it needs noise."""
        ...

    def loss(self) -> Loss:
        """Return what one use costs."""
        ...

    def decode(self, total: IntVector, contributors: int) -> FloatVector:
        """Turn the opened total into an unbiased estimate of the exact sum."""
        ...

    def law(self, contributors: int) -> NoiseLaw:
        """Return the law of the noise in the decoded total."""
        ...

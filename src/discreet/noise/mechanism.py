"""The port of noise: what a mechanism does."""

from __future__ import annotations

from typing import Protocol

from discreet.arrays import FloatVector, IntVector
from discreet.entropy import Entropy
from discreet.privacy.loss import Loss
from discreet.statistic.observed import NoiseLaw


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

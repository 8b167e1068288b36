"""The port of noise: what a mechanism does, and what all additive ones share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.entropy import Entropy
from discreet.errors import PlanError, ReleaseError
from discreet.privacy.loss import Loss, Unbounded
from discreet.statistic.blocks import BlockNoise
from discreet.statistic.observed import BinCovariance, NoiseDistribution


@dataclass(frozen=True, eq=False)
class Opened:
    """An opened total, decoded: unbiased counts and what is known of their noise."""

    counts: FloatVector
    noise: NoiseDistribution
    refusal: str | None = None
    """Why it must not be used, if so."""
    notes: tuple[str, ...] = ()


class Mechanism(Protocol):
    """Turns a site's exact vector into what it may send, and reads the total."""

    def sent(self, cells: int) -> int:
        """Return how many numbers a site sends for a statistic of so many cells."""
        ...

    def protect(self, exact: IntVector, *, entropy: Entropy) -> IntVector:
        """Return the vector to send; draws secret bytes if it needs noise."""
        ...

    def loss(self) -> Loss:
        """Return what one use costs."""
        ...

    def open(self, total: IntVector, contributors: int) -> Opened:
        """Turn the opened total into an unbiased estimate of the exact sum."""
        ...


class AdditiveNoise(ABC):
    """Noise of mean zero added to each count: as many numbers, nothing to undo."""

    def sent(self, cells: int) -> int:
        """One number a count."""
        return cells

    @abstractmethod
    def protect(self, exact: IntVector, *, entropy: Entropy) -> IntVector:
        """Return the vector with this site's noise."""

    @abstractmethod
    def loss(self) -> Loss:
        """Return what one use costs."""

    @abstractmethod
    def noise(self, contributors: int) -> NoiseDistribution:
        """Return the law of the noise in a sum of that many contributions."""

    def open(self, total: IntVector, contributors: int) -> Opened:
        """Read the sum as it is."""
        return Opened(total.astype(np.float64), self.noise(contributors))


def check_honest(honest: int) -> None:
    """Refuse a plan in which nobody is sure to add noise.

    ``honest`` is min_survivors - colluders: the shares that are in every opened
    sum and that no colluding site knows. It comes from the plan, never from a
    count that a coordinator reports.
    """
    if honest < 1:
        raise PlanError(
            "noise is sized by min_survivors - colluders, which must be at least "
            "1; ask for more survivors or tolerate fewer colluders"
        )


def check_contributors(contributors: int, honest: int) -> None:
    """Refuse a sum that holds fewer shares than its noise was sized for."""
    if contributors < honest:
        raise ReleaseError(
            f"{contributors} sites contributed, but the noise was sized for at "
            f"least {honest}; this sum must not be opened"
        )


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
class ExactSum(AdditiveNoise):
    """The mechanism of secure aggregation without noise."""

    def protect(self, exact: IntVector, *, entropy: Entropy) -> IntVector:
        """Send the counts as they are."""
        del entropy
        return exact

    def loss(self) -> Loss:
        """No bound."""
        return Unbounded()

    def noise(self, contributors: int) -> NoNoise:
        """No noise, whoever contributed."""
        del contributors
        return NoNoise()


@dataclass(frozen=True, slots=True)
class BlockMechanism(AdditiveNoise):
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

    def noise(self, contributors: int) -> BlockNoise:
        """Return the law of each block's noise."""
        return BlockNoise(
            self.sizes, tuple(m.noise(contributors) for m in self.mechanisms)
        )

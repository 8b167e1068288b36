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
from discreet.statistic.observed import BinCovariance, BlockNoise, NoiseDistribution


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """A revealed total, decoded: unbiased counts and the distribution of their noise."""

    counts: FloatVector
    noise: NoiseDistribution
    refusal: str | None = None
    """Why it must not be used, if so."""
    notes: tuple[str, ...] = ()


class Mechanism(Protocol):
    """Turns a site's exact vector into what it may send, and decodes the total."""

    def sent(self, cells: int) -> int:
        """Return how many numbers a site sends for a statistic of so many cells."""

    def protect(self, exact: IntVector, *, entropy: Entropy) -> IntVector:
        """Return the vector to send; draws secret bytes if it needs noise."""

    def loss(self) -> Loss:
        """Return what one use costs."""

    def open(self, total: IntVector, contributors: int) -> NoisyCounts:
        """Turn the revealed total into an unbiased estimate of the exact sum."""


class BudgetMechanism(Mechanism, ABC):
    """A mechanism of which one use costs the whole budget, however often it is read."""

    budget: Loss

    def sent(self, cells: int) -> int:
        """One number a count."""
        return cells

    def loss(self) -> Loss:
        """The whole budget: of the revealed sum, or of each client's message."""
        return self.budget


class AdditiveNoise(BudgetMechanism):
    """Noise of mean zero added to each count: as many numbers, nothing to undo."""

    @abstractmethod
    def noise(self, contributors: int) -> NoiseDistribution:
        """Return the distribution of the noise in a sum of that many contributions."""

    def open(self, total: IntVector, contributors: int) -> NoisyCounts:
        """Take the sum as it is."""
        return NoisyCounts(total.astype(np.float64), self.noise(contributors))


class IndependentNoise(ABC):
    """Noise that is drawn alike and independently in every cell."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance in each cell."""

    @abstractmethod
    def simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Draw fast and *not secretly*: simulation only."""

    def covariance(self, at: FloatVector) -> BinCovariance:
        """The same variance everywhere, nothing across the classes."""
        return BinCovariance.everywhere(self.variance, at)

    def sample(
        self, at: FloatVector, size: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draw simulated noise."""
        return self.simulate((size, at.size), rng)


def check_honest(honest: int) -> None:
    """Refuse a plan in which nobody is sure to add noise.

    ``honest`` is min_survivors - colluders: the shares that are in every revealed
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
            f"least {honest}; this sum must not be revealed"
        )


@dataclass(frozen=True, slots=True)
class NoNoise(IndependentNoise):
    """The noise of an exact sum: none."""

    @property
    def scale(self) -> float:
        """There is none."""
        return 0.0

    @property
    def variance(self) -> float:
        """There is none."""
        return 0.0

    def simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Zero in every draw."""
        del rng
        return np.zeros(shape)


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
    """Each block is released by its own mechanism, with a share of the budget.

    Basic composition: the blocks are about the same people, and their losses add up.
    """

    budget: Loss
    sizes: tuple[int, ...]
    mechanisms: tuple[AdditiveNoise, ...]

    def protect(self, exact: IntVector, *, entropy: Entropy) -> IntVector:
        """Return every block with its own noise."""
        blocks = np.split(exact, np.cumsum(self.sizes)[:-1])
        both = zip(self.mechanisms, blocks, strict=True)
        return np.concatenate([m.protect(b, entropy=entropy) for m, b in both])

    def noise(self, contributors: int) -> BlockNoise:
        """Return the distribution of each block's noise."""
        noises = tuple(m.noise(contributors) for m in self.mechanisms)
        return BlockNoise(self.sizes, noises)

"""What is observed: a released class histogram and the law of its noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.data.edges import Edges
from discreet.errors import ReleaseError

if TYPE_CHECKING:
    from discreet.statistic.tree import NoisyTree


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

"""Histograms of a multi-class problem: one release for all classes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar

import numpy as np

from discreet.arrays import CodeVector, FloatVector, IntVector
from discreet.data.cells import canonical
from discreet.data.edges import Edges
from discreet.data.examples import Batch, Examples
from discreet.errors import InputError, PlanError
from discreet.privacy.unit import Sensitivity, Unit, additive
from discreet.statistic.histogram import are_distinct, class_cells
from discreet.statistic.observed import (
    NoiseDistribution,
    NoisyHistogram,
    SummedNegatives,
)
from discreet.statistic.protocol import BinCounts, Statistic, tally


@dataclass(frozen=True)
class _OfClasses(Statistic):
    """What both have in common: one score column per class, all over the same bins."""

    edges: Edges
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        if not are_distinct(self.classes, "class") or len(self.classes) < 2:
            raise PlanError("a multi-class plan names at least two distinct classes")

    @property
    def binnings(self) -> tuple[Edges, ...]:
        """One score column per class, all over the same bins."""
        return (self.edges,)

    @property
    def columns(self) -> tuple[Edges, ...]:
        """One score column per class."""
        return (self.edges,) * len(self.classes)

    def check(self, examples: Examples, *, binary: bool = False) -> None:
        """Refuse other classes, or classes in another order."""
        declared = examples.label_code
        agreed = tuple(canonical(one) for one in self.classes)
        if declared.classes is None or declared.names != agreed:
            raise InputError(
                f"the plan names {len(self.classes)} classes in an agreed order; read "
                "the examples with the same classes="
            )
        super().check(examples, binary=binary)

    def count(self, examples: Examples) -> IntVector:
        """Count one site's examples, in each score column."""
        block = self.size // len(self.classes)

        def cells(batch: Batch) -> CodeVector:
            every = enumerate(zip(batch.scores, self._split_by(batch), strict=True))
            each = [class_cells(self.edges, *column) + k * block for k, column in every]
            return np.concatenate(each)

        return tally(examples, self, cells)

    @abstractmethod
    def _split_by(self, batch: Batch) -> Iterable[CodeVector]:
        """Return the labels by which each column's scores are told apart."""

    @abstractmethod
    def split(self, vector: FloatVector) -> dict[str, BinCounts]:
        """Return each class's histogram against the rest."""

    def parts(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, NoisyHistogram]:
        """Each class against the rest."""
        return {
            name: NoisyHistogram(self.edges, *split, noise)
            for name, split in self.split(counts).items()
        }


@dataclass(frozen=True)
class OneVsRest(_OfClasses):
    """For each class k, the histogram of score column k, split by label = k.

    Every example is counted once in each of the K histograms: L1 is K in all,
    and one release of the joint vector costs one epsilon, not K of them.
    """

    name: ClassVar[str] = "one-vs-rest"

    @property
    def size(self) -> int:
        """K histograms of two classes each."""
        return len(self.classes) * 2 * len(self.edges)

    def _split_by(self, batch: Batch) -> Iterable[CodeVector]:
        return [(batch.labels == k).view(np.uint8) for k in range(len(self.classes))]

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """K cells an example; a flipped label changes the two classes it names."""
        return additive(unit, cells=len(self.classes), cells_flipped=4)

    def split(self, vector: FloatVector) -> dict[str, BinCounts]:
        """Return each class's histogram against the rest."""
        blocks = vector.reshape(len(self.classes), 2, len(self.edges))
        return {
            name: BinCounts(*block)
            for name, block in zip(self.classes, blocks, strict=True)
        }


@dataclass(frozen=True)
class OneVsOne(_OfClasses):
    """For each score column k and each true class j, a histogram.

    It holds every pair of classes, and one-vs-rest as the sum over the others;
    L1 is K as for ``OneVsRest``, but noise on a rest is the sum of K - 1 bins'.
    """

    name: ClassVar[str] = "one-vs-one"

    @property
    def size(self) -> int:
        """K columns by K classes, every bin."""
        return len(self.classes) ** 2 * len(self.edges)

    def _split_by(self, batch: Batch) -> Iterable[CodeVector]:
        return [batch.labels] * len(self.classes)

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """K cells an example; a flipped label moves it in every column."""
        k = len(self.classes)
        return additive(unit, cells=k, cells_flipped=2 * k)

    def split(self, vector: FloatVector) -> dict[str, BinCounts]:
        """Return each class's histogram against the rest."""
        blocks = self._blocks(vector)
        return {
            name: BinCounts(np.delete(blocks[k], k, axis=0).sum(axis=0), blocks[k, k])
            for k, name in enumerate(self.classes)
        }

    def parts(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, NoisyHistogram]:
        """Each class against the rest; a rest's noise is that of all it adds up."""
        rest = len(self.classes) - 1
        if rest > 1 and noise.scale:
            noise = SummedNegatives(noise, rest)
        return super().parts(counts, noise)

    def pairs(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[tuple[str, str], NoisyHistogram]:
        """Class a against class b by column a, for every ordered pair."""
        blocks = self._blocks(counts)
        return {
            (a, b): NoisyHistogram(self.edges, blocks[i, j], blocks[i, i], noise)
            for (i, a), (j, b) in permutations(enumerate(self.classes), 2)
        }

    def _blocks(self, vector: FloatVector) -> FloatVector:
        k = len(self.classes)
        return vector.reshape(k, k, len(self.edges))

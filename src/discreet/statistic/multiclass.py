"""Histograms of a multi-class problem: one release for all classes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from discreet.arrays import CodeVector, FloatVector, IntVector
from discreet.codec.parsing import name
from discreet.data.cells import canonical
from discreet.data.edges import Edges
from discreet.data.examples import Batch, Examples
from discreet.errors import InputError, PlanError
from discreet.privacy.unit import Sensitivity, Unit, additive
from discreet.statistic.histogram import class_cells
from discreet.statistic.observed import (
    NoiseDistribution,
    NoisyHistogram,
    SummedNegatives,
)
from discreet.statistic.protocol import (
    BinCounts,
    Statistic,
    check_columns,
    tally,
)


@dataclass(frozen=True)
class _OfClasses(Statistic):
    """What both have in common: one score column a class, all over the same bins."""

    edges: Edges
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        for one in self.classes:
            name(one, "a class's name")
        texts = {canonical(one) for one in self.classes}
        if None in texts:
            raise PlanError("a class's name is no word for a missing value, such as NA")
        if len(self.classes) < 2 or len(texts) != len(self.classes):
            raise PlanError("a multi-class plan names at least two distinct classes")

    @property
    def binnings(self) -> tuple[Edges, ...]:
        """One score column a class, all over the same bins."""
        return (self.edges,)

    def count(self, examples: Examples) -> IntVector:
        """Count one site's examples."""
        declared = examples.label_code
        agreed = tuple(canonical(one) for one in self.classes)
        if declared.classes is None or declared.names != agreed:
            raise InputError(
                f"the plan names {len(self.classes)} classes in an agreed order; read "
                "the examples with the same classes="
            )
        check_columns(examples, *[self.edges] * len(self.classes))
        return tally(examples, self, self._cells)

    @abstractmethod
    def _cells(self, batch: Batch) -> CodeVector:
        """Return the cell of each example in each column."""

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

    def _cells(self, batch: Batch) -> CodeVector:
        block = 2 * len(self.edges)
        return np.concatenate(
            [
                class_cells(self.edges, scores, (batch.labels == k).view(np.uint8))
                + k * block
                for k, scores in enumerate(batch.scores)
            ]
        )

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """K cells an example; a flipped label changes the two classes it names."""
        return additive(unit, cells=len(self.classes), cells_flipped=4)

    def split(self, vector: FloatVector) -> dict[str, BinCounts]:
        """Return each class's histogram against the rest."""
        blocks = vector.reshape(len(self.classes), 2, len(self.edges))
        return {
            name: BinCounts(block[0], block[1])
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

    def _cells(self, batch: Batch) -> CodeVector:
        block = len(self.classes) * len(self.edges)
        return np.concatenate(
            [
                class_cells(self.edges, scores, batch.labels) + k * block
                for k, scores in enumerate(batch.scores)
            ]
        )

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

    def split_pairs(self, vector: FloatVector) -> dict[tuple[str, str], BinCounts]:
        """Return the histogram of class a against class b by column a, a != b."""
        blocks = self._blocks(vector)
        return {
            (a, b): BinCounts(blocks[i, j], blocks[i, i])
            for i, a in enumerate(self.classes)
            for j, b in enumerate(self.classes)
            if i != j
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
        return {
            pair: NoisyHistogram(self.edges, *split, noise)
            for pair, split in self.split_pairs(counts).items()
        }

    def _blocks(self, vector: FloatVector) -> FloatVector:
        k = len(self.classes)
        return vector.reshape(k, k, len(self.edges))

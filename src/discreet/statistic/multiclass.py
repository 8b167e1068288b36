"""Histograms of a multi-class problem: one release for all classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.arrays import CodeVector, FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.data.examples import Batch, Examples
from discreet.errors import InputError, PlanError
from discreet.privacy.unit import Sensitivity, Unit, additive
from discreet.statistic.histogram import class_cells
from discreet.statistic.protocol import BinCounts, check_columns, tally


@dataclass(frozen=True)
class OneVsRest:
    """For each class k, the histogram of score column k, split by label = k.

    Every example is counted once in each of the K histograms: L1 is K in all,
    and one release of the joint vector costs one epsilon, not K of them.
    """

    edges: Edges
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_classes(self.classes)

    @property
    def size(self) -> int:
        """K histograms of two classes each."""
        return len(self.classes) * 2 * len(self.edges)

    def count(self, examples: Examples) -> IntVector:
        """Count one site's examples."""
        _check_examples(examples, self.edges, self.classes)
        return tally(examples, self.size, self._cells)

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
class OneVsOne:
    """For each score column k and each true class j, a histogram.

    It holds every pair of classes, and one-vs-rest as the sum over the others;
    L1 is K as for ``OneVsRest``, but noise on a rest is the sum of K - 1 bins'.
    """

    edges: Edges
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_classes(self.classes)

    @property
    def size(self) -> int:
        """K columns by K classes, every bin."""
        return len(self.classes) ** 2 * len(self.edges)

    def count(self, examples: Examples) -> IntVector:
        """Count one site's examples."""
        _check_examples(examples, self.edges, self.classes)
        return tally(examples, self.size, self._cells)

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

    def pairs(self, vector: FloatVector) -> dict[tuple[str, str], BinCounts]:
        """Return the histogram of class a against class b by column a, a != b."""
        blocks = self._blocks(vector)
        return {
            (a, b): BinCounts(blocks[i, j], blocks[i, i])
            for i, a in enumerate(self.classes)
            for j, b in enumerate(self.classes)
            if i != j
        }

    def _blocks(self, vector: FloatVector) -> FloatVector:
        k = len(self.classes)
        return vector.reshape(k, k, len(self.edges))


def _check_classes(classes: tuple[str, ...]) -> None:
    if len(classes) < 2 or len(set(classes)) != len(classes):
        raise PlanError("a multi-class plan names at least two distinct classes")


def _check_examples(examples: Examples, edges: Edges, classes: tuple[str, ...]) -> None:
    declared = examples.label_code.classes
    if declared is None or tuple(str(c) for c in declared) != classes:
        raise InputError(
            f"the plan names {len(classes)} classes in an agreed order; read the "
            "examples with the same classes="
        )
    check_columns(examples, *[edges] * len(classes))

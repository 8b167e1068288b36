"""The class histogram: the one vector from which every metric is estimated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from discreet.arrays import CodeVector, FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.data.examples import Batch, Examples
from discreet.privacy.unit import Sensitivity, Unit, additive
from discreet.statistic.observed import NoiseDistribution, NoisyHistogram
from discreet.statistic.protocol import (
    Before,
    BinCounts,
    Statistic,
    check_binary,
    check_columns,
    only_edges,
    tally,
)


@dataclass(frozen=True)
class ClassHistogram(Statistic):
    """Counts per class and bin: the negatives' bins, then the positives'.

    An example is in one class and one bin, so adding or removing it moves the
    vector by 1 in L1: each class may be released at the full budget.
    """

    edges: Edges

    name: ClassVar[str] = "histogram"

    @property
    def binnings(self) -> tuple[Edges, ...]:
        """One score column."""
        return (self.edges,)

    @property
    def size(self) -> int:
        """Two classes, every bin."""
        return 2 * len(self.edges)

    def count(self, examples: Examples) -> IntVector:
        """Count one site's examples."""
        check_columns(examples, self.edges)
        check_binary(examples)
        return tally(examples, self, self.cells)

    def cells(self, batch: Batch) -> CodeVector:
        """Return the cell of each example of a batch."""
        return class_cells(self.edges, batch.scores[0], batch.labels)

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """One cell an example; a flipped label leaves one and enters another."""
        return additive(unit, cells=1, cells_flipped=2)

    def split(self, vector: FloatVector) -> BinCounts:
        """Name the two halves of a released vector."""
        bins = len(self.edges)
        return BinCounts(vector[:bins], vector[bins:])

    def parts(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, NoisyHistogram]:
        """The histogram itself."""
        return {"": NoisyHistogram(self.edges, *self.split(counts), noise)}

    @classmethod
    def from_table(
        cls, table: Mapping[str, Any], edges: Sequence[Edges], before: Before
    ) -> Self:
        """Read what ``table`` wrote."""
        del table, before
        return cls(only_edges(edges)[0])


def class_cells(edges: Edges, scores: FloatVector, labels: CodeVector) -> CodeVector:
    """Return label * bins + bin, the place of each example in the vector."""
    cells = np.empty(labels.shape, dtype=np.intp)
    # A product of small integers would wrap.
    np.multiply(labels, len(edges), out=cells, dtype=np.intp)
    cells += edges.bins_of(scores)
    return cells

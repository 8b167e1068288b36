"""Histograms of examples with several labels: one release for all labels.

Every label has a score of its own, and every example is counted once for each label. A row
whose k-th label is missing, or whose k-th score is no number, follows the rule for rows
that do not fit for that label alone: it is left out there, or counted in the label's
first cell where every row has to count. Its other labels count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import CodeVector, FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.data.examples import Batch, Examples
from discreet.errors import PlanError
from discreet.privacy.unit import Sensitivity, Unit, additive
from discreet.statistic.histogram import are_distinct, class_cells
from discreet.statistic.observed import NoiseDistribution, NoisyHistogram
from discreet.statistic.protocol import Statistic, tally


@dataclass(frozen=True)
class MultiLabel(Statistic):
    """For each label k, the class histogram of score column k.

    Every example is in one cell of each of the K histograms: L1 is K in all, and one
    release of the joint vector costs one epsilon, not K of them. Unlike classes, labels
    are not exclusive: flipping all labels of one example moves 2K cells.
    """

    edges: Edges
    labels: tuple[str, ...]

    name: ClassVar[str] = "multi-label"

    def __post_init__(self) -> None:
        if not self.labels or not are_distinct(self.labels, "label"):
            raise PlanError("a plan of several labels names each of them once")

    @property
    def label_columns(self) -> int:  # type: ignore[override]
        """One score column and one label column each."""
        return len(self.labels)

    @property
    def binnings(self) -> tuple[Edges, ...]:
        """All labels' scores, over the same bins."""
        return (self.edges,)

    @property
    def columns(self) -> tuple[Edges, ...]:
        """One score column per label."""
        return (self.edges,) * len(self.labels)

    @property
    def size(self) -> int:
        """K histograms of two classes each."""
        return len(self.labels) * 2 * len(self.edges)

    def fits(self, batch: Batch) -> NDArray[np.bool_]:
        """Judge one label's scores: a batch is of one label."""
        kept: NDArray[np.bool_] = self.edges.holds(batch.scores[0])
        return kept

    def count(self, examples: Examples) -> IntVector:
        """Count one site's examples in one pass, label by label."""
        return tally(examples, self, self._cells)

    def _cells(self, batch: Batch) -> CodeVector:
        first = batch.which * 2 * len(self.edges)
        return class_cells(self.edges, batch.scores[0], batch.labels) + first

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """K cells an example; flipping all its labels leaves K and enters K others."""
        k = len(self.labels)
        return additive(unit, cells=k, cells_flipped=2 * k)

    def parts(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, NoisyHistogram]:
        """Each label's histogram."""
        blocks = counts.reshape(len(self.labels), 2, len(self.edges))
        return {
            name: NoisyHistogram(self.edges, block[0], block[1], noise)
            for name, block in zip(self.labels, blocks, strict=True)
        }

"""Two models on the same examples: their scores counted together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from discreet.arrays import CodeVector, FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.data.examples import Batch, Examples
from discreet.errors import PlanError
from discreet.privacy.unit import Sensitivity, Unit, additive
from discreet.statistic.histogram import class_cells
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
from discreet.statistic.summed import SummedNoise


@dataclass(frozen=True)
class Paired(Statistic):
    """Histograms of two score columns.

    ``marginals``: one class histogram a model; L1 is 2. ``joint``: counts per
    class and pair of bins, which also shows how the two models' errors go
    together; L1 is 1, but there are many more cells for the noise to fill.
    """

    a: Edges
    b: Edges
    form: Literal["marginals", "joint"] = "marginals"

    name: ClassVar[str] = "paired"

    def __post_init__(self) -> None:
        if self.form not in ("marginals", "joint"):
            raise PlanError("a paired statistic has the form marginals or joint")

    @property
    def binnings(self) -> tuple[Edges, ...]:
        """One score column a model."""
        return (self.a, self.b)

    @property
    def compares(self) -> bool:
        """Two models on the same examples."""
        return True

    @property
    def joint(self) -> bool:
        """Whether it counts pairs of bins."""
        return self.form == "joint"

    @property
    def size(self) -> int:
        """Length of the vector."""
        a, b = len(self.a), len(self.b)
        return 2 * (a * b if self.form == "joint" else a + b)

    def count(self, examples: Examples) -> IntVector:
        """Count one site's examples."""
        check_columns(examples, self.a, self.b)
        check_binary(examples)
        return tally(examples, self, self._cells)

    def _cells(self, batch: Batch) -> CodeVector:
        first, second = batch.scores
        if self.form == "joint":
            row = class_cells(self.a, first, batch.labels)
            return row * len(self.b) + self.b.bins_of(second)
        return np.concatenate(
            [
                class_cells(self.a, first, batch.labels),
                class_cells(self.b, second, batch.labels) + 2 * len(self.a),
            ]
        )

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """One cell a marginal, or one joint cell."""
        cells = 1 if self.form == "joint" else 2
        return additive(unit, cells=cells, cells_flipped=2 * cells)

    def split(self, vector: FloatVector) -> tuple[BinCounts, BinCounts]:
        """Return the two models' class histograms."""
        if self.form == "joint":
            table = vector.reshape(2, len(self.a), len(self.b))
            first, second = table.sum(axis=2), table.sum(axis=1)
        else:
            cut = 2 * len(self.a)
            first, second = vector[:cut].reshape(2, -1), vector[cut:].reshape(2, -1)
        return BinCounts(*first), BinCounts(*second)

    def parts(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, NoisyHistogram]:
        """The two models' histograms, a and b."""
        first, second = self.split(counts)
        noises = (noise, noise)
        if self.form == "joint" and noise.scale:
            table = counts.reshape(2, len(self.a), len(self.b))
            noises = (SummedNoise(noise, table, 2), SummedNoise(noise, table, 1))
        return {
            "a": NoisyHistogram(self.a, *first, noises[0]),
            "b": NoisyHistogram(self.b, *second, noises[1]),
        }

    def table(self) -> dict[str, Any]:
        """Return the form."""
        return {"form": self.form}

    @classmethod
    def from_table(
        cls, table: Mapping[str, Any], edges: Sequence[Edges], before: Before
    ) -> Self:
        """Read what ``table`` wrote."""
        del before
        first, second = only_edges(edges, 2)
        return cls(first, second, table["form"])

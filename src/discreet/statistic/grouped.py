"""The same histogram for each of several declared, disjoint groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import CodeVector, FloatVector, IntVector
from discreet.data.cells import canonical
from discreet.data.edges import Edges
from discreet.data.examples import Batch, Examples
from discreet.errors import InputError, PlanError
from discreet.parsing import name
from discreet.privacy.unit import Sensitivity, Unit
from discreet.statistic.histogram import ClassHistogram
from discreet.statistic.observed import NoiseDistribution, NoisyHistogram
from discreet.statistic.protocol import (
    Before,
    BinCounts,
    Statistic,
    check_binary,
    check_columns,
    tally,
)

OTHER: Final = "other"
"""A declared group of this name takes the examples of every undeclared one."""


@dataclass(frozen=True)
class Grouped(Statistic):
    """A class histogram a group. Groups come from the plan, never from the data.

    An example is in one group, so the sensitivity is that of one histogram.
    """

    inner: ClassHistogram
    groups: tuple[str, ...]

    name: ClassVar[str] = "grouped"

    def __post_init__(self) -> None:
        for group in self.groups:
            name(group, "a group's name")
        texts = {canonical(group) for group in self.groups}
        if None in texts:
            raise PlanError("a group's name is no word for a missing value, such as NA")
        if not self.groups or len(texts) != len(self.groups):
            raise PlanError(
                "a grouped plan names one or more distinct groups; 1 and 1.0 are one"
            )

    @property
    def binnings(self) -> tuple[Edges, ...]:
        """One score column, the same bins in every group."""
        return self.inner.binnings

    @property
    def told_apart(self) -> tuple[str, ...]:
        """The groups."""
        return self.groups

    @property
    def size(self) -> int:
        """One histogram a group."""
        return len(self.groups) * self.inner.size

    def count(self, examples: Examples) -> IntVector:
        """Count one site's examples."""
        check_columns(examples, self.inner.edges)
        check_binary(examples)
        return tally(examples, self, self._cells)

    def fits(self, batch: Batch) -> NDArray[np.bool_]:
        """Leave out rows of groups that the plan does not name."""
        if batch.groups is None:  # a refusal would tell an empty site from others
            return np.zeros(len(batch), dtype=np.bool_)
        return super().fits(batch) & (self._places(batch) >= 0)

    def _places(self, batch: Batch) -> NDArray[np.intp]:
        if batch.groups is None:
            if len(batch):
                raise InputError(
                    "the plan counts by group, but the examples carry no group column"
                )
            return np.zeros(0, dtype=np.intp)
        code = {canonical(group): k for k, group in enumerate(self.groups)}
        other = code.get(OTHER, -1)
        places = [code.get(group, other) for group in batch.groups.tolist()]
        return np.asarray(places, dtype=np.intp)

    def _cells(self, batch: Batch) -> CodeVector:
        index = self._places(batch)
        strange = int(np.count_nonzero(index < 0))
        if strange:
            raise InputError(
                f"{strange} of {len(batch)} examples belong to no declared group; "
                "the plan must name every group, for instance one called other"
            )
        return self.inner.cells(batch) + index * self.inner.size

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """Disjoint groups cost nothing."""
        return self.inner.sensitivity(unit)

    def split(self, vector: FloatVector) -> dict[str, BinCounts]:
        """Return each group's histogram."""
        blocks = vector.reshape(len(self.groups), -1)
        return {
            group: self.inner.split(block)
            for group, block in zip(self.groups, blocks, strict=True)
        }

    def parts(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, NoisyHistogram]:
        """Each group's histogram."""
        return {
            group: NoisyHistogram(self.inner.edges, *split, noise)
            for group, split in self.split(counts).items()
        }

    def table(self) -> dict[str, Any]:
        """Return the groups' names."""
        return {"groups": list(self.groups)}

    @classmethod
    def from_table(
        cls, table: Mapping[str, Any], edges: Sequence[Edges], before: Before
    ) -> Self:
        """Read what ``table`` wrote."""
        inner = ClassHistogram.from_table(table, edges, before)
        return cls(inner, tuple(table["groups"]))

"""The same histogram for each of several declared, disjoint groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from discreet.arrays import CodeVector, FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.data.examples import Batch, Examples
from discreet.errors import InputError, PlanError
from discreet.privacy.unit import Sensitivity, Unit
from discreet.statistic.histogram import ClassHistogram
from discreet.statistic.observed import NoiseLaw, NoisyHistogram
from discreet.statistic.protocol import (
    Before,
    BinCounts,
    Statistic,
    check_binary,
    check_columns,
    tally,
)


@dataclass(frozen=True)
class Grouped(Statistic):
    """A class histogram a group. Groups come from the plan, never from the data.

    An example is in one group, so the sensitivity is that of one histogram.
    """

    inner: ClassHistogram
    groups: tuple[str, ...]

    name: ClassVar[str] = "grouped"

    def __post_init__(self) -> None:
        if not self.groups or len(set(self.groups)) != len(self.groups):
            raise PlanError("a grouped plan names one or more distinct groups")

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
        return tally(examples, self.size, self._cells)

    def _cells(self, batch: Batch) -> CodeVector:
        if batch.groups is None:
            raise InputError(
                "the plan counts by group, but the examples carry no group column"
            )
        code = {group: k for k, group in enumerate(self.groups)}
        places = [code.get(str(group), -1) for group in batch.groups.tolist()]
        index = np.asarray(places, dtype=np.intp)
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

    def parts(self, counts: FloatVector, law: NoiseLaw) -> Mapping[str, NoisyHistogram]:
        """Each group's histogram."""
        return {
            group: NoisyHistogram(self.inner.edges, *split, law)
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

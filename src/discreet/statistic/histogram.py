"""Class histograms: of all examples, of each group, of two models on the same examples."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import CodeVector, FloatVector, IntVector
from discreet.codec.parsing import name
from discreet.data.cells import canonical
from discreet.data.edges import Edges
from discreet.data.examples import Batch, Examples
from discreet.errors import InputError, PlanError
from discreet.privacy.unit import Sensitivity, Unit, additive
from discreet.statistic.observed import (
    AddedNoise,
    NoiseDistribution,
    NoisyHistogram,
    SummedNoise,
)
from discreet.statistic.protocol import BinCounts, Statistic, tally


class OneCell(Statistic):
    """A statistic that counts every example in one cell."""

    @abstractmethod
    def cells(self, batch: Batch) -> CodeVector:
        """Return the cell of each example of a batch."""


@dataclass(frozen=True)
class ClassHistogram(OneCell):
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


def class_cells(edges: Edges, scores: FloatVector, labels: CodeVector) -> CodeVector:
    """Return label * bins + bin, the place of each example in the vector."""
    cells = np.empty(labels.shape, dtype=np.intp)
    # A product of small integers would wrap.
    np.multiply(labels, len(edges), out=cells, dtype=np.intp)
    cells += edges.bins_of(scores)
    return cells


def are_distinct(names: Sequence[str], what: str) -> bool:
    """Check a plan's names of groups or classes; say whether their texts differ."""
    for one in names:
        name(one, f"a {what}'s name")
    texts = {canonical(one) for one in names}
    if None in texts:
        raise PlanError(f"a {what}'s name is no word for a missing value, such as NA")
    return len(texts) == len(names)


OTHER: Final = "other"
"""A declared group of this name takes the examples of every undeclared one."""


@dataclass(frozen=True)
class AroundHistogram(Statistic):
    """What has the bins of one class histogram."""

    inner: ClassHistogram

    @property
    def edges(self) -> Edges:
        """The histogram's."""
        return self.inner.edges

    @property
    def binnings(self) -> tuple[Edges, ...]:
        """The histogram's: one score column."""
        return self.inner.binnings


def _in_a_group(groups: Sequence[str], batch: Batch) -> NDArray[np.bool_]:
    """Mark the rows of groups that the plan names."""
    if batch.groups is None:  # a refusal would tell an empty site from others
        return np.zeros(len(batch), dtype=np.bool_)
    return _group_places(groups, batch) >= 0


def _group_places(groups: Sequence[str], batch: Batch) -> NDArray[np.intp]:
    if batch.groups is None:
        if len(batch):
            raise InputError(
                "the plan counts by group, but the examples carry no group column"
            )
        return np.zeros(0, dtype=np.intp)
    code = {canonical(group): k for k, group in enumerate(groups)}
    other = code.get(OTHER, -1)
    places = [code.get(group, other) for group in batch.groups.tolist()]
    return np.asarray(places, dtype=np.intp)


def _declared_groups(groups: Sequence[str], batch: Batch) -> NDArray[np.intp]:
    """Return the place of each row's group, or say that some have none."""
    index = _group_places(groups, batch)
    strange = int(np.count_nonzero(index < 0))
    if strange:
        raise InputError(
            f"{strange} of {len(batch)} examples belong to no declared group; "
            "the plan must name every group, for instance one called other"
        )
    return index


def _check_groups(groups: Sequence[str]) -> None:
    if not groups or not are_distinct(groups, "group"):
        raise PlanError(
            "a grouped plan names one or more distinct groups; 1 and 1.0 are one"
        )


class ByGroup(Statistic):
    """A statistic for each group. Groups come from the plan, never from the data.

    An example is in one group, so the sensitivity is that of one group's statistic.
    """

    inner: OneCell
    groups: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_groups(self.groups)

    @property
    def told_apart(self) -> tuple[str, ...]:
        """The groups."""
        return self.groups

    @property
    def size(self) -> int:
        """The inner one's, for each group."""
        return len(self.groups) * self.inner.size

    def count(self, examples: Examples) -> IntVector:
        """Count one site's examples."""
        return tally(examples, self, self._cells)

    def fits(self, batch: Batch) -> NDArray[np.bool_]:
        """Leave out rows of groups that the plan does not name."""
        return super().fits(batch) & _in_a_group(self.groups, batch)

    def _cells(self, batch: Batch) -> CodeVector:
        index = _declared_groups(self.groups, batch)
        return self.inner.cells(batch) + index * self.inner.size

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """Disjoint groups cost nothing."""
        return self.inner.sensitivity(unit)


@dataclass(frozen=True)
class Grouped(ByGroup, AroundHistogram):
    """A class histogram a group."""

    inner: ClassHistogram
    groups: tuple[str, ...]

    name: ClassVar[str] = "grouped"

    def split(self, vector: FloatVector) -> dict[str, BinCounts]:
        """Return each group's histogram."""
        blocks = map(self.inner.split, vector.reshape(len(self.groups), -1))
        return dict(zip(self.groups, blocks, strict=True))

    def parts(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, NoisyHistogram]:
        """Each group's histogram."""
        return {
            group: NoisyHistogram(self.edges, *split, noise)
            for group, split in self.split(counts).items()
        }

    def pooled(self, counts: FloatVector, noise: NoiseDistribution) -> NoisyHistogram:
        """Add up the groups' histograms; their noise adds up too."""
        total = counts.reshape(len(self.groups), -1).sum(axis=0)
        if noise.scale:
            noise = AddedNoise(noise, len(self.groups))
        return NoisyHistogram(self.edges, *self.inner.split(total), noise)


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
    compares: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.form not in ("marginals", "joint"):
            raise PlanError("a paired statistic has the form marginals or joint")

    @property
    def binnings(self) -> tuple[Edges, ...]:
        """One score column per model."""
        return (self.a, self.b)

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
        return tally(examples, self, self._cells)

    def _cells(self, batch: Batch) -> CodeVector:
        first, second = batch.scores
        if self.form == "joint":
            row = class_cells(self.a, first, batch.labels)
            return row * len(self.b) + self.b.bins_of(second)
        others = class_cells(self.b, second, batch.labels) + 2 * len(self.a)
        return np.append(class_cells(self.a, first, batch.labels), others)

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


@dataclass(frozen=True)
class PairedInGroups(Paired):
    """Histograms of two score columns in each group, group after group.

    An example is in one group, so the sensitivity is that of one pair of histograms.
    """

    groups: tuple[str, ...] = ()

    name: ClassVar[str] = "paired-in-groups"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_groups(self.groups)

    @property
    def inner(self) -> Paired:
        """What is counted in each group."""
        return Paired(self.a, self.b, self.form)

    @property
    def told_apart(self) -> tuple[str, ...]:
        """The groups."""
        return self.groups

    @property
    def size(self) -> int:
        """One pair of histograms a group."""
        return len(self.groups) * self.inner.size

    def fits(self, batch: Batch) -> NDArray[np.bool_]:
        """Leave out rows of groups that the plan does not name."""
        return super().fits(batch) & _in_a_group(self.groups, batch)

    def _cells(self, batch: Batch) -> CodeVector:
        cells = super()._cells(batch)
        index = _declared_groups(self.groups, batch)
        return cells + np.resize(index, cells.shape) * self.inner.size

    def by_group(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> dict[str, tuple[FloatVector, NoiseDistribution]]:
        """Return each group's counts with their noise, and their sum named ''."""
        blocks = counts.reshape(len(self.groups), -1)
        found = {g: (b, noise) for g, b in zip(self.groups, blocks, strict=True)}
        added = AddedNoise(noise, len(self.groups)) if noise.scale else noise
        return {**found, "": (blocks.sum(axis=0), added)}

    def split(self, vector: FloatVector) -> tuple[BinCounts, BinCounts]:
        """Return the two models' class histograms over all groups."""
        return self.inner.split(vector.reshape(len(self.groups), -1).sum(axis=0))

    def parts(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, NoisyHistogram]:
        """The two models' histograms over all groups, a and b."""
        return self.inner.parts(*self.by_group(counts, noise)[""])

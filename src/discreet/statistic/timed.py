r"""Follow-up as counts: one table of score bin, time interval and what ended the follow-up.

An example with score s, time u and event d in 0 (censored), 1 .. C is in one cell: bin of
s, interval of u (``discreet.data.times``), and d; or, where u is past the last cut, in the
one cell of its bin that says so, whatever d is. With B bins and K intervals there are
:math:`B (K (C + 1) + 1)` cells, and L1 is 1 for an example added or removed.

The vector holds the censored ones (B x K, bin by bin), then each cause's events (B x K),
then those who were followed past the last cut (B).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from discreet.arrays import CodeVector, FloatArray, FloatVector, IntVector
from discreet.codec.parsing import whole
from discreet.data.edges import Edges
from discreet.data.examples import MOST_CAUSES, Batch, Examples
from discreet.data.times import TimeCuts
from discreet.errors import InputError, PlanError, ReleaseError
from discreet.privacy.unit import Sensitivity, Unit, additive
from discreet.statistic.histogram import ByGroup, OneCell
from discreet.statistic.observed import NoiseDistribution, NoisyHistogram
from discreet.statistic.protocol import Statistic, tally


@dataclass(frozen=True, eq=False)
class TimedCounts:
    """A released table of follow-up, exact or unbiased with noise.

    With B score bins, K intervals (t_{k-1}, t_k] of the cuts 0 = t_0 < ... < t_K, and C
    causes of an event (1, or more under competing risks):

    Args:
        edges: the score bins, in the order of rising scores.
        cuts: t_0 to t_K.
        events: events by cause, bin and interval: C x B x K.
        censored: follow-up that ended without an event: B x K.
        beyond: followed past t_K, by bin.
        noise: the distribution of the noise in every one of these numbers.
        refusal: why this release must not be used, if so.
        notes: what a reader should know about it.
        predicts: the horizon whose risk the scores are, where they are probabilities;
            None for other scores.
    """

    edges: Edges
    cuts: FloatVector
    events: FloatArray
    censored: FloatArray
    beyond: FloatVector
    noise: NoiseDistribution
    refusal: str | None = None
    notes: tuple[str, ...] = ()
    predicts: float | None = None

    def __post_init__(self) -> None:
        bins, intervals = len(self.edges), len(self.cuts) - 1
        if (
            self.events.ndim != 3
            or self.events.shape[1:] != (bins, intervals)
            or self.censored.shape != (bins, intervals)
            or self.beyond.shape != (bins,)
        ):
            raise ReleaseError(
                f"a table over these edges and cuts has {bins} bins and {intervals} "
                "intervals"
            )

    @property
    def exact(self) -> bool:
        """Whether the counts carry no noise."""
        return self.noise.scale == 0

    @property
    def total(self) -> float:
        """Released number of examples."""
        return float(self.events.sum() + self.censored.sum() + self.beyond.sum())

    @property
    def size(self) -> int:
        """How many numbers were released."""
        return self.events.size + self.censored.size + self.beyond.size


@dataclass(frozen=True)
class TimedHistogram(OneCell):
    """Counts per score bin, time interval and what ended the follow-up.

    Args:
        edges: the score bins.
        cuts: 0 and the ends of the time intervals.
        causes: how many kinds of events there are.
    """

    edges: Edges
    cuts: tuple[float, ...]
    causes: int = 1

    name: ClassVar[str] = "timed"

    def __post_init__(self) -> None:
        whole(self.causes, "the number of causes", least=1, most=MOST_CAUSES)
        try:
            intervals = len(self.time_cuts)
        except InputError as err:
            raise PlanError(str(err)) from None
        if not intervals:
            raise PlanError("cuts of time begin at 0 and make at least one interval")

    @property
    def binnings(self) -> tuple[Edges, ...]:
        """One score column."""
        return (self.edges,)

    @cached_property
    def time_cuts(self) -> TimeCuts:
        """The cuts of follow-up times."""
        return TimeCuts(self.cuts)

    @property
    def intervals(self) -> int:
        """How many intervals the cuts make."""
        return len(self.cuts) - 1

    @property
    def size(self) -> int:
        """Every bin, interval and outcome, and every bin past the last cut."""
        return len(self.edges) * (self.intervals * (self.causes + 1) + 1)

    def check(self, examples: Examples, *, binary: bool = False) -> None:
        """Refuse examples without follow-up, or with other causes."""
        super().check(examples, binary=binary)
        _check_causes(examples, self.causes)

    def count(self, examples: Examples) -> IntVector:
        """Count one site's examples."""
        return tally(examples, self, self.cells)

    def cells(self, batch: Batch) -> CodeVector:
        """Return the cell of each example of a batch."""
        return self.column_cells(batch, 0)

    def column_cells(self, batch: Batch, column: int) -> CodeVector:
        """Return the cell of each example by one of the score columns."""
        if batch.times is None:
            raise InputError(
                "the plan counts follow-up, and the examples have no times"
            )
        bins = self.edges.bins_of(batch.scores[column]).astype(np.intp)
        places = self.time_cuts.places(batch.times)
        block = len(self.edges) * self.intervals
        inside = batch.labels.astype(np.intp) * block + bins * self.intervals + places
        past = (self.causes + 1) * block + bins
        return np.where(places == self.intervals, past, inside)

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """One cell an example; nothing is known of a flipped event."""
        return _additive(unit, cells=1)

    def split(self, vector: FloatVector, noise: NoiseDistribution) -> TimedCounts:
        """Name the parts of a released vector."""
        bins, intervals = len(self.edges), self.intervals
        inside = bins * intervals * (self.causes + 1)
        planes = vector[:inside].reshape(self.causes + 1, bins, intervals)
        cuts = self.time_cuts.array
        return TimedCounts(
            self.edges, cuts, planes[1:], planes[0], vector[inside:], noise
        )

    def parts(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, NoisyHistogram]:
        """There is no histogram of two classes."""
        del counts, noise
        return {}

    def tables(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, TimedCounts]:
        """The table itself."""
        return {"": self.split(counts, noise)}


def _check_causes(examples: Examples, causes: int) -> None:
    declared = examples.label_code.classes
    own = 1 if declared is None else len(declared) - 1
    if own != causes:
        raise InputError(
            f"the plan counts {causes} kinds of events, the examples declare {own}: "
            "read them with the same causes="
        )


def _additive(unit: Unit, *, cells: int) -> Sensitivity:
    if unit.relation == "flip":
        raise PlanError(
            "follow-up has no labels to protect alone: a time says as much as an event; "
            "protect examples, subjects or clients (distributed, local with laplace, or "
            "central)"
        )
    return additive(unit, cells=cells, cells_flipped=2 * cells)


@dataclass(frozen=True)
class AroundTimed(Statistic):
    """What has the bins and cuts of one table of follow-up."""

    inner: TimedHistogram

    @property
    def edges(self) -> Edges:
        """The table's."""
        return self.inner.edges

    @property
    def binnings(self) -> tuple[Edges, ...]:
        """The table's."""
        return self.inner.binnings

    @property
    def time_cuts(self) -> TimeCuts:
        """The table's."""
        return self.inner.time_cuts

    def check(self, examples: Examples, *, binary: bool = False) -> None:
        """Refuse what the table does not count."""
        super().check(examples, binary=binary)
        _check_causes(examples, self.inner.causes)

    def parts(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, NoisyHistogram]:
        """There is no histogram of two classes."""
        return self.inner.parts(counts, noise)

    @property
    @abstractmethod
    def table_names(self) -> tuple[str, ...]:
        """Names of the tables, one after the other in the vector."""

    def tables(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, TimedCounts]:
        """Each table, by its name."""
        blocks = counts.reshape(len(self.table_names), -1)
        named = zip(self.table_names, blocks, strict=True)
        return {name: self.inner.split(block, noise) for name, block in named}


def causes_of(statistic: Statistic | None) -> int:
    """Return how many kinds of events a statistic tells apart; 1 where time is not counted."""
    match statistic:
        case TimedHistogram() as table:
            return table.causes
        case AroundTimed(inner):
            return inner.causes
        case _:
            return 1


@dataclass(frozen=True)
class TimedGroups(ByGroup, AroundTimed):
    """A table of follow-up for each group: an example is in one of them."""

    inner: TimedHistogram
    groups: tuple[str, ...]

    name: ClassVar[str] = "timed-grouped"

    @property
    def table_names(self) -> tuple[str, ...]:
        """The groups."""
        return self.groups


class _OfColumns(AroundTimed):
    """A table for each score column on the same follow-up: L1 is their number."""

    @property
    def columns(self) -> tuple[Edges, ...]:
        """All over the same bins."""
        return (self.inner.edges,) * len(self.table_names)

    @property
    def size(self) -> int:
        """The tables, one after the other."""
        return len(self.table_names) * self.inner.size

    def count(self, examples: Examples) -> IntVector:
        """Count one site's examples, by each score column."""
        return tally(examples, self, self._cells)

    def _cells(self, batch: Batch) -> CodeVector:
        inner = self.inner
        every = range(len(self.table_names))
        return np.concatenate(
            [inner.column_cells(batch, k) + k * inner.size for k in every]
        )

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """One cell a table."""
        return _additive(unit, cells=len(self.table_names))


@dataclass(frozen=True)
class TimedPair(_OfColumns):
    """Two models on the same follow-up: a table each, and L1 is 2."""

    name: ClassVar[str] = "timed-paired"
    compares: ClassVar[bool] = True

    @property
    def table_names(self) -> tuple[str, ...]:
        """The two models."""
        return ("a", "b")


@dataclass(frozen=True)
class TimedHorizons(_OfColumns):
    """A score column, and a table, for the risk by each of K horizons: L1 is K."""

    horizons: tuple[float, ...]

    name: ClassVar[str] = "timed-horizons"

    def __post_init__(self) -> None:
        if len(self.horizons) < 2 or not set(self.horizons) <= set(self.inner.cuts[1:]):
            raise PlanError(
                "scores for two or more horizons are counted up to cuts that hold them"
            )
        if list(self.horizons) != sorted(set(self.horizons)):
            raise PlanError("horizons increase strictly, as their score columns do")

    @property
    def table_names(self) -> tuple[str, ...]:
        """The horizons, as texts."""
        return tuple(repr(t).removesuffix(".0") for t in self.horizons)

    def tables(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, TimedCounts]:
        """Each horizon's table, of scores that predict it."""
        tables = super().tables(counts, noise).items()
        named = zip(tables, self.horizons, strict=True)
        return {name: replace(table, predicts=t) for (name, table), t in named}

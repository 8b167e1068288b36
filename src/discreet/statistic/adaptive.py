"""Second-round edges, computed from a noisy pilot round that shows where scores are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Generic, TypeVar

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.codec.documents import written
from discreet.codec.parsing import whole
from discreet.data.edges import Edges, Listed
from discreet.data.examples import Examples
from discreet.data.prior_spread import on_scale
from discreet.errors import PlanError
from discreet.privacy.unit import Sensitivity, Unit
from discreet.statistic.hierarchy import Hierarchy, consistent_levels
from discreet.statistic.histogram import ClassHistogram
from discreet.statistic.observed import NoiseDistribution, NoisyHistogram
from discreet.statistic.protocol import Statistic

_KERNEL: Final = (1, 2, 3, 2, 1)
"""Weights of a pilot's cell and its neighbours: sums of integers, exact anywhere."""
_EVEN: Final = 0.25
"""Share of the bins that lie as the pilot's own, wherever it counted scores."""
_END: Final = 0.5
"""Of a bin's share: so much beyond the farthest edge makes that edge one."""


PilotT = TypeVar("PilotT", bound=Statistic)


@dataclass(frozen=True)
class Refined(Statistic, Generic[PilotT]):
    """The class histogram over edges that the release of the round before places.

    A small part of the budget finds out where scores are, the rest counts there. Each
    site computes the edges by itself from the total that the coordinator broadcasts. No
    site can check that total, but all sites of a sum get the same one: it is in the digest
    that binds a round. A coordinator who sends a false one chooses the edges. Privacy does
    not rest on them: the noise is sized for any. ``thresholds`` become edges in any case.
    """

    pilot: PilotT = field(metadata=written(supplied="before"))
    bins: int
    thresholds: tuple[float, ...] = field(
        default=(), metadata=written(supplied="thresholds")
    )

    pilots: ClassVar[type[Statistic]]
    """Of which kind the round before is."""

    def __post_init__(self) -> None:
        if not isinstance(self.pilot, self.pilots):
            raise PlanError(f"{self.name} bins follow their pilot round")
        whole(self.bins, "the number of bins")
        if not 2 <= self.bins <= self.most_bins:
            raise PlanError(
                f"{self.name} bins are between 2 and the {self.most_bins} of its pilot round"
            )

    @property
    def edges(self) -> Edges:
        """The edges of the pilot round."""
        return self.pilot.binnings[0]

    @property
    def follows(self) -> Statistic:
        """The pilot, whose round stands before."""
        return self.pilot

    @property
    def most_bins(self) -> int:
        """More bins than the pilot tells apart are not worth their noise."""
        return len(self.edges)

    @property
    def binnings(self) -> tuple[Edges, ...]:
        """The edges that are refined."""
        return (self.edges,)

    @property
    def size(self) -> int:
        """At most this many counts: heavy leaves and thresholds add edges."""
        return 2 * (2 * self.bins + len(self.thresholds))

    def count(self, examples: Examples) -> IntVector:
        """Refuse: what is counted follows from the round before."""
        del examples
        raise PlanError(self._unresolved)

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """That of the class histogram that it becomes."""
        return ClassHistogram(self.edges).sensitivity(unit)

    def parts(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, NoisyHistogram]:
        """Refuse: what was counted follows from the round before."""
        del counts, noise
        raise PlanError(self._unresolved)

    @property
    def _unresolved(self) -> str:
        return f"{self.name} edges are worked out from the release of the round before"

    def _over(self, inner: FloatVector) -> ClassHistogram:
        """Return the statistic over edges between the scores' limits."""
        scores = self.edges.scores
        values = (scores.low, *inner.tolist(), scores.high)
        return ClassHistogram(
            Edges.realise(Listed(values), scores, thresholds=self.thresholds)
        )


@dataclass(frozen=True)
class EquiDepthFrom(Refined[Hierarchy]):
    """Equally many examples a bin, by a tree over scores of which nothing is known."""

    name: ClassVar[str] = "equi-depth"
    pilots: ClassVar[type[Statistic]] = Hierarchy

    def resolve(self, released: FloatVector) -> ClassHistogram:
        """Return the second round's statistic; the same at every reader.

        A leaf's position counts both classes half each, as the ROC curve's own
        parameter (F + T)/2 does, so that a rare class gets its share of bins. A
        leaf that alone holds more than a bin's share becomes a bin of its own:
        ties then stand between empty bins, where an estimator can see them.
        """
        cumulative = _balanced_cumulative(self.pilot, released)
        wanted = np.arange(1, self.bins) / self.bins
        # The least leaf edge at or above each wanted share; empty ones merge.
        cuts = np.searchsorted(cumulative, wanted, side="left") + 1
        heavy = np.flatnonzero(np.diff(cumulative, prepend=0.0) >= 1 / self.bins)
        inner = np.unique(np.concatenate([cuts, heavy, heavy + 1]))
        inner = inner[(inner > 0) & (inner < len(self.edges))]
        return self._over(self.edges.array[inner])


@dataclass(frozen=True)
class PlacedFrom(Refined[ClassHistogram]):
    r"""Bins where a pilot round on the logit scale counted probabilities or logits.

    The pilot's cells hold even shares of a public prior. With :math:`m_k` the mean of
    both classes' shares in cell k, smoothed over its neighbours, bins hold even shares
    of :math:`\tfrac34 m_k + \tfrac14 /K`: most where scores are, some where the prior
    expects them. Cells are cut evenly on the logit scale. Sums of integers and quotients
    are the same on every machine, and edges are rounded to :math:`2^{-16}`.
    """

    name: ClassVar[str] = "placed"
    pilots: ClassVar[type[Statistic]] = ClassHistogram

    @property
    def most_bins(self) -> int:
        """A cell may be cut in two."""
        return 2 * len(self.edges)

    def resolve(self, released: FloatVector) -> ClassHistogram:
        """Return the second round's statistic; the same at every reader."""
        scores, inner = self.edges.scores, self.edges.array[1:-1]
        z = inner if scores.kind == "logit" else np.log(inner / (1 - inner))
        seen = [_shares(counts) for counts in self.pilot.split(released)]
        share = (seen[0] + seen[1]) / 2
        ends = z[[0, -1]][share[[0, -1]] > _END / self.bins]
        inside = self.bins - ends.size
        noise = _cumulated(share[1:-1])
        wanted = np.interp(np.arange(1, inside) / inside, noise, z)
        places = on_scale(np.concatenate([wanted, ends]), scores)
        return self._over(places)


def _shares(counts: FloatVector) -> FloatVector:
    """Return a class's shares of the cells, smoothed between the two outermost."""
    reach = len(_KERNEL) // 2
    padded = np.pad(counts[1:-1], reach, mode="edge")
    inside = sum(
        weight * padded[k : padded.size - 2 * reach + k]
        for k, weight in enumerate(_KERNEL)
    )
    seen = np.maximum(np.concatenate([counts[:1], inside, counts[-1:]]), 0.0)
    seen[1:-1] /= sum(_KERNEL)
    total = float(np.cumsum(seen)[-1])
    return seen / total if total > 0 else np.full(seen.size, 1 / seen.size)


def _cumulated(share: FloatVector) -> FloatVector:
    """Return the bins' cumulative distribution over the cells, from 0 to 1."""
    total = float(np.cumsum(share)[-1])
    even = np.full(share.size, 1 / share.size)
    noise = (1 - _EVEN) * (share / total if total > 0 else even) + _EVEN * even
    running = np.append(0.0, np.cumsum(noise))
    cumulated: FloatVector = running / running[-1]
    return cumulated


def _balanced_cumulative(tree: Hierarchy, released: FloatVector) -> FloatVector:
    """Return the mean of both classes' rising cumulative shares over the leaves."""
    shares = []
    levels = tree.levels(released)
    for counts in zip(*levels, strict=True):  # the negatives' levels, the positives'
        leaves = consistent_levels(counts, [1.0] * tree.height)[-1]
        running = np.maximum.accumulate(np.maximum(np.cumsum(leaves), 0.0))
        total = float(running[-1])
        shares.append(running / total if total > 0 else np.linspace(0, 1, running.size))
    mean: FloatVector = (shares[0] + shares[1]) / 2
    return mean

"""Follow-up as counts: one table of score bin, time interval and what ended the follow-up."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.arrays import FloatArray, FloatVector
from discreet.data.edges import Edges
from discreet.errors import ReleaseError
from discreet.statistic.observed import NoiseDistribution


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

"""Tables of follow-up from rows: the definition, slow and obvious."""

from __future__ import annotations

import numpy as np

from discreet.arrays import FloatVector
from discreet.data.edges import Edges, Listed
from discreet.data.scores import ScoreRange
from discreet.noise.mechanism import NoNoise
from discreet.statistic.observed import NoiseDistribution
from discreet.statistic.timed import TimedCounts


def tabulate(
    score: FloatVector,
    time: FloatVector,
    event: FloatVector,
    *,
    edges: Edges,
    cuts: FloatVector,
    causes: int = 1,
    noise: NoiseDistribution | None = None,
    rng: np.random.Generator | None = None,
) -> TimedCounts:
    """Count rows as a site does: interval k is (t_{k-1}, t_k], then beyond the last."""
    bins, intervals = len(edges), len(cuts) - 1
    b = edges.bins_of(score)
    k = np.clip(np.searchsorted(cuts, time, side="left") - 1, 0, intervals)
    events = np.zeros((causes, bins, intervals))
    censored, beyond = np.zeros((bins, intervals)), np.zeros(bins)
    past = k == intervals
    np.add.at(beyond, b[past], 1)
    for cause in range(causes):
        own = ~past & (event == cause + 1)
        np.add.at(events[cause], (b[own], k[own]), 1)
    none = ~past & (event == 0)
    np.add.at(censored, (b[none], k[none]), 1)
    if noise is None:
        return TimedCounts(edges, cuts, events, censored, beyond, NoNoise())
    assert rng is not None

    def noisy(part: FloatVector) -> FloatVector:
        return part + noise.sample(part.ravel(), 1, rng)[0].reshape(part.shape)

    return TimedCounts(
        edges, cuts, noisy(events), noisy(censored), noisy(beyond), noise
    )


def even_edges(score: FloatVector, bins: int, *, kind: str = "probability") -> Edges:
    """Return edges at quantiles of reference scores."""
    inner = np.unique(np.quantile(score, np.arange(1, bins) / bins))
    if kind == "probability":
        inside = inner[(inner > 0) & (inner < 1)]
        return Edges.realise(Listed((0.0, *inside.tolist(), 1.0)))
    low, high = float(score.min()) - 1, float(score.max()) + 1
    scores = ScoreRange("other", low, high)
    return Edges.realise(Listed((low, *inner.tolist(), high)), scores)

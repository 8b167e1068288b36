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


def aalen_johansen(
    time: FloatVector, event: FloatVector, horizon: float, cause: int = 1
) -> float:
    """Add up survival times the cause's hazard at every event, by definition."""
    risk, alive, order = 0.0, 1.0, np.argsort(time)
    left = time.size
    for t, d in zip(time[order], event[order], strict=True):
        if t > horizon:
            break
        if d == cause:
            risk += alive / left
        if d > 0:
            alive *= 1 - 1 / left
        left -= 1
    return risk


def auc_of_cause(
    score: FloatVector,
    time: FloatVector,
    event: FloatVector,
    horizon: float,
    cause: int,
) -> float:
    """Compare all pairs of a case and a control, weighed by 1/G on the rows.

    Controls are followed past the horizon, or have another cause's event by it.
    """
    order = np.argsort(time)
    left = np.arange(time.size, 0, -1)
    steps = np.where(event[order] == 0, 1 - 1 / left, 1.0)
    free = np.append(1.0, np.cumprod(steps))

    def weight(when: FloatVector) -> FloatVector:
        return 1 / free[np.searchsorted(time[order], when, side="left")]

    seen = (time <= horizon) & (event > 0)
    weights = np.where(seen, weight(time), 0.0)
    weights = np.where(time > horizon, weight(np.full_like(time, horizon)), weights)
    case = seen & (event == cause)
    other = (weights > 0) & ~case
    ahead = np.sign(score[case][:, None] - score[other][None]) / 2 + 0.5
    pairs = weights[case][:, None] * weights[other][None]
    return float((ahead * pairs).sum() / pairs.sum())


def even_edges(score: FloatVector, bins: int, *, kind: str = "probability") -> Edges:
    """Return edges at quantiles of reference scores."""
    inner = np.unique(np.quantile(score, np.arange(1, bins) / bins))
    if kind == "probability":
        inside = inner[(inner > 0) & (inner < 1)]
        return Edges.realise(Listed((0.0, *inside.tolist(), 1.0)))
    low, high = float(score.min()) - 1, float(score.max()) + 1
    scores = ScoreRange("other", low, high)
    return Edges.realise(Listed((low, *inner.tolist(), high)), scores)

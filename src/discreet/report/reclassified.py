r"""Net reclassification: whom the first model moves up and down against the second.

With categories cut by thresholds (or, without any, every rise of the score),

.. math::
    \mathrm{NRI}_+ = P(\text{up} \mid y = 1) - P(\text{down} \mid y = 1), \quad
    \mathrm{NRI}_- = P(\text{down} \mid y = 0) - P(\text{up} \mid y = 0),

(Pencina et al. 2008, 2011). Both are means over examples of a number of a cell of the
joint counts. With one threshold they are the differences of recall and of specificity.
A miscalibrated model can have a high NRI without any use (Hilden and Gerds 2014): it is
here because forms ask for it; report the difference of net benefits beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.data.edges import Edges
from discreet.errors import InputError
from discreet.estimate.estimate import Binning, Estimate, Interval, Normal, Zero
from discreet.statistic.observed import NoiseDistribution

_SIGNED: Final = Interval(-1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Reclassification:
    """Net reclassification of positives, of negatives, and their sum."""

    of_positives: Estimate
    of_negatives: Estimate
    total: Estimate


def reclassification(
    counts: FloatVector,
    distribution: NoiseDistribution,
    first: Edges,
    second: Edges,
    thresholds: Sequence[float] = (),
) -> Reclassification:
    """Read net reclassification from counts per class and pair of bins.

    A threshold inside a bin takes the bin whole, by its lower edge; without
    thresholds, examples of equal bins count as unmoved.
    """
    if first.array.tolist() != second.array.tolist() and not thresholds:
        raise InputError("rises of a score are read over the same bins of both models")
    a, b = (_categories(edges, thresholds) for edges in (first, second))
    moved = np.sign(a[:, None] - b[None, :]).ravel()
    n, p = np.split(counts, 2)
    up = _mean(moved, p, distribution, counts, positives=True)
    down = _mean(-moved, n, distribution, counts, positives=False)
    sampling = math.hypot(_sd(up), _sd(down))
    noise = math.hypot(
        *(e.noise.sd if isinstance(e.noise, Normal) else 0.0 for e in (up, down))
    )
    value = up.value + down.value
    total = Estimate(
        value,
        Normal(sampling),
        Normal(noise) if noise else Zero(),
        Binning(-2.0, 2.0, 0.0),
        support=Interval(-2.0, 2.0),
    )
    return Reclassification(up, down, total)


def _categories(edges: Edges, thresholds: Sequence[float]) -> FloatVector:
    """Return each bin's category, or its own place without thresholds."""
    if not thresholds:
        return np.arange(len(edges), dtype=np.float64)
    lower = edges.array[:-1]
    return np.searchsorted(np.sort(np.asarray(thresholds)), lower, "right").astype(
        np.float64
    )


def _mean(
    moved: FloatVector,
    cells: FloatVector,
    distribution: NoiseDistribution,
    counts: FloatVector,
    *,
    positives: bool,
) -> Estimate:
    """Return the mean of a number of a cell over one class's examples."""
    total = float(cells.sum())
    if not total > 0:
        return Estimate.undefined("the pooled data hold none of this class", _SIGNED)
    value = min(max(float(moved @ cells) / total, -1.0), 1.0)
    slopes: FloatArray = (moved - value) / total
    variance = float(np.maximum(cells, 0.0) @ slopes**2)
    each = distribution.covariance(counts)
    noise = float((each.positives if positives else each.negatives) @ slopes**2)
    return Estimate(
        value,
        Normal(math.sqrt(max(variance, 0.0))),
        Normal(math.sqrt(noise)) if noise > 0 else Zero(),
        Binning(-1.0, 1.0, 0.0),
        support=_SIGNED,
    )


def _sd(estimate: Estimate) -> float:
    return estimate.sampling.sd if isinstance(estimate.sampling, Normal) else 0.0

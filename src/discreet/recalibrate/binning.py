r"""Quantile histogram binning: one rate for each of B groups of about equal mass.

.. math::
    B = \min\{M^{1/3},\ \sqrt{M/\sigma}\}

with M examples and :math:`\sigma` the noise's standard deviation in one count. A
group hides a shift of order 1/B. Sampling adds :math:`\sqrt{B/M}`, which balances
it at :math:`M^{1/3}` (Cormode and Markov 2023, theorem 7); noise adds
:math:`B\sigma/M`, which balances it at :math:`\sqrt{M/\sigma}`. Under local
privacy, :math:`\sigma = \sqrt M/\varepsilon`, this is their
:math:`\sqrt{\varepsilon\sqrt M}` (theorem 8); under distributed noise the first
bound is the smaller one.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.errors import InputError
from discreet.recalibrate.steps import Steps
from discreet.statistic.observed import NoisyHistogram


def fit_binning(counts: NoisyHistogram, *, bins: int | None = None) -> Steps:
    """Group the release's bins by mass and give each group its rate."""
    n, p = (np.maximum(c, 0.0) for c in (counts.negatives, counts.positives))
    wanted = bins_for(counts) if bins is None else bins
    starts = quantile_starts(n + p, wanted)
    positives, totals = np.add.reduceat(p, starts), np.add.reduceat(n + p, starts)
    return Steps.between("binning", counts.edges, starts, positives / totals)


def bins_for(counts: NoisyHistogram) -> int:
    """Return the number of groups by the written rule."""
    examples = max(counts.total_negatives + counts.total_positives, 1.0)
    wanted = math.cbrt(examples)
    if counts.law.scale > 0:
        wanted = min(wanted, math.sqrt(examples / counts.law.scale))
    return max(int(np.rint(wanted)), 1)


def quantile_starts(totals: FloatVector, groups: int) -> IntVector:
    r"""Return the first bins of groups of about equal mass.

    The cut for :math:`j/B` is the edge whose mass below is nearest to it (the
    lower of two); cuts that fall on one edge are one, so there may be fewer
    groups than asked for, and none is empty.
    """
    if groups < 1:
        raise InputError(f"need at least 1 group of bins, got {groups}")
    below = np.cumsum(totals)
    whole = float(below[-1])
    if whole <= 0:
        raise InputError("there are no examples to group; calibration needs some")
    targets = whole * np.arange(1, groups) / groups
    right = np.minimum(np.searchsorted(below, targets), below.size - 1)
    left = np.maximum(right - 1, 0)
    nearer = np.abs(below[left] - targets) <= np.abs(below[right] - targets)
    cuts = np.where(nearer, left, right) + 1
    # A cut with nothing below it or nothing above it makes an empty group.
    some = (below[cuts - 1] > 0) & (below[cuts - 1] < whole)
    first = np.searchsorted(below, below[cuts[some] - 1]) + 1
    starts: IntVector = np.append(0, np.unique(first)).astype(np.int64)
    return starts

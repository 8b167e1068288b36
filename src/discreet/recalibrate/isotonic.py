"""Isotonic regression on a modest number of bins.

The nearest rates, weighted by examples, that never fall as scores rise (pool
adjacent violators). It follows every upward wiggle of sampling and noise;
:mod:`discreet.recalibrate.levels` does not.
"""

from __future__ import annotations

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.recalibrate.rates import Rates
from discreet.recalibrate.steps import Steps
from discreet.statistic.observed import NoisyHistogram


def fit_isotonic(observed: NoisyHistogram, counts: NoisyHistogram) -> Steps:
    """Return the isotonic rates of the release's bins."""
    rates = Rates.of(observed, counts)
    found = rates.merged(isotonic_levels(rates.values, rates.totals))
    return Steps.between("isotonic", counts.edges, found.starts, found.values)


def isotonic_levels(values: FloatVector, weights: FloatVector) -> IntVector:
    """Return where the levels of the isotonic regression start."""
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - slow to import

    blocks = isotonic_regression(values, weights=weights).blocks
    starts: IntVector = blocks[:-1].astype(np.int64)
    return starts

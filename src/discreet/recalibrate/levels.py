r"""Isotonic regression in as few levels as the release can tell apart.

Neighbouring levels of the isotonic rates are pooled, the least different first,
until each differs from the next by

.. math::
    \frac{|r_k - r_{k+1}|}{\operatorname{sd}(r_k - r_{k+1})} > 3,

where the standard deviation holds sampling and the release's noise. It is the
reduced monotonic regression of Schell and Singh (1997) with noisy counts. At 3
standard deviations, 20 comparisons of equal rates leave a false level in one release
of 20.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from discreet.arrays import FloatVector
from discreet.recalibrate.isotonic import isotonic_levels
from discreet.recalibrate.rates import Rates
from discreet.recalibrate.steps import Steps
from discreet.statistic.observed import NoisyHistogram

APART: Final = 3.0
"""Standard deviations between neighbouring levels: ``docs/calibration.md``."""


def fit_levels(observed: NoisyHistogram, counts: NoisyHistogram) -> Steps:
    """Return isotonic rates in as many levels as can be told apart."""
    return steps_of(Rates.of(observed, counts), counts)


def steps_of(rates: Rates, counts: NoisyHistogram) -> Steps:
    """Return the map in levels of rates that are worked out already."""
    found = levels(rates)
    return Steps.between("levels", counts.edges, found.starts, found.safe_values)


def levels(rates: Rates, *, apart: float = APART) -> Rates:
    """Pool isotonic rates until neighbours differ by ``apart`` deviations."""
    found = rates.merged(isotonic_levels(rates.values, rates.totals))
    while found.starts.size > 1:
        squared = _differences(found)
        nearest = int(np.argmin(squared))
        if squared[nearest] > apart**2:
            break
        found = found.merged(np.delete(np.arange(found.starts.size), nearest + 1))
    return found


def _differences(rates: Rates) -> FloatVector:
    """Return the squared differences of neighbours, in variances.

    Both rates take the variance that they would have if they were equal.
    """
    t, p = rates.totals, rates.positives
    overall = p.sum() / t.sum()
    common = (p[1:] + p[:-1] + overall) / (t[1:] + t[:-1] + 1)
    size = t.size
    slope = np.zeros((size - 1, 2 * size))
    k = np.arange(size - 1)
    for side, sign in ((k, -1.0), (k + 1, 1.0)):
        slope[k, side] = -sign * common / t[side]
        slope[k, size + side] = sign * (1 - common) / t[side]
    noise = ((slope @ rates.noise) * slope).sum(axis=1)
    sampling = common * (1 - common) * (1 / t[1:] + 1 / t[:-1])
    found: FloatVector = np.diff(rates.values) ** 2 / (sampling + noise)
    return found

r"""Murphy's (1973) parts of the Brier score over groups of predictions.

.. math::
    \underbrace{\frac1M\sum_g \frac{(F_g - P_g)^2}{T_g}}_{\text{reliability}}
    - \underbrace{\frac1M\sum_g T_g\Bigl(\frac{P_g}{T_g} - \bar r\Bigr)^2}_{\text{resolution}}
    + \underbrace{\bar r(1 - \bar r)}_{\text{uncertainty}}
    + \text{what varies within groups,}

with P positives, T examples and F the sum of the predictions in a group, and M
examples in all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.estimate.estimate import Binning, Estimate
from discreet.estimate.reliability import (
    DEFAULT_BINS,
    Groups,
    Kind,
    mean_squared_error,
)
from discreet.statistic.observed import NoisyHistogram


@dataclass(frozen=True, slots=True)
class BrierParts:
    """Brier score = reliability - resolution + uncertainty + within."""

    reliability: Estimate
    resolution: Estimate
    uncertainty: Estimate
    within: float
    """What predictions and rates vary inside the groups (Stephenson 2008)."""

    @property
    def total(self) -> float:
        """The Brier score."""
        parts = self.reliability.value - self.resolution.value + self.uncertainty.value
        return parts + self.within


def brier_parts(
    counts: NoisyHistogram, bins: int = DEFAULT_BINS, kind: Kind = "width"
) -> BrierParts:
    """Return Murphy's decomposition of the Brier score over groups."""
    groups = Groups.of(counts, bins, kind)
    if groups.examples <= 0:
        nothing = Estimate.undefined("there are no examples")
        return BrierParts(nothing, nothing, nothing, math.nan)
    p, m = groups.positives, groups.examples
    t = np.where(groups.totals > 0, groups.totals, 1.0)
    off = groups.predicted - p
    rate, overall = p / t, float(p.sum()) / m
    none, one = np.zeros(bins), np.ones(bins)
    reliability = float((off**2 / t).sum()) / m
    within_rates = float((p * rate).sum()) / m
    resolution = within_rates - overall**2
    uncertainty = overall * (1 - overall)
    # A mean prediction that is off by x moves its square by 2 |f - r| x.
    typical = 2 * math.sqrt(reliability) * groups.typical_binning
    binning = Binning(0.0, 1.0, typical)
    square = Binning(0.0, uncertainty, groups.typical_binning**2)
    exact = Binning(uncertainty, uncertainty, 0.0)
    total = mean_squared_error(counts, groups.predictions)
    return BrierParts(
        groups.estimate(
            reliability,
            groups.slopes(
                -2 * off / (t * m),
                -((off / t) ** 2) / m - reliability / m,
                2 * off / (t * m),
            ),
            binning,
        ),
        groups.estimate(
            resolution,
            groups.slopes(
                2 * (rate - overall) / m,
                (2 * overall**2 - within_rates - rate**2) / m,
                none,
            ),
            square,
        ),
        groups.estimate(
            uncertainty,
            groups.slopes(
                (1 - 2 * overall) / m * one,
                -(1 - 2 * overall) * overall / m * one,
                none,
            ),
            exact,
        ),
        total - (reliability - resolution + uncertainty),
    )

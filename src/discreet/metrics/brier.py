r"""The Brier score from counts per bin, and Murphy's (1973) parts of it.

Over groups of predictions the score is

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
from typing import Final, NamedTuple

import numpy as np

from discreet.arrays import FloatVector
from discreet.data.edges import Edges, unit_edges
from discreet.errors import InputError
from discreet.estimate.estimate import Binning, Estimate, Interval
from discreet.estimate.fit import Fit
from discreet.estimate.intervals import SYMMETRIC
from discreet.estimate.slopes import Cells, Slopes, brier_slopes
from discreet.metrics.calibration import DEFAULT_BINS
from discreet.metrics.influence import brier_influence
from discreet.metrics.score_groups import Groups, Kind
from discreet.metrics.table import MetricRow
from discreet.statistic.observed import NoisyHistogram


class BrierScore(NamedTuple):
    """The score, its limits wherever scores lie in their bins, and what slopes add."""

    value: float
    best: float
    worst: float
    tilt: float


def brier_score(counts: NoisyHistogram) -> BrierScore:
    r"""Return the mean squared error of the probabilities.

    .. math::
        \frac1M \sum_b p_b\,E[(1-s)^2 \mid b] + n_b\,E[s^2 \mid b]

    Inside a bin of middle m and width w a class's density is a straight line
    whose slope r, relative to its height, is that of the neighbouring bins:
    :math:`E[s] = m + r w^2/12`, :math:`E[(s-m)^2] = w^2/12`. (Flat densities
    overrate the score: positives lie higher in their bin than negatives.) The
    limits put every score at its better or worse end.
    """
    return _score(counts.edges, counts.negatives, counts.positives)


def _score(edges: Edges, n: FloatVector, p: FloatVector) -> BrierScore:
    ends = unit_edges(edges)
    low, high = ends[:-1], ends[:-1] if edges.atoms else ends[1:]
    middle, spread = (low + high) / 2, (high - low) ** 2 / 12
    total = float(p.sum() + n.sum())
    if total <= 0:
        raise InputError("a Brier score needs examples; there are none")

    def mean(miss: FloatVector, hit: FloatVector) -> float:
        return float(p @ miss + n @ hit) / total

    even = mean((1 - middle) ** 2 + spread, middle**2 + spread)
    tilt = mean(
        -2 * (1 - middle) * _shift(p, middle, high - low),
        2 * middle * _shift(n, middle, high - low),
    )
    best, worst = mean((1 - high) ** 2, low**2), mean((1 - low) ** 2, high**2)
    return BrierScore(min(max(even + tilt, best), worst), best, worst, tilt)


def _shift(counts: FloatVector, middle: FloatVector, width: FloatVector) -> FloatVector:
    """Return how far the mean score of a bin lies above its middle."""
    if counts.size < 2 or not width.all():
        return np.zeros_like(counts)
    density = counts / width
    rise = np.append(density[1:], density[-1]) - np.append(density[0], density[:-1])
    run = np.append(middle[1:], middle[-1]) - np.append(middle[0], middle[:-1])
    slope = np.divide(rise, run * density, out=np.zeros_like(rise), where=density > 0)
    # A density cannot fall below zero at the bin's lower end.
    found: FloatVector = np.clip(slope, -2 / width, 2 / width) * width**2 / 12
    return found


def _limits(fit: Fit, value: float) -> Binning:
    """Return the limits; the typical error is a quarter of what the slopes change."""
    del value
    found = brier_score(fit.counts)
    return Binning(found.best, found.worst, abs(found.tilt) / 4)


def _slopes(cells: Cells) -> Slopes:
    if cells.edges is None:
        raise InputError("the slopes of a Brier score are taken in bins")
    return brier_slopes(cells.edges, cells.negatives, cells.positives)


BRIER: Final = MetricRow(
    name="brier",
    title="Brier score",
    value=lambda fit: brier_score(fit.counts).value,
    limits=_limits,
    slopes=_slopes,
    shape=lambda _: SYMMETRIC,
    better="lower",
    needs_probabilities=True,
    source="Brier 1950; scikit-learn's brier_score_loss",
    formula="mean (y - s)^2",
    hides="the prevalence: a rare event has a low score without any model",
    one_class=True,
    influence=brier_influence,
)


def _scaled(fit: Fit) -> float:
    return 1 - brier_score(fit.counts).value / _of_no_model(fit)


def _of_no_model(fit: Fit) -> float:
    """Return the score of whoever says the prevalence of everybody."""
    p, n = (float(c.sum()) for c in (fit.counts.positives, fit.counts.negatives))
    return p * n / (p + n) ** 2


def _scaled_limits(fit: Fit, value: float) -> Binning:
    found, most = _limits(fit, value), _of_no_model(fit)
    return Binning(1 - found.high / most, 1 - found.low / most, found.typical / most)


def _scaled_slopes(cells: Cells) -> Slopes:
    r"""Return the derivative of :math:`1 - B M^2 / (P N)`."""
    if cells.edges is None:
        raise InputError("the slopes of a Brier score are taken in bins")
    p, n = float(cells.positives.sum()), float(cells.negatives.sum())
    m = p + n
    plain = _slopes(cells)
    score = _score(cells.edges, cells.negatives, cells.positives).value
    # The derivative of M^2/(P N) in P, and in N.
    by_p, by_n = m * (p - n) / (p * p * n), m * (n - p) / (n * n * p)
    scale = m * m / (p * n)
    return Slopes(
        -scale * plain.negatives - score * by_n,
        -scale * plain.positives - score * by_p,
    )


SCALED_BRIER: Final = MetricRow(
    name="scaled_brier",
    title="scaled Brier score",
    value=_scaled,
    limits=_scaled_limits,
    slopes=_scaled_slopes,
    shape=lambda _: SYMMETRIC,
    better="higher",
    needs_probabilities=True,
    source="index of prediction accuracy; Kattan and Gerds 2018",
    formula="1 - Brier/(r(1 - r))",
    hides="whether ranking or calibration is at fault",
    support=Interval(-math.inf, 1.0),
)


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
    total = brier_score(counts).value
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

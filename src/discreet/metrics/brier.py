r"""The Brier score from counts per bin, and two ways of taking it apart.

Murphy (1973), over groups of predictions:

.. math::
    \underbrace{\frac1M\sum_g \frac{(F_g - P_g)^2}{T_g}}_{\text{reliability}}
    - \underbrace{\frac1M\sum_g T_g\Bigl(\frac{P_g}{T_g} - \bar r\Bigr)^2}_{\text{resolution}}
    + \underbrace{\bar r(1 - \bar r)}_{\text{uncertainty}}
    + \text{what varies within groups,}

with P positives, T examples and F the sum of the predictions in a group, and M
examples in all.

Dimitriadis, Gneiting and Jordan (2021, CORP), without groups to choose: with c(s) the
increasing rate that fits best (pool adjacent violators over the bins),

.. math::
    \text{Brier}(s) = \underbrace{\text{Brier}(s) - \text{Brier}(c)}_{\text{miscalibration}}
    - \underbrace{r(1-r) - \text{Brier}(c)}_{\text{discrimination}}
    + \underbrace{r(1-r)}_{\text{uncertainty}}.

By the envelope theorem the pooled blocks count as fixed in the slopes. Miscalibration
and discrimination are at least 0, so of few examples both are too large, by as much: a
fitted curve follows scatter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from discreet.arrays import FloatVector
from discreet.data.edges import Edges, unit_edges
from discreet.errors import InputError
from discreet.estimate.estimate import Binning, Estimate
from discreet.estimate.fit import Fit
from discreet.estimate.slopes import Cells, Slopes
from discreet.metrics.calibration import DEFAULT_BINS, Grouping, Groups
from discreet.metrics.influence import brier_influence
from discreet.metrics.measure import (
    Local,
    Measure,
    combined,
    edges_of,
    mean_shift,
    of_bins,
)
from discreet.noise.mechanism import NoNoise
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
    edges, n, p = counts.edges, counts.negatives, counts.positives
    ends, (on_n, on_p) = unit_edges(edges), _losses(edges)
    low, high = ends[:-1], ends[:-1] if edges.atoms else ends[1:]
    total = float(p.sum() + n.sum())
    if total <= 0:
        raise InputError("a Brier score needs examples; there are none")

    def mean(miss: FloatVector, hit: FloatVector) -> float:
        return float(p @ miss + n @ hit) / total

    tilt, middle = 0.0, (low + high) / 2
    if not edges.atoms:
        tilt = mean(
            -2 * (1 - middle) * mean_shift(p, ends, sure=False),
            2 * middle * mean_shift(n, ends, sure=False),
        )
    best, worst = mean((1 - high) ** 2, low**2), mean((1 - low) ** 2, high**2)
    return BrierScore(min(max(mean(on_p, on_n) + tilt, best), worst), best, worst, tilt)


def _losses(edges: Edges) -> tuple[FloatVector, FloatVector]:
    """Return the mean loss of a negative and of a positive spread evenly over its bin."""
    ends = unit_edges(edges)
    low, high = ends[:-1], ends[:-1] if edges.atoms else ends[1:]
    middle, spread = (low + high) / 2, (high - low) ** 2 / 12
    return middle**2 + spread, (1 - middle) ** 2 + spread


def _limits(fit: Fit, value: float) -> Binning:
    """Return the limits; the typical error is a quarter of what the slopes change."""
    del value
    score = brier_score(fit.counts)
    return Binning(score.best, score.worst, abs(score.tilt) / 4)


def _score(cells: Cells) -> Local:
    edges = edges_of(cells)
    counts = NoisyHistogram(edges, cells.negatives, cells.positives, NoNoise())
    return Local(brier_score(counts).value, _mean_loss(cells, *_losses(edges)).slopes)


def _pooled(cells: Cells) -> Local:
    """Return the Brier score of the best increasing rates."""
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - slow to import

    total = cells.negatives + cells.positives
    some = total > 0
    rates: FloatVector = np.zeros(total.size, dtype=np.float64)
    pooled = isotonic_regression(
        cells.positives[some] / total[some], weights=total[some]
    )
    rates[some] = np.clip(pooled.x, 0.0, 1.0)
    return _of_rates(cells, rates)


def _uncertain(cells: Cells) -> Local:
    """Return r(1 - r), the Brier score of the constant r."""
    p, n = float(cells.positives.sum()), float(cells.negatives.sum())
    return _of_rates(cells, np.full(cells.negatives.size, p / (p + n)))


def _of_rates(cells: Cells, rates: FloatVector) -> Local:
    """Return the Brier score of a rate a bin that counts as fixed in the slopes."""
    return _mean_loss(cells, rates**2, (1 - rates) ** 2)


def _mean_loss(cells: Cells, on_n: FloatVector, on_p: FloatVector) -> Local:
    r"""Return the mean loss; its slopes are :math:`(\ell - A)/M`."""
    total = float(cells.negatives.sum() + cells.positives.sum())
    mean = float(cells.negatives @ on_n + cells.positives @ on_p) / total
    return Local(mean, Slopes((on_n - mean) / total, (on_p - mean) / total))


BRIER: Final = Measure(
    value=lambda fit: brier_score(fit.counts).value,
    slopes=lambda cells: _score(cells).slopes,
    limits=_limits,
    one_class=True,
    influence=brier_influence,
)


def _scaled(cells: Cells) -> Local:
    return combined(lambda v: 1 - v[0] / v[1], _score(cells), _uncertain(cells))


def _scaled_limits(fit: Fit, value: float) -> Binning:
    inner, most = _limits(fit, value), _uncertain(fit.bins).value
    return Binning(1 - inner.high / most, 1 - inner.low / most, inner.typical / most)


SCALED_BRIER: Final = Measure(
    value=lambda fit: _scaled(fit.bins).value,
    slopes=lambda cells: _scaled(cells).slopes,
    limits=_scaled_limits,
)


def _less(
    first: Callable[[Cells], Local], second: Callable[[Cells], Local]
) -> Callable[[Cells], Local]:
    return lambda cells: combined(lambda v: v[0] - v[1], first(cells), second(cells))


MISCALIBRATION: Final = of_bins(_less(_score, _pooled))
DISCRIMINATION: Final = of_bins(_less(_uncertain, _pooled))
UNCERTAINTY: Final = of_bins(_uncertain)


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
    counts: NoisyHistogram, bins: int = DEFAULT_BINS, kind: Grouping = "width"
) -> BrierParts:
    """Return Murphy's decomposition of the Brier score over groups."""
    groups = Groups.of(counts, bins, kind)
    if groups.examples <= 0:
        nothing = Estimate.undefined("there are no examples")
        return BrierParts(nothing, nothing, nothing, math.nan)
    p, m = groups.positives, groups.examples
    t = np.where(groups.totals > 0, groups.totals, 1.0)
    off = groups.predicted - p
    rate, r = p / t, float(p.sum()) / m
    none, one = np.zeros(bins), np.ones(bins)
    reliability = float((off**2 / t).sum()) / m
    within_rates = float((p * rate).sum()) / m
    resolution, uncertainty = within_rates - r**2, r * (1 - r)
    on_reliability = groups.slopes(
        -2 * off / (t * m), -((off / t) ** 2) / m - reliability / m, 2 * off / (t * m)
    )
    on_resolution = groups.slopes(
        2 * (rate - r) / m, (2 * r**2 - within_rates - rate**2) / m, none
    )
    on_uncertainty = groups.slopes(
        (1 - 2 * r) / m * one, -(1 - 2 * r) * r / m * one, none
    )
    # A mean prediction that is off by x moves its square by 2 |f - r| x.
    typical = 2 * math.sqrt(reliability) * groups.typical_binning
    square = Binning(0.0, uncertainty, groups.typical_binning**2)
    exact = Binning(uncertainty, uncertainty, 0.0)
    return BrierParts(
        groups.estimate(reliability, on_reliability, Binning(0.0, 1.0, typical)),
        groups.estimate(resolution, on_resolution, square),
        groups.estimate(uncertainty, on_uncertainty, exact),
        brier_score(counts).value - (reliability - resolution + uncertainty),
    )

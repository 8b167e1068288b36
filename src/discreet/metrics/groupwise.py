r"""Rows that put scores into groups: ECE, and the parts of the Brier score.

The parts are those of Dimitriadis, Gneiting and Jordan (2021, CORP). With c(s) the
increasing rate that fits best (pool adjacent violators over the bins),

.. math::
    \text{Brier}(s) = \underbrace{\text{Brier}(s) - \text{Brier}(c)}_{\text{miscalibration}}
    - \underbrace{r(1-r) - \text{Brier}(c)}_{\text{discrimination}}
    + \underbrace{r(1-r)}_{\text{uncertainty}},

exactly, with no groups to choose. By the envelope theorem the pooled blocks count as fixed
in the slopes. Miscalibration and discrimination are at least 0, so of few examples both are
too large, by as much: a fitted curve follows scatter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from discreet.arrays import FloatVector
from discreet.errors import InputError
from discreet.estimate.estimate import Binning
from discreet.estimate.fit import Fit
from discreet.estimate.intervals import Shape
from discreet.estimate.slopes import Cells, Slopes
from discreet.metrics.calibration import DEFAULT_BINS, expected_calibration_error
from discreet.metrics.local import Local, Placed, probability_row
from discreet.metrics.score_groups import Groups
from discreet.metrics.table import MetricRow
from discreet.noise.mechanism import NoNoise
from discreet.statistic.observed import NoisyHistogram


def _scored(cells: Cells) -> Local:
    """Return the Brier score of the placed scores."""
    at = Placed.of(cells)
    on_n = (at.of_negatives**2).mean(axis=1)
    on_p = ((1 - at.of_positives) ** 2).mean(axis=1)
    return _mean_loss(cells, on_n, on_p)


def _pooled(cells: Cells) -> Local:
    """Return the Brier score of the best increasing rates."""
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - slow to import

    total = cells.negatives + cells.positives
    some = total > 0
    found = isotonic_regression(
        cells.positives[some] / total[some], weights=total[some]
    ).x
    rates: FloatVector = np.zeros(total.size, dtype=np.float64)
    rates[some] = np.clip(found, 0.0, 1.0)
    return _mean_loss(cells, rates**2, (1 - rates) ** 2)


def _uncertain(cells: Cells) -> Local:
    """Return r(1 - r)."""
    total = float(cells.negatives.sum() + cells.positives.sum())
    r = float(cells.positives.sum()) / total
    one = np.ones_like(cells.negatives)
    # The constant's own Brier score: by the envelope theorem r counts as fixed.
    return _mean_loss(cells, r**2 * one, (1 - r) ** 2 * one)


def _mean_loss(cells: Cells, on_n: FloatVector, on_p: FloatVector) -> Local:
    total = float(cells.negatives.sum() + cells.positives.sum())
    if not total > 0:
        raise InputError("a Brier score needs examples; there are none")
    mean = float(cells.negatives @ on_n + cells.positives @ on_p) / total
    return Local(mean, Slopes((on_n - mean) / total, (on_p - mean) / total))


def _less(
    first: Callable[[Cells], Local], second: Callable[[Cells], Local]
) -> Callable[[Cells], Local]:
    def measure(cells: Cells) -> Local:
        (a, on_a), (b, on_b) = first(cells), second(cells)
        return Local(
            a - b,
            Slopes(on_a.negatives - on_b.negatives, on_a.positives - on_b.positives),
        )

    return measure


def _counts(cells: Cells) -> NoisyHistogram:
    if cells.edges is None:
        raise InputError("groups of scores are made of bins")
    return NoisyHistogram(cells.edges, cells.negatives, cells.positives, NoNoise())


def _ece(cells: Cells) -> Local:
    groups = Groups.of(_counts(cells), DEFAULT_BINS, "width")
    off = groups.deviations
    value = float(np.abs(off).sum()) / groups.examples
    sign = np.sign(off) / groups.examples
    own = np.full(DEFAULT_BINS, -value / groups.examples)
    return Local(value, groups.slopes(sign, own, -sign))


def _ece_limits(fit: Fit, value: float) -> Binning:
    found = expected_calibration_error(fit.counts, response=fit.response).binning
    return Binning(min(found.low, value), max(found.high, value), found.typical)


def _ece_shape(fit: Fit) -> Shape:
    return expected_calibration_error(fit.counts, response=fit.response).shape


ECE: Final = probability_row(
    "ece",
    "ECE",
    _ece,
    "lower",
    "Naeini et al. 2015; 15 groups of equal width, of the positive class",
    formula="sum over groups |sum y - sum s|/M",
    hides="the direction; it is above 0 for a perfect model and rises with the groups",
    limits=_ece_limits,
    shape=_ece_shape,
)


def _part(
    name: str,
    title: str,
    measure: Callable[[Cells], Local],
    better: str,
    formula: str,
    hides: str,
) -> MetricRow:
    return probability_row(
        name,
        title,
        measure,
        better,  # type: ignore[arg-type]
        "Dimitriadis, Gneiting and Jordan 2021 (CORP)",
        formula=formula,
        hides=hides,
    )


MISCALIBRATION: Final = _part(
    "miscalibration",
    "Brier miscalibration",
    _less(_scored, _pooled),
    "lower",
    "Brier(s) - Brier(c), c the best increasing rates",
    "that few examples raise it: a fitted curve follows scatter",
)
DISCRIMINATION: Final = _part(
    "discrimination",
    "Brier discrimination",
    _less(_uncertain, _pooled),
    "higher",
    "r(1 - r) - Brier(c)",
    "that few examples raise it: a fitted curve follows scatter",
)
UNCERTAINTY: Final = _part(
    "uncertainty",
    "Brier uncertainty",
    _uncertain,
    "lower",
    "r(1 - r)",
    "the model: it is the Brier score of predicting the prevalence",
)

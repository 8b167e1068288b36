r"""Cox's line of calibration as rows: intercept, slope, calibration in the large.

.. math:: \operatorname{logit} P(y = 1) = a + b \operatorname{logit} s

is fitted by maximum likelihood without any penalty. A calibrated model has a = 0 and
b = 1; calibration in the large is a with b held at 1. Each example moves the coefficients
by the inverse information times its score (y - q) x: the sampling error is the sandwich's,
which holds whether or not the line does. Classes that the scores separate have no finite
fit: the row is undefined then.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.estimate.estimate import Binning, Interval
from discreet.estimate.fit import Fit
from discreet.estimate.slopes import Cells
from discreet.metrics.local import Local, Placed, probability_row
from discreet.metrics.logistic import fit_logistic, logit

_REAL: Final = Interval(-math.inf, math.inf)
_SEPARATED: Final = 50.0
"""A coefficient this large is still growing: the classes are separated."""


@dataclass(frozen=True, eq=False)
class PlacedFit:
    """A logistic regression on placed examples, and what each example does to it."""

    coefficients: FloatVector
    on_negatives: FloatArray
    """Slopes of the coefficients in the negatives' cells: a row a coefficient."""
    on_positives: FloatArray


def fit_placed(
    at: Placed,
    features: Callable[[FloatArray], FloatArray],
    start: FloatVector,
    offset: Callable[[FloatArray], FloatArray] = np.zeros_like,
    *,
    ridge: float = 0.0,
    largest: float = _SEPARATED,
) -> PlacedFit:
    """Fit labels on features of the scores, without a penalty unless one is given.

    NaN where there is no finite fit: a coefficient beyond ``largest``.
    """
    x_n, x_p = features(at.of_negatives), features(at.of_positives)
    flat = np.hstack([x_n.reshape(start.size, -1), x_p.reshape(start.size, -1)])
    n, p = (m.ravel() for m in at.masses)
    moved = np.append(offset(at.of_negatives).ravel(), offset(at.of_positives).ravel())
    try:
        fit = fit_logistic(
            flat,
            np.append(n, np.zeros_like(p)),
            np.append(np.zeros_like(n), p),
            start=start,
            offset=moved,
            ridge=ridge,
        )
    except np.linalg.LinAlgError:
        return _no_fit(x_n, x_p)
    if not np.abs(fit.coefficients).max() < largest:
        return _no_fit(x_n, x_p)
    q_n = fit.rates[: n.size].reshape(at.of_negatives.shape)
    q_p = fit.rates[n.size :].reshape(at.of_positives.shape)
    on_n = np.tensordot(fit.spread, x_n * -q_n, 1)
    on_p = np.tensordot(fit.spread, x_p * (1 - q_p), 1)
    return PlacedFit(fit.coefficients, on_n, on_p)


def _no_fit(x_n: FloatArray, x_p: FloatArray) -> PlacedFit:
    nothing = np.full(x_n.shape[0], np.nan)
    return PlacedFit(nothing, np.full_like(x_n, np.nan), np.full_like(x_p, np.nan))


def _line(s: FloatArray) -> FloatArray:
    return np.stack([np.ones_like(s), logit(s)])


def _level(s: FloatArray) -> FloatArray:
    return np.stack([np.ones_like(s)])


def _coefficient(which: int, *, level: bool) -> Callable[..., Local]:
    """Return the measure that is one coefficient of the line, or of its level alone."""

    def measure(cells: Cells, *, shifted: bool = True) -> Local:
        at = Placed.of(cells, shifted=shifted)
        fit = (
            fit_placed(at, _level, np.zeros(1), logit)
            if level
            else fit_placed(at, _line, np.array([0.0, 1.0]))
        )
        slopes = at.slopes(fit.on_negatives[which], fit.on_positives[which])
        return Local(float(fit.coefficients[which]), slopes)

    return measure


def _limits(measure: Callable[..., Local]) -> Callable[[Fit, float], Binning]:
    """Return no limits, and a quarter of what the shift inside the bins changes."""

    def limits(fit: Fit, value: float) -> Binning:
        even = measure(fit.bins, shifted=False).value
        return Binning(-math.inf, math.inf, abs(value - even) / 4)

    return limits


_INTERCEPT, _SLOPE = _coefficient(0, level=False), _coefficient(1, level=False)
_LARGE = _coefficient(0, level=True)

CALIBRATION_IN_THE_LARGE: Final = probability_row(
    "calibration_in_the_large",
    "calibration in the large",
    _LARGE,
    "zero",
    "Cox 1958; Steyerberg 2019",
    formula="a in logit P(y = 1) = a + logit s",
    hides="errors that cancel between low and high scores",
    support=_REAL,
    limits=_limits(_LARGE),
)
CALIBRATION_INTERCEPT: Final = probability_row(
    "calibration_intercept",
    "calibration intercept",
    _INTERCEPT,
    "zero",
    "Cox 1958",
    formula="a in logit P(y = 1) = a + b logit s",
    hides="everything without the slope beside it: it is the error at a score of 1/2",
    support=_REAL,
    limits=_limits(_INTERCEPT),
)
CALIBRATION_SLOPE: Final = probability_row(
    "calibration_slope",
    "calibration slope",
    _SLOPE,
    "one",
    "Cox 1958; Miller et al. 1991",
    formula="b in logit P(y = 1) = a + b logit s",
    hides="a bend: a slope of 1 may hide errors that a line cannot follow",
    support=_REAL,
    limits=_limits(_SLOPE),
)

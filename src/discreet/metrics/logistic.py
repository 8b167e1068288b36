r"""Logistic regression on counts, and Cox's line of calibration.

A cell holds p positives among t examples with features x; the fit maximises

.. math::
    \sum p\,\theta^T x - t \log(1 + e^{\theta^T x})
        - \tfrac{\rho}{2}\,|\theta - \theta_0|^2

by Newton's method. The small pull towards :math:`\theta_0`, the map that changes
nothing, keeps separated classes finite.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.estimate.estimate import Binning, Estimate, Interval
from discreet.estimate.slopes import Slopes, covariance_of, sampling_sd
from discreet.estimate.sub_bins import cell_scores
from discreet.statistic.observed import NoisyHistogram

CLOSEST: Final = 1e-6
"""Scores are kept this far from 0 and 1, where the logit has no value."""
_RIDGE: Final = 1e-3
_STEPS: Final = 100
_ROUNDING: Final = 1e-9
_LONGEST: Final = 2.0
_REAL: Final = Interval(-np.inf, np.inf)


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """The coefficients, the inverse of their information, and each cell's rate."""

    coefficients: FloatVector
    spread: FloatArray
    rates: FloatVector


def fit_logistic(
    features: FloatArray,
    negatives: FloatVector,
    positives: FloatVector,
    *,
    start: FloatVector,
    offset: FloatVector | float = 0.0,
    ridge: float = _RIDGE,
) -> LogisticFit:
    """Fit by Newton's method; ``features`` has a row a coefficient.

    ``offset`` is added to every cell's log-odds as it is; ``ridge`` is the pull's
    strength, 0 for maximum likelihood.
    """
    theta = start.astype(np.float64)
    totals = negatives + positives
    pull = ridge * np.eye(theta.size)

    def likelihood(at: FloatVector) -> float:
        z = at @ features + offset
        far = ridge * float((at - start) @ (at - start)) / 2
        return float(positives @ z - totals @ np.logaddexp(0.0, z)) - far

    now = likelihood(theta)
    for _ in range(_STEPS):
        rates = sigmoid(theta @ features + offset)
        information = (features * (totals * rates * (1 - rates))) @ features.T + pull
        gradient = features @ (positives - totals * rates) - ridge * (theta - start)
        step = np.linalg.solve(information, gradient)
        longest = float(np.abs(step).max())
        share = min(1.0, _LONGEST / max(longest, 1e-300))
        # Newton's steps can turn back and forth for ever where scores say nothing.
        while (then := likelihood(theta + share * step)) < now - _ROUNDING * abs(now):
            share /= 2
        theta, now = theta + share * step, then
        if longest < 1e-10:
            break
    rates = sigmoid(theta @ features + offset)
    information = (features * (totals * rates * (1 - rates))) @ features.T + pull
    covariance = np.linalg.inv(information).astype(np.float64, copy=False)
    return LogisticFit(theta, covariance, rates)


def sigmoid(x: FloatArray) -> FloatArray:
    """Return 1/(1 + e^-x) without overflow."""
    found: FloatArray = 0.5 * (1.0 + np.tanh(0.5 * np.asarray(x)))
    return found


def logit(scores: FloatArray) -> FloatArray:
    """Return the log-odds of scores, kept away from 0 and 1."""
    kept = np.clip(scores, CLOSEST, 1 - CLOSEST)
    found: FloatArray = np.log(kept) - np.log1p(-kept)
    return found


@dataclass(frozen=True, slots=True)
class CalibrationLine:
    r"""Cox (1958): :math:`\operatorname{logit} P(y=1) = a + b \operatorname{logit} s`.

    A calibrated model has intercept a = 0 and slope b = 1; a slope below 1 says
    that scores are too extreme. ``in_the_large`` is the intercept with the slope
    held at 1: whether scores are too low (above 0) or too high on the whole.
    """

    intercept: Estimate
    slope: Estimate
    in_the_large: Estimate


def calibration_line(counts: NoisyHistogram) -> CalibrationLine:
    """Return the slope and the intercepts with sampling error and noise."""
    if counts.missing_class is not None:
        nothing = Estimate.undefined(
            f"the pooled data hold no {counts.missing_class}", _REAL
        )
        return CalibrationLine(nothing, nothing, nothing)
    z = logit(cell_scores(counts.edges))
    one = np.ones_like(z)
    both = _line(counts, np.stack([one, z]), np.array([0.0, 1.0]), np.zeros_like(z))
    alone = _line(counts, np.stack([one]), np.zeros(1), z)
    return CalibrationLine(both[0], both[1], alone[0])


def _line(
    counts: NoisyHistogram, features: FloatArray, start: FloatVector, offset: FloatArray
) -> list[Estimate]:
    """Fit with an offset; the delta method gives every coefficient's error.

    A count in bin b moves the coefficients by the inverse information times the
    bin's mean of x (1 - q) for a positive and of -x q for a negative. Where cells
    hold little but noise, the estimator's counts move less than that: the noise is
    an upper estimate (measured: by a third).
    """
    bins, pieces = offset.shape
    p = np.repeat(np.maximum(counts.positives, 0.0) / pieces, pieces)
    n = np.repeat(np.maximum(counts.negatives, 0.0) / pieces, pieces)
    fit = fit_logistic(
        features.reshape(start.size, -1), n, p, start=start, offset=offset.ravel()
    )
    q = fit.rates.reshape(bins, pieces)
    on_p = fit.spread @ (features * (1 - q)).mean(axis=2)
    on_n = fit.spread @ (features * -q).mean(axis=2)
    found = []
    for k, value in enumerate(fit.coefficients):
        slopes = Slopes(on_n[k], on_p[k])
        spread = sampling_sd(
            slopes, np.maximum(counts.negatives, 0), np.maximum(counts.positives, 0)
        )
        everywhere = Binning(-np.inf, np.inf, 0.0)
        estimate = Estimate(float(value), spread, 0.0, everywhere, support=_REAL)
        if not counts.exact:
            row = np.concatenate([on_n[k], on_p[k]])[None, :]
            variance = float(covariance_of(counts, row)[0, 0])
            estimate = replace(estimate, noise=np.sqrt(max(variance, 0.0)))
        found.append(estimate)
    return found

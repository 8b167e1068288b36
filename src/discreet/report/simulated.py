r"""Populations that stand for an unknown one: its prevalence and AUC, in several shapes.

Negatives are :math:`x \sim N(0, 1)` and positives :math:`x \sim N(d, r^2)` with
:math:`d = \sqrt{1 + r^2}\,\Phi^{-1}(\text{AUC})`, so that every shape has the AUC that is
assumed (Green and Swets 1966). With :math:`v = (1 + r^2)/2` the score is

.. math::
    s = \sigma\left(\frac{d}{v} (x - d/2) + \log\frac{\pi}{1 - \pi}\right),

at r = 1 the posterior: a calibrated model at the public prevalence :math:`\pi`. An AUC
says nothing about the head of the ranking, on which average precision rests. So there are
populations where positives spread more than negatives (r = 1.4: some are easy, and
precision is high at the head) and less (r = 0.7: rates stop rising). Over the three,
predicted noise was nearer to that of trained models' scores than with the calibrated one
alone (``docs/error-bars.md``).
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

import numpy as np
from scipy.special import expit, logit, ndtri

from discreet.arrays import FloatVector, IntVector
from discreet.data.examples import Examples
from discreet.data.scores import ScoreRange

_QUANTILES: Final = 100_000
SPREADS: Final = (1.0, 0.7, 1.4)
"""Standard deviations of positives, where negatives have 1: r above."""


def simulate_population(
    scores: ScoreRange,
    examples: int,
    prevalence: float,
    auc: float,
    rng: np.random.Generator,
    *,
    spread: float = 1.0,
) -> Examples:
    """Draw labels, and scores on their scale; positives have this spread."""
    labels = _labels(examples, prevalence)
    z = rng.standard_normal(labels.size)
    return _scored(scores, z, labels, prevalence, auc, spread=spread)


def typical_population(scores: ScoreRange, prevalence: float, auc: float) -> Examples:
    """Return the quantiles of both calibrated classes: without sampling error."""
    labels = _labels(_QUANTILES, prevalence)
    positives = int(labels.sum())
    ranks = np.concatenate([np.arange(positives), np.arange(labels.size - positives)])
    sizes = np.where(labels, positives, labels.size - positives)
    z = ndtri((ranks + 0.5) / sizes)
    return _scored(scores, z, labels, prevalence, auc, spread=1.0)


def _labels(examples: int, prevalence: float) -> IntVector:
    """Return as many positives, first, as the prevalence says; both classes occur."""
    labels = np.zeros(max(examples, 2), dtype=np.int64)
    labels[: min(max(round(examples * prevalence), 1), labels.size - 1)] = 1
    return labels


def _scored(
    scores: ScoreRange,
    z: FloatVector,
    labels: IntVector,
    prevalence: float,
    auc: float,
    *,
    spread: float,
) -> Examples:
    r = spread
    d = math.sqrt(1 + r * r) * NormalDist().inv_cdf(auc)
    x = np.where(labels, d + r * z, z)
    slope = 2 * d / (1 + r * r)
    log_odds: FloatVector = slope * (x - d / 2) + float(logit(prevalence))
    match scores.kind:
        case "logit":
            return Examples(log_odds, labels, kind="logit")
        case "probability":
            return Examples(expit(log_odds), labels)
        case "other":
            low, high = scores.low, scores.high
            placed = low + (high - low) * expit(log_odds)
            return Examples(placed, labels, kind="other", low=low, high=high)

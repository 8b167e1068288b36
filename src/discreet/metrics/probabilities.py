r"""Rows of measures that read scores as probabilities: sums over the examples.

With M examples, of which the share r is positive, scores s and labels y:

- the null model predicts r for everyone; its log loss is the entropy
  :math:`-r\ln r - (1-r)\ln(1-r)`, its Brier score :math:`r(1-r)`;
- scores are kept ``CLIP`` from 0 and 1 where a logarithm is taken: a certain prediction
  that is wrong would cost infinitely much.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from discreet.arrays import FloatArray
from discreet.estimate.estimate import Interval
from discreet.metrics.local import Summed, sum_row
from discreet.metrics.shapes import LOGARITHMIC

CLIP: Final = 1e-6
"""Scores are kept this far from 0 and 1 where a logarithm is taken."""
_BELOW_ONE: Final = Interval(-math.inf, 1.0)
_POSITIVE: Final = Interval(0.0, math.inf)


def _log_loss_terms(s: FloatArray, y: float) -> FloatArray:
    kept = np.clip(s, CLIP, 1 - CLIP)
    loss = -np.log(kept) if y else -np.log1p(-kept)
    return np.stack([loss, np.full_like(s, y), np.ones_like(s)])


def _mean_terms(s: FloatArray, y: float) -> FloatArray:
    """Sum scores and count examples, class by class."""
    one = np.ones_like(s)
    return np.stack([s * y, s * (1 - y), one * y, one * (1 - y)])


def _entropy(r: Any) -> Any:
    return -r * np.log(r) - (1 - r) * np.log(1 - r)


def _cox_snell(v: Any) -> Any:
    return 1 - np.exp(2 * (v[0] / v[2] - _entropy(v[1] / v[2])))


LOG_LOSS: Final = sum_row(
    "log_loss",
    "log loss",
    Summed(_log_loss_terms, lambda v: v[0] / v[2]),
    "lower",
    "Good 1952; scikit-learn's log_loss, scores kept 1e-6 from 0 and 1",
    formula="-mean(y ln s + (1 - y) ln(1 - s))",
    hides="the prevalence: a rare event has a low log loss without any model",
    support=_POSITIVE,
)
MEAN_ABSOLUTE_ERROR: Final = sum_row(
    "mean_absolute_error",
    "mean absolute error",
    Summed(
        lambda s, y: np.stack([np.abs(y - s), np.ones_like(s)]), lambda v: v[0] / v[1]
    ),
    "lower",
    "MAPE of Van Calster et al. 2025; scikit-learn's mean_absolute_error",
    formula="mean |y - s|",
    hides="calibration: it is least for scores of 0 and 1 (not a proper score)",
)
MCFADDEN: Final = sum_row(
    "mcfadden_r2",
    "McFadden's R2",
    Summed(_log_loss_terms, lambda v: 1 - (v[0] / v[2]) / _entropy(v[1] / v[2])),
    "higher",
    "McFadden 1974",
    formula="1 - log loss/entropy of r",
    hides="whether ranking or calibration is at fault",
    support=_BELOW_ONE,
)
COX_SNELL: Final = sum_row(
    "cox_snell_r2",
    "Cox-Snell R2",
    Summed(_log_loss_terms, _cox_snell),
    "higher",
    "Cox and Snell 1989",
    formula="1 - exp(2(log loss - entropy of r))",
    hides="that its largest value is below 1 and follows the prevalence",
    support=_BELOW_ONE,
)
NAGELKERKE: Final = sum_row(
    "nagelkerke_r2",
    "Nagelkerke's R2",
    Summed(
        _log_loss_terms,
        lambda v: _cox_snell(v) / (1 - np.exp(-2 * _entropy(v[1] / v[2]))),
    ),
    "higher",
    "Nagelkerke 1991",
    formula="Cox-Snell R2/(1 - exp(-2 entropy of r))",
    hides="whether ranking or calibration is at fault",
    support=_BELOW_ONE,
)
DISCRIMINATION_SLOPE: Final = sum_row(
    "discrimination_slope",
    "discrimination slope",
    Summed(_mean_terms, lambda v: v[0] / v[2] - v[1] / v[3]),
    "higher",
    "Yates 1982; Tjur's R2 2009",
    formula="mean(s | y = 1) - mean(s | y = 0)",
    hides="calibration: more extreme scores raise it, right or wrong",
    support=Interval(-1.0, 1.0),
)
OBSERVED_EXPECTED: Final = sum_row(
    "observed_expected",
    "O:E ratio",
    Summed(
        lambda s, y: np.stack([np.full_like(s, y), s]),
        lambda v: v[0] / v[1],
    ),
    "one",
    "Debray et al. 2017",
    formula="sum y/sum s",
    hides="errors that cancel: too low for some and too high for others",
    support=_POSITIVE,
    shape=lambda _: LOGARITHMIC,
)

r"""How far the release's noise moves a metric: the delta method.

A metric A of a histogram moves by :math:`\sum_b g^-_b\,\delta n_b + g^+_b\,\delta p_b`
when the counts do. With bins from the highest score down, TP and FP counted to
the middle of a bin:

- AUC: :math:`g^+_b = (F^c_b - A)/P`, :math:`g^-_b = (T_b - A)/N`, with T the true
  positive rate and :math:`F^c` the share of negatives below.
- Average precision :math:`\sum_b (p_b/P)\,q_b`, :math:`q = TP/(TP + FP)`: its own
  weight, :math:`(q_b - A)/P`, and the precision of this and all lower bins.
- Brier score, a mean over examples: :math:`g_b = (c_b - A)/(P + N)`, with
  :math:`c_b` the score of one example of that class and bin.

The noise is that of the raw counts; smoothing can only remove some of it, so the
standard deviation is an upper estimate.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.arrays import FloatVector
from discreet.estimate.brier import brier_score
from discreet.statistic.observed import BinCovariance, NoisyHistogram


def auc_noise_sd(
    negatives: FloatVector, positives: FloatVector, noise: BinCovariance
) -> float:
    """Return the standard deviation that the noise gives the AUC."""
    total_n, total_p = float(negatives.sum()), float(positives.sum())
    tpr = _to_middle(positives) / total_p
    below = 1 - _to_middle(negatives) / total_n
    area = float(positives @ below) / total_p
    return _sd((tpr - area) / total_n, (below - area) / total_p, noise)


def average_precision_noise_sd(
    negatives: FloatVector, positives: FloatVector, noise: BinCovariance
) -> float:
    """Return the standard deviation that the noise gives the average precision."""
    tp, fp = _to_middle(positives), _to_middle(negatives)
    share = positives / positives.sum()
    precision = tp / np.maximum(tp + fp, 1e-9)
    area = float(share @ precision)
    own = (precision - area) / positives.sum()
    # Where the highest bins hold little but noise, precision is no longer linear
    # in the counts: it moves by less than its slope says.
    squared = (tp + fp) ** 2 + _to_middle(noise.negatives + noise.positives)
    by_tp = _on_lower_bins(share * fp / squared)
    by_fp = _on_lower_bins(share * tp / squared)
    return _sd(-by_fp, own + by_tp, noise)


def brier_noise_sd(counts: NoisyHistogram, noise: BinCovariance) -> float:
    """Return the standard deviation that the noise gives the Brier score."""
    bins = len(counts.edges)
    total = counts.total_negatives + counts.total_positives
    if total <= 0:
        return 0.0

    def of_one(cell: FloatVector) -> float:
        alone = NoisyHistogram(counts.edges, cell[:bins], cell[bins:], counts.law)
        return brier_score(alone).value

    each = np.array([of_one(cell) for cell in np.eye(2 * bins)])
    slope = (each - brier_score(counts).value) / total
    return _sd(slope[:bins], slope[bins:], noise)


def _to_middle(counts: FloatVector) -> FloatVector:
    """Count from the top to the middle of each bin; bins ascend."""
    found: FloatVector = np.cumsum(counts[::-1])[::-1] - counts / 2
    return found


def _on_lower_bins(effect: FloatVector) -> FloatVector:
    """Add up what a count does to the lower bins and half of its own."""
    return np.cumsum(effect) - effect / 2


def _sd(on_n: FloatVector, on_p: FloatVector, noise: BinCovariance) -> float:
    variance = on_n**2 @ noise.negatives + on_p**2 @ noise.positives
    return math.sqrt(max(float(variance + 2 * (on_n * on_p) @ noise.cross), 0.0))

r"""Slopes of a metric in the counts, and the errors that follow from them.

A metric A of a histogram moves by :math:`\sum_k g_k\,\delta c_k` when the counts
:math:`c_k` of its cells (a class and a bin) do, :math:`g_k = \partial A/\partial c_k`.
Both of its errors are this delta method.

*Sampling.* Examples are drawn independently, so the counts are multinomial. A metric
that does not change when all counts are doubled has the variance

.. math::
    \operatorname{Var} A \approx \sum_k c_k\, g_k^2,

because :math:`\sum_k c_k g_k = 0` (Euler) removes the multinomial's other term.
Each class's part is multiplied by c/(c - 1), c the examples of that class, as in
a sample variance. For the AUC this is the variance of DeLong, DeLong and
Clarke-Pearson (1988) of the binned scores, exactly: the slopes are their
structural components.

*Noise.* With C the covariance of the release's noise, :math:`g^T C g`.

Counts may be fractions: under noise they are an estimator's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from discreet.arrays import FloatArray, FloatVector, product
from discreet.data.edges import Edges
from discreet.errors import InputError
from discreet.noise.arc_decoder import DecodedNoise
from discreet.statistic.observed import NoisyHistogram

PrecisionRule: TypeAlias = Literal["smooth", "step", "trapezoid"]
"""How an area under the PR curve joins the bins: a smooth curve through them, the
steps of average precision for ties, or straight lines between ties."""
_STEP: Final = 1e-4


class Slopes(NamedTuple):
    """The derivative of a metric in every count, bins ascending."""

    negatives: FloatVector
    positives: FloatVector


@dataclass(frozen=True, eq=False)
class Cells:
    """The counts that slopes are taken in: a release's bins, or pieces of them."""

    negatives: FloatVector
    positives: FloatVector
    tied: bool
    """Whether the examples of a cell are ties, not spread along a curve."""
    edges: Edges | None = None
    """The bins, where the cells are bins: pieces along a curve have no scores."""
    noise: FloatVector | None = None
    """Variance of the noise in each cell, both classes together, where slopes are to
    be damped by it."""


def sampling_sd(
    slopes: Slopes, negatives: FloatVector, positives: FloatVector
) -> float:
    """Return the standard deviation that drawing the examples gives a metric.

    Noisy counts may be negative; a variance below zero is none.
    """
    variance = 0.0
    for slope, counts in zip(slopes, (negatives, positives), strict=True):
        part, examples = float(counts @ slope**2), float(counts.sum())
        # c/(c - 1): a class of one example has no spread to show.
        variance += part * examples / (examples - 1) if examples > 1 else 2 * part
    return math.sqrt(max(variance, 0.0))


def noise_sd(slopes: Slopes, observed: NoisyHistogram) -> float:
    """Return the standard deviation that the release's noise gives a metric."""
    row = np.concatenate(slopes)[None, :]
    return math.sqrt(float(noise_variances(observed, row)[0]))


def noise_variances(observed: NoisyHistogram, weights: FloatArray) -> FloatVector:
    """Return the noise's variances of linear combinations, a row each; 0 if exact."""
    if observed.exact:
        return np.zeros(len(weights))
    return np.maximum(np.diag(covariance_of(observed, weights)), 0.0)


def covariance_of(observed: NoisyHistogram, weights: FloatArray) -> FloatArray:
    """Return the noise's covariance of linear combinations of the counts.

    ``weights`` has a row a combination and a column a count: the negatives'
    bins, then the positives'.
    """
    if observed.exact:
        return np.zeros((len(weights), len(weights)))
    if isinstance(observed.noise, DecodedNoise):
        return product(product(weights, observed.noise.matrix), weights.T)
    noise = observed.covariance
    w_n, w_p = np.split(weights, 2, axis=1)
    own = product(w_n * noise.negatives, w_n.T) + product(w_p * noise.positives, w_p.T)
    if not noise.cross.any():
        return own
    cross = product(w_n * noise.cross, w_p.T)
    return own + cross + cross.T


def noise_above(observed: NoisyHistogram) -> FloatVector:
    r"""Return the noise of the counts above each bin's lower end, from the top down.

    :math:`\sqrt{\operatorname{Var} TP + \operatorname{Var} FP}`: what noise alone
    could make of two counts. Their covariance is left out, because under label
    privacy it cancels in the sum while the share of positives is as unsure.
    """
    if isinstance(observed.noise, DecodedNoise):
        bins, matrix = len(observed.edges), observed.noise.matrix
        blocks = (matrix[:bins, :bins], matrix[bins:, bins:])
        negatives, positives = (
            np.diag(block[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)) for block in blocks
        )
        variances = negatives + positives
    else:
        each = observed.covariance
        variances = np.cumsum((each.negatives + each.positives)[::-1])
    noise: FloatVector = np.sqrt(np.maximum(variances, 0.0))
    return noise


def auc_slopes(negatives: FloatVector, positives: FloatVector) -> Slopes:
    r"""Return the slopes of the AUC, ties counted one half.

    :math:`(F_b - A)/P` for a positive in bin b, F the share of negatives below
    it, and :math:`(T_b - A)/N` for a negative, T the share of positives above.
    """
    total_n, total_p = _totals(negatives, positives)
    above = _to_middle(positives) / total_p
    below = 1.0 - _to_middle(negatives) / total_n
    area = float(positives @ below) / total_p
    return Slopes((above - area) / total_n, (below - area) / total_p)


def precision_area_slopes(
    negatives: FloatVector,
    positives: FloatVector,
    rule: PrecisionRule = "smooth",
    *,
    noise: FloatVector | None = None,
) -> Slopes:
    r"""Return the slopes of an area under the PR curve.

    .. math::
        A = \sum_b \frac{p_b}{P} \bar q_b, \qquad q = \frac{TP}{TP + FP}

    with :math:`\bar q_b` the precision at the middle of the bin (``smooth``), at
    its lower end (``step``: average precision), or the mean of its two ends
    (``trapezoid``, from precision 1 at recall 0). A count has a weight of its
    own, :math:`(\bar q_b - A)/P` for a positive, and changes the precision of
    its own and all lower bins by :math:`FP/(TP+FP)^2` or :math:`-TP/(TP+FP)^2`.

    ``noise`` is the variance of a bin's count of both classes. Where the highest
    bins hold little but noise, precision is not linear in the counts and moves by
    less than its slope says: the variance of TP + FP is added to its square, and
    above all examples precision is 0, as often noise as not.
    """
    total_p = _totals(negatives, positives)[1]
    p, n = positives[::-1], negatives[::-1]  # from the highest score down
    half = 0.5 if rule == "smooth" else 0.0
    tp, fp = np.cumsum(p) - half * p, np.cumsum(n) - half * n
    predicted = tp + fp
    some = predicted > 0
    safe = np.where(some, predicted, 1.0)
    precision = np.where(some, tp / safe, 1.0 if noise is None else 0.0)
    # Divided twice: the square of a model's tiny count would be none at all.
    scale = safe
    if noise is not None:
        above = noise[::-1]
        scale = np.hypot(safe, np.sqrt(np.cumsum(above) - half * above))
    share = p / total_p
    if rule == "trapezoid":
        mean = (precision + np.append(1.0, precision[:-1])) / 2
        weight = (share + np.append(share[1:], 0.0)) / 2
    else:
        mean, weight = precision, share
    area = float(share @ mean)
    by_tp = _on_lower(np.where(some, weight / scale * (fp / scale), 0.0), half)
    by_fp = _on_lower(np.where(some, -weight / scale * (tp / scale), 0.0), half)
    return Slopes(by_fp[::-1], (by_tp + (mean - area) / total_p)[::-1])


def numeric_slopes(
    function: Callable[[FloatVector], float], at: FloatVector
) -> FloatVector:
    """Return the slopes of a function of several numbers by central differences."""
    step = _STEP * max(float(np.abs(at).sum()), 1.0)
    return np.array(
        [
            (function(at + step * unit) - function(at - step * unit)) / (2 * step)
            for unit in np.eye(at.size)
        ]
    )


def propagated(
    function: Callable[[FloatVector], float], at: FloatVector, covariance: FloatArray
) -> float:
    r"""Return the sd of a function of noisy numbers, by :math:`\nabla f^T C \nabla f`."""
    if not covariance.any():
        return 0.0
    slopes = numeric_slopes(function, at)
    if not np.isfinite(slopes).all():
        return 0.0
    return math.sqrt(max(float(slopes @ covariance @ slopes), 0.0))


def _totals(negatives: FloatVector, positives: FloatVector) -> tuple[float, float]:
    total_n, total_p = float(negatives.sum()), float(positives.sum())
    if not (total_n > 0 and total_p > 0):
        raise InputError("the slopes of an area need examples of both classes")
    return total_n, total_p


def _to_middle(counts: FloatVector) -> FloatVector:
    """Count from the top to the middle of each bin; bins ascend."""
    return np.cumsum(counts[::-1])[::-1] - counts / 2


def _on_lower(effect: FloatVector, own: float) -> FloatVector:
    """Add up what a count does to lower bins and all but ``own`` of its own bin."""
    return np.cumsum(effect[::-1])[::-1] - own * effect

r"""How far one malicious site can move a metric: bounds that hold whatever it sends.

A site that sends the counts of at most M examples, true or invented, takes part in a
sum of P positives and N negatives. Each bound is the greatest distance between the
metric of that sum and the metric of the other sites alone.

**Mixtures.** A metric that averages numbers in [0, 1] over D things (pairs for the
AUC, examples for accuracy, positives for recall) of which at most the share s are the
site's is :math:`(1-s)v_0 + s x`, with :math:`v_0` that of the other sites and x in
[0, 1]: it moves by at most s. The site has at most M/D of D examples, and of the pairs

.. math:: 1 - (1-a)(1-b), \qquad aP + bN \le M,

which is concave in its product: all of the site's examples in the smaller class are
the worst, :math:`M/\min(P, N)`. The same bounds hold between any two answers of the
site, so also between its false answer and its true one.

**Average precision** is no mixture: a false example moves the precision at every
positive below it. ``average_precision_influence`` says by how much.

``docs/influence.md`` has the proofs, and what is not covered: the bound is that of
examples, and nothing proves that a site's vector counts at most M of them.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.estimate.fit import Fit
from discreet.estimate.slopes import noise_variances
from discreet.metrics.measure import Share

NOISE_SDS: Final = 6.0
"""How many standard deviations of noise a released total is trusted to."""
_TURN: Final = 0.20318786997998
"""The root of ln u = 2u - 2 below 1/2: where a malicious site's next example is worth as much
as a positive at the bottom as it is as a negative at the top."""


def auc_influence(most: float, positives: float, negatives: float) -> float:
    """Return by how much a site of at most ``most`` examples can move the AUC.

    >>> round(auc_influence(30, positives=1000, negatives=9000), 3)
    0.03
    """
    return _share(most, min(positives, negatives))


def brier_influence(most: float, positives: float, negatives: float) -> float:
    """Return by how much a site can move the mean squared error of probabilities."""
    return _share(most, positives + negatives)


def average_precision_influence(
    most: float, positives: float, negatives: float
) -> float:
    r"""Return by how much a site can move the average precision.

    With m = M/P, and of the site's examples the share x of P as negatives at the top
    and the rest as positives at the bottom, it falls by at most

    .. math:: (m - x) + x \ln\frac{1 - m + 2x}{x},

    concave in x. With all of them as positives at the top it rises by at most

    .. math:: m + m\,U\Bigl(\frac{1-m}m\Bigr), \qquad
        U(T) = \tfrac14\Bigl(2\operatorname{asinh}\sqrt T
        - \frac{R}{R + T + \frac12}\Bigr), \quad R = \sqrt{T^2 + T}.

    >>> round(average_precision_influence(30, positives=1000, negatives=9000), 3)
    0.106
    """
    del negatives  # a few of them at the top do the same harm however many are below
    m = _share(most, positives)
    if m in (0.0, 1.0):
        return m
    x = min(_TURN * (1.0 - m) / (1.0 - 2.0 * _TURN), m)
    fall = m - x + x * math.log((1.0 - m + 2.0 * x) / x)
    t = (1.0 - m) / m
    root = math.sqrt(t * t + t)
    rise = m + m * (2.0 * math.asinh(math.sqrt(t)) - root / (root + t + 0.5)) / 4.0
    return min(max(fall, rise), 1.0)


def rate_influence(rate: Share, most: float, counted: float) -> float:
    """Return by how much a site can move a rate that divides by ``counted`` examples.

    F1 divides by 2 TP + FP + FN, in which one example counts twice at most.
    """
    return _share(most * max(rate.weights), counted)


def least_sums(fit: Fit, weights: FloatArray) -> FloatVector:
    """Return sums of counts, less what noise may have added to them."""
    observed = fit.observed
    noise = np.sqrt(noise_variances(observed, weights))
    least: FloatVector = weights @ observed.vector - NOISE_SDS * noise
    return least


def _share(part: float, whole: float) -> float:
    """Return a share, 1 where the part may be all of it."""
    return 1.0 if whole <= part else part / whole

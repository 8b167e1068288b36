r"""How far the AUC moves when its two sums do.

To first order :math:`dAUC = (dS - c\,dP)/(PN)` with
:math:`c = P - \frac12 + AUC\,(N - P)`: the derivative of
:math:`(S - P(P-1)/2)/(P(M-P))` with respect to P, M fixed. Every standard deviation
here follows from it.
"""

from __future__ import annotations

import math

from discreet.ranks.sums import RankSums, SumsCovariance


def centre_of(positives: float, negatives: float, auc: float) -> float:
    """Return c, the rank whose flip leaves the AUC where it is.

    >>> centre_of(2.0, 2.0, 0.75)
    1.5
    """
    return positives - 0.5 + auc * (negatives - positives)


def noise_sd(sums: RankSums, examples: int, covariance: SumsCovariance) -> float:
    """Return the standard deviation of the noise in the AUC; NaN if undefined.

    The AUC in c is cut to [0, 1].
    """
    auc = sums.auc(examples)
    if math.isnan(auc):
        return math.nan
    p, n = sums.positives, examples - sums.positives
    c = centre_of(p, n, min(max(auc, 0.0), 1.0))
    return math.sqrt(covariance.variance_at(c)) / (p * n)


def sampling_sd(auc: float, positives: float, negatives: float) -> float:
    r"""Bound the sampling standard deviation by what the release says.

    DeLong's variance needs the two classes' score distributions, which are not
    released. Whatever they are, :math:`Var \le AUC(1 - AUC)/\min(P, N)` (van Dantzig
    1951; Birnbaum and Klose 1957). It is typically 1.2 to 2 times too wide.
    """
    a = min(max(auc, 0.0), 1.0)
    return math.sqrt(a * (1 - a) / max(1.0, min(positives, negatives)))

r"""Smooth sensitivity: :math:`S(n) = \max_i LS(i)\,e^{-\beta|i - n|}`.

Theorems 4 and 6 of Boyd (2015), after Nissim, Raskhodnikova and Smith (2007).
The noise of a release is scaled by S, which neighbours share up to a factor
:math:`e^\beta`. Two margins make the floats here as good as real numbers:

- S is computed with a beta smaller by a factor :math:`1 - 2^{-30}` than the one that
  the noise is calibrated for. Its relative error is below :math:`2^{-44}`: the
  exponent that attains the maximum is at most :math:`\ln M < 22`. With beta at
  least :math:`2^{-12}`, two such errors fit into the difference.
- S is then raised by a factor :math:`1 + 2^{-40}`, so that it is no less than the
  local sensitivity.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from discreet.curator.sensitivity import (
    ApBound,
    ap_local_sensitivity,
    auc_local_sensitivity,
)
from discreet.errors import PlanError

LEAST_BETA: Final = 2.0**-12
AP_ROUNDING: Final = 2.0**-40
"""Average precision is a float: its rounding error is added to its sensitivity."""
_NARROWER: Final = 1.0 - 2.0**-30
_WIDER: Final = 1.0 + 2.0**-40


def auc_smooth_sensitivity(positives: int, negatives: int, beta: float) -> float:
    r"""Return the smooth sensitivity of AUC, in closed form.

    On the way from n to either end, :math:`-\ln\min(i, M-i) - \beta|i-n|` is
    convex on each side of M/2 and falls towards M/2, so the maximum is at n
    itself or where one example of a class is left:

    .. math:: S = \max\{1/\min(n, m),\ e^{-\beta(n-1)},\ e^{-\beta(m-1)}\}.

    >>> round(auc_smooth_sensitivity(100, 900, 0.01), 4)
    0.3716
    """
    least = _narrowed(beta)
    if min(positives, negatives) < 1:
        return _WIDER
    return _WIDER * max(
        auc_local_sensitivity(positives, negatives),
        math.exp(-least * (positives - 1)),
        math.exp(-least * (negatives - 1)),
    )


def ap_smooth_sensitivity(
    positives: int, beta: float, bound: ApBound = "exact"
) -> float:
    r"""Return the smooth sensitivity of average precision.

    The local one falls with the number of positives, so only fewer positives can
    raise it, and none beyond :math:`\ln(1/LS(n))/\beta` away: it never exceeds 1.

    >>> round(ap_smooth_sensitivity(1000, 0.1), 5)
    0.00649
    """
    least = _narrowed(beta)
    here = float(ap_local_sensitivity(np.array([positives]), bound)[0])
    reach = math.ceil(math.log(1.0 / here) / least) + 1
    near = np.arange(max(positives - reach, 0), positives + 1)
    local = ap_local_sensitivity(near, bound) + AP_ROUNDING
    return _WIDER * float(np.max(local * np.exp(-least * (positives - near))))


def _narrowed(beta: float) -> float:
    if not (math.isfinite(beta) and beta >= LEAST_BETA):
        raise PlanError(
            f"this epsilon and delta ask for a smoothness of {beta:.2g}, below "
            f"{LEAST_BETA:.2g}: every value would drown in noise"
        )
    return beta * _NARROWER

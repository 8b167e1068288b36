"""From a Renyi divergence curve to (epsilon, delta)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np

from discreet.arrays import FloatVector
from discreet.errors import PlanError

RenyiCurve = Callable[[FloatVector], FloatVector]
"""The divergence bound at each order alpha > 1."""

ORDERS: Final[FloatVector] = 1.0 + np.geomspace(1e-2, 1e6, 4000)
"""Real orders: any subset of orders gives a valid bound, a fine one a tight one."""
INTEGER_ORDERS: Final[FloatVector] = np.unique(
    np.round(np.geomspace(2, 1e6, 4000))
).astype(np.float64)

_CAUTION: Final = 1e-9
"""Relative room for the rounding of the bound's own arithmetic."""


def delta_from_renyi(
    epsilon: float, curve: RenyiCurve, *, orders: FloatVector = ORDERS
) -> float:
    r"""Return a delta at which the curve implies (epsilon, delta)-DP.

    Proposition 12 of Canonne, Kamath and Steinke (2020): for every order,

    .. math:: \delta \le \frac{e^{(\alpha-1)(\varepsilon_\alpha-\varepsilon)}}{\alpha}
              \Bigl(1 - \frac1\alpha\Bigr)^{\alpha-1}.
    """
    gap = orders - 1.0
    logs = gap * (curve(orders) - epsilon + np.log(gap / orders)) - np.log(orders)
    return float(min(1.0, math.exp(min(0.0, float(logs.min())))))


def least_variance(
    holds: Callable[[Fraction], bool], *, limit: Fraction = Fraction(2**40)
) -> Fraction:
    """Return a variance at which a claim holds, within 2^-11 of the least one.

    ``holds`` must stay true once it is true. The answer is a fraction with few
    digits, checked itself, so that nothing rests on the search.
    """
    high = Fraction(1, 1024)
    while not holds(high):
        high *= 2
        if high > limit:
            raise PlanError("no noise that can be drawn keeps so small a budget")
    low = high / 2
    step = low / 1024
    first, last = 0, 1024  # low may fail, high holds
    while last - first > 1:
        middle = (first + last) // 2
        if holds(low + middle * step):
            last = middle
        else:
            first = middle
    return low + last * step


def within(delta: float, budget: Fraction) -> bool:
    """Whether a computed delta is inside a budget, with room for its rounding."""
    return delta <= float(budget) * (1.0 - _CAUTION)

r"""The mechanisms of Boyd, Lantz and Page (2015), and what they are compared with.

By the names ``heavy-tailed``, ``laplace`` and ``pair-count`` of
``discreet.curator.auc``, the bounds ``equation-10`` and ``equation-33`` of average
precision, and the method ``binormal`` of ``discreet.curator.roc_curve``.

**The paper's noise** (Boyd 2015, theorem 2):

- :math:`\delta = 0`: density proportional to :math:`1/(1+|z|^\gamma)`, any
  :math:`\gamma > 1` (Cauchy at 2), scale :math:`2(\gamma+1)S/\varepsilon` and
  :math:`\beta = \varepsilon/(2(\gamma+1))`: pure epsilon-DP.
- :math:`\delta > 0`: Laplace of scale :math:`2S/\varepsilon` with
  :math:`\beta = \varepsilon/(2\ln(2/\delta))`: (epsilon, delta)-DP, **up to an
  epsilon of about 12**. In units of b the neighbour's noise is shifted by at most
  :math:`\sigma = \varepsilon/2` of its own scale :math:`b e^{\pm u}, u \le \beta`. Where
  it is wider, the loss is at most :math:`u + \varepsilon/2`. Where it is narrower, the
  loss exceeds epsilon in the two tails alone, and integrating them gives exactly

  .. math:: \delta(u) = \frac{1 - e^{-u}}{2} \Big(e^{-\frac{\varepsilon+u-\sigma}{e^u-1}}
            + e^{-\frac{\varepsilon+u+\sigma}{e^u-1}}\Big),

  which grows with u and sigma. The theorem's constants bound it only while u is
  small: a larger epsilon is refused where this exceeds delta.

Valid and wasteful: at a nominal epsilon of 1 the Cauchy noise has a loss of .226.
Weighted counts and the power law of ``discreet.curator`` are better.

**The symmetric binormal ROC curve** is :math:`TPR = \Phi(a + \Phi^{-1}(FPR))` with
:math:`a = \sqrt2\,\Phi^{-1}(AUC)` (section 5): both classes' scores normal with one
variance, up to a monotone map. It costs nothing beyond the AUC, and it is wrong where
the classes' spreads differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal, getcontext
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri

from discreet.arrays import FloatVector, IntVector
from discreet.curator.private_estimate import PrivateEstimate
from discreet.curator.ranking import harmonic
from discreet.curator.release import AUC, OnGrid, PrivateRoc, Target, TwoIntegers
from discreet.curator.smooth_noise import UP, SmoothNoise, decimal
from discreet.curator.weighted_count import WeightTable, pair_count_weights
from discreet.errors import PlanError
from discreet.estimate.curves import Polyline
from discreet.privacy.loss import ApproxDP, PureDP

_WIDE: Final = 700.0
"""Beyond this an exponential overflows; nothing of a tail is bounded there."""


@dataclass(frozen=True, slots=True)
class LaplaceTail:
    r"""The Laplace distribution: :math:`T(x) = e^{-x}/2`."""

    def upper(self, x: Decimal) -> Decimal:
        """Return half the exponential."""
        return (-x).exp() / 2

    def quantile(self, tail: FloatVector) -> FloatVector:
        """Invert the exponential."""
        x: FloatVector = -np.log(2.0 * tail)
        return x


@dataclass(frozen=True, slots=True)
class HeavyTail:
    r"""The family of theorem 2: density proportional to :math:`1/(1+|x|^\gamma)`.

    Cauchy at :math:`\gamma = 2`. With :math:`p = 1/\gamma`, :math:`q = 1 - p` and
    :math:`u = x^\gamma/(1+x^\gamma)`, :math:`\Pr[|X| \le x]` is the regularised
    incomplete beta function :math:`I_u(p, q)`.
    """

    gamma: Fraction

    def __post_init__(self) -> None:
        if self.gamma <= 1:
            raise PlanError("gamma must exceed 1, or the noise has no distribution")

    def upper(self, x: Decimal) -> Decimal:
        """Return (1 - I_u(p, q))/2 by the series on the side where it is short."""
        if x == 0:
            return Decimal(1) / 2
        p = 1 / decimal(self.gamma)
        grown = x ** decimal(self.gamma)
        below, above = grown / (1 + grown), 1 / (1 + grown)
        whole = _whole_beta(self.gamma, getcontext().prec)
        if below <= Decimal(1) / 2:
            return (1 - _incomplete(below, p) / whole) / 2
        return _incomplete(above, 1 - p) / whole / 2

    def quantile(self, tail: FloatVector) -> FloatVector:
        """Invert the incomplete beta function."""
        gamma = float(self.gamma)
        p = 1.0 / gamma
        below = betaincinv(p, 1.0 - p, 1.0 - 2.0 * tail)
        above = betaincinv(1.0 - p, p, 2.0 * tail)
        with np.errstate(divide="ignore"):
            odds = np.where(below < 0.5, below / (1.0 - below), (1.0 - above) / above)
        x: FloatVector = odds**p
        return x


def _incomplete(u: Decimal, p: Decimal) -> Decimal:
    r"""Return :math:`\int_0^u t^{p-1}(1-t)^{-p}\,dt` for u <= 1/2, 0 < p < 1.

    :math:`u^p \sum_k \frac{(p)_k}{k!}\frac{u^k}{p+k}`: positive terms, each at most
    half the one before, so what is left out is less than the last term.
    """
    least = Decimal(10) ** -(getcontext().prec + 2)
    factor, power, total, k = Decimal(1), Decimal(1), Decimal(0), 0
    while power > least:
        total += factor * power / (p + k)
        factor *= (p + k) / (k + 1)
        power *= u
        k += 1
    return u**p * total


@lru_cache(maxsize=16)
def _whole_beta(gamma: Fraction, digits: int) -> Decimal:
    """Return B(p, 1 - p), both halves by the same series."""
    del digits  # the cache's key: the context is that of the caller
    p, half = 1 / decimal(gamma), Decimal(1) / 2
    return _incomplete(half, p) + _incomplete(half, 1 - p)


def heavy_tailed(epsilon: Fraction, gamma: Fraction = Fraction(2)) -> SmoothNoise:
    """Return the polynomial noise of theorem 2, case 1."""
    PureDP(epsilon)  # checks it
    tail = HeavyTail(gamma)
    beta = float(epsilon / (2 * (gamma + 1)))
    return SmoothNoise(beta, tail, float(2 * (gamma + 1) / epsilon))


def smooth_laplace(epsilon: Fraction, delta: Fraction) -> SmoothNoise:
    """Return the Laplace noise of theorem 2, case 2."""
    ApproxDP(epsilon, delta)  # checks both
    beta = float(epsilon) / (2.0 * math.log(2.0 / float(delta)))
    if 2 * beta > epsilon or worst_delta(float(epsilon), beta) > delta:
        raise PlanError(
            f"Laplace noise on smooth sensitivity does not keep delta at epsilon "
            f"{float(epsilon):g}; lower it, or choose another mechanism"
        )
    return SmoothNoise(beta, LaplaceTail(), float(2 / epsilon))


def worst_delta(epsilon: float, u: float) -> float:
    """Return the exact delta at epsilon of the worst neighbours."""
    tails = (
        math.exp(-(epsilon + u - sigma) / math.expm1(u)) if u < _WIDE else 1.0
        for sigma in (epsilon / 2, -epsilon / 2)
    )
    return -math.expm1(-u) / 2 * sum(tails) * UP


HEAVY_TAILED: Final = OnGrid(
    lambda _target, request, _rows: heavy_tailed(request.epsilon, request.gamma)
)
SMOOTH_LAPLACE: Final = OnGrid(
    lambda _target, request, _rows: smooth_laplace(request.epsilon, request.delta),
    needs_delta=True,
)


def _pair_table(target: Target, rows: int) -> WeightTable:
    if target is not AUC:
        raise PlanError("pairs say nothing about average precision; use weighted-count")
    return pair_count_weights(rows)


def _pairs_lose(target: Target, rows: int) -> tuple[str, ...]:
    """Say what plain pair counts lose to the weighted count at equal classes."""
    best, plain, half = target.weights(rows), pair_count_weights(rows), rows // 2
    lost = (best.weights[half] / best.l1) / (plain.weights[half] / plain.l1)
    return (f"at equal classes its noise is {lost:.2f} times the weighted count's",)


PAIR_COUNT: Final = TwoIntegers(_pair_table, _pairs_lose)


def equation_33(positives: IntVector) -> FloatVector:
    """Return the paper's bound of average precision with harmonic numbers."""
    return _paper(positives, harmonic, 8.0, less=1.0)


def equation_10(positives: IntVector) -> FloatVector:
    """Return the paper's bound of average precision with logarithms."""
    return _paper(positives, np.log, 9.0, less=0.0)


def _paper(
    n: IntVector, grown: Callable[[IntVector], FloatVector], top: float, *, less: float
) -> FloatVector:
    """Add the paper's bounds for taking one example out and putting one in.

    :math:`(h(n+1) - less)/n` for a negative, :math:`(top + h(k))/(4k)` for a
    positive, k = n - 1 out and k = n in; h is the harmonic number (equation 33) or
    the logarithm (equation 10).
    """
    moved = (grown(n + 1) - less) / n
    out = np.maximum(moved, (top + grown(n - 1)) / (4 * (n - 1)))
    into = np.maximum(moved, (top + grown(n)) / (4 * n))
    bound: FloatVector = out + into
    return bound


@dataclass(frozen=True, slots=True)
class BinormalCurve:
    """The symmetric binormal ROC curve of this area; it bends everywhere."""

    auc: float
    piecewise_linear: bool = field(default=False, init=False)

    def polyline(self, pieces: int) -> Polyline:
        """Draw it with 64 segments a piece."""
        fpr = np.linspace(0.0, 1.0, 64 * pieces + 1)
        return Polyline(fpr, binormal_tpr(self.auc, fpr))


def binormal_tpr(auc: float, fpr: FloatVector) -> FloatVector:
    """Return the curve of this area; a step at the corner when it is 0 or 1.

    >>> binormal_tpr(0.5, np.array([0.25])).tolist()
    [0.25]
    """
    if math.isnan(auc):
        return np.full(fpr.shape, np.nan)
    if auc in (0.0, 1.0):
        return np.where(fpr > 0.0, 1.0, 0.0) if auc else np.where(fpr < 1.0, 0.0, 1.0)
    tpr: FloatVector = ndtr(math.sqrt(2.0) * float(ndtri(auc)) + ndtri(fpr))
    return tpr


def binormal_roc(area: PrivateEstimate) -> PrivateRoc:
    """Return the binormal curve of a released AUC: its claim is the AUC's."""
    fpr = np.linspace(0.0, 1.0, 101)
    tpr, curve = binormal_tpr(area.value, fpr), BinormalCurve(area.value)
    return PrivateRoc(fpr, tpr, None, curve, area, area.claim)

r"""Noise on smooth sensitivity: the power law, and the paper's two laws.

**Power-law noise**, pure epsilon and tuned to a prevalence, has density proportional to :math:`(1 + |x|/(\kappa S))^{-a}` with

.. math::
    a = 1 + \varepsilon/\beta, \qquad
    \kappa = \max\Big\{\frac{e^{-\beta}}{e^{(\varepsilon-\beta)/a} - 1},\
                       \frac{1}{e^{\varepsilon/a} - 1}\Big\}, \qquad \beta < \varepsilon.

**Proof** of pure epsilon-DP. Neighbours have values at most min(S, S') apart and
:math:`S' = S e^{\theta\beta}`, :math:`|\theta| \le 1`. The log ratio of the
densities at x is :math:`\theta\beta + a\ln\frac{1 + |x-v'|/(\kappa S')}{1 +
|x-v|/(\kappa S)}`; put y = |x - v|/(kappa S) and |x - v'| <= |x - v| + min(S, S').

- :math:`\theta \ge 0`: the quotient is at most :math:`\frac{1 + e^{-\theta\beta}(y
  + 1/\kappa)}{1+y}`, greatest at y = 0, and :math:`\theta\beta +
  a\ln(1 + e^{-\theta\beta}/\kappa)` is convex in :math:`\theta`: its ends 0 and 1
  are the two terms of :math:`\kappa`. **Both are needed**: with the first alone
  the loss exceeds epsilon from about 2 on.
- :math:`\theta = -t < 0`: the quotient is at most :math:`\frac{1 + 1/\kappa +
  e^{t\beta} y}{1+y}`, between its values at y = 0 and infinity: the loss is at most
  :math:`\max\{a\ln(1+1/\kappa),\ (a-1)t\beta\} - \ldots \le \varepsilon`.

The claim does not rest on the prevalence, which only chooses beta.

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
They are here to be compared with; weighted counts and the power law are better.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from discreet.curator.grid import GridNoise, HeavyTail, LaplaceTail, PowerTail
from discreet.curator.sensitivity import LEAST_BETA
from discreet.errors import PlanError
from discreet.privacy.loss import ApproxDP, PureDP

_PARTS: Final = 256
"""Beta is a multiple of epsilon/256, so that the exponent is a small fraction."""
_MOST_EPSILON: Final = Fraction(64)
"""Beyond this the noise stays what it is here: less would be lost in floats."""
_UP: Final = 1.0 + 2.0**-40
"""Covers the float errors of kappa and of its product with S."""
_WIDE: Final = 700.0
"""Beyond this an exponential overflows; nothing of a tail is bounded there."""


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """Power-law noise for smooth sensitivity of smoothness ``share`` x epsilon."""

    epsilon: Fraction
    share: Fraction

    def __post_init__(self) -> None:
        PureDP(self.epsilon)  # checks it
        if not 0 < self.share < 1:
            raise PlanError("beta lies strictly between 0 and epsilon")

    @property
    def beta(self) -> float:
        """The smoothness that the sensitivity must have."""
        return float(self.epsilon * self.share)

    @property
    def exponent(self) -> Fraction:
        """The exponent a = 1 + epsilon/beta."""
        return 1 + 1 / self.share

    @property
    def kappa(self) -> float:
        """The scale per unit of smooth sensitivity."""
        a, epsilon = float(self.exponent), float(self.epsilon)
        return max(
            math.exp(-self.beta) / math.expm1((epsilon - self.beta) / a),
            1.0 / math.expm1(epsilon / a),
        )

    def noise(self, smooth: float) -> GridNoise:
        """Return the noise for a smooth sensitivity."""
        return GridNoise(PowerTail(self.exponent), Fraction(self.kappa * smooth * _UP))

    def mean_size(self, smooth: float) -> float:
        """Return the mean absolute noise, kappa S/(a - 2); finite as beta < eps."""
        return self.kappa * smooth / float(self.exponent - 2)


def tuned(epsilon: Fraction, smooth: Callable[[float], float]) -> PowerLaw:
    """Choose beta for the least mean noise where the declared prevalence holds.

    ``smooth`` is the smooth sensitivity there as a function of beta: public. The
    noise never costs more than epsilon.
    """
    spent = min(epsilon, _MOST_EPSILON)
    noises = [PowerLaw(spent, Fraction(k, _PARTS)) for k in range(1, _PARTS)]
    allowed = [law for law in noises if law.beta >= LEAST_BETA]
    if not allowed:
        raise PlanError("epsilon is too small for any useful release; raise it")
    # Neighbouring betas hardly differ: every fourth is enough.
    return min(allowed[::4], key=lambda law: law.mean_size(smooth(law.beta)))


@dataclass(frozen=True, slots=True)
class HeavyTailed:
    """The polynomial noise of theorem 2, case 1."""

    epsilon: Fraction
    gamma: Fraction = Fraction(2)

    def __post_init__(self) -> None:
        PureDP(self.epsilon)  # checks it
        if self.gamma <= 1:
            raise PlanError("gamma must exceed 1, or the noise has no distribution")

    @property
    def beta(self) -> float:
        """The smoothness that the sensitivity must have."""
        return float(self.epsilon / (2 * (self.gamma + 1)))

    def noise(self, smooth: float) -> GridNoise:
        """Return the noise for a smooth sensitivity."""
        factor = float(2 * (self.gamma + 1) / self.epsilon)
        return GridNoise(HeavyTail(self.gamma), Fraction(factor * smooth * _UP))


@dataclass(frozen=True, slots=True)
class SmoothLaplace:
    """The Laplace noise of theorem 2, case 2."""

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        ApproxDP(self.epsilon, self.delta)  # checks both
        if 2 * self.beta > self.epsilon or self.worst_delta() > self.delta:
            raise PlanError(
                f"Laplace noise on smooth sensitivity does not keep delta at epsilon "
                f"{float(self.epsilon):g}; lower it, or choose another mechanism"
            )

    def worst_delta(self) -> float:
        """Return the exact delta at epsilon of the worst neighbours."""
        epsilon, u = float(self.epsilon), self.beta
        tails = (
            math.exp(-(epsilon + u - sigma) / math.expm1(u)) if u < _WIDE else 1.0
            for sigma in (epsilon / 2, -epsilon / 2)
        )
        return -math.expm1(-u) / 2 * sum(tails) * _UP

    @property
    def beta(self) -> float:
        """The smoothness that the sensitivity must have."""
        return float(self.epsilon) / (2.0 * math.log(2.0 / float(self.delta)))

    def noise(self, smooth: float) -> GridNoise:
        """Return the noise for a smooth sensitivity."""
        factor = float(2 / self.epsilon)
        return GridNoise(LaplaceTail(), Fraction(factor * smooth * _UP))

r"""The paper's noise on smooth sensitivity (Boyd 2015, theorem 2).

- :math:`\delta = 0`: density proportional to :math:`1/(1+|z|^\gamma)`, any
  :math:`\gamma > 1` (Cauchy at 2), scale :math:`2(\gamma+1)S/\varepsilon` and
  :math:`\beta = \varepsilon/(2(\gamma+1))`: pure epsilon-DP.
- :math:`\delta > 0`: Laplace of scale :math:`2S/\varepsilon` with
  :math:`\beta = \varepsilon/(2\ln(2/\delta))`: (epsilon, delta)-DP.

Valid and wasteful: at a nominal epsilon of 1 the Cauchy noise has a loss of .226.
They are here to be compared with; ``weighted_count`` and ``power_law`` are better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from discreet.curator.grid import ScaledNoise
from discreet.curator.tails import HeavyTail, LaplaceTail
from discreet.errors import PlanError

_UP: Final = 1.0 + 2.0**-40


@dataclass(frozen=True, slots=True)
class HeavyTailed:
    """The polynomial noise of theorem 2, case 1."""

    epsilon: Fraction
    gamma: Fraction = Fraction(2)

    def __post_init__(self) -> None:
        if self.epsilon <= 0:
            raise PlanError("epsilon must be positive")
        if self.gamma <= 1:
            raise PlanError("gamma must exceed 1, or the noise has no distribution")

    @property
    def beta(self) -> float:
        """The smoothness that the sensitivity must have."""
        return float(self.epsilon / (2 * (self.gamma + 1)))

    def noise(self, smooth: float) -> ScaledNoise:
        """Return the noise for a smooth sensitivity."""
        factor = float(2 * (self.gamma + 1) / self.epsilon)
        return ScaledNoise(HeavyTail(self.gamma), Fraction(factor * smooth * _UP))


@dataclass(frozen=True, slots=True)
class SmoothLaplace:
    """The Laplace noise of theorem 2, case 2."""

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        if self.epsilon <= 0:
            raise PlanError("epsilon must be positive")
        if not 0 < self.delta < 1:
            raise PlanError("delta must lie strictly between 0 and 1")

    @property
    def beta(self) -> float:
        """The smoothness that the sensitivity must have."""
        return float(self.epsilon) / (2.0 * math.log(2.0 / float(self.delta)))

    def noise(self, smooth: float) -> ScaledNoise:
        """Return the noise for a smooth sensitivity."""
        factor = float(2 / self.epsilon)
        return ScaledNoise(LaplaceTail(), Fraction(factor * smooth * _UP))

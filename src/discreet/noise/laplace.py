"""Discrete Laplace noise, exact and vectorised, and its fast simulation twin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from discreet.arrays import FloatArray, IntVector
from discreet.entropy import Entropy
from discreet.errors import PlanError
from discreet.noise.coins import bernoulli_exp, fair, geometric_e, stretched, uniform
from discreet.noise.mechanism import AdditiveNoise, IndependentNoise
from discreet.privacy.loss import PureDP
from discreet.privacy.unit import Sensitivity

MAX_TERM: Final = 2**40
"""Numerator and denominator of a scale stay below this: all integers fit 64 bits."""


def discrete_laplace(scale: Fraction, size: int, entropy: Entropy) -> IntVector:
    r"""Draw from the discrete Laplace distribution with secret bytes.

    .. math::
        \Pr[X = x] = \frac{e^{1/s} - 1}{e^{1/s} + 1}\, e^{-|x|/s},
        \qquad x \in \mathbb Z,\ s = \text{scale} = t/d.

    Algorithm 2 of Canonne, Kamath and Steinke (2020), on whole arrays: U uniform
    on 0 .. t-1 accepted with probability :math:`e^{-U/t}`, V geometric with
    ratio 1/e, magnitude :math:`\lfloor (U + tV)/d \rfloor`, a fair sign, and a
    negative zero drawn again.
    """
    if scale <= 0:
        raise PlanError("the scale of the noise must be positive")
    t, d = scale.numerator, scale.denominator
    if max(t, d) >= MAX_TERM:
        raise PlanError("the scale of the noise needs fewer digits: round epsilon down")
    result = np.zeros(size, dtype=np.int64)
    todo = np.arange(size)
    while todo.size:
        u = uniform(t, todo.size, entropy)
        kept = bernoulli_exp(u, t, entropy)
        u, where = u[kept], todo[kept]
        v = geometric_e(u.size, entropy)
        magnitude = (u.astype(np.int64) + t * v) // d
        negative = fair(u.size, entropy)
        good = ~(negative & (magnitude == 0))  # else zero would come up twice
        result[where[good]] = np.where(negative, -magnitude, magnitude)[good]
        done = np.zeros(todo.size, dtype=np.bool_)
        done[np.flatnonzero(kept)[good]] = True
        todo = todo[~done]
    return result


def simulate_discrete_laplace(
    scale: float, shape: tuple[int, ...], rng: np.random.Generator
) -> FloatArray:
    """Draw the same distribution fast and *not secretly*: simulation only.

    The difference of two geometric variables; tested equal to the exact one.
    """
    p = -math.expm1(-1.0 / scale)
    draws = rng.geometric(p, shape) - rng.geometric(p, shape)
    return draws.astype(np.float64)


@dataclass(frozen=True, slots=True)
class LaplaceNoise(IndependentNoise):
    """Independent discrete Laplace noise of one scale in every cell."""

    scale: float

    @property
    def variance(self) -> float:
        r"""The variance :math:`2a/(1-a)^2`, :math:`a = e^{-1/s}`."""
        a = math.exp(-1.0 / self.scale)
        return 2.0 * a / (1.0 - a) ** 2

    def simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Draw simulated noise."""
        return simulate_discrete_laplace(self.scale, shape, rng)


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(AdditiveNoise):
    """Add discrete Laplace noise of scale (L1 sensitivity) / epsilon to each cell.

    Pure epsilon-DP for the unit that the sensitivity names.
    """

    budget: PureDP
    sensitivity: Sensitivity

    @property
    def scale(self) -> Fraction:
        """The scale: L1 sensitivity over epsilon, exactly."""
        return Fraction(self.sensitivity.l1) / self.budget.epsilon

    def protect(self, exact: IntVector, *, entropy: Entropy) -> IntVector:
        """Return the counts with noise."""
        return exact + discrete_laplace(self.scale, exact.size, stretched(entropy))

    def noise(self, contributors: int) -> LaplaceNoise:
        """One contributor's noise; a sum of several is wider."""
        if contributors != 1:
            raise PlanError("this noise is for a single contributor, such as a curator")
        return LaplaceNoise(float(self.scale))

"""Integer noise on one released sum: Laplace noise on a grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import FloatArray, IntVector
from discreet.entropy import Entropy
from discreet.errors import PlanError
from discreet.noise.laplace import discrete_laplace

_MAX_NUMERATOR: Final = 2**39


def drawable(scale: Fraction) -> Fraction:
    """Round a scale up to one that the exact sampler can draw.

    More noise than was asked for is still as private; it is more by at most one
    part in two to the 36th.

    >>> drawable(Fraction(10, 3)) >= Fraction(10, 3)
    True
    """
    if scale <= 0:
        raise PlanError("the scale of the noise must be positive")
    if max(scale.numerator, scale.denominator) < _MAX_NUMERATOR:
        return scale
    room = _MAX_NUMERATOR / scale
    bits = min(max(0, math.floor(room).bit_length() - 2), 39)
    return Fraction(math.ceil(scale * 2**bits), 2**bits)


@dataclass(frozen=True, slots=True)
class LaplaceNoise:
    r"""Discrete Laplace noise: :math:`\Pr[x] \propto e^{-|x|/s}` on the integers."""

    scale: Fraction

    @property
    def variance(self) -> float:
        r"""The variance :math:`2a/(1-a)^2`, :math:`a = e^{-1/s}`."""
        inverse = 1.0 / float(self.scale)
        return 2.0 * math.exp(-inverse) / math.expm1(-inverse) ** 2

    def loss(self, distance: int) -> Fraction:
        """Return the epsilon spent when the sum moves by a distance."""
        return Fraction(abs(distance) * self.scale.denominator, self.scale.numerator)

    def draw(self, entropy: Entropy) -> int:
        """Draw once, with secret bytes."""
        return int(self.draws(1, entropy)[0])

    def draws(self, size: int, entropy: Entropy) -> IntVector:
        """Draw several times, with secret bytes."""
        return discrete_laplace(self.scale, size, entropy)


def simulate_laplace(
    scale: ArrayLike, shape: tuple[int, ...], rng: np.random.Generator
) -> FloatArray:
    """Draw discrete Laplace noise of one scale a column, fast and *not secretly*.

    A geometric variable is the whole part of an exponential one.
    """
    wide = np.asarray(scale, dtype=np.float64)
    drawn: FloatArray = np.floor(rng.standard_exponential(shape) * wide)
    drawn -= np.floor(rng.standard_exponential(shape) * wide)
    return drawn

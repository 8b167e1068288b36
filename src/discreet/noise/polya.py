r"""Polya shares: sites' noises that add up to discrete Laplace noise, exactly.

Discrete Laplace noise is infinitely divisible: with :math:`a = e^{-\gamma}`,
:math:`\gamma = \varepsilon/\Delta`, it is the difference of two geometric
variables, and a geometric variable is the sum of n negative binomials (Polya
variables) of shape 1/n. Each site draws one share; only the sum is revealed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import FloatArray, IntVector
from discreet.entropy import Entropy
from discreet.errors import PlanError
from discreet.noise.coins import (
    bernoulli_exp_ratio,
    bernoulli_two_over_e,
    fair,
    geometric_half,
    poisson,
    stretched,
    uniform,
    uniform_below,
)
from discreet.noise.laplace import MAX_TERM, discrete_laplace
from discreet.noise.mechanism import (
    AdditiveNoise,
    IndependentNoise,
    check_contributors,
    check_honest,
)
from discreet.privacy.loss import PureDP
from discreet.privacy.unit import Sensitivity

_CHUNK: Final = 1 << 16
"""Proposals held at once: memory stays bounded for any number of cells."""


def polya_difference(
    gamma: Fraction, honest: int, size: int, entropy: Entropy
) -> IntVector:
    r"""Draw shares: differences of two negative binomials NB(1/honest, a), exactly.

    Such a difference is a sum of signed jumps: in each cell, jumps of size k come
    as a Poisson process of rate :math:`a^k/(k\,h)` for each sign (h = honest,
    :math:`a = e^{-\gamma}`), because :math:`\log E z^X = \frac1h
    \log\frac{1-a}{1-az} = \frac1h \sum_k \frac{a^k}{k}(z^k - 1)`. The process is
    drawn by thinning one of *rational* rate that dominates it. Let
    :math:`w = 2^J` be the least power of two with :math:`w\gamma \ge 1`.

    - Level j < J proposes each k in :math:`[2^j, 2^{j+1})` at rate
      :math:`2^{-j}/h`, kept with probability :math:`\frac{2^j}{k}\, e^{-\gamma k}`.
    - The tail proposes each k in :math:`[iw, (i+1)w)`, i = 1, 2, ..., at rate
      :math:`2^{-i}/(wh)`, kept with probability :math:`\frac{w}{k}\,
      (2/e)^i\, e^{-(\gamma k - i)}`, where :math:`\gamma k \ge i`.

    Both products are :math:`a^k/(k\,h)`. All rates are rational and each coin is
    flipped with integers, so nothing is rounded: the shares of h sites add up to
    discrete Laplace noise of scale :math:`1/\gamma` exactly, and what further
    sites add is independent of it and can only help. The work is
    :math:`2(J+1)/h` proposals a cell: little for many sites, and for few sites it
    grows with :math:`\log(1/\gamma)` only. The timing of a draw is not hidden.
    """
    check_honest(honest)
    if gamma <= 0:
        raise PlanError("epsilon over the sensitivity must be positive")
    if max(gamma.numerator, gamma.denominator) >= MAX_TERM:
        raise PlanError("epsilon over the sensitivity needs fewer digits: round it")
    if honest == 1:
        return discrete_laplace(1 / gamma, size, entropy)  # the same noise, faster
    levels = _levels(gamma)
    shares = np.zeros(size, dtype=np.int64)
    rate = Fraction(2 * (levels + 1) * size, honest)
    proposals = int(poisson(rate, 1, entropy)[0])
    for start in range(0, proposals, _CHUNK):
        count = min(_CHUNK, proposals - start)
        jumps = _jumps(gamma, levels, count, entropy)
        cells = uniform(size, jumps.size, entropy)
        np.add.at(shares, cells.astype(np.intp), jumps)
    return shares


def _levels(gamma: Fraction) -> int:
    """Return the least J with 2^J gamma at or above 1."""
    return (math.ceil(1 / gamma) - 1).bit_length()


def _jumps(gamma: Fraction, levels: int, count: int, entropy: Entropy) -> IntVector:
    """Propose signed jumps and return those that are kept."""
    level = uniform(levels + 1, count, entropy)
    block = np.zeros(count, dtype=np.int64)  # i of the tail, 0 below it
    tail = level == levels
    block[tail] = 1 + geometric_half(int(np.count_nonzero(tail)), entropy)
    width = np.left_shift(np.uint64(1), level)
    within = np.bitwise_and(_bits(count, levels, entropy), width - np.uint64(1))
    k = (width * np.maximum(block, 1).astype(np.uint64) + within).astype(np.int64)

    kept = np.flatnonzero(uniform_below(k.astype(np.uint64), entropy) < width)
    k, block = k[kept], block[kept]
    exponent = k * gamma.numerator - block * gamma.denominator
    survived = bernoulli_exp_ratio(exponent, gamma.denominator, entropy)
    survived &= bernoulli_two_over_e(block, entropy)
    k = k[survived]
    return np.where(fair(k.size, entropy), -k, k)


def _bits(count: int, bits: int, entropy: Entropy) -> NDArray[np.uint64]:
    """Draw integers of at least that many uniform low bits."""
    width = next(w for w in (1, 2, 4, 8) if bits <= 8 * w)
    drawn = np.frombuffer(entropy(width * count), dtype=f"<u{width}")
    return drawn.astype(np.uint64)


def simulate_polya_difference(
    gamma: float, shape: float, size: tuple[int, ...], rng: np.random.Generator
) -> FloatArray:
    """Draw differences of two NB(shape, e^-gamma) fast and *not secretly*."""
    success = -math.expm1(-gamma)
    draws = rng.negative_binomial(shape, success, size)
    draws -= rng.negative_binomial(shape, success, size)
    return draws.astype(np.float64)


@dataclass(frozen=True, slots=True)
class PolyaNoise(IndependentNoise):
    r"""The sum of some shares: the difference of two NB(shape, e^-gamma).

    ``shape`` is contributors over honest sites: 1 is discrete Laplace noise.
    """

    gamma: float
    shape: float

    @property
    def scale(self) -> float:
        """The scale of the discrete Laplace noise that is guaranteed."""
        return 1.0 / self.gamma

    @property
    def variance(self) -> float:
        r"""The variance :math:`2 r a/(1-a)^2`."""
        a = math.exp(-self.gamma)
        return 2.0 * self.shape * a / math.expm1(-self.gamma) ** 2

    def simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Draw simulated noise."""
        return simulate_polya_difference(self.gamma, self.shape, shape, rng)


@dataclass(frozen=True, slots=True)
class PolyaShares(AdditiveNoise):
    """Each site adds a share of discrete Laplace noise to each of its counts.

    ``honest`` is the number of shares that are sure to be in the revealed sum and
    unknown to the adversary: min_survivors minus colluders, never a count that a
    coordinator reports. Their sum alone is discrete Laplace noise of scale
    (L1 sensitivity) / epsilon: pure epsilon-DP for the unit that the sensitivity
    names, whatever the other sites add.
    """

    budget: PureDP
    sensitivity: Sensitivity
    honest: int

    def __post_init__(self) -> None:
        check_honest(self.honest)

    @property
    def gamma(self) -> Fraction:
        """Epsilon over the L1 sensitivity, exactly: the inverse of the scale."""
        return self.budget.epsilon / self.sensitivity.l1

    def protect(self, exact: IntVector, *, entropy: Entropy) -> IntVector:
        """Return the counts with this site's share of the noise."""
        share = polya_difference(
            self.gamma, self.honest, exact.size, stretched(entropy)
        )
        return exact + share

    def noise(self, contributors: int) -> PolyaNoise:
        """Return the distribution of the noise in a sum of that many shares."""
        check_contributors(contributors, self.honest)
        return PolyaNoise(float(self.gamma), contributors / self.honest)

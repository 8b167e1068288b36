r"""Symmetric noise on a public grid, drawn exactly.

A law X has density h(x) = h(-x); :math:`T(x) = \Pr[X > x]` for x >= 0 says all. Tails
in decimals, to as many digits as asked, are for releases; the float functions are
for error bars, audits and simulation.

The released value is :math:`k/s`, k the nearest integer to :math:`s` times the
noisy value, cut to 0 .. s. That is a function of the real noisy value, so it is as
private as that; and it has finitely many outcomes, so it can be drawn without
any rounding: k is where a uniform random number falls among the cumulative
probabilities. The number is drawn bit by bit and each probability computed in
decimals; when a comparison is in doubt, both get more digits. What comes out has
exactly the law of the paper's real-valued mechanism, cut to the grid: no float
is ever added to noise, and the grid's gaps say nothing about the data.

Not covered: the time that a draw takes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal, getcontext, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Final, Protocol

import numpy as np
from scipy.special import betainc, betaincinv

from discreet.arrays import FloatVector
from discreet.entropy import Entropy
from discreet.errors import PlanError


class Tail(Protocol):
    """A symmetric law of scale 1."""

    def upper(self, x: Decimal) -> Decimal:
        """Return T(x), x >= 0, within 10^(5 - p) at the context's p digits."""
        ...

    def tail(self, x: FloatVector) -> FloatVector:
        """Return T(x), x >= 0, in floats."""
        ...

    def log_density(self, x: FloatVector) -> FloatVector:
        """Return the logarithm of the density, in floats."""
        ...

    def quantile(self, tail: FloatVector) -> FloatVector:
        """Return the x >= 0 beyond which lies this probability, at most 1/2."""
        ...


@dataclass(frozen=True, slots=True)
class LaplaceTail:
    r"""The Laplace law: :math:`T(x) = e^{-x}/2`."""

    def upper(self, x: Decimal) -> Decimal:
        """Return half the exponential."""
        return (-x).exp() / 2

    def tail(self, x: FloatVector) -> FloatVector:
        """Return half the exponential."""
        return 0.5 * np.exp(-x)

    def log_density(self, x: FloatVector) -> FloatVector:
        """Return -|x| - ln 2."""
        found: FloatVector = -np.abs(x) - math.log(2.0)
        return found

    def quantile(self, tail: FloatVector) -> FloatVector:
        """Invert the exponential."""
        found: FloatVector = -np.log(2.0 * tail)
        return found


@dataclass(frozen=True, slots=True)
class PowerTail:
    r"""The power law: density :math:`\frac{a-1}{2}(1+|x|)^{-a}`, a > 1."""

    exponent: Fraction

    def __post_init__(self) -> None:
        if self.exponent <= 1:
            raise PlanError("the exponent of a power law exceeds 1")

    def upper(self, x: Decimal) -> Decimal:
        """Return (1 + x)^(1 - a)/2."""
        return (1 + x) ** -decimal(self.exponent - 1) / 2

    def tail(self, x: FloatVector) -> FloatVector:
        """Return (1 + x)^(1 - a)/2."""
        found: FloatVector = 0.5 * (1.0 + x) ** (1.0 - float(self.exponent))
        return found

    def log_density(self, x: FloatVector) -> FloatVector:
        """Return the logarithm."""
        a = float(self.exponent)
        found: FloatVector = math.log((a - 1.0) / 2.0) - a * np.log1p(np.abs(x))
        return found

    def quantile(self, tail: FloatVector) -> FloatVector:
        """Invert the power."""
        found: FloatVector = np.expm1(np.log(2.0 * tail) / (1.0 - float(self.exponent)))
        return found


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

    def tail(self, x: FloatVector) -> FloatVector:
        """Return half the complementary incomplete beta function."""
        gamma = float(self.gamma)
        p, grown = 1.0 / gamma, x**gamma
        near = 0.5 - 0.5 * betainc(p, 1.0 - p, grown / (1.0 + grown))
        far = 0.5 * betainc(1.0 - p, p, 1.0 / (1.0 + grown))
        tail: FloatVector = np.where(grown < 1.0, near, far)
        return tail

    def log_density(self, x: FloatVector) -> FloatVector:
        r"""Normalise by :math:`2\pi/(\gamma\sin(\pi/\gamma))`."""
        gamma = float(self.gamma)
        whole = 2.0 * math.pi / gamma / math.sin(math.pi / gamma)
        found: FloatVector = -np.log1p(np.abs(x) ** gamma) - math.log(whole)
        return found

    def quantile(self, tail: FloatVector) -> FloatVector:
        """Invert the incomplete beta function."""
        gamma = float(self.gamma)
        p = 1.0 / gamma
        below = betaincinv(p, 1.0 - p, 1.0 - 2.0 * tail)
        above = betaincinv(1.0 - p, p, 2.0 * tail)
        with np.errstate(divide="ignore"):
            odds = np.where(below < 0.5, below / (1.0 - below), (1.0 - above) / above)
        found: FloatVector = odds**p
        return found


def decimal(number: Fraction) -> Decimal:
    """Divide at the context's precision."""
    return Decimal(number.numerator) / Decimal(number.denominator)


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


_FIRST_BITS: Final = 128
_FIRST_DIGITS: Final = 60
_GUARD_DIGITS: Final = 8
"""Digits at the end of a computed probability that nobody relies on; the tails
promise 5, and the place x costs less than 2 more."""


@dataclass(frozen=True, slots=True)
class GridNoise:
    """A law with its scale, around a value: all exact numbers."""

    tail: Tail
    scale: Fraction

    def __post_init__(self) -> None:
        if self.scale <= 0:
            raise PlanError("the scale of the noise must be positive")

    def below(self, place: Fraction, value: Fraction, digits: int) -> Decimal:
        """Return the probability that value + noise < place, to some digits."""
        # A context of our own: the caller's traps and rounding stay outside.
        with localcontext(Context(prec=digits)):
            x = decimal((place - value) / self.scale)
            if x >= 0:
                return 1 - self.tail.upper(x)
            return self.tail.upper(-x)


def grid_steps(rows: int) -> int:
    """Return the public grid's number of steps: three digits more than rows has.

    Noise is never below about 1/rows, so the grid costs nothing.

    >>> grid_steps(250)
    1000000
    """
    return int(10 ** (len(str(rows)) + 3))


def draw_on_grid(
    value: Fraction, noise: GridNoise, *, steps: int, entropy: Entropy
) -> int:
    """Draw k of 0 .. steps: value plus noise, on the grid and cut to its ends."""
    number = _Uniform(entropy)
    low, high = 0, steps  # the answer lies in low .. high
    while low < high:
        k = (low + high) // 2
        if number.is_below(Fraction(2 * k + 1, 2 * steps), value, noise):
            high = k
        else:
            low = k + 1
    return low


class _Uniform:
    """A uniform random number of which as many bits are known as were needed."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._bits = _FIRST_BITS
        self._known = int.from_bytes(entropy(_FIRST_BITS // 8), "big")

    def is_below(self, place: Fraction, value: Fraction, noise: GridNoise) -> bool:
        """Whether the number is below the probability of staying below a place."""
        digits = _FIRST_DIGITS
        while True:
            found = Fraction(noise.below(place, value, digits))
            error = Fraction(1, 10 ** (digits - _GUARD_DIGITS))
            if Fraction(self._known + 1, 2**self._bits) <= found - error:
                return True
            if Fraction(self._known, 2**self._bits) >= found + error:
                return False
            self._known = (self._known << 64) + int.from_bytes(self._entropy(8), "big")
            self._bits += 64
            digits += 24


def grid_probabilities(
    value: float, scale: float, tail: Tail, steps: int
) -> FloatVector:
    """Return the probability of each grid point, in floats: for audits."""
    place = (np.arange(steps) + 0.5) / steps
    x = (place - value) / scale
    outside = tail.tail(np.abs(x))
    # Differences on the side where they do not cancel.
    upper = np.where(x >= 0, outside, 1.0 - outside)
    lower = np.where(x >= 0, 1.0 - outside, outside)
    rising = np.diff(lower, prepend=0.0)
    falling = -np.diff(np.append(1.0, upper))
    left = x < 0
    return np.append(np.where(left, rising, falling), upper[-1])


def simulate_smooth(
    value: float, noise: GridNoise, size: int, rng: np.random.Generator
) -> FloatVector:
    """Draw values with noise, cut to 0 .. 1: for benchmarks and audits, never secret."""
    magnitude = noise.tail.quantile(0.5 * (1.0 - rng.random(size)))
    sign = np.where(rng.random(size) < 0.5, -1.0, 1.0)
    return np.clip(value + float(noise.scale) * sign * magnitude, 0.0, 1.0)

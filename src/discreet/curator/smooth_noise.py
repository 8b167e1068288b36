r"""Noise on smooth sensitivity, drawn exactly on a public grid: the power law.

**The grid.** The noise X has density h(x) = h(-x), so :math:`T(x) = \Pr[X > x]` for
x >= 0 says all. Tails in decimals, to as many digits as asked, are for releases; the
float quantiles are for error bars and simulation.

The released value is :math:`k/s`, k the nearest integer to :math:`s` times the
noisy value, cut to 0 .. s. That is a function of the real noisy value, so it is as
private as that; and it has finitely many outcomes, so it can be drawn without
any rounding: k is where a uniform random number falls among the cumulative
probabilities. The number is drawn bit by bit and each probability computed in
decimals; when a comparison is in doubt, both get more digits. What comes out has
exactly the distribution of real-valued noise, cut to the grid: no float
is ever added to noise, and the grid's gaps say nothing about the data.

Not covered: the time that a draw takes.

**Power-law noise**, pure epsilon and tuned to a prevalence, has density
proportional to :math:`(1 + |x|/(\kappa S))^{-a}` with

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
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Final, Protocol

import numpy as np

from discreet.arrays import FloatVector
from discreet.curator.ranking import LEAST_BETA
from discreet.entropy import Entropy
from discreet.errors import PlanError
from discreet.privacy.loss import PureDP

_PARTS: Final = 256
"""Beta is a multiple of epsilon/256, so that the exponent is a small fraction."""
_MOST_EPSILON: Final = Fraction(64)
"""Beyond this the noise stays what it is here: less would be lost in floats."""
UP: Final = 1.0 + 2.0**-40
"""Covers the float errors of a scale and of its product with S."""
_FIRST_BITS: Final = 128
_FIRST_DIGITS: Final = 60
_GUARD_DIGITS: Final = 8
"""Digits at the end of a computed probability that nothing relies on; the tails
promise 5, and the place x costs less than 2 more."""


class Tail(Protocol):
    """A symmetric distribution of scale 1."""

    def upper(self, x: Decimal) -> Decimal:
        """Return T(x), x >= 0, within 10^(5 - p) at the context's p digits."""
        ...

    def quantile(self, tail: FloatVector) -> FloatVector:
        """Return the x >= 0 beyond which lies this probability, at most 1/2."""
        ...


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

    def quantile(self, tail: FloatVector) -> FloatVector:
        """Invert the power."""
        x: FloatVector = np.expm1(np.log(2.0 * tail) / (1.0 - float(self.exponent)))
        return x


def decimal(number: Fraction) -> Decimal:
    """Divide at the context's precision."""
    return Decimal(number.numerator) / Decimal(number.denominator)


@dataclass(frozen=True, slots=True)
class GridNoise:
    """A tail with its scale, around a value: all exact numbers."""

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
    # A uniform random number, of which as many bits are known as were needed.
    known, bits = int.from_bytes(entropy(_FIRST_BITS // 8), "big"), _FIRST_BITS
    low, high = 0, steps  # the answer lies in low .. high
    digits = _FIRST_DIGITS
    while low < high:
        k = (low + high) // 2
        chance = Fraction(noise.below(Fraction(2 * k + 1, 2 * steps), value, digits))
        error = Fraction(1, 10 ** (digits - _GUARD_DIGITS))
        if Fraction(known + 1, 2**bits) <= chance - error:
            high, digits = k, _FIRST_DIGITS
        elif Fraction(known, 2**bits) >= chance + error:
            low, digits = k + 1, _FIRST_DIGITS
        else:  # in doubt: the same comparison again, with more of both
            known = (known << 64) + int.from_bytes(entropy(8), "big")
            bits, digits = bits + 64, digits + 24
    return low


def simulate_smooth(
    value: float, noise: GridNoise, size: int, rng: np.random.Generator
) -> FloatVector:
    """Draw values with noise, cut to 0 .. 1: for benchmarks and audits, never secret."""
    magnitude = noise.tail.quantile(0.5 * (1.0 - rng.random(size)))
    sign = np.where(rng.random(size) < 0.5, -1.0, 1.0)
    return np.clip(value + float(noise.scale) * sign * magnitude, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class SmoothNoise:
    """Noise in proportion to a sensitivity that must have the smoothness ``beta``."""

    beta: float
    tail: Tail
    per_unit: float
    """The scale for a smooth sensitivity of 1."""

    def noise(self, smooth: float) -> GridNoise:
        """Return the noise for a smooth sensitivity."""
        return GridNoise(self.tail, Fraction(self.per_unit * smooth * UP))


def power_law(epsilon: Fraction, share: Fraction) -> SmoothNoise:
    """Return power-law noise of smoothness ``share`` x epsilon and scale kappa S."""
    PureDP(epsilon)  # checks it
    if not 0 < share < 1:
        raise PlanError("beta lies strictly between 0 and epsilon")
    beta, exponent = float(epsilon * share), 1 + 1 / share
    a, loss = float(exponent), float(epsilon)
    kappa = max(
        math.exp(-beta) / math.expm1((loss - beta) / a),
        1.0 / math.expm1(loss / a),
    )
    return SmoothNoise(beta, PowerTail(exponent), kappa)


def tuned(epsilon: Fraction, smooth: Callable[[float], float]) -> SmoothNoise:
    """Choose beta for the least mean noise where the declared prevalence holds.

    ``smooth`` is the smooth sensitivity there as a function of beta: public. The
    noise never costs more than epsilon.
    """
    spent = min(epsilon, _MOST_EPSILON)
    shares = [Fraction(k, _PARTS) for k in range(1, _PARTS)]
    allowed = [share for share in shares if float(spent * share) >= LEAST_BETA]
    if not allowed:
        raise PlanError("epsilon is too small for any useful release; raise it")

    def mean_size(share: Fraction) -> float:
        """Return the mean absolute noise, kappa S/(a - 2); finite as beta < epsilon."""
        noise = power_law(spent, share)
        return noise.per_unit * smooth(noise.beta) / float(1 / share - 1)

    # Neighbouring betas hardly differ: every fourth is enough.
    return power_law(spent, min(allowed[::4], key=mean_size))

r"""Noise on a public grid, drawn exactly.

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

from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Final

import numpy as np

from discreet.arrays import FloatVector
from discreet.curator.tails import Tail, decimal
from discreet.entropy import Entropy
from discreet.errors import PlanError

_FIRST_BITS: Final = 128
_FIRST_DIGITS: Final = 60
_GUARD_DIGITS: Final = 8
"""Digits at the end of a computed probability that nobody relies on; the tails
promise 5, and the place x costs less than 2 more."""


@dataclass(frozen=True, slots=True)
class ScaledNoise:
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
    value: Fraction, noise: ScaledNoise, *, steps: int, entropy: Entropy
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

    def is_below(self, place: Fraction, value: Fraction, noise: ScaledNoise) -> bool:
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

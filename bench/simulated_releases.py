"""The curator's noise in floats, for audits."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betainc

from discreet.arrays import FloatVector
from discreet.curator.smooth_noise import PowerTail, Tail
from discreet.published.boyd2015 import HeavyTail, LaplaceTail


def tail_of(noise: Tail, x: FloatVector) -> FloatVector:
    """Return the probability beyond x >= 0, for noise of scale 1."""
    match noise:
        case LaplaceTail():
            chance: FloatVector = 0.5 * np.exp(-x)
        case PowerTail(exponent):
            chance = 0.5 * (1.0 + x) ** (1.0 - float(exponent))
        case HeavyTail(gamma):
            p, grown = 1.0 / float(gamma), x ** float(gamma)
            near = 0.5 - 0.5 * betainc(p, 1.0 - p, grown / (1.0 + grown))
            far = 0.5 * betainc(1.0 - p, p, 1.0 / (1.0 + grown))
            chance = np.where(grown < 1.0, near, far)
        case _:
            raise TypeError(type(noise).__name__)
    return chance


def log_density(noise: Tail, x: FloatVector) -> FloatVector:
    r"""Return the logarithm of the density, for noise of scale 1.

    The heavy tail is normalised by :math:`2\pi/(\gamma\sin(\pi/\gamma))`.
    """
    match noise:
        case LaplaceTail():
            logarithm: FloatVector = -np.abs(x) - math.log(2.0)
        case PowerTail(exponent):
            a = float(exponent)
            logarithm = math.log((a - 1.0) / 2.0) - a * np.log1p(np.abs(x))
        case HeavyTail(gamma):
            g = float(gamma)
            whole = 2.0 * math.pi / g / math.sin(math.pi / g)
            logarithm = -np.log1p(np.abs(x) ** g) - math.log(whole)
        case _:
            raise TypeError(type(noise).__name__)
    return logarithm


def grid_probabilities(
    value: float, scale: float, tail: Tail, steps: int
) -> FloatVector:
    """Return the probability of each grid point."""
    place = (np.arange(steps) + 0.5) / steps
    x = (place - value) / scale
    outside = tail_of(tail, np.abs(x))
    # Differences on the side where they do not cancel.
    upper = np.where(x >= 0, outside, 1.0 - outside)
    lower = np.where(x >= 0, 1.0 - outside, outside)
    rising = np.diff(lower, prepend=0.0)
    falling = -np.diff(np.append(1.0, upper))
    left = x < 0
    return np.append(np.where(left, rising, falling), upper[-1])

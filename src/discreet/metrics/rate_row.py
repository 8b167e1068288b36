"""What a row of the table of measures at a threshold is, and how its slopes are found.

A row is a ``Share`` of counted examples, an ``Analytic`` function of TP, FN, FP, TN and
the threshold (whose slopes are exact), or any other function of them (whose slopes are
central differences). Its errors follow (:mod:`discreet.metrics.thresholds`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from discreet.arrays import FloatVector
from discreet.estimate.estimate import UNIT, Interval
from discreet.estimate.slopes import numeric_slopes
from discreet.metrics.table import Better

Weights: TypeAlias = tuple[int, int, int, int]
"""How often each of TP, FN, FP, TN counts."""
_TINY: Final = 1e-30


@dataclass(frozen=True, slots=True)
class Share:
    """What a rate counts among TP, FN, FP, TN: successes, and failures.

    ``twice`` says that the rate is 2J/(1 + J) of this share J, as F1 is of
    Jaccard's index.
    """

    successes: Weights
    failures: Weights
    twice: bool = False

    def __call__(self, counts: FloatVector) -> float:
        """Return the rate, NaN where nothing is counted."""
        a = float(np.dot(self.successes, counts)) * (2 if self.twice else 1)
        under = a + float(np.dot(self.failures, counts))
        return a / under if under > 0 else math.nan


@dataclass(frozen=True, slots=True)
class Analytic:
    """A function of TP, FN, FP, TN and the threshold's probability: no branches.

    It must take complex numbers as it takes real ones: its slopes are those of a
    complex step (Squire and Trapp 1998), exact to the last digit. It does not change
    when all counts are doubled.
    """

    of: Callable[[Any, Any, Any, Any, float], Any]

    def __call__(self, counts: FloatVector, threshold: float) -> float:
        """Return the value, NaN or infinite where it divides by nothing."""
        with np.errstate(all="ignore"):
            tp, fn, fp, tn = counts
            return float(np.real(self.of(tp, fn, fp, tn, threshold)))

    def slopes(self, counts: FloatVector, threshold: float) -> FloatVector:
        """Return the derivative in each of the four counts."""
        return complex_slopes(
            lambda c: self.of(c[0], c[1], c[2], c[3], threshold), counts
        )


def complex_slopes(function: Callable[[Any], Any], at: FloatVector) -> FloatVector:
    """Return a function's slopes in a few numbers by complex steps.

    >>> complex_slopes(lambda v: v[0] ** 2 / v[1], np.array([3.0, 2.0])).tolist()
    [3.0, -2.25]
    """
    with np.errstate(all="ignore"):
        return np.array(
            [float(np.imag(function(at + 1j * _TINY * u))) for u in np.eye(at.size)]
        ) * (1 / _TINY)


@dataclass(frozen=True, slots=True)
class RateRow:
    """One measure at a threshold.

    A ``Share`` of counted examples has Wilson's interval with the noise of both
    counts; any other function of the confusion counts (TP, FN, FP, TN) and the
    threshold has the delta method's, on the logarithm's scale where it is a factor.
    """

    name: str
    title: str
    value: Share | Analytic | Callable[[FloatVector, float], float]
    better: Better
    source: str
    support: Interval = UNIT
    formula: str = ""
    hides: str = ""
    """What this number does not show, in one line."""
    headline: bool = True
    """Whether it stands in the short table too."""
    factor: bool = False
    """Whether its error is a factor: the interval is made on the log scale."""
    needs_probabilities: bool = False
    """Whether it reads the threshold as a probability."""

    def at(self, counts: FloatVector, threshold: float) -> float:
        """Return the value of confusion counts."""
        if isinstance(self.value, Share):
            return self.value(counts)
        return self.value(counts, threshold)

    def slopes(self, counts: FloatVector, threshold: float) -> FloatVector:
        """Return the derivative in each of TP, FN, FP, TN."""
        if isinstance(self.value, Analytic):
            return self.value.slopes(counts, threshold)
        return numeric_slopes(lambda c: self.at(c, threshold), counts)

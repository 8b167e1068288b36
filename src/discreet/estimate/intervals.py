r"""Intervals from a value and the spread of its errors: score-type, inside [0, 1].

A normal interval takes the error's size at the estimate. Near 0 and 1 that size
changes within the interval itself, and with few examples the interval is too
short (a logit interval as well). A score-type interval holds every value
:math:`\theta` that the data do not contradict, each with *its own* variance:

.. math::
    (\hat\theta - \theta)^2 \le z^2 \left( V(\theta) + \sigma^2 \right)

with V the sampling variance if :math:`\theta` were true and :math:`\sigma^2` that of
the noise. Wilson (1927) did this for a proportion, Newcombe (2006) for the AUC.

A sum of absolute deviations, such as the expected calibration error, is above 0 for a
perfect model too: an absolute value turns every error upwards (:class:`FoldedShape`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Final, Protocol, TypeAlias

import numpy as np

from discreet.arrays import FloatArray, FloatVector, product
from discreet.errors import InputError

Ends: TypeAlias = tuple[float, float]
_HALVINGS: Final = 48
_PRIOR_EXAMPLES: Final = 5.0
_DRAWS: Final = 1000
_SEED: Final = 2026
_FOLDED_HALVINGS: Final = 24
_SURE: Final = 2.0
"""A deviation beyond this many spreads is not taken for scatter."""
_FARTHEST: Final = 2.5
"""So many spreads out draws still show a quantile; beyond it is stretched."""


class Shape(Protocol):
    """How the error of an estimate changes with the value."""

    def ends(self, value: float, sampling: float, noise: float, z: float) -> Ends:
        """Return the interval's two ends, z standard deviations wide."""
        ...


@dataclass(frozen=True, slots=True)
class Symmetric:
    """The error does not depend on the value: the normal interval."""

    def ends(self, value: float, sampling: float, noise: float, z: float) -> Ends:
        """Return value -+ z times both errors, convolved."""
        reach = z * math.hypot(sampling, noise)
        return value - reach, value + reach


SYMMETRIC: Final = Symmetric()


@dataclass(frozen=True, slots=True)
class AreaShape:
    r"""The AUC's sampling error: Newcombe's variance, scaled to DeLong's.

    .. math::
        V(\theta) = k\,\frac{\theta(1-\theta)}{PN}
        \left[1 + (s-1)\left(\frac{1-\theta}{2-\theta}
        + \frac{\theta}{1+\theta}\right)\right], \qquad s = (P+N)/2

    is the variance of Hanley and McNeil (1982) for exponential scores in
    Newcombe's (2006) symmetrised form (his method 5). The factor k makes it
    DeLong's at the estimate, so that the scores need not be exponential; a few
    examples say little about k, so it is drawn towards 1 as if by five more of
    the smaller class.
    """

    positives: float
    negatives: float

    def __post_init__(self) -> None:
        if not (self.positives > 0 and self.negatives > 0):
            raise InputError("the AUC's interval needs examples of both classes")

    def variance(self, theta: float) -> float:
        """Return Newcombe's variance, k = 1."""
        rest = (self.positives + self.negatives) / 2 - 1
        bracket = 1 + rest * ((1 - theta) / (2 - theta) + theta / (1 + theta))
        return theta * (1 - theta) * bracket / (self.positives * self.negatives)

    def ends(self, value: float, sampling: float, noise: float, z: float) -> Ends:
        """Solve for the two ends in [0, 1]."""
        own = self.variance(value)
        # Perfect separation shows no spread at all: Newcombe's own stands.
        factor = sampling**2 / own if sampling > 0 and own > 0 else 1.0
        fewer = min(self.positives, self.negatives)
        factor = (fewer * factor + _PRIOR_EXAMPLES) / (fewer + _PRIOR_EXAMPLES)
        return solved(value, lambda theta: factor * self.variance(theta) + noise**2, z)


@dataclass(frozen=True, slots=True)
class ProportionShape:
    r"""A mean of precisions: :math:`V(\theta) \propto (\theta(1-\theta))^h`.

    With h = 2 the spread is constant on the logit scale (Boyd, Eng and Page 2013
    for areas under the PR curve); with h = 1 it is a proportion's. Where the sample is
    perfect, 0 or 1, it has no spread of its own: it is then so many ``trials`` that all
    went one way (Wilson 1927), the positives.
    """

    power: float = 1.0
    trials: float = math.inf

    def ends(self, value: float, sampling: float, noise: float, z: float) -> Ends:
        """Solve for the two ends in [0, 1]."""
        value = _clip(value)  # an area of 1 may be a rounding above it
        own: float = (value * (1 - value)) ** self.power

        def variance(theta: float) -> float:
            if own <= 0:
                return theta * (1 - theta) / max(self.trials, 1.0) + noise**2
            part: float = (theta * (1 - theta)) ** self.power
            return sampling**2 * part / own + noise**2

        return solved(value, variance, z)


@dataclass(frozen=True, slots=True)
class RatioShape:
    r"""A rate of counts: Wilson's interval with the noise of both counts.

    With a successes and b failures as released, a share :math:`\theta` is kept when

    .. math::
        (a - \theta(a + b))^2 \le z^2 \left[ m\,\theta(1-\theta)
        + (1-\theta)^2 V_a + \theta^2 V_b - 2\theta(1-\theta) C_{ab} \right],

    m the trials that the estimator finds. Without noise it is Wilson's (1927).
    With noise it is Fieller's (1954): the left side has mean zero at the true share
    however large the noise is; when the noise could be all there is, it is all of [0, 1].
    The counts are the released ones, not smoothed: their noise is known exactly.

    ``twice`` says that the rate is F1 = 2J/(1 + J) of this share J (Jaccard's
    index); it rises with J, so its ends are those of J.
    """

    successes: float
    failures: float
    trials: float
    variance_successes: float = 0.0
    variance_failures: float = 0.0
    covariance: float = 0.0
    twice: bool = False

    def __post_init__(self) -> None:
        if not min(self.trials, self.variance_successes, self.variance_failures) >= 0:
            raise InputError("trials and variances cannot be negative")

    def ends(self, value: float, sampling: float, noise: float, z: float) -> Ends:
        """Return the kept shares between 0 and 1, and the value with them."""
        del sampling, noise  # both follow from the counts
        low, high = self.shares(z)
        if self.twice:
            low, high = 2 * low / (1 + low), 2 * high / (1 + high)
        return min(low, value), max(high, value)

    def shares(self, z: float) -> Ends:
        """Return the ends of the kept shares between 0 and 1."""
        a, total, m = self.successes, self.successes + self.failures, self.trials
        va, vb, c = self.variance_successes, self.variance_failures, self.covariance
        # q(theta) = square theta^2 + linear theta + start, kept where q <= 0.
        square = total**2 - z * z * (va + vb + 2 * c - m)
        linear = -2 * a * total - z * z * (m - 2 * va - 2 * c)
        start = a * a - z * z * va
        root = linear**2 - 4 * square * start
        if square <= 0:
            return _outside(square, linear, start)
        if root < 0:
            only = _clip(a / total) if total > 0 else 0.0
            return only, only
        reach = math.sqrt(root)
        low, high = ((side - linear) / (2 * square) for side in (-reach, reach))
        return _clip(low), _clip(high)


@dataclass(frozen=True, slots=True)
class LargestShape:
    """The largest of several deviations, such as the maximum calibration error.

    The largest deviation of the population is at most the largest upper end, each
    at the interval's level, and at least the largest lower end when *all* of these
    hold at once (Šidák).
    """

    deviations: tuple[float, ...]
    spreads: tuple[float, ...]

    def ends(self, value: float, sampling: float, noise: float, z: float) -> Ends:
        """Return both ends; the spreads hold sampling and noise already."""
        del value, sampling, noise
        normal = NormalDist()
        every = normal.inv_cdf(normal.cdf(z) ** (1 / len(self.deviations)))
        pairs = list(zip(self.deviations, self.spreads, strict=True))
        low = max(d - every * s for d, s in pairs)
        return max(low, 0.0), max(d + z * s for d, s in pairs)


@dataclass(frozen=True, slots=True)
class Linear:
    """The shape of a x + b of another quantity x, such as Gini or U of the AUC."""

    inner: Shape
    factor: float
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not self.factor > 0:
            raise InputError("a quantity is scaled by a positive factor")

    def ends(self, value: float, sampling: float, noise: float, z: float) -> Ends:
        """Return the other quantity's ends, mapped."""
        f, b = self.factor, self.offset
        low, high = self.inner.ends((value - b) / f, sampling / f, noise / f, z)
        return low * f + b, high * f + b


def solved(value: float, variance: Callable[[float], float], z: float) -> Ends:
    """Return the ends of the values in [0, 1] that the estimate does not contradict.

    Bisection from the estimate, which is always kept, towards 0 and 1.
    """

    def agrees(theta: float) -> bool:
        return (value - theta) ** 2 <= z * z * variance(theta)

    def end(kept: float, limit: float) -> float:
        if agrees(limit):
            return limit
        for _ in range(_HALVINGS):
            middle = (kept + limit) / 2
            kept, limit = (middle, limit) if agrees(middle) else (kept, middle)
        return kept

    return end(value, 0.0), end(value, 1.0)


def _outside(square: float, linear: float, start: float) -> Ends:
    """Return the hull of q <= 0 in [0, 1] where q opens downwards."""
    if square == 0 or linear**2 <= 4 * square * start:
        return 0.0, 1.0
    reach = math.sqrt(linear**2 - 4 * square * start)
    first, second = sorted((side - linear) / (2 * square) for side in (-reach, reach))
    low = 0.0 if first >= 0 else _clip(second)
    high = 1.0 if second <= 1 else _clip(first)
    return (low, high) if low <= high else (0.0, 1.0)


def _clip(share: float) -> float:
    return min(max(share, 0.0), 1.0)


@dataclass(frozen=True, eq=False)
class FoldedShape:
    r"""The sum of absolute values of deviations with a known covariance of errors.

    Truths of one pattern are tried, from none of it to as much as it takes: a total is
    kept when the sum over draws of truth and errors agrees with the value seen (Neyman's
    construction). The draws are the same for every release: a release has one interval.

    The lower end takes the deviations d beyond two spreads as all there is: scatter is
    most where few terms hold all of the truth. The upper end takes, with covariance C and
    signs s, the pattern :math:`d + C s/\sqrt{s^\top C s}`: the deviations moved by one
    spread of their sum in the least favourable direction (Stein 1956). The interval may
    lie below the value itself.

    A model that smoothed the deviations took part of their scatter off, an unknown part
    of which is its bias. At the lower end the covariance ``below`` is scatter as the
    rest is. At the upper end no bias may be counted on to have raised the sum:
    with A the covariance ``above``, :math:`s^\top A s` is the variance of an error that
    shifts the sum and is not turned upwards.
    """

    deviations: FloatVector
    covariance: FloatArray
    below: FloatArray | None = None
    above: FloatArray | None = None
    reaches: bool = False
    """Whether the upper end is the value at least: counts that were held at 0 scatter
    less than their covariance says."""

    def ends(self, value: float, sampling: float, noise: float, z: float) -> Ends:
        """Solve for the two ends; the covariance holds sampling and noise already."""
        del sampling, noise
        d, scatter, shift = self.deviations, self.covariance, 0.0
        signs = np.where(d < 0, -1.0, 1.0)  # deviations of no size point upwards
        towards = scatter @ signs
        size = float(signs @ towards)
        unlucky = d if size <= 0 else d + towards / math.sqrt(size)
        if self.above is not None:
            shift = math.sqrt(max(float(signs @ self.above @ signs), 0.0))
        high = _folded_end(scatter, shift, unlucky, value, -z)
        if self.reaches:
            high = max(high, value)
        if self.below is not None:
            scatter = scatter + self.below
        surely = np.where(d**2 > _SURE**2 * np.diag(scatter), d, 0.0)
        low = _folded_end(scatter, 0.0, surely, value, z)
        return min(low, high), high


def _folded_end(
    covariance: FloatArray, shift: float, pattern: FloatVector, value: float, z: float
) -> float:
    """Return the total, spread like the pattern, whose quantile is the value.

    The quantile lies z spreads from the middle of the draws; ``shift`` is the spread of
    what moves their folded sum.
    """
    whole = float(np.abs(pattern).sum())
    if whole <= 0:
        return 0.0
    sizes, axes = np.linalg.eigh(covariance)
    root = axes * np.sqrt(np.maximum(sizes, 0.0))
    draws = _normal(len(covariance) + 1)
    errors, shifts = product(draws[:, :-1], root.T), shift * draws[:, -1]
    level = NormalDist().cdf(math.copysign(min(abs(z), _FARTHEST), z))

    def below(total: float) -> bool:
        sums = np.abs(total * (pattern / whole) + errors).sum(axis=1) + shifts
        at = float(np.quantile(sums, level))
        if abs(z) > _FARTHEST:
            middle = float(np.median(sums))
            at = middle + (at - middle) * abs(z) / _FARTHEST
        return at < value

    if not below(0.0):
        return 0.0
    near, far = 0.0, value
    while below(far):
        near, far = far, 2 * far
    for _ in range(_FOLDED_HALVINGS):
        middle = (near + far) / 2
        near, far = (middle, far) if below(middle) else (near, middle)
    return far


@cache
def _normal(terms: int) -> FloatArray:
    half = np.random.default_rng(_SEED).standard_normal((_DRAWS // 2, terms))
    draws: FloatArray = np.concatenate([half, -half])
    draws.setflags(write=False)
    return draws

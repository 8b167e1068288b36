r"""What a measure is: a value, its slopes in the counts, its limits and its shape.

A measure of probabilities sees examples through a few sums over them: with
:math:`\phi_k(s, y)` of a score s and a label y,

.. math:: A = f\Bigl(\sum \phi_1(s, y), \dots, \sum \phi_K(s, y)\Bigr), \qquad
    \frac{\partial A}{\partial c} = \sum_k \frac{\partial f}{\partial v_k}\,\phi_k(s, y)

for one more example (s, y). A measure of a ranking is a function of the cumulative
counts. Either is one function from cells to a ``Local``, and a ``Measure`` follows:
errors of sampling and noise from the slopes, limits of binning from the scores' ends
(probabilities) or from the two extreme orders inside every bin (rankings).

At a threshold a measure is a ``Share`` of counted examples or an ``Analytic`` function
of TP, FN, FP, TN and the threshold (:mod:`discreet.metrics.thresholds`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.data.edges import Edges, unit_edges
from discreet.errors import InputError
from discreet.estimate.estimate import Binning
from discreet.estimate.fit import Fit
from discreet.estimate.intervals import SYMMETRIC, Ends, Shape
from discreet.estimate.slopes import Cells, Slopes, numeric_slopes
from discreet.estimate.sub_bins import cell_scores
from discreet.statistic.observed import NoisyHistogram

_TINY: Final = 1e-30
_FARTHEST: Final = 100.0
"""A factor of e to this power says nothing; a larger one would not be a number."""


class Local(NamedTuple):
    """A measure at some counts, and its derivative in every one of them."""

    value: float
    slopes: Slopes


Function: TypeAlias = Callable[[Cells], Local]
ValueLimits: TypeAlias = Callable[[Fit, float], Binning]
ShapeOf: TypeAlias = Callable[[Fit], Shape]


def symmetric(fit: Fit) -> Shape:
    """Return the shape of a normal error."""
    del fit
    return SYMMETRIC


@dataclass(frozen=True, slots=True)
class Measure:
    """How a metric over all thresholds follows from a fit."""

    value: Callable[[Fit], float]
    """The value; NaN where the fit does not define it."""
    slopes: Callable[[Cells], Slopes]
    """The derivative in every count: sampling error and noise follow from it."""
    limits: ValueLimits | None = None
    """What the bins hide: limits of the value, whatever the scores inside them, and the
    usual error. Values outside are moved to them. None: nothing but the support."""
    shape: ShapeOf = symmetric
    """How the error changes with the value: decides the interval's two sides."""
    smooth: bool = False
    """Whether its slopes are those of its value wherever counts lie: noise needs no
    central differences then."""
    unseen: Callable[[float, float], float] | None = None
    """By how much one more positive above all others would move it, given the value and
    so many positives: what a sample cannot show of places where it holds nobody."""
    one_class: bool = False
    """Whether it is defined when one class is missing."""
    alone: tuple[float, float] | None = None
    """Its value by convention without positives, and without negatives."""
    influence: Callable[[float, float, float], float] | None = None
    """By how much one site of at most so many examples can move it, given so many
    positives and negatives in all; None where no bound is known."""


def of_bins(
    function: Function, limits: ValueLimits | None = None, shape: ShapeOf = symmetric
) -> Measure:
    """Return the measure of a function of the bins."""
    return Measure(
        value=lambda fit: function(fit.bins).value,
        slopes=lambda cells: function(cells).slopes,
        limits=limits,
        shape=shape,
        smooth=True,
    )


def of_ranking(function: Function, shape: ShapeOf = symmetric) -> Measure:
    """Return the measure of a function of the ranking alone, taken along the curve."""

    def limits(fit: Fit, value: float) -> Binning:
        """Return the values where every bin's positives lie below or above."""
        bins = fit.bins
        if bins.edges is None or bins.edges.atoms:
            return Binning(value, value, 0.0)
        ends = [function(_ordered(bins, positives_above=k)).value for k in (0, 1)]
        typical = abs(value - function(bins).value)
        return Binning(min(*ends, value), max(*ends, value), typical)

    along = of_bins(function, limits, shape)
    return replace(along, value=lambda fit: function(fit.pieces).value)


def _ordered(cells: Cells, *, positives_above: int) -> Cells:
    """Cut every bin in two: its positives wholly above its negatives, or below."""
    none = np.zeros_like(cells.negatives)
    first, second = (cells.negatives, none), (none, cells.positives)
    if not positives_above:
        first, second = second, first
    return replace(
        cells,
        negatives=np.column_stack([first[0], second[0]]).ravel(),
        positives=np.column_stack([first[1], second[1]]).ravel(),
        edges=None,
    )


def of_sums(
    terms: Callable[[FloatArray, float], FloatArray],
    of: Callable[[Any], Any],
    shape: ShapeOf = symmetric,
) -> Measure:
    """Return the measure of a function of sums over examples.

    ``terms`` says what an example of a score and a label adds to each sum, a row a sum.
    ``of`` takes complex numbers too. ValueLimits are the values at the corners of what the
    bins allow the sums to be; the usual error is a quarter of what the shift of examples
    inside their bins changes.
    """

    def function(cells: Cells, *, shifted: bool = True) -> Local:
        at = Placed.of(cells, shifted=shifted)
        on_n = terms(at.of_negatives, 0.0).mean(axis=2)
        on_p = terms(at.of_positives, 1.0).mean(axis=2)
        sums = on_n @ at.negatives + on_p @ at.positives
        slopes = complex_slopes(of, sums)
        return Local(float(np.real(of(sums))), Slopes(slopes @ on_n, slopes @ on_p))

    def limits(fit: Fit, value: float) -> Binning:
        cells = fit.bins
        if cells.edges is None or cells.edges.atoms:
            return Binning(value, value, 0.0)
        ends = unit_edges(cells.edges)[:, None]
        low = np.zeros(terms(ends[:1], 0.0).shape[0])
        high = low.copy()
        for y, counts in ((0.0, cells.negatives), (1.0, cells.positives)):
            one, other = terms(ends[:-1], y), terms(ends[1:], y)
            low = low + np.minimum(one, other)[:, :, 0] @ counts
            high = high + np.maximum(one, other)[:, :, 0] @ counts
        corners = product(*zip(low, high, strict=True))
        values = [float(np.real(of(np.array(c)))) for c in corners]
        typical = abs(value - function(cells, shifted=False).value) / 4
        return Binning(min(*values, value), max(*values, value), typical)

    return of_bins(function, limits, shape)


def combined(function: Callable[[Any], Any], *parts: Local) -> Local:
    """Return a function of measures, its slopes by the chain rule."""
    at = np.array([part.value for part in parts])
    on = complex_slopes(function, at)
    by_class = zip(*(part.slopes for part in parts), strict=True)
    slopes = Slopes(*(on @ np.stack(each) for each in by_class))
    return Local(float(np.real(function(at))), slopes)


def complex_slopes(function: Callable[[Any], Any], at: FloatVector) -> FloatVector:
    """Return a function's slopes in a few numbers by complex steps.

    They are exact to the last digit (Squire and Trapp 1998).

    >>> complex_slopes(lambda v: v[0] ** 2 / v[1], np.array([3.0, 2.0])).tolist()
    [3.0, -2.25]
    """
    with np.errstate(all="ignore"):
        return np.array(
            [float(np.imag(function(at + 1j * _TINY * u))) for u in np.eye(at.size)]
        ) * (1 / _TINY)


def seeded_by(observed: NoisyHistogram) -> np.random.Generator:
    """Return a generator seeded by a release: all who hold it draw the same numbers."""
    digest = hashlib.sha256(observed.vector.tobytes()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def edges_of(cells: Cells) -> Edges:
    """Return the bins that cells are."""
    if cells.edges is None:
        raise InputError("a measure of probabilities is taken in bins")
    return cells.edges


@dataclass(frozen=True, eq=False)
class Placed:
    """Where the examples of each class lie: scores in cells, one row per bin.

    A bin's examples are spread over its cells, shifted towards the neighbour that
    holds more of their class as far as that difference stands out of its scatter:
    flat densities would put positives as low in a bin as negatives.
    """

    of_negatives: FloatArray
    of_positives: FloatArray
    negatives: FloatVector
    positives: FloatVector

    @classmethod
    def of(cls, cells: Cells, *, shifted: bool = True) -> Placed:
        """Place the examples of every bin."""
        edges = edges_of(cells)
        scores, ends = cell_scores(edges), unit_edges(edges)
        if edges.atoms or not shifted:
            return cls(scores, scores, cells.negatives, cells.positives)
        low, high = ends[:-1, None], ends[1:, None]
        of_n, of_p = (
            np.clip(scores + mean_shift(c, ends, sure=True)[:, None], low, high)
            for c in (cells.negatives, cells.positives)
        )
        return cls(of_n, of_p, cells.negatives, cells.positives)

    def slopes(self, on_negatives: FloatArray, on_positives: FloatArray) -> Slopes:
        """Average slopes of the cells to slopes in the bins."""
        return Slopes(on_negatives.mean(axis=-1), on_positives.mean(axis=-1))

    @property
    def masses(self) -> tuple[FloatArray, FloatArray]:
        """Examples of each class in every cell."""
        pieces = self.of_negatives.shape[1]
        return (
            np.repeat(self.negatives[:, None] / pieces, pieces, axis=1),
            np.repeat(self.positives[:, None] / pieces, pieces, axis=1),
        )


def mean_shift(counts: FloatVector, ends: FloatVector, *, sure: bool) -> FloatVector:
    r"""Return how far the mean score of a class lies above its bin's middle.

    A density that is a line of relative slope r in a bin of width w has the mean
    :math:`r w^2/12`; r is that of the neighbouring bins. With ``sure``, only what
    exceeds the scatter of their difference, and nothing in the first and last bin.
    """
    width = np.diff(ends)
    if counts.size < 2 + sure or not width.all():
        return np.zeros_like(counts)
    middle = (ends[:-1] + ends[1:]) / 2
    density = counts / width
    rise = np.append(density[1:], density[-1]) - np.append(density[0], density[:-1])
    run = np.append(middle[1:], middle[-1]) - np.append(middle[0], middle[:-1])
    if sure:
        variance = counts / width**2
        scatter = np.append(variance[1:], np.inf) + np.append(np.inf, variance[:-1])
        left = np.maximum(rise**2 - scatter, 0.0)
        rise = rise * np.divide(left, rise**2, out=np.zeros_like(rise), where=rise != 0)
    slope = np.divide(rise, run * density, out=np.zeros_like(rise), where=density > 0)
    # A density cannot fall below zero at the bin's lower end.
    shift: FloatVector = np.clip(slope, -2 / width, 2 / width) * width**2 / 12
    return shift


SlopeWeights: TypeAlias = tuple[int, int, int, int]
"""How often each of TP, FN, FP, TN counts."""


@dataclass(frozen=True, slots=True)
class Share:
    """What a rate counts among TP, FN, FP, TN: successes, and failures.

    ``twice`` says that the rate is 2J/(1 + J) of this share J, as F1 is of
    Jaccard's index. Its interval is Wilson's with the noise of both counts.
    """

    successes: SlopeWeights
    failures: SlopeWeights
    twice: bool = False

    def __call__(self, counts: FloatVector, threshold: float = math.nan) -> float:
        """Return the rate, NaN where nothing is counted."""
        del threshold
        a = float(np.dot(self.successes, counts)) * (2 if self.twice else 1)
        under = a + float(np.dot(self.failures, counts))
        return a / under if under > 0 else math.nan

    @property
    def weights(self) -> FloatVector:
        """How often each of TP, FN, FP, TN counts in the denominator."""
        times = 2 if self.twice else 1
        return times * np.array(self.successes, dtype=np.float64) + self.failures

    def slopes(self, counts: FloatVector, threshold: float) -> FloatVector:
        """Return the derivative in each of the four counts."""
        del threshold
        return numeric_slopes(self, counts)


@dataclass(frozen=True, slots=True)
class Analytic:
    """A function of TP, FN, FP, TN and the threshold's probability: no branches.

    It takes complex numbers as it takes real ones, unless ``numeric`` says that its
    slopes are to be central differences. It does not change when all counts are
    doubled. Its interval is the delta method's, on the logarithm's scale where the
    error is a ``factor``.
    """

    of: Callable[[Any, Any, Any, Any, float], Any]
    factor: bool = False
    numeric: bool = False

    def __call__(self, counts: FloatVector, threshold: float) -> float:
        """Return the value, NaN or infinite where it divides by nothing."""
        with np.errstate(all="ignore"):
            tp, fn, fp, tn = counts
            return float(np.real(self.of(tp, fn, fp, tn, threshold)))

    def slopes(self, counts: FloatVector, threshold: float) -> FloatVector:
        """Return the derivative in each of the four counts."""
        if self.numeric:
            return numeric_slopes(lambda c: self(c, threshold), counts)
        return complex_slopes(
            lambda c: self.of(c[0], c[1], c[2], c[3], threshold), counts
        )


Rate: TypeAlias = Share | Analytic


@dataclass(frozen=True, slots=True)
class Logarithmic:
    r"""A positive ratio: :math:`v\,e^{\pm z\sigma/v}`, as for odds ratios (Woolf 1955)."""

    def ends(self, value: float, sampling: float, noise: float, z: float) -> Ends:
        """Return the two ends; a value of 0 has none on this scale, so a normal's."""
        reach = z * math.hypot(sampling, noise)
        if not value > 0:
            return value - reach, value + reach
        factor = math.exp(min(reach / value, _FARTHEST))
        return value / factor, value * factor


LOGARITHMIC: Final = Logarithmic()

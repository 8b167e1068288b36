r"""Calibration of a model from counts per bin: the curve and its errors.

Predictions are put into G groups after the fact, of equal width or of equal mass.
With P positives, T examples and F the sum of the predictions in a group, and M
examples in all,

.. math::
    \mathrm{ECE} = \frac1M \sum_g |P_g - F_g|, \qquad
    \mathrm{MCE} = \max_g \frac{|P_g - F_g|}{T_g},

for the positive class (not the top label).

Everything is a function of the sums (P, T, F), which are linear in the counts: its
slopes give sampling error and noise by the delta method. An absolute value cannot
fall below 0, so ECE of a finite sample is above 0 for a perfect model too, and the
more so the more groups there are (:func:`sampling_floor`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import FloatArray, FloatVector
from discreet.data.edges import unit_edges
from discreet.errors import InputError
from discreet.estimate.estimate import Binning, Estimate, Normal, Zero
from discreet.estimate.inside_bins import Refits
from discreet.estimate.intervals import (
    SYMMETRIC,
    FoldedShape,
    LargestShape,
    RatioShape,
    Shape,
)
from discreet.estimate.slopes import Slopes, covariance_of, sampling_sd
from discreet.estimate.sub_bins import cell_scores
from discreet.statistic.observed import NoisyHistogram

Kind: TypeAlias = Literal["width", "mass"]
DEFAULT_BINS: Final = 15
_Z: Final = 1.959963984540054
_SURE: Final = 2.0
"""A group with fewer examples than this many deviations of its noise has no rate."""
_HIDDEN: Final = 1 / 3
"""Share of the scatter that a model took off which counts as its bias: chosen on the
tuning half of ``bench/hard_coverage.py``; a quarter held 90% on scores of few values."""


class Predictions(NamedTuple):
    """What a model says inside each bin: in its cells, and its least and greatest."""

    cells: FloatArray
    low: FloatVector
    high: FloatVector


def raw_predictions(counts: NoisyHistogram) -> Predictions:
    """Return the scores themselves as predictions."""
    ends = unit_edges(counts.edges)
    high = ends[:-1] if counts.edges.atoms else ends[1:]
    return Predictions(cell_scores(counts.edges), ends[:-1], high)


@dataclass(frozen=True, eq=False)
class Groups:
    """Predictions put into groups, and the sums that everything is read from."""

    counts: NoisyHistogram
    kind: Kind
    predictions: Predictions
    shares: FloatArray
    """Share of each bin's cells in each group: a row a group."""
    sums: FloatArray
    """Sum of the predictions of those cells, for one example in the bin."""
    variances: FloatArray
    """Sum of s(1 - s) of those predictions s, likewise."""
    response: FloatArray | None = None
    """How the counts moved with the released ones, where a smooth model read them."""

    @classmethod
    def of(
        cls,
        counts: NoisyHistogram,
        bins: int,
        kind: Kind,
        predictions: Predictions | None = None,
        response: FloatArray | None = None,
    ) -> Groups:
        """Group the cells of every bin by their prediction."""
        if bins < 1:
            raise InputError(f"calibration needs at least 1 bin, got {bins}")
        said = raw_predictions(counts) if predictions is None else predictions
        groups = _grouped(said.cells, _totals(counts), bins, kind)
        each = groups[None, :, :] == np.arange(bins)[:, None, None]
        return cls(
            counts,
            kind,
            said,
            each.mean(axis=2),
            np.where(each, said.cells, 0.0).mean(axis=2),
            np.where(each, said.cells * (1 - said.cells), 0.0).mean(axis=2),
            response,
        )

    @cached_property
    def positives(self) -> FloatVector:
        """Positives in each group."""
        found: FloatVector = self.shares @ np.maximum(self.counts.positives, 0.0)
        return found

    @cached_property
    def totals(self) -> FloatVector:
        """Examples in each group."""
        found: FloatVector = self.shares @ _totals(self.counts)
        return found

    @cached_property
    def predicted(self) -> FloatVector:
        """The sum of the predictions in each group: expected positives."""
        found: FloatVector = self.sums @ _totals(self.counts)
        return found

    @cached_property
    def examples(self) -> float:
        """All examples."""
        return float(self.totals.sum())

    @cached_property
    def noise_of_totals(self) -> FloatVector:
        """Standard deviation that the noise gives each group's examples."""
        if self.counts.exact:
            return np.zeros(self.shares.shape[0])
        both = np.hstack([self.shares, self.shares])
        variances = np.diag(covariance_of(self.counts, both))
        found: FloatVector = np.sqrt(np.maximum(variances, 0.0))
        return found

    @cached_property
    def filled(self) -> NDArray[np.bool_]:
        """Which groups hold examples that their noise could not have made."""
        least = np.maximum(_SURE * self.noise_of_totals, 1e-9 * self.examples)
        return self.totals > least

    def slopes(self, on_p: FloatVector, on_t: FloatVector, on_f: FloatVector) -> Slopes:
        """Turn slopes in the groups' sums into slopes in the counts."""
        every = on_t @ self.shares + on_f @ self.sums
        return Slopes(every, every + on_p @ self.shares)

    @cached_property
    def deviations(self) -> FloatVector:
        """Positives that the predictions miss in each group."""
        return self.positives - self.predicted

    @cached_property
    def spreads(self) -> FloatVector:
        r"""Standard deviation of each group's deviation, sampling and noise.

        It sums y - s over examples: a positive in a cell of prediction s adds
        :math:`(1 - s)^2`, a negative :math:`s^2`. A small group of one class hardly
        varies by itself; it counts as if its predictions were right, s(1 - s). A
        model that read the counts passes on what its response says, and may hide the
        rest as a bias: a third of the rest counts. The error of decoded counts
        holds what the decoder missed of the sample's scatter already, so the larger
        of the two counts.
        """
        one, none = np.eye(self.shares.shape[0]), np.zeros(self.shares.shape[0])
        rows = [self.slopes(row, none, -row) for row in one]
        n, p = (
            np.maximum(c, 0.0) for c in (self.counts.negatives, self.counts.positives)
        )
        weights = np.array([np.concatenate(r) for r in rows])
        every = np.concatenate([n, p])
        variances = np.maximum(weights**2 @ every, self.variances @ (n + p))
        if isinstance(self.counts.law, Refits):
            noise = np.diag(covariance_of(self.counts, weights))
            variances = np.maximum(variances, noise)
        elif not self.counts.exact:
            variances += np.diag(covariance_of(self.counts, weights))
        if self.response is not None:
            passed = weights @ self.response
            through = passed**2 @ every + np.diag(covariance_of(self.counts, passed))
            variances = _HIDDEN * variances + (1 - _HIDDEN) * through
        found: FloatVector = np.sqrt(np.maximum(variances, 0.0))
        return found

    def estimate(
        self,
        value: float,
        slopes: Slopes,
        binning: Binning,
        shape: Shape = SYMMETRIC,
    ) -> Estimate:
        """Put a value and its three errors together."""
        n, p = (
            np.maximum(c, 0.0) for c in (self.counts.negatives, self.counts.positives)
        )
        noise: Zero | Normal = Zero()
        if not self.counts.exact:
            row = np.concatenate([slopes.negatives, slopes.positives])[None, :]
            variance = float(covariance_of(self.counts, row)[0, 0])
            noise = Normal(math.sqrt(max(variance, 0.0)))
        sampling = Normal(sampling_sd(slopes, n, p))
        return Estimate(value, sampling, noise, binning, shape=shape)

    @cached_property
    def typical_binning(self) -> float:
        """What the shape of the scores inside their bins usually adds.

        Half of it where a model draws that shape: so on ``bench/hard_coverage.py``'s
        tuning half.
        """
        drawn = 1.0 if self.response is None else 0.5
        width = self.predictions.high - self.predictions.low
        return drawn * float(_totals(self.counts) @ width) / (12 * self.examples)


def expected_calibration_error(
    counts: NoisyHistogram,
    bins: int = DEFAULT_BINS,
    kind: Kind = "width",
    *,
    predictions: Predictions | None = None,
    response: FloatArray | None = None,
) -> Estimate:
    """Return ECE of the positive class, in groups of equal width or mass.

    ``predictions`` are the model's after a map; without them, the scores.
    ``response`` says how the counts moved with the released ones, where a smooth
    model read them: their scatter is what it passed on.
    """
    if _totals(counts).sum() <= 0:
        return Estimate.undefined("there are no examples")
    groups = Groups.of(counts, bins, kind, predictions, response)
    off = groups.deviations
    value = float(np.abs(off).sum()) / groups.examples
    sign = np.sign(off) / groups.examples
    slopes = groups.slopes(sign, np.full(bins, -value / groups.examples), -sign)
    low, high = _error_limits(groups)
    binning = Binning(min(low, value), max(high, value), groups.typical_binning)
    shape = FoldedShape(
        tuple(off / groups.examples),
        tuple(groups.spreads / groups.examples),
        smoothed=not counts.exact,
    )
    return groups.estimate(value, slopes, binning, shape)


def maximum_calibration_error(
    counts: NoisyHistogram, bins: int = DEFAULT_BINS, kind: Kind = "width"
) -> Estimate:
    """Return the largest error of a group whose examples stand out of the noise."""
    if _totals(counts).sum() <= 0:
        return Estimate.undefined("there are no examples")
    groups = Groups.of(counts, bins, kind)
    off = groups.deviations
    safe = np.where(groups.filled, groups.totals, 1.0)
    each = np.where(groups.filled, np.abs(off) / safe, -1.0)
    worst = int(np.argmax(each))
    if each[worst] < 0:
        return Estimate.undefined("no group of scores stands out of the noise")
    one = np.zeros(bins)
    one[worst] = 1 / groups.totals[worst]
    sign = np.sign(off[worst]) * one
    slopes = groups.slopes(sign, -each[worst] * one, -sign)
    kept = groups.filled
    shape = LargestShape(
        tuple(each[kept]), tuple(groups.spreads[kept] / groups.totals[kept])
    )
    binning = Binning(0.0, 1.0, groups.typical_binning)
    return groups.estimate(float(each[worst]), slopes, binning, shape)


def sampling_floor(
    counts: NoisyHistogram, bins: int = DEFAULT_BINS, kind: Kind = "width"
) -> float:
    r"""Return the ECE that a perfect model would show on so many examples.

    :math:`\frac1M\sum_g \sqrt{2 T_g r_g(1-r_g)/\pi}`: the mean of the absolute
    value of a normal error in every group.
    """
    groups = Groups.of(counts, bins, kind)
    rate = groups.positives / np.maximum(groups.totals, 1e-300)
    spread = np.sqrt(2 / math.pi * groups.totals * rate * (1 - rate))
    return float(spread.sum()) / groups.examples


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Rates of positives against mean predictions, with 95% bands.

    Bands are of score type (Wilson's, with noise) and of each point on its own.
    """

    predicted: FloatVector
    rate: FloatVector
    low: FloatVector
    high: FloatVector
    share: FloatVector
    """Share of all examples at each point."""


def calibration_curve(
    counts: NoisyHistogram,
    bins: int = DEFAULT_BINS,
    kind: Kind = "width",
    *,
    predictions: Predictions | None = None,
) -> ReliabilityCurve:
    """Return the reliability curve; groups without examples have no point."""
    groups = Groups.of(counts, bins, kind, predictions)
    kept = np.flatnonzero(groups.filled)
    p, t = groups.positives[kept], groups.totals[kept]
    shares = groups.shares[kept]
    zero = np.zeros_like(shares)
    weights = np.vstack([np.hstack([zero, shares]), np.hstack([shares, zero])])
    noise = np.zeros((2 * kept.size, 2 * kept.size))
    if not counts.exact:
        noise = covariance_of(counts, weights)
    ends = []
    for k in range(kept.size):
        other = kept.size + k
        shape = RatioShape(
            float(p[k]),
            float(t[k] - p[k]),
            float(t[k]),
            max(float(noise[k, k]), 0.0),
            max(float(noise[other, other]), 0.0),
            float(noise[k, other]),
        )
        ends.append(shape.ends(float(p[k] / t[k]), 0.0, 0.0, _Z))
    low, high = np.array(ends).reshape(-1, 2).T
    return ReliabilityCurve(
        groups.predicted[kept] / t, p / t, low, high, t / groups.examples
    )


def mean_squared_error(counts: NoisyHistogram, predictions: Predictions) -> float:
    """Return the Brier score of predictions inside the bins."""
    q = predictions.cells
    n, p = (np.maximum(c, 0.0) for c in (counts.negatives, counts.positives))
    total = float(n.sum() + p.sum())
    return float(p @ ((1 - q) ** 2).mean(axis=1) + n @ (q**2).mean(axis=1)) / total


def _totals(counts: NoisyHistogram) -> FloatVector:
    found: FloatVector = np.maximum(counts.negatives, 0.0) + np.maximum(
        counts.positives, 0.0
    )
    return found


def _grouped(
    cells: FloatArray, totals: FloatVector, bins: int, kind: Kind
) -> FloatArray:
    """Return each cell's group; equal predictions share one."""
    match kind:
        case "width":
            even: FloatArray = np.minimum(np.floor(cells * bins), bins - 1)
            return even
        case "mass":
            mass = np.repeat(totals / cells.shape[1], cells.shape[1])
            _, place = np.unique(cells.ravel(), return_inverse=True)
            each = np.bincount(place, mass)
            middle = (np.cumsum(each) - each / 2) / max(float(each.sum()), 1e-300)
            groups = np.minimum(np.floor(middle * bins), bins - 1)
            found: FloatArray = groups[place].reshape(cells.shape)
            return found
        case _:
            raise InputError("bins are of equal 'width' or of equal 'mass'")


def _error_limits(groups: Groups) -> tuple[float, float]:
    """Return limits of ECE, wherever scores lie inside their bins.

    Groups of equal mass are taken as they were cut.

    In a bin that lies in one group, examples move the group's error between the
    bin's two ends. Examples of a bin across two groups may fall on either side:
    together they add at most what each misses its label by.
    """
    said, t = groups.predictions, _totals(groups.counts)
    p = np.maximum(groups.counts.positives, 0.0)
    across = (groups.shares > 0).sum(axis=0) > 1
    if groups.kind == "width":
        # A cut may pass between a bin's end and its outermost cell.
        bins, last = groups.shares.shape[0], np.nextafter(said.high, 0.0)
        across |= np.floor(said.low * bins) < np.floor(last * bins)
    inside = groups.shares * ~across
    low = inside @ (p - t * said.high)
    high = inside @ (p - t * said.low)
    loose = float(across @ (p * (1 - said.low) + (t - p) * said.high))
    farthest = float(np.maximum(np.abs(low), np.abs(high)).sum()) + loose
    nearest = float(np.maximum(np.maximum(low, -high), 0.0).sum()) - loose
    return max(nearest, 0.0) / groups.examples, farthest / groups.examples

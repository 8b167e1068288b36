r"""Calibration of a model from counts per bin: groups of scores, the curve, its errors.

Predictions are put into G groups after the fact, of equal width or of equal mass.
With P positives, T examples and F the sum of the predictions in a group, and M
examples in all,

.. math::
    \mathrm{ECE} = \frac1M \sum_g |P_g - F_g|, \qquad
    \mathrm{MCE} = \max_g \frac{|P_g - F_g|}{T_g},

for the positive class (not the top label).

The sums (P, T, F) are linear in the counts: a bin's cells lie in groups, and hold of
either class what the densities inside the bins say
(:func:`discreet.estimate.sub_bins.within_bins`). Slopes in these sums give sampling error
and noise by the delta method. An absolute value cannot fall below 0, so ECE of a finite
sample is above 0 for a perfect model too, and the more so the more groups there are
(:func:`sampling_floor`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import FloatArray, FloatVector, product
from discreet.data.edges import unit_edges
from discreet.errors import InputError, NotReleasedError
from discreet.estimate.estimate import Binning, Estimate
from discreet.estimate.fit import Fit
from discreet.estimate.intervals import (
    SYMMETRIC,
    FoldedShape,
    LargestShape,
    RatioShape,
    Shape,
)
from discreet.estimate.slopes import (
    Cells,
    Slopes,
    covariance_of,
    noise_sd,
    noise_variances,
    sampling_sd,
)
from discreet.estimate.sub_bins import cell_scores, within_bins
from discreet.metrics.measure import Local, edges_of, of_bins
from discreet.noise.arc_decoder import DecodedNoise
from discreet.noise.mechanism import NoNoise
from discreet.statistic.observed import NoisyHistogram

DEFAULT_BINS: Final = 15
Grouping: TypeAlias = Literal["width", "mass"]
_Z: Final = 1.959963984540054
_SURE: Final = 2.0
"""A group with fewer examples than this many deviations of its noise has no rate."""
_BELOW, _ABOVE = 1 / 6, 1 / 12
"""Of the scatter that a smooth model took off: what may be its bias at either end, chosen
on the tuning half of ``bench/hard_coverage.py``; with none 89% held on few values."""
_DECODED: Final = 0.5
"""Of the scatter: what decoded counts still show. With a quarter, up to a fifth of the
lower ends lay above the truth on the same half, with all of it one in a thousand."""
_LEANING, _DRAWN = 0.5, 0.2
"""Of what uneven bins may cost: where neighbours or a model say how they lean."""


class Predictions(NamedTuple):
    """What a model predicts inside each bin: in its cells, and its least and greatest."""

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
    """Predictions put into groups, and the sums that everything follows from."""

    counts: NoisyHistogram
    kind: Grouping
    predictions: Predictions
    placed: FloatArray
    """The group of each cell: one row per bin."""
    every: FloatVector
    """All counts, none below 0: the negatives' bins, then the positives'."""
    shares: FloatArray
    """Share of each count that lies in each group: one row per group."""
    of_positives: FloatArray
    """The shares of positives alone."""
    sums: FloatArray
    """Sum of the predictions there, for one example of the count."""
    variances: FloatArray
    """Sum of s(1 - s) of those predictions s, likewise."""
    response: Callable[[FloatArray], FloatArray] | None = None
    """How the counts moved with the released ones, where a smooth model fitted them."""

    @classmethod
    def of(
        cls,
        counts: NoisyHistogram,
        bins: int,
        kind: Grouping,
        predictions: Predictions | None = None,
        response: Callable[[FloatArray], FloatArray] | None = None,
    ) -> Groups:
        """Group the cells of every bin by their prediction."""
        if bins < 1:
            raise InputError(f"calibration needs at least 1 bin, got {bins}")
        predicted = raw_predictions(counts) if predictions is None else predictions
        every = np.maximum(np.append(counts.negatives, counts.positives), 0.0)
        inside, s = within_bins(counts), predicted.cells
        placed = _grouped(s, inside.masses(every).sum(axis=0), bins, kind)
        each = placed[None] == np.arange(bins)[:, None, None]
        shares = inside.linear(each)
        of_positives = shares.copy()
        of_positives[:, : len(counts.edges)] = 0.0
        return cls(
            *(counts, kind, predicted, placed, every, shares, of_positives),
            *(inside.linear(each * s), inside.linear(each * s * (1 - s)), response),
        )

    @cached_property
    def positives(self) -> FloatVector:
        """Positives in each group."""
        return product(self.of_positives, self.every)

    @cached_property
    def totals(self) -> FloatVector:
        """Examples in each group."""
        return product(self.shares, self.every)

    @cached_property
    def predicted(self) -> FloatVector:
        """The sum of the predictions in each group: expected positives."""
        return product(self.sums, self.every)

    @cached_property
    def examples(self) -> float:
        """All examples."""
        return float(self.totals.sum())

    @cached_property
    def filled(self) -> NDArray[np.bool_]:
        """Which groups hold examples that their noise could not have made."""
        noise = np.sqrt(noise_variances(self.counts, self.shares))
        return self.totals > np.maximum(_SURE * noise, 1e-9 * self.examples)

    def slopes(self, on_p: FloatVector, on_t: FloatVector, on_f: FloatVector) -> Slopes:
        """Turn slopes in the groups' sums into slopes in the counts."""
        sums = np.concatenate([self.shares, self.sums, self.of_positives])
        row = product(np.concatenate([on_t, on_f, on_p])[None], sums)[0]
        return Slopes(*np.split(row, 2))

    @cached_property
    def deviations(self) -> FloatVector:
        """Positives that the predictions miss in each group."""
        return self.positives - self.predicted

    @cached_property
    def covariance(self) -> FloatArray:
        """Covariance of the deviations as far as their scatter is sure to be in them.

        A model passes on what its response says; of decoded counts nobody knows.
        """
        if isinstance(self.counts.noise, DecodedNoise):
            return np.zeros_like(self._scatter)
        if self.response is None:
            return self._scatter
        weights = self.response(self._weights)
        noise = covariance_of(self.counts, weights)
        return product(weights * self.every, weights.T) + noise

    @property
    def hidden(self) -> tuple[FloatArray, FloatArray] | None:
        """What may be in the deviations too, at their sum's lower and upper end.

        Of decoded counts all scatter above: 91% held on real scores with three quarters.
        """
        decoded = isinstance(self.counts.noise, DecodedNoise)
        if self.response is None and not decoded:
            return None
        taken_off = self._scatter - self.covariance
        below, above = (_DECODED, 1.0) if decoded else (_BELOW, _ABOVE)
        return below * taken_off, above * taken_off

    @property
    def _weights(self) -> FloatArray:
        """Slopes of the deviations in the counts."""
        return self.of_positives - self.sums

    @cached_property
    def _scatter(self) -> FloatArray:
        r"""The deviations' covariance, sampling and noise, of counts as released.

        A deviation sums y - s over examples: a positive in a cell of prediction s adds
        :math:`(1 - s)^2`, a negative :math:`s^2`. A small group of one class hardly
        varies by itself; it counts as if its predictions were right, s(1 - s). The
        error of decoded counts holds what the decoder missed of the sample's scatter
        already, so the larger of the two counts, group by group.
        """
        weights = self._weights
        sampling = product(weights * self.every, weights.T)
        own = np.diag(sampling)
        least = np.maximum(product(self.variances, self.every), own)
        scatter: FloatArray = sampling + np.diag(least - own)
        if self.counts.exact:
            return scatter
        noise = covariance_of(self.counts, weights)
        if isinstance(self.counts.noise, DecodedNoise):
            noise = np.diag(np.maximum(least, np.diag(noise)) - np.diag(scatter))
            scatter = np.diag(np.diag(scatter))
        return scatter + noise

    @cached_property
    def spreads(self) -> FloatVector:
        """Standard deviation of each group's deviation."""
        return np.sqrt(np.maximum(np.diag(self._scatter), 0.0))

    def estimate(
        self, value: float, slopes: Slopes, binning: Binning, shape: Shape = SYMMETRIC
    ) -> Estimate:
        """Put a value and its three errors together."""
        sampling = sampling_sd(slopes, *np.split(self.every, 2))
        noise = noise_sd(slopes, self.counts)
        return Estimate(value, sampling, noise, binning, shape=shape)

    @cached_property
    def typical_binning(self) -> float:
        """What the shape of the scores inside their bins usually adds.

        A twelfth of the bins' width; half of it where the neighbours say how a density
        leans, a fifth where a model drew it (tuning half of ``bench/hard_coverage.py``).
        """
        share = _LEANING if self.response is None else _DRAWN
        if isinstance(self.counts.noise, DecodedNoise):
            share = 1.0
        width = self.predictions.high - self.predictions.low
        return share * float(_totals(self.counts) @ width) / (12 * self.examples)


def _totals(counts: NoisyHistogram) -> FloatVector:
    """Return the examples of each bin, none below 0."""
    n, p = np.maximum([counts.negatives, counts.positives], 0.0)
    return np.asarray(n + p)


def _grouped(
    cells: FloatArray, masses: FloatArray, bins: int, kind: Grouping
) -> FloatArray:
    """Return each cell's group; equal predictions share one."""
    match kind:
        case "width":
            return np.minimum(np.floor(cells * bins), bins - 1)
        case "mass":
            _, place = np.unique(cells.ravel(), return_inverse=True)
            each = np.bincount(place, masses.ravel())
            middle = (np.cumsum(each) - each / 2) / max(float(each.sum()), 1e-300)
            groups = np.minimum(np.floor(middle * bins), bins - 1)
            return np.asarray(groups[place].reshape(cells.shape))
        case _:
            raise InputError("bins are of equal 'width' or of equal 'mass'")


def expected_calibration_error(
    counts: NoisyHistogram,
    bins: int = DEFAULT_BINS,
    kind: Grouping = "width",
    *,
    predictions: Predictions | None = None,
    response: Callable[[FloatArray], FloatArray] | None = None,
) -> Estimate:
    """Return ECE of the positive class, in groups of equal width or mass.

    ``predictions`` are the model's after a map; without them, the scores.
    ``response`` says how the counts moved with the released ones, where a smooth
    model fitted them: their scatter is what it passed on.
    """
    if _totals(counts).sum() <= 0:
        return Estimate.undefined("there are no examples")
    groups = Groups.of(counts, bins, kind, predictions, response)
    value, slopes = _mean_deviation(groups)
    return groups.estimate(value, slopes, _ece_limits(groups, value), _folded(groups))


def _mean_deviation(groups: Groups) -> Local:
    off, m = groups.deviations, groups.examples
    value = float(np.abs(off).sum()) / m
    sign = np.sign(off) / m
    return Local(value, groups.slopes(sign, np.full(off.size, -value / m), -sign))


def _folded(groups: Groups) -> FoldedShape:
    """Return the distribution of the groups' deviations, as shares of all examples."""
    square = groups.examples**2
    below, above = groups.hidden or (None, None)
    return FoldedShape(
        groups.deviations / groups.examples,
        groups.covariance / square,
        None if below is None else below / square,
        None if above is None else above / square,
        # Noise may have left counts below 0 that were raised to it.
        reaches=not groups.counts.exact and groups.hidden is None,
    )


def _ece_limits(groups: Groups, value: float) -> Binning:
    """Return limits of ECE, wherever scores lie inside their bins.

    Groups of equal mass are taken as they were cut. In a bin that lies in one group,
    examples move the group's error between the bin's two ends. Examples of a bin across
    two groups may fall on either side: together they add at most what each misses its
    label by.
    """
    predicted, t = groups.predictions, _totals(groups.counts)
    p = np.maximum(groups.counts.positives, 0.0)
    bins = len(groups.totals)
    held = np.array([(groups.placed == k).any(axis=1) for k in range(bins)])
    across = held.sum(axis=0) > 1
    if groups.kind == "width":
        # A cut may pass between a bin's end and its outermost cell.
        last = np.nextafter(predicted.high, 0.0)
        across |= np.floor(predicted.low * bins) < np.floor(last * bins)
    inside = (held * ~across).astype(np.float64)
    low = product(inside, p - t * predicted.high)
    high = product(inside, p - t * predicted.low)
    loose = float(across @ (p * (1 - predicted.low) + (t - p) * predicted.high))
    farthest = float(np.maximum(np.abs(low), np.abs(high)).sum()) + loose
    nearest = float(np.maximum(np.maximum(low, -high), 0.0).sum()) - loose
    return Binning(
        min(max(nearest, 0.0) / groups.examples, value),
        max(farthest / groups.examples, value),
        groups.typical_binning,
    )


def _ece(cells: Cells) -> Local:
    counts = edges_of(cells), cells.negatives, cells.positives
    histogram = NoisyHistogram(*counts, NoNoise())
    return _mean_deviation(Groups.of(histogram, DEFAULT_BINS, "width"))


def _of_fit(fit: Fit) -> Groups:
    return Groups.of(fit.counts, DEFAULT_BINS, "width", response=fit.response)


ECE: Final = of_bins(
    _ece,
    lambda fit, value: _ece_limits(_of_fit(fit), value),
    lambda fit: _folded(_of_fit(fit)),
)


def maximum_calibration_error(
    counts: NoisyHistogram, bins: int = DEFAULT_BINS, kind: Grouping = "width"
) -> Estimate:
    """Return the largest error of a group whose examples stand out of the noise."""
    if _totals(counts).sum() <= 0:
        return Estimate.undefined("there are no examples")
    groups = Groups.of(counts, bins, kind)
    off, kept = groups.deviations, groups.filled
    each = np.where(kept, np.abs(off) / np.where(kept, groups.totals, 1.0), -1.0)
    worst = int(np.argmax(each))
    if each[worst] < 0:
        return Estimate.undefined("no group of scores stands out of the noise")
    one = np.zeros(bins)
    one[worst] = 1 / groups.totals[worst]
    sign = np.sign(off[worst]) * one
    slopes = groups.slopes(sign, -each[worst] * one, -sign)
    shape = LargestShape(
        tuple(each[kept]), tuple(groups.spreads[kept] / groups.totals[kept])
    )
    binning = Binning(0.0, 1.0, groups.typical_binning)
    return groups.estimate(float(each[worst]), slopes, binning, shape)


def sampling_floor(
    counts: NoisyHistogram, bins: int = DEFAULT_BINS, kind: Grouping = "width"
) -> float:
    r"""Return the ECE that a perfect model would show on so many examples.

    :math:`\frac1M\sum_g \sqrt{2 T_g r_g(1-r_g)/\pi}`: the mean of the absolute
    value of a normal error in every group.
    """
    groups = Groups.of(counts, bins, kind)
    rate = groups.positives / np.maximum(groups.totals, 1e-300)
    deviations = np.sqrt(2 / math.pi * groups.totals * rate * (1 - rate))
    return float(deviations.sum()) / groups.examples


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
    kind: Grouping = "width",
    *,
    predictions: Predictions | None = None,
) -> ReliabilityCurve:
    """Return the reliability curve; groups without examples have no point."""
    groups = Groups.of(counts, bins, kind, predictions)
    kept = np.flatnonzero(groups.filled)
    p, t = groups.positives[kept], groups.totals[kept]
    ours = groups.of_positives[kept]
    noise = covariance_of(counts, np.vstack([ours, groups.shares[kept] - ours]))
    own = np.maximum(np.diag(noise), 0.0).reshape(2, -1)
    columns = [p, t - p, t, *own, np.diag(noise[: kept.size, kept.size :])]
    shapes = [RatioShape(*row) for row in np.stack(columns, axis=1).tolist()]
    ends = [shape.ends(r, 0.0, 0.0, _Z) for shape, r in zip(shapes, p / t, strict=True)]
    low, high = np.array(ends).reshape(-1, 2).T
    return ReliabilityCurve(
        groups.predicted[kept] / t, p / t, low, high, t / groups.examples
    )


def mean_squared_error(counts: NoisyHistogram, predictions: Predictions) -> float:
    """Return the mean squared error of predictions, spread evenly over their bins."""
    q = predictions.cells
    n, p = (np.maximum(c, 0.0) for c in (counts.negatives, counts.positives))
    total = float(n.sum() + p.sum())
    return float(p @ ((1 - q) ** 2).mean(axis=1) + n @ (q**2).mean(axis=1)) / total


WHY_NOT: Final = (
    "its p-value follows the number of examples and the choice of groups, and says "
    "neither how large a miscalibration is nor where: report the calibration curve, "
    "its slope and its intercept instead (Van Calster et al. 2019)"
)


@dataclass(frozen=True, slots=True)
class HosmerLemeshow:
    """The statistic, its degrees of freedom, its p-value, and what it is worth."""

    statistic: float
    degrees: int
    p_value: float
    sentence: str = WHY_NOT


def hosmer_lemeshow(fit: Fit) -> HosmerLemeshow:
    r"""Return the test over ten groups of equal size, where counts are exact.

    .. math:: \chi^2 = \sum_g \frac{(P_g - F_g)^2}{F_g (1 - F_g/T_g)}

    has, for a model that was not fitted to these data, as many degrees of freedom as
    groups. Noise adds to every deviation, so a noisy release has no such test.
    """
    if not fit.observed.exact:
        raise NotReleasedError(
            "there is no Hosmer-Lemeshow test of noisy counts, whose noise would count "
            f"as miscalibration; and {WHY_NOT}"
        )
    from scipy.stats import chi2  # noqa: PLC0415 - slow to import

    groups = Groups.of(fit.counts, 10, "mass")
    kept = groups.totals > 0
    t, f, p = groups.totals[kept], groups.predicted[kept], groups.positives[kept]
    under = np.maximum(f * (1 - f / t), 1e-12)
    statistic = float(((p - f) ** 2 / under).sum())
    degrees = int(kept.sum())
    return HosmerLemeshow(statistic, degrees, float(chi2.sf(statistic, degrees)))

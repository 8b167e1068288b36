r"""Scores put into groups, and the sums that calibration is read from.

With P positives, T examples and F the sum of the predictions in a group, all three are
linear in the counts: a bin's cells lie in groups, and hold of either class what the
densities inside the bins say (:func:`discreet.estimate.sub_bins.within_bins`). Slopes
in these sums give sampling error and noise by the delta method.
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
from discreet.estimate.estimate import Binning, Estimate
from discreet.estimate.intervals import SYMMETRIC, Shape
from discreet.estimate.slopes import Slopes, covariance_of, sampling_sd
from discreet.estimate.sub_bins import cell_scores, within_bins
from discreet.noise.arc_decoder import DecodedNoise
from discreet.statistic.observed import NoisyHistogram

Kind: TypeAlias = Literal["width", "mass"]
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
    placed: FloatArray
    """The group of each cell: a row a bin."""
    shares: FloatArray
    """Share of each count that lies in each group: a row a group, the negatives' bins
    before the positives'."""
    sums: FloatArray
    """Sum of the predictions there, for one example of the count."""
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
        inside = within_bins(counts)
        masses = inside.masses(_every(counts)).sum(axis=0)
        placed = _grouped(said.cells, masses, bins, kind)
        each = placed[None] == np.arange(bins)[:, None, None]
        return cls(
            counts,
            kind,
            said,
            placed,
            inside.linear(each),
            inside.linear(each * said.cells),
            inside.linear(each * said.cells * (1 - said.cells)),
            response,
        )

    @cached_property
    def every(self) -> FloatVector:
        """All counts, none below 0: the negatives' bins, then the positives'."""
        return _every(self.counts)

    @cached_property
    def of_positives(self) -> FloatArray:
        """The shares of positives alone."""
        found = self.shares.copy()
        found[:, : len(self.counts.edges)] = 0.0
        return found

    @cached_property
    def positives(self) -> FloatVector:
        """Positives in each group."""
        found: FloatVector = self.of_positives @ self.every
        return found

    @cached_property
    def totals(self) -> FloatVector:
        """Examples in each group."""
        found: FloatVector = self.shares @ self.every
        return found

    @cached_property
    def predicted(self) -> FloatVector:
        """The sum of the predictions in each group: expected positives."""
        found: FloatVector = self.sums @ self.every
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
        variances = np.diag(covariance_of(self.counts, self.shares))
        found: FloatVector = np.sqrt(np.maximum(variances, 0.0))
        return found

    @cached_property
    def filled(self) -> NDArray[np.bool_]:
        """Which groups hold examples that their noise could not have made."""
        least = np.maximum(_SURE * self.noise_of_totals, 1e-9 * self.examples)
        return self.totals > least

    def slopes(self, on_p: FloatVector, on_t: FloatVector, on_f: FloatVector) -> Slopes:
        """Turn slopes in the groups' sums into slopes in the counts."""
        row = on_t @ self.shares + on_f @ self.sums + on_p @ self.of_positives
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
        return self._scatter if self.response is None else self._passed(self.response)

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
    def held_at_zero(self) -> bool:
        """Whether noise may have left counts below 0 that were raised to it."""
        return not self.counts.exact and self.hidden is None

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
        weights, every = self._weights, self.every
        sampling = (weights * every) @ weights.T
        own = np.diag(sampling)
        least = np.maximum(self.variances @ every, own)
        found: FloatArray = sampling + np.diag(least - own)
        if self.counts.exact:
            return found
        noise = covariance_of(self.counts, weights)
        if isinstance(self.counts.noise, DecodedNoise):
            noise = np.diag(np.maximum(least, np.diag(noise)) - np.diag(found))
            found = np.diag(np.diag(found))
        return found + noise

    def _passed(self, response: FloatArray) -> FloatArray:
        """Return what of the scatter a model passed on."""
        weights = self._weights @ response
        noise = covariance_of(self.counts, weights)
        found: FloatArray = (weights * self.every) @ weights.T + noise
        return found

    @cached_property
    def spreads(self) -> FloatVector:
        """Standard deviation of each group's deviation."""
        found: FloatVector = np.sqrt(np.maximum(np.diag(self._scatter), 0.0))
        return found

    def estimate(
        self,
        value: float,
        slopes: Slopes,
        binning: Binning,
        shape: Shape = SYMMETRIC,
    ) -> Estimate:
        """Put a value and its three errors together."""
        noise = 0.0
        if not self.counts.exact:
            row = np.concatenate([slopes.negatives, slopes.positives])[None, :]
            variance = float(covariance_of(self.counts, row)[0, 0])
            noise = math.sqrt(max(variance, 0.0))
        sampling = sampling_sd(slopes, *np.split(self.every, 2))
        return Estimate(value, sampling, noise, binning, shape=shape)

    @cached_property
    def typical_binning(self) -> float:
        """What the shape of the scores inside their bins usually adds.

        A twelfth of the bins' width if a density were three times as high at one end as
        at the other; half of it where the neighbours say how it leans, a fifth where a
        model drew it: so on the tuning half of ``bench/hard_coverage.py``.
        """
        share = _LEANING if self.response is None else _DRAWN
        if isinstance(self.counts.noise, DecodedNoise):
            share = 1.0
        width = self.predictions.high - self.predictions.low
        return share * float(totals_of(self.counts) @ width) / (12 * self.examples)


def totals_of(counts: NoisyHistogram) -> FloatVector:
    """Return the examples of each bin, none below 0."""
    found: FloatVector = np.maximum(counts.negatives, 0.0) + np.maximum(
        counts.positives, 0.0
    )
    return found


def _every(counts: NoisyHistogram) -> FloatVector:
    found: FloatVector = np.concatenate([counts.negatives, counts.positives])
    return np.maximum(found, 0.0)


def _grouped(
    cells: FloatArray, masses: FloatArray, bins: int, kind: Kind
) -> FloatArray:
    """Return each cell's group; equal predictions share one."""
    match kind:
        case "width":
            even: FloatArray = np.minimum(np.floor(cells * bins), bins - 1)
            return even
        case "mass":
            _, place = np.unique(cells.ravel(), return_inverse=True)
            each = np.bincount(place, masses.ravel())
            middle = (np.cumsum(each) - each / 2) / max(float(each.sum()), 1e-300)
            groups = np.minimum(np.floor(middle * bins), bins - 1)
            found: FloatArray = groups[place].reshape(cells.shape)
            return found
        case _:
            raise InputError("bins are of equal 'width' or of equal 'mass'")

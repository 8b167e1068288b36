"""Measures at a threshold, from the confusion counts there, each with its errors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.data.edges import Edges
from discreet.errors import InputError
from discreet.estimate.estimate import Binning, Estimate, Interval
from discreet.estimate.fit import Fit
from discreet.estimate.intervals import SYMMETRIC, RatioShape, Shape
from discreet.estimate.score_grid import possible_places
from discreet.estimate.slopes import covariance_of, propagated
from discreet.metrics.cuts import Shares, confusion_weights, cut_at, cut_of
from discreet.metrics.measured import Measured
from discreet.metrics.rate_row import RateRow, Share
from discreet.metrics.rates import RATES
from discreet.metrics.shapes import LOGARITHMIC
from discreet.statistic.observed import NoisyHistogram

FEWEST_TRIALS: Final = 20
"""Below so many counted examples a rate is unsure."""
_COUNTS: Final = {
    "true_positives": 0,
    "false_positives": 2,
    "false_negatives": 1,
    "true_negatives": 3,
}
"""Their places among TP, FN, FP, TN."""
_ANY: Final = Interval(0.0, math.inf)


@dataclass(frozen=True)
class AtThreshold:
    """Every rate and the confusion counts when ``score >= threshold`` is positive.

    They are attributes too: ``found.recall``, ``found.true_positives``.
    """

    threshold: float
    estimates: Mapping[str, Estimate]

    def __getitem__(self, name: str) -> Estimate:
        return self.estimates[name]

    def __getattr__(self, name: str) -> Estimate:
        if name.startswith("_") or name not in self.estimates:
            raise AttributeError(f"there is no {name} at a threshold")
        return self.estimates[name]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        found = {name: e.to_dict() for name, e in self.estimates.items()}
        return {"threshold": self.threshold, **found}

    def rates(self, *, every: bool = False) -> dict[str, Estimate]:
        """Return the rates by the names that people use: the usual few, or every one."""
        return {
            RATES[n].title: self.estimates[n]
            for n in self.estimates
            if n in RATES and (every or RATES[n].headline)
        }

    def undefined(self) -> tuple[str, ...]:
        """Name the usual metrics that are NaN."""
        return tuple(
            n
            for n in self.estimates
            if n in RATES and RATES[n].headline and math.isnan(self.estimates[n].value)
        )


@dataclass(frozen=True, eq=False)
class _Cut:
    """A reading's confusion counts at one threshold, and their noise."""

    threshold: float
    """On the probability scale where scores have one."""
    counts: FloatVector
    others: tuple[FloatVector, ...]
    """The counts with other shapes inside the bins that the release allows: a straight
    line in the place of a curve, scores on a grid, ties."""
    corners: tuple[FloatVector, ...]
    """The counts with all or none of a cut bin's examples above, by class."""
    released: FloatVector
    noise: FloatArray


def at_threshold(
    fit: Fit, threshold: float, *, stated: float | None = None
) -> AtThreshold:
    """Estimate every metric at a threshold, with its errors.

    ``stated`` is the probability at which costs are stated, where it is not that of
    the threshold itself.

    At an edge the counts are those of the release. Between two edges the estimated
    curve says how the bin is cut; the limits take all of its examples above, or none.
    """
    if math.isnan(threshold):
        raise InputError("the threshold is NaN; give a number")
    observed, counts = fit.observed, fit.counts
    curved, straight, least, most = cut_of(fit, threshold)
    weights = confusion_weights(curved)
    cut = _Cut(
        probability_of(threshold, observed.edges) if stated is None else stated,
        _confusion(counts, curved),
        tuple(
            _confusion(counts, shares)
            for shares in (straight, *_others(fit, threshold))
        ),
        tuple(
            _confusion(counts, Shares(of_negatives, of_positives))
            for of_positives in (least, most)
            for of_negatives in (least, most)
        ),
        weights @ np.concatenate([observed.negatives, observed.positives]),
        covariance_of(observed, weights),
    )

    def found(name: str) -> Estimate:
        if name in _COUNTS:
            return _count(_COUNTS[name], cut)
        with np.errstate(all="ignore"):  # what is not finite is refused
            return _rate(RATES[name], cut)

    return AtThreshold(threshold, Measured((*RATES, *_COUNTS), found))


def probability_of(threshold: float, edges: Edges) -> float:
    """Return a threshold as a probability, NaN where scores are none."""
    match edges.scores.kind:
        case "probability":
            return threshold
        case "logit":
            return 0.5 * (1.0 + math.tanh(0.5 * threshold))
        case "other":
            return math.nan


def _rate(row: RateRow, cut: _Cut) -> Estimate:
    if row.needs_probabilities and math.isnan(cut.threshold):
        reason = "scores of kind 'other' are not probabilities"
        return Estimate.undefined(reason, row.support)
    value = row.at(cut.counts, cut.threshold)
    if not math.isfinite(value):
        reason = "nothing to divide by at this threshold"
        return Estimate.undefined(reason, row.support)
    shape: Shape = SYMMETRIC
    if isinstance(row.value, Share):
        noise = propagated(lambda c: row.at(c, cut.threshold), cut.counts, cut.noise)
        a, b = np.array(row.value.successes), np.array(row.value.failures)
        trials = max(float((a + b) @ cut.counts), 0.0)
        sampling = _rate_sd(value, trials, twice=row.value.twice)
        shape = RatioShape(
            float(a @ cut.released),
            float(b @ cut.released),
            trials,
            max(float(a @ cut.noise @ a), 0.0),
            max(float(b @ cut.noise @ b), 0.0),
            float(a @ cut.noise @ b),
            twice=row.value.twice,
        )
        spread = math.sqrt(max(float((a + b) @ cut.noise @ (a + b)), 0.0))
    else:
        slopes = row.slopes(cut.counts, cut.threshold)
        sampling = math.sqrt(max(float(cut.counts @ slopes**2), 0.0))
        added = math.sqrt(max(float(slopes @ cut.noise @ slopes), 0.0))
        if not math.isfinite(sampling + added + value * value):
            reason = "it changes too fast at this threshold"
            return Estimate.undefined(reason, row.support)
        noise = added if cut.noise.any() else 0.0
        trials = max(float(cut.counts.sum()), 0.0)
        spread = math.sqrt(max(float(cut.noise.sum()), 0.0))
        shape = LOGARITHMIC if row.factor else SYMMETRIC
    return Estimate(
        value,
        sampling,
        noise,
        _limits(
            value,
            [row.at(c, cut.threshold) for c in cut.corners],
            [row.at(c, cut.threshold) for c in cut.others],
            row.support,
        ),
        support=row.support,
        shape=shape,
        caution=_few_trials(trials, spread),
    )


def _count(place: int, cut: _Cut) -> Estimate:
    """Estimate a confusion count: of these very data, so nothing is sampled."""
    return Estimate(
        float(cut.counts[place]),
        0.0,
        propagated(lambda c: float(c[place]), cut.counts, cut.noise),
        _limits(
            float(cut.counts[place]),
            [float(c[place]) for c in cut.corners],
            [float(c[place]) for c in cut.others],
            _ANY,
        ),
        support=_ANY,
    )


def _others(fit: Fit, threshold: float) -> Iterator[Shares]:
    """Cut at the farthest places that the true scores may stand for."""
    places = possible_places(fit.observed, fit.possible_steps, threshold)
    for place in places:
        if place != threshold:
            yield cut_at(fit.counts, place, along=fit.along).curved


def _limits(
    value: float, corners: list[float], others: list[float], support: Interval
) -> Binning:
    """Return the least and greatest value that a cut bin allows.

    Nothing counted at a corner bounds nothing. The usual error is what another shape
    inside the bins changes.
    """
    values = [value, *corners, *(v for v in others if math.isfinite(v))]
    low = min((support.low if math.isnan(v) else v) for v in values)
    high = max((support.high if math.isnan(v) else v) for v in values)
    usual = max(abs(value - other) for other in others)
    if not all(map(math.isfinite, others)):
        finite = [v for v in corners if math.isfinite(v)]
        usual = max(finite) - min(finite) if finite else 0.0
    return Binning(low, high, usual)


def _confusion(observed: NoisyHistogram, above: Shares) -> FloatVector:
    """Return TP, FN, FP, TN with these shares of each bin above the threshold."""
    tp, fp = above.positives @ observed.positives, above.negatives @ observed.negatives
    p, n = observed.total_positives, observed.total_negatives
    # All of a class above leaves none below, not a rounding error of either sign.
    return np.maximum([tp, p - tp, fp, n - fp], 0.0)


def _few_trials(trials: float, noise: float) -> str | None:
    if trials < FEWEST_TRIALS:
        return (
            f"wide because the rate rests on few examples, about {trials:,.0f}: "
            f"intervals are sure from {FEWEST_TRIALS} on"
        )
    if trials < 2 * noise:
        return (
            f"wide because of the noise: about {trials:,.0f} examples with a noise "
            f"of {noise:,.0f}"
        )
    return None


def _rate_sd(value: float, trials: float, *, twice: bool) -> float:
    """Return a proportion's standard deviation; F1 is 2J/(1 + J) of one."""
    share = value / (2 - value) if twice else value
    spread = math.sqrt(max(share * (1 - share), 0.0) / max(trials, 1.0))
    return spread * 2 / (1 + share) ** 2 if twice else spread

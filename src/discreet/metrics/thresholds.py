r"""Measures at a threshold, from the confusion counts there, each with its errors.

At an edge nothing is cut. Between two edges the threshold's point on the estimated ROC
curve says how a bin is cut (:mod:`discreet.estimate.curves`). Where the curve
has no points inside a bin, the cumulative counts of each class are joined by PCHIP on
the scale of the logit (of the score itself where it is no probability), on which
densities are smooth. Straight lines on the same scale are the other shape that the bin
may have, and all or none of its examples are the limits.

At the highest possible score (a threshold of 1) only ties are left, and nobody counted
them apart: forests that agree and clipped scores have them, smooth scores have none. A
last bin that is narrow is taken to hold nothing else, a wide one none; either may be
the case.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.data.edges import Edges
from discreet.errors import InputError
from discreet.estimate.curves import ThresholdPath
from discreet.estimate.estimate import Binning, Estimate, Interval
from discreet.estimate.fit import Fit
from discreet.estimate.intervals import SYMMETRIC, RatioShape, Shape
from discreet.estimate.score_grid import GridCounts, possible_places
from discreet.estimate.slopes import covariance_of, propagated
from discreet.metrics.errors import Measured
from discreet.metrics.influence import least_sums, rate_influence
from discreet.metrics.measure import LOGARITHMIC, Rate, Share
from discreet.metrics.table import RATES, MetricRow
from discreet.statistic.observed import NoisyHistogram
from discreet.vocabulary import did_you_mean

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
_ROUNDING: Final = 1e-12
_NARROW: Final = 1e-3
"""Share of the scores' range up to which a last bin is taken for ties at its end."""
_AROUND: Final = 3
"""So many edges on either side decide the shape inside a bin."""
_Both: TypeAlias = tuple[float, float]
"""The share of one bin above a threshold, of negatives and of positives."""


class SharesAbove(NamedTuple):
    """The share of each bin at or above a threshold, of negatives and of positives."""

    negatives: FloatVector
    positives: FloatVector


class Cut(NamedTuple):
    """The shares as a curve has them, as a straight line has them, and their limits."""

    curved: SharesAbove
    straight: SharesAbove
    least: FloatVector
    most: FloatVector


def cut_of(fit: Fit, t: float) -> Cut:
    """Return how much of each bin and class of a fit lies at or above a threshold."""
    return cut_at(fit.counts, t, fit.atoms, fit.along)


def cut_at(
    counts: NoisyHistogram,
    t: float,
    atoms: GridCounts | None = None,
    along: ThresholdPath | None = None,
) -> Cut:
    """Return how much of each bin and class lies at or above a threshold.

    Where scores lie on a grid, ``atoms`` say what is at its multiples; ``along`` is the
    curve that cuts the bins.
    """
    edges = counts.edges
    even, least, most = shares_above(edges, t)
    partly = np.flatnonzero(most != least)
    if not partly.size:
        return Cut(SharesAbove(even, even), SharesAbove(even, even), least, most)
    cut = int(partly[0])
    if atoms is not None:
        curved, straight = _between_atoms(edges, atoms, cut, t)
    elif t == edges.array[-1]:
        # All of the last bin is at its upper end, or nothing.
        low, before, end = edges.array[[0, -2, -1]]
        narrow = float(end - before <= _NARROW * (end - low))
        curved, straight = (narrow, narrow), (1 - narrow, 1 - narrow)
    else:
        (bent_n, line_n), (bent_p, line_p) = (
            _inside(edges, bins, cut, t) or (even[cut], even[cut])
            for bins in (counts.negatives, counts.positives)
        )
        curved, straight = (bent_n, bent_p), (line_n, line_p)
        if along is not None:
            curved = _on_curve(along, cut, t, curved)

    def above(shares: _Both) -> SharesAbove:
        both = np.stack([least, least])
        both[:, cut] = shares
        return SharesAbove(*both)

    return Cut(above(curved), above(straight), least, most)


def _on_curve(along: ThresholdPath, cut: int, t: float, without: _Both) -> _Both:
    """Cut a bin where a curve has the threshold; a class that it lacks as without."""
    rates = along.at(np.array([t]))
    of_n, of_p = (
        (float(rate[0]) - above[cut + 1]) / (above[cut] - above[cut + 1])
        if above[cut] > above[cut + 1]
        else before
        for rate, above, before in zip(
            rates, (along.fpr, along.tpr), without, strict=True
        )
    )
    return of_n, of_p


def shares_above(
    edges: Edges, t: float
) -> tuple[FloatVector, FloatVector, FloatVector]:
    """Return the share of each bin at or above t: as a guess, at least, at most."""
    values = edges.array
    if edges.atoms:
        exact = (values[:-1] >= t).astype(np.float64)
        return exact, exact, exact
    most = (np.append(values[1:-1], np.inf) > t).astype(np.float64)
    if t > values[-1]:
        most[:] = 0.0
    least = (values[:-1] >= t).astype(np.float64)
    cut = np.flatnonzero(most != least)
    guess = least.copy()
    if cut.size:
        (k,) = cut
        width = values[k + 1] - values[k]
        guess[k] = (values[k + 1] - t) / width if math.isfinite(width) else 0.5
    return guess, least, most


def confusion_weights(above: FloatVector | SharesAbove) -> FloatArray:
    """Return TP, FN, FP, TN as sums over the negatives', then the positives' bins."""
    of_n, of_p = above if isinstance(above, SharesAbove) else (above, above)
    none = np.zeros_like(of_p)
    return np.stack(
        [
            np.append(none, of_p),
            np.append(none, 1 - of_p),
            np.append(of_n, none),
            np.append(1 - of_n, none),
        ]
    )


def _between_atoms(
    edges: Edges, atoms: GridCounts, cut: int, t: float
) -> tuple[_Both, _Both]:
    """Cut a bin between two multiples of a grid: only how many are at each is unsure."""
    places = np.arange(atoms.steps + 1) / atoms.steps
    inside = edges.bins_of(places) == cut
    above = inside & (places >= t - _ROUNDING)
    even = float(above.sum()) / max(float(inside.sum()), 1.0)
    of_n, of_p = (
        float(counts[above].sum()) / held
        if (held := float(counts[inside].sum())) > 0
        else even
        for counts in atoms
    )
    return (of_n, of_p), (even, even)


def _inside(
    edges: Edges, counts: FloatVector, cut: int, t: float
) -> tuple[float, float] | None:
    """Return the share above t of one bin and class, by a curve and a straight line.

    None where the bin holds nothing or ends where the scale has no end.
    """
    from scipy.interpolate import PchipInterpolator  # noqa: PLC0415 - slow to import

    z = _scale(edges, edges.array)
    near = slice(max(cut - _AROUND, 0), min(cut + _AROUND + 2, z.size))
    running = np.append(0.0, np.cumsum(np.maximum(counts, 0.0)))
    held = running[cut + 1] - running[cut]
    known = np.isfinite(z[near])
    if not (held > 0 and np.isfinite(z[cut : cut + 2]).all()):
        return None
    place = float(_scale(edges, np.array([t]))[0])
    below = float(PchipInterpolator(z[near][known], running[near][known])(place))
    bent = (running[cut + 1] - below) / held
    line = (z[cut + 1] - place) / (z[cut + 1] - z[cut])
    return min(max(bent, 0.0), 1.0), float(line)


def _scale(edges: Edges, scores: FloatVector) -> FloatVector:
    if edges.scores.kind != "probability":
        return scores
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(scores) - np.log1p(-scores))


def confusions(counts: NoisyHistogram) -> FloatArray:
    """Return TP, FN, FP, TN at every edge from the highest score down, a row an edge."""
    tp = np.append(0.0, np.cumsum(counts.positives[::-1]))
    fp = np.append(0.0, np.cumsum(counts.negatives[::-1]))
    return np.column_stack([tp, tp[-1] - tp, fp, fp[-1] - fp])


def confusion_noise(observed: NoisyHistogram, above: int) -> FloatArray:
    """Return the noise's covariance of TP, FN, FP, TN with so many bins above."""
    if observed.exact:
        return np.zeros((4, 4))
    bins = len(observed.edges)
    shares = (np.arange(bins) >= bins - above).astype(np.float64)
    return covariance_of(observed, confusion_weights(shares))


def share_shape(
    share: Share, released: FloatVector, counts: FloatVector, noise: FloatArray
) -> RatioShape:
    """Return the shape of a share's error: Wilson's with the noise of both counts."""
    a, b = np.array(share.successes), np.array(share.failures)
    return RatioShape(
        float(a @ released),
        float(b @ released),
        max(float((a + b) @ counts), 0.0),
        max(float(a @ noise @ a), 0.0),
        max(float(b @ noise @ b), 0.0),
        float(a @ noise @ b),
        twice=share.twice,
    )


@dataclass(frozen=True)
class AtThreshold:
    """Every rate and the confusion counts when ``score >= threshold`` is positive.

    They are attributes too, by any name that people use: ``at.recall`` is
    ``at.sensitivity``; ``at.true_positives``.
    """

    threshold: float
    estimates: Mapping[str, Estimate]

    def __getitem__(self, name: str) -> Estimate:
        return self.estimates[name]

    def __getattr__(self, name: str) -> Estimate:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self.estimates[name]
        except KeyError:
            near = did_you_mean(name, self.estimates)
            raise AttributeError(f"there is no {name} at a threshold{near}") from None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        estimates = {name: e.to_dict() for name, e in self.estimates.items()}
        return {"threshold": self.threshold, **estimates}

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
class _AtCut:
    """A fit's confusion counts at one threshold, and their noise."""

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
    # The farthest places that the true scores may stand for.
    places = set(possible_places(observed, fit.possible_steps, threshold)) - {threshold}
    others = [cut_at(counts, at, along=fit.along).curved for at in places]
    cut = _AtCut(
        probability_of(threshold, observed.edges) if stated is None else stated,
        _confusion(counts, curved),
        tuple(_confusion(counts, shares) for shares in (straight, *others)),
        tuple(
            _confusion(counts, SharesAbove(*shares))
            for shares in product((least, most), repeat=2)
        ),
        weights @ observed.vector,
        covariance_of(observed, weights),
    )

    def estimated(name: str) -> Estimate:
        if name in _COUNTS:
            return _count(_COUNTS[name], cut)
        with np.errstate(all="ignore"):  # what is not finite is refused
            return _rate(RATES[name], cut)

    return AtThreshold(threshold, Measured((*RATES, *_COUNTS), estimated))


def probability_of(threshold: float, edges: Edges) -> float:
    """Return a threshold as a probability, NaN where scores are none."""
    match edges.scores.kind:
        case "probability":
            return threshold
        case "logit":
            return 0.5 * (1.0 + math.tanh(0.5 * threshold))
        case "other":
            return math.nan


def _rate(row: MetricRow[Rate], cut: _AtCut) -> Estimate:
    if row.needs_probabilities and math.isnan(cut.threshold):
        reason = "scores of kind 'other' are not probabilities"
        return Estimate.undefined(reason, row.support)
    value = row.measure(cut.counts, cut.threshold)
    if not math.isfinite(value):
        reason = "nothing to divide by at this threshold"
        return Estimate.undefined(reason, row.support)
    shape: Shape = SYMMETRIC
    if isinstance(row.measure, Share):
        noise = propagated(row.measure, cut.counts, cut.noise)
        shape = ratio = share_shape(row.measure, cut.released, cut.counts, cut.noise)
        trials = ratio.trials
        sampling = _rate_sd(value, trials, twice=row.measure.twice)
        counted = np.add(row.measure.successes, row.measure.failures)
        spread = math.sqrt(max(float(counted @ cut.noise @ counted), 0.0))
    else:
        slopes = row.measure.slopes(cut.counts, cut.threshold)
        sampling = math.sqrt(max(float(cut.counts @ slopes**2), 0.0))
        added = math.sqrt(max(float(slopes @ cut.noise @ slopes), 0.0))
        if not math.isfinite(sampling + added + value * value):
            reason = "it changes too fast at this threshold"
            return Estimate.undefined(reason, row.support)
        noise = added if cut.noise.any() else 0.0
        trials = max(float(cut.counts.sum()), 0.0)
        spread = math.sqrt(max(float(cut.noise.sum()), 0.0))
        shape = LOGARITHMIC if row.measure.factor else SYMMETRIC
    return Estimate(
        value,
        sampling,
        noise,
        _limits(
            value,
            [row.measure(c, cut.threshold) for c in cut.corners],
            [row.measure(c, cut.threshold) for c in cut.others],
            row.support,
        ),
        support=row.support,
        shape=shape,
        caution=_few_trials(trials, spread),
    )


def _count(place: int, cut: _AtCut) -> Estimate:
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


def _confusion(observed: NoisyHistogram, above: SharesAbove) -> FloatVector:
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


def rate_influences(fit: Fit, most: float, threshold: float) -> dict[str, float]:
    """Return how far one site can move each rate that is a share of examples."""
    above, _, _ = shares_above(fit.observed.edges, threshold)
    rates = {name: RATES[name].measure for name in RATES}
    shares = {name: rate for name, rate in rates.items() if isinstance(rate, Share)}
    weights = np.array([share.weights for share in shares.values()])
    counted = least_sums(fit, weights @ confusion_weights(above))
    return {
        name: rate_influence(share, most, float(below))
        for (name, share), below in zip(shares.items(), counted, strict=True)
    }

r"""Which map, by a rule that uses the release and nothing else, and what the map does.

A map q of rates r with covariance C has the expected squared distance from the
true rates (Stein's unbiased estimate; weights w are shares of examples)

.. math::
    R = \sum_b w_b \left[(q_b - r_b)^2 - C_{bb} + 2\,(H C)_{bb}\right],
    \qquad H = \partial q/\partial r,

and scores as they are have H = 0. C holds sampling and noise, so R says whether a
map is worth its own error.

1. No class, or fewer examples than their noise: the identity.
2. *Levels*, if on their own runs the scores' shift, :math:`\sum w\,(r - s)^2`, exceeds
   its own error, :math:`\sum w\,C`, by a quarter (as root mean squares). Decoded arcs do
   not hold the scatter of the sample: there the shift need only reach the error of the
   noise. Levels must keep 97% of the scores' variance: too few steps forget what the
   scores knew.
3. Otherwise the least R of Platt's map and beta calibration, if it is below the
   identity's by more than 4 times the map's own squared error
   :math:`\sum w\,(H C H^T)`; else the identity. The best of several seems better than
   it is, and with a factor of 1 the default was harmful for 500 examples.

The constants were set on the adult and bank score sets of ``bench/calibration.py``
(``docs/calibration.md`` says how).

Two maps are logistic regressions on the counts: Platt (1999),
:math:`\operatorname{logit} q = c + a \operatorname{logit} s`, and beta calibration (Kull,
Silva Filho and Flach 2017), :math:`\operatorname{logit} q = c + a \log s - b \log(1 - s)`,
the right family when scores of both classes have beta distributions. Both hold the
identity (c = 0, slopes 1). A slope that comes out negative is held at 0 and the rest is
fitted again, as beta calibration's authors do: the curve rises, whatever the counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.data.edges import Edges
from discreet.errors import InputError
from discreet.estimate.estimate import Estimate
from discreet.estimate.slopes import noise_variances
from discreet.estimate.sub_bins import cell_scores
from discreet.metrics.brier import brier_score
from discreet.metrics.calibration import (
    DEFAULT_BINS,
    Grouping,
    Groups,
    Predictions,
    expected_calibration_error,
    mean_squared_error,
    raw_predictions,
)
from discreet.metrics.logistic import CLOSEST, LogisticFit, fit_logistic, logit
from discreet.noise.arc_decoder import DecodedNoise
from discreet.recalibrate.maps import CalibrationMap, Identity, LogCurve
from discreet.recalibrate.stepwise import (
    Rates,
    fit_bbq,
    fit_binning,
    fit_isotonic,
    fit_levels,
    levels,
    steps_of,
)
from discreet.statistic.observed import NoisyHistogram

_KEPT_VARIANCE: Final = 0.97
"""Share of the scores' variance that a map in steps must keep."""
_WORTH, _WORTH_SMOOTH = 1.25, 1.0
"""Errors that a shift must exceed to be worth a map in levels."""
_MARGIN: Final = 4.0
"""A curve must gain this many times its own squared error."""
_SURE: Final = 4.0
"""A class total below this many standard deviations of its noise is no total."""


@dataclass(frozen=True, eq=False)
class LogisticMap:
    """A fitted curve with what its risk is worked out from."""

    name: str
    counts: NoisyHistogram
    features: FloatArray
    """One row a coefficient, one column a cell of a bin."""
    fit: LogisticFit
    free: tuple[int, ...]
    """Which coefficients were fitted; the others are held at 0."""

    @classmethod
    def fitted(cls, name: str, counts: NoisyHistogram) -> LogisticMap:
        """Fit an intercept, and a slope on each logarithm or on their sum."""
        s = np.clip(cell_scores(counts.edges).ravel(), CLOSEST, 1 - CLOSEST)
        log, rest = np.log(s), -np.log1p(-s)  # both rise with the score
        slopes = [log + rest] if name == "platt" else [log, rest]
        features = np.stack([np.ones_like(log), *slopes])
        n, p = cell_counts(counts, features.shape[1] // len(counts.edges))
        free = tuple(range(len(features)))
        while True:
            chosen = features[list(free)]
            # The map that changes nothing: no intercept, every slope 1.
            start = np.array([0.0 if k == 0 else 1.0 for k in free])
            fit = fit_logistic(chosen, n, p, start=start)
            lowest = int(np.argmin(fit.coefficients[1:])) + 1 if len(free) > 1 else 0
            if lowest == 0 or fit.coefficients[lowest] >= 0:
                return cls(name, counts, chosen, fit, free)
            free = tuple(k for i, k in enumerate(free) if i != lowest)

    @cached_property
    def curve(self) -> LogCurve:
        """The map."""
        values = dict(zip(self.free, self.fit.coefficients.tolist(), strict=True))
        on_log = values.get(1, 0.0)
        on_rest = on_log if self.name == "platt" else values.get(2, 0.0)
        scores = self.counts.edges.scores
        return LogCurve(self.name, values[0], on_log, on_rest, scores=scores)

    def on(self, rates: Rates) -> tuple[FloatVector, FloatArray]:
        r"""Return the map's mean in each run and its slopes in the runs' rates.

        With x the features, t the examples of a cell and I the information,
        :math:`dq_g = \overline{q(1-q)x}_g^T\, I^{-1} \sum_h T_h \bar x_h\, dr_h`.
        """
        pieces = self.features.shape[1] // len(self.counts.edges)
        t = np.maximum(self.counts.negatives, 0) + np.maximum(self.counts.positives, 0)
        cells = np.repeat(t / pieces, pieces)
        starts = rates.starts * pieces
        q = self.fit.rates
        whole = np.add.reduceat(cells, starts)
        mean = np.add.reduceat(cells * q, starts) / whole
        bend = np.add.reduceat(cells * q * (1 - q) * self.features, starts, axis=1)
        pull = np.add.reduceat(cells * self.features, starts, axis=1)
        return mean, (bend / whole).T @ self.fit.spread @ pull


def cell_counts(counts: NoisyHistogram, pieces: int) -> tuple[FloatVector, FloatVector]:
    """Return either class's counts, none negative, in ``pieces`` cells of each bin."""
    n, p = (
        np.repeat(np.maximum(c, 0.0) / pieces, pieces)
        for c in (counts.negatives, counts.positives)
    )
    return n, p


def fit(
    observed: NoisyHistogram, counts: NoisyHistogram, *, method: str = "auto"
) -> CalibrationMap:
    """Fit a calibration map to a release.

    ``observed`` is the release, ``counts`` those of an estimator's fit
    (``estimator.fit(observed).counts``). It uses no example and costs no privacy.
    """
    if observed.negatives.shape != counts.negatives.shape:
        raise InputError(
            f"the release has {observed.negatives.size} bins, the counts "
            f"{counts.negatives.size}: they belong to different evaluations"
        )
    if method == "auto":
        return choose(observed, counts)
    if method not in _FITTED:
        raise InputError(
            f"a calibration map is one of auto, {', '.join(_FITTED)}, not this name"
        )
    return _FITTED[method](observed, counts)


_FITTED: Final[
    Mapping[str, Callable[[NoisyHistogram, NoisyHistogram], CalibrationMap]]
] = {
    "binning": lambda _, counts: fit_binning(counts),
    "bbq": lambda observed, _: fit_bbq(observed),
    "isotonic": fit_isotonic,
    "levels": fit_levels,
    "platt": lambda _, counts: LogisticMap.fitted("platt", counts).curve,
    "beta": lambda _, counts: LogisticMap.fitted("beta", counts).curve,
    "identity": lambda _, counts: Identity(scores=counts.edges.scores),
}
METHODS: Final = ("auto", *_FITTED)


def choose(observed: NoisyHistogram, counts: NoisyHistogram) -> CalibrationMap:
    """Choose the map by the written rule, with the reason."""
    scores = counts.edges.scores
    refusal = _too_little(observed)
    if refusal is not None:
        return Identity(reason=f"no map can be fitted: {refusal}", scores=scores)
    rates = Rates.of(observed, counts)
    pooled = levels(rates)
    smooth = isinstance(observed.noise, DecodedNoise)
    off = float(pooled.shares @ (pooled.values - pooled.scores) ** 2)
    unsure = np.diag(pooled.noise_part if smooth else pooled.covariance)
    shift, error = math.sqrt(off), math.sqrt(float(pooled.shares @ unsure))
    worth = _WORTH_SMOOTH if smooth else _WORTH
    mean = float(rates.shares @ rates.scores)
    whole, between = (
        float(each.shares @ (each.scores - mean) ** 2) for each in (rates, pooled)
    )
    kept = between / whole if whole > 0 else 1.0
    if kept >= _KEPT_VARIANCE and shift >= worth * error:
        reason = (
            f"the scores are off by {shift:.4f} with an error of {error:.4f}, and "
            f"{pooled.starts.size} levels can be told apart"
        )
        return replace(steps_of(pooled, counts), reason=reason)
    none = risk(rates, rates.scores, np.zeros_like(rates.covariance))
    candidates = []
    for name in ("platt", "beta"):
        curve = LogisticMap.fitted(name, counts)
        values, slopes = curve.on(rates)
        own = float(rates.shares @ ((slopes @ rates.covariance) * slopes).sum(axis=1))
        candidates.append((risk(rates, values, slopes), own, curve))
    least_risk, own, chosen = min(candidates, key=lambda each: each[0])
    if least_risk + _MARGIN * own >= none:
        reason = (
            f"every map would be worse than none: the scores are off by {shift:.4f}, "
            f"and sampling and noise move a map by {error:.4f}"
        )
        return Identity(reason=reason, scores=scores)
    why = (
        f"{pooled.starts.size} levels would keep only {kept:.1%} of the variance"
        if kept < _KEPT_VARIANCE
        else f"levels would move by {error:.4f} for a shift of {shift:.4f}"
    )
    return replace(chosen.curve, reason=f"{why}, a curve gains")


def risk(rates: Rates, values: FloatVector, slopes: FloatArray) -> float:
    """Return Stein's estimate of a map's squared distance from the true rates."""
    c = rates.covariance
    own = (slopes * c.T).sum(axis=1)
    return float(rates.shares @ ((values - rates.values) ** 2 - np.diag(c) + 2 * own))


def _too_little(observed: NoisyHistogram) -> str | None:
    if observed.refusal is not None:
        return observed.refusal
    if observed.missing_class is not None:
        return f"the pooled data hold no {observed.missing_class}"
    both = np.repeat(np.eye(2), len(observed.edges), axis=1)
    totals, sds = both @ observed.vector, np.sqrt(noise_variances(observed, both))
    for name, total, sd in zip(("negatives", "positives"), totals, sds, strict=True):
        if total < _SURE * sd:
            return (
                f"the release counts {total:,.0f} {name} with a noise of {sd:,.0f}, and "
                f"a map needs {_SURE:g} times the noise; use more data or a larger epsilon"
            )
    return None


@dataclass(frozen=True, slots=True)
class MapEffect:
    """ECE and Brier score before and after a map."""

    ece_before: Estimate
    ece_after: Estimate
    """Expected on new examples, not on those that the map was fitted to."""
    brier_before: float
    brier_after: float


def effect(
    counts: NoisyHistogram,
    fitted: CalibrationMap,
    *,
    bins: int = DEFAULT_BINS,
    kind: Grouping = "width",
    response: Callable[[FloatArray], FloatArray] | None = None,
) -> MapEffect:
    r"""Return the model's calibration before and after a map, from the same counts.

    The map was fitted to these counts, so their ECE after it is next to nothing and
    says nothing. A group's rate is known up to its own sampling error and noise. On *new*
    examples the map therefore misses the true rate by :math:`N(d, v)`, d the difference
    that is left and v the rate's variance, and

    .. math::
        E\,|N(d, v)| = \sqrt{\tfrac{2v}{\pi}}\, e^{-d^2/2v}
            + d \left(2\Phi(d/\sqrt v) - 1\right).

    Its mean over the examples is the ECE that is expected of the map itself. A measured
    ECE on m new examples is larger by their own sampling. ``response`` says how the
    counts move with the released ones, where a smooth model was fitted.
    """
    before = expected_calibration_error(counts, bins, kind, response=response)
    if math.isnan(before.value):
        return MapEffect(before, before, math.nan, math.nan)
    score = brier_score(counts).value
    if isinstance(fitted, Identity):  # nothing was fitted: nothing to discount
        return MapEffect(before, before, score, score)
    mapped = mapped_predictions(counts.edges, fitted)
    after = expected_calibration_error(counts, bins, kind, predictions=mapped)
    expected = min(_expected_error(Groups.of(counts, bins, kind, mapped)), 1.0)
    binning = replace(after.binning, low=0.0, high=1.0)
    mean_of_raw = mean_squared_error(counts, raw_predictions(counts))
    return MapEffect(
        before,
        replace(after, value=expected, binning=binning),
        score,
        # Scores are spread over their bins alike: what that misses goes for both.
        max(score + mean_squared_error(counts, mapped) - mean_of_raw, 0.0),
    )


def mapped_predictions(edges: Edges, fitted: CalibrationMap) -> Predictions:
    """Return a map's probabilities in the cells and at the ends of every bin."""
    cells = cell_scores(edges)
    if edges.scores.kind == "logit":
        cells = logit(cells)
    inside = fitted.apply(cells)
    if edges.atoms:
        return Predictions(inside, inside[:, 0], inside[:, 0])
    ends = edges.array
    first = fitted.apply(ends[:-1])
    last = fitted.apply(np.nextafter(ends[1:], -np.inf))
    every = np.column_stack([first, inside, last])
    return Predictions(inside, every.min(axis=1), every.max(axis=1))


def _expected_error(groups: Groups) -> float:
    """Return the mean absolute error of rates that are normal around their groups'."""
    from scipy.special import ndtr  # noqa: PLC0415 - slow to import

    p, t = groups.positives, groups.totals
    variances = p * (t - p) / np.where(t > 0, t, 1.0)
    variances += noise_variances(groups.counts, groups.of_positives - groups.sums)
    off, sds = np.abs(p - groups.predicted), np.sqrt(variances)
    z = np.divide(off, sds, out=np.full_like(off, np.inf), where=sds > 0)
    bell = sds * math.sqrt(2 / math.pi) * np.exp(-z * z / 2)
    return float((bell + off * (2 * ndtr(z) - 1)).sum()) / groups.examples

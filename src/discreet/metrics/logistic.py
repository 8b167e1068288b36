r"""Logistic regression on counts: Cox's line of calibration and a smooth curve.

A cell holds p positives among t examples with features x; the fit maximises

.. math::
    \sum p\,\theta^T x - t \log(1 + e^{\theta^T x})
        - \tfrac{\rho}{2}\,|\theta - \theta_0|^2

by Newton's method. The small pull towards :math:`\theta_0`, the map that changes
nothing, keeps separated classes finite.

*Cox's line* (1958), :math:`\operatorname{logit} P(y = 1) = a + b \operatorname{logit} s`,
is fitted without the pull. A calibrated model has a = 0 and b = 1; a slope below 1 says
that scores are too extreme. Calibration in the large is a with b held at 1. Each example
moves the coefficients by the inverse information times its score (y - q) x: the sampling
error is the sandwich's, which holds whether or not the line does. Classes that the scores
separate have no finite fit: the measure is undefined then.

*The smooth curve* c(s) is a restricted cubic spline of logit s with five knots at the 5,
27.5, 50, 72.5 and 95% quantiles of the scores (Harrell 2015), fitted with next to no
pull: the flexible curve of Austin and Steyerberg (2019). Over the examples,

.. math::
    \mathrm{ICI} = \overline{|c(s) - s|}, \quad E_{50}, E_{90}, E_{max}:
    \text{quantiles and maximum of } |c(s) - s|, \quad
    \mathrm{ECI} = \overline{(c(s) - s)^2}.

All are at least 0 and so too large on average where little is wrong: their intervals are
those of :class:`Folded`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Literal, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.estimate.estimate import Binning
from discreet.estimate.fit import Fit
from discreet.estimate.intervals import SYMMETRIC, Ends, Shape
from discreet.estimate.slopes import Cells, covariance_of
from discreet.metrics.measure import Local, Measure, Placed, of_bins, seeded_by

CLOSEST: Final = 1e-6
"""Scores are kept this far from 0 and 1, where the logit has no value."""
KNOTS: Final = (0.05, 0.275, 0.5, 0.725, 0.95)
"""Where the spline's knots lie among the scores (Harrell 2015, table 2.3)."""
_RIDGE: Final = 1e-3
_STEPS: Final = 100
_ROUNDING: Final = 1e-9
_LONGEST: Final = 2.0
_SEPARATED: Final = 50.0
"""A coefficient this large is still growing: the classes are separated."""
_PULL: Final = 1e-4
"""Where the lowest scores hold no positives the spline's end has no finite slope: so
weak a pull towards calibrated scores gives it one and changes nothing else."""
_DRAWS: Final = 200
_TRUTHS: Final = 10
_THIN: Final = 64
_SHARES: Final = {"e50": 0.5, "e90": 0.9}
_APART: Final = 1e-6
Distance: TypeAlias = Literal["ici", "e50", "e90", "emax", "eci"]


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """The coefficients, the inverse of their information, and each cell's rate."""

    coefficients: FloatVector
    spread: FloatArray
    rates: FloatVector


def fit_logistic(
    features: FloatArray,
    negatives: FloatVector,
    positives: FloatVector,
    *,
    start: FloatVector,
    offset: FloatVector | float = 0.0,
    ridge: float = _RIDGE,
) -> LogisticFit:
    """Fit by Newton's method; ``features`` has a row a coefficient.

    ``offset`` is added to every cell's log-odds as it is; ``ridge`` is the pull's
    strength, 0 for maximum likelihood.
    """
    theta = start.astype(np.float64)
    totals = negatives + positives
    pull = ridge * np.eye(theta.size)

    def likelihood(at: FloatVector) -> float:
        z = at @ features + offset
        far = ridge * float((at - start) @ (at - start)) / 2
        return float(positives @ z - totals @ np.logaddexp(0.0, z)) - far

    now = likelihood(theta)
    for _ in range(_STEPS):
        rates = sigmoid(theta @ features + offset)
        information = (features * (totals * rates * (1 - rates))) @ features.T + pull
        gradient = features @ (positives - totals * rates) - ridge * (theta - start)
        step = np.linalg.solve(information, gradient)
        longest = float(np.abs(step).max())
        share = min(1.0, _LONGEST / max(longest, 1e-300))
        # Newton's steps can turn back and forth for ever where scores say nothing.
        while (then := likelihood(theta + share * step)) < now - _ROUNDING * abs(now):
            share /= 2
        theta, now = theta + share * step, then
        if longest < 1e-10:
            break
    rates = sigmoid(theta @ features + offset)
    information = (features * (totals * rates * (1 - rates))) @ features.T + pull
    covariance = np.linalg.inv(information).astype(np.float64, copy=False)
    return LogisticFit(theta, covariance, rates)


def sigmoid(x: FloatArray) -> FloatArray:
    """Return 1/(1 + e^-x) without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * np.asarray(x))))


def logit(scores: FloatArray) -> FloatArray:
    """Return the log-odds of scores, kept away from 0 and 1."""
    kept = np.clip(scores, CLOSEST, 1 - CLOSEST)
    return np.asarray(np.log(kept) - np.log1p(-kept))


@dataclass(frozen=True, eq=False)
class PlacedFit:
    """A logistic regression on placed examples, and what each example does to it."""

    coefficients: FloatVector
    on_negatives: FloatArray
    """Slopes of the coefficients in the negatives' cells: a row a coefficient."""
    on_positives: FloatArray


def fit_placed(
    at: Placed,
    features: Callable[[FloatArray], FloatArray],
    start: FloatVector,
    offset: Callable[[FloatArray], FloatArray] = np.zeros_like,
    *,
    ridge: float = 0.0,
    largest: float = _SEPARATED,
) -> PlacedFit:
    """Fit labels on features of the scores, without a penalty unless one is given.

    NaN where there is no finite fit: a coefficient beyond ``largest``.
    """
    x_n, x_p = features(at.of_negatives), features(at.of_positives)
    flat = np.hstack([x_n.reshape(start.size, -1), x_p.reshape(start.size, -1)])
    n, p = (m.ravel() for m in at.masses)
    moved = np.append(offset(at.of_negatives).ravel(), offset(at.of_positives).ravel())
    try:
        fit = fit_logistic(
            flat,
            np.append(n, np.zeros_like(p)),
            np.append(np.zeros_like(n), p),
            start=start,
            offset=moved,
            ridge=ridge,
        )
    except np.linalg.LinAlgError:
        fit = None
    if fit is None or not np.abs(fit.coefficients).max() < largest:
        nothing = np.full(start.size, np.nan)
        return PlacedFit(nothing, np.full_like(x_n, np.nan), np.full_like(x_p, np.nan))
    q_n = fit.rates[: n.size].reshape(at.of_negatives.shape)
    q_p = fit.rates[n.size :].reshape(at.of_positives.shape)
    on_n = np.tensordot(fit.spread, x_n * -q_n, 1)
    on_p = np.tensordot(fit.spread, x_p * (1 - q_p), 1)
    return PlacedFit(fit.coefficients, on_n, on_p)


def cox_coefficient(which: int, *, level: bool = False) -> Measure:
    """Return the measure that is one coefficient of the line, or of its level alone."""

    def line(s: FloatArray) -> FloatArray:
        return np.stack([np.ones_like(s), logit(s)][: 1 if level else 2])

    def function(cells: Cells, *, shifted: bool = True) -> Local:
        at = Placed.of(cells, shifted=shifted)
        fit = (
            fit_placed(at, line, np.zeros(1), logit)
            if level
            else fit_placed(at, line, np.array([0.0, 1.0]))
        )
        slopes = at.slopes(fit.on_negatives[which], fit.on_positives[which])
        return Local(float(fit.coefficients[which]), slopes)

    def limits(fit: Fit, value: float) -> Binning:
        """Return no limits, and a quarter of what the shift inside the bins changes."""
        even = function(fit.bins, shifted=False).value
        return Binning(-math.inf, math.inf, abs(value - even) / 4)

    return of_bins(function, limits)


@dataclass(frozen=True, eq=False)
class SmoothCurve:
    """The calibration curve through placed examples, and what each does to it."""

    at: Placed
    knots: FloatVector
    fit: PlacedFit
    scores: FloatVector
    """Every filled cell's score, negatives' cells first."""
    weights: FloatVector
    """Its share of all examples."""

    @classmethod
    def of(cls, cells: Cells) -> SmoothCurve:
        """Fit the curve; fewer knots where many scores are equal.

        Five measures ask for it, each for a value, slopes and draws: it is fitted once
        and forgotten with its cells.
        """
        if (known := _FITTED.get(cells)) is not None:
            return known
        at = Placed.of(cells)
        scores = np.append(at.of_negatives.ravel(), at.of_positives.ravel())
        weights = np.append(*(m.ravel() for m in at.masses))
        knots = _knots(scores, weights)
        start = np.zeros(max(knots.size, 2))
        start[1] = 1.0
        fit = fit_placed(
            at,
            lambda s: spline(logit(s), knots),
            start,
            ridge=_PULL,
            largest=math.inf,
        )
        weights = weights / max(float(weights.sum()), 1e-300)
        return _FITTED.setdefault(cells, cls(at, knots, fit, scores, weights))

    def rates(self, scores: FloatVector) -> FloatVector:
        """Return the curve at some scores."""
        return sigmoid(self.fit.coefficients @ spline(logit(scores), self.knots))

    def errors(self, fit: Fit) -> FloatArray:
        """Return the coefficients' covariance: sampling and noise."""
        n, p = self.at.masses
        on_n, on_p = self.fit.on_negatives, self.fit.on_positives
        errors: FloatArray = np.einsum("ibj,kbj,bj->ik", on_n, on_n, n)
        errors = errors + np.einsum("ibj,kbj,bj->ik", on_p, on_p, p)
        if not fit.observed.exact:
            each = [self.at.slopes(a, b) for a, b in zip(on_n, on_p, strict=True)]
            if fit.noise_path == "followed":
                each = [fit.followed(slopes) for slopes in each]
            rows = np.array([np.concatenate(slopes) for slopes in each])
            errors = errors + covariance_of(fit.observed, rows)
        return errors


_FITTED: Final[WeakKeyDictionary[Cells, SmoothCurve]] = WeakKeyDictionary()


def _knots(scores: FloatVector, weights: FloatVector) -> FloatVector:
    """Return the knots on the logit's scale, none twice."""
    order = np.argsort(scores, kind="stable")
    running = np.cumsum(weights[order])
    places = np.searchsorted(running, np.array(KNOTS) * running[-1])
    z = logit(scores[order][np.minimum(places, scores.size - 1)])
    kept = z[np.append(np.array([True]), np.diff(z) > _APART)]
    return np.asarray(kept if kept.size >= 3 else kept[:0])


def spline(z: FloatArray, knots: FloatVector) -> FloatArray:
    r"""Return 1, z and the restricted cubic spline's terms, a row each.

    Harrell (2015, eq. 2.25): with :math:`(u)_+^3` cubes above a knot,
    :math:`(z - t_j)_+^3 - (z - t_{k-1})_+^3 \frac{t_k - t_j}{t_k - t_{k-1}}
    + (z - t_k)_+^3 \frac{t_{k-1} - t_j}{t_k - t_{k-1}}`, over :math:`(t_k - t_1)^2`.
    """
    rows: list[FloatArray] = [np.ones_like(z), z]
    if knots.size:
        last, before = knots[-1], knots[-2]
        scale = (last - knots[0]) ** 2

        def cube(t: float) -> FloatArray:
            return np.asarray(np.power(np.maximum(z - t, 0.0), 3))

        for t in knots[:-2]:
            bent = cube(before) * (last - t) - cube(last) * (before - t)
            rows.append((cube(t) - bent / (last - before)) / scale)
    return np.stack(rows)


def _summary(which: Distance, gaps: FloatArray, weights: FloatVector) -> FloatVector:
    """Summarise |c - s| over the examples, a row of gaps a draw."""
    if which == "ici":
        return gaps @ weights
    if which == "eci":
        return gaps**2 @ weights
    places = _quantile_places(which, gaps, weights)
    return np.asarray(gaps[np.arange(len(gaps)), places])


def _quantile_places(
    which: Distance, gaps: FloatArray, weights: FloatVector
) -> IntVector:
    """Return where each row's quantile lies, or its largest gap."""
    if which == "emax":
        return np.asarray(np.argmax(np.where(weights > 0, gaps, -1.0), axis=1))
    order = np.argsort(gaps, axis=1, kind="stable")
    running = np.cumsum(weights[order], axis=1)
    below = (running < _SHARES[which] * running[:, -1:]).sum(axis=1)
    return np.asarray(order[np.arange(len(gaps)), np.minimum(below, gaps.shape[1] - 1)])


def _thinned(
    scores: FloatVector, weights: FloatVector
) -> tuple[FloatVector, FloatVector]:
    """Return a few scores that stand for all, in groups of even mass."""
    some = weights > 0
    order = np.argsort(scores[some], kind="stable")
    s, w = scores[some][order], weights[some][order]
    group = np.minimum(((np.cumsum(w) - w / 2) * _THIN).astype(np.int64), _THIN - 1)
    mass = np.bincount(group, w, _THIN).astype(np.float64)
    summed = np.bincount(group, w * s, _THIN).astype(np.float64)
    kept = mass > 0
    return summed[kept] / mass[kept], mass[kept]


def distance(which: Distance) -> Measure:
    """Return a measure of the distance between the scores and the smooth curve."""

    def function(cells: Cells) -> Local:
        curve = SmoothCurve.of(cells)
        rates = curve.rates(curve.scores)
        off, w = rates - curve.scores, curve.weights
        gaps = np.abs(off)
        value = float(_summary(which, gaps[None, :], w)[0])
        features = spline(logit(curve.scores), curve.knots) * (rates * (1 - rates))
        total = float(cells.negatives.sum() + cells.positives.sum())
        own: FloatVector = np.zeros(gaps.size)
        if which == "ici":
            on_curve, own = features @ (np.sign(off) * w), (gaps - value) / total
        elif which == "eci":
            on_curve, own = features @ (2 * off * w), (off**2 - value) / total
        else:
            k = int(_quantile_places(which, gaps[None, :], w)[0])
            on_curve = features[:, k] * np.sign(off[k])
        shape = curve.at.of_negatives.shape
        own_n, own_p = (part.reshape(shape) for part in np.split(own, 2))
        return Local(
            value,
            curve.at.slopes(
                own_n + np.tensordot(on_curve, curve.fit.on_negatives, 1),
                own_p + np.tensordot(on_curve, curve.fit.on_positives, 1),
            ),
        )

    return of_bins(function, shape=_drawn(which))


def _drawn(which: Distance) -> Callable[[Fit], Shape]:
    def shape(fit: Fit) -> Shape:
        curve = SmoothCurve.of(fit.bins)
        errors = curve.errors(fit)
        if not np.isfinite(errors).all():
            return SYMMETRIC
        rng = seeded_by(fit.observed)
        root = np.linalg.cholesky(
            errors + 1e-12 * np.trace(errors) * np.eye(len(errors))
        )
        scatter = rng.normal(size=(_DRAWS, len(root))) @ root.T
        scores, weights = _thinned(curve.scores, curve.weights)
        features = spline(logit(scores), curve.knots)
        none = np.zeros(len(root))
        none[1] = 1.0  # the curve of calibrated scores
        pattern = curve.fit.coefficients - none

        def seen(factor: float, errors: FloatArray) -> FloatVector:
            rates = sigmoid((none + factor * pattern + errors) @ features)
            return _summary(which, np.abs(rates - scores), weights)

        size = float(seen(1.0, np.zeros((1, len(root))))[0])
        typical = float(seen(0.0, scatter).mean())
        farthest = max(2.0, 6 * typical / max(size, 1e-12))
        factors = np.append(0.0, np.geomspace(0.05, 1.0, _TRUTHS) * farthest)
        totals = np.array([seen(f, np.zeros((1, len(root))))[0] for f in factors])
        draws = np.array([seen(f, scatter) for f in factors])
        # What thinning changes in the value itself is taken off everywhere.
        own = np.abs(curve.rates(curve.scores) - curve.scores)[None, :]
        off = float(_summary(which, own, curve.weights)[0]) - size
        order = np.argsort(totals, kind="stable")
        return Folded(totals[order] + off * (totals[order] > 0), draws[order] + off)

    return shape


@dataclass(frozen=True, eq=False)
class Folded:
    """A measure that errors can only raise, such as a mean distance of two curves.

    Its value at a truth of no distance is above 0, and no normal interval knows that.
    Truths of the estimate's own pattern are tried, from none of it to several times as
    much: ``totals`` is the measure of each, ``draws`` what would be seen of it, sampling
    and noise together. The interval holds the truths that what was seen does not
    contradict, from 0 where all of it may be scatter, and reaches the value itself.
    """

    totals: FloatVector
    draws: FloatArray
    """A row a truth, rising with ``totals``."""

    def ends(self, value: float, sampling: float, noise: float, z: float) -> Ends:
        """Return the ends; the draws hold sampling and noise already."""
        del sampling, noise
        tail = NormalDist().cdf(-z)
        least, most = np.maximum.accumulate(
            np.quantile(self.draws, [tail, 1 - tail], axis=1), axis=1
        )
        low = 0.0
        if value > most[0]:
            low = float(np.interp(value, most, self.totals))
        high = float(np.interp(value, least, self.totals))
        return min(low, value), max(high, value)

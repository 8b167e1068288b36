r"""Distances between scores and a smooth calibration curve: ICI, E50, E90, Emax, ECI.

The curve c(s) is a logistic regression on a restricted cubic spline of logit s with five
knots at the 5, 27.5, 50, 72.5 and 95% quantiles of the scores (Harrell 2015), fitted
with next to no penalty: the flexible curve of Austin and Steyerberg (2019). Over the examples,

.. math::
    \mathrm{ICI} = \overline{|c(s) - s|}, \quad E_{50}, E_{90}, E_{max}:
    \text{quantiles and maximum of } |c(s) - s|, \quad
    \mathrm{ECI} = \overline{(c(s) - s)^2}.

All are at least 0 and so too large on average where little is wrong: their intervals try
truths of the estimated pattern, from none to several times as much, against draws of the
coefficients' error, sampling and noise together (:class:`discreet.metrics.shapes.Folded`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.estimate.fit import Fit
from discreet.estimate.intervals import SYMMETRIC, Shape
from discreet.estimate.slopes import Cells, covariance_of
from discreet.metrics.cox import PlacedFit, fit_placed
from discreet.metrics.local import Local, Placed, probability_row
from discreet.metrics.logistic import logit, sigmoid
from discreet.metrics.shapes import Folded
from discreet.metrics.table import MetricRow

KNOTS: Final = (0.05, 0.275, 0.5, 0.725, 0.95)
"""Where the spline's knots lie among the scores (Harrell 2015, table 2.3)."""
_DRAWS: Final = 200
_TRUTHS: Final = 10
_THIN: Final = 64
_SHARES: Final = {"e50": 0.5, "e90": 0.9}
_APART: Final = 1e-6
_PULL: Final = 1e-4
"""Where the lowest scores hold no positives the spline's end has no finite slope: so
weak a pull towards calibrated scores gives it one and changes nothing else."""
Distance: TypeAlias = Literal["ici", "e50", "e90", "emax", "eci"]


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
        if cells not in _FITTED:
            _FITTED[cells] = cls._of(cells)
        return _FITTED[cells]

    @classmethod
    def _of(cls, cells: Cells) -> SmoothCurve:
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
        return cls(at, knots, fit, scores, weights / max(float(weights.sum()), 1e-300))

    def rates(self, scores: FloatVector) -> FloatVector:
        """Return the curve at some scores."""
        found: FloatVector = sigmoid(
            self.fit.coefficients @ spline(logit(scores), self.knots)
        )
        return found

    def errors(self, fit: Fit) -> FloatArray:
        """Return the coefficients' covariance: sampling and noise."""
        n, p = self.at.masses
        on_n, on_p = self.fit.on_negatives, self.fit.on_positives
        found: FloatArray = np.einsum("ibj,kbj,bj->ik", on_n, on_n, n)
        found = found + np.einsum("ibj,kbj,bj->ik", on_p, on_p, p)
        if not fit.observed.exact:
            each = [self.at.slopes(a, b) for a, b in zip(on_n, on_p, strict=True)]
            if fit.noise_path == "followed":
                each = [fit.followed(slopes) for slopes in each]
            rows = np.array([np.concatenate(slopes) for slopes in each])
            found = found + covariance_of(fit.observed, rows)
        return found


_FITTED: Final[WeakKeyDictionary[Cells, SmoothCurve]] = WeakKeyDictionary()


def _knots(scores: FloatVector, weights: FloatVector) -> FloatVector:
    """Return the knots on the logit's scale, none twice."""
    order = np.argsort(scores, kind="stable")
    running = np.cumsum(weights[order])
    places = np.searchsorted(running, np.array(KNOTS) * running[-1])
    z = logit(scores[order][np.minimum(places, scores.size - 1)])
    kept = z[np.append(np.array([True]), np.diff(z) > _APART)]
    found: FloatVector = kept if kept.size >= 3 else kept[:0]
    return found


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
            found: FloatArray = np.power(np.maximum(z - t, 0.0), 3)
            return found

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
    if which == "emax":
        largest: FloatVector = gaps[:, weights > 0].max(axis=1)
        return largest
    order = np.argsort(gaps, axis=1, kind="stable")
    running = np.cumsum(weights[order], axis=1)
    share = _SHARES[which] * running[:, -1:]
    place = np.minimum((running < share).sum(axis=1), gaps.shape[1] - 1)
    at = order[np.arange(len(gaps)), place]
    found: FloatVector = gaps[np.arange(len(gaps)), at]
    return found


def _quantile_place(which: Distance, gaps: FloatVector, weights: FloatVector) -> int:
    if which == "emax":
        return int(np.argmax(np.where(weights > 0, gaps, -1.0)))
    order = np.argsort(gaps, kind="stable")
    running = np.cumsum(weights[order])
    place = np.searchsorted(running, _SHARES[which] * running[-1])
    return int(order[min(int(place), gaps.size - 1)])


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


def _measure(which: Distance) -> Callable[[Cells], Local]:
    def measure(cells: Cells) -> Local:
        curve = SmoothCurve.of(cells)
        rates = curve.rates(curve.scores)
        off = rates - curve.scores
        gaps, w = np.abs(off), curve.weights
        value = float(_summary(which, gaps[None, :], w)[0])
        features = spline(logit(curve.scores), curve.knots) * (rates * (1 - rates))
        total = float(cells.negatives.sum() + cells.positives.sum())
        own: FloatVector = np.zeros(gaps.size)
        if which == "ici":
            on_curve, own = features @ (np.sign(off) * w), (gaps - value) / total
        elif which == "eci":
            on_curve, own = features @ (2 * off * w), (off**2 - value) / total
        else:
            k = _quantile_place(which, gaps, w)
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

    return measure


def _drawn(which: Distance) -> Callable[[Fit], Shape]:
    def shape(fit: Fit) -> Shape:
        curve = SmoothCurve.of(fit.bins)
        errors = curve.errors(fit)
        if not np.isfinite(errors).all():
            return SYMMETRIC
        released = np.append(fit.observed.negatives, fit.observed.positives)
        digest = hashlib.sha256(np.ascontiguousarray(released).tobytes()).digest()
        rng = np.random.default_rng(int.from_bytes(digest[:16], "big"))
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
            found = sigmoid((none + factor * pattern + errors) @ features)
            return _summary(which, np.abs(found - scores), weights)

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


def _row(
    which: Distance, title: str, formula: str, hides: str, source: str
) -> MetricRow:
    return probability_row(
        which,
        title,
        _measure(which),
        "lower",
        source,
        formula=formula,
        hides=hides,
        shape=_drawn(which),
    )


_AUSTIN: Final = "Austin and Steyerberg 2019; spline of logit s, 5 knots"
ICI: Final = _row(
    "ici", "ICI", "mean |c(s) - s|", "the direction, and where the error is", _AUSTIN
)
E50: Final = _row(
    "e50", "E50", "median |c(s) - s|", "the worse half of the examples", _AUSTIN
)
E90: Final = _row(
    "e90",
    "E90",
    "90% quantile of |c(s) - s|",
    "the worst tenth of the examples",
    _AUSTIN,
)
EMAX: Final = _row(
    "emax",
    "Emax",
    "max |c(s) - s|",
    "that it rests on the few examples at the ends of the curve",
    _AUSTIN,
)
ECI: Final = _row(
    "eci",
    "ECI",
    "mean (c(s) - s)^2",
    "the direction, and where the error is",
    "Van Hoorde et al. 2015; not times 100",
)

r"""A joint smooth model of both classes' counts, its fit, and the average over smoothness.

The model. Let u be the place of a score on the edges' own scale (0 to 1,
:func:`discreet.data.edges.even_places`) and :math:`z = \log\frac{u}{1-u}`. The intensity
of examples and the log-odds of the label, but for a floor and a ceiling, are natural
cubic splines of z,

.. math::
    \log t(z) = s_\alpha(z), \qquad
    r(z) = f p + (1 - f p - c (1 - p))\,\sigma(s_\beta(z)),

with p the share of positives and :math:`\sigma` the logistic function. At f = c = 0 the
spline is the log-odds of the label; else a share f of positives lies where negatives do,
c the other way (Barton and Lord 1981): labels with errors, cases that no score can tell,
which a stiff spline alone would take for noise. A bin expects
:math:`\mu^+ = \int t r\,du` positives and :math:`\mu^- = \int t (1-r)\,du` negatives (sums
over its sub-cells). Log-odds that are linear in z, Platt's scaling, cost no penalty.

The likelihood. A released count is :math:`\mu + N(0, \varphi\mu) + \text{noise}`
(:func:`log_density_and_pull`): :math:`\varphi = 1` for a Poisson sample around a smooth
curve, more when the real counts are rougher.

The prior. :math:`\exp\{-\frac{\lambda_\alpha}{2}\int s_\alpha''^2 dz
- \frac{\lambda_\beta}{2}\int s_\beta''^2 dz\}`, flat on straight lines. The fit
maximises the penalised likelihood by Fisher scoring; its evidence (the
likelihood with the splines integrated out) is Laplace's approximation
:math:`\ell + \frac12\log|\Lambda|_+ - \frac12\log|H|` (Green and Silverman 1994;
Wood 2011).

The counts. Given the fit, a bin's count is expected to be
:math:`\mu + \varphi\mu\cdot\text{pull}` (Tweedie's formula): near the released
count where the noise is small beside the sample's own roughness, near the curve
where it is not. Smoothing thus removes noise, not the data's real shape.

The smoothness has five parameters. A walk over a coarse grid of them climbs the evidence;
the counts are the average of every fit on the way, weighted by evidence. How far the fits
are apart is its error (:attr:`ModelAverage.between`).

Orientation. The model treats a release alike when classes are swapped or scores turned
round; a search, whose steps decide which of several maxima it reaches, does not. So every
release is fitted in one of its four orientations, chosen by its counts, and the fit is put
back: swapping or turning a release does the same to its average, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product as combinations
from operator import getitem
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from discreet.arrays import BoolVector, FloatArray, FloatVector, IntVector, product
from discreet.errors import InputError

_SUB_CELLS: Final = 8
_FEW_SUB_CELLS: Final = 4
_FINE_BINS: Final = 60
"""From this many bins on, a bin is narrow enough for four sub-cells."""
_MOST_KNOTS: Final = 30
FEWEST_BINS: Final = 4
"""A natural spline of fewer points has no curvature to speak of."""
_FLOOR: Final = 0.05
"""Least variance of a count around the model, so that empty bins have one."""
_RIDGE: Final = 1e-6
_STEPS: Final = 40
_SETTLED: Final = 1e-3
"""A step that promises less log-likelihood than this is not taken."""
_LONGEST_STEP: Final = 3.0
_SHORTER: Final = (1.0, 1 / 3, 1 / 3**2, 1 / 3**3, 1 / 3**4, 1 / 3**4 / 3)
"""Shares of a step that are tried until one gains."""
_EXPONENTS: Final = (-25.0, 25.0)
_APART: Final = 1e-4

_Place: TypeAlias = tuple[int, ...]
_MIXED_IN: Final = (0.0, 0.03, 0.1, 0.3)
"""Shares of a class that lie where the other does: the floor's steps, and the ceiling's."""
_GRID: Final = (
    tuple(0.05 * 8.0**k for k in range(6)),
    tuple(0.05 * 8.0**k for k in range(7)),
    (1.0, 4.0, 16.0, 64.0),
    _MIXED_IN,
    _MIXED_IN,
)
"""Values of the five parameters of a smoothness, in their order."""
_START: Final[_Place] = (2, 3, 0, 0, 0)
_COST: Final = 0.4
"""Evidence that a step of a floor or a ceiling costs: most scores need none."""
_GAIN: Final = 1e-3
_BENT: Final = 1
_BETTER: Final = 1.0
"""Evidence by which another start must win: more than fits differ that have settled."""
_LIGHT: Final = 0.05
"""Fits with less of the best one's evidence do not matter to how counts respond."""
_AS_IT_IS: Final = slice(None)
_REVERSED: Final = slice(None, None, -1)


class Smoothness(NamedTuple):
    """What a fit takes as known: roughness of both splines and of the data, mixed labels."""

    intensity: float
    log_odds: float
    dispersion: float
    floor: float = 0.0
    """f: share of the mean rate of positives below which it never falls."""
    ceiling: float = 0.0
    """c: likewise of negatives."""


@dataclass(frozen=True, eq=False)
class SplineFit:
    """One fit: the splines, its evidence, and counts per class, bin and sub-cell."""

    theta: FloatVector
    smoothness: Smoothness
    log_evidence: float
    cells: FloatArray
    """Negatives then positives: shape (2, bins, sub-cells); sub-cells of a bin
    add up to its posterior mean count."""


class _Prediction(NamedTuple):
    """The model's expectations at one theta, and how well they fit."""

    theta: FloatVector
    objective: float
    cells: FloatArray
    means: FloatArray
    slope: FloatArray
    """Of the positives' cells in the log-odds; of the negatives' it is the opposite."""
    variance: FloatArray
    pull: FloatArray


@dataclass(frozen=True, eq=False)
class Response:
    r"""How a fit's counts move with the released ones: d counts/d released.

    .. math:: R = \operatorname{diag}(o) + L\,M^\top

    A row is a count of the fit, a column a released one, the negatives' bins before the
    positives'. L and M are as narrow as the splines that a model fitted. R itself is not
    made: for 1,024 bins it holds four million numbers, L and M about a tenth of that.
    """

    own: FloatVector
    """o: what of a released count its own fitted count follows."""
    left: FloatArray
    """L, a row a count of the fit."""
    right: FloatArray
    """M, a row a released count."""

    @classmethod
    def mean(cls, every: Sequence[Response], weights: FloatVector) -> Response:
        """Return the weighted mean of responses; the weights add up to 1."""
        pairs = list(zip(weights.tolist(), every, strict=True))
        return cls(
            np.sum([weight * each.own for weight, each in pairs], axis=0),
            np.hstack([weight * each.left for weight, each in pairs]),
            np.hstack([each.right for each in every]),
        )

    @property
    def finite(self) -> bool:
        """Whether all numbers are."""
        return all(np.isfinite(a).all() for a in (self.own, self.left, self.right))

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Return slopes in the released counts, of slopes in the fitted ones, by row."""
        passed = product(product(rows, self.left), self.right.T)
        return passed + rows * self.own

    def ordered(self, places: IntVector) -> Response:
        """Return the response of the same counts in another order."""
        return Response(self.own[places], self.left[places], self.right[places])

    def held(self, which: BoolVector, own: float) -> Response:
        """Return the response when some counts follow nothing but their own by a share."""
        return Response(
            np.where(which, own, self.own),
            np.where(which[:, None], 0.0, self.left),
            self.right,
        )


class SplineModel:
    """The model of one release: its counts, noise and bins.

    ``counts`` and ``noise_scale`` have shape (2, bins), negatives first;
    ``places`` are the edges on the scale of u, from 0 to 1.
    """

    def __init__(
        self, counts: FloatArray, *, noise_scale: FloatArray, places: FloatVector
    ) -> None:
        bins = places.size - 1
        if bins < FEWEST_BINS:
            raise InputError(f"the model needs {FEWEST_BINS} bins, got {bins}")
        if counts.shape != (2, bins) or noise_scale.shape != (2, bins):
            raise InputError(f"the model of {bins} bins needs two rows of {bins}")
        if not (noise_scale > 0).all():
            raise InputError("the model is for noisy counts; exact ones need none")
        self._counts, self._noise, self._places = counts, noise_scale, places
        parts = _FEW_SUB_CELLS if bins >= _FINE_BINS else _SUB_CELLS
        widths = np.diff(places)
        inside = (np.arange(parts) + 0.5) / parts
        centres = places[:-1, None] + widths[:, None] * inside
        # Knots lie as the edges do, equally many edges between each two.
        size = min(bins, _MOST_KNOTS)
        ranks = (np.arange(size) + 0.5) / size
        knots = _logit(np.interp(ranks, np.arange(bins + 1) / bins, places))
        # Edges may touch; knots must not.
        self._knots = np.maximum.accumulate(knots) + _APART * np.arange(size)
        self._basis = _natural_basis(self._knots, _logit(centres))
        self._by_knot = self._basis.reshape(-1, size).T.copy()
        self._log_width = np.log(widths / parts)[:, None]
        self._roughness = _roughness(self._knots)
        low, high = np.maximum(counts.sum(axis=1), _FLOOR)
        self._positive = float(high / (low + high))
        self._log_rough = float(np.log(np.linalg.eigvalsh(self._roughness)[2:]).sum())

    def start(self) -> FloatVector:
        """Return rough splines: halfway between the counts' own and a line."""
        widths = np.diff(self._places)
        middle = _logit((self._places[1:] + self._places[:-1]) / 2)
        floored = np.maximum(self._counts, self._noise / 2) / widths
        low, high = (np.interp(self._knots, middle, np.log(row)) for row in floored)
        line = np.column_stack([np.ones_like(self._knots), self._knots])
        hat = line @ np.linalg.pinv(line)
        return np.concatenate(
            [(s + hat @ s) / 2 for s in (np.logaddexp(low, high), high - low)]
        )

    def fit(self, smoothness: Smoothness, start: FloatVector) -> SplineFit:
        """Maximise the penalised likelihood from ``start`` by Fisher scoring.

        Raises numpy's LinAlgError when the information matrix cannot be
        factored, which only counts far from any smooth curve bring about.
        """
        from scipy.linalg.lapack import dpotrs  # noqa: PLC0415

        penalty, left = self._penalty(smoothness), _STEPS
        now = self._predict(start, smoothness, penalty)
        while True:
            jacobian, _, curvature = self._curvature(now, penalty)
            factor = _factor(curvature)
            pulled = product(jacobian.T, now.pull.reshape(-1, 1))[:, 0]
            gradient = pulled - penalty @ now.theta
            step: FloatVector = dpotrs(factor, gradient)[0]
            if not left or float(gradient @ step) / 2 < _SETTLED:
                break
            step *= min(1.0, _LONGEST_STEP / max(float(np.abs(step).max()), 1e-300))
            tried = (
                self._predict(now.theta + share * step, smoothness, penalty)
                for share in _SHORTER
            )
            better = next((one for one in tried if one.objective > now.objective), None)
            if better is None:
                break
            now, left = better, left - 1
        # Copied: NumPy's logarithm of numbers that lie apart depends on where they are in
        # memory, by a last bit, and the same release must give the same result.
        half_log_det = float(np.log(factor.diagonal().copy()).sum())
        free = self._knots.size - 2
        prior = free * math.log(smoothness.intensity * smoothness.log_odds)
        evidence = now.objective + prior / 2 + self._log_rough - half_log_det
        expected = np.maximum(now.means * (1 + smoothness.dispersion * now.pull), 0.0)
        share = now.cells / now.means[:, :, None]
        return SplineFit(now.theta, smoothness, evidence, share * expected[:, :, None])

    def response(self, fit: SplineFit) -> Response:
        r"""Return how a fit's counts move with the released ones: d counts/d released.

        With J the slopes of the expected counts in the splines, I the information of
        a released count and H the curvature of the objective, the splines' part is
        :math:`R = J H^{-1} J^\top I`, and of what is left of a count its share
        :math:`w = \varphi\mu I` is followed: :math:`R + w(1 - R)`. With the factor
        :math:`H = U^\top U` and :math:`G = J U^{-1}`, R is :math:`G G^\top I`. The
        smoothness is taken as known.
        """
        from scipy.linalg.lapack import dtrtri  # noqa: PLC0415

        penalty = self._penalty(fit.smoothness)
        now = self._predict(fit.theta, fit.smoothness, penalty)
        jacobian, weights, curvature = self._curvature(now, penalty)
        # Inverted, not solved for many columns: BLAS shares that out from 18 on.
        passed = product(jacobian, dtrtri(_factor(curvature))[0])
        own = np.minimum(fit.smoothness.dispersion * now.means.ravel() * weights, 1.0)
        return Response(own, passed * (1 - own)[:, None], passed * weights[:, None])

    def _penalty(self, smoothness: Smoothness) -> FloatArray:
        size = self._knots.size
        penalty = _RIDGE * np.eye(2 * size)
        penalty[:size, :size] += smoothness.intensity * self._roughness
        penalty[size:, size:] += smoothness.log_odds * self._roughness
        return penalty

    def _predict(
        self, theta: FloatVector, smoothness: Smoothness, penalty: FloatArray
    ) -> _Prediction:
        from scipy.special import expit  # noqa: PLC0415

        both = product(theta.reshape(2, -1), self._by_knot)
        log_total, log_odds = both.reshape(2, *self._basis.shape[:2])
        total = np.exp((log_total + self._log_width).clip(*_EXPONENTS))
        share = expit(log_odds.clip(*_EXPONENTS))
        least = smoothness.floor * self._positive
        room = 1 - least - smoothness.ceiling * (1 - self._positive)
        cells = np.empty((2, *total.shape))
        np.multiply(total, least + room * share, out=cells[1])
        np.subtract(total, cells[1], out=cells[0])
        means = cells.sum(axis=2)
        variance = smoothness.dispersion * means + _FLOOR
        density, pull = log_density_and_pull(
            self._counts - means, variance, self._noise
        )
        objective = float(density.sum()) - float(theta @ penalty @ theta) / 2
        slope = total * (room * share * (1 - share))
        return _Prediction(theta, objective, cells, means, slope, variance, pull)

    def _curvature(
        self, now: _Prediction, penalty: FloatArray
    ) -> tuple[FloatArray, FloatVector, FloatArray]:
        """Return d means/d theta, the information of each count, and -H.

        The first has shape (2 bins, 2 knots).
        """
        bins, sub_cells = now.slope.shape
        by_cell = np.empty((bins, 4, sub_cells))
        by_cell[:, 0], by_cell[:, 2] = now.cells
        np.negative(now.slope, out=by_cell[:, 1])
        by_cell[:, 3] = now.slope
        parts = by_cell @ self._basis  # per bin: (4, sub-cells) @ (sub-cells, knots)
        jacobian = np.concatenate(
            [parts[:, :2].reshape(bins, -1), parts[:, 2:].reshape(bins, -1)]
        )
        weights = information(now.variance, self._noise).ravel()
        return jacobian, weights, penalty + product(jacobian.T * weights, jacobian)


def _factor(curvature: FloatArray) -> FloatArray:
    """Return the upper Cholesky factor; raise numpy's LinAlgError where there is none."""
    from scipy.linalg.lapack import dpotrf  # noqa: PLC0415

    # LAPACK itself: SciPy's checks take longer than factors of this size.
    factor, failed = dpotrf(curvature)
    if failed:
        raise np.linalg.LinAlgError("the information cannot be factored")
    upper: FloatArray = factor
    return upper


def _logit(u: FloatArray) -> FloatArray:
    return np.log(u / (1 - u))


def _natural_basis(knots: FloatVector, z: FloatArray) -> FloatArray:
    """Return the natural spline's values at z, one column for each knot's value.

    Beyond the outer knots a natural spline is a straight line.
    """
    from scipy.interpolate import CubicSpline  # noqa: PLC0415

    spline = CubicSpline(knots, np.eye(knots.size), bc_type="natural")
    inside = np.clip(z, knots[0], knots[-1])
    beyond = (z - inside)[..., None]
    basis: FloatArray = spline(inside) + beyond * spline(inside, 1)
    return basis


def _roughness(knots: FloatVector) -> FloatArray:
    r"""Return the matrix of :math:`\int s''^2` in the knots' values.

    :math:`Q R^{-1} Q^\top` of Green and Silverman (1994), section 2.1.
    """
    from scipy.linalg import solveh_banded  # noqa: PLC0415

    h = np.diff(knots)
    inner = np.arange(knots.size - 2)
    q = np.zeros((knots.size, inner.size))
    q[inner, inner] = 1 / h[:-1]
    q[inner + 1, inner] = -1 / h[:-1] - 1 / h[1:]
    q[inner + 2, inner] = 1 / h[1:]
    # R has three diagonals: above the main one, and that.
    r = np.stack([np.append(0.0, h[1:-1] / 6), (h[:-1] + h[1:]) / 3])
    squared = product(q, solveh_banded(r, q.T))
    return (squared + squared.T) / 2


def log_density_and_pull(
    x: FloatArray, variance: FloatArray, scale: FloatArray
) -> tuple[FloatArray, FloatArray]:
    r"""Return :math:`\log f(x)` and the pull :math:`-(\log f)'(x)` of a noisy count.

    A count deviates from the model by about :math:`N(0, v)` (the examples are a
    sample) and is then released with Laplace noise of scale b. The density of the
    sum X is

    .. math::
        f(x) = \tfrac{1}{2b} \bigl(e^{A(x)} + e^{A(-x)}\bigr), \qquad
        A(x) = \tfrac{v}{2b^2} - \tfrac{x}{b}
               + \log\Phi\bigl(\tfrac{x}{\sqrt v} - \tfrac{\sqrt v}{b}\bigr),

    and since the normal densities of the two terms cancel in its derivative,
    :math:`-(\log f)'(x) = \tanh\{(A(x) - A(-x))/2\}/b`: the pull of an observation
    on the model never exceeds 1/b, so that a wild draw of the noise cannot bend it.
    """
    from scipy.special import log_ndtr  # noqa: PLC0415 - slow to import

    sd = np.sqrt(variance)
    ratio, tilt = sd / scale, x / scale
    half = ratio * ratio / 2
    right = half - tilt + log_ndtr(x / sd - ratio)
    left = half + tilt + log_ndtr(-x / sd - ratio)
    density = np.logaddexp(right, left) - np.log(2 * scale)
    return density, np.tanh((right - left) / 2) / scale


def information(variance: FloatArray, scale: FloatArray) -> FloatArray:
    r"""Return the Fisher information on the mean, within 1%.

    It is :math:`1/b^2` for Laplace noise alone (v = 0) and tends to
    :math:`1/(v + 2b^2)` when the normal part is wide. Between them it follows
    :math:`1/(v + b^2 (2 - e^{-1.2 \sqrt v/b}))`, which numerical integration
    confirms. Any positive weight gives the same fit; this one makes Fisher
    scoring fast and the Laplace evidence accurate.
    """
    between = 2.0 - np.exp(-1.2 * np.sqrt(variance) / scale)
    return 1.0 / (variance + scale * scale * between)


class ModelAverage(NamedTuple):
    """The average of a release's fits, each weighted by its evidence."""

    cells: FloatArray
    """Expected counts per class, bin and sub-cell."""
    response: Response
    """How the counts per class and bin move with the released ones."""
    between: FloatArray
    """How far each fit's counts are from the average, a row a fit, times the root of its
    weight: what is not known of the smoothness (Hoeting et al. 1999)."""
    dispersion: float = 1.0
    """How many times the variance of a count exceeds its mean."""


def symmetric_average(
    counts: FloatArray, *, noise_scale: FloatArray, places: FloatVector
) -> ModelAverage | None:
    """Return the average of a release's fits, swapped or turned as the release is.

    The arguments are those of ``SplineModel``. None as in :func:`average`.
    """
    every = []
    for bins, classes in combinations((_AS_IT_IS, _REVERSED), repeat=2):
        # Copied: sums over numbers that lie backwards in memory may round otherwise.
        rows, scales = (
            np.ascontiguousarray(each[classes, bins]) for each in (counts, noise_scale)
        )
        ends = places if bins is _AS_IT_IS else 1 - places[::-1]
        every.append((_order(rows, scales, ends), rows, scales, ends, classes, bins))
    first, rows, scales, ends, *_ = min(every, key=lambda one: one[0])
    fitted = average(SplineModel(rows, noise_scale=scales, places=ends))
    if fitted is None:
        return None
    # A release that is its own mirror image has several such orientations.
    return _mean([_turned(fitted, *one[-2:]) for one in every if one[0] == first])


def _order(
    counts: FloatArray, noise_scale: FloatArray, places: FloatVector
) -> tuple[float, ...]:
    """Return the place of an orientation, of which the least is fitted.

    Positives are the rarer class, then have the higher scores; then the numbers.
    """
    ranks = np.arange(places.size - 1) - (places.size - 2) / 2
    # Exact sums, which do not depend on the order of the bins.
    low, high = (math.fsum(row) for row in counts)
    low_ranks, high_ranks = (math.fsum(row) for row in ranks * counts)
    numbers = np.concatenate([counts.ravel(), noise_scale.ravel(), places])
    return (high > low, high_ranks * low < low_ranks * high, *numbers.tolist())


def _turned(fitted: ModelAverage, classes: slice, bins: slice) -> ModelAverage:
    """Return the average for the release as it came."""
    size = fitted.cells.shape[1]
    places = np.arange(2 * size).reshape(2, size)[classes, bins].ravel()
    between = fitted.between.reshape(-1, 2, size)[:, classes, bins]
    return ModelAverage(
        np.ascontiguousarray(fitted.cells[classes, bins, bins]),
        fitted.response.ordered(places),
        between.reshape(-1, 2 * size),
        fitted.dispersion,
    )


def _mean(averages: list[ModelAverage]) -> ModelAverage:
    """Return the mean of averages, and what is between all of their fits."""
    cells = np.mean([one.cells for one in averages], axis=0)
    apart = [(one.cells - cells).sum(axis=2).reshape(1, -1) for one in averages]
    between = np.concatenate([*(one.between for one in averages), *apart])
    equal = np.full(len(averages), 1 / len(averages))
    return ModelAverage(
        cells,
        Response.mean([one.response for one in averages], equal),
        between / math.sqrt(len(averages)),
        averages[0].dispersion,
    )


def average(model: SplineModel) -> ModelAverage | None:
    """Return the average of the fits, which depends on the release alone.

    None if the counts resist the model: some fit did not converge to finite numbers.
    """
    try:
        fits = _climb(model)
        evidence = np.array([fit.log_evidence for fit in fits])
        if not np.isfinite(evidence).all():
            return None
        weights = np.exp(evidence - evidence.max())
        heavy = np.flatnonzero(weights >= _LIGHT)
        responses = [model.response(fits[k]) for k in heavy]
    except np.linalg.LinAlgError:
        return None
    every = np.array([fit.cells for fit in fits])
    shares = weights / weights.sum()
    cells = np.einsum("f,fcbs->cbs", shares, every)
    apart = (every - cells).sum(axis=3).reshape(len(fits), -1)
    between = np.sqrt(shares)[:, None] * apart
    response = Response.mean(responses, weights[heavy] / weights[heavy].sum())
    if not (np.isfinite(cells).all() and response.finite):
        return None
    spread = weights @ [np.log(fit.smoothness.dispersion) for fit in fits]
    return ModelAverage(cells, response, between, float(np.exp(spread / weights.sum())))


def _climb(model: SplineModel) -> list[SplineFit]:
    """Walk to a place of the grid whose neighbours all have less evidence.

    The likelihood bounds the pull of a count, so that a fit may leave several counts far
    off and be a maximum all the same, and fits that start there stay there. At the end of
    the walk odds that may bend are fitted once from what the counts themselves suggest;
    if that is better, the walk starts anew from it.
    """
    fits = _walk(model, _START, model.start())
    best = max(fits, key=lambda place: fits[place].log_evidence)
    bent = (best[0], min(best[1], _BENT), *best[2:])
    again = model.fit(Smoothness(*map(getitem, _GRID, bent)), model.start())
    if again.log_evidence > fits[best].log_evidence + _BETTER:
        fits = _walk(model, bent, again.theta)
    return list(fits.values())


def _walk(
    model: SplineModel, here: _Place, theta: FloatVector
) -> dict[_Place, SplineFit]:
    """Climb the evidence from a place, and from splines near its own."""
    fits: dict[_Place, SplineFit] = {}

    def evidence(place: _Place) -> float:
        nonlocal theta
        if place not in fits:
            # Each fit starts at the last one's splines: a few steps suffice.
            fit = model.fit(Smoothness(*map(getitem, _GRID, place)), theta)
            cost = _COST * sum(place[3:])
            fits[place] = replace(fit, log_evidence=fit.log_evidence - cost)
            theta = fit.theta
        return fits[place].log_evidence

    best = evidence(here)
    while True:
        around = [
            (*here[:axis], here[axis] + step, *here[axis + 1 :])
            for axis, step in combinations(range(len(_GRID)), (-1, 1))
            if 0 <= here[axis] + step < len(_GRID[axis])
        ]
        there = max(around, key=evidence)
        if not evidence(there) > best + _GAIN:
            return fits
        here, best = there, evidence(there)

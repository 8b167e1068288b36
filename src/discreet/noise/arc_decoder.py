r"""From the symbols of the arc randomiser back to class-by-bin counts.

The model is :math:`f = \mathrm{softmax}(\eta + \log w)` over the 2B cells of the
class histogram (w: the bins' widths), and the M symbols are multinomial with
probabilities :math:`g = f Q`, Q the channel. The fit maximises

.. math::
    \sum_o O_o \log g_o
        - \tfrac{\lambda_1}{2} \int \bigl(\eta^+ - \eta^-\bigr)''(z)^2\, dz
        - \tfrac{\lambda_2}{2} \int
          \bigl(\tfrac{\eta^+ + \eta^-}{2}\bigr)'''(\theta)^2\, d\theta

with divided differences for derivatives (:mod:`discreet.noise.arc_roughness`). z is the
logit of a bin's score: the log-odds of the label may be linear in it at no cost. The two
weights are set by the data, with the update of Wood and Fasiolo (2017), a generalisation
of Fellner and Schall, between steps of Fisher scoring.

Where the symbols tell little, among the few highest scores above all, log-odds go on in a
line. Rates that stop rising there do not, and no posterior of this model shows it. So the
same symbols are decoded with :math:`(\eta^+ - \eta^-)'(z)^2` in the first integral too, which
lets odds stop rising (``Decoded.constant``).

Many scores at exactly 0 or 1 are a heap that no smooth density has, and the symbols are
too noisy to show it. So where an end bin holds a tenth of all examples the level of that bin
is left free, and what the level would be were it smooth is kept beside it
(``Decoded.smooth``). An interval reaches as far as either other value, on its side.

It reads the released total only, so it costs no privacy, and it is
deterministic. The rate of positives is never forced to rise with the score.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.errors import PlanError, ReleaseError
from discreet.noise.arc import CircularArc
from discreet.noise.arc_roughness import Forms, log_widths, roughness, start
from discreet.noise.decoded_noise import DecodedNoise, Tally
from discreet.statistic.protocol import BinCounts

INFLATION: Final = 1.1
"""Factor on standard deviations, measured: the fit takes its smoothness as known."""
LEAST_SIGNAL: Final = 4.9
"""A class total below this many standard deviations makes the result unusable."""
MOST_TIED: Final = 0.03
"""A larger bound on what binning does to the AUC earns a warning; 32 bins of equal
depth have at most 1/64."""
_HEAP: Final = 0.1
"""Share of all examples from which on an end bin may hold a heap of equal scores."""
_FEWEST_HEAPED: Final = 8
"""With fewer bins every bin is an end or beside one."""
_RIDGE: Final = 1e-4
"""Weight of the squares of eta: it pins the constant that softmax ignores."""
_SMOOTHING: Final = (1e-3, 1e9)
"""Limits of the smoothing; at the upper one the log-odds are a straight line."""
_STEPS: Final = 60
_SETTLE: Final = 4
"""The smoothing is first updated in this step, when the fit is near."""
_HALVINGS: Final = 8


@dataclass(frozen=True, eq=False)
class Decoded:
    r"""Estimated counts of the pooled examples, and how far to trust them.

    ``covariance`` (negatives' bins, then positives') is that of the error about
    the pooled examples' own counts: the privacy noise and what smoothing hides,
    without the sampling of the examples. ``inside_pairs`` estimates
    :math:`\sum_b p_b n_b/(2PN)`, the most that binning can move the AUC.
    """

    counts: BinCounts
    covariance: FloatArray
    inside_pairs: float
    smoothing: tuple[float, float]
    steps: int
    tally: Tally
    constant: BinCounts
    """The counts if odds stop rising where the symbols tell little."""
    smooth: BinCounts | None = None
    """The counts as a density that is smooth up to its ends has them, where an end bin
    is so full that its level was left free."""

    @property
    def class_sd(self) -> float:
        """Standard deviation of either class total; their sum is public."""
        bins = self.counts.positives.size
        return math.sqrt(float(self.covariance[bins:, bins:].sum()))

    @property
    def refusal(self) -> str | None:
        """Refuse where the smaller class is not told apart from nothing."""
        smaller = min(float(found.sum()) for found in self.counts)
        if smaller >= LEAST_SIGNAL * self.class_sd:
            return None
        return (
            f"too little data for this epsilon: the smaller class is about "
            f"{smaller:.0f} +- {self.class_sd:.0f} examples, and a usable result "
            f"needs {LEAST_SIGNAL:g} times its noise; ask more clients or raise epsilon"
        )

    @property
    def warning(self) -> str | None:
        """Say so when the bins do not suit the scores."""
        if self.inside_pairs <= MOST_TIED:
            return None
        return (
            f"pairs inside bins may move the AUC by {self.inside_pairs:.2f}: the scores "
            "sit in few bins (ties, or scores that are not probabilities), where this "
            "decoder is no better than unary encoding; use reference edges"
        )

    @property
    def noise(self) -> DecodedNoise:
        """The law of the error, for error bars."""
        others = tuple(
            np.concatenate(o) for o in (self.constant, self.smooth) if o is not None
        )
        return DecodedNoise(self.covariance, self.tally, others)


def decode(total: IntVector, arc: CircularArc) -> Decoded:
    """Estimate the class-by-bin counts behind the tally of all symbols."""
    if len(arc.edges) < 4:
        raise PlanError(f"the decoder needs 4 bins or more, got {len(arc.edges)}")
    if total.shape != (arc.cells,) or (total < 0).any():
        raise ReleaseError(f"expected the tally of {arc.cells} symbols, none negative")
    if not total.any():
        raise ReleaseError("no client sent a symbol; there is nothing to decode")
    likelihood = _Likelihood(
        total.astype(np.float64), arc.channel(), log_widths(arc.edges)
    )
    first = start(arc.edges)
    fit = _maximise(likelihood, roughness(arc.edges, "line"), first)
    smooth, heaps = None, (False, False)
    ends = fit.cells.reshape(2, -1).sum(axis=0)[[0, -1]] >= _HEAP
    if ends.any() and len(arc.edges) >= _FEWEST_HEAPED:
        smooth, heaps = likelihood.counts(fit), (bool(ends[0]), bool(ends[1]))
        forms = roughness(arc.edges, "line", first=heaps[0], last=heaps[1])
        fit = _maximise(likelihood, forms, first)
    forms = roughness(arc.edges, "constant", first=heaps[0], last=heaps[1])
    other = _maximise(likelihood, forms, first)
    counts = likelihood.counts(fit)
    pairs = 2 * counts.negatives.sum() * counts.positives.sum()
    return Decoded(
        counts,
        INFLATION**2 * _error_covariance(likelihood, fit),
        float(counts.negatives @ counts.positives / pairs),
        fit.smoothing,
        fit.steps,
        Tally(likelihood.seen, likelihood.channel),
        likelihood.counts(other),
        smooth,
    )


@dataclass(frozen=True, eq=False)
class _Likelihood:
    """Multinomial counts of symbols through a known channel."""

    seen: FloatVector
    channel: FloatArray
    offset: FloatVector

    @property
    def clients(self) -> float:
        return float(self.seen.sum())

    def cells(self, eta: FloatVector) -> FloatVector:
        raised = np.exp(eta + self.offset - (eta + self.offset).max())
        shares: FloatVector = raised / raised.sum()
        return shares

    def counts(self, fit: _Fit) -> BinCounts:
        return BinCounts(*np.split(self.clients * fit.cells, 2))

    def value(self, cells: FloatVector) -> float:
        return float(self.seen @ np.log(cells @ self.channel))

    def scores(self, cells: FloatVector) -> FloatArray:
        r"""Return :math:`\partial \log g_o/\partial \eta_x`, a column a symbol."""
        symbols = cells @ self.channel
        each: FloatArray = cells[:, None] * (self.channel / symbols - 1)
        return each

    def information(self, cells: FloatVector) -> FloatArray:
        """Return Fisher's information about eta."""
        each = self.scores(cells)
        found: FloatArray = (each * (self.clients * (cells @ self.channel))) @ each.T
        return found


class _Fit(NamedTuple):
    cells: FloatVector
    penalty: FloatArray
    smoothing: tuple[float, float]
    steps: int


def _maximise(likelihood: _Likelihood, forms: Forms, eta: FloatVector) -> _Fit:
    """Fisher scoring with halved steps; the smoothing follows from step to step."""
    identity = np.eye(eta.size)
    smoothing = (100.0, 100.0)
    cells = likelihood.cells(eta)
    penalty = _weighted(forms, smoothing)
    step = 0
    for step in range(1, _STEPS + 1):
        each = likelihood.scores(cells)
        curvature = likelihood.information(cells) + penalty
        # A trace of the identity: eta is free up to a constant.
        curvature += 1e-9 * np.trace(curvature) / eta.size * identity
        spread: FloatArray = np.linalg.inv(curvature).astype(np.float64, copy=False)
        gradient: FloatVector = each @ likelihood.seen - penalty @ eta
        move = _climb(likelihood, penalty, eta, spread @ gradient)
        eta = eta + move
        cells = likelihood.cells(eta)
        if step < _SETTLE:
            continue
        wanted = _smoother(forms, smoothing, eta, spread)
        ratio = np.log(wanted) - np.log(smoothing)
        bounded = np.exp(np.log(smoothing) + np.clip(ratio, -math.log(5), math.log(5)))
        smoothing = (float(bounded[0]), float(bounded[1]))
        penalty = _weighted(forms, smoothing)
        if np.abs(move).max() < 2e-3 and np.abs(ratio).max() < 0.08:
            break
    return _Fit(cells, penalty, smoothing, step)


def _climb(
    likelihood: _Likelihood, penalty: FloatArray, eta: FloatVector, move: FloatVector
) -> FloatVector:
    """Shorten a step until it does not lead down; no step if none is found."""

    def height(at: FloatVector) -> float:
        return likelihood.value(likelihood.cells(at)) - float(at @ penalty @ at) / 2

    # A cell's share changes by no more than e^2 = 7.4 in one step.
    move = move * (2.0 / max(2.0, float(np.abs(move - move.mean()).max())))
    least = height(eta) - 1e-7
    for halvings in range(_HALVINGS):
        shorter: FloatVector = move * 0.5**halvings
        if height(eta + shorter) >= least:
            return shorter
    return np.zeros_like(move)


def _smoother(
    forms: Forms,
    smoothing: tuple[float, float],
    eta: FloatVector,
    spread: FloatArray,
) -> FloatVector:
    r"""Return :math:`\lambda' = (r - \lambda\,\mathrm{tr}(V S))/\eta^T S \eta` for each form.

    The update of Wood and Fasiolo (2017): r is the rank of S, V the posterior
    covariance of eta.
    """
    found = [
        max(form.rank - weight * float((spread * form.matrix).sum()), 1e-3)
        / max(float(eta @ form.matrix @ eta), 1e-9)
        for form, weight in zip(forms, smoothing, strict=True)
    ]
    within: FloatVector = np.clip(found, *_SMOOTHING)
    return within


def _weighted(forms: Forms, smoothing: tuple[float, float]) -> FloatArray:
    odds, density = forms
    matrix: FloatArray = smoothing[0] * odds.matrix + smoothing[1] * density.matrix
    return matrix + _RIDGE * np.eye(matrix.shape[0])


def _error_covariance(likelihood: _Likelihood, fit: _Fit) -> FloatArray:
    r"""Return the covariance of the counts' error about the pooled counts.

    Three parts, with J the Jacobian of f, A the penalised information and K the
    penalty: the randomisers' noise passed through the fit; the roughness that
    the penalty hides, :math:`J A^{-1} K A^{-1} J` (the Bayesian part of a
    smoother's variance, Marra and Wood 2012); and the part of the sample's own
    scatter :math:`J/M` that the fit does not follow.
    """
    f, channel, clients = fit.cells, likelihood.channel, likelihood.clients
    symbols = f @ channel
    jacobian = np.diag(f) - np.outer(f, f)
    through = jacobian @ np.linalg.inv(likelihood.information(f) + fit.penalty)
    each = likelihood.scores(f)
    randomised = clients * (np.diag(symbols) - (channel.T * f) @ channel)
    hidden = through @ (each @ randomised @ each.T + fit.penalty) @ through.T
    missed = clients * through @ each @ channel.T - np.eye(f.size)
    scatter = missed @ jacobian @ missed.T / clients
    whole: FloatArray = clients**2 * (hidden + scatter)
    return (whole + whole.T) / 2

r"""From the symbols of the arc randomiser back to class-by-bin counts.

The model is :math:`f = \mathrm{softmax}(\eta + \log w)` over the 2B cells of the
class histogram (w: the bins' widths), and the M symbols are multinomial with
probabilities :math:`g = f Q`, Q the channel. The fit maximises

.. math::
    \sum_o O_o \log g_o
        - \tfrac{\lambda_1}{2} \int \bigl(\eta^+ - \eta^-\bigr)''(z)^2\, dz
        - \tfrac{\lambda_2}{2} \int
          \bigl(\tfrac{\eta^+ + \eta^-}{2}\bigr)'''(\theta)^2\, d\theta

with divided differences for derivatives. z is the logit of a bin's score: log-odds of the
label that are linear in it are free, so a classifier off by Platt scaling costs nothing.
:math:`\theta = \arcsin\sqrt u`, with u the bin's place in warped (0, 1): a quadratic
log-density is free. The data set the two weights, by the update of Wood and Fasiolo (2017)
between steps of Fisher scoring.

Two further decodings show what this model cannot. Where the symbols tell little, log-odds
go on in a line, even if rates stop rising: with :math:`(\eta^+ - \eta^-)'(z)^2` in the
first integral only constant odds are free. A heap of scores at 0 or 1 is no smooth
density: where an end bin holds a tenth of all examples its level is left free, and the
smooth level is kept beside it. An interval reaches as far as either other value, on its
side.

The decoder is deterministic and uses the released total only, so it costs no privacy. The
rate of positives is never forced to rise with the score.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.data.edges import Edges, unit_edges
from discreet.errors import PlanError, ReleaseError
from discreet.noise.arc import CircularArc
from discreet.noise.mechanism import NoisyCounts
from discreet.statistic.observed import BinCovariance

INFLATION: Final = 1.1
"""Factor on standard deviations, measured: the fit takes its smoothness as known."""
LEAST_SDS: Final = 4.9
"""A class total below this many standard deviations makes the result unusable."""
MOST_TIED: Final = 0.03
"""A larger bound on what binning does to the AUC earns a warning; 32 bins of equal
depth have at most 1/64."""
WARP: Final = 1.5
"""Exponent of the bins' places u; the default edges are even in it."""
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
_REFITS: Final = 60
"""After so many steps only what the emptied bins cannot explain is left."""
_TRACE: Final = 1e-6
"""Added to every count, so that none is empty by rounding."""
_LEAST_SEEN: Final = 20
"""With fewer reports a symbol on average nothing is said of impossible totals."""
_ROUNDS: Final = 20
_ODD: Final = 5.0
"""Normal deviate beyond which totals are called impossible: about 3 in 10 million."""


def _farthest(symbols: int) -> float:
    """Return the chi-squared quantile of the deviate (Wilson and Hilferty 1931)."""
    freedom = symbols - 1
    ninth = 2.0 / (9.0 * freedom)
    return float(freedom * (1.0 - ninth + _ODD * math.sqrt(ninth)) ** 3)


class Tally(NamedTuple):
    """What was sent: the number of each symbol, and the channel it came through."""

    seen: FloatVector
    channel: FloatArray

    def refitted(self, cells: FloatArray) -> FloatArray:
        """Lead each row of shares towards the likeliest; empty cells stay empty.

        Steps of expectation and maximisation (Dempster, Laird and Rubin 1977).
        """
        cells = cells / cells.sum(axis=1, keepdims=True)
        shares = self.seen / self.seen.sum()
        for _ in range(_REFITS):
            cells = cells * ((shares / (cells @ self.channel)) @ self.channel.T)
        return cells

    def value(self, cells: FloatArray) -> FloatVector:
        """Return the log-likelihood of each row of shares."""
        value: FloatVector = np.log(cells @ self.channel) @ self.seen
        return value


@dataclass(frozen=True, eq=False)
class DecodedNoise:
    """The errors of decoded counts: close to normal, correlated over all cells.

    A fit may ask how much worse other counts would explain what was sent (``tally``).
    """

    matrix: FloatArray
    tally: Tally
    otherwise: tuple[FloatVector, ...] = ()
    """Counts that another smoothness finds in what was sent: those of odds that may stop
    rising, then those of a density that is smooth up to its ends, where one was not."""
    response: FloatArray | None = None
    """How the counts move with the number of each symbol, the smoothing held: a row a
    count, a column a symbol."""

    @property
    def class_sd(self) -> float:
        """Standard deviation of either class total; their sum is public."""
        bins = len(self.matrix) // 2
        return math.sqrt(float(self.matrix[bins:, bins:].sum()))

    @property
    def scale(self) -> float:
        """The root mean square error of a cell."""
        return math.sqrt(float(np.diag(self.matrix).mean()))

    def covariance(self, at: FloatVector) -> BinCovariance:
        """Return the part within each bin."""
        bins = at.size // 2
        each = np.diag(self.matrix)
        return BinCovariance(
            each[:bins], each[bins:], np.diag(self.matrix[:bins, bins:])
        )

    def sample(
        self, at: FloatVector, size: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draw simulated errors."""
        mean = np.zeros(at.size)
        return rng.multivariate_normal(mean, self.matrix, size, method="eigh")

    def lost_without(self, counts: FloatVector, held: NDArray[np.bool_]) -> FloatVector:
        """Return twice the log-likelihood lost if only ``held`` bins hold examples.

        A row of ``held`` a question; the decoded counts, and those with emptied bins,
        are first refitted alike.
        """
        every = np.ones((1, counts.size // 2), dtype=np.bool_)
        kept = np.tile(np.concatenate([every, held]), 2)
        cells = np.where(kept, np.maximum(counts, 0.0) + _TRACE, 0.0)
        value = self.tally.value(self.tally.refitted(cells))
        lost: FloatVector = 2 * (value[0] - value[1:])
        return lost


def decode(total: IntVector, arc: CircularArc) -> NoisyCounts:
    r"""Estimate the class-by-bin counts behind the tally of all symbols.

    The noise's covariance is that of the error about the pooled examples' own counts: the
    privacy noise and what smoothing hides, without the sampling of the examples. The
    estimate is refused where the smaller class is not told apart from nothing, and has a
    note where :math:`\sum_b p_b n_b/(2PN)`, the most that binning can move the AUC, is large.
    """
    edges = arc.edges
    if len(edges) < 4:
        raise PlanError(f"the decoder needs 4 bins or more, got {len(edges)}")
    if total.shape != (arc.cells,) or (total < 0).any():
        raise ReleaseError(f"expected the tally of {arc.cells} symbols, none negative")
    if not total.any():
        raise ReleaseError("no client sent a symbol; there is nothing to decode")
    places = _places(edges)
    tally = Tally(total.astype(np.float64), arc.channel())
    offset = np.tile(np.log(np.diff(places) * len(edges)), 2)
    likelihood = _Likelihood(tally, offset)
    centres: FloatVector = (places[1:] + places[:-1]) / 2
    fit = _maximise(likelihood, centres, _LINE, slice(None))
    smooth, kept = [], slice(None)
    ends = fit.cells.reshape(2, -1).sum(axis=0)[[0, -1]] >= _HEAP
    if ends.any() and len(edges) >= _FEWEST_HEAPED:
        smooth.append(likelihood.clients * fit.cells)
        kept = slice(int(ends[0]), len(edges) - int(ends[1]))
        fit = _maximise(likelihood, centres, _LINE, kept)
    constant = _maximise(likelihood, centres, _CONSTANT, kept)
    counts = likelihood.clients * fit.cells
    matrix, response = _errors(likelihood, fit)
    others = (likelihood.clients * constant.cells, *smooth)
    noise = DecodedNoise(INFLATION**2 * matrix, tally, others, response)
    notes = (*_impossible(tally), *_notes(counts))
    return NoisyCounts(counts, noise, _refusal(counts, noise), notes)


def _impossible(tally: Tally) -> tuple[str, ...]:
    r"""Warn of a tally that no examples give, whatever they are.

    Through the channel every population gives symbols with probabilities in a convex set.
    The likelihood-ratio statistic of the nearest of them against the tally's own shares
    is at most a chi-squared variable with one degree of freedom fewer than symbols. The
    steps of expectation and maximisation may stop short: by the gradient's largest entry
    the log-likelihood of the best population is at most so much higher, and that is
    taken off.
    """
    seen, channel = tally.seen, tally.channel
    clients, symbols = float(seen.sum()), seen.size
    if clients < _LEAST_SEEN * symbols:
        return ()
    cells, lacking = np.full((1, symbols), 1.0 / symbols), math.inf
    for _ in range(_ROUNDS):
        cells = tally.refitted(cells)
        gradient = (seen / (cells[0] @ channel)) @ channel.T
        lacking = float(gradient.max()) - clients
        if lacking < 1.0:
            break
    own = float(seen[seen > 0] @ np.log(seen[seen > 0] / clients))
    apart = 2 * (own - float(tally.value(cells)[0]) - max(lacking, 0.0))
    if apart <= _farthest(symbols):
        return ()
    warning = (
        "no honest population gives these totals, whatever its scores and labels: at "
        "least some reports are false, were changed or are of other parameters"
    )
    return (warning,)


def _refusal(counts: FloatVector, noise: DecodedNoise) -> str | None:
    smaller = min(float(half.sum()) for half in np.split(counts, 2))
    if smaller >= LEAST_SDS * noise.class_sd:
        return None
    return (
        f"too little data for this epsilon: the smaller class is about "
        f"{smaller:.0f} +- {noise.class_sd:.0f} examples, and a usable result "
        f"needs {LEAST_SDS:g} times its noise; ask more clients or raise epsilon"
    )


def _notes(counts: FloatVector) -> tuple[str, ...]:
    negatives, positives = np.split(counts, 2)
    tied = float(negatives @ positives / (2 * negatives.sum() * positives.sum()))
    if tied <= MOST_TIED:
        return ()
    warning = (
        f"pairs inside bins may move the AUC by {tied:.2f}: the scores "
        "sit in few bins (ties, or scores that are not probabilities), where this "
        "decoder is no better than unary encoding; use reference edges"
    )
    return (warning,)


def _places(edges: Edges) -> FloatVector:
    """Return the edges in warped (0, 1); by number where scores are no probabilities."""
    if edges.atoms or edges.scores.kind == "other":
        return np.arange(len(edges) + 1) / len(edges)
    s = unit_edges(edges)
    up, down = s ** (1 / WARP), (1 - s) ** (1 / WARP)
    places: FloatVector = up / (up + down)
    return places


class _Form(NamedTuple):
    """A quadratic form on eta, scaled to a mean diagonal of 1, and its rank."""

    matrix: FloatArray
    rank: int

    @classmethod
    def of(cls, rows: FloatArray) -> _Form:
        """Return the sum of the squares of rows times eta, scaled."""
        square = rows.T @ rows
        return cls(square * (square.shape[0] / np.trace(square)), rows.shape[0])


_Forms: TypeAlias = tuple[_Form, _Form]
"""The roughness of the log-odds, and of the log-density."""
_LINE: Final = 2
_CONSTANT: Final = 1
"""The derivative of the log-odds that is charged: a line is free, or a constant."""


def _roughness(centres: FloatVector, z: FloatVector, order: int, kept: slice) -> _Forms:
    """Return both forms; the density's is of the ``kept`` bins."""
    one = np.eye(centres.size)
    odds = _derivative(z, order) @ np.hstack([-one, one])
    angle = np.arcsin(np.sqrt(centres))
    density = _derivative(angle[kept], 3) @ np.hstack([one[kept], one[kept]]) / 2
    return _Form.of(odds), _Form.of(density)


def _derivative(x: FloatVector, order: int) -> FloatArray:
    r"""Return rows whose squares add up to :math:`\int f^{(k)}(x)^2 dx`."""
    rows = np.eye(x.size)
    for k in range(1, order + 1):
        rows = np.diff(rows, axis=0) * (k / (x[k:] - x[:-k]))[:, None]
    scaled: FloatArray = rows * np.sqrt((x[order:] - x[:-order]) / order)[:, None]
    return scaled


@dataclass(frozen=True, eq=False)
class _Likelihood:
    """Multinomial counts of symbols through a known channel."""

    tally: Tally
    offset: FloatVector

    @property
    def clients(self) -> float:
        return float(self.tally.seen.sum())

    def cells(self, eta: FloatVector) -> FloatVector:
        raised = np.exp(eta + self.offset - (eta + self.offset).max())
        shares: FloatVector = raised / raised.sum()
        return shares

    def scores(self, cells: FloatVector) -> FloatArray:
        r"""Return :math:`\partial \log g_o/\partial \eta_x`, a column a symbol."""
        channel = self.tally.channel
        each: FloatArray = cells[:, None] * (channel / (cells @ channel) - 1)
        return each

    def information(self, cells: FloatVector) -> FloatArray:
        """Return Fisher's information about eta."""
        each = self.scores(cells)
        expected = self.clients * (cells @ self.tally.channel)
        matrix: FloatArray = (each * expected) @ each.T
        return matrix


class _CellFit(NamedTuple):
    cells: FloatVector
    penalty: FloatArray


def _maximise(
    likelihood: _Likelihood, centres: FloatVector, order: int, kept: slice
) -> _CellFit:
    """Fisher scoring with halved steps; the smoothing follows from step to step."""
    z: FloatVector = WARP * np.log(centres / (1 - centres))
    forms = _roughness(centres, z, order, kept)
    # Log-odds that rise with the score at half the rate of a calibrated model.
    eta: FloatVector = np.concatenate([-z, z]) / 4 - math.log(2 * z.size)
    identity = np.eye(eta.size)
    smoothing = (100.0, 100.0)
    cells = likelihood.cells(eta)
    penalty = _weighted(forms, smoothing)
    for step in range(1, _STEPS + 1):
        each = likelihood.scores(cells)
        curvature = likelihood.information(cells) + penalty
        # A trace of the identity: eta is free up to a constant.
        curvature += 1e-9 * np.trace(curvature) / eta.size * identity
        spread: FloatArray = np.linalg.inv(curvature).astype(np.float64, copy=False)
        gradient: FloatVector = each @ likelihood.tally.seen - penalty @ eta
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
    return _CellFit(cells, penalty)


def _climb(
    likelihood: _Likelihood, penalty: FloatArray, eta: FloatVector, move: FloatVector
) -> FloatVector:
    """Shorten a step until it does not lead down; no step if none is found."""

    def height(at: FloatVector) -> float:
        value = float(likelihood.tally.value(likelihood.cells(at)))
        return value - float(at @ penalty @ at) / 2

    # A cell's share changes by no more than e^2 = 7.4 in one step.
    move = move * (2.0 / max(2.0, float(np.abs(move - move.mean()).max())))
    least = height(eta) - 1e-7
    for halvings in range(_HALVINGS):
        shorter: FloatVector = move * 0.5**halvings
        if height(eta + shorter) >= least:
            return shorter
    return np.zeros_like(move)


def _smoother(
    forms: _Forms, smoothing: tuple[float, float], eta: FloatVector, spread: FloatArray
) -> FloatVector:
    r"""Return :math:`\lambda' = (r - \lambda\,\mathrm{tr}(V S))/\eta^T S \eta` for each form.

    The update of Wood and Fasiolo (2017): r is the rank of S, V the posterior
    covariance of eta.
    """
    wanted = [
        max(form.rank - weight * float((spread * form.matrix).sum()), 1e-3)
        / max(float(eta @ form.matrix @ eta), 1e-9)
        for form, weight in zip(forms, smoothing, strict=True)
    ]
    within: FloatVector = np.clip(wanted, *_SMOOTHING)
    return within


def _weighted(forms: _Forms, smoothing: tuple[float, float]) -> FloatArray:
    odds, density = forms
    matrix: FloatArray = smoothing[0] * odds.matrix + smoothing[1] * density.matrix
    return matrix + _RIDGE * np.eye(matrix.shape[0])


def _errors(likelihood: _Likelihood, fit: _CellFit) -> tuple[FloatArray, FloatArray]:
    r"""Return the covariance of the counts' error, and how counts move with symbols.

    The error is that about the pooled counts.

    Three parts, with J the Jacobian of f, A the penalised information and K the
    penalty: the randomisers' noise passed through the fit; the roughness that
    the penalty hides, :math:`J A^{-1} K A^{-1} J` (the Bayesian part of a
    smoother's variance, Marra and Wood 2012); and the part of the sample's own
    scatter :math:`J/M` that the fit does not follow.
    """
    f, channel, clients = fit.cells, likelihood.tally.channel, likelihood.clients
    symbols = f @ channel
    jacobian = np.diag(f) - np.outer(f, f)
    through = jacobian @ np.linalg.inv(likelihood.information(f) + fit.penalty)
    each = likelihood.scores(f)
    randomised = clients * (np.diag(symbols) - (channel.T * f) @ channel)
    hidden = through @ (each @ randomised @ each.T + fit.penalty) @ through.T
    missed = clients * through @ each @ channel.T - np.eye(f.size)
    scatter = missed @ jacobian @ missed.T / clients
    whole: FloatArray = clients**2 * (hidden + scatter)
    response: FloatArray = clients * through @ each
    return (whole + whole.T) / 2, response

r"""Weighted counts: one metric and the class count behind it, at one epsilon.

Two integers are released, each with discrete Laplace noise of scale
:math:`\Delta/\varepsilon`:

.. math:: Q = \mathrm{round}\big((A - \tfrac12)\, w(n)\big), \qquad G = g(n),

A the metric, n the private number of positives, w a public integer weight per n.
g grows with n by what Q leaves of the joint L1 sensitivity,
:math:`g(n+1) - g(n) = \Delta - \max|\Delta Q|`: so the budget is not split. The
reader finds n from G, then :math:`A = \tfrac12 + Q/w(n)`.

**Proof** that (Q, G) has L1 sensitivity :math:`\Delta`. An example that moves in
the ranking and keeps its class leaves G alone and changes the real Q by at most
w(n) times the metric's sensitivity to moves; rounding two numbers adds at most 1
to their distance, and the tables keep the sum within :math:`\Delta`. An example
that changes its class takes n to n + 1 or back: G changes by the table's step,
which is what the largest change of the rounded Q leaves of :math:`\Delta`. All
this is integer arithmetic on the table, except the harmonic numbers of average
precision, for which a few more grid steps are set aside.

For **AUC** the largest change of the real Q from n to n + 1 is, for any weights,

.. math::
    \max\Big\{\frac{w_1 - w_0}{2} + \frac{w_0}{m},\
              \frac{w_0 - w_1}{2} + \frac{w_1}{n+1}\Big\}.

With C pairs won by the n positives over the m - 1 other negatives,
:math:`Q' - Q = C(\alpha_1 - \alpha_0) + \alpha_1 v - \alpha_0 u - (w_1-w_0)/2`,
where :math:`\alpha_0 = w_0/(nm)`, :math:`\alpha_1 = w_1/((n+1)(m-1))`,
:math:`0 \le C \le n(m-1)`, :math:`0 \le u \le n`, :math:`0 \le v \le m-1`: take C
at its ends. Ties, whichever way they count, stay within these limits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.curator.ranking import Ranking, ap_positive_moved, ap_relabelled
from discreet.data.examples import BATCH_ROWS
from discreet.entropy import Entropy
from discreet.errors import PlanError
from discreet.noise.laplace import discrete_laplace, simulate_discrete_laplace

UNIT: Final = 2**20
"""Grid steps in a joint L1 sensitivity of 1."""
_SCALE_BITS: Final = 38
"""Numerators of a noise scale, which the exact sampler takes up to 2^40."""
_AP_SLACK: Final = 4
"""Grid steps set aside: 1 for rounding Q, the others for the floats in AP and in f.
AP is good to 2^-47 of itself and w(n) is below 2^47 steps up to 2^31 rows: less than
one step for each of two neighbours; f costs far less."""


@dataclass(frozen=True, eq=False)
class WeightTable:
    """Public weights w(0 .. M) and codes g(0 .. M), integers.

    ``l1`` is the joint sensitivity of (Q, G) for one row replaced.
    """

    weights: IntVector
    codes: IntVector
    l1: int

    def __post_init__(self) -> None:
        if self.weights.shape != self.codes.shape or self.weights[0] != 0:
            raise PlanError("a weight table starts at 0 and has a code a count")
        if (np.diff(self.codes) <= 0).any():
            raise PlanError("the codes of a weight table must increase")

    def scale(self, epsilon: Fraction) -> Fraction:
        """Return the noise's scale, l1/epsilon rounded up to few digits.

        >>> WeightTable(np.arange(2), np.arange(2), 10).scale(Fraction(1, 3))
        Fraction(30, 1)
        """
        exact = self.l1 / epsilon
        bits = _SCALE_BITS - math.ceil(exact).bit_length()
        if bits < 0:
            raise PlanError("epsilon is too small for this many rows; raise it")
        return Fraction(math.ceil(exact * 2**bits), 2**bits)

    def counts_of(self, codes: FloatVector) -> FloatVector:
        """Return the number of positives that belongs to (noisy) codes."""
        above = np.clip(np.searchsorted(self.codes, codes), 1, self.codes.size - 1)
        low, high = self.codes[above - 1], self.codes[above]
        inside = np.clip((codes - low) / (high - low), 0.0, 1.0)
        counts: FloatVector = above - 1 + inside
        return counts

    def weights_of(self, counts: FloatVector) -> FloatVector:
        """Return the weights at (fractional) counts."""
        below = np.clip(counts.astype(np.int64), 0, self.weights.size - 2)
        low, high = self.weights[below], self.weights[below + 1]
        weights: FloatVector = low + (high - low) * (counts - below)
        return weights


def protect(
    ranking: Ranking,
    value: Fraction,
    table: WeightTable,
    epsilon: Fraction,
    entropy: Entropy,
) -> IntVector:
    """Return (Q, G) of a metric's exact value, with noise."""
    n = ranking.positives
    exact = round((value - Fraction(1, 2)) * int(table.weights[n]))
    noise = discrete_laplace(table.scale(epsilon), 2, entropy)
    return np.array([exact, int(table.codes[n])]) + noise


@lru_cache(maxsize=2)
def auc_weights(rows: int, left: Fraction = Fraction(1, 4)) -> WeightTable:
    r"""Return the weights for AUC: as large as what is left for G allows.

    With a share k of the L1 ``left`` for G, w = n (as large as moves allow) up to
    :math:`n_0 = M(\frac12-k)/(\frac32-k)`. From there on w grows while Q changes by
    at most 1 - k: :math:`w_{n+1} = w_n(1 - 2/m) + 2(1-k)`, whose solution from
    :math:`(n_0, m_0)` is

    .. math::
        w_n = \frac{m(m-1)}{m_0(m_0-1)}\,n_0
              + 2(1-k)\,m\Big(1 - \frac{m-1}{m_0-1}\Big),

    and w(M - n) = w(n). A quarter is a compromise (``bench/curator.py``): with less,
    n is too poorly known to divide by w(n), which trebles the error at 30%
    positives; with more, w is smaller at equal classes.
    """
    if not 0 < left < Fraction(1, 2):
        raise PlanError("the share left for the count lies between 0 and 1/2")
    half = rows // 2
    weights = np.empty(rows + 1, dtype=np.int64)
    for part in _parts(half + 1):
        weights[part] = _rising(part, rows, left)
    weights[rows - half :] = weights[: half + 1][::-1]
    return auc_table(weights, UNIT)


def _rising(part: slice, rows: int, left: Fraction) -> IntVector:
    """Return the weights at some counts up to M/2, in whole grid steps."""
    n = np.arange(part.start, part.stop)
    m = rows - n
    start = int(rows * (Fraction(1, 2) - left) / (Fraction(3, 2) - left))
    rest = max(rows - start, 2)
    grown = m * (m - 1.0) / (rest * (rest - 1.0)) * start
    grown += 2.0 * float(1 - left) * m * (1.0 - (m - 1.0) / (rest - 1.0))
    w = np.where(n <= start, n, np.minimum(grown, np.minimum(n, m)))
    # UNIT - 1: rounding Q may add one step to what a move changes.
    weights: IntVector = np.floor(w * (UNIT - 1)).astype(np.int64)
    return weights


def auc_table(weights: IntVector, l1: int) -> WeightTable:
    """Complete weights for AUC by the codes that keep the joint sensitivity.

    Integer arithmetic throughout: with Q rounded, a class change moves it by at
    most the floor of the real bound plus 1.
    """
    rows = weights.size - 1
    codes = np.zeros(rows + 1, dtype=np.int64)
    for part in _parts(rows):
        n = np.arange(part.start, part.stop)
        m = rows - n
        w0, w1 = weights[part], weights[part.start + 1 : part.stop + 1]
        if (w0 // np.maximum(np.minimum(n, m), 1) + 1 > l1).any():
            raise PlanError("these weights exceed the sensitivity when examples move")
        step = w1 - w0
        up = (m * step + 2 * w0) // (2 * m)
        down = (2 * w1 - (n + 1) * step) // (2 * (n + 1))
        codes[part.start + 1 : part.stop + 1] = l1 - 1 - np.maximum(up, down)
    return WeightTable(weights, np.cumsum(codes, out=codes), l1)


def _parts(size: int) -> Iterator[slice]:
    """Cut a range into pieces that stay in the processor's cache."""
    for start in range(0, size, BATCH_ROWS):
        yield slice(start, min(start + BATCH_ROWS, size))


@lru_cache(maxsize=2)
def pair_count_weights(rows: int) -> WeightTable:
    r"""Return the plain weights w = 2nm, for which Q = 2U - nm is an integer.

    With g = nM the joint sensitivity is 2M - 1, without rounding: a class change
    moves Q by at most :math:`(m-1-n) + 2n = M - 1` (and the same the other way)
    and G by M; a move changes Q by at most 2 max(n, m) <= 2M - 2. No table is
    needed to explain it; it loses up to a half to ``auc_weights``.
    """
    n = np.arange(rows + 1, dtype=np.int64)
    return WeightTable(2 * n * (rows - n), n * rows, 2 * rows - 1)


@lru_cache(maxsize=2)
def ap_weights(rows: int) -> WeightTable:
    r"""Return the weights for average precision; an eighth of the L1 is for G.

    From n to n + 1 Q changes by at most :math:`|w_1-w_0|/2 + \min(w_0,w_1) f(n+1)`,
    f of ``sensitivity``, because |A - 1/2| <= 1/2. With r the relative step of 1/f,
    :math:`w = \frac78/(f(n+1) + r/2)` keeps that near 7/8; moves cap it at
    :math:`1/\max\{f(n+1), g(n)\}`.
    """
    f = ap_relabelled(np.arange(1, rows + 3))
    now, following = f[:-1], f[1:]
    w = 0.875 / (now + 0.5 * (now / following - 1.0))
    move = np.maximum(now, ap_positive_moved(np.arange(rows + 1)))
    w = np.minimum(np.minimum(w, 1.0 / move), np.arange(rows + 1))
    weights = np.floor(w * (UNIT - _AP_SLACK)).astype(np.int64)
    w0, w1 = weights[:-1], weights[1:]
    change = np.abs(w1 - w0) / 2 + np.minimum(w0, w1) * now[:-1]
    steps = UNIT - (np.floor(change).astype(np.int64) + _AP_SLACK)
    return WeightTable(weights, np.append(0, np.cumsum(steps)), UNIT)


def simulate_weighted_count(
    value: float,
    positives: int,
    table: WeightTable,
    epsilon: float,
    size: int,
    rng: np.random.Generator,
) -> FloatVector:
    """Draw released values, cut to 0 .. 1: for benchmarks and audits, never secret."""
    weighted = round((value - 0.5) * int(table.weights[positives]))
    noise = simulate_discrete_laplace(table.l1 / epsilon, (2, size), rng)
    weights = table.weights_of(table.counts_of(table.codes[positives] + noise[1]))
    quotient = np.divide(
        weighted + noise[0], weights, out=np.zeros(size), where=weights > 0
    )
    values: FloatVector = np.clip(0.5 + quotient, 0.0, 1.0)
    return values

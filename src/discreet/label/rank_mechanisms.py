r"""The mechanisms by name: from an option and a site's public facts to what is released.

Ours, for a pure epsilon:

- *endpoint*: with w running from 0 at a site's lowest rank to 1 at its highest one,
  release :math:`W_1 = \sum w_i y_i` and :math:`W_0 = \sum (1 - w_i) y_i`. A flipped
  label moves them by w and 1 - w: by exactly 1 *together*, in L1. So each gets noise
  for the whole epsilon, and :math:`P = W_1 + W_0`,
  :math:`S = r_{max} W_1 + r_{min} W_0`.
- *slack*: with a centre c', :math:`T = S - c'P` moves by :math:`|r - c'|`, at most d,
  reached at the far end of the site's ranks. An example near the centre leaves most
  of the budget unused; a second sum takes it up. Release :math:`(1 - \tau)\,T/d` and
  :math:`\sum b(r_i)\,y_i`, b linear with :math:`b(far) = \tau` and
  :math:`b(near) = 1 - (1-\tau)\,d_n/d`, where d_n is the distance of the near end.
  Each gets noise for the whole epsilon: the joint L1 move
  :math:`(1-\tau)|r - c'|/d + b(r)` is 1 at both ends, and convex between them. The
  endpoint mechanism is the case c' = lowest rank, tau = 0.
- *staircase*: T gets staircase noise for a share of epsilon. P is an integer that
  moves by 1, for which discrete Laplace noise *is* the best staircase, and gets the
  rest. At large epsilon both have far less variance than Laplace noise on the reals.

Those of Sun et al. (2022), section 5, also with Gaussian noise when there is a delta:

- *global* (section N): every site takes M - 1 as the sensitivity of S.
- *local* (section 5.2): a site takes its own greatest rank. Both split the budget, a
  share alpha for S and the rest for P.
- *orthogonal* (section 5.3): :math:`r = u' + v'` with u' the site's mean rank; P gets
  a share beta and :math:`V = \sum v'_i y_i` the rest, and :math:`S = u' P + V`, so
  that the draw for P serves both sums.
- the *adaptive* share: beta of the least variance of S,
  :math:`u^{2/3}/(u^{2/3} + v^{2/3})` for Laplace noise, with u and v the largest
  entries of u' and v'. For Gaussian noise the same argument gives u/(u + v).

The paper's noise is real-valued. Here the weights are integers on a grid so fine that
the law is the same to three digits. A share of a Gaussian budget is a share of
:math:`\mu^2`, which wastes nothing. Where all ranks of a site agree one count gives
both sums and gets everything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from typing import Annotated, Final

from discreet.codec.messages import Choice, Number
from discreet.errors import PlanError
from discreet.label.midranks import RankFacts
from discreet.label.released_sums import (
    Budget,
    LinearSums,
    ResponseSums,
    Row,
    SiteMechanism,
)
from discreet.label.sum_noise import (
    GaussianSumNoise,
    LaplaceSumNoise,
    StaircaseSumNoise,
    calibrated_mu,
    drawable,
)
from discreet.privacy.loss import ApproxDP, PureDP
from discreet.statistic.rank_sums import SHARE_STEPS

CENTRE_STEPS: Final = 8
"""Centres of ranks are multiples of an eighth of a doubled rank."""
FINE: Final = 2**16
"""The least weight of the heaviest example: noise is then nearly continuous."""
_GRID: Final = 2**30
"""The weight of the far end is at least this: the slope of b is rounded on it."""


class Kind(IntEnum):
    """The mechanisms, as they are numbered on the wire."""

    NOTHING = 0
    RESPONSE = 1
    RESPONSE_LABELS = 2
    GLOBAL = 3
    LOCAL = 4
    ORTHOGONAL = 5
    ENDPOINT = 6
    SLACK = 7
    STAIRCASE = 8


@dataclass(frozen=True, slots=True)
class Option:
    """A mechanism and its public parameters.

    ``centre`` is in eighths of a doubled rank; ``part`` is tau or a share of the
    budget, in ten-thousandths. Both are zero where a mechanism has no use for them.
    """

    kind: Annotated[Kind, Choice(Kind, size=4)]
    centre: Annotated[int, Number(8, signed=True)] = 0
    part: Annotated[int, Number()] = 0

    def __post_init__(self) -> None:
        if not 0 <= self.part <= SHARE_STEPS:
            raise PlanError(f"a part of the budget lies in 0 .. {SHARE_STEPS}")


def build(option: Option, facts: RankFacts, budget: Budget) -> SiteMechanism:
    """Return the mechanism that an option names, for a site's public facts."""
    part = Fraction(option.part, SHARE_STEPS)
    kind, centre = option.kind, option.centre
    if kind is Kind.NOTHING:
        return LinearSums(facts, (), budget)
    if kind in (Kind.RESPONSE, Kind.RESPONSE_LABELS):
        return ResponseSums(facts, _pure(budget))
    if not len(facts):
        return LinearSums(facts, (), budget)
    rows: tuple[Row, ...]
    match kind:
        case Kind.GLOBAL:
            rows = _two_sums(facts.top, budget, part)
        case Kind.LOCAL:
            rows = _two_sums(facts.high, budget, part)
        case Kind.ORTHOGONAL:
            rows = _orthogonal(facts, budget, part, centre)
        case Kind.STAIRCASE:
            rows = _staircase(facts, _pure(budget), part, centre)
        case _ if facts.one_rank:
            rows = (_count(budget, Fraction(1)),)
        case Kind.ENDPOINT:
            rows = _endpoint(facts, budget)
        case _:
            rows = _slack(facts, _pure(budget), part, centre)
    return LinearSums(facts, rows, budget)


def _pure(budget: Budget) -> PureDP:
    if not isinstance(budget, PureDP):
        raise PlanError(
            "delta is for Gaussian noise, which this mechanism does not have: omit it"
        )
    return budget


def noisy_row(
    slope: int, offset: int, heaviest: int, budget: Budget, share: Fraction
) -> Row:
    """Return a sum whose weights are at most ``heaviest``, with its share of budget."""
    factor = -(-FINE // max(heaviest, 1))
    top = factor * max(heaviest, 1)
    match budget:
        case PureDP(epsilon):
            scale = drawable(Fraction(top) / (share * epsilon))
            return Row(factor * slope, factor * offset, LaplaceSumNoise(scale))
        case ApproxDP(epsilon, delta):
            mu = calibrated_mu(epsilon, delta)
            sigma_squared = math.ceil(top * top / (float(share) * mu * mu))
            noise = GaussianSumNoise(sigma_squared)
            return Row(factor * slope, factor * offset, noise)


def _split(share: Fraction) -> tuple[Fraction, Fraction]:
    if not 0 < share < 1:
        raise PlanError("a share of the budget lies strictly between 0 and 1")
    return share, 1 - share


def _count(budget: Budget, share: Fraction) -> Row:
    return noisy_row(0, 1, 1, budget, share)


def _two_sums(greatest: int, budget: Budget, alpha: Fraction) -> tuple[Row, Row]:
    """S and P on their own, noise for the greatest doubled rank."""
    for_sum, for_count = _split(alpha)
    return noisy_row(1, 0, greatest, budget, for_sum), _count(budget, for_count)


def _orthogonal(
    facts: RankFacts, budget: Budget, beta: Fraction, centre: int
) -> tuple[Row, ...]:
    """P, and the sum of what is left of the ranks around a public centre."""
    spread = spread_around(facts, centre)
    if not spread:
        return (_count(budget, Fraction(1)),)
    for_count, for_rest = _split(beta)
    rest = noisy_row(CENTRE_STEPS, -centre, spread, budget, for_rest)
    return _count(budget, for_count), rest


def _endpoint(facts: RankFacts, budget: Budget) -> tuple[Row, Row]:
    """Weigh towards the two ends of the site's ranks.

    On doubled ranks the weights :math:`R - R_{min}` and :math:`R_{max} - R` are
    integers already: the grid is the range of the ranks. The noise is that of one sum
    that moves by the whole range, the joint L1 sensitivity. For Gaussian noise the
    joint L2 sensitivity is the same, reached at the two ends.
    """
    low, high = facts.low, facts.high
    match budget:
        case PureDP(epsilon):
            noise = LaplaceSumNoise(drawable(Fraction(high - low) / epsilon))
            return Row(1, -low, noise), Row(-1, high, noise)
        case ApproxDP():
            whole = Fraction(1)
            upper = noisy_row(1, -low, high - low, budget, whole)
            return upper, noisy_row(-1, high, high - low, budget, whole)


def _slack(
    facts: RankFacts, budget: PureDP, tau: Fraction, centre: int
) -> tuple[Row, Row]:
    """T and the slack.

    The slope of b is rounded to an integer. The noise is sized by what the rounded
    weights really move, so this costs a thousandth of accuracy and no privacy.
    """
    if tau >= 1:
        raise PlanError("tau lies in [0, 1)")
    d = spread_around(facts, centre)
    high_is_far = abs(CENTRE_STEPS * facts.high - centre) == d
    far, near = (facts.high, facts.low) if high_is_far else (facts.low, facts.high)
    d_near = abs(CENTRE_STEPS * near - centre)
    factor = -(-_GRID // d)
    whole = factor * d / (1 - tau)  # the weight that stands for 1
    at_far, at_near = tau, 1 - (1 - tau) * Fraction(d_near, d)
    slope = round(whole * (at_far - at_near) / (far - near))
    offset = round(whole * at_far - slope * far)

    rank_weights = (factor * CENTRE_STEPS, -factor * centre)
    moves = [
        abs(rank_weights[0] * end + rank_weights[1]) + abs(slope * end + offset)
        for end in (far, near)
    ]
    noise = LaplaceSumNoise(drawable(Fraction(max(moves)) / budget.epsilon))
    return Row(*rank_weights, noise), Row(slope, offset, noise)


def _staircase(
    facts: RankFacts, budget: PureDP, share: Fraction, centre: int
) -> tuple[Row, ...]:
    """T with a share of epsilon and P with the rest."""
    for_rank, for_count = _split(share)
    if facts.one_rank:
        return (Row(0, 1, LaplaceSumNoise(drawable(1 / budget.epsilon))),)
    step = spread_around(facts, centre)
    steps = StaircaseSumNoise.narrowest(step, for_rank * budget.epsilon)
    count = LaplaceSumNoise(drawable(1 / (for_count * budget.epsilon)))
    return Row(CENTRE_STEPS, -centre, steps), Row(0, 1, count)


def spread_around(facts: RankFacts, centre: int) -> int:
    """Return the largest distance of a rank from a centre, in eighths."""
    return max(abs(CENTRE_STEPS * end - centre) for end in (facts.low, facts.high))


def mean_centre(facts: RankFacts) -> int:
    """Return the mean doubled rank, in eighths, rounded."""
    return round(Fraction(CENTRE_STEPS * facts.total, len(facts)))


def adaptive_share(facts: RankFacts, budget: Budget) -> Fraction:
    """Return the share of P at which S has the least variance."""
    if not len(facts):
        return Fraction(1)
    centre = mean_centre(facts)
    u, v = float(centre), float(spread_around(facts, centre))
    if v == 0:
        return Fraction(1)
    power = 2 / 3 if isinstance(budget, PureDP) else 1.0
    beta = u**power / (u**power + v**power)
    steps = min(max(round(beta * SHARE_STEPS), 1), SHARE_STEPS - 1)
    return Fraction(steps, SHARE_STEPS)

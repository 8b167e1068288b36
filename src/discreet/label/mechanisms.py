r"""The product's rank mechanisms, and the choice among them from public facts.

All release sums of a site's labels, for a pure epsilon:

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
- *choice*: each site takes the one of these and of randomized response with the least
  predicted error. To first order :math:`dAUC = (dS - c\,dP)/(PN)` with
  :math:`c = P - 1/2 + AUC(N - P)`. Nobody knows c before the evaluation, but everybody
  knows M: a *wide* prior of mean M/2 and standard deviation 0.12 M is public. (Most
  classifiers that are worth evaluating have c there; a confidently wrong prior would
  lose more than a wide one gives away.) The error is the expected variance of S - cP,
  the least over a small grid of a mechanism's parameters.

Only ranks, epsilon and the prior enter: the choice depends on no label. It travels with
the answer, so that nothing rests on two machines rounding alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Final, TypeAlias, cast

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.codec.messages import Choice, Number
from discreet.errors import PlanError
from discreet.label.ranks import RankFacts
from discreet.label.released_sums import (
    LabelLoss,
    LinearSums,
    ResponseSums,
    Row,
    SiteMechanism,
    response_variance,
)
from discreet.label.sum_noise import (
    GaussianSumNoise,
    LaplaceSumNoise,
    StaircaseSumNoise,
    best_width,
    calibrated_mu,
    drawable,
    staircase_variance,
)
from discreet.privacy.loss import ApproxDP, PureDP
from discreet.statistic.rank_sums import RANK_MECHANISMS, SHARE_STEPS

CENTRE_STEPS: Final = 8
"""Centres are multiples of an eighth of a doubled rank."""
_FINE: Final = 2**16
"""The least weight of the heaviest example: noise is then nearly continuous."""
_GRID: Final = 2**30
"""The weight of the far end is at least this: the slope of b is rounded on it."""
_WHOLE: Final = Fraction(1)


class SumKind(IntEnum):
    """What a site's sums are made by, as it is numbered on the wire."""

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
    """What a site's sums are made by, with its public parameters.

    ``centre`` is in eighths of a doubled rank; ``part`` is tau or a share of the
    budget, in ten-thousandths. Both are zero where a mechanism has no use for them.
    """

    kind: Annotated[SumKind, Choice(SumKind, size=4)]
    centre: Annotated[int, Number(8, signed=True)] = 0
    part: Annotated[int, Number()] = 0

    def __post_init__(self) -> None:
        if not 0 <= self.part <= SHARE_STEPS:
            raise PlanError(f"a part of the budget lies in 0 .. {SHARE_STEPS}")


RowsOfAnOption: TypeAlias = Callable[[RankFacts, LabelLoss, Option], tuple[Row, ...]]


@dataclass(frozen=True, slots=True)
class RankMechanism:
    """A way to release rank sums, by public facts alone: an entry of the registry.

    Args:
        kinds: how its answers may be numbered.
        option: a site's option, from the facts of its examples, the budget, and the
            share that a plan gives.
        rows: the sums that an option stands for; None where ``option`` only chooses
            among the kinds of other mechanisms.
        gaussian: whether it can have Gaussian noise, when there is a delta.
    """

    kinds: frozenset[SumKind]
    option: Callable[[RankFacts, LabelLoss, Fraction], Option]
    rows: RowsOfAnOption | None = None
    gaussian: bool = False


_MAKERS: Final[Mapping[SumKind, str]] = {
    SumKind.GLOBAL: "global-laplace",
    SumKind.LOCAL: "local-laplace",
    SumKind.ORTHOGONAL: "orthogonal",
    SumKind.ENDPOINT: "endpoint",
    SumKind.SLACK: "slack",
    SumKind.STAIRCASE: "staircase",
}


_RESPONSES: Final[Mapping[str, RankMechanism]] = {
    "response": RankMechanism(
        frozenset({SumKind.RESPONSE}), lambda *_: Option(SumKind.RESPONSE)
    ),
    "response-labels": RankMechanism(
        frozenset({SumKind.RESPONSE_LABELS}), lambda *_: Option(SumKind.RESPONSE_LABELS)
    ),
}


def mechanism_named(name: str) -> RankMechanism:
    """Return a mechanism by its name; a paper's is imported now."""
    return _RESPONSES.get(name) or cast("RankMechanism", RANK_MECHANISMS[name])


def option_for(
    name: str, facts: RankFacts, budget: LabelLoss, *, share: Fraction = Fraction(1, 2)
) -> Option:
    """Return a site's option under a named mechanism, from public facts only."""
    mechanism = mechanism_named(name)
    if not len(facts):
        return Option(SumKind.NOTHING)
    return mechanism.option(facts, budget, share)


def build(option: Option, facts: RankFacts, budget: LabelLoss) -> SiteMechanism:
    """Return the mechanism that an option names, for a site's public facts."""
    if option.kind in (SumKind.RESPONSE, SumKind.RESPONSE_LABELS):
        if not isinstance(budget, PureDP):
            raise _no_gaussian()
        return ResponseSums(facts, budget)
    if option.kind is SumKind.NOTHING or not len(facts):
        return LinearSums(facts, (), budget)
    mechanism = mechanism_named(_MAKERS[option.kind])
    if mechanism.rows is None:
        raise PlanError("this mechanism only chooses among others")
    if isinstance(budget, ApproxDP) and not mechanism.gaussian:
        raise _no_gaussian()
    return LinearSums(facts, mechanism.rows(facts, budget, option), budget)


def _no_gaussian() -> PlanError:
    return PlanError(
        "delta is for Gaussian noise, which this mechanism does not have: omit it"
    )


def noisy_row(
    slope: int, offset: int, heaviest: int, budget: LabelLoss, share: Fraction = _WHOLE
) -> Row:
    r"""Return a sum whose weights are at most ``heaviest``, with its share of budget.

    A share of a Gaussian budget is a share of :math:`\mu^2`, which wastes nothing.
    """
    factor = -(-_FINE // max(heaviest, 1))
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


def count_row(budget: LabelLoss, share: Fraction = _WHOLE) -> Row:
    """Return P alone, which moves by 1."""
    return noisy_row(0, 1, 1, budget, share)


def split(option: Option) -> tuple[Fraction, Fraction]:
    """Return an option's share of the budget, and the rest."""
    share = Fraction(option.part, SHARE_STEPS)
    if not 0 < share < 1:
        raise PlanError("a share of the budget lies strictly between 0 and 1")
    return share, 1 - share


def spread_around(facts: RankFacts, centre: int) -> int:
    """Return the largest distance of a rank from a centre, in eighths."""
    return max(abs(CENTRE_STEPS * end - centre) for end in (facts.low, facts.high))


def _endpoint_rows(
    facts: RankFacts, budget: LabelLoss, option: Option
) -> tuple[Row, ...]:
    """Weigh towards the two ends of the site's ranks.

    On doubled ranks the weights :math:`R - R_{min}` and :math:`R_{max} - R` are
    integers already: the grid is the range of the ranks. The noise is that of one sum
    that moves by the whole range, the joint L1 sensitivity. For Gaussian noise the
    joint L2 sensitivity is the same, reached at the two ends.
    """
    del option
    low, high = facts.low, facts.high
    if facts.one_rank:
        return (count_row(budget),)
    match budget:
        case PureDP(epsilon):
            noise = LaplaceSumNoise(drawable(Fraction(high - low) / epsilon))
            return Row(1, -low, noise), Row(-1, high, noise)
        case ApproxDP():
            upper = noisy_row(1, -low, high - low, budget)
            return upper, noisy_row(-1, high, high - low, budget)


def _slack_rows(facts: RankFacts, budget: LabelLoss, option: Option) -> tuple[Row, ...]:
    """Return T and the slack.

    The slope of b is rounded to an integer. The noise is sized by what the rounded
    weights really move, so this costs a thousandth of accuracy and no privacy.
    """
    if facts.one_rank:
        return (count_row(budget),)
    tau, centre = Fraction(option.part, SHARE_STEPS), option.centre
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


def _staircase_rows(
    facts: RankFacts, budget: LabelLoss, option: Option
) -> tuple[Row, ...]:
    """Return T with a share of epsilon and P with the rest."""
    for_rank, for_count = split(option)
    if facts.one_rank:
        return (Row(0, 1, LaplaceSumNoise(drawable(1 / budget.epsilon))),)
    step = spread_around(facts, option.centre)
    steps = StaircaseSumNoise.narrowest(step, for_rank * budget.epsilon)
    count = LaplaceSumNoise(drawable(1 / (for_count * budget.epsilon)))
    return Row(CENTRE_STEPS, -option.centre, steps), Row(0, 1, count)


_TAUS: Final = tuple(k / 20 for k in range(20))
_SHARES: Final = (0.01, 0.02, *(k / 20 for k in range(1, 20)))
_PLACES: Final = tuple(k / 8 for k in range(9))
_PULLS: Final = (0.0, 0.3, 1.0, 3.0)
"""Centres between the prior's mean and the middle of a site's ranks."""


@dataclass(frozen=True, slots=True)
class Prior:
    """What is publicly guessed about c: a mean and a standard deviation."""

    mean: float
    sd: float

    @classmethod
    def wide(cls, examples: int) -> Prior:
        """Return the prior that knows nothing but the number of examples."""
        return cls(examples / 2, 0.12 * examples)

    def square(self, at: FloatArray) -> FloatArray:
        """Return the expected squared distance of c from a place."""
        return (at - self.mean) ** 2 + self.sd**2


Prediction: TypeAlias = tuple[float, Option]
"""The least predicted error of a site's sums, and the option that has it."""
Predictor: TypeAlias = Callable[[RankFacts, float, Prior], Prediction]


def _predict_endpoint(facts: RankFacts, epsilon: float, prior: Prior) -> Prediction:
    """Predict the endpoint mechanism: the slack mechanism with nothing to choose."""
    centre, tau = np.array([facts.low / 2]), np.zeros(1)
    (variance,) = _slack_variance(facts, epsilon, prior, centre, tau)
    return float(variance), Option(SumKind.ENDPOINT)


def _predict_slack(facts: RankFacts, epsilon: float, prior: Prior) -> Prediction:
    """Predict the slack mechanism at its best centre and tau."""
    taus, centres = np.array(_TAUS), _centres(facts, prior)
    grid = _slack_variance(facts, epsilon, prior, centres[:, None], taus)
    return _least(SumKind.SLACK, grid, centres, taus)


def _predict_staircase(facts: RankFacts, epsilon: float, prior: Prior) -> Prediction:
    """Predict the staircase mechanism at its best centre and share.

    The error is that of T + (c' - c)P: T moves by the distance d of the far end.
    """
    shares, centres = np.array(_SHARES), _centres(facts, prior)
    low, high, c = facts.low / 2, facts.high / 2, centres[:, None]
    for_rank = np.array([_relative_variance(share * epsilon) for share in _SHARES])
    for_count = np.array([_count_variance((1 - s) * epsilon) for s in _SHARES])
    d = np.abs(c - (low + high) / 2) + (high - low) / 2
    grid = for_rank * d**2 + for_count * prior.square(c)
    if facts.one_rank:
        grid[:] = _count_variance(epsilon) * prior.square(np.array(low))
    return _least(SumKind.STAIRCASE, grid, centres, shares)


def _predict_response(facts: RankFacts, epsilon: float, prior: Prior) -> Prediction:
    """Predict randomized response."""
    around = facts.squares / 4 - prior.mean * facts.total
    around += facts.size * (prior.mean**2 + prior.sd**2)
    return response_variance(epsilon) * around, Option(SumKind.RESPONSE)


CANDIDATES: Final[Mapping[SumKind, Predictor]] = {
    SumKind.ENDPOINT: _predict_endpoint,
    SumKind.SLACK: _predict_slack,
    SumKind.STAIRCASE: _predict_staircase,
    SumKind.RESPONSE: _predict_response,
}


def predict(facts: RankFacts, epsilon: Fraction, *among: SumKind) -> Prediction:
    """Return the least expected variance of S - cP among these, and its option."""
    prior = Prior.wide(facts.examples)
    predicted = (CANDIDATES[kind](facts, float(epsilon), prior) for kind in among)
    return min(predicted, key=lambda one: one[0])


def _slack_variance(
    facts: RankFacts, epsilon: float, prior: Prior, centre: FloatArray, tau: FloatArray
) -> FloatArray:
    r"""Return the expected variance of S - cP for a random c, ranks as floats.

    With :math:`\beta = b(c')`, b_1 the slope of b, and x = (c' - c)/beta, the error
    is :math:`(1 - x b_1) e_T + x\,e_2`: its variance is :math:`\frac{2}{\varepsilon^2}
    (E(1 - x b_1)^2\,d^2/(1-\tau)^2 + E x^2)`.
    """
    low = facts.low / 2
    high = low + 1.0 if facts.one_rank else facts.high / 2
    up, down = np.abs(high - centre), np.abs(centre - low)
    d, d_near = np.maximum(up, down), np.minimum(up, down)
    far, near = np.where(up >= down, high, low), np.where(up >= down, low, high)
    slope = (tau - 1 + (1 - tau) * d_near / d) / (far - near)
    # Zero where T alone is released, which depends on P in no way: infinitely bad.
    beta = np.maximum(tau + slope * (centre - far), 1e-12)
    mean = (centre - prior.mean) / beta
    square = mean**2 + (prior.sd / beta) ** 2
    total = (1 - 2 * mean * slope + square * slope**2) * (d / (1 - tau)) ** 2 + square
    if facts.one_rank:
        total[:] = prior.square(np.array(low))
    variance: FloatArray = 2 / epsilon**2 * total
    return variance


def _centres(facts: RankFacts, prior: Prior) -> FloatVector:
    """Return centres to try: across the ranks, and towards the prior."""
    low, high = facts.low / 2, facts.high / 2
    across = [low + place * (high - low) for place in _PLACES]
    middle = (low + high) / 2
    towards = [(prior.mean + pull * middle) / (1 + pull) for pull in _PULLS]
    return np.array([*across, *np.clip(towards, low, high)])


def _least(
    kind: SumKind, grid: FloatArray, centres: FloatVector, parts: FloatVector
) -> Prediction:
    """Return the least variance of a grid, and the option of its centre and part."""
    i, j = divmod(int(np.argmin(grid)), parts.size)
    centre = round(2 * CENTRE_STEPS * float(centres[i]))
    return float(grid[i, j]), Option(kind, centre, round(SHARE_STEPS * float(parts[j])))


@lru_cache(maxsize=256)
def _relative_variance(epsilon: float) -> float:
    """Return the variance of the best staircase over the squared step."""
    step = 1 << 20  # fine enough to stand for the reals
    width = min(max(round(best_width(epsilon) * step), 1), step)
    return staircase_variance(step, width, epsilon) / step**2


def _count_variance(epsilon: float) -> float:
    """Return the variance of discrete Laplace noise of scale 1/epsilon."""
    return 2.0 * response_variance(epsilon)


def _choosing(*among: SumKind, rows: RowsOfAnOption | None = None) -> RankMechanism:
    def option(facts: RankFacts, budget: LabelLoss, share: Fraction) -> Option:
        del share
        return predict(facts, budget.epsilon, *among)[1]

    return RankMechanism(frozenset(among), option, rows)


ENDPOINT: Final = RankMechanism(
    frozenset({SumKind.ENDPOINT}),
    lambda *_: Option(SumKind.ENDPOINT),
    _endpoint_rows,
    gaussian=True,
)
SLACK: Final = _choosing(SumKind.SLACK, rows=_slack_rows)
STAIRCASE: Final = _choosing(SumKind.STAIRCASE, rows=_staircase_rows)
CHOICE: Final = _choosing(*CANDIDATES)

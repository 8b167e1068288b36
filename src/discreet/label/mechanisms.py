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
from collections.abc import Callable, Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class RankMechanism:
    """A way to release rank sums, by public facts alone: an entry of the registry.

    Args:
        kinds: how its answers may be numbered.
        options: each site's option, from the facts of sites with examples, the
            budget, and the share that a plan gives.
        rows: the sums that an option stands for; None where ``options`` only chooses
            among the kinds of other mechanisms.
        gaussian: whether it can have Gaussian noise, when there is a delta.
    """

    kinds: frozenset[SumKind]
    options: Callable[[Sequence[RankFacts], LabelLoss, Fraction], list[Option]]
    rows: Callable[[RankFacts, LabelLoss, Option], tuple[Row, ...]] | None = None
    gaussian: bool = False


_MAKERS: Final[Mapping[SumKind, str]] = {
    SumKind.GLOBAL: "global-laplace",
    SumKind.LOCAL: "local-laplace",
    SumKind.ORTHOGONAL: "orthogonal",
    SumKind.ENDPOINT: "endpoint",
    SumKind.SLACK: "slack",
    SumKind.STAIRCASE: "staircase",
}


def fixed(
    kind: SumKind,
    rows: Callable[[RankFacts, LabelLoss, Option], tuple[Row, ...]] | None = None,
    *,
    option: Callable[[RankFacts, LabelLoss, Fraction], Option] | None = None,
    gaussian: bool = False,
) -> RankMechanism:
    """Return a mechanism whose option for a site follows from that site's facts."""
    one = option or (lambda facts, budget, share: Option(kind))  # noqa: ARG005

    def options(
        sites: Sequence[RankFacts], budget: LabelLoss, share: Fraction
    ) -> list[Option]:
        return [one(site, budget, share) for site in sites]

    return RankMechanism(frozenset((kind,)), options, rows, gaussian)


_RESPONSES: Final[Mapping[str, RankMechanism]] = {
    "response": fixed(SumKind.RESPONSE),
    "response-labels": fixed(SumKind.RESPONSE_LABELS),
}


def mechanism_named(name: str) -> RankMechanism:
    """Return a mechanism by its name; a paper's is imported now."""
    return _RESPONSES.get(name) or cast("RankMechanism", RANK_MECHANISMS[name])


def kinds_of(name: str) -> frozenset[SumKind]:
    """Return how the answers of a named mechanism may be numbered."""
    return mechanism_named(name).kinds


def options_for(
    name: str,
    sites: Sequence[RankFacts],
    budget: LabelLoss,
    *,
    share: Fraction = Fraction(1, 2),
) -> list[Option]:
    """Return each site's option, from public facts only; none without examples."""
    present = [k for k, site in enumerate(sites) if len(site)]
    options = [Option(SumKind.NOTHING)] * len(sites)
    chosen = mechanism_named(name).options([sites[k] for k in present], budget, share)
    for k, option in zip(present, chosen, strict=True):
        options[k] = option
    return options


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
_CHUNK: Final = 2048
"""Sites whose grids are held at once."""


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


@dataclass(frozen=True, eq=False)
class SiteFacts:
    """The public facts of several sites with examples, one entry a site."""

    low: FloatArray
    high: FloatArray
    size: FloatArray
    rank_total: FloatArray
    square_total: FloatArray

    @classmethod
    def of(cls, sites: Sequence[RankFacts]) -> SiteFacts:
        """Collect the facts of sites that have examples, ranks no longer doubled."""
        rows = [
            (s.low / 2, s.high / 2, s.size, s.total / 2, s.squares / 4) for s in sites
        ]
        return cls(*np.array(rows, dtype=np.float64).reshape(-1, 5).T)


@dataclass(frozen=True, eq=False)
class PredictedSums:
    """The best parameters of one mechanism for each site, and their variance."""

    kind: SumKind
    variance: FloatVector
    centre: FloatVector
    part: FloatVector


def predict_endpoint(facts: SiteFacts, epsilon: float, prior: Prior) -> PredictedSums:
    """Predict the endpoint mechanism: the slack mechanism with nothing to choose."""
    zero = np.zeros(facts.low.size)
    variance = _slack_variance(facts.low, facts.high, epsilon, prior, facts.low, zero)
    return PredictedSums(SumKind.ENDPOINT, variance, zero, zero)


def predict_slack(facts: SiteFacts, epsilon: float, prior: Prior) -> PredictedSums:
    """Predict the slack mechanism at its best centre and tau."""
    taus = np.array(_TAUS)

    def variance(low: FloatArray, high: FloatArray, centre: FloatArray) -> FloatArray:
        return _slack_variance(low, high, epsilon, prior, centre, taus)

    return _search(SumKind.SLACK, facts, prior, variance, taus)


def predict_staircase(facts: SiteFacts, epsilon: float, prior: Prior) -> PredictedSums:
    """Predict the staircase mechanism at its best centre and share.

    The error is that of T + (c' - c)P: T moves by the distance d of the far end.
    """
    for_rank = np.array([_relative_variance(share * epsilon) for share in _SHARES])
    for_count = np.array([_count_variance((1 - share) * epsilon) for share in _SHARES])
    alone = _count_variance(epsilon)

    def variance(low: FloatArray, high: FloatArray, centre: FloatArray) -> FloatArray:
        d = np.abs(centre - (low + high) / 2) + (high - low) / 2
        both = for_rank * d**2 + for_count * prior.square(centre)
        return np.where(low == high, alone * prior.square(low), both)

    return _search(SumKind.STAIRCASE, facts, prior, variance, np.array(_SHARES))


def predict_response(facts: SiteFacts, epsilon: float, prior: Prior) -> PredictedSums:
    """Predict randomized response."""
    around = facts.square_total - 2 * prior.mean * facts.rank_total
    around = around + facts.size * (prior.mean**2 + prior.sd**2)
    zero = np.zeros(facts.size.size)
    variance = response_variance(epsilon) * around
    return PredictedSums(SumKind.RESPONSE, variance, zero, zero)


Predictor: TypeAlias = Callable[[SiteFacts, float, Prior], PredictedSums]
CANDIDATES: Final[Mapping[SumKind, Predictor]] = {
    SumKind.ENDPOINT: predict_endpoint,
    SumKind.SLACK: predict_slack,
    SumKind.STAIRCASE: predict_staircase,
    SumKind.RESPONSE: predict_response,
}


def choose(
    sites: Sequence[RankFacts],
    epsilon: float,
    prior: Prior,
    *,
    among: Sequence[SumKind] = tuple(CANDIDATES),
) -> list[Option]:
    """Return the option with the least predicted error of each site with examples."""
    if not sites:
        return []
    facts = SiteFacts.of(sites)
    predictions = [CANDIDATES[kind](facts, epsilon, prior) for kind in among]
    winners = np.argmin([p.variance for p in predictions], axis=0)
    options = []
    for i, winner in enumerate(winners.tolist()):
        best = predictions[winner]
        centre = round(2 * CENTRE_STEPS * float(best.centre[i]))
        part = round(SHARE_STEPS * float(best.part[i]))
        options.append(Option(best.kind, centre, part))
    return options


def _slack_variance(
    low: FloatArray,
    high: FloatArray,
    epsilon: float,
    prior: Prior,
    centre: FloatArray,
    tau: FloatArray,
) -> FloatArray:
    r"""Return the expected variance of S - cP for a random c, ranks as floats.

    With :math:`\beta = b(c')`, b_1 the slope of b, and x = (c' - c)/beta, the error
    is :math:`(1 - x b_1) e_T + x\,e_2`: its variance is :math:`\frac{2}{\varepsilon^2}
    (E(1 - x b_1)^2\,d^2/(1-\tau)^2 + E x^2)`.
    """
    one_rank = low == high
    high = low + np.where(one_rank, 1.0, high - low)
    up, down = np.abs(high - centre), np.abs(centre - low)
    d, d_near = np.maximum(up, down), np.minimum(up, down)
    far, near = np.where(up >= down, high, low), np.where(up >= down, low, high)
    slope = (tau - 1 + (1 - tau) * d_near / d) / (far - near)
    # Zero where T alone is released, which depends on P in no way: infinitely bad.
    beta = np.maximum(tau + slope * (centre - far), 1e-12)
    mean = (centre - prior.mean) / beta
    square = mean**2 + (prior.sd / beta) ** 2
    rank_part = (1 - 2 * mean * slope + square * slope**2) * (d / (1 - tau)) ** 2
    total = np.where(one_rank, prior.square(low), rank_part + square)
    return 2 / epsilon**2 * total


def _search(
    kind: SumKind,
    facts: SiteFacts,
    prior: Prior,
    variance: Callable[[FloatArray, FloatArray, FloatArray], FloatArray],
    parts: FloatVector,
) -> PredictedSums:
    """Try centres across the ranks and towards the prior, each with every part."""
    best, centre, part = [], [], []
    for start in range(0, facts.low.size, _CHUNK):
        rows = slice(start, start + _CHUNK)
        low, high = facts.low[rows], facts.high[rows]
        middle = (low + high) / 2
        across = [low + place * (high - low) for place in _PLACES]
        towards = [(prior.mean + pull * middle) / (1 + pull) for pull in _PULLS]
        inside = [np.clip(place, low, high) for place in towards]
        centres = np.stack([*across, *inside], axis=1)
        grid = variance(
            low[:, None, None], high[:, None, None], centres[:, :, None]
        ).reshape(len(centres), -1)
        winner = np.argmin(grid, axis=1)
        sites = np.arange(len(centres))
        best.append(grid[sites, winner])
        centre.append(centres[sites, winner // parts.size])
        part.append(parts[winner % parts.size])
    return PredictedSums(
        kind, np.concatenate(best), np.concatenate(centre), np.concatenate(part)
    )


@lru_cache(maxsize=256)
def _relative_variance(epsilon: float) -> float:
    """Return the variance of the best staircase over the squared step."""
    step = 1 << 20  # fine enough to stand for the reals
    width = min(max(round(best_width(epsilon) * step), 1), step)
    return staircase_variance(step, width, epsilon) / step**2


def _count_variance(epsilon: float) -> float:
    """Return the variance of discrete Laplace noise of scale 1/epsilon."""
    return LaplaceSumNoise(1 / Fraction(epsilon)).variance


def _chosen(
    *kinds: SumKind,
) -> Callable[[Sequence[RankFacts], LabelLoss, Fraction], list[Option]]:
    def options(
        sites: Sequence[RankFacts], budget: LabelLoss, share: Fraction
    ) -> list[Option]:
        del share
        prior = Prior.wide(sites[0].examples if sites else 0)
        return choose(sites, float(budget.epsilon), prior, among=kinds)

    return options


ENDPOINT: Final = fixed(SumKind.ENDPOINT, _endpoint_rows, gaussian=True)
SLACK: Final = RankMechanism(
    frozenset((SumKind.SLACK,)), _chosen(SumKind.SLACK), _slack_rows
)
STAIRCASE: Final = RankMechanism(
    frozenset((SumKind.STAIRCASE,)), _chosen(SumKind.STAIRCASE), _staircase_rows
)
CHOICE: Final = RankMechanism(frozenset(CANDIDATES), _chosen(*CANDIDATES))

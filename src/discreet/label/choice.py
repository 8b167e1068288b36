r"""The per-site choice: the option with the least predicted error, from public facts.

To first order :math:`dAUC = (dS - c\,dP)/(PN)` with :math:`c = P - 1/2 + AUC(N - P)`.
Nobody knows c before the evaluation, but everybody knows M: a *wide* prior of mean
M/2 and standard deviation 0.12 M is public. (Most classifiers that are worth
evaluating have c there; a confidently wrong prior would lose more than a wide one
gives away.) Each site compares the expected variance of S - cP of four
mechanisms, over a small grid of their parameters, and takes the least.

Only ranks, epsilon and the prior enter: the choice says nothing about a label. It is
computed for all sites at once, and travels with the answer, so that nothing rests on
two machines rounding alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.errors import PlanError
from discreet.label.midranks import RankFacts
from discreet.label.rank_mechanisms import (
    CENTRE_STEPS,
    Kind,
    Option,
    adaptive_share,
    mean_centre,
)
from discreet.label.released_sums import Budget, response_variance
from discreet.label.sum_noise import LaplaceSumNoise, best_width, staircase_variance
from discreet.statistic.rank_sums import MECHANISMS, SHARE_STEPS, MechanismName

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

    low: FloatVector
    high: FloatVector
    size: FloatVector
    rank_total: FloatVector
    square_total: FloatVector

    @classmethod
    def of(cls, sites: Sequence[RankFacts]) -> SiteFacts:
        """Collect the facts of sites that have examples, ranks no longer doubled."""
        rows = [
            (s.low / 2, s.high / 2, s.size, s.total / 2, s.squares / 4) for s in sites
        ]
        return cls(*np.array(rows, dtype=np.float64).reshape(-1, 5).T)

    def cells(self, rows: slice, *, flat: bool = False) -> SiteFacts:
        """Return some sites; unless flat, with room for a grid of centres and parts."""
        columns = (self.low, self.high, self.size, self.rank_total, self.square_total)
        some = (column[rows] for column in columns)
        return SiteFacts(*(c if flat else c[:, None, None] for c in some))


@dataclass(frozen=True, eq=False)
class Predicted:
    """The best parameters of one mechanism for each site, and what they promise."""

    kind: Kind
    variance: FloatVector
    centre: FloatVector
    part: FloatVector


def predict_endpoint(facts: SiteFacts, epsilon: float, prior: Prior) -> Predicted:
    """Predict the endpoint mechanism: the slack mechanism with nothing to choose."""
    zero = np.zeros(facts.low.size)
    variance = _slack_variance(facts, epsilon, prior, facts.low, zero)
    return Predicted(Kind.ENDPOINT, variance, zero, zero)


def predict_slack(facts: SiteFacts, epsilon: float, prior: Prior) -> Predicted:
    """Predict the slack mechanism at its best centre and tau."""
    taus = np.array(_TAUS)

    def variance(some: SiteFacts, centre: FloatArray) -> FloatArray:
        return _slack_variance(some, epsilon, prior, centre, taus)

    return _search(Kind.SLACK, facts, prior, variance, taus)


def predict_staircase(facts: SiteFacts, epsilon: float, prior: Prior) -> Predicted:
    """Predict the staircase mechanism at its best centre and share.

    The error is that of T + (c' - c)P: T moves by the distance d of the far end.
    """
    for_rank = np.array([_relative_variance(share * epsilon) for share in _SHARES])
    for_count = np.array([_count_variance((1 - share) * epsilon) for share in _SHARES])
    alone = _count_variance(epsilon)

    def variance(some: SiteFacts, centre: FloatArray) -> FloatArray:
        d = np.abs(centre - (some.low + some.high) / 2) + (some.high - some.low) / 2
        split = for_rank * d**2 + for_count * prior.square(centre)
        return np.where(some.low == some.high, alone * prior.square(some.low), split)

    return _search(Kind.STAIRCASE, facts, prior, variance, np.array(_SHARES))


def predict_response(facts: SiteFacts, epsilon: float, prior: Prior) -> Predicted:
    """Predict randomized response."""
    around = facts.square_total - 2 * prior.mean * facts.rank_total
    around = around + facts.size * (prior.mean**2 + prior.sd**2)
    zero = np.zeros(facts.size.size)
    return Predicted(Kind.RESPONSE, response_variance(epsilon) * around, zero, zero)


Predictor: TypeAlias = Callable[[SiteFacts, float, Prior], Predicted]
CANDIDATES: Final[tuple[Predictor, ...]] = (
    predict_endpoint,
    predict_slack,
    predict_staircase,
    predict_response,
)


def choose(
    sites: Sequence[RankFacts],
    epsilon: float,
    prior: Prior,
    *,
    among: Sequence[Predictor] = CANDIDATES,
) -> list[Option]:
    """Return each site's best option; a site without examples releases nothing."""
    present = [k for k, site in enumerate(sites) if len(site)]
    options = [Option(Kind.NOTHING)] * len(sites)
    if not present:
        return options
    facts = SiteFacts.of([sites[k] for k in present])
    predictions = [predict(facts, epsilon, prior) for predict in among]
    winners = np.argmin([p.variance for p in predictions], axis=0)
    for i, (k, winner) in enumerate(zip(present, winners.tolist(), strict=True)):
        best = predictions[winner]
        options[k] = Option(
            best.kind,
            round(2 * CENTRE_STEPS * float(best.centre[i])),
            round(SHARE_STEPS * float(best.part[i])),
        )
    return options


_AMONG: Final[Mapping[MechanismName, tuple[Predictor, ...]]] = {
    "choice": CANDIDATES,
    "slack": (predict_slack,),
    "staircase": (predict_staircase,),
}
_FIXED: Final[Mapping[MechanismName, Kind]] = {
    "response": Kind.RESPONSE,
    "response-labels": Kind.RESPONSE_LABELS,
    "endpoint": Kind.ENDPOINT,
    "global-laplace": Kind.GLOBAL,
    "local-laplace": Kind.LOCAL,
    "orthogonal": Kind.ORTHOGONAL,
    "adaptive": Kind.ORTHOGONAL,
}


def kinds_of(name: MechanismName) -> frozenset[Kind]:
    """Return how the answers of a named mechanism may be numbered."""
    if name == "choice":
        return frozenset((Kind.ENDPOINT, Kind.SLACK, Kind.STAIRCASE, Kind.RESPONSE))
    if name in _AMONG:
        return frozenset((Kind[name.upper()],))
    return frozenset((_FIXED[name],))


def options_for(
    name: MechanismName,
    sites: Sequence[RankFacts],
    budget: Budget,
    *,
    share: Fraction = Fraction(1, 2),
) -> list[Option]:
    """Return each site's option, from public facts only.

    ``share`` is the paper's alpha (``global-laplace``, ``local-laplace``: the rank
    sum's share) or beta (``orthogonal``: the count's share).
    """
    if name in _AMONG:
        prior = Prior.wide(sites[0].examples if sites else 0)
        return choose(sites, float(budget.epsilon), prior, among=_AMONG[name])
    if name not in _FIXED:
        raise PlanError(f"a mechanism is one of {', '.join(MECHANISMS)}")
    return [_fixed(name, site, budget, share) for site in sites]


def _fixed(
    name: MechanismName, site: RankFacts, budget: Budget, share: Fraction
) -> Option:
    if not len(site):
        return Option(Kind.NOTHING)
    match name:
        case "global-laplace" | "local-laplace":
            return Option(_FIXED[name], part=round(share * SHARE_STEPS))
        case "orthogonal" | "adaptive":
            beta = adaptive_share(site, budget) if name == "adaptive" else share
            return Option(_FIXED[name], mean_centre(site), round(beta * SHARE_STEPS))
        case _:
            return Option(_FIXED[name])


def _slack_variance(
    facts: SiteFacts,
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
    one_rank = facts.low == facts.high
    high = facts.low + np.where(one_rank, 1.0, facts.high - facts.low)
    up, down = np.abs(high - centre), np.abs(centre - facts.low)
    d, d_near = np.maximum(up, down), np.minimum(up, down)
    far, near = (
        np.where(up >= down, high, facts.low),
        np.where(up >= down, facts.low, high),
    )
    slope = (tau - 1 + (1 - tau) * d_near / d) / (far - near)
    # Zero where T alone is released, which says nothing of P: infinitely bad.
    beta = np.maximum(tau + slope * (centre - far), 1e-12)
    mean = (centre - prior.mean) / beta
    square = mean**2 + (prior.sd / beta) ** 2
    rank_part = (1 - 2 * mean * slope + square * slope**2) * (d / (1 - tau)) ** 2
    spread = np.where(one_rank, prior.square(facts.low), rank_part + square)
    return 2 / epsilon**2 * spread


def _centres(facts: SiteFacts, prior: Prior) -> FloatArray:
    """Return the centres that are tried: across the ranks, and towards the prior."""
    across = [facts.low + place * (facts.high - facts.low) for place in _PLACES]
    middle = (facts.low + facts.high) / 2
    towards = [(prior.mean + pull * middle) / (1 + pull) for pull in _PULLS]
    inside = [np.clip(place, facts.low, facts.high) for place in towards]
    return np.stack([*across, *inside], axis=1)


def _search(
    kind: Kind,
    facts: SiteFacts,
    prior: Prior,
    variance: Callable[[SiteFacts, FloatArray], FloatArray],
    parts: FloatVector,
) -> Predicted:
    """Try every centre with every part and keep each site's best."""
    best, centre, part = [], [], []
    for start in range(0, facts.low.size, _CHUNK):
        some = facts.cells(slice(start, start + _CHUNK))
        places = _centres(facts.cells(slice(start, start + _CHUNK), flat=True), prior)
        found = variance(some, places[:, :, None]).reshape(len(places), -1)
        winner = np.argmin(found, axis=1)
        rows = np.arange(len(places))
        best.append(found[rows, winner])
        centre.append(places[rows, winner // parts.size])
        part.append(parts[winner % parts.size])
    return Predicted(
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

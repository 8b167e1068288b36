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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Final

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.errors import PlanError
from discreet.ranks.fedauc import CENTRE_STEPS, SHARE_STEPS
from discreet.ranks.ranks import SiteRanks
from discreet.ranks.response_sums import predicted_response
from discreet.ranks.slack import predicted_slack
from discreet.ranks.staircase import (
    count_variance,
    predicted_staircase,
    relative_variance,
)

_TAUS: Final = tuple(k / 20 for k in range(20))
_SHARES: Final = (0.01, 0.02, *(k / 20 for k in range(1, 20)))
_PLACES: Final = tuple(k / 8 for k in range(9))
_PULLS: Final = (0.0, 0.3, 1.0, 3.0)
"""Centres between the prior's mean and the middle of a site's ranks."""
_CHUNK: Final = 2048
"""Sites whose grids are held at once."""


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

    kind: Kind
    centre: int = 0
    part: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.part <= SHARE_STEPS:
            raise PlanError(f"a part of the budget lies in 0 .. {SHARE_STEPS}")


@dataclass(frozen=True, slots=True)
class Prior:
    """What is publicly guessed about c: a mean and a standard deviation."""

    mean: float
    sd: float

    @classmethod
    def wide(cls, examples: int) -> Prior:
        """Return the prior that knows nothing but the number of examples."""
        return cls(examples / 2, 0.12 * examples)


@dataclass(frozen=True, eq=False)
class SiteFacts:
    """The public facts of several sites with examples, one entry a site."""

    low: FloatVector
    high: FloatVector
    size: FloatVector
    rank_total: FloatVector
    square_total: FloatVector

    @classmethod
    def of(cls, sites: Sequence[SiteRanks]) -> SiteFacts:
        """Collect the facts of sites that have examples."""
        rows = []
        for site in sites:
            r = site.doubled / 2
            rows.append((r.min(), r.max(), r.size, r.sum(), r @ r))
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
    """Predict the staircase mechanism at its best centre and share."""
    for_rank = np.array([_relative_variance(share * epsilon) for share in _SHARES])
    for_count = np.array([count_variance((1 - share) * epsilon) for share in _SHARES])
    alone = count_variance(epsilon)

    def variance(some: SiteFacts, centre: FloatArray) -> FloatArray:
        split = predicted_staircase(
            some.low,
            some.high,
            centre=centre,
            rank_variance=for_rank,
            count_variance=for_count,
            prior_mean=prior.mean,
            prior_sd=prior.sd,
        )
        one_rank = some.low == some.high
        return np.where(one_rank, alone * _square(some.low, prior), split)

    return _search(Kind.STAIRCASE, facts, prior, variance, np.array(_SHARES))


def predict_response(facts: SiteFacts, epsilon: float, prior: Prior) -> Predicted:
    """Predict randomized response."""
    variance = predicted_response(
        facts.size,
        facts.rank_total,
        facts.square_total,
        epsilon=epsilon,
        prior_mean=prior.mean,
        prior_sd=prior.sd,
    )
    zero = np.zeros(facts.size.size)
    return Predicted(Kind.RESPONSE, variance, zero, zero)


Predictor = Callable[[SiteFacts, float, Prior], Predicted]
CANDIDATES: Final[tuple[Predictor, ...]] = (
    predict_endpoint,
    predict_slack,
    predict_staircase,
    predict_response,
)


def choose(
    sites: Sequence[SiteRanks],
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


def _square(at: FloatArray, prior: Prior) -> FloatArray:
    """Return the expected squared distance of c from a place."""
    return (at - prior.mean) ** 2 + prior.sd**2


def _slack_variance(
    facts: SiteFacts,
    epsilon: float,
    prior: Prior,
    centre: FloatArray,
    tau: FloatArray,
) -> FloatArray:
    one_rank = facts.low == facts.high
    spread = np.where(one_rank, 1.0, facts.high - facts.low)
    variance = predicted_slack(
        facts.low,
        facts.low + spread,
        centre=centre,
        tau=tau,
        epsilon=epsilon,
        prior_mean=prior.mean,
        prior_sd=prior.sd,
    )
    alone = 2 / epsilon**2 * _square(facts.low, prior)
    return np.where(one_rank, alone, variance)


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
    return relative_variance(epsilon)

"""From a name to each site's mechanism: what a plan can ask for by name."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final, Literal, TypeAlias

from discreet.errors import PlanError
from discreet.models.label import RANK_MECHANISMS, RankMechanism
from discreet.privacy.loss import PureDP
from discreet.ranks.choice import (
    Kind,
    Option,
    Prior,
    choose,
    predict_slack,
    predict_staircase,
)
from discreet.ranks.endpoint import endpoint
from discreet.ranks.fedauc import (
    SHARE_STEPS,
    adaptive_share,
    global_noise,
    local_noise,
    mean_centre,
    orthogonal_noise,
)
from discreet.ranks.linear import Budget, LinearSums
from discreet.ranks.ranks import SiteRanks
from discreet.ranks.response_sums import ResponseSums
from discreet.ranks.slack import slack
from discreet.ranks.staircase import staircase
from discreet.ranks.sums import LabelMechanism

MechanismName: TypeAlias = RankMechanism | Literal["response", "response-labels"]
MECHANISMS: Final[tuple[MechanismName, ...]] = (
    *RANK_MECHANISMS,
    "response",
    "response-labels",
)
"""``choice`` is the default, endpoint, slack and staircase its parts; the papers' are
``global-laplace``, ``local-laplace``, ``orthogonal``, ``adaptive`` (all with Gaussian
noise when there is a delta) and randomized response in its two protocols."""
WITH_DELTA: Final[frozenset[MechanismName]] = frozenset(
    ("endpoint", "adaptive", "orthogonal", "local-laplace", "global-laplace")
)
"""Those that can have Gaussian noise."""


def options_for(
    name: MechanismName,
    sites: Sequence[SiteRanks],
    budget: Budget,
    *,
    share: Fraction = Fraction(1, 2),
) -> list[Option]:
    """Return each site's option, from public facts only.

    ``share`` is the paper's alpha (``global-laplace``, ``local-laplace``: the rank
    sum's share) or beta (``orthogonal``: the count's share).
    """
    part = round(share * SHARE_STEPS)
    match name:
        case "choice" | "slack" | "staircase":
            return _chosen(name, sites, budget)
        case "response":
            found = [Option(Kind.RESPONSE) for _ in sites]
        case "response-labels":
            found = [Option(Kind.RESPONSE_LABELS) for _ in sites]
        case "endpoint":
            found = [Option(Kind.ENDPOINT) for _ in sites]
        case "global-laplace":
            found = [Option(Kind.GLOBAL, part=part) for _ in sites]
        case "local-laplace":
            found = [Option(Kind.LOCAL, part=part) for _ in sites]
        case "orthogonal":
            found = [_around_mean(site, part) for site in sites]
        case "adaptive":
            found = [
                _around_mean(site, round(adaptive_share(site, budget) * SHARE_STEPS))
                for site in sites
            ]
        case _:
            raise PlanError(f"a mechanism is one of {', '.join(MECHANISMS)}")
    nothing = Option(Kind.NOTHING)
    return [o if len(site) else nothing for o, site in zip(found, sites, strict=True)]


def _around_mean(site: SiteRanks, part: int) -> Option:
    centre = mean_centre(site) if len(site) else 0
    return Option(Kind.ORTHOGONAL, centre, part)


def _chosen(
    name: MechanismName, sites: Sequence[SiteRanks], budget: Budget
) -> list[Option]:
    if not sites:
        return []
    epsilon = float(budget.epsilon)
    prior = Prior.wide(sites[0].examples)
    match name:
        case "slack":
            return choose(sites, epsilon, prior, among=(predict_slack,))
        case "staircase":
            return choose(sites, epsilon, prior, among=(predict_staircase,))
        case _:
            return choose(sites, epsilon, prior)


def build(option: Option, ranks: SiteRanks, budget: Budget) -> LabelMechanism:
    """Return the mechanism that an option names, for a site's ranks."""
    part = Fraction(option.part, SHARE_STEPS)
    mechanism: LabelMechanism
    match option.kind:
        case Kind.NOTHING:
            mechanism = LinearSums(ranks, (), budget)
        case Kind.GLOBAL:
            mechanism = global_noise(ranks, budget, alpha=part)
        case Kind.LOCAL:
            mechanism = local_noise(ranks, budget, alpha=part)
        case Kind.ORTHOGONAL:
            mechanism = orthogonal_noise(ranks, budget, beta=part, centre=option.centre)
        case Kind.ENDPOINT:
            mechanism = endpoint(ranks, budget)
        case _:
            mechanism = _build_pure(option, ranks, budget, part)
    return mechanism


def _build_pure(
    option: Option, ranks: SiteRanks, budget: Budget, part: Fraction
) -> LabelMechanism:
    """Build a mechanism that has no Gaussian form."""
    if not isinstance(budget, PureDP):
        raise PlanError(
            f"delta is for Gaussian noise: {', '.join(sorted(WITH_DELTA))}; "
            "omit it for this mechanism"
        )
    match option.kind:
        case Kind.SLACK:
            return slack(ranks, budget, centre=option.centre, tau=part)
        case Kind.STAIRCASE:
            return staircase(ranks, budget, centre=option.centre, share=part)
        case Kind.RESPONSE_LABELS:
            return ResponseSums(ranks, budget, "labels")
        case _:
            return ResponseSums(ranks, budget)

"""From the privacy model of a plan to the mechanism that keeps it."""

from __future__ import annotations

from typing import TypeAlias

from discreet.errors import PlanError
from discreet.models.privacy_models import (
    DistributedDP,
    LabelDP,
    LocalDP,
    SecureAggregation,
)
from discreet.noise.arc import CircularArc
from discreet.noise.binned_positives import BinnedPositives
from discreet.noise.level_reports import LevelReports
from discreet.noise.mechanism import Mechanism
from discreet.noise.none import ExactSum
from discreet.noise.polya import PolyaShares
from discreet.noise.reports import UnaryReports
from discreet.noise.response import RandomizedResponse
from discreet.noise.skellam import SkellamShares
from discreet.plan.plan import Plan, ResolvedRound
from discreet.privacy.loss import ApproxDP, PureDP
from discreet.statistic import ClassHistogram, Hierarchy

AnyMechanism: TypeAlias = (
    Mechanism | CircularArc | UnaryReports | LevelReports | BinnedPositives
)
"""What one-example clients send is decoded by its own estimator."""


def mechanism_for(plan: Plan, this: ResolvedRound) -> AnyMechanism:
    """Return the mechanism of one round, the same at every site and reader."""
    privacy = plan.privacy
    match privacy:
        case SecureAggregation():
            return ExactSum()
        case DistributedDP():
            sensitivity = this.statistic.sensitivity(privacy.protects)
            honest = plan.cohort.min_survivors - plan.cohort.colluders
            match this.loss:
                case PureDP():
                    return PolyaShares(this.loss, sensitivity, honest)
                case ApproxDP():
                    return SkellamShares(this.loss, sensitivity, honest)
                case _:
                    raise PlanError("distributed noise keeps pure or approximate DP")
        case LocalDP():
            return _local(privacy, this)
        case LabelDP(mechanism="binned"):
            bins = len(_histogram(this).edges)
            return BinnedPositives(_pure(this), bins)
        case LabelDP(mechanism="response"):
            raise PlanError(
                "flipped labels come from a site's key, not from fresh randomness, "
                "which would average out: answer with discreet.ranks.label_custody"
            )
        case LabelDP():
            raise PlanError(
                f"the label mechanism {privacy.mechanism} counts nothing per bin: a "
                "plan holds 'response' or 'binned'"
            )


def decoder_for(plan: Plan, this: ResolvedRound) -> AnyMechanism | RandomizedResponse:
    """Return what reads the sum of one round: the mechanism, or undoes the flips."""
    privacy = plan.privacy
    if isinstance(privacy, LabelDP) and privacy.mechanism == "response":
        _histogram(this)
        return RandomizedResponse(_pure(this))
    return mechanism_for(plan, this)


def _histogram(this: ResolvedRound) -> ClassHistogram:
    if not isinstance(this.statistic, ClassHistogram):
        raise PlanError("label privacy counts two classes and no groups")
    return this.statistic


def _pure(this: ResolvedRound) -> PureDP:
    if not isinstance(this.loss, PureDP):
        raise PlanError("label mechanisms that count per bin keep pure DP")
    return this.loss


def _local(privacy: LocalDP, this: ResolvedRound) -> AnyMechanism:
    if not isinstance(this.loss, PureDP):
        raise PlanError("local mechanisms keep pure DP")
    if privacy.mechanism == "laplace":
        # One honest site: each site's own share is the whole noise.
        sensitivity = this.statistic.sensitivity(privacy.protects)
        return PolyaShares(this.loss, sensitivity, honest=1)
    if isinstance(this.statistic, Hierarchy):
        return LevelReports(this.loss, this.statistic)
    if not isinstance(this.statistic, ClassHistogram):
        raise PlanError("one-example local messages count two classes and no groups")
    if privacy.mechanism == "unary":
        return UnaryReports(this.loss, this.statistic.edges)
    return CircularArc(this.loss.epsilon, this.statistic.edges)

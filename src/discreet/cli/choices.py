"""Options that several commands offer, in the same words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeAlias, cast, get_args

import typer

from discreet.cli.files import LabelColumn, PositiveLabel, SubjectColumn
from discreet.data.edges import EdgeRule
from discreet.data.examples import Examples
from discreet.data.scores import ScoreRange
from discreet.data.sources import read
from discreet.errors import InputError
from discreet.models.central import CentralDP
from discreet.models.distributed import DistributedDP
from discreet.models.label import (
    CURVE_MECHANISMS,
    LabelDP,
)
from discreet.models.local import LocalDP, LocalMechanism
from discreet.models.secure_aggregation import SecureAggregation
from discreet.mpc.model import ExactMPC
from discreet.plan.bins import spread_over
from discreet.plan.cohort import PublicFacts
from discreet.plan.heterogeneity import HeterogeneityQuestion
from discreet.plan.privacy_model import PrivacyModel
from discreet.statistic.rank_sums import RANK_MECHANISMS


class Privacy(StrEnum):
    """Privacy models of the command line."""

    secure_aggregation = "secure-aggregation"
    distributed = "distributed"
    local = "local"
    label = "label"
    central = "central"
    exact = "exact"


class Unit(StrEnum):
    """Whom distributed differential privacy protects."""

    example = "example"
    subject = "subject"
    client = "client"


class ClusterOf(StrEnum):
    """Whose rows are alike."""

    site = "site"
    subject = "subject"


class Kind(StrEnum):
    """Kinds of scores."""

    probability = "probability"
    logit = "logit"
    other = "other"


Prevalence: TypeAlias = Annotated[
    float | None, typer.Option(help="Public: roughly which share of them is positive.")
]


@dataclass(frozen=True, kw_only=True)
class ScoresAre:
    """Options: what the scores are."""

    kind: Annotated[
        Kind, typer.Option(help="What the scores are; 'other' needs --low, --high.")
    ] = Kind.probability
    low: Annotated[
        float | None, typer.Option(help="Public lower limit of the scores.")
    ] = None
    high: Annotated[
        float | None, typer.Option(help="Public upper limit of the scores.")
    ] = None

    def declared(self) -> ScoreRange:
        """Return the range, or say what is missing."""
        return ScoreRange.declare(self.kind.value, self.low, self.high)


@dataclass(frozen=True, kw_only=True)
class ScoredRows(ScoresAre):
    """Options: in which columns labels and subjects are, and what the scores are."""

    label: LabelColumn = "y_true"
    positive: PositiveLabel = None
    subject: SubjectColumn = None

    def read(self, place: str | Path, score: list[str], **more: Any) -> Examples:
        """Read the rows of one site."""
        return read(
            place,
            label=self.label,
            score=score[0] if len(score) == 1 else score,
            positive=self.positive,
            subject=self.subject,
            kind=self.kind.value,
            low=self.low,
            high=self.high,
            **more,
        )


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Options: what is measured, and where it is read off."""

    prevalence: Prevalence = None
    threshold: Annotated[
        list[float] | None,
        typer.Option(help="Decision threshold to report; repeat for more."),
    ] = None
    bins: Annotated[
        int | None,
        typer.Option(help="Number of bins; by default from the public facts."),
    ] = None
    pilot: Annotated[
        bool,
        typer.Option(
            "--pilot",
            help="Under noise: a first round with 5 to 20% of the budget looks where the "
            "scores are and places the bins.",
        ),
    ] = False
    classes: Annotated[
        list[str] | None,
        typer.Option(
            "--class", help="A class of a multi-class problem; repeat for each."
        ),
    ] = None
    groups: Annotated[
        list[str] | None,
        typer.Option("--in-group", help="A declared group; repeat for each."),
    ] = None
    max_weight: Annotated[
        int | None,
        typer.Option(
            help="Public: the largest weight of a row, where rows have weights."
        ),
    ] = None
    max_examples_per_site: Annotated[
        int | None,
        typer.Option(help="No site has more: bounds what one that lies can do."),
    ] = None
    random_groups: Annotated[
        int | None,
        typer.Option(
            help="Split the sites at random into so many groups, a sum each: a site that "
            "lies shows in one of them."
        ),
    ] = None
    heterogeneity: Annotated[
        list[str] | None,
        typer.Option(
            "--heterogeneity",
            help="How sites differ in this, and what a new site can expect: auc, log_oe, "
            "calibration_slope, calibration_intercept, or recall@0.5, specificity@0.5, "
            "net_benefit@0.5 at a threshold; repeat for more.",
            show_default=False,
        ),
    ] = None
    clusters: Annotated[
        ClusterOf | None,
        typer.Option(
            "--clusters",
            help="Also give intervals that take rows of one site, or of one subject, as "
            "alike.",
        ),
    ] = None

    def edges(self, facts: PublicFacts) -> EdgeRule | None:
        """Return the bins that were asked for, None to have them chosen."""
        return None if self.bins is None else spread_over(self.bins, facts)

    def heterogeneity_question(self) -> HeterogeneityQuestion | None:
        """Return what is asked about how sites differ, None for nothing."""
        if self.heterogeneity is None and self.clusters is None:
            return None
        return HeterogeneityQuestion(
            tuple(self.heterogeneity or ()),
            within=bool(self.heterogeneity),
            clusters=None if self.clusters is None else self.clusters.value,
        )


@dataclass(frozen=True, kw_only=True)
class Protection:
    """Options: who is protected, from whom, and how."""

    privacy: Annotated[
        Privacy,
        typer.Option(
            help="Who may learn what: exact sums only; sums with distributed noise; "
            "private messages; public scores with private labels; what a trusted "
            "curator publishes; exact areas by three compute parties."
        ),
    ] = Privacy.secure_aggregation
    epsilon: Annotated[
        str | None,
        typer.Option(
            help="Privacy loss, for distributed, local, label and central; with "
            "exact, opens only a noisy AUC."
        ),
    ] = None
    delta: Annotated[
        str, typer.Option(help="0 for pure differential privacy, or a small number.")
    ] = "0"
    unit: Annotated[Unit, typer.Option(help="Who is protected, for distributed.")] = (
        Unit.example
    )
    max_examples: Annotated[
        int | None,
        typer.Option(help="Most examples of one subject or client that count."),
    ] = None
    mechanism: Annotated[
        str | None,
        typer.Option(
            help="How messages are randomised. Local: "
            f"{', '.join(get_args(LocalMechanism))}. Label: "
            f"{', '.join((*RANK_MECHANISMS, *CURVE_MECHANISMS))}; the last three "
            "give curves, the others the AUC alone."
        ),
    ] = None
    min_survivors: Annotated[
        int | None,
        typer.Option(help="Sites that must be in every sum; by default all of them."),
    ] = None
    colluders: Annotated[
        int | None,
        typer.Option(
            help="Sites that may know or tell their share of the noise; under distributed "
            "noise by default one, the site that reads the result.",
            show_default=False,
        ),
    ] = None

    def model(self) -> PrivacyModel:
        """Return the privacy model that the options describe."""
        privacy, epsilon = self.privacy, self.epsilon
        if self.mechanism is not None and privacy not in {Privacy.local, Privacy.label}:
            raise InputError(
                f"--privacy {privacy.value} has one mechanism: leave out --mechanism"
            )
        if privacy is Privacy.exact:
            return ExactMPC(epsilon=epsilon)
        if privacy is Privacy.secure_aggregation:
            if epsilon is not None:
                raise InputError(
                    "exact sums have no epsilon; choose --privacy distributed, local, "
                    "label or central"
                )
            return SecureAggregation()
        if epsilon is None:
            raise InputError(
                f"--privacy {privacy.value} needs --epsilon, for instance 1"
            )
        match privacy:
            case Privacy.distributed:
                return DistributedDP(
                    epsilon,
                    self.delta,
                    self.unit.value,
                    self.max_examples,
                    self.min_survivors,
                    self.colluders,
                )
            case Privacy.central:
                return CentralDP(epsilon, self.delta)
            case Privacy.local:
                return LocalDP(epsilon, cast("LocalMechanism", self.mechanism or "arc"))
            case Privacy.label:
                chosen = self.mechanism or "choice"
                return LabelDP(epsilon, self.delta, chosen)

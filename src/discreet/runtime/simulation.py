"""The whole federation in one process: sites count, counts are added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import overload

from discreet import exact
from discreet.data.edges import EdgeRule
from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Entropy, Seeded
from discreet.errors import InputError, PlanError
from discreet.estimate.curves import Interpolation
from discreet.estimate.reading import Estimator, Flat
from discreet.estimate.tree_reading import TreeMethod
from discreet.exact.model import ExactMPC
from discreet.models.central import CentralDP
from discreet.models.distributed import DistributedDP
from discreet.models.label import LabelDP
from discreet.models.local import LocalDP
from discreet.models.recommend import recommend
from discreet.models.secure_aggregation import SecureAggregation
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import Plan
from discreet.plan.privacy_model import PrivacyModel
from discreet.plan.rounds import Multiclass, Round
from discreet.result.build import Result, result_of
from discreet.result.evaluation import Evaluation
from discreet.result.several import MultiEvaluation
from discreet.runtime.in_process import Aggregation, simulate
from discreet.runtime.label import evaluate_labels


@overload
def evaluate(
    sites: Sequence[Examples],
    *,
    privacy: ExactMPC,
    prevalence: float | None = ...,
) -> Evaluation: ...


@overload
def evaluate(
    sites: Sequence[Examples],
    *,
    privacy: LabelDP,
    prevalence: float | None = ...,
    thresholds: Sequence[float] | None = ...,
    edges: EdgeRule | None = ...,
    interpolation: Interpolation | None = ...,
    aggregation: Aggregation = ...,
    progress: Callable[[int], None] | None = ...,
) -> Evaluation: ...


@overload
def evaluate(
    sites: Sequence[Examples],
    *,
    privacy: SecureAggregation | DistributedDP | LocalDP | CentralDP = ...,
    examples: int | None = ...,
    prevalence: float | None = ...,
    thresholds: Sequence[float] | None = ...,
    edges: EdgeRule | None = ...,
    interpolation: Interpolation | None = ...,
    method: TreeMethod | None = ...,
    classes: None = ...,
    groups: None = ...,
    aggregation: Aggregation = ...,
    progress: Callable[[int], None] | None = ...,
) -> Evaluation: ...


@overload
def evaluate(
    sites: Sequence[Examples],
    *,
    privacy: SecureAggregation | DistributedDP | LocalDP | CentralDP = ...,
    examples: int | None = ...,
    prevalence: float | None = ...,
    thresholds: Sequence[float] | None = ...,
    edges: EdgeRule | None = ...,
    interpolation: Interpolation | None = ...,
    classes: Sequence[str],
    multiclass: Multiclass = ...,
    aggregation: Aggregation = ...,
    progress: Callable[[int], None] | None = ...,
) -> MultiEvaluation: ...


@overload
def evaluate(
    sites: Sequence[Examples],
    *,
    privacy: SecureAggregation | DistributedDP | LocalDP | CentralDP = ...,
    examples: int | None = ...,
    prevalence: float | None = ...,
    thresholds: Sequence[float] | None = ...,
    edges: EdgeRule | None = ...,
    interpolation: Interpolation | None = ...,
    groups: Sequence[str],
    aggregation: Aggregation = ...,
    progress: Callable[[int], None] | None = ...,
) -> MultiEvaluation: ...


def evaluate(  # noqa: PLR0913 - every public choice is a keyword
    sites: Sequence[Examples],
    *,
    privacy: PrivacyModel | ExactMPC | None = None,
    examples: int | None = None,
    prevalence: float | None = None,
    thresholds: Sequence[float] | None = None,
    edges: EdgeRule | None = None,
    interpolation: Interpolation | None = None,
    method: TreeMethod | None = None,
    classes: Sequence[str] | None = None,
    multiclass: Multiclass = "ovr",
    groups: Sequence[str] | None = None,
    aggregation: Aggregation = "plain",
    progress: Callable[[int], None] | None = None,
) -> Result:
    """Evaluate the pooled data of several sites in one process.

    The plan is made from the arguments alone; each site then counts, and only
    the sum of the counts is looked at.

    Args:
        sites: the sites' examples.
        privacy: the privacy model; exact sums by default. ``LabelDP`` gives the AUC
            alone unless its mechanism releases curves, ``ExactMPC`` the areas alone.
        examples: public: roughly how many examples there are in all.
        prevalence: public: roughly which share of them is positive.
        thresholds: decision thresholds to report; they become bin edges.
        edges: how scores are binned; by default chosen from the public facts.
        interpolation: ``linear`` (scikit-learn on the binned scores) or
            ``pchip``; by default chosen from the release.
        method: a published method to compare with, ``FedCurve(...)`` or
            ``RangeQueries(...)``: the plan then releases the tree that it reads.
        classes: names of the classes of a multi-class problem: one result each.
        multiclass: ``ovr``, or ``ovo`` to release what pairs of classes need.
        groups: names of disjoint groups: one result each.
        aggregation: ``plain`` adds the vectors; ``secagg`` runs the real protocol,
            every site and the coordinator in this process.
        progress: called with the number of sites that have answered.

    >>> import numpy as np
    >>> scores = np.linspace(0, 1, 20_000)
    >>> north = Examples(scores, scores > 0.3)
    >>> south = Examples(scores, scores > 0.7)
    >>> result = evaluate([north, south])
    >>> round(result.auc.value, 3), result.releases[0].contributors
    (0.92, 2)
    """
    if isinstance(sites, Examples) or not all(isinstance(s, Examples) for s in sites):
        raise InputError("sites is a list of Examples; make them with discreet.read")
    if not sites:
        raise InputError("there are no sites: give at least one")
    kinds = {site.scores for site in sites}
    if len(kinds) > 1:
        raise InputError("the sites declare different kinds or ranges of scores")
    privacy = privacy or SecureAggregation()
    if isinstance(privacy, ExactMPC):
        if any(asked is not None for asked in (thresholds, edges, classes, groups)):
            raise PlanError(
                "exact areas open no counts: no thresholds, edges, classes or groups"
            )
        return exact.evaluate(sites, privacy, prevalence=prevalence)
    if isinstance(privacy, LabelDP):
        if classes is not None or groups is not None or method is not None:
            raise PlanError("label privacy measures two classes, no groups, no tree")
        return evaluate_labels(
            sites,
            privacy=privacy,
            prevalence=prevalence,
            thresholds=thresholds,
            edges=edges,
            interpolation=interpolation,
            aggregation=aggregation,
            progress=progress,
        )
    plan = recommend(
        PublicFacts(examples, prevalence, sites[0].scores),
        privacy,
        thresholds=thresholds,
        edges=edges,
        classes=classes,
        multiclass=multiclass,
        groups=groups,
        cohort=privacy.cohort(len(sites)),
    )
    if method is not None:
        plan = replace(plan, rounds=(Round(method.hierarchy()),))
    estimator = None if interpolation is None else Flat(interpolation)
    return run(
        plan,
        sites,
        estimator=estimator,
        method=method,
        aggregation=aggregation,
        progress=progress,
    )


def run(
    plan: Plan,
    sites: Sequence[Examples],
    *,
    entropy: Entropy = SYSTEM,
    estimator: Estimator | None = None,
    method: TreeMethod | None = None,
    aggregation: Aggregation = "plain",
    progress: Callable[[int], None] | None = None,
) -> Result:
    """Carry out a plan over sites in this process, round by round."""
    seeded = isinstance(entropy, Seeded)
    claim = plan.claim("seeded" if seeded else "simulated", sites=len(sites))
    releases = simulate(
        plan, sites, entropy=entropy, aggregation=aggregation, progress=progress
    )
    return result_of(plan, releases, claim, estimator=estimator or method)

"""A plan from public facts alone: the model says which rounds answer a question.

Nothing here sees examples. The rules are written down, and a plan records what
they chose, so that everybody can check it.
"""

from __future__ import annotations

from collections.abc import Sequence

from discreet.data.edges import EdgeRule
from discreet.metrics.table import DEFAULT_METRICS, Metric
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.heterogeneity import HeterogeneityQuestion
from discreet.plan.plan import ModelRef, Plan
from discreet.plan.privacy_model import PrivacyModel
from discreet.plan.rounds import Multiclass, Question


def recommend(  # noqa: PLR0913 - every public choice is a keyword
    facts: PublicFacts,
    privacy: PrivacyModel,
    *,
    thresholds: Sequence[float] | None = None,
    edges: EdgeRule | None = None,
    classes: Sequence[str] | None = None,
    multiclass: Multiclass = "ovr",
    groups: Sequence[str] | None = None,
    heterogeneity: HeterogeneityQuestion | None = None,
    max_weight: int | None = None,
    pilot: bool = False,
    cohort: Cohort | None = None,
    model: ModelRef | None = None,
) -> Plan:
    """Choose a plan from public facts. It never sees examples.

    >>> from discreet import DistributedDP, SecureAggregation
    >>> plan = recommend(PublicFacts(), SecureAggregation())
    >>> len(plan.statistic.edges), plan.thresholds
    (129, (0.5,))
    >>> facts = PublicFacts(examples=32_000, prevalence=0.25)
    >>> len(recommend(facts, DistributedDP(epsilon=1)).statistic.edges)
    67
    >>> [float(r.budget) for r in recommend(facts, DistributedDP(1), pilot=True).rounds]
    [0.05, 0.95]
    """
    asked = Question(
        facts,
        None if thresholds is None else tuple(float(t) for t in thresholds),
        edges,
        None if classes is None else tuple(classes),
        multiclass,
        None if groups is None else tuple(groups),
        heterogeneity,
        max_weight,
        pilot,
    )
    return planned(asked, privacy, cohort=cohort, model=model)


def planned(
    asked: Question,
    privacy: PrivacyModel,
    *,
    cohort: Cohort | None = None,
    model: ModelRef | None = None,
) -> Plan:
    """Let a privacy model say which rounds answer a question."""
    # Before the model is agreed on: then it has no number of its own any more.
    cohort = privacy.counted(cohort or privacy.cohort())
    agreed = privacy.agreed()
    metrics: frozenset[Metric] = frozenset(DEFAULT_METRICS)
    if asked.facts.scores.kind == "other":
        metrics -= {"brier"}
    return Plan(
        privacy=agreed,
        rounds=agreed.rounds(asked, cohort),
        thresholds=asked.cuts,
        metrics=metrics,
        facts=asked.facts,
        cohort=cohort,
        model=model or ModelRef(),
    )

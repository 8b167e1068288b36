"""Label privacy in one process, with what a plan from outside does not say."""

from __future__ import annotations

from fractions import Fraction

from discreet.entropy import SYSTEM
from discreet.models.label import LabelDP, plan_rank_sums
from discreet.plan.cohort import PublicFacts
from discreet.plan.rounds import Question
from discreet.transport.simulation import check_sites, run


def label_auc(
    sites,
    *,
    epsilon,
    delta=0,
    mechanism="choice",
    share=Fraction(1, 2),
    aggregation="plain",
    colluders=0,
    response_keys=None,
    entropy=SYSTEM,
):
    """Measure the AUC by rank sums of any mechanism."""
    check_sites(sites)
    own = "response" if mechanism.startswith("response") else mechanism
    plan = plan_rank_sums(
        LabelDP(epsilon, delta, own),
        sites,
        mechanism=mechanism,
        share=share,
        aggregation=aggregation,
        colluders=colluders,
    )
    return run(plan, sites, response_keys=response_keys, entropy=entropy)


def evaluate_labels(
    sites,
    *,
    privacy,
    prevalence=None,
    thresholds=None,
    edges=None,
    interpolation=None,
    **options,
):
    """Evaluate sites whose scores are public, with entropy or response keys given."""
    check_sites(sites)
    question = Question(
        PublicFacts(None, prevalence, sites[0].scores), thresholds, edges
    )
    plan = privacy.plan_for(question, sites)
    estimator = None if interpolation is None else privacy.estimator(interpolation)
    return run(plan, sites, estimator=estimator, **options)

"""The plan of curves and calibration under label privacy, from public scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from discreet.data.edges import EdgeRule
from discreet.errors import PlanError
from discreet.models.label import LabelDP
from discreet.models.recommend import recommend
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import ModelRef, Plan
from discreet.privacy.loss import exact
from discreet.ranks.predicted_error import (
    predict_best,
    predict_binned,
    predict_response,
)
from discreet.ranks.public_scores import PublicScores


def plan_curves(
    public: PublicScores,
    privacy: LabelDP,
    *,
    thresholds: Sequence[float] | None = None,
    edges: EdgeRule | None = None,
    prevalence: float | None = None,
    model: ModelRef | None = None,
) -> Plan:
    """Return the plan that every site of these scores can recompute.

    Args:
        public: the scores of all sites.
        privacy: with the mechanism ``response``, ``binned``, or ``curves``, which
            becomes the one of the two with the smaller predicted error.
        thresholds: decision thresholds to report; they become bin edges.
        edges: other edges than those taken from the scores.
        prevalence: public: roughly which share of the examples is positive.
        model: which classifier is measured.
    """
    way = {
        "response": predict_response,
        "binned": predict_binned,
        "curves": predict_best,
    }.get(privacy.mechanism)
    if way is None:
        raise PlanError(
            f"the label mechanism {privacy.mechanism} gives the AUC alone; use "
            "LabelDP(mechanism='curves')"
        )
    chosen = way(public, float(exact(privacy.epsilon)), prevalence=prevalence)
    return recommend(
        PublicFacts(public.examples, prevalence, public.range),
        replace(privacy, mechanism=chosen.mechanism),
        thresholds=thresholds,
        edges=edges or chosen.rule,
        cohort=Cohort(min_survivors=len(public.sites)),
        model=model,
    )

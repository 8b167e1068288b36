"""Label privacy in one process: public scores in, private labels out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from discreet.data.edges import EdgeRule
from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Entropy
from discreet.errors import PlanError
from discreet.estimate.curves import Interpolation
from discreet.label.response_keys import ResponseKeys
from discreet.models.label import LabelDP
from discreet.plan.cohort import PublicFacts
from discreet.plan.rounds import Question
from discreet.report.evaluation import Evaluation
from discreet.transport.in_process import Aggregation
from discreet.transport.simulation import check_sites, run


def evaluate_labels(  # noqa: PLR0913 - every public choice is a keyword
    sites: Sequence[Examples],
    *,
    privacy: LabelDP,
    prevalence: float | None = None,
    thresholds: Sequence[float] | None = None,
    edges: EdgeRule | None = None,
    interpolation: Interpolation | None = None,
    response_keys: Sequence[ResponseKeys] | None = None,
    aggregation: Aggregation = "plain",
    entropy: Entropy = SYSTEM,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Evaluate sites whose scores are public and whose labels are not.

    Rank mechanisms give the AUC alone; ``response``, ``binned`` and ``curves`` give
    everything. ``response_keys`` is what each site keeps from one evaluation to the next:
    with it, a second model on the same labels costs nothing more under randomized
    response, and is charged again under every other mechanism.
    """
    check_sites(sites)
    plan = privacy.plan_for(
        Question(
            PublicFacts(None, prevalence, sites[0].scores),
            None if thresholds is None else tuple(float(t) for t in thresholds),
            edges,
        ),
        sites,
    )
    reader = None if interpolation is None else plan.privacy.estimator(interpolation)
    found = run(
        plan,
        sites,
        estimator=reader,
        aggregation=aggregation,
        response_keys=response_keys,
        entropy=entropy,
        progress=progress,
    )
    if not isinstance(found, Evaluation):
        raise PlanError("label privacy gives one evaluation")
    return found

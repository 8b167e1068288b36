"""Label privacy in one process: public scores in, private labels out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from discreet.data.edges import EdgeRule
from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Entropy, Seeded
from discreet.errors import PlanError
from discreet.estimate.curves import Interpolation
from discreet.estimate.public_totals import PublicTotals
from discreet.models.label import LabelDP, plan_curves
from discreet.privacy.claim import Setting
from discreet.ranks.label_custody import LabelCustody
from discreet.ranks.public_scores import PublicScores
from discreet.result.build import evaluation
from discreet.result.evaluation import Evaluation
from discreet.runtime.in_process import Aggregation, simulate
from discreet.runtime.label_auc import label_auc


def evaluate_labels(  # noqa: PLR0913 - every public choice is a keyword
    sites: Sequence[Examples],
    *,
    privacy: LabelDP,
    prevalence: float | None = None,
    thresholds: Sequence[float] | None = None,
    edges: EdgeRule | None = None,
    interpolation: Interpolation | None = None,
    custody: Sequence[LabelCustody] | None = None,
    aggregation: Aggregation = "plain",
    entropy: Entropy = SYSTEM,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Evaluate sites whose scores are public and whose labels are not.

    Rank mechanisms give the AUC alone; ``response``, ``binned`` and ``curves`` give
    everything. ``custody`` is what each site keeps from one evaluation to the next:
    with it, a second model on the same labels costs nothing more under randomized
    response, and is charged again under every other mechanism.
    """
    match privacy.mechanism:
        case "response" | "binned" | "curves":
            plan = plan_curves(
                PublicScores.of(sites),
                privacy,
                thresholds=thresholds,
                edges=edges,
                prevalence=prevalence,
            )
            # Fresh keys are drawn here, so that every site has one of its own.
            kept = custody or [LabelCustody.fresh(entropy) for _ in sites]
            releases = simulate(
                plan,
                sites,
                custody=kept,
                aggregation=aggregation,
                entropy=entropy,
                progress=progress,
            )
            setting: Setting = "seeded" if isinstance(entropy, Seeded) else "simulated"
            claim = plan.claim(setting, sites=len(sites))
            estimator = PublicTotals(interpolation)
            return evaluation(plan, releases, claim, estimator=estimator)
        case ranks:
            if any(choice is not None for choice in (thresholds, edges, interpolation)):
                raise PlanError(
                    f"the label mechanism {ranks} gives the AUC alone: it has no "
                    "thresholds, edges or curve; use LabelDP(mechanism='curves')"
                )
            return label_auc(
                sites,
                epsilon=privacy.epsilon,
                delta=privacy.delta,
                mechanism=ranks,
                aggregation=aggregation,
                custody=custody,
                entropy=entropy,
            )

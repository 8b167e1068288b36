"""Label privacy in one process: public scores in, private labels out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from discreet.data.edges import EdgeRule
from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Entropy, Seeded
from discreet.errors import InputError, PlanError
from discreet.estimate.curves import Interpolation
from discreet.estimate.known_totals import KnownTotals
from discreet.models.label import LabelDP, plan_curves
from discreet.plan.plan import Plan
from discreet.plan.release import Release
from discreet.privacy.claim import Setting
from discreet.ranks.label_custody import LabelCustody, answer
from discreet.ranks.public_scores import PublicScores
from discreet.result.evaluation import Evaluation, evaluation
from discreet.result.scalars import ScalarEvaluation
from discreet.runtime.label_auc import label_auc
from discreet.runtime.summing import Aggregation, opened_sum


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
) -> Evaluation | ScalarEvaluation:
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
            release = simulate_labels(
                plan,
                sites,
                custody=custody,
                aggregation=aggregation,
                entropy=entropy,
                progress=progress,
            )
            setting: Setting = "seeded" if isinstance(entropy, Seeded) else "simulated"
            claim = plan.claim(setting, sites=len(sites))
            estimator = KnownTotals(interpolation)
            return evaluation(plan, [release], claim, estimator=estimator)
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


def simulate_labels(
    plan: Plan,
    sites: Sequence[Examples],
    *,
    custody: Sequence[LabelCustody] | None = None,
    aggregation: Aggregation = "plain",
    entropy: Entropy = SYSTEM,
    progress: Callable[[int], None] | None = None,
) -> Release:
    """Let every site answer a plan of curves; return what was opened."""
    kept = [LabelCustody.fresh(entropy) for _ in sites] if custody is None else custody
    if len(kept) != len(sites):
        raise InputError(f"{len(sites)} sites need as many custodies, got {len(kept)}")
    session = hashlib.sha256(plan.digest() + entropy(32)).digest()
    this = plan.resolve(0, [])
    answers = []
    for k, (site, own) in enumerate(zip(sites, kept, strict=True)):
        answers.append(
            answer(
                site,
                own,
                plan,
                this,
                session=session,
                population=site.name or f"site {k + 1}",
                entropy=entropy,
            )
        )
        if progress is not None:
            progress(k + 1)
    total, contributors = opened_sum(answers, plan, aggregation, entropy)
    return Release(
        plan.digest(), session, 0, total, contributors, len(sites), this.loss
    )

"""A plan carried out in random groups of sites, in this process.

One sum a group, of the same plan: every site answers once. Only simulated: between
machines the sites' nonces would have to be committed to before any is shown, and
sessions do not carry that step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Entropy, Seeded
from discreet.errors import PlanError
from discreet.estimate.reading import Estimator
from discreet.plan.plan import Plan
from discreet.plan.random_groups import NONCE_SIZE, check_groups, drawn_groups
from discreet.plan.release import Release
from discreet.privacy.claim import Setting
from discreet.result.build import evaluation
from discreet.result.evaluation import Evaluation
from discreet.result.random_groups import RandomGroups, pooled
from discreet.runtime.in_process import Aggregation, simulate


def run_in_groups(
    plan: Plan,
    sites: Sequence[Examples],
    groups: int,
    *,
    entropy: Entropy = SYSTEM,
    estimator: Estimator | None = None,
    aggregation: Aggregation = "plain",
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Open one sum a group; return the pooled evaluation with what the groups show."""
    check_groups(len(sites), groups, least=plan.cohort.min_survivors)
    if plan.privacy.route != "secure sum" or len(plan.rounds) != 1:
        raise PlanError(
            "random groups are for plans of one round whose answers are summed: give "
            "edges, or use SecureAggregation or DistributedDP"
        )
    nonces = {number: entropy(NONCE_SIZE) for number in range(1, len(sites) + 1)}
    members = drawn_groups(plan.digest(), nonces, groups)
    releases = [
        simulate(
            plan,
            [sites[number - 1] for number in group],
            entropy=entropy,
            aggregation=aggregation,
            progress=progress,
        )[0]
        for group in members
    ]
    setting: Setting = "seeded" if isinstance(entropy, Seeded) else "simulated"
    claim = plan.claim(setting, sites=min(len(group) for group in members))
    opened = f"the sum of each of {groups} random groups of sites"
    claim = replace(claim, discloses=(*claim.discloses, opened))

    def read(release: Release) -> Evaluation:
        return evaluation(plan, [release], claim, estimator=estimator)

    alone = [replace(read(r), name=f"group {k}") for k, r in enumerate(releases, 1)]
    without = [read(pooled(releases, leave_out=place)) for place in range(groups)]
    found = RandomGroups(members, tuple(alone), tuple(without))
    return replace(read(pooled(releases)), random_groups=found)

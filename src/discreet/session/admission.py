"""Admission: every reason to refuse, looked at before a session is joined.

Two looks. What a plan is, and what the ledger can still pay for, is looked at again
inside a session, and has nothing to do with the data. Whether the data suit the plan
is the operator's own look, before anything is joined: inside a session a refusal
would tell the coordinator something about them.
"""

from __future__ import annotations

from collections.abc import Sequence

from discreet.data.examples import Examples
from discreet.plan.plan import Plan
from discreet.plan.rounds import ResolvedRound
from discreet.privacy.account import SiteAccount
from discreet.privacy.loss import fraction_of
from discreet.session.policy import Policy, PolicyError
from discreet.session.respond import exact_counts, use_of

_NEW_SESSION = b""
"""A session that was not charged for anything."""


def admit(
    plan: Plan,
    policy: Policy,
    ledger: SiteAccount,
    *,
    session: bytes | None = None,
    sites: Sequence[str] | None = None,
) -> None:
    """Check policy and caps; look at no data, charge nothing, send nothing.

    Args:
        plan: what is asked.
        policy: the site's rules.
        ledger: what was spent; opened with the limits of the policy.
        session: the run, when it may have been charged already: what it has paid
            for is not counted twice.
        sites: who is in the sum; by default the plan's roster.

    Raises:
        PolicyError: the plan is not allowed here.
        BudgetError: the population cannot pay for the whole plan.
    """
    policy.check(plan)
    first = plan.resolve(0, [])
    ledger.check(
        [
            use_of(
                plan,
                this,
                session=session or _NEW_SESSION,
                population=policy.population,
                sites=sites,
            )
            for this in (first, *_later(plan, first))
        ]
    )


def check_data(plan: Plan, policy: Policy | None, examples: Examples) -> None:
    """Count once and throw the counts away: for the operator, before joining.

    Raises:
        PolicyError: there are fewer examples than the policy asks for.
        InputError: the data is not what the plan counts.
    """
    if plan.protocol.counts_alone:
        exact_counts(examples, plan, plan.resolve(0, []))
    if policy is not None and len(examples) < policy.examples:
        raise PolicyError(
            f"this site has fewer than the {policy.examples} examples that its policy "
            "asks for"
        )


def _later(plan: Plan, first: ResolvedRound) -> list[ResolvedRound]:
    """Return what the further rounds cost; what they count is not known yet."""
    return [
        ResolvedRound(i, first.statistic, fraction_of(plan.privacy.loss, r.budget))
        for i, r in enumerate(plan.rounds)
        if i
    ]

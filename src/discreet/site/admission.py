"""Admission: every reason to refuse, looked at before a session is joined.

Data is counted once beforehand, so that a column that is missing or a score that is
out of range shows at the site and not as a failure inside a session, where it would
tell the coordinator something about the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from discreet.arrays import IntVector
from discreet.data.examples import Examples
from discreet.entropy import Entropy
from discreet.plan.plan import Plan
from discreet.plan.rounds import ResolvedRound
from discreet.privacy.loss import fraction_of
from discreet.site.ledger import Ledger
from discreet.site.policy import Policy
from discreet.site.respond import check_own_examples, exact_counts, respond, use_of

_NEW_SESSION = b""
"""A session that was not charged for anything."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """A plan that this site takes part in, with what it needs to answer."""

    plan: Plan
    policy: Policy
    examples: Examples
    ledger: Ledger
    sites: tuple[str, ...] | None = None

    def respond(
        self, this: ResolvedRound, *, session: bytes, entropy: Entropy
    ) -> IntVector:
        """Answer one round: charged, stored, and then to be sent."""
        return respond(
            self.examples,
            self.ledger,
            self.plan,
            this,
            session=session,
            population=self.policy.population,
            entropy=entropy,
            sites=self.sites,
            policy=self.policy,
        )


def admit(
    plan: Plan,
    policy: Policy,
    examples: Examples,
    ledger: Ledger,
    *,
    session: bytes | None = None,
    sites: Sequence[str] | None = None,
) -> Admitted:
    """Check policy, data, floors and caps; draw nothing, charge nothing, send nothing.

    Args:
        plan: what is asked.
        policy: the site's rules.
        examples: the site's data.
        ledger: what was spent; opened with the limits of the policy.
        session: the run, when it may have been charged already: what it has paid
            for is not counted twice.
        sites: who is in the sum; by default the plan's roster.

    Raises:
        PolicyError: the plan or the data is not allowed here.
        BudgetError: the population cannot pay for the whole plan.
        InputError: the data is not what the plan counts.
    """
    policy.check(plan)
    check_own_examples(examples, policy)
    first = plan.resolve(0, [])
    ledger.check(
        [
            use_of(
                plan,
                this,
                exact_counts(examples, plan, this) if this is first else None,
                session=session or _NEW_SESSION,
                population=policy.population,
                sites=sites,
            )
            for this in (first, *_later(plan, first))
        ]
    )
    named = None if sites is None else tuple(sorted(sites))
    return Admitted(plan, policy, examples, ledger, named)


def _later(plan: Plan, first: ResolvedRound) -> list[ResolvedRound]:
    """Return what the further rounds cost; what they count is not known yet."""
    return [
        ResolvedRound(i, first.statistic, fraction_of(plan.privacy.loss, r.budget))
        for i, r in enumerate(plan.rounds)
        if i
    ]

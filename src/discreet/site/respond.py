"""A site's answer to one round: the one place where data meets randomness."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from discreet.arrays import IntVector
from discreet.data.examples import Examples
from discreet.entropy import Entropy
from discreet.errors import InputError
from discreet.plan.plan import Plan
from discreet.plan.rounds import ResolvedRound
from discreet.privacy.account import Account, Use, answer_once
from discreet.site.bounding import bounded
from discreet.site.policy import Policy, PolicyError


def respond(  # noqa: PLR0913 - what is asked, of whom, under which rules
    examples: Examples,
    account: Account,
    plan: Plan,
    this: ResolvedRound,
    *,
    session: bytes,
    population: str,
    entropy: Entropy,
    sites: Sequence[str] | None = None,
    policy: Policy | None = None,
) -> IntVector:
    """Count, charge, add noise, store, and only then return what is sent.

    The account is charged before any noise is drawn, and the answer is stored
    before it is sent: a retry of the same session and round gets the same bytes,
    because fresh noise on the same counts would average out.

    Args:
        examples: the site's data.
        account: who pays; a ``Ledger`` outlives the process.
        plan: what is asked.
        this: the round, worked out from the plan and the earlier releases.
        session: names one run of the plan; a retry has the same.
        population: whom the data is about.
        entropy: where noise comes from.
        sites: who is in the sum; by default the plan's roster.
        policy: the site's rules, checked once more; None in a simulation.
    """
    stored = stored_answer(account, session, this.index)
    if stored is not None:
        return stored  # whatever the data, the policy and the budget now say
    exact = exact_counts(examples, plan, this)
    if policy is not None:
        policy.check(plan)
        check_own_examples(examples, policy)
        if population != policy.population:
            raise PolicyError(
                f"the policy is for population {policy.population!r}, not for "
                f"{population!r}"
            )
    mechanism = plan.privacy.noise(this, plan.cohort)
    use = use_of(plan, this, exact, session=session, population=population, sites=sites)

    def protected() -> bytes:
        return mechanism.protect(exact, entropy=entropy).astype("<i8").tobytes()

    message = answer_once(account, use, protected)
    return np.frombuffer(message, dtype="<i8").astype(np.int64)


def stored_answer(account: Account, session: bytes, index: int) -> IntVector | None:
    """Return what a round was answered with before, to be sent again.

    Looked up before any data is read: a retry must not tell whether they changed.
    """
    message = account.replay(session, index)
    if message is None:
        return None
    return np.frombuffer(message, dtype="<i8").astype(np.int64)


def exact_counts(examples: Examples, plan: Plan, this: ResolvedRound) -> IntVector:
    """Count one round's statistic: this validates every row, and draws nothing."""
    exact = this.statistic.count(bounded(examples, plan.privacy.protects))
    floor = plan.cohort.min_examples_per_site
    if floor and len(examples) < floor:
        raise InputError(
            f"this site has fewer than the {floor} examples that the plan asks for"
        )
    return exact


def check_own_examples(examples: Examples, policy: Policy) -> None:
    """Refuse to speak for too few people."""
    if len(examples) < policy.examples:
        raise PolicyError(
            f"this site has fewer than the {policy.examples} examples that its policy "
            "asks for"
        )


def use_of(
    plan: Plan,
    this: ResolvedRound,
    exact: IntVector | None,
    *,
    session: bytes,
    population: str,
    sites: Sequence[str] | None = None,
) -> Use:
    """Return what the account is asked to pay for; without counts, not yet what for."""
    if sites is None:
        sites = () if plan.roster is None else plan.roster.keys()
    intent, asked = b"", plan.asked()
    if exact is not None:
        intent = hashlib.sha256(asked + exact.astype("<i8").tobytes()).digest()
    unit = plan.privacy.protects
    protects = "exact sum" if unit is None else str(unit)
    return Use(
        population,
        session,
        this.index,
        this.loss,
        intent,
        plan=plan.digest(),
        sites=tuple(sorted(sites)),
        note=": ".join(part for part in (plan.model.name, protects) if part),
        unit=unit,
        asked=asked,
    )

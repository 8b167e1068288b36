"""A site's answer to one round: the one place where data meets randomness.

The order is fixed: policy, stored answer, charge, data, clip, noise, store, send. Nothing
that depends on the data is said outside a charge, not even by a refusal: rows that do
not fit the plan have a rule (``Examples.fitted``), and a retry gets the stored bytes
whatever the data now say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from discreet.arrays import IntVector
from discreet.data.examples import Examples
from discreet.entropy import Entropy, child
from discreet.errors import InputError
from discreet.failures import is_of_the_system, sentence
from discreet.label.response_keys import ResponseKeys
from discreet.label.response_keys import answer as flipped_counts
from discreet.noise.response import ResponseKey
from discreet.plan.plan import Plan
from discreet.plan.rounds import ResolvedRound
from discreet.privacy.account import SiteAccount, Use, answer_once
from discreet.session.bounding import bounded
from discreet.session.policy import Policy, PolicyError
from discreet.statistic.protocol import within_bounds


def respond(  # noqa: PLR0913 - what is asked, of whom, under which rules
    examples: Examples | Callable[[], Examples],
    account: SiteAccount,
    plan: Plan,
    this: ResolvedRound,
    *,
    session: bytes,
    population: str,
    entropy: Entropy,
    sites: Sequence[str] | None = None,
    policy: Policy | None = None,
    strict: bool | None = None,
    signed: bool = False,
    response_key: ResponseKey | None = None,
    log: Callable[[str], None] | None = None,
) -> IntVector:
    """Charge, count, add noise, store, and only then return what is sent.

    The account is charged before the data is looked at, and the answer is stored
    before it is sent: a retry of the same session and round gets the same bytes,
    because fresh noise on the same counts would average out.

    Args:
        examples: the site's data, or what opens them, called after the charge.
        account: who pays; a ``Ledger`` outlives the process.
        plan: what is asked.
        this: the round, worked out from the plan and the earlier releases.
        session: names one run of the plan; a retry has the same.
        population: whom the data is about.
        entropy: where noise comes from.
        sites: who is in the sum; by default the plan's roster.
        policy: the site's rules, checked once more.
        strict: whether rows that do not fit the plan are an error, as in a simulation;
            by default they are where there is no policy.
        signed: nothing of it can be revealed before this site signs.
        response_key: the key of this site's label flips, for plans that flip labels.
        log: told at the site how many rows did not fit.
    """
    if strict is None:
        strict = policy is None
    if policy is not None:
        policy.check(plan)
        if population != policy.population:
            raise PolicyError(
                f"the policy is for population {policy.population!r}, not for "
                f"{population!r}"
            )
    if plan.privacy.reusable:
        if response_key is None:
            raise PolicyError(
                "the plan flips labels: this site needs a key for its flips"
            )
        held = examples if isinstance(examples, Examples) else examples()
        return flipped_counts(
            held if strict else held.fitted(),
            ResponseKeys(response_key, account),
            plan,
            this,
            session=session,
            population=population,
            entropy=entropy,
        )
    mechanism = plan.privacy.mechanism_for(this, plan.cohort)
    use = use_of(plan, this, session=session, population=population, sites=sites)
    use = replace(use, signed=signed)

    def protected() -> bytes:
        held = examples if isinstance(examples, Examples) else examples()
        exact = _counted(held, plan, this, strict=strict, log=log)
        exact = confined(exact, plan, this, log=log)
        noise = child(entropy, f"noise of round {this.index}")
        return mechanism.protect(exact, entropy=noise).astype("<i8").tobytes()

    message = answer_once(account, use, protected)
    return np.frombuffer(message, dtype="<i8").astype(np.int64)


def _counted(
    examples: Examples,
    plan: Plan,
    this: ResolvedRound,
    *,
    strict: bool,
    log: Callable[[str], None] | None,
) -> IntVector:
    if strict:
        return exact_counts(examples, plan, this)
    unit = plan.privacy.protects
    # Who may see how many rows there are would see that one is missing.
    fitted = examples.fitted(every_row=unit is not None and unit.relation == "replace")
    this.statistic.count(fitted.emptied())  # wrong columns: whatever the rows are
    try:
        kept = bounded(fitted, unit)
        exact = this.statistic.count(kept)
    except Exception as error:
        if unit is None or is_of_the_system(error):
            raise
        # The budget is spent, and to decline now would tell that some row led here.
        if log is not None:
            log(
                f"counting failed ({sentence(error, doing='counting')}); zeros were "
                "counted instead, with the plan's noise: this site is missing in the result"
            )
        return np.zeros(this.statistic.size, dtype=np.int64)
    if unit is None:
        this.statistic.takes(exact)
    aside = fitted.set_aside + (0 if kept is fitted else kept.set_aside)
    if aside and log is not None:
        log(f"{aside} rows did not fit the plan; its rule for such rows was used")
    most = plan.cohort.max_examples_per_site
    if most is not None and len(fitted) > most and log is not None:
        # An answer that is withheld for what the data hold would tell it.
        log(
            f"there are more than the {most:,} examples of a site that the plan expects"
        )
    return exact


def confined(
    exact: IntVector,
    plan: Plan,
    this: ResolvedRound,
    *,
    log: Callable[[str], None] | None = None,
) -> IntVector:
    """Clip a site's numbers to the statistic's own range, before noise is added.

    The noise is sized for that range. A number outside of it is a mistake in the
    statistic, and to refuse would tell that the data led there: the log alone says so.
    """
    kept = within_bounds(exact, this.statistic.bounds(plan.privacy.protects))
    if not np.array_equal(kept, exact) and log is not None:
        log(
            f"what was counted left the range of the statistic "
            f"{this.statistic.name!r} and was clipped to it: please report this as a "
            "mistake in discreet, or in the plan's own statistic"
        )
    return kept


def exact_counts(examples: Examples, plan: Plan, this: ResolvedRound) -> IntVector:
    """Count one round's statistic: this validates every row, and draws nothing."""
    exact = this.statistic.count(bounded(examples, plan.privacy.protects))
    if plan.privacy.protects is None:
        this.statistic.takes(exact)
    floor = plan.cohort.min_examples_per_site
    if floor and len(examples) < floor:
        raise InputError(
            f"this site has fewer than the {floor} examples that the plan asks for"
        )
    most = plan.cohort.max_examples_per_site
    if most is not None and len(examples) > most:
        raise InputError(
            f"this site has more than the {most:,} examples that the plan allows a site: "
            "send a sample of them, or agree on a larger bound"
        )
    return exact


def use_of(
    plan: Plan,
    this: ResolvedRound,
    *,
    session: bytes,
    population: str,
    sites: Sequence[str] | None = None,
) -> Use:
    """Return what the account is asked to pay for; the data has no part in it."""
    if sites is None:
        sites = () if plan.roster is None else plan.roster.keys()
    unit = plan.privacy.protects
    protects = "exact sum" if unit is None else str(unit)
    return Use(
        population,
        session,
        this.index,
        this.loss,
        plan=plan.digest(),
        sites=tuple(sorted(sites)),
        note=": ".join(part for part in (plan.model.name, protects) if part),
        unit=unit,
        asked=plan.asked(),
    )

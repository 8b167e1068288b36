"""What would leave this site under a plan: shapes, sizes, the claim, the charge.

The data is read and counted, as it would be on admission, and the counts are thrown
away: no noise is drawn, nothing is charged, nothing is shown that a count would tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from discreet.codec.parsing import decimal_text
from discreet.data.edges import Cuts
from discreet.data.examples import Examples
from discreet.data.pushdown import UNBOUNDED, RowLimit
from discreet.errors import DiscreetError, InputError
from discreet.plan.plan import Plan
from discreet.plan.rounds import ResolvedRound
from discreet.privacy.claim import Claim
from discreet.privacy.composition import Spent, compose
from discreet.privacy.ledger import Ledger
from discreet.privacy.loss import Loss, fraction_of
from discreet.session.admission import admit, check_data
from discreet.session.policy import Policy

_WORD = 8
"""Bytes of a number on the wire."""


@dataclass(frozen=True, slots=True)
class PreviewedRound:
    """One message of numbers: how many, in which bins, at which loss."""

    statistic: str
    numbers: int
    loss: Loss

    @property
    def size(self) -> int:
        """Bytes of the numbers; keys and shares of secure aggregation come on top."""
        return _WORD * self.numbers


@dataclass(frozen=True, slots=True)
class Preview:
    """What a site would send, promise and pay."""

    plan: Plan
    examples: int
    query: str | None
    """What the site's engine is asked; None where the rows are read."""
    rounds: tuple[PreviewedRound, ...]
    claim: Claim
    refusal: str | None
    """Why the site would decline, None when it would take part."""
    checked: str
    """What the plan was compared with."""
    unchecked: str
    """How far the verdict goes where something was not given; empty if all was."""
    spent: Spent | None
    """What the population has paid so far, when a ledger was looked at."""

    @property
    def sent(self) -> str:
        """Who can read the numbers, in a word."""
        return "masked" if self.plan.protocol.masked else "in the clear"

    def charged(self) -> Spent:
        """Return what all rounds would cost."""
        return compose(r.loss for r in self.rounds)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "plan_digest": self.plan.digest().hex(),
            "model": self.plan.model.name,
            "examples": self.examples,
            "query": self.query,
            "rounds": [
                {
                    "statistic": r.statistic,
                    "numbers": r.numbers,
                    "bytes": r.size,
                    "loss": str(r.loss),
                }
                for r in self.rounds
            ],
            "sent": self.sent,
            "claim": self.claim.to_dict(),
            "charged": spent_dict(self.charged()),
            "spent": None if self.spent is None else spent_dict(self.spent),
            "checked": self.checked,
            "unchecked": self.unchecked,
            "refusal": self.refusal,
        }


def spent_dict(spent: Spent) -> dict[str, str | int]:
    """Return a total as plain values, amounts as exact texts."""
    return {
        "epsilon": decimal_text(spent.epsilon),
        "delta": decimal_text(spent.delta),
        "exact_sums": spent.exact_sums,
    }


def preview(
    plan: Plan,
    examples: Examples,
    *,
    policy: Policy | None = None,
    ledger: Ledger | None = None,
) -> Preview:
    """Say what this site would send under a plan. Takes no entropy: draws none.

    Args:
        plan: what is asked.
        examples: the site's data; rows that are not valid raise ``InputError``.
        policy: the site's rules, if it has any yet.
        ledger: what was spent, opened with the policy's limits.
    """
    count = len(examples)
    checked, unchecked = _compared(policy, ledger)
    sites = plan.cohort.min_survivors
    if plan.roster is not None:
        sites = len(plan.roster.sites)
    spent = None
    if policy is not None and ledger is not None:
        spent = ledger.spent(policy.population)
    return Preview(
        plan,
        count,
        _query(plan, examples),
        tuple(_rounds(plan)),
        plan.claim("deployed", sites=sites),
        _refusal(plan, examples, policy, ledger),
        checked,
        unchecked,
        spent,
    )


def plan_cuts(plan: Plan, columns: int) -> tuple[Cuts, ...]:
    """Return where all of a plan's rounds tell a site's scores apart.

    A second round's edges are some of the first one's, and the thresholds: so one
    scan gives what every round counts.
    """
    scores = plan.facts.scores
    found = []
    for k in range(columns):
        every = [r.statistic.binnings for r in plan.rounds]
        edges = [e[k] if len(e) == columns else e[0] for e in every if e]
        found.append(Cuts.within(scores, *edges, thresholds=plan.thresholds))
    return tuple(found)


def plan_bound(plan: Plan, subject: str | None) -> RowLimit:
    """Return of whom a plan counts how many rows, and which column names people."""
    unit = plan.privacy.protects
    if unit is None:
        return UNBOUNDED
    alone = unit.kind == "subject"
    if alone and subject is None:
        raise InputError("the plan protects subjects: name their column with --subject")
    bound = RowLimit(unit.kind, unit.relation, unit.max_examples)
    return replace(bound, subject=subject) if alone else bound


def _query(plan: Plan, examples: Examples) -> str | None:
    unit = plan.privacy.protects
    asked: Examples | None = examples
    if unit is not None and unit.max_examples is not None:
        asked = examples.bounded_in_place(
            unit.max_examples, alone=unit.kind == "subject"
        )
    if asked is None or not plan.protocol.counts_alone:
        return None
    return asked.query(plan_cuts(plan, examples.columns))


def _compared(policy: Policy | None, ledger: Ledger | None) -> tuple[str, str]:
    """Return what the plan is compared with, and how far that goes."""
    match policy, ledger:
        case None, _:
            return "the data alone: no policy was given", (
                "as far as the data alone tell; policy and caps were not checked: give "
                "--policy and --ledger"
            )
        case _, None:
            return "the policy and the data", (
                "as far as the policy alone tells; caps were not checked: give --ledger"
            )
        case _:
            return "the policy, the data and the ledger", ""


def _refusal(
    plan: Plan, examples: Examples, policy: Policy | None, ledger: Ledger | None
) -> str | None:
    try:
        if policy is not None and ledger is not None:
            admit(plan, policy, ledger)
        elif policy is not None:
            policy.check(plan)
        check_data(plan, policy, examples)
    except DiscreetError as err:
        return str(err)
    return None


def _rounds(plan: Plan) -> Sequence[PreviewedRound]:
    return [
        PreviewedRound(
            ", ".join(str(e.rule) for e in r.statistic.binnings),
            sent_numbers(plan, plan.resolve(0, [])) if i == 0 else r.statistic.size,
            fraction_of(plan.privacy.loss, r.budget),
        )
        for i, r in enumerate(plan.rounds)
    ]


def sent_numbers(plan: Plan, this: ResolvedRound) -> int:
    """Return how many numbers a site sends in a round."""
    return plan.privacy.mechanism_for(this, plan.cohort).sent(this.statistic.size)

"""What of a plan can be carried between separate sites, and on which terms."""

from __future__ import annotations

from typing import Final

import numpy as np

from discreet.arrays import IntVector
from discreet.errors import PlanError
from discreet.plan.plan import Plan
from discreet.privacy.loss import Unbounded
from discreet.secagg.keys import NONCE_SIZE
from discreet.secagg.terms import Terms
from discreet.session.messages import round_digest

NO_ROSTER: Final = (
    "the plan has no roster, so nobody can tell which sites are in the sum: add one "
    "with `discreet roster`, or say --unauthenticated"
)
EXACT_WITHOUT_ROSTER: Final = (
    "an exact sum needs a roster, because every site in it must sign: add one with "
    "`discreet roster`, or use a privacy model with noise"
)

TITLES: Final = {
    "advertise": "join",
    "share": "exchange shares of keys",
    "mask": "send masked counts",
    "confirm": "confirm who is in the sum",
    "reveal": "help to open the sum",
    "answer": "send protected counts",
    "join": "send scores",
    "ranks": "send protected sums",
}
"""What a site does in each step, for people."""


def steps_of(plan: Plan) -> tuple[str, ...]:
    """Return the steps of each round of a plan, in order."""
    match plan.privacy.route:
        case "secure sum" if plan.roster is None:
            return "advertise", "share", "mask", "reveal"
        case "secure sum":
            return "advertise", "share", "mask", "confirm", "reveal"
        case "ranks":
            return "join", "ranks"
        case _:
            return ("answer",)


def secure_terms(
    plan: Plan, session: bytes, index: int, totals: IntVector, length: int
) -> Terms:
    """Return the terms of a round's secure sum, the same at both ends."""
    return Terms(
        round_digest(plan, session, index, totals),
        length=length,
        min_survivors=plan.cohort.min_survivors,
        colluders=plan.privacy.masked_from(plan.cohort),
        identities=None if plan.roster is None else plan.roster.identities(),
        groups=plan.cohort.random_groups,
        everyone_signs=_is_exact(plan) and plan.roster is not None,
    )


def _is_exact(plan: Plan) -> bool:
    """Whether a plan's secure sums are revealed without noise."""
    return plan.privacy.route == "secure sum" and isinstance(
        plan.privacy.loss, Unbounded
    )


def check_signed(plan: Plan) -> None:
    """Refuse an exact sum that nobody signs: no site could stop it."""
    if _is_exact(plan) and plan.roster is None:
        raise PlanError(EXACT_WITHOUT_ROSTER)


def check_carried(plan: Plan, *, simulated: bool = False) -> None:
    """Refuse a plan that cannot be carried out between separate sites.

    In a simulation one machine has all the data, and nobody need sign.
    """
    if not simulated:
        check_signed(plan)
    match plan.privacy.route:
        case "relay" | "ranks":
            plan.privacy.mechanism_for(plan.resolve(0, []), plan.cohort)
        case "secure sum":
            if plan.cohort.min_survivors < 2:
                raise PlanError(
                    "a secure sum needs min_survivors of at least 2: one site alone "
                    "has no cover"
                )
            # The terms know which rosters and cohorts go together.
            nothing = np.zeros(0, dtype=np.int64)
            secure_terms(plan, bytes(NONCE_SIZE), 0, nothing, 1)
        case route:
            raise PlanError(
                f"a plan whose answers travel by {route} is not carried between "
                "separate sites"
            )

"""Sites' vectors become one sum: added in the open, or by the real protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from discreet.arrays import IntVector
from discreet.entropy import Entropy
from discreet.errors import InputError
from discreet.plan.plan import Plan
from discreet.runtime.plain import add
from discreet.secagg.in_process import secure_sum

Aggregation: TypeAlias = Literal["plain", "secagg"]
"""How a simulation adds vectors up."""


def opened_sum(
    answers: Sequence[IntVector], plan: Plan, aggregation: Aggregation, entropy: Entropy
) -> tuple[IntVector, int]:
    """Return the sum of the sites' vectors and how many are in it."""
    match aggregation:
        case "plain":
            return add(answers, answers[0].size), len(answers)
        case "secagg":
            opened = secure_sum(
                answers,
                plan_digest=plan.digest(),
                min_survivors=max(plan.cohort.min_survivors, 2),
                colluders=plan.cohort.colluders,
                entropy=entropy,
            )
            return opened.total, len(opened.contributors)
        case _:
            raise InputError("aggregation is 'plain' or 'secagg'")

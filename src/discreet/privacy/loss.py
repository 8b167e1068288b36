"""What a release costs. Budgets are exact rationals, never floats."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from discreet.codec.parsing import Amount, decimal_text, exact
from discreet.errors import PlanError


@dataclass(frozen=True, slots=True)
class PureDP:
    r"""\ :math:`\varepsilon`-differential privacy."""

    epsilon: Fraction

    def __post_init__(self) -> None:
        if self.epsilon <= 0:
            raise PlanError("epsilon must be positive")

    def __str__(self) -> str:
        return f"{decimal_text(self.epsilon)}-DP"


@dataclass(frozen=True, slots=True)
class ApproxDP:
    r"""\ :math:`(\varepsilon, \delta)`-differential privacy."""

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        if self.epsilon <= 0:
            raise PlanError("epsilon must be positive")
        if not 0 < self.delta < 1:
            raise PlanError("delta must lie strictly between 0 and 1")

    def __str__(self) -> str:
        return f"({decimal_text(self.epsilon)}, {decimal_text(self.delta)})-DP"


@dataclass(frozen=True, slots=True)
class Unbounded:
    """An exact value: no differential privacy, and it is recorded all the same."""

    def __str__(self) -> str:
        return "no differential privacy (an exact sum)"


Loss: TypeAlias = PureDP | ApproxDP | Unbounded


def loss_of(epsilon: Amount, delta: Amount = 0) -> PureDP | ApproxDP:
    """Return the loss that two numbers, as people write them, stand for.

    >>> print(loss_of("0.5"), loss_of(1, "1e-6"))
    0.5-DP (1, 0.000001)-DP
    """
    whole, slack = exact(epsilon), exact(delta, name="delta")
    return ApproxDP(whole, slack) if slack else PureDP(whole)


def fraction_of(loss: Loss, share: Fraction) -> Loss:
    """Return the part of a budget that one round spends; shares of 1 add up."""
    if not 0 < share <= 1:
        raise PlanError("a round's share of the budget lies in (0, 1]")
    match loss:
        case PureDP(epsilon):
            return PureDP(epsilon * share)
        case ApproxDP(epsilon, delta):
            return ApproxDP(epsilon * share, delta * share)
        case Unbounded():
            return loss

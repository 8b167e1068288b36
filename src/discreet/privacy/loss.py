"""What a release costs. Budgets are exact rationals, never floats."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Final, TypeAlias

from discreet.errors import PlanError

_MOST_DIGITS: Final = 50
"""Of an amount that somebody writes; more are a mistake or an attack."""

Amount: TypeAlias = int | float | str | Decimal | Fraction
"""How a caller may write an epsilon; 0.1 means one tenth, not its nearest float."""


def exact(amount: Amount, *, name: str = "epsilon") -> Fraction:
    """Read an amount as the decimal number that was written.

    >>> exact(0.1)
    Fraction(1, 10)
    """
    if isinstance(amount, Fraction):
        return _bounded(amount, name)
    # An over-long text is as little a number as a truth value.
    text = "" if isinstance(amount, bool) else str(amount)[: _MOST_DIGITS + 1]
    try:
        number = Decimal(text if len(text) <= _MOST_DIGITS else "")
    except InvalidOperation:
        raise PlanError(f"{name} must be a decimal number of few digits") from None
    if not number.is_finite():
        raise PlanError(f"{name} must be finite")
    # Before it is worked out: 1e999999999 has a billion digits.
    if number and not -_MOST_DIGITS <= number.adjusted() <= _MOST_DIGITS:
        raise PlanError(f"{name} is too large or too small to be meant")
    return Fraction(number)


def _bounded(amount: Fraction, name: str) -> Fraction:
    if max(abs(amount.numerator), amount.denominator) >= 10 ** (2 * _MOST_DIGITS):
        raise PlanError(f"{name} needs fewer digits: round it")
    return amount


def decimal_text(amount: Fraction) -> str:
    """Write an amount as an exact decimal where it is one, else as a ratio.

    >>> decimal_text(Fraction(1, 10)), decimal_text(Fraction(1, 3))
    ('0.1', '1/3')
    """
    rest = amount.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest != 1:
        return f"{amount.numerator}/{amount.denominator}"
    # Scaled integers, not Decimal division, which rounds to its context.
    digits = 0
    while (amount * 10**digits).denominator != 1:
        digits += 1
    whole, part = divmod(int(amount * 10**digits), 10**digits)
    return f"{whole}.{part:0{digits}d}" if digits else str(whole)


def amount_from_text(text: str, *, name: str = "epsilon") -> Fraction:
    """Read what ``decimal_text`` wrote."""
    if not isinstance(text, str):
        raise PlanError(f"{name} is written as a text, such as '1.5'")
    if "/" in text and len(text) <= 4 * _MOST_DIGITS:
        try:
            return _bounded(Fraction(text), name)
        except (ValueError, ZeroDivisionError):
            raise PlanError(f"{name} must be a decimal number or a ratio") from None
    return exact(text, name=name)


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

"""The account: what a population has paid, asked before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

from discreet.errors import BudgetError
from discreet.privacy.loss import ZCDP, ApproxDP, Loss, PureDP, Unbounded


@dataclass(frozen=True, slots=True)
class Use:
    """A site's intent to release something about a population, once."""

    population: str
    session: bytes
    round: int
    loss: Loss
    intent: bytes
    """A digest of the plan and data: a retry with another one is another use."""


@dataclass(frozen=True, slots=True)
class Permit:
    """Proof that a use was charged. Issued only by an account."""

    use: Use


class Account(Protocol):
    """Charge first, then store the message, then send; a retry resends it."""

    def reserve(self, use: Use) -> Permit:
        """Charge for a use, or raise ``BudgetError`` and charge nothing."""
        ...

    def record(self, permit: Permit, message: bytes) -> None:
        """Store the outgoing bytes, before they are sent."""
        ...

    def replay(self, session: bytes, round: int) -> bytes | None:  # noqa: A002
        """Return the stored bytes of an earlier answer, to resend unchanged."""
        ...


@dataclass(frozen=True, slots=True)
class Spent:
    """The total of some releases under basic composition."""

    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    exact_sums: int = 0


def compose(losses: Iterable[Loss]) -> Spent:
    """Add losses up, kind by kind: basic composition, always valid."""
    epsilon = delta = rho = Fraction(0)
    exact_sums = 0
    for loss in losses:
        match loss:
            case PureDP(e):
                epsilon += e
            case ApproxDP(e, d):
                epsilon, delta = epsilon + e, delta + d
            case ZCDP(r):
                rho += r
            case Unbounded():
                exact_sums += 1
    return Spent(epsilon, delta, rho, exact_sums)


@dataclass(frozen=True, slots=True)
class Cap:
    """The most that a population may spend. None: no limit."""

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    rho: Fraction | None = None
    exact_sums: int | None = None

    def allows(self, spent: Spent) -> bool:
        """Whether a total stays within every limit."""
        pairs = (
            (spent.epsilon, self.epsilon),
            (spent.delta, self.delta),
            (spent.rho, self.rho),
            (Fraction(spent.exact_sums), self.exact_sums),
        )
        return all(limit is None or used <= limit for used, limit in pairs)


@dataclass(slots=True)
class MemoryAccount:
    """An account that lives as long as its process: simulation and tests."""

    cap: Cap = field(default_factory=Cap)
    _uses: dict[tuple[bytes, int], Use] = field(default_factory=dict)
    _messages: dict[tuple[bytes, int], bytes] = field(default_factory=dict)

    def reserve(self, use: Use) -> Permit:
        """Charge for a use, or raise ``BudgetError`` and charge nothing."""
        key = (use.session, use.round)
        known = self._uses.get(key)
        if known == use:
            return Permit(use)  # a retry of what was paid for
        if known is not None:
            raise BudgetError(
                "this round was already answered for another plan or other data; "
                "start a new session"
            )
        losses = [u.loss for u in self._uses.values() if u.population == use.population]
        if not self.cap.allows(compose([*losses, use.loss])):
            raise BudgetError(
                f"{use.loss} would exceed the cap of population {use.population!r}; "
                "nothing was charged or sent"
            )
        self._uses[key] = use
        return Permit(use)

    def record(self, permit: Permit, message: bytes) -> None:
        """Store the outgoing bytes; the first ones stay."""
        key = (permit.use.session, permit.use.round)
        if self._uses.get(key) != permit.use:
            raise BudgetError("this permit was not issued by this account")
        if self._messages.setdefault(key, message) != message:
            raise BudgetError("another message was already recorded for this round")

    def replay(self, session: bytes, round: int) -> bytes | None:  # noqa: A002
        """Return the stored bytes of an earlier answer."""
        return self._messages.get((session, round))

    def spent(self, population: str) -> Spent:
        """Return what a population has paid so far."""
        return compose(
            u.loss for u in self._uses.values() if u.population == population
        )

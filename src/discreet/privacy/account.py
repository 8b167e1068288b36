"""The account: what a population has paid, asked before anything is sent."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, Protocol

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
    plan: bytes = b""
    """The plan's digest: sessions of one plan are counted."""
    sites: tuple[str, ...] = ()
    """Who is in the sum, by stable ids such as keys; empty when it is not known."""
    reusable: bytes | None = None
    """Set for a message that is a fixed function of the data and a kept secret: a
    digest of the data, the secret and the loss. The same message says nothing new
    the second time, so it is charged once a population."""
    note: str = ""
    """What people call this use: the model, the unit."""


@dataclass(frozen=True, slots=True)
class Permit:
    """Proof that a use was charged. Issued only by an account."""

    use: Use


CHANGED: Final = (
    "this round was already answered for another plan or other data; start a new "
    "session"
)
FOREIGN_PERMIT: Final = "this permit was not issued by this account"
ANOTHER_MESSAGE: Final = "another message was already recorded for this round"


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


@dataclass(frozen=True, slots=True)
class Limits:
    """What an account enforces at each charge. Without arguments: nothing."""

    cap: Cap = field(default_factory=Cap)
    sessions_per_plan: int | None = None
    fewest_sites: int = 1
    """By how many sites two exact sums on a population differ, if they do at all."""


def charged(use: Use, earlier: Iterable[Use]) -> bool:
    """Whether a use costs anything, after the earlier ones.

    A reusable message that was paid for before, at the same loss, is free.
    """
    return use.reusable is None or not any(
        e.reusable == use.reusable
        and e.loss == use.loss
        and e.population == use.population
        for e in earlier
    )


def refusal(use: Use, earlier: Sequence[Use], limits: Limits) -> str | None:
    """Return why a use cannot be charged after the earlier ones, None if it can.

    One rule for every account. Earlier uses of other populations do not matter.
    """
    same = [e for e in earlier if e.population == use.population]
    if charged(use, same):
        paid = paid_losses(same, use.population)
        if not limits.cap.allows(compose([*paid, use.loss])):
            return (
                f"{use.loss} would exceed the cap of population {use.population!r}; "
                "nothing was charged or sent"
            )
    most = limits.sessions_per_plan
    if most is not None and use.plan:
        sessions = {e.session for e in same if e.plan == use.plan} | {use.session}
        if len(sessions) > most:
            return (
                f"this plan was already answered in {most} sessions, as many as the "
                "policy allows; nothing was charged or sent"
            )
    if isinstance(use.loss, Unbounded):
        return _difference(use, same, limits)
    return None


def _difference(use: Use, same: Sequence[Use], limits: Limits) -> str | None:
    """Refuse an exact sum whose difference to an earlier one shows too little."""
    for e in same:
        if not isinstance(e.loss, Unbounded) or e.session == use.session:
            continue
        if e.plan == use.plan and e.round == use.round and e.intent != use.intent:
            return (
                "the data changed since an earlier exact sum under this plan, and the "
                "difference of the two would show what changed; nothing was sent"
            )
        reason = few_sites_differ(use.sites, e.sites, limits.fewest_sites)
        if reason is not None:
            return reason
    return None


def few_sites_differ(
    sites: Collection[str], earlier: Collection[str], fewest: int
) -> str | None:
    r"""Return why two exact sums must not both be given, None if they may.

    The difference of sums over A and B is what :math:`A \setminus B` holds minus
    what :math:`B \setminus A` holds. Each side must be empty or have ``fewest``
    sites: padding one side with sites that the coordinator invented, whose counts
    it knows, hides nothing. An unknown set could be any.
    """
    if fewest <= 1:
        return None
    if not sites or not earlier:
        return (
            "an exact sum over unknown sites cannot be told from an earlier one; use a "
            "plan with a roster, or one with noise; nothing was sent"
        )
    for side in (set(sites) - set(earlier), set(earlier) - set(sites)):
        if 0 < len(side) < fewest:
            few = "1 site" if len(side) == 1 else f"{len(side)} sites"
            return (
                f"this exact sum differs from an earlier one by {few}, and the "
                f"difference of the two would show these alone; it takes {fewest} or "
                "none; nothing was sent"
            )
    return None


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
            raise BudgetError(CHANGED)
        reason = refusal(use, list(self._uses.values()), Limits(self.cap))
        if reason is not None:
            raise BudgetError(reason)
        self._uses[key] = use
        return Permit(use)

    def record(self, permit: Permit, message: bytes) -> None:
        """Store the outgoing bytes; the first ones stay."""
        key = (permit.use.session, permit.use.round)
        if self._uses.get(key) != permit.use:
            raise BudgetError(FOREIGN_PERMIT)
        if self._messages.setdefault(key, message) != message:
            raise BudgetError(ANOTHER_MESSAGE)

    def replay(self, session: bytes, round: int) -> bytes | None:  # noqa: A002
        """Return the stored bytes of an earlier answer."""
        return self._messages.get((session, round))

    def spent(self, population: str) -> Spent:
        """Return what a population has paid so far."""
        return compose(paid_losses(self._uses.values(), population))


def paid_losses(uses: Iterable[Use], population: str) -> list[Loss]:
    """Return what the uses of a population cost, in their order."""
    same: list[Use] = []
    losses: list[Loss] = []
    for use in uses:
        if use.population == population:
            if charged(use, same):
                losses.append(use.loss)
            same.append(use)
    return losses


def answer_once(account: Account, use: Use, make: Callable[[], bytes]) -> bytes:
    """Charge, make the message, store it, and only then return it to be sent.

    A retry gets the stored bytes: fresh noise on the same data would average out.
    ``make`` is called at most once a session and round, after the charge.
    """
    stored = account.replay(use.session, use.round)
    permit = account.reserve(use)
    if stored is not None:
        return stored
    message = make()
    account.record(permit, message)
    return message


def tighter_epsilon(losses: Iterable[Loss], *, delta: float) -> float:
    r"""Return an epsilon at which all losses together hold with this delta.

    By privacy loss distributions, each release as the worst mechanism of its
    :math:`(\varepsilon, \delta)` (Sommer, Meiser and Mohammadi 2019; dp-accounting
    computes a rigorous upper bound). Never above basic composition at the same
    delta, and infinite when there is an exact sum (or a zCDP loss, which no plan
    has and which this bound does not cover).

    >>> tenths = [PureDP(Fraction(1, 10))] * 100
    >>> compose(tenths).epsilon, round(tighter_epsilon(tenths, delta=1e-6), 1)
    (Fraction(10, 1), 4.8)
    """
    pairs = Counter(_worst_case(loss) for loss in losses)
    if None in pairs:
        return math.inf
    known = [(pair, count) for pair, count in pairs.items() if pair is not None]
    if not known:
        return 0.0
    # Slow to import, and needed by reports only.
    from dp_accounting.pld import (  # type: ignore[import-untyped]  # noqa: PLC0415
        common,
        privacy_loss_distribution,
    )

    composed = privacy_loss_distribution.identity()
    for (epsilon, slack), count in known:
        one = privacy_loss_distribution.from_privacy_parameters(
            common.DifferentialPrivacyParameters(float(epsilon), float(slack))
        )
        composed = composed.compose(one.self_compose(count))
    tighter = float(composed.get_epsilon_for_delta(delta))
    if sum(slack * count for (_, slack), count in known) <= delta:
        return min(tighter, float(sum(e * count for (e, _), count in known)))
    return tighter


def _worst_case(loss: Loss) -> tuple[Fraction, Fraction] | None:
    match loss:
        case PureDP(epsilon):
            return epsilon, Fraction(0)
        case ApproxDP(epsilon, delta):
            return epsilon, delta
        case ZCDP() | Unbounded():
            return None

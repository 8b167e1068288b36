"""The account of several releases on one data set, and the one path of a release.

The charge is made before any noise is drawn. With a path the account is a ledger's
file, on disk before the release goes on: a crash in between loses the release, not
the charge. Without a path the account ends with the process.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Final, Self

import numpy as np

from discreet.arrays import IntVector
from discreet.codec.parsing import Amount, decimal_text, exact
from discreet.entropy import SYSTEM
from discreet.errors import BudgetError, PlanError
from discreet.privacy.account import Cap, Limits, MemoryAccount, Permit, Use
from discreet.privacy.composition import Spent
from discreet.privacy.ledger import Ledger
from discreet.privacy.ledger_entries import Charge
from discreet.privacy.loss import ApproxDP, Loss, PureDP
from discreet.privacy.unit import ROW


class Budget:
    """The most that all releases on one data set may cost, by basic composition.

    >>> with Budget(epsilon=1) as budget:
    ...     permit = budget.charge(PureDP(Fraction(3, 4)), "an AUC")
    ...     print(budget)
    0.75 of epsilon 1 spent in 1 release; this record ends with the process

    Args:
        epsilon: the total.
        delta: the total delta, 0 to allow pure releases only.
        path: a ledger's file that keeps the account; it belongs to one data set. A
            file that was charged under another total is refused.
    """

    def __init__(
        self, epsilon: Amount, *, delta: Amount = 0, path: str | Path | None = None
    ) -> None:
        total, slack = exact(epsilon), exact(delta, name="delta")
        if total <= 0 or not 0 <= slack < 1:
            raise PlanError("a budget has a positive epsilon and a delta in [0, 1)")
        self.cap: Final = Cap(epsilon=total, delta=slack)
        self.path: Final = None if path is None else Path(path)
        self._total: Final = total
        self._population: Final = (
            f"a budget of epsilon {decimal_text(total)} and delta {decimal_text(slack)}"
        )
        self._account = (
            MemoryAccount(self.cap) if self.path is None else self._ledger(self.path)
        )
        self._open = True

    def _ledger(self, path: Path) -> Ledger:
        limits = Limits(self.cap)
        ledger = (Ledger if path.exists() else Ledger.new)(path, limits=limits)
        charges = [e.use for e in ledger.entries() if isinstance(e, Charge)]
        others = sorted({use.population for use in charges} - {self._population})
        if others:
            ledger.close()
            raise BudgetError(
                f"this file keeps {others[0]}; open it with these, or start a new file "
                "only for other data"
            )
        return ledger

    def charge(self, loss: Loss, what: str, *, plan: bytes = b"") -> Permit:
        """Charge for one release, or raise ``BudgetError`` and charge nothing."""
        if not self._open:
            raise BudgetError("this budget is closed; open it again to release more")
        if not isinstance(loss, PureDP | ApproxDP):
            raise BudgetError(f"a budget cannot be charged with {loss}")
        use = Use(self._population, SYSTEM(16), 0, loss, plan=plan, note=what, unit=ROW)
        try:
            return self._account.reserve(use)
        except BudgetError as error:
            if type(error) is not BudgetError:  # the file itself is unusable
                raise
            left = decimal_text(self.remaining)
            raise BudgetError(f"{what}: {error}; epsilon {left} is left") from None

    def record(self, permit: Permit, message: bytes) -> None:
        """Store what is published; the first bytes stay."""
        self._account.record(permit, message)

    @property
    def spent(self) -> Spent:
        """What has been charged so far."""
        return self._account.spent(self._population)

    @property
    def remaining(self) -> Fraction:
        """The epsilon that is left."""
        return self._total - self.spent.epsilon

    @property
    def caveat(self) -> str:
        """What the account does not see, for a claim."""
        ends = "" if self.path else ", whose record ends with the process"
        return f"releases outside this budget{ends}: losses add up"

    def close(self) -> None:
        """Close the file; charges are on disk since they were made."""
        if self._open and isinstance(self._account, Ledger):
            self._account.close()
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        count, spent = len(self._account.uses(self._population)), self.spent
        text = f"{decimal_text(spent.epsilon)} of epsilon {decimal_text(self._total)}"
        if self.cap.delta:
            text += f" and {decimal_text(spent.delta)} of delta "
            text += decimal_text(self.cap.delta)
        text += f" spent in {count} release{'' if count == 1 else 's'}; "
        if self.path is None:
            return text + "this record ends with the process"
        return text + f"recorded in {self.path.name}"


_NO_RECORD: Final = "further releases on these data: losses add up, nobody keeps count"


def publish(
    draw: Callable[[], IntVector],
    *,
    loss: Loss,
    what: str,
    budget: Budget | None,
    plan: bytes = b"",
) -> tuple[IntVector, str]:
    """Charge, draw integers with noise, store them, and only then return them.

    The second value is what a claim says about the account.
    """
    if budget is None:
        return draw().astype(np.int64), _NO_RECORD
    permit = budget.charge(loss, what, plan=plan)
    released = draw().astype("<i8")
    budget.record(permit, released.tobytes())
    return released.astype(np.int64), budget.caveat

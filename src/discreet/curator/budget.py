"""Budget: the account of several releases on one data set.

The charge is made before any noise is drawn. With a path it is in a SQLite file
and on disk before the release goes on: a crash in between loses the release, not the
charge. Without a path the account ends with the process, and says so.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Final, Self

from discreet.entropy import SYSTEM
from discreet.errors import BudgetError, PlanError
from discreet.privacy.account import (
    ANOTHER_MESSAGE,
    CHANGED,
    FOREIGN_PERMIT,
    Cap,
    Permit,
    Use,
)
from discreet.privacy.composition import Spent, compose
from discreet.privacy.loss import (
    Amount,
    ApproxDP,
    Loss,
    PureDP,
    amount_from_text,
    decimal_text,
    exact,
    loss_of,
)
from discreet.privacy.unit import ROW

_VERSION: Final = 1
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS budget (version INTEGER, epsilon TEXT, delta TEXT)",
    """CREATE TABLE IF NOT EXISTS charge
    (id INTEGER PRIMARY KEY, what TEXT, epsilon TEXT, delta TEXT)""",
    """CREATE TABLE IF NOT EXISTS answer (session BLOB, round INTEGER,
    charge INTEGER, bytes BLOB, PRIMARY KEY (session, round))""",
)
_DATA: Final = "the curator's data"
"""The population: a budget belongs to one data set."""


class Budget:
    """The most that all releases on one data set may cost, by basic composition.

    >>> with Budget(epsilon=1) as budget:
    ...     budget.charge(PureDP(Fraction(3, 4)), "an AUC")
    ...     print(budget)
    0.75 of epsilon 1 spent in 1 release; this record ends with the process

    Args:
        epsilon: the total.
        delta: the total delta, 0 to allow pure releases only.
        path: a file that keeps the account; it belongs to one data set. A file
            that was opened with another total is refused.
    """

    def __init__(
        self,
        epsilon: Amount,
        *,
        delta: Amount = 0,
        path: str | Path | None = None,
    ) -> None:
        total, slack = exact(epsilon), exact(delta, name="delta")
        if total <= 0 or not 0 <= slack < 1:
            raise PlanError("a budget has a positive epsilon and a delta in [0, 1)")
        self.cap: Final = Cap(epsilon=total, delta=slack)
        self.path: Final = None if path is None else Path(path)
        self._file = sqlite3.connect(
            ":memory:" if self.path is None else self.path, isolation_level=None
        )
        self._open = True
        try:
            self._prepare(total, slack)
        except sqlite3.Error as error:
            self.close()
            raise _unusable(error) from error
        except BudgetError:
            self.close()
            raise

    def _prepare(self, epsilon: Fraction, delta: Fraction) -> None:
        wanted = (_VERSION, decimal_text(epsilon), decimal_text(delta))
        self._file.execute("PRAGMA synchronous = FULL")  # on disk at each COMMIT
        with self._exclusive():
            for statement in _SCHEMA:
                self._file.execute(statement)
            found = self._file.execute("SELECT * FROM budget").fetchone()
            if found is None:
                self._file.execute("INSERT INTO budget VALUES (?, ?, ?)", wanted)
            elif tuple(found) != wanted:
                raise BudgetError(
                    f"this file keeps a budget of epsilon {found[1]} and delta "
                    f"{found[2]}; open it with these, or start a new file only for "
                    "other data"
                )

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Hold the file alone, so that two processes cannot both spend the rest."""
        try:
            self._file.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._file.execute("ROLLBACK")
                raise
            self._file.execute("COMMIT")
        except sqlite3.Error as error:
            raise _unusable(error) from error

    def charge(self, loss: Loss, what: str) -> None:
        """Charge for a release that is made here and now, never sent again."""
        use = Use(_DATA, SYSTEM(16), 0, loss, b"", note=what, unit=ROW)
        self.reserve(use)

    def reserve(self, use: Use) -> Permit:
        """Charge for a use, or raise ``BudgetError`` and charge nothing."""
        if not self._open:
            raise BudgetError("this budget is closed; open it again to release more")
        if use.unit != ROW:
            raise BudgetError(f"a budget is about {ROW}, not about {use.unit}")
        match use.loss:
            case PureDP(epsilon):
                delta = Fraction(0)
            case ApproxDP(epsilon, delta):
                pass
            case _:
                raise BudgetError(f"a budget cannot pay for {use.loss}")
        row = (use.note, decimal_text(epsilon), decimal_text(delta))
        with self._exclusive():
            known = self._file.execute(
                "SELECT what, epsilon, delta FROM charge JOIN answer ON id = charge"
                " WHERE session = ? AND round = ?",
                (use.session, use.round),
            ).fetchone()
            if known is not None:
                if tuple(known) != row:
                    raise BudgetError(CHANGED)
                return Permit(use)  # a retry of what was paid for
            if not self.cap.allows(compose([*self._losses(), use.loss])):
                raise BudgetError(
                    f"{use.note} at {use.loss} would exceed what is left, epsilon "
                    f"{decimal_text(self.remaining)}; nothing was charged or released"
                )
            charge = self._file.execute(
                "INSERT INTO charge (what, epsilon, delta) VALUES (?, ?, ?)", row
            ).lastrowid
            self._file.execute(
                "INSERT INTO answer VALUES (?, ?, ?, NULL)",
                (use.session, use.round, charge),
            )
        return Permit(use)

    def record(self, permit: Permit, message: bytes) -> None:
        """Store what is published; the first bytes stay."""
        key = (permit.use.session, permit.use.round)
        with self._exclusive():
            known = self._answer(key)
            if known is None:
                raise BudgetError(FOREIGN_PERMIT)
            if known[0] is not None and known[0] != message:
                raise BudgetError(ANOTHER_MESSAGE)
            self._file.execute(
                "UPDATE answer SET bytes = ? WHERE session = ? AND round = ?",
                (message, *key),
            )

    def replay(self, session: bytes, round: int) -> bytes | None:  # noqa: A002
        """Return what was published before, to publish it again unchanged."""
        known = self._answer((session, round))
        return None if known is None else known[0]

    def _answer(self, key: tuple[bytes, int]) -> tuple[bytes | None] | None:
        found: tuple[bytes | None] | None = self._file.execute(
            "SELECT bytes FROM answer WHERE session = ? AND round = ?", key
        ).fetchone()
        return found

    def _losses(self) -> list[Loss]:
        rows = self._file.execute("SELECT epsilon, delta FROM charge").fetchall()
        amounts = [(amount_from_text(e), amount_from_text(d)) for e, d in rows]
        return [loss_of(e, d) for e, d in amounts]

    @property
    def spent(self) -> Spent:
        """What has been charged so far."""
        return compose(self._losses())

    @property
    def remaining(self) -> Fraction:
        """The epsilon that is left."""
        return (self.cap.epsilon or Fraction(0)) - self.spent.epsilon

    @property
    def caveat(self) -> str:
        """What the account does not see, for a claim."""
        if self.path is None:
            return (
                "releases outside this budget, whose record ends with the process: "
                "losses add up"
            )
        return "releases outside this budget: losses add up"

    def close(self) -> None:
        """Close the file; charges are on disk since they were made."""
        if self._open:
            self._open = False
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        count = len(self._losses())
        spent = self.spent
        total = decimal_text(self.cap.epsilon or Fraction(0))
        lines = f"{decimal_text(spent.epsilon)} of epsilon {total}"
        if self.cap.delta:
            lines += f" and {decimal_text(spent.delta)} of delta "
            lines += decimal_text(self.cap.delta)
        lines += f" spent in {count} release{'' if count == 1 else 's'}; "
        if self.path is None:
            return lines + "this record ends with the process"
        return lines + f"recorded in {self.path.name}"


def _unusable(error: sqlite3.Error) -> BudgetError:
    return BudgetError(
        f"the budget's file cannot be used ({error}); nothing was released"
    )


NO_RECORD: Final = "further releases on these data: losses add up, nobody keeps count"


def charge(budget: Budget | None, loss: Loss, what: str) -> str:
    """Charge a budget if there is one; return what the claim has to say about it."""
    if budget is None:
        return NO_RECORD
    budget.charge(loss, what)
    return budget.caveat

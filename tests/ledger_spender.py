"""Another process that spends from a ledger until it may not."""

from fractions import Fraction

from discreet.errors import BudgetError
from discreet.privacy.account import Cap, Limits, Use
from discreet.privacy.ledger import Ledger
from discreet.privacy.ledger_entries import LedgerError
from discreet.privacy.loss import PureDP


def spend(path, number, results):
    """Ask for half an epsilon twenty times, and report how often it was granted."""
    paid = 0
    with Ledger(path, limits=Limits(Cap(epsilon=Fraction(10)))) as ledger:
        for i in range(20):
            session = f"{number}-{i}".encode()
            try:
                ledger.reserve(
                    Use("icu", session, 0, PureDP(Fraction(1, 2)), b"intent")
                )
                paid += 1
            except LedgerError:
                raise  # waiting for the other process is no failure
            except BudgetError:
                pass
    results.put(paid)

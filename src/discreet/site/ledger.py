"""The ledger: a site's durable record of all that it gave away, asked first.

A charge is on disk, and sealed, before any noise is drawn, the outgoing bytes before
they are sent, and a retry resends these. So a crash at any instruction loses an
answer or a try, never a charge. Each change is one transaction that holds the file
alone: two processes cannot both spend the rest.

The stored bytes are as secret as the data: the file is its owner's alone, and an
export leaves them out. No seed of any noise is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from discreet.errors import BudgetError
from discreet.privacy.account import (
    ANOTHER_MESSAGE,
    CHANGED,
    FOREIGN_PERMIT,
    Limits,
    Permit,
    Use,
    check_same_counts,
    refusal,
    spent_by,
)
from discreet.privacy.composition import Spent
from discreet.privacy.exact_sums import shows_few_sites
from discreet.privacy.loss import Unbounded
from discreet.site.ledger_entries import Charge, Entry, Refused, Settled, message_mark
from discreet.site.ledger_file import LedgerFile, make_ledger


class Ledger:
    """An account in a file. Budgets belong to populations, not to files of data.

    Args:
        path: the ledger's file; its head and its secret are kept beside it.
        limits: what is enforced at each charge; see ``Policy.limits``.

    Raises:
        LedgerError: there is none, it cannot be used, or is not what was written.
    """

    def __init__(self, path: str | Path, *, limits: Limits | None = None) -> None:
        self.path: Final = Path(path)
        self.limits: Final = limits or Limits()
        self._file = LedgerFile(self.path)

    @classmethod
    def new(cls, path: str | Path, *, limits: Limits | None = None) -> Ledger:
        """Make an empty ledger, once in a site's life, and open it."""
        make_ledger(Path(path))
        return cls(path, limits=limits)

    def _sealed(self, use: Use) -> Use:
        """Replace digests of data by marks under the site's secret."""
        reusable = use.reusable
        return replace(
            use,
            intent=self._file.secret.mark("intent", use.intent),
            reusable=None
            if reusable is None
            else self._file.secret.mark("reuse", reusable),
        )

    def reserve(self, use: Use) -> Permit:
        """Charge for a use, on disk, or raise ``BudgetError`` and charge nothing."""
        sealed = self._sealed(use)
        with self._file.alone():
            known = self._file.charges.get((use.session, use.round))
            if known is not None:
                if not sealed.repeats(known):
                    raise BudgetError(CHANGED)
                return Permit(use)  # a retry of what was paid for
            reason = refusal(sealed, self._earlier(), self.limits)
            if reason is not None:
                raise BudgetError(reason)
            self._file.append(Charge(_now(), sealed))
        return Permit(use)

    def check(self, uses: Sequence[Use]) -> None:
        """Raise what ``reserve`` would for these uses in turn; charge nothing.

        A round that was charged already is paid for.
        """
        with self._file.alone():
            earlier = self._earlier()
            for use in uses:
                sealed = self._sealed(use)
                known = self._file.charges.get((use.session, use.round))
                if known is None:
                    reason = refusal(sealed, earlier, self.limits)
                    if reason is not None:
                        raise BudgetError(reason)
                    earlier.append(sealed)
                elif not sealed.repeats(known):
                    raise BudgetError(CHANGED)

    def _earlier(self) -> list[Use]:
        """Return all charges, each with the sites that were in the sum in the end."""
        return [
            replace(use, sites=self._file.survivors.get(key, use.sites))
            for key, use in self._file.charges.items()
        ]

    def record(self, permit: Permit, message: bytes) -> None:
        """Store the outgoing bytes, on disk, before they are sent; the first stay."""
        key = (permit.use.session, permit.use.round)
        with self._file.alone():
            charge = self._file.charges.get(key)
            if charge is None or not self._sealed(permit.use).repeats(charge):
                raise BudgetError(FOREIGN_PERMIT)
            mark = message_mark(self._file.secret, *key, message)
            known = self._file.marks.get(key)
            if known is not None and known != mark:
                raise BudgetError(ANOTHER_MESSAGE)
            if known is None:
                check_same_counts(charge, message, self._sent())
                self._file.store(key, message, at=_now())

    def _sent(self) -> Iterator[tuple[Use, bytes | None]]:
        for key, use in self._file.charges.items():
            yield use, self._file.message(key)

    def replay(self, session: bytes, round: int) -> bytes | None:  # noqa: A002
        """Return the stored bytes of an earlier answer, to resend unchanged."""
        with self._file.alone():
            return self._file.message((session, round))

    def settle(
        self,
        session: bytes,
        round: int,  # noqa: A002
        sites: Collection[str],
    ) -> None:
        """Note who survived in an exact sum, before this site helps to open it.

        A coordinator chooses who is in the sum by calling others silent. Raise
        ``BudgetError`` when the sum and earlier ones on the population would show few
        sites alone. A round with noise needs no such look.
        """
        survivors = tuple(sorted(sites))
        with self._file.alone():
            use = self._file.charges.get((session, round))
            if use is None:
                raise BudgetError(
                    "this round was not charged; there is nothing to open"
                )
            if not isinstance(use.loss, Unbounded):
                return
            known = self._file.survivors.get((session, round))
            if known == survivors:
                return
            if known is not None:
                raise BudgetError(
                    "this session was already settled with other sites; nothing was sent"
                )
            earlier = [
                e.sites
                for e in self._earlier()
                if e.population == use.population
                and e.session != session
                and isinstance(e.loss, Unbounded)
            ]
            reason = shows_few_sites(survivors, earlier, self.limits.fewest_sites)
            if reason is not None:
                raise BudgetError(reason)
            self._file.append(Settled(_now(), session, round, survivors))

    def check_patience(self) -> None:
        """Raise ``BudgetError`` when this site declined too often today to listen."""
        with self._file.alone():
            most = self.limits.refusals_per_day
            if self._file.refusals[_now()[:10]] >= most:
                raise BudgetError(
                    f"this site declined {most} times today, and answers nothing new "
                    "until tomorrow (UTC)"
                )

    def note_refusal(self) -> None:
        """Count that this site declined; beyond the day's limit nothing is written."""
        with self._file.alone():
            now = _now()
            if self._file.refusals[now[:10]] < self.limits.refusals_per_day:
                self._file.append(Refused(now))

    def entries(self) -> tuple[Entry, ...]:
        """Return every entry, checked."""
        with self._file.alone():
            return tuple(self._file.entries)

    def uses(self, population: str) -> list[Use]:
        """Return what was charged to a population, in order."""
        with self._file.alone():
            return [
                u for u in self._file.charges.values() if u.population == population
            ]

    def spent(self, population: str) -> Spent:
        """Return what a population has paid so far, as a cap sees it."""
        return spent_by(self.uses(population), population)

    def head(self) -> tuple[int, str]:
        """Return how many entries there are and the last tag: note it elsewhere."""
        with self._file.alone():
            return len(self._file.entries), self._file.tags[-1].hex()

    def verify(self, *, noted: str | None = None) -> None:
        """Read everything again; raise ``TamperedLedgerError`` at the first flaw.

        Args:
            noted: a tag that was noted earlier: it must be one of this chain, or an
                old copy was put back.
        """
        self._file.verify(noted=noted)

    def close(self) -> None:
        """Close the file; charges are on disk since they were made."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self.path.name!r})"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

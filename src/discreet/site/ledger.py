"""The ledger: a site's durable record of all that it gave away, asked first.

A charge is on disk before any noise is drawn, the outgoing bytes are on disk before
they are sent, and a retry resends these. So a crash at any instruction loses an
answer or a try, never a charge. Each change is one transaction that holds the file
alone: two processes cannot both spend the rest.

The stored bytes are as secret as the data: the file is its owner's alone, and an
export leaves them out. No seed of any noise is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from discreet.errors import BudgetError
from discreet.privacy.account import (
    ANOTHER_MESSAGE,
    CHANGED,
    FOREIGN_PERMIT,
    Limits,
    Permit,
    Spent,
    Use,
    compose,
    few_sites_differ,
    paid_losses,
    refusal,
)
from discreet.privacy.loss import Unbounded
from discreet.site.ledger_entries import Charge, Entry, Settled, message_mark
from discreet.site.ledger_file import LedgerFile


class Ledger:
    """An account in a file. Budgets belong to populations, not to files of data.

    Args:
        path: the ledger's file; its secret is kept beside it.
        limits: what is enforced at each charge; see ``Policy.limits``.
        create: whether a ledger that is not there yet may be started.

    Raises:
        LedgerError: the file cannot be used, or is not what was written.
    """

    def __init__(
        self, path: str | Path, *, limits: Limits | None = None, create: bool = True
    ) -> None:
        self.path: Final = Path(path)
        self.limits: Final = limits or Limits()
        self._file = LedgerFile(self.path, create=create)

    @classmethod
    def read(cls, path: str | Path) -> Ledger:
        """Open a ledger that exists, to look at it."""
        return cls(path, create=False)

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
            if known == sealed:
                return Permit(use)  # a retry of what was paid for
            if known is not None:
                raise BudgetError(CHANGED)
            reason = refusal(sealed, self._earlier(), self.limits)
            if reason is not None:
                raise BudgetError(reason)
            self._file.append(Charge(_now(), sealed))
        return Permit(use)

    def check(self, uses: Sequence[Use]) -> None:
        """Raise what ``reserve`` would for these uses in turn; charge nothing.

        A use with an empty intent stands for a round whose data is not counted yet.
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
                elif use.intent and known != sealed:
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
            if self._file.charges.get(key) != self._sealed(permit.use):
                raise BudgetError(FOREIGN_PERMIT)
            mark = message_mark(self._file.secret, *key, message)
            known = self._file.marks.get(key)
            if known is not None and known != mark:
                raise BudgetError(ANOTHER_MESSAGE)
            if known is None:
                self._file.store(key, message, at=_now())

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
        ``BudgetError`` when the survivors differ by few sites from those of an
        earlier exact sum on the population. A round with noise needs no such look.
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
            for e in self._earlier():
                if e.population != use.population or e.session == session:
                    continue
                if isinstance(e.loss, Unbounded):
                    fewest = self.limits.fewest_sites
                    reason = few_sites_differ(survivors, e.sites, fewest)
                    if reason is not None:
                        raise BudgetError(reason)
            self._file.append(Settled(_now(), session, round, survivors))

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
        """Return what a population has paid so far, by basic composition."""
        return compose(paid_losses(self.uses(population), population))

    def key_for(self, purpose: str) -> bytes:
        """Return a key that lasts as long as this ledger's secret, never to be sent.

        Flips of labels need one: as long as it is the same, so are the flips.
        """
        return self._file.secret.mark("key", purpose.encode())

    def head(self) -> tuple[int, str]:
        """Return how many entries there are and the last tag: note it elsewhere."""
        with self._file.alone():
            return len(self._file.entries), self._file.last.hex()

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self.path.name!r})"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

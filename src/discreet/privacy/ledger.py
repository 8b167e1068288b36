"""The ledger: a site's durable record of all its releases, checked before each.

A charge is on disk, and sealed, before any noise is drawn, the outgoing bytes before
they are sent, and a retry resends these. So a crash at any instruction loses an
answer or a try, never a charge. Each change is one transaction that holds the file
alone: two processes cannot both spend the rest.

A charge is given back in one case: an exact sum that every listed site must sign, and
that this site did not sign. Then its counts are in no sum that can be revealed. The
release is written first, and a released sum is never signed.

The stored bytes are as secret as the data: the file is its owner's alone, and an
export leaves them out. They are erased when a session has ended, and after
``Limits.retention_days`` where nobody told its end. Charges and marks stay, so that
totals and comparisons stay what they were; a retry after that is refused, because it
could only be answered with new noise for an old charge. No seed of any noise is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Self

from discreet.errors import BudgetError
from discreet.privacy.account import (
    ANOTHER_MESSAGE,
    CHANGED,
    FOREIGN_PERMIT,
    PURGED,
    Limits,
    Permit,
    Use,
    check_same_counts,
    difference,
    refusal,
    spent_by,
)
from discreet.privacy.composition import Spent
from discreet.privacy.ledger_entries import (
    Charge,
    Entry,
    Refused,
    Released,
    Settled,
    Stored,
)
from discreet.privacy.ledger_file import LedgerFile, make_ledger
from discreet.privacy.loss import Unbounded

_RELEASED: Final = (
    "this site has released its charge for this sum, and takes no further part in it"
)


@dataclass(frozen=True, slots=True)
class Held:
    """The stored answers of one session that were not erased yet."""

    session: bytes
    bytes: int
    last: str
    """When the last of them was stored, UTC."""


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
            intent=self._file.first_secret.mark("intent", use.intent),
            reusable=None
            if reusable is None
            else self._file.first_secret.mark("reuse", reusable),
        )

    def reserve(self, use: Use) -> Permit:
        """Charge for a use, on disk, or raise ``BudgetError`` and charge nothing.

        An exact sum first releases what this site never signed on the population: it
        cannot be in both sessions, and it goes on with the new one.
        """
        sealed = self._sealed(use)
        if isinstance(use.loss, Unbounded):
            for key in self._unsigned(use.population):
                if key[0] != use.session:
                    self.release(*key)
        with self._file.alone():
            known = self._file.charges.get((use.session, use.round))
            self._check_open((use.session, use.round))
            if known is not None:
                if sealed != known:
                    raise BudgetError(CHANGED)
                return Permit(use)  # a retry of what was charged
            reason = refusal(
                sealed, self._earlier(), self.limits, compared=self._compared()
            )
            if reason is not None:
                raise BudgetError(reason)
            self._file.append(Charge(_now(), sealed))
        return Permit(use)

    def check(self, uses: Sequence[Use]) -> None:
        """Raise what ``reserve`` would for these uses in turn; charge nothing.

        A round that was charged already costs nothing more, unless it was released.
        """
        releasing = {u.population for u in uses if isinstance(u.loss, Unbounded)}
        with self._file.alone():
            earlier, compared = self._earlier(releasing), self._compared(releasing)
            for use in uses:
                sealed = self._sealed(use)
                key = (use.session, use.round)
                known = self._file.charges.get(key)
                if use.session in self._file.purged:
                    raise BudgetError(PURGED)
                if known is None or key in self._file.released:
                    reason = refusal(sealed, earlier, self.limits, compared=compared)
                    if reason is not None:
                        raise BudgetError(reason)
                    earlier.append(sealed)
                elif sealed != known:
                    raise BudgetError(CHANGED)

    def _earlier(self, releasing: Collection[str] = ()) -> list[Use]:
        """Return the charges that stand, each with the sites that were in the sums.

        Left out is what a next exact sum on the populations ``releasing`` releases.
        """
        earlier = []
        for key, use in self._file.charges.items():
            if not self._is_over(key, releasing):
                sites, *others = self._file.sums.get(key, (use.sites,))
                earlier.append(replace(use, sites=sites, others=tuple(others)))
        return earlier

    def _compared(self, releasing: Collection[str] = ()) -> list[Use]:
        """Return released charges whose counts were compared with an earlier answer.

        That the site went on told that its data had not changed. For that each stays
        one of the sessions in which the question was answered.
        """
        answered, compared = set(), []
        for key, use in self._file.charges.items():
            question = (use.population, use.question, use.round)
            if not self._is_over(key, releasing):
                if isinstance(use.loss, Unbounded) and key in self._file.marks:
                    answered.add(question)
            elif question in answered:
                compared.append(use)
        return compared

    def _is_over(self, key: tuple[bytes, int], releasing: Collection[str]) -> bool:
        """Whether a charge was released, or is by the next exact sum."""
        population = self._file.charges[key].population
        unsigned = population in releasing and self._is_unsigned(key)
        return unsigned or key in self._file.released

    def _is_unsigned(self, key: tuple[bytes, int]) -> bool:
        """Whether a message left that cannot be revealed, for want of a signature.

        A charge without a stored message stands: it covers a refusal, or a crash that
        cannot be told from one.
        """
        waits = self._file.charges[key].signed and key in self._file.marks
        return waits and key not in self._file.sums and key not in self._file.released

    def _unsigned(self, population: str) -> list[tuple[bytes, int]]:
        with self._file.alone():
            return [
                key
                for key, use in self._file.charges.items()
                if use.population == population and self._is_unsigned(key)
            ]

    def _check_open(self, key: tuple[bytes, int]) -> None:
        """Refuse whatever was given up: a released sum, a purged session."""
        if key in self._file.released:
            raise BudgetError(_RELEASED)
        if key[0] in self._file.purged:
            raise BudgetError(PURGED)

    def record(self, permit: Permit, message: bytes) -> None:
        """Store the outgoing bytes, on disk, before they are sent; the first stay."""
        key = (permit.use.session, permit.use.round)
        with self._file.alone():
            self._check_open(key)
            charge = self._file.charges.get(key)
            if charge is None or charge != self._sealed(permit.use):
                raise BudgetError(FOREIGN_PERMIT)
            if key not in self._file.marks:
                check_same_counts(charge, self._compare(message))
                self._file.store(key, message, at=_now())
            elif not self._file.is_message(key, message):
                raise BudgetError(ANOTHER_MESSAGE)

    def _compare(self, message: bytes) -> Iterator[tuple[Use, bool]]:
        """Yield each answered use, and whether its message was this one."""
        for key, use in self._file.charges.items():
            if key in self._file.marks and key not in self._file.released:
                yield use, self._file.is_message(key, message)

    def replay(self, session: bytes, round: int) -> bytes | None:  # noqa: A002
        """Return the stored bytes of an earlier answer, to resend unchanged."""
        with self._file.alone():
            self._check_open((session, round))
            return self._file.message((session, round))

    def check_sums(self, use: Use, sums: Iterable[Collection[str]]) -> None:
        """Raise what ``settle`` would for exact sums over these sites; write nothing.

        Checked before the charge, while this site can still stay out of the sum.
        """
        with self._file.alone():
            earlier = self._earlier({use.population})
            reason = difference(use, _sorted(sums), earlier, self.limits)
        if reason is not None:
            raise BudgetError(f"{reason}; nothing was charged or sent")

    def settle(
        self,
        session: bytes,
        round: int,  # noqa: A002
        sums: Iterable[Collection[str]],
    ) -> None:
        """Note who is in each exact sum of a session, before this site signs for them.

        A coordinator chooses who is in a sum by calling others silent. Raise
        ``BudgetError`` when these sums and earlier ones on the population would show
        few sites alone. A round with noise needs no such check.
        """
        settled = _sorted(sums)
        key = (session, round)
        with self._file.alone():
            use = self._file.charges.get(key)
            if use is None:
                raise BudgetError(
                    "this round was not charged; there is nothing to reveal"
                )
            if not isinstance(use.loss, Unbounded):
                return
            self._check_open(key)
            known = self._file.sums.get(key)
            if known == settled:
                return
            if known is not None:
                raise BudgetError(
                    "this site has signed other sums of this session, and signs once"
                )
            reason = difference(use, settled, self._earlier(), self.limits)
            if reason is not None:
                raise BudgetError(f"{reason}; this site does not sign")
            self._file.append(Settled(_now(), session, round, settled))

    def release(
        self,
        session: bytes,
        round: int,  # noqa: A002
        *,
        withdrawn: Mapping[str, bytes] | None = None,
    ) -> None:
        """Give back the charge of an exact sum that cannot be revealed any more.

        From then on this site neither signs that sum nor helps to reveal it.

        Args:
            session: how the round was charged.
            round: the round.
            withdrawn: signatures of listed sites that they never sign this sum, by
                key, which the caller has verified. Without them a sum that this site
                signed stays charged.

        Raises:
            BudgetError: the charge is no such sum's, or was signed; it stands.
        """
        key = (session, round)
        with self._file.alone():
            if key in self._file.released:
                return
            use = self._file.charges.get(key)
            if use is None or not use.signed or key not in self._file.marks:
                raise BudgetError(
                    "only the charge of an exact sum whose masked counts wait for this "
                    "site's signature can be released"
                )
            if key in self._file.sums and not withdrawn:
                raise BudgetError("this site has signed this sum; its charge stands")
            proof = tuple(sorted((withdrawn or {}).items()))
            self._file.append(Released(_now(), session, round, proof))
        self.purge([session])

    def purge(self, sessions: Iterable[bytes]) -> None:
        """Erase the stored answers of sessions that are over; charges and marks stay.

        Nothing is sent again in such a session, and no further round of it is charged.

        Raises:
            LedgerError: erased bytes may still be in free space of the file.
        """
        for session in sessions:
            with self._file.alone():
                charged = any(key[0] == session for key in self._file.charges)
                if charged and session not in self._file.purged:
                    self._file.purge(session, at=_now())
        self._file.scrub()

    def purge_old(self, days: int | None = None) -> list[Held]:
        """Erase answers of sessions that nobody went on with for so many days.

        Without ``days`` it is what the limits say. Return what was erased.
        """
        kept = self.limits.retention_days if days is None else days
        before = (datetime.now(UTC) - timedelta(days=kept)).isoformat(
            timespec="seconds"
        )
        # All of them for 0 days, whatever the clock said when they were stored.
        old = [held for held in self.held() if held.last <= before or not kept]
        if old:
            self.purge(held.session for held in old)
        return old

    def held(self) -> tuple[Held, ...]:
        """Return whose answers are stored, oldest first."""
        with self._file.alone():
            sizes = self._file.held()
            last = {
                entry.session: entry.at
                for entry in self._file.entries
                if isinstance(entry, Stored) and entry.session in sizes
            }
        return tuple(Held(session, sizes[session], at) for session, at in last.items())

    def rotate_secret(self) -> None:
        """Seal with a new secret from now on; what was sealed stays checkable.

        Whoever has the old secret, and not the new one, can change nothing unseen.
        """
        with self._file.alone():
            self._file.rotate(at=_now())

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
        """Return what was charged to a population and stands, in order."""
        with self._file.alone():
            return [
                use
                for key, use in self._file.charges.items()
                if use.population == population and key not in self._file.released
            ]

    def spent(self, population: str) -> Spent:
        """Return what a population was charged so far, as a cap sees it."""
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


def _sorted(sums: Iterable[Collection[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(sorted(tuple(sorted(sites)) for sites in sums))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

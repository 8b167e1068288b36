"""The ledger's file: durable, chained, held alone while it changes.

SQLite with a write-ahead log and synchronous=FULL: a commit returns when it is on
disk. Entries are read and checked as they come; a file that fails the check pays
for nothing. The file and its secret are made in an order that survives a crash: a
ledger without a secret is empty, a secret without a ledger means that one was lost.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from discreet.privacy.account import Use
from discreet.site.fingerprint import (
    LedgerError,
    SiteSecret,
    make_secret,
    read_secret,
    secret_path,
)
from discreet.site.ledger_entries import (
    START,
    Charge,
    Entry,
    Settled,
    Stored,
    TamperedLedgerError,
    decode,
    encode,
    entry_tag,
    head_tag,
    message_mark,
)
from discreet.site.secret_files import sync_folder

SCHEMA_VERSION: Final = 1
_APPLICATION: Final = 0x64736372
_PATIENCE: Final = 30.0
"""Seconds to wait for another process that holds the file."""
_SCHEMA: Final = (
    "CREATE TABLE entry (number INTEGER PRIMARY KEY, body BLOB, tag BLOB) STRICT",
    "CREATE TABLE head (entries INTEGER, tag BLOB) STRICT",
    """CREATE TABLE message (session BLOB, round INTEGER, bytes BLOB,
    PRIMARY KEY (session, round)) STRICT""",
)


class LedgerFile:
    """Entries and messages on disk, and what they say, kept in memory."""

    def __init__(self, path: Path, *, create: bool) -> None:
        self.path: Final = path
        self.entries: list[Entry] = []
        self.last = START
        self.charges: dict[tuple[bytes, int], Use] = {}
        self.marks: dict[tuple[bytes, int], bytes] = {}
        self.survivors: dict[tuple[bytes, int], tuple[str, ...]] = {}
        self._find(create=create)
        try:
            self._sql = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
        except sqlite3.Error as err:
            raise _unusable(err) from err
        try:
            self._prepare()
            self.secret: SiteSecret = self._open_secret()
            with self.alone():
                pass  # every entry was read and checked
        except BaseException:
            self._sql.close()
            raise

    def _find(self, *, create: bool) -> None:
        if self.path.exists():
            return
        if secret_path(self.path).exists():
            # Starting anew would forget what was spent.
            raise LedgerError(
                f"the ledger {self.path.name} is gone but its secret is there; restore "
                "the ledger from a backup"
            )
        if not create:
            raise LedgerError(f"there is no ledger {self.path.name}")
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            sync_folder(self.path.parent)
        except OSError as err:
            raise LedgerError(
                f"the ledger {self.path.name} cannot be made ({err.strerror}); nothing "
                "was charged or sent"
            ) from None

    def _prepare(self) -> None:
        try:
            self._use_write_ahead_log()
            self._sql.execute("PRAGMA synchronous = FULL")
            version = self._version()
            if version == 0:
                self._create()
        except sqlite3.Error as err:
            raise _unusable(err) from err
        if self._version() != SCHEMA_VERSION:
            raise LedgerError(
                f"{self.path.name} is not a ledger of version {SCHEMA_VERSION}; it may "
                "be a newer discreet's"
            )

    def _open_secret(self) -> SiteSecret:
        secret = secret_path(self.path)
        if not secret.exists():
            with self.alone(synchronise=False):
                self._start(secret)
        return read_secret(secret)

    def _use_write_ahead_log(self) -> None:
        """Switch the file over, once in its life; others may be doing the same."""
        patience = time.monotonic() + _PATIENCE
        while True:
            try:
                self._sql.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as err:
                if "locked" not in str(err) or time.monotonic() > patience:
                    raise
                time.sleep(0.01)
            else:
                return

    def _version(self) -> int:
        return int(self._sql.execute("PRAGMA user_version").fetchone()[0])

    def _create(self) -> None:
        self._sql.execute("BEGIN IMMEDIATE")
        if self._version() == 0:  # nobody else was faster
            for statement in _SCHEMA:
                self._sql.execute(statement)
            self._sql.execute("INSERT INTO head VALUES (0, x'')")
            self._sql.execute(f"PRAGMA application_id = {_APPLICATION}")
            self._sql.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        self._sql.execute("COMMIT")

    def _start(self, secret: Path) -> None:
        count = self._sql.execute("SELECT count(*) FROM entry").fetchone()[0]
        if count:
            raise LedgerError(
                f"the ledger's secret {secret.name} is gone; restore it from a backup, "
                "for without it nothing can be charged"
            )
        if not secret.exists():  # nobody else was faster
            make_secret(secret)

    @contextmanager
    def alone(self, *, synchronise: bool = True) -> Iterator[None]:
        """Hold the file alone, and know all that is in it; commit at the end."""
        try:
            self._sql.execute("BEGIN IMMEDIATE")
            try:
                if synchronise:
                    self._synchronise()
                yield
            except BaseException:
                if self._sql.in_transaction:
                    self._sql.execute("ROLLBACK")
                raise
            self._commit()
        except sqlite3.Error as err:
            raise _unusable(err) from err

    def _commit(self) -> None:
        try:
            self._sql.execute("COMMIT")
        except sqlite3.Error:
            if self._sql.in_transaction:
                self._sql.execute("ROLLBACK")
            raise

    def _synchronise(self) -> None:
        """Read and check the entries that were added since the last look."""
        rows = self._sql.execute(
            "SELECT number, body, tag FROM entry WHERE number > ? ORDER BY number",
            (len(self.entries),),
        )
        for number, body, tag in rows:
            expected = len(self.entries) + 1
            if number != expected:
                raise TamperedLedgerError(expected, "was removed")
            if entry_tag(self.secret, self.last, number, body) != tag:
                raise TamperedLedgerError(
                    number, "was changed, or belongs to another secret"
                )
            self._remember(decode(body), tag)
        entries, tag = self._sql.execute("SELECT entries, tag FROM head").fetchone()
        count = len(self.entries)
        if entries > count:
            raise TamperedLedgerError(count + 1, "was removed")
        if count and (entries, tag) != (
            count,
            head_tag(self.secret, count, self.last),
        ):
            raise TamperedLedgerError(count, "is not the last one that was written")

    def _remember(self, entry: Entry, tag: bytes) -> None:
        self.entries.append(entry)
        self.last = tag
        match entry:
            case Charge(_, use):
                self.charges[use.session, use.round] = use
            case Stored(_, session, number, mark):
                self.marks[session, number] = mark
            case Settled(_, session, number, sites):
                self.survivors[session, number] = sites

    def append(self, entry: Entry) -> None:
        """Write an entry; it is remembered when it is read back, after the commit."""
        number, body = len(self.entries) + 1, encode(entry)
        tag = entry_tag(self.secret, self.last, number, body)
        self._sql.execute("INSERT INTO entry VALUES (?, ?, ?)", (number, body, tag))
        head = (number, head_tag(self.secret, number, tag))
        self._sql.execute("UPDATE head SET entries = ?, tag = ?", head)

    def store(self, key: tuple[bytes, int], message: bytes, *, at: str) -> None:
        """Keep the outgoing bytes of a round, and an entry with their mark."""
        self._sql.execute("INSERT INTO message VALUES (?, ?, ?)", (*key, message))
        self.append(Stored(at, *key, message_mark(self.secret, *key, message)))

    def message(self, key: tuple[bytes, int]) -> bytes | None:
        """Return the stored bytes of a round, as they were."""
        mark = self.marks.get(key)
        if mark is None:
            return None
        row = self._sql.execute(
            "SELECT bytes FROM message WHERE session = ? AND round = ?", key
        ).fetchone()
        if row is None or message_mark(self.secret, *key, row[0]) != mark:
            number = 1 + next(
                i
                for i, e in enumerate(self.entries)
                if isinstance(e, Stored) and (e.session, e.round) == key
            )
            raise TamperedLedgerError(number, "has lost the message that it stored")
        return bytes(row[0])

    def verify(self, *, noted: str | None) -> None:
        """Read everything again; raise at the first flaw."""
        with self.alone(synchronise=False):
            self.entries, self.last = [], START
            for known in (self.charges, self.marks, self.survivors):
                known.clear()
            self._synchronise()
            for key in self.marks:
                self.message(key)
            stored = self._sql.execute("SELECT count(*) FROM message").fetchone()[0]
            if stored != len(self.marks):
                raise LedgerError(
                    f"the ledger holds {stored} messages for {len(self.marks)} entries"
                )
            tags = {tag.hex() for (tag,) in self._sql.execute("SELECT tag FROM entry")}
            if noted is not None and noted not in tags:
                raise LedgerError(
                    "the noted tag is not in this ledger: an older copy was put back"
                )

    def close(self) -> None:
        """Close the file; what was committed is on disk."""
        self._sql.close()


def _unusable(err: sqlite3.Error) -> LedgerError:
    return LedgerError(
        f"the ledger cannot be used ({err}); nothing was charged or sent"
    )

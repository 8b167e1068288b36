"""The ledger's three files: entries, head and secret.

Entries are in SQLite with a write-ahead log and synchronous=FULL: a commit returns
when it is on disk. They are read and checked as they come; a ledger that fails the
check is refused. How many there are, and the last tag, is sealed in a small file
beside it, the head: without it an emptied file would look like a new one.

An entry is committed first, then sealed, and only then acted upon. So after a crash the
head is at most one entry behind, which nothing was sent for and which is sealed when
the ledger is opened next; it is never ahead. A head that is further behind, or ahead,
means that one of the files was rolled back, truncated or lost.

Erased messages leave the file. SQLite overwrites deleted cells with zeros
(``secure_delete``), VACUUM writes the file anew without free pages, and a truncating
checkpoint empties the write-ahead log. Temporary storage is in memory. What a file
system or a disk keeps of old blocks is outside of this.

The file of the secret holds 32 bytes, and 32 more after each rotation, the newest last:
the older ones check the entries and messages of their time. One more byte stands at its
end until the head is sealed under the newest. Without that byte, entries that end before
the newest secret was used were cut off, by a backup or by a thief of an older secret.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from discreet import secret_files
from discreet.entropy import SYSTEM, Entropy
from discreet.privacy.account import Use
from discreet.privacy.ledger_entries import (
    SECRET_SIZE,
    START,
    Charge,
    Entry,
    LedgerError,
    Purged,
    Refused,
    Released,
    Rotated,
    Settled,
    SiteSecret,
    Stored,
    TamperedLedgerError,
    decode,
    encode,
    entry_tag,
    message_mark,
    seal,
    unseal,
)

SCHEMA_VERSION: Final = 1
_APPLICATION: Final = 0x64736372
_UNFINISHED: Final = b"\0"
"""At the end of the secret's file while a rotation is under way."""
_PATIENCE: Final = 30.0
"""Seconds to wait for another process that holds the file."""
_SCHEMA: Final = (
    "CREATE TABLE entry (number INTEGER PRIMARY KEY, body BLOB, tag BLOB) STRICT",
    """CREATE TABLE message (session BLOB, round INTEGER, bytes BLOB,
    PRIMARY KEY (session, round)) STRICT""",
)


def secret_path(ledger: Path) -> Path:
    """Return where the secret of a ledger is kept."""
    return ledger.with_name(ledger.name + ".secret")


@contextmanager
def _as_ledger_errors(remedy: str = "") -> Iterator[None]:
    try:
        yield
    except secret_files.SecretFileError as err:
        raise LedgerError(f"{err}{remedy}") from None


def read_private(path: Path, *, size: int = -1) -> bytes:
    """Read a file that is its owner's alone."""
    try:
        return secret_files.read_secret(path, what="the ledger's file", size=size)
    except secret_files.SecretFileError as err:
        raise LedgerError(
            f"{err}; restore it from a backup if it is lost, for without it nothing "
            "can be charged"
        ) from None


def write_private(path: Path, content: bytes) -> None:
    """Write a file for its owner alone: whole and on disk, or as it was before."""
    with _as_ledger_errors("; nothing was sent"):
        secret_files.write_secret(path, content, over=True)


def head_path(ledger: Path) -> Path:
    """Return where the sealed head of a ledger is kept."""
    return ledger.with_name(ledger.name + ".head")


def make_ledger(path: Path, *, entropy: Entropy = SYSTEM) -> None:
    """Make an empty ledger: entries, head and, last of all, the secret.

    Without a secret nothing was ever charged, so what a crash leaves can be finished.
    """
    there = secret_path(path)
    already = LedgerError(
        f"there is a ledger {path.name} already, or its secret {there.name} is still "
        "there; nothing was made"
    )
    if there.exists():
        raise already
    with _as_ledger_errors():
        secret_files.check_folder(path)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        secret_files.sync_folder(path.parent)
    except OSError as err:
        raise LedgerError(
            f"the ledger {path.name} cannot be made ({err.strerror})"
        ) from None
    with closing(_connect(path)) as sql:
        try:
            if _version(sql) == 0:
                _create(sql)
            sql.execute("BEGIN IMMEDIATE")  # one maker at a time
            used = _version(sql) != SCHEMA_VERSION or sql.execute(
                "SELECT EXISTS (SELECT * FROM entry)"
            ).fetchone() != (0,)
        except sqlite3.Error as err:
            raise _unusable(err) from err
        if used or there.exists():
            raise already
        secret = SiteSecret(entropy(SECRET_SIZE))
        write_private(head_path(path), seal(secret, 0, START))
        write_private(there, secret.secret)
        sql.execute("COMMIT")


class LedgerFile:
    """Entries and messages on disk, and what they say, kept in memory."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self._forget()
        self._appended = False
        self._rotating = False
        self._secrets = self._find()
        self._sql = _connect(path)
        try:
            self._check_version()
            with self.alone():
                pass  # every entry was read and checked
        except BaseException:
            self._sql.close()
            raise

    def _forget(self) -> None:
        self.entries: list[Entry] = []
        self.tags = [START]
        self.charges: dict[tuple[bytes, int], Use] = {}
        self.marks: dict[tuple[bytes, int], bytes] = {}
        self._marked_under: dict[tuple[bytes, int], int] = {}
        self._rotations = 0
        self.sums: dict[tuple[bytes, int], tuple[tuple[str, ...], ...]] = {}
        self.released: set[tuple[bytes, int]] = set()
        self.purged: set[bytes] = set()
        self.refusals: Counter[str] = Counter()

    @property
    def secret(self) -> SiteSecret:
        """The secret that the next entry is sealed with."""
        return self._secrets[self._rotations]

    @property
    def first_secret(self) -> SiteSecret:
        """The secret that marks uses, the same after a rotation."""
        return self._secrets[0]

    def _find(self) -> list[SiteSecret]:
        """Return the secrets of a ledger that is there, and its owner's alone."""
        secret, head = secret_path(self.path), head_path(self.path)
        if not self.path.exists() and not secret.exists():
            raise LedgerError(
                f"there is no ledger {self.path.name}; make it, once, with: discreet "
                f"ledger new {self.path}"
            )
        with _as_ledger_errors():
            secret_files.check_folder(self.path)
        for file in (self.path, head, secret):
            if not file.exists():
                raise LedgerError(
                    f"{file.name} is gone but other files of the ledger are there; "
                    f"restore {self.path.name}, {head.name} and {secret.name} from one "
                    "backup (or, if it was never used, make it with: discreet ledger "
                    f"new {self.path})"
                )
            read_private(file, size=0)
        content = read_private(secret)
        self._rotating = len(content) % SECRET_SIZE == 1 and content.endswith(
            _UNFINISHED
        )
        if self._rotating:
            content = content.removesuffix(_UNFINISHED)
        if not content or len(content) % SECRET_SIZE:
            raise LedgerError(
                f"the ledger's secret {secret.name} has {len(content)} bytes instead of "
                f"{SECRET_SIZE} for each secret; restore it from a backup"
            )
        return [
            SiteSecret(content[i : i + SECRET_SIZE])
            for i in range(0, len(content), SECRET_SIZE)
        ]

    def _check_version(self) -> None:
        try:
            version = _version(self._sql)
        except sqlite3.Error as err:
            raise _unusable(err) from err
        if version == 0:
            raise LedgerError(
                f"the ledger {self.path.name} is empty but its head is there; restore "
                "both from one backup"
            )
        if version != SCHEMA_VERSION:
            raise LedgerError(
                f"{self.path.name} is not a ledger of version {SCHEMA_VERSION}; it may "
                "be a newer discreet's"
            )

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the file alone, and know all that is in it; at the end it is on disk.

        What was appended is sealed under a second hold, as by whoever comes next.
        """
        with self._held():
            yield
        if self._appended:
            self._appended = False
            with self._held():
                pass

    @contextmanager
    def _held(self) -> Iterator[None]:
        try:
            self._sql.execute("BEGIN IMMEDIATE")
            try:
                self._synchronise()
                yield
                self._sql.execute("COMMIT")
            except BaseException:
                self._appended = False
                if self._sql.in_transaction:
                    self._sql.execute("ROLLBACK")
                raise
        except sqlite3.Error as err:
            raise _unusable(err) from err

    def _synchronise(self) -> None:
        """Read and check the entries that were added since the last time."""
        rows = self._sql.execute(
            "SELECT number, body, tag FROM entry WHERE number > ? ORDER BY number",
            (len(self.entries),),
        )
        for number, body, tag in rows:
            expected = len(self.entries) + 1
            if number != expected:
                raise TamperedLedgerError(expected, "was removed")
            self._remember(self._checked(number, body, tag), tag)
        self._check_head()

    def _checked(self, number: int, body: bytes, tag: bytes) -> Entry:
        """Return an entry whose tag fits: a rotation's under the following secret."""
        following = self._secrets[self._rotations + 1 : self._rotations + 2]
        for rotates, secret in ((False, self.secret), *((True, s) for s in following)):
            if entry_tag(secret, self.tags[-1], number, body) == tag:
                entry = decode(body)
                if isinstance(entry, Rotated) == rotates:
                    return entry
        raise TamperedLedgerError(number, "was changed, or belongs to another secret")

    def _check_head(self) -> None:
        """Compare with what was sealed; seal the one entry that a crash left open."""
        file, count = head_path(self.path), len(self.entries)
        sealed, tag = self._unsealed(read_private(file))
        if sealed > count:
            raise TamperedLedgerError(count + 1, "was removed")
        if tag != self.tags[sealed] or sealed < count - 1:
            raise LedgerError(
                f"{file.name} is older than the ledger: an old copy was put back; "
                "restore both from one backup"
            )
        unused = len(self._secrets) - self._rotations - 1
        if unused > self._rotating:
            raise LedgerError(
                f"{self.path.name} and {file.name} are older than the last rotation of "
                "the secret: old copies were put back; restore all files from one backup"
            )
        if sealed < count:
            write_private(file, seal(self.secret, count, self.tags[count]))
        if self._rotating and not unused:
            self._write_secrets()
            self._rotating = False

    def _unsealed(self, raw: bytes) -> tuple[int, bytes]:
        """Read the head; a crash in a rotation leaves it under the secret before."""
        try:
            return unseal(self.secret, raw)
        except LedgerError:
            if not self.entries or not isinstance(self.entries[-1], Rotated):
                raise
            return unseal(self._secrets[self._rotations - 1], raw)

    def _remember(self, entry: Entry, tag: bytes) -> None:
        self.entries.append(entry)
        self.tags.append(tag)
        match entry:
            case Charge(_, use):
                self.charges[use.session, use.round] = use
            case Stored(_, session, number, mark):
                self.marks[session, number] = mark
                self._marked_under[session, number] = self._rotations
            case Settled(_, session, number, sums):
                self.sums[session, number] = sums
            case Released(_, session, number, _):
                self.released.add((session, number))
            case Purged(_, session):
                self.purged.add(session)
            case Rotated():
                self._rotations += 1
            case Refused(at):
                self.refusals[at[:10]] += 1

    def append(self, entry: Entry, *, secret: SiteSecret | None = None) -> None:
        """Write an entry; it is remembered when it is read back, after the commit."""
        number, body = len(self.entries) + 1, encode(entry)
        tag = entry_tag(secret or self.secret, self.tags[-1], number, body)
        self._sql.execute("INSERT INTO entry VALUES (?, ?, ?)", (number, body, tag))
        self._appended = True

    def store(self, key: tuple[bytes, int], message: bytes, *, at: str) -> None:
        """Keep the outgoing bytes of a round, and an entry with their mark."""
        self._sql.execute("INSERT INTO message VALUES (?, ?, ?)", (*key, message))
        self.append(Stored(at, *key, message_mark(self.secret, *key, message)))

    def rotate(self, *, at: str, entropy: Entropy = SYSTEM) -> None:
        """Replace the secret: its file first, then the first entry under the new one.

        A crash between the two leaves a secret that no entry uses; it is dropped here.
        """
        new = SiteSecret(entropy(SECRET_SIZE))
        self._secrets = [*self._secrets[: self._rotations + 1], new]
        self._rotating = True
        self._write_secrets(_UNFINISHED)
        self.append(Rotated(at), secret=new)

    def _write_secrets(self, end: bytes = b"") -> None:
        secrets = b"".join(each.secret for each in self._secrets)
        write_private(secret_path(self.path), secrets + end)

    def purge(self, session: bytes, *, at: str) -> None:
        """Delete the messages of a session, and note it; ``scrub`` follows the commit."""
        self._sql.execute("DELETE FROM message WHERE session = ?", (session,))
        self.append(Purged(at, session))

    def scrub(self) -> None:
        """Leave nothing of deleted messages in the file or its write-ahead log."""
        try:
            self._sql.execute("VACUUM")
            busy, *_ = self._sql.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as err:
            raise _not_scrubbed(str(err)) from err
        if busy:
            raise _not_scrubbed("another process reads it")

    def held(self) -> dict[bytes, int]:
        """Return how many bytes of messages are stored, by session."""
        return dict(
            self._sql.execute(
                "SELECT session, sum(length(bytes)) FROM message GROUP BY session"
            )
        )

    def is_message(self, key: tuple[bytes, int], raw: bytes) -> bool:
        """Whether these bytes were stored for a round, also of a purged session."""
        secret = self._secrets[self._marked_under[key]]
        return message_mark(secret, *key, raw) == self.marks[key]

    def message(self, key: tuple[bytes, int]) -> bytes | None:
        """Return the stored bytes of a round, as they were; None if none are held."""
        if key not in self.marks or key[0] in self.purged:
            return None
        row = self._sql.execute(
            "SELECT bytes FROM message WHERE session = ? AND round = ?", key
        ).fetchone()
        if row is None or not self.is_message(key, row[0]):
            number = 1 + next(
                i
                for i, e in enumerate(self.entries)
                if isinstance(e, Stored) and (e.session, e.round) == key
            )
            raise TamperedLedgerError(number, "has lost the message that it stored")
        return bytes(row[0])

    def verify(self, *, noted: str | None) -> None:
        """Read everything again; raise at the first flaw."""
        self._forget()
        with self.alone():
            for key in self.marks:
                self.message(key)
            stored = self._sql.execute("SELECT count(*) FROM message").fetchone()[0]
            kept = sum(session not in self.purged for session, _ in self.marks)
            if stored != kept:
                raise LedgerError(
                    f"the ledger holds {stored} messages for {kept} entries"
                )
            if noted is not None and noted not in {t.hex() for t in self.tags[1:]}:
                raise LedgerError(
                    "the noted tag is not in this ledger: an older copy was put back"
                )

    def close(self) -> None:
        """Close the file; what was committed is on disk."""
        self._sql.close()


def _connect(path: Path) -> sqlite3.Connection:
    try:
        sql = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
        try:
            _use_write_ahead_log(sql)
            sql.execute("PRAGMA synchronous = FULL")
            sql.execute("PRAGMA secure_delete = ON")
            sql.execute("PRAGMA temp_store = MEMORY")
        except BaseException:
            sql.close()
            raise
    except sqlite3.Error as err:
        raise _unusable(err) from err
    return sql


def _use_write_ahead_log(sql: sqlite3.Connection) -> None:
    """Switch the file over, once in its life; others may be doing the same."""
    patience = time.monotonic() + _PATIENCE
    while True:
        try:
            sql.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as err:
            if "locked" not in str(err) or time.monotonic() > patience:
                raise
            time.sleep(0.01)
        else:
            return


def _version(sql: sqlite3.Connection) -> int:
    return int(sql.execute("PRAGMA user_version").fetchone()[0])


def _create(sql: sqlite3.Connection) -> None:
    sql.execute("BEGIN IMMEDIATE")
    if _version(sql) == 0:  # nobody else was faster
        for statement in _SCHEMA:
            sql.execute(statement)
        sql.execute(f"PRAGMA application_id = {_APPLICATION}")
        sql.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    sql.execute("COMMIT")


def _not_scrubbed(reason: str) -> LedgerError:
    return LedgerError(
        f"purged answers may still be in free space of the ledger's file ({reason}): run "
        "`discreet ledger purge` when nothing else uses it"
    )


def _unusable(err: sqlite3.Error) -> LedgerError:
    return LedgerError(
        f"the ledger cannot be used ({err}); nothing was charged or sent"
    )

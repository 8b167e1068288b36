"""Kill a site's process before each of its steps; compare its ledger with what it sent.

A program of its own, without threads, so that it can fork quickly. A child opens the
ledger, answers two sessions and "sends" by writing to a pipe. It is killed before its
n-th step, for every n until it gets through: ``nth_step.py`` says what a step is. What
had been sent by then is compared with the ledger. The first child of a ledger makes it.
The next first retries the last session that was charged, in which the one before it may
have been killed, and is killed before its own n-th step; with ``--pairs``, before every
one. After each kill a copy without the write-ahead log is checked, too: it may be
refused, but must not have forgotten.

With ``--tidy`` a child also purges one session and rotates the secret after the other,
so that it is killed in these, too. What is left is purged after each kill: no file
of the ledger then holds an answer of a purged session, and every other answer is there.

The twins are broken on purpose, to show that the comparison sees it: a site that sends
before it charges, a ledger that seals its head before the entry is committed, one that
does not look at its head, one that deletes without overwriting, and one that writes the
entry of a rotation before the secret that it needs. Their runs end at the first flaw.

A killed process is not a power cut: this tests the order of steps and the file's
recovery, not the disk's honesty about fsync.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import sys
from fractions import Fraction
from itertools import count
from pathlib import Path

from nth_step import NotTracedError, killed_before

from discreet.privacy import ledger_file
from discreet.privacy.account import Use, answer_once
from discreet.privacy.ledger import Ledger
from discreet.privacy.ledger_entries import (
    SECRET_SIZE,
    LedgerError,
    Purged,
    Rotated,
    SiteSecret,
    encode,
    entry_tag,
    seal,
)
from discreet.privacy.ledger_file import (
    LedgerFile,
    head_path,
    secret_path,
    write_private,
)
from discreet.privacy.loss import PureDP

POPULATION = "icu"
LOSS = PureDP(Fraction(1, 2))
SIZE = 16
FLAWS = ("undercounts", "changed", "forgotten", "alarms", "traces")
COUNTED = ("kills", "messages", "unsent", "purged", "rotated", *FLAWS)
NOT_TRACED = 77
"""The exit code where a process may not trace its child."""


def use(session):
    return Use(POPULATION, session, 0, LOSS, b"intent", plan=b"plan")


def seal_first(ledger, entry):
    """Append an entry, and seal it while it is not committed yet."""
    number = len(ledger.entries) + 1
    tag = entry_tag(ledger.secret, ledger.tags[-1], number, encode(entry))
    write_private(head_path(ledger.path), seal(ledger.secret, number, tag))
    append(ledger, entry)


def delete_only(path):
    """Connect to a file whose deleted cells stay as they were."""
    sql = connect(path)
    sql.execute("PRAGMA secure_delete = OFF")
    return sql


def leave_free_space():
    """Delete answers without overwriting them."""
    ledger_file._connect = delete_only
    LedgerFile.scrub = lambda _: None


def rotate_entry_first(ledger, *, at):
    """Commit the entry of a rotation while its secret is in memory alone."""
    new = SiteSecret(os.urandom(SECRET_SIZE))
    ledger._secrets = [*ledger._secrets[: ledger._rotations + 1], new]
    ledger.append(Rotated(at), secret=new)
    ledger._sql.execute("COMMIT")
    content = b"".join(secret.secret for secret in ledger._secrets)
    write_private(secret_path(ledger.path), content)
    ledger._sql.execute("BEGIN IMMEDIATE")


append, connect = LedgerFile.append, ledger_file._connect
TWINS = {
    "seals-first": lambda: setattr(LedgerFile, "append", seal_first),
    "headless": lambda: setattr(LedgerFile, "_check_head", lambda _: None),
    "sends-first": lambda: None,
    "leaves-space": leave_free_space,
    "rotates-first": lambda: setattr(LedgerFile, "rotate", rotate_entry_first),
}


def opened(path):
    """Open a ledger, or make it: a kill may have come before it was finished."""
    return Ledger(path) if secret_path(path).exists() else Ledger.new(path)


def answer_two(path, pipe, child, *, broken, tidy):
    """Finish what was begun, and answer two sessions; ``broken`` sends, then charges."""
    with opened(path) as ledger:
        charged = [] if broken else ledger.uses(POPULATION)
        begun = [paid.session for paid in charged[-1:]]
        begun = [session for session in begun if session not in purged_of(ledger)]
        new = [f"{child:08d}{i:08d}".encode() for i in range(2)]
        for session in (*begun, *new):
            fresh = os.urandom(SIZE)
            if broken:
                os.write(pipe, session + fresh)
                ledger.record(ledger.reserve(use(session)), fresh)
            else:
                message = answer_once(ledger, use(session), lambda: fresh)  # noqa: B023
                os.write(pipe, session + message)
            if tidy:
                if is_purged(session):
                    ledger.purge([session])
                else:
                    ledger.rotate_secret()


def is_purged(session):
    """Whether a child purges this session: every second one."""
    return int(session[8:]) % 2 == 0


def purged_of(ledger):
    return {e.session for e in ledger.entries() if isinstance(e, Purged)}


def answer_until_full(path):
    """Answer until no file may grow any more, as on a full disk; print what was sent."""
    with Ledger.new(path) as ledger:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        for i in count():
            session = b"%d" % i
            try:
                answer_once(ledger, use(session), lambda: b"x" * 2000)
            except LedgerError as err:
                sys.stderr.write(f"{err}\n")
                return
            sys.stdout.write(f"{session.decode()}\n")


def life(path, child, nth, found, sent, **kind):
    """Run a child until its n-th step, and check; return whether it was killed."""
    reading, writing = os.pipe()
    try:
        steps = killed_before(nth, lambda: answer_two(path, writing, child, **kind))
    finally:
        os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        raw = pipe.read()
    for start in range(0, len(raw), 2 * SIZE):
        session, message = raw[start : start + SIZE], raw[start + SIZE :][:SIZE]
        sent.setdefault(session, set()).add(message)
        found["messages"] += 1
    checked = copied(path, "checked")  # the next child meets what this one left
    check(checked, sent, found)
    killed = len(steps) == nth
    found["kills"] += killed
    return killed


def copied(path, name):
    """Return the ledger in a copy of its folder, which replaces an earlier copy."""
    folder = path.parent.with_name(name)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(path.parent, folder)
    return folder / path.name


def every_kill(folder, found, *, until, pairs, **kind):
    """Kill the first child of a ledger before each step, and then a second one.

    Args:
        folder: where the ledgers are made.
        found: what is counted.
        until: the flaw to end at, if any.
        pairs: kill the second before each step, not before its n-th alone.
        kind: of the children.
    """
    for nth in count(1):
        path = folder / "first" / "ledger.db"
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir(mode=0o700)
        sent: dict[bytes, set[bytes]] = {}
        killed = life(path, 0, nth, found, sent, **kind)
        for second in count(1) if pairs else (nth,):
            again = {session: set(messages) for session, messages in sent.items()}
            if not life(copied(path, "second"), 1, second, found, again, **kind):
                break
        if not killed or (until is not None and found[until]):
            return


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--twin", choices=TWINS)
    parser.add_argument("--full-disk", action="store_true")
    parser.add_argument("--tidy", action="store_true")
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--until", choices=FLAWS)
    options = parser.parse_args()
    if options.full_disk:
        answer_until_full(options.folder / "ledger.db")
        return
    found = dict.fromkeys(COUNTED, 0)
    kind = {"broken": options.twin == "sends-first", "tidy": options.tidy}
    if options.twin is not None:
        TWINS[options.twin]()
    try:
        every_kill(
            options.folder, found, until=options.until, pairs=options.pairs, **kind
        )
    except NotTracedError as err:
        sys.stderr.write(f"a process may not trace its child here ({err})\n")
        sys.exit(NOT_TRACED)
    print(json.dumps(found))  # noqa: T201


def without_log(path, sent):
    """Whether a copy without the write-ahead log opens, and lacks a charge."""
    copy = path.with_name("copy.db")
    for file in path.parent.glob("copy.db*"):
        file.unlink()
    for where in (head_path, secret_path, Path):
        if where(path).exists():
            shutil.copy(where(path), where(copy))
    try:
        with Ledger(copy) as ledger:
            charged = {u.session for u in ledger.uses(POPULATION)}
    except LedgerError:
        return False
    return not set(sent) <= charged


def check(path, sent, found):
    """Count what was sent without a charge, or sent in two versions."""
    if not sent and not secret_path(path).exists():
        return  # it was killed while it made the ledger
    found["forgotten"] += without_log(path, sent)
    try:
        with Ledger(path) as ledger:
            ledger.verify()
            charged = {u.session for u in ledger.uses(POPULATION)}
            spent = ledger.spent(POPULATION).epsilon
            purged = purged_of(ledger)
            kept = [session for session in sent if session not in purged]
            stored = {session: ledger.replay(session, 0) for session in kept}
            if purged:
                ledger.purge(())
            rotated = sum(isinstance(e, Rotated) for e in ledger.entries())
    except LedgerError:
        found["alarms"] += 1
        return
    unpaid = spent < LOSS.epsilon * len(sent) or not set(sent) <= charged
    found["undercounts"] += unpaid
    found["unsent"] += len(charged - set(sent))
    found["changed"] += any(
        sent[session] != {stored[session]} for session in kept if session in charged
    )
    found["purged"] += len(purged)
    found["rotated"] += rotated
    found["traces"] += has_traces(path, {m for s in purged for m in sent.get(s, ())})


def has_traces(path, messages):
    """Whether a file of a ledger holds one of these messages."""
    files = [f.read_bytes() for f in path.parent.glob(f"{path.name}*") if f.is_file()]
    return any(message in held for message in messages for held in files)


if __name__ == "__main__":
    main()

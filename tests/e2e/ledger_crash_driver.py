"""Kill a site's process at random instants and compare its ledger with what it sent.

A program of its own, without threads, so that it can fork quickly. A child opens the
ledger, answers one session after the other and "sends" by writing to a pipe; the
parent kills it with SIGKILL after a random time, reads what had been sent by then,
and looks into the ledger. Every few kills the ledger is a new one, so that children
are killed while they make it, too. A child first retries the last session that was
charged, in which the one before it may have been killed. After each kill a copy without
the write-ahead log is looked at, too: it may be refused, but must not have forgotten.

With ``--tidy`` a child also purges every second session and rotates the secret now and
then, so that it is killed in these, too. What is left is purged after each kill: no file
of the ledger then holds an answer of a purged session, and every other answer is there.

The twins are broken on purpose, to show that the comparison sees it: a site that sends
before it charges, a ledger that seals its head before the entry is committed, one that
does not look at its head, one that deletes without overwriting, and one that writes the
entry of a rotation before the secret that it needs.

A killed process is not a power cut: this tests the order of steps and the file's
recovery, not the disk's honesty about fsync.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import sys
import time
from fractions import Fraction
from itertools import chain, count
from pathlib import Path

import numpy as np

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
READY = b"ready"
WAITS = np.array([1, 2])
COUNTED = (
    *("kills", "messages", "unsent"),
    *("purged", "rotated"),
    *("undercounts", "changed", "forgotten", "alarms", "traces"),
)


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
    time.sleep(0.002)
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


def answer_forever(path, pipe, child, *, broken, tidy):
    """Answer session after session; ``broken`` sends before it charges."""
    with opened(path) as ledger:
        charged = [] if broken else ledger.uses(POPULATION)
        begun = [paid.session for paid in charged[-1:]]
        begun = [session for session in begun if session not in purged_of(ledger)]
        new = (f"{child:08d}{i:08d}".encode() for i in count())
        os.write(pipe, READY)
        for session in chain(begun, new):
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


def killed_after(path, child, waiting, seconds, **kind):
    """Run a child, wait for so many bytes and then so long, kill it, read the rest."""
    fit, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(fit)
        try:
            answer_forever(path, writing, child, **kind)
        finally:
            os._exit(1)
    os.close(writing)
    early = b""
    while len(early) < waiting and (more := os.read(fit, waiting - len(early))):
        early += more
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    with os.fdopen(fit, "rb") as pipe:
        sent = early + pipe.read()
    return sent.removeprefix(READY), os.WIFSIGNALED(status)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--longest", type=float, default=0.03)
    parser.add_argument("--kills-per-ledger", type=int, default=15)
    parser.add_argument("--twin", choices=TWINS)
    parser.add_argument("--full-disk", action="store_true")
    parser.add_argument("--tidy", action="store_true")
    options = parser.parse_args()
    if options.full_disk:
        answer_until_full(options.folder / "ledger.db")
        return
    kind = {"broken": options.twin == "sends-first", "tidy": options.tidy}
    if options.twin is not None:
        TWINS[options.twin]()
    rng = np.random.default_rng(options.seed)
    found = dict.fromkeys(COUNTED, 0)
    sent: dict[bytes, set[bytes]] = {}
    for child in range(options.kills):
        path = options.folder / f"{child // options.kills_per_ledger}.db"
        if child % options.kills_per_ledger == 0:
            sent = {}
        # Before it has opened the ledger; right after that; after 1 or 2 messages.
        waiting = int(rng.choice([0, len(READY), *(len(READY) + 2 * SIZE * WAITS)]))
        seconds = float(rng.uniform(0.0, options.longest))
        raw, killed = killed_after(path, child, waiting, seconds, **kind)
        found["kills"] += killed
        for start in range(0, len(raw), 2 * SIZE):
            session, message = raw[start : start + SIZE], raw[start + SIZE :][:SIZE]
            sent.setdefault(session, set()).add(message)
            found["messages"] += 1
        check(path, sent, found)
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

"""Retention: an erased answer is in no file, and nothing of its session is sent again."""

import hashlib
import shutil
import sqlite3
from dataclasses import replace
from fractions import Fraction

import pytest

from discreet.errors import BudgetError
from discreet.privacy import ledger as ledger_module
from discreet.privacy.account import Limits, Permit, Use, answer_once
from discreet.privacy.ledger import Ledger
from discreet.privacy.ledger_entries import (
    LedgerError,
    Purged,
    Rotated,
    SiteSecret,
    TamperedLedgerError,
    entry_tag,
    seal,
)
from discreet.privacy.ledger_file import LedgerFile, head_path, secret_path
from discreet.privacy.loss import PureDP, Unbounded

HALF = PureDP(Fraction(1, 2))
SITES = tuple(f"site-{i}" for i in range(6))
CHUNK = 32


def use(session=b"s", number=0, *, loss=HALF, **more):
    return Use("icu", session, number, loss, b"i", plan=b"p", asked=b"bins", **more)


def vector(name, size):
    return hashlib.shake_256(name).digest(size)


def traces(folder, message):
    """Return the files that hold any 32 bytes of a message."""
    chunks = [message[i : i + CHUNK] for i in range(0, len(message) - CHUNK + 1, CHUNK)]
    return sorted(
        file.name
        for file in folder.iterdir()
        if any(chunk in file.read_bytes() for chunk in chunks)
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.mark.parametrize("size", [64, 900, 5_000, 70_000])
def test_an_erased_answer_is_in_no_file_of_the_ledger(path, size):
    """Small ones share a page, large ones have pages of their own."""
    with Ledger.new(path) as ledger:
        for name in (b"a", b"b", b"c"):
            answer_once(ledger, use(name), lambda name=name: vector(name, size))
        assert traces(path.parent, vector(b"b", size))  # it is there before
        ledger.purge([b"b"])
        assert traces(path.parent, vector(b"b", size)) == []  # while it is open, too
        assert [held.session for held in ledger.held()] == [b"a", b"c"]
        ledger.verify()
    assert traces(path.parent, vector(b"b", size)) == []
    assert traces(path.parent, vector(b"c", size))


def test_what_an_older_release_deleted_or_moved_is_scrubbed_too(path):
    """Its files were written without overwriting what is deleted."""
    message = vector(b"old", 900)
    with Ledger.new(path) as ledger:
        answer_once(ledger, use(b"a"), lambda: vector(b"a", 900))
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA secure_delete = OFF")
        file.execute("INSERT INTO message VALUES (x'00', 0, ?)", (message,))
        file.execute("DELETE FROM message WHERE session = x'00'")
    file.close()
    assert traces(path.parent, message)
    with Ledger(path) as ledger:
        ledger.purge(())
        assert traces(path.parent, message) == []
        ledger.verify()


def test_a_crash_before_the_scrubbing_leaves_nothing_for_the_next_but_one(
    path, monkeypatch
):
    message = vector(b"s", 5_000)
    with Ledger.new(path) as ledger:
        answer_once(ledger, use(), lambda: message)

    def killed(_):
        raise RuntimeError("killed")

    with monkeypatch.context() as patch, Ledger(path) as ledger:
        patch.setattr(LedgerFile, "scrub", killed)
        with pytest.raises(RuntimeError, match="killed"):
            ledger.purge([b"s"])
        assert traces(path.parent, message)
    assert traces(path.parent, message) == []  # closed cleanly: deleted cells are zeros


def test_a_ledger_that_another_reads_says_that_it_was_not_scrubbed(path, monkeypatch):
    monkeypatch.setattr("discreet.privacy.ledger_file._PATIENCE", 0.1)
    with Ledger.new(path) as ledger:
        answer_once(ledger, use(), lambda: b"answer")
        reader = sqlite3.connect(path)
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM message").fetchall()
        with pytest.raises(LedgerError, match="discreet ledger purge"):
            ledger.purge([b"s"])
        reader.close()
        ledger.purge(())
        assert ledger.held() == ()


def never():
    raise AssertionError("new noise for an old charge")


@pytest.mark.parametrize("stored", [True, False])
def test_a_retry_after_the_purge_is_refused_and_draws_nothing(path, stored):
    with Ledger.new(path) as ledger:
        permit = ledger.reserve(use())
        if stored:
            ledger.record(permit, b"answer")
        ledger.purge([b"s"])
    with Ledger(path) as ledger:
        for again in (use(), use(number=1)):
            with pytest.raises(BudgetError, match="purged"):
                answer_once(ledger, again, never)
            for act in (
                lambda again=again: ledger.reserve(again),
                lambda again=again: ledger.record(Permit(again), b"answer"),
                lambda again=again: ledger.check([again]),
            ):
                with pytest.raises(BudgetError, match="purged"):
                    act()
        assert ledger.spent("icu").epsilon == HALF.epsilon
        assert answer_once(ledger, use(b"t"), lambda: b"new") == b"new"
        ledger.verify()


def test_a_purged_sum_is_not_signed_and_its_sites_are_still_compared(path):
    def exact(session, sites=SITES):
        return use(session, loss=Unbounded(), sites=sites, signed=True)

    with Ledger.new(path, limits=Limits(fewest_sites=3)) as ledger:
        ledger.record(ledger.reserve(exact(b"a")), b"counts")
        ledger.settle(b"a", 0, [SITES])
        ledger.purge([b"a"])
        with pytest.raises(BudgetError, match="purged"):
            ledger.settle(b"a", 0, [SITES])
        with pytest.raises(BudgetError, match="differs from an earlier one by 1 site"):
            ledger.reserve(exact(b"b", SITES[:-1]))
        with pytest.raises(BudgetError, match="the data changed"):
            answer_once(ledger, exact(b"c"), lambda: b"one row more")
        assert answer_once(ledger, exact(b"d"), lambda: b"counts") == b"counts"


def test_a_released_sum_leaves_no_answer_behind(path):
    message = vector(b"counts", 900)
    with Ledger.new(path) as ledger:
        waiting = use(loss=Unbounded(), sites=SITES, signed=True)
        answer_once(ledger, waiting, lambda: message)
        ledger.release(b"s", 0)
        assert ledger.held() == ()
        assert traces(path.parent, message) == []


@pytest.mark.parametrize(("days", "left"), [(0, 0), (29, 1), (31, 2)])
def test_old_sessions_are_erased_and_younger_ones_are_not(
    path, days, left, monkeypatch
):
    with Ledger.new(path, limits=Limits(retention_days=days)) as ledger:
        with monkeypatch.context() as patch:
            old = ledger_module.datetime.now(ledger_module.UTC)
            old -= ledger_module.timedelta(days=30)
            patch.setattr(ledger_module, "_now", lambda: old.isoformat("T", "seconds"))
            answer_once(ledger, use(b"old"), lambda: b"old")
        answer_once(ledger, use(b"new"), lambda: b"new")
        erased = ledger.purge_old()
        assert [held.session for held in erased] == [b"old", b"new"][: 2 - left]
        assert len(ledger.held()) == left


def test_zero_days_erase_what_a_fast_clock_stored(path, monkeypatch):
    with Ledger.new(path) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(ledger_module, "_now", lambda: "2999-01-01T00:00:00+00:00")
            answer_once(ledger, use(), lambda: b"answer")
        assert ledger.purge_old(1) == []
        assert len(ledger.purge_old(0)) == 1
        assert ledger.held() == ()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM entry WHERE number = 3",
        "INSERT INTO message VALUES (x'73', 0, x'00')",
    ],
)
def test_undoing_a_purge_is_seen(path, statement):
    with Ledger.new(path) as ledger:
        answer_once(ledger, use(), lambda: b"answer")
        ledger.purge([b"s"])
        assert isinstance(ledger.entries()[2], Purged)
    with sqlite3.connect(path) as file:
        file.execute(statement)
    file.close()
    with pytest.raises(LedgerError), Ledger(path) as ledger:
        ledger.verify()


def test_a_backup_holds_what_it_held_and_what_it_brings_back_is_purged_again(
    path, tmp_path_factory
):
    backup, message = tmp_path_factory.mktemp("backup"), vector(b"s", 900)
    with Ledger.new(path) as ledger:
        answer_once(ledger, use(), lambda: message)
    files = [path, head_path(path), secret_path(path)]
    for file in files:
        shutil.copy(file, backup)
    with Ledger(path) as ledger:
        ledger.rotate_secret()
        ledger.purge([b"s"])
        noted = ledger.head()[1]
    assert traces(backup, message) == ["ledger.db"]
    now = {file: file.read_bytes() for file in files}
    for old in files:  # one of them put back is refused
        shutil.copy(backup / old.name, old)
        with pytest.raises(LedgerError), Ledger(path) as ledger:
            ledger.verify()
        for file, content in now.items():
            file.write_bytes(content)
    for old in files:  # all of them: seen by whoever noted a tag
        shutil.copy(backup / old.name, old)
    with Ledger(path) as ledger:
        with pytest.raises(LedgerError, match="an older copy was put back"):
            ledger.verify(noted=noted)
        assert answer_once(ledger, use(), never) == message  # no new noise
        assert ledger.spent("icu").epsilon == HALF.epsilon
        assert [held.session for held in ledger.held()] == [b"s"]
        ledger.purge([b"s"])
    assert traces(path.parent, message) == []


# -- the secret ---------------------------------------------------------------


def test_a_rotated_ledger_goes_on_and_knows_what_it_knew(path):
    flips = use(b"flips", reusable=b"R" * 32)
    with Ledger.new(path) as ledger:
        answer_once(ledger, use(), lambda: b"answer")
        ledger.reserve(use(b"begun"))
        answer_once(ledger, flips, lambda: b"flipped")
        noted = ledger.head()[1]
        ledger.rotate_secret()
    with Ledger(path) as ledger:
        ledger.verify(noted=noted)
        assert answer_once(ledger, use(), never) == b"answer"
        assert answer_once(ledger, use(b"begun"), lambda: b"now") == b"now"
        again = replace(flips, session=b"flips again")
        before = ledger.spent("icu")
        answer_once(ledger, again, lambda: b"flipped")
        assert ledger.spent("icu") == before  # the same flips stay free
        ledger.rotate_secret()
        ledger.purge([b"begun"])
    with Ledger(path) as ledger:
        ledger.verify(noted=noted)
    assert len(secret_path(path).read_bytes()) == 3 * 32


def retagged(path, secret, change):
    """Write history anew with a stolen secret: change entries, fit tags and head."""
    with sqlite3.connect(path) as file:
        rows = file.execute("SELECT number, body FROM entry ORDER BY number").fetchall()
        tag = bytes(32)
        for number, body in rows:
            forged = change(number, body)
            tag = entry_tag(secret, tag, number, forged)
            file.execute(
                "UPDATE entry SET body = ?, tag = ? WHERE number = ?",
                (forged, tag, number),
            )
    file.close()
    head_path(path).write_bytes(seal(secret, len(rows), tag))


def cheaper(number, body):
    return body.replace(b'"0.5"', b'"0.1"') if number == 1 else body


@pytest.mark.parametrize("rotated", [False, True])
def test_a_thief_of_the_old_secret_cannot_change_history_after_a_rotation(
    path, rotated
):
    with Ledger.new(path) as ledger:
        answer_once(ledger, use(), lambda: b"answer")
        stolen = SiteSecret(secret_path(path).read_bytes())
        if rotated:
            ledger.rotate_secret()
        answer_once(ledger, use(b"t"), lambda: b"answer")
    retagged(path, stolen, cheaper)
    if rotated:
        with pytest.raises(TamperedLedgerError), Ledger(path):
            pass
    else:  # with the secret in use any history can be written: why it is rotated
        with Ledger(path) as ledger:
            ledger.verify()
            assert ledger.spent("icu").epsilon == Fraction(6, 10)


def test_a_thief_of_the_old_secret_cannot_cut_off_the_rotation(path):
    with Ledger.new(path) as ledger:
        answer_once(ledger, use(), lambda: b"answer")
        stolen, (count, tag) = SiteSecret(secret_path(path).read_bytes()), ledger.head()
        ledger.rotate_secret()
        ledger.reserve(use(b"t"))
    head_path(path).write_bytes(seal(stolen, count, bytes.fromhex(tag)))
    with pytest.raises(LedgerError, match="head was changed"), Ledger(path):
        pass


@pytest.mark.parametrize("forged", [False, True])
def test_a_ledger_that_ends_before_its_rotation_is_refused(path, forged):
    """Old copies of the entries and the head, or others made with the stolen secret."""
    with Ledger.new(path) as ledger:
        answer_once(ledger, use(), lambda: b"answer")
        stolen = SiteSecret(secret_path(path).read_bytes())
    files = [path, head_path(path)]
    before = [file.read_bytes() for file in files]
    with Ledger(path) as ledger:
        ledger.rotate_secret()
        answer_once(ledger, use(b"t"), lambda: b"answer")
    for file, content in zip(files, before, strict=True):
        file.write_bytes(content)
    if forged:
        retagged(path, stolen, cheaper)
    with pytest.raises(LedgerError, match="older than the last rotation"), Ledger(path):
        pass


@pytest.mark.parametrize("instant", ["append", "write_private", "_write_secrets"])
def test_a_crash_in_a_rotation_loses_nothing(path, instant, monkeypatch):
    """Killed before the entry is there, before the head is sealed anew, or after."""
    with Ledger.new(path) as ledger:
        answer_once(ledger, use(), lambda: b"answer")
        with monkeypatch.context() as patch:
            module = "discreet.privacy.ledger_file"
            write = LedgerFile.append

            def killed(*_, **__):
                raise RuntimeError("killed")

            if instant == "append":
                patch.setattr(LedgerFile, "append", killed)
            else:  # the secret is written, the entry committed, and the head or not

                def append(*arguments, **more):
                    write(*arguments, **more)
                    if instant == "write_private":
                        patch.setattr(f"{module}.write_private", killed)
                    else:
                        patch.setattr(LedgerFile, instant, killed)

                patch.setattr(LedgerFile, "append", append)
            with pytest.raises(RuntimeError, match="killed"):
                ledger.rotate_secret()
    with Ledger(path) as ledger:
        ledger.verify()
        assert ledger.replay(b"s", 0) == b"answer"
        ledger.rotate_secret()
        ledger.reserve(use(b"t"))
    with Ledger(path) as ledger:
        ledger.verify()


def test_a_rotation_under_the_old_secret_is_none(path):
    with Ledger.new(path) as ledger:
        answer_once(ledger, use(), lambda: b"answer")
        with pytest.raises(TamperedLedgerError), ledger._file.alone():
            ledger._file.append(Rotated("2026-11-18T00:00:00+00:00"))
    with pytest.raises(TamperedLedgerError), Ledger(path):
        pass

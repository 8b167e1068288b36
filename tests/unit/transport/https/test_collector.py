"""What the collector's file keeps: each report once, and no order of arrival."""

import contextlib
import secrets
import shutil
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from discreet import InputError
from discreet.transport.https import collector
from discreet.transport.https.collector import RateLimit, ReportStore

PLAN = "ab" * 8


@pytest.fixture(autouse=True)
def never_quiet(monkeypatch):
    """A busy machine's pause between two reports is none."""
    monkeypatch.setattr(collector, "QUIET_SECONDS", 600.0)


def keep(store, rows):
    """Store rows, and return whether they were."""
    told, answers = threading.Event(), []

    def done(stored):
        answers.append(stored)
        told.set()

    assert store.add(rows, done)
    assert told.wait(120)
    return answers[0]


def new_rows(size):
    return [(PLAN, secrets.token_hex(16), 5) for _ in range(size)]


def log_of(path):
    return path.with_name(f"{path.name}-wal")


ROWS = new_rows(1000)
ORDERS = {"one": ROWS, "other": ROWS[::-1]}


def filled(folder, name):
    """A store that 1,000 reports came to, ten at a time, and its file."""
    path = folder / f"{name}.sqlite"
    store = ReportStore(path)
    for start in range(0, len(ROWS), 10):
        assert keep(store, ORDERS[name][start : start + 10])
    return store, path


def pages_of(path):
    """The file's bytes, but for its header, which counts changes."""
    return path.read_bytes()[100:]


def test_a_collector_that_ended_leaves_no_order_of_arrival(tmp_path):
    left = []
    for name in ORDERS:
        store, path = filled(tmp_path, name)
        store.close()
        assert not log_of(path).exists()
        left.append(pages_of(path))
    assert left[0] == left[1]


def test_a_collector_that_was_killed_leaves_it_until_the_next_start(tmp_path):
    (tmp_path / "killed").mkdir()
    left, tidied = [], []
    for name in ORDERS:
        store, path = filled(tmp_path, name)
        killed = tmp_path / "killed" / path.name
        for file in (path, log_of(path)):  # as SIGKILL leaves them
            shutil.copy(file, tmp_path / "killed" / file.name)
        left.append(pages_of(killed) + log_of(killed).read_bytes())
        started = ReportStore(killed)
        assert keep(started, [])  # the writer has begun
        assert log_of(killed).stat().st_size == 0
        tidied.append(pages_of(killed))
        started.close()
        store.close()
    assert left[0] != left[1]
    assert tidied[0] == tidied[1]


def test_a_collector_that_was_killed_while_nothing_came_leaves_no_order(
    tmp_path, monkeypatch
):
    """SQLite's log was emptied by then; the pages of its file show who came first."""
    monkeypatch.chdir(tmp_path)
    path = Path(":memory:")  # a file, and not SQLite's database that a process forgets
    ReportStore(path).close()
    ids = [f"{37 * k % 41:032x}" for k in range(40)]
    with contextlib.closing(sqlite3.connect(path.absolute())) as database:
        for symbol, name in enumerate(ids):
            with database:
                database.execute(
                    "INSERT INTO reports VALUES (?, ?, ?)", ("0" * 16, name, symbol)
                )

    def order():
        raw = path.read_bytes()
        return sorted(ids, key=lambda name: raw.index(name.encode()), reverse=True)

    assert order() == ids
    store = ReportStore(path)
    assert keep(store, [])  # the writer has begun
    assert order() == sorted(ids)
    assert path.stat().st_mode & 0o777 == 0o600
    store.close()


def test_a_store_that_no_collector_made_is_refused(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "other.sqlite")) as database:
        database.execute("CREATE TABLE reports (plan, id, symbol)")
    (tmp_path / "garbage").write_bytes(b"garbage")
    for name in ("other.sqlite", "garbage", "nowhere/reports.sqlite"):
        with pytest.raises(InputError, match="name a"):
            ReportStore(tmp_path / name)


def test_a_quiet_collector_has_emptied_its_log(tmp_path, monkeypatch):
    monkeypatch.setattr(collector, "QUIET_SECONDS", 0.05)
    path = tmp_path / "reports.sqlite"
    store = ReportStore(path)
    assert keep(store, new_rows(10))
    until = time.monotonic() + 120
    while log_of(path).stat().st_size and time.monotonic() < until:
        time.sleep(0.01)
    assert log_of(path).stat().st_size == 0
    assert keep(store, new_rows(10))  # and goes on
    store.close()


def test_reports_of_one_commit_are_written_by_id_and_of_one_id_the_first_stays(
    tmp_path,
):
    store = ReportStore(tmp_path / "reports.sqlite")
    assert keep(
        store, [(PLAN, "ff" * 16, 9), (PLAN, "00" * 16, 3), (PLAN, "ff" * 16, 2)]
    )
    found = store._database.execute("SELECT id, symbol FROM reports").fetchall()
    assert found == [("00" * 16, 3), ("ff" * 16, 9)]
    store.close()


def test_a_full_disk_is_told_and_the_next_reports_are_stored(tmp_path, monkeypatch):
    store, _ = filled(tmp_path, "one")
    said = []
    monkeypatch.setattr(
        collector.failures, "record", lambda _, doing: said.append(doing)
    )
    monkeypatch.setattr(collector.failures, "tell", said.append)
    (pages,) = store._database.execute("PRAGMA page_count").fetchone()
    store._database.execute(f"PRAGMA max_page_count = {pages}")
    for _ in range(3):  # clients send again and again
        assert not keep(store, new_rows(5000))
    assert [line.partition(" (")[0] for line in said] == [
        "storing reports",
        "reports cannot be stored",
    ]
    store._database.execute("PRAGMA max_page_count = 1000000")
    assert keep(store, new_rows(10))
    assert said[2:] == ["reports are stored again"]
    (many,) = store._database.execute("SELECT COUNT(*) FROM reports").fetchone()
    assert many == 1010  # of the refused ones, none
    store.close()


def test_a_subscriber_of_ipv6_has_one_rate_for_all_its_addresses():
    limit = RateLimit(60, clock=lambda: 0.0)
    sent = [limit.allows(f"2001:db8:1:2::{k:x}") for k in range(1000)]
    assert sum(sent) == 240
    assert limit.allows("2001:db8:1:3::1")
    assert limit.allows("fe80::1%eth0")
    mapped = [limit.allows(f"::ffff:192.0.2.{k}") for k in range(250)]
    assert all(mapped)  # each is an address of IPv4

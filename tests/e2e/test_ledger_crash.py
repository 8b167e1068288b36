"""A site's process is killed before each of its steps: its ledger never undercounts."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from discreet.privacy.ledger import Ledger

FLAWS = ("undercounts", "changed", "forgotten", "alarms", "traces")
DRIVER = Path(__file__).with_name("ledger_crash_driver.py")
NOT_TRACED = 77
THREE_WRITES = """
import os, sys
from nth_step import killed_before
def act():
    to = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
    for letter in b"abc":
        os.write(to, bytes([letter]))
    os.fsync(to)
print(*killed_before(int(sys.argv[2]), act))
"""


def driven(*arguments):
    run = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
        cwd=DRIVER.parent,
    )
    if run.returncode == NOT_TRACED:
        pytest.skip(run.stderr)
    assert run.returncode == 0, run.stderr
    return run


@pytest.fixture
def folder():
    """In memory, if there is such a folder: a killed process leaves what is not synced."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
    there = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=there) as made:
        yield made


def crash(folder, *arguments):
    return json.loads(driven(DRIVER, folder, *arguments).stdout)


@pytest.mark.parametrize(
    ("nth", "left"),
    [(1, None), (2, b""), (3, b"a"), (4, b"ab"), (5, b"abc"), (6, b"abc")],
)
def test_a_process_is_killed_before_exactly_the_step_that_is_asked_for(
    tmp_path, nth, left
):
    file = tmp_path / "file"
    steps = driven("-c", THREE_WRITES, file, nth).stdout.split()
    assert steps == ["openat", "write", "write", "write", "fsync"][:nth]
    assert (file.read_bytes() if file.exists() else None) == left


def test_a_kill_before_any_step_leaves_no_charge_below_what_was_sent(folder):
    found = crash(folder)
    assert found["kills"] > 100
    assert found["messages"] > 100  # the children did get somewhere
    assert found["unsent"] > 0  # and some were killed between charge and sending
    assert not any(found[flaw] for flaw in FLAWS)


@pytest.mark.parametrize(
    ("twin", "flaw"),
    [
        ("sends-first", "undercounts"),
        ("seals-first", "alarms"),
        ("headless", "forgotten"),
    ],
)
def test_the_comparison_sees_a_wrong_order_and_a_ledger_without_a_head(
    folder, twin, flaw
):
    assert crash(folder, "--twin", twin, "--until", flaw)[flaw] > 0


def test_kills_in_purges_and_rotations_lose_no_charge_and_leave_no_answer(folder):
    found = crash(folder, "--tidy")
    assert found["kills"] > 100
    assert found["messages"] > 100
    assert min(found["purged"], found["rotated"]) > 30
    assert not any(found[flaw] for flaw in FLAWS)


@pytest.mark.parametrize(
    ("twin", "flaw"), [("leaves-space", "traces"), ("rotates-first", "alarms")]
)
def test_the_comparison_sees_free_space_and_a_secret_that_comes_too_late(
    folder, twin, flaw
):
    assert crash(folder, "--tidy", "--twin", twin, "--until", flaw)[flaw] > 0


@pytest.mark.slow
def test_a_second_kill_in_any_step_after_any_first_one_loses_no_charge(folder):
    found = crash(folder, "--pairs")
    assert found["kills"] > 5000
    assert not any(found[flaw] for flaw in FLAWS)


def test_a_disk_that_fills_up_stops_the_site_with_a_clear_sentence(tmp_path):
    run = driven(DRIVER, tmp_path, "--full-disk")
    assert "nothing was charged or sent" in run.stderr
    sent = run.stdout.split()
    assert len(sent) > 3
    with Ledger(tmp_path / "ledger.db") as ledger:  # there is room again
        ledger.verify()
        charged = {use.session for use in ledger.uses("icu")}
        assert {session.encode() for session in sent} <= charged
        assert all(ledger.replay(session.encode(), 0) for session in sent)

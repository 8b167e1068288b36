"""A site's process is killed at random instants: its ledger never undercounts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from discreet.privacy.ledger import Ledger

FLAWS = ("undercounts", "changed", "forgotten", "alarms", "traces")
DRIVER = Path(__file__).with_name("ledger_crash_driver.py")


def driven(folder, *arguments):
    run = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, DRIVER, folder, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run


def crash(folder, *arguments):
    return json.loads(driven(folder, *arguments).stdout)


def test_300_kills_never_leave_a_charge_below_what_was_sent(tmp_path):
    found = crash(tmp_path, "--kills", 300, "--seed", 1)
    assert found["kills"] == 300
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
    tmp_path, twin, flaw
):
    found = crash(tmp_path, "--kills", 40, "--seed", 2, "--twin", twin)
    assert found[flaw] > 0


def test_kills_in_purges_and_rotations_lose_no_charge_and_leave_no_answer(tmp_path):
    found = crash(tmp_path, "--tidy", "--kills", 100, "--seed", 1, "--longest", 0.05)
    assert found["kills"] == 100
    assert found["messages"] > 30
    assert min(found["purged"], found["rotated"]) > 30
    assert not any(found[flaw] for flaw in FLAWS)


@pytest.mark.parametrize(
    ("twin", "flaw"), [("leaves-space", "traces"), ("rotates-first", "alarms")]
)
def test_the_comparison_sees_free_space_and_a_secret_that_comes_too_late(
    tmp_path, twin, flaw
):
    kills = ("--tidy", "--kills", 40, "--seed", 2, "--longest", 0.05)
    found = crash(tmp_path, *kills, "--twin", twin)
    assert found[flaw] > 0


@pytest.mark.slow
@pytest.mark.parametrize("start", [3, 4, 5])
def test_1000_kills_never_leave_a_charge_below_what_was_sent(tmp_path, start):
    found = crash(tmp_path, "--kills", 1000, "--seed", start)
    assert found["kills"] == 1000
    assert not any(found[flaw] for flaw in FLAWS)


def test_a_disk_that_fills_up_stops_the_site_with_a_clear_sentence(tmp_path):
    run = driven(tmp_path, "--full-disk")
    assert "nothing was charged or sent" in run.stderr
    sent = run.stdout.split()
    assert len(sent) > 3
    with Ledger(tmp_path / "ledger.db") as ledger:  # there is room again
        ledger.verify()
        charged = {use.session for use in ledger.uses("icu")}
        assert {session.encode() for session in sent} <= charged
        assert all(ledger.replay(session.encode(), 0) for session in sent)

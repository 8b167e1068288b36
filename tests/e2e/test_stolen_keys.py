"""A stolen-key exercise: revoke, rotate, a new roster, and the thief is refused.

The thief has copies of the coordinator's folder and of one site's, and the old plan.
"""

from __future__ import annotations

import shutil
import socket
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from discreet.cli.main import app
from discreet.models.distributed import DistributedDP
from discreet.plan.file import loads
from discreet.privacy.ledger import Ledger
from discreet.transport.addresses import LOOPBACK
from e2e.https_consortium import (
    PATIENCE,
    SITES,
    Consortium,
    consortium,
    make,
    own_answer,
)

pytestmark = pytest.mark.long
MEMBERS = (*SITES, "coordinator")


def done(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result.output


def rotate_and_tell_everybody(folder: Path) -> None:
    """The commands of docs/signing/incident.md."""
    done("keys", "rotate", folder / "coordinator")
    done("keys", "rotate", folder / "north")
    done("ledger", "rotate", folder / "north/ledger.sqlite")
    for stolen in ("coordinator", "north"):
        sent = folder / stolen / f"{stolen}.revoked.toml"
        for member in MEMBERS:
            if member != stolen:
                done("keys", "revoke", folder / member, sent)
    for site in SITES:
        public = folder / "coordinator" / "coordinator.public.toml"
        done("keys", "trust", folder / site, public)


def agree_on_a_new_roster(running: Consortium) -> Consortium:
    folder = running.folder
    shutil.copy(folder / "plan.toml", folder / "old-plan.toml")
    public = [folder / site / f"{site}.public.toml" for site in SITES]
    done("roster", folder / "plan.toml", *public, "--keys", folder / "coordinator")
    return replace(running, plan=loads((folder / "plan.toml").read_text()))


def wait_for_port(port: int, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((LOOPBACK, port)).close()
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return


def test_a_thief_of_two_members_keys_gets_nothing_after_the_rotation(
    tmp_path: Path,
) -> None:
    make(tmp_path / "made")
    with consortium(tmp_path / "made", tmp_path / "c", DistributedDP("1")) as before:
        folder, thief = before.folder, before.folder / "thief"
        for stolen in ("coordinator", "north"):
            shutil.copytree(folder / stolen, thief / stolen)
        rotate_and_tell_everybody(folder)
        running = agree_on_a_new_roster(before)
        assert running.plan.digest() != before.plan.digest()

        # Who signed the old roster invites nobody any more: the site does not connect.
        false = running.start(
            *("coordinate", "old-plan.toml", "--keys", "thief/coordinator"),
            *("--port", str(running.port), "--wait", "900"),
        )
        wait_for_port(running.port)
        refused = running.start(
            *("site", "old-plan.toml", "south.parquet", "--keys", "south"),
            *("--coordinator", f"{LOOPBACK}:{running.port}", "--confirmed"),
        )
        assert refused.ends() == 2
        assert "that was revoked on 20" in refused.said()
        assert "ask for a plan with a new roster" in refused.said()
        false.end()

        # The coordinator with the new keys lets the thief of the old ones not in.
        coordinator = running.coordinate()
        wait_for_port(running.port)
        shutil.copy(
            folder / "coordinator/coordinator.public.toml",
            thief / "north/coordinator.public.toml",
        )
        stranger = running.start(
            *("site", "fetch", "--keys", "thief/north", "-o", "fetched.toml"),
            *("--coordinator", f"{LOOPBACK}:{running.port}"),
        )
        assert stranger.ends() == 2
        assert not (folder / "fetched.toml").exists()
        sites = [running.site(site) for site in SITES]
        assert coordinator.ends() == 0, coordinator.said()
        assert [site.ends() for site in sites] == [0, 0, 0], sites[0].said()
        assert running.revealed() == running.expected()

        for site in SITES:
            assert running.charges(site) == 1
            assert_nothing_is_stored(running, site)


def assert_nothing_is_stored(running: Consortium, site: str) -> None:
    """The session has ended: no file of the site holds what it sent under its mask."""
    answer = np.array(own_answer(site, running.plan), dtype="<i8").tobytes()
    for file in (running.folder / site).rglob("*"):
        assert not file.is_file() or answer not in file.read_bytes(), file
    with Ledger(running.folder / site / "ledger.sqlite") as ledger:
        assert ledger.held() == ()

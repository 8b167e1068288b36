"""A site that joins: what it keeps beside its ledger, and what it says of its end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from discreet.errors import InputError
from discreet.models.local import LocalDP
from discreet.privacy.ledger import Ledger
from discreet.transport.addresses import SilenceError, UnreachableError
from discreet.transport.joining import (
    InFile,
    JoiningSite,
    purge_site,
    response_key_beside,
)
from discreet.transport.keys import SiteKeys, make_consortium
from unit.session.federations import POLICY, examples, plan_for


def test_the_response_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    assert response_key_beside(ledger).secret == response_key_beside(ledger).secret
    assert (tmp_path / "ledger.sqlite.response_key").stat().st_mode & 0o077 == 0


def test_a_kept_state_is_its_owners_alone_and_an_empty_one_leaves_no_file(
    tmp_path: Path,
) -> None:
    kept = InFile(tmp_path / "ledger.sqlite.session")
    assert kept.load() == b""
    kept.save(b"state")
    assert kept.load() == b"state"
    assert kept.path.stat().st_mode & 0o077 == 0
    kept.save(b"")
    assert not kept.path.exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from discreet.transport.joining import InFile
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
InFile(Path(sys.argv[1])).save(b"keys of a session")
"""


def killed_while_it_keeps(path: Path) -> Path:
    """Return what a process leaves that is killed before its state has its name."""
    run = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)  # noqa: S603
    assert run.returncode == -signal.SIGKILL
    (left,) = path.parent.glob(".ledger.sqlite.session.*")
    assert left.read_bytes() == b"keys of a session"
    return left


def test_no_part_of_a_state_outlives_the_end_of_its_session_or_a_purge(
    tmp_path: Path,
) -> None:
    ledger = tmp_path / "ledger.sqlite"
    Ledger.new(ledger).close()
    path = tmp_path / "ledger.sqlite.session"
    for forget in (lambda: InFile(path).save(b""), lambda: purge_site(ledger)):
        left = killed_while_it_keeps(path)
        forget()
        assert not left.exists()
    with Ledger(ledger) as opened:
        opened.verify()


class Serving:
    """A runtime that does something else than connect."""

    def __init__(self, *actions: object) -> None:
        self.actions = list(actions)

    def serve(self, *_: object, **__: object) -> None:
        action = self.actions.pop(0)
        if isinstance(action, BaseException):
            raise action
        action()  # type: ignore[operator]


@pytest.fixture
def site(tmp_path: Path) -> JoiningSite:
    make_consortium(tmp_path, ["north"], hosts=["localhost"])
    ledger = tmp_path / "ledger.sqlite"
    Ledger.new(ledger).close()
    plan = plan_for(LocalDP("1", "laplace"), survivors=2)
    return JoiningSite(plan, examples(1), POLICY, ledger, SiteKeys(tmp_path / "north"))


def test_a_second_process_of_a_site_is_refused_at_once(site: JoiningSite) -> None:
    refused: list[str] = []

    def join_again() -> None:
        with pytest.raises(InputError, match="takes part already") as error:
            site.join(Serving(), "hub:9443")
        refused.append(str(error.value))

    with pytest.raises(SilenceError):
        site.join(Serving(join_again), "hub:9443")
    assert refused, "while the first one took part"
    with pytest.raises(SilenceError):  # and not afterwards
        site.join(Serving(lambda: None), "hub:9443")


@pytest.mark.parametrize(
    ("failure", "then"),
    [
        (UnreachableError("no way", 5.0), ": run the same command again"),
        (UnreachableError("another plan"), "$"),
        (SilenceError("no message"), ": run the same command again"),
    ],
)
def test_a_site_that_never_heard_the_end_says_that_nothing_was_charged(
    site: JoiningSite, failure: Exception, then: str
) -> None:
    with pytest.raises(type(failure), match=f"{failure}; nothing was charged{then}"):
        site.join(Serving(failure), "hub:9443")


def test_what_a_site_notes_of_its_rows_is_not_told_with_the_connection(
    site: JoiningSite,
) -> None:
    """What is told of the connection is in the log, which is sent to others who help."""
    told: list[str] = []
    noted: list[str] = []
    site.tell, site.note = told.append, noted.append
    made = site._site()
    made.log("2 rows did not fit")
    made.close()
    assert (told, noted) == ([], ["2 rows did not fit"])

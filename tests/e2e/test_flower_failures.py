"""What goes wrong in a consortium, with real processes: the long matrix."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from discreet.models.distributed import DistributedDP
from discreet.models.local import LocalDP
from discreet.plan.file import dumps
from discreet.privacy.ledger import Ledger
from discreet.session.coordinator import AbortedError
from discreet.session.policy import PolicyError
from discreet.session.protocols.secure_sum import SecureSum
from discreet.transport.addresses import LOOPBACK, TransportError, free_port
from discreet.transport.flower.processes import ProcessError
from discreet.transport.flower.runtime import FlowerRuntime
from discreet.transport.joining import JoiningSite
from discreet.transport.keys import CA, NODE_KEY, SiteKeys, make_consortium
from e2e.flower_consortium import (
    POLICY,
    SITES,
    Consortium,
    consortium,
    examples,
    plan_for,
    process,
)
from e2e.test_flower import Watched, expected

pytestmark = [pytest.mark.slow, pytest.mark.flower]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("consortium")) as started:
        yield started


@pytest.mark.parametrize("after", ["advertise", "share", "mask", "confirm"])
def test_a_site_killed_after_any_step_leaves_a_right_sum(
    running: Consortium, after: str
) -> None:
    plan = plan_for(DistributedDP("0.5"), survivors=3, roster=running.roster)
    watched = Watched(running)
    watched.kill_after = {after: "west"}
    try:
        result = watched.run(plan)
    finally:
        running.start("west")
    # Whoever has sent its masked vector stays in the sum.
    present = SITES[:3] if after in {"advertise", "share"} else SITES
    assert result.source.releases[0].total.tolist() == expected(plan, present)
    assert watched.steps[-1].answered == 3


def test_a_slow_site_is_not_waited_for(running: Consortium) -> None:
    slow = running.folder / "west" / "slow"
    slow.write_text("300")
    plan = plan_for(LocalDP("0.5", "laplace"), survivors=3)
    began = time.monotonic()
    watched = Watched(running)
    try:
        result = watched.run(plan)
        took = time.monotonic() - began
    finally:
        slow.unlink()
        running.kill("west")
        running.start("west")
    assert result.source.releases[0].total.tolist() == expected(plan, SITES[:3])
    assert [step.answered for step in watched.steps] == [3]
    assert took < 300  # what the slow site would have taken


def test_too_few_sites_abort_within_the_stated_time(running: Consortium) -> None:
    plan = plan_for(DistributedDP("0.5"), survivors=4)
    watched = Watched(running)
    watched.kill_after = {"advertise": "west"}
    watched.step_seconds = 20
    began = time.monotonic()
    try:
        with pytest.raises(AbortedError, match="nothing was revealed"):
            watched.run(plan)
    finally:
        running.start("west")
    assert time.monotonic() - began < 120 + 2 * 20


def test_a_site_of_another_release_is_told_so_and_left_out(running: Consortium) -> None:
    older = running.folder / "west" / "older"
    older.touch()
    running.kill("west")
    running.start("west")
    plan = plan_for(DistributedDP("0.5"), survivors=3, roster=running.roster)
    spent = running.spent("west")
    watched = Watched(running)
    try:
        result = watched.run(plan)
    finally:
        older.unlink()
        running.kill("west")
        running.start("west")
    assert result.source.releases[0].total.tolist() == expected(plan, SITES[:3])
    assert watched.steps[0].declined == 1
    assert (
        "a message has version 1, and this release of discreet reads version 0: "
        "install the same release at both ends" in running.said("west")
    )
    assert running.spent("west") == spent


def joining(keys: Path, folder: Path) -> JoiningSite:
    plan = plan_for(LocalDP("0.5", "laplace"), survivors=3)
    ledger = folder / "ledger.sqlite"
    Ledger.new(ledger).close()
    return JoiningSite(plan, examples("north"), POLICY, ledger, SiteKeys(keys))


@pytest.mark.parametrize("wrong", [CA, NODE_KEY])
def test_a_wrong_certificate_or_key_does_not_connect(
    running: Consortium, tmp_path: Path, wrong: str
) -> None:
    make_consortium(tmp_path / "strangers", ["north"], hosts=[LOOPBACK])
    keys = tmp_path / "north"
    shutil.copytree(running.folder / "north", keys)
    shutil.copy(tmp_path / "strangers" / "north" / wrong, keys / wrong)
    site = joining(keys, tmp_path)
    with pytest.raises(TransportError):
        site.join(FlowerRuntime(), running.link.runtime, wait_seconds=30)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert not ledger.spent("people").epsilon


def test_a_site_that_may_not_join_does_not_connect(
    running: Consortium, tmp_path: Path
) -> None:
    site = joining(running.folder / "north", tmp_path)
    site.plan = plan_for(LocalDP("40", "laplace"), survivors=3)
    with pytest.raises(PolicyError, match="the policy allows epsilon"):
        site.join(FlowerRuntime(), running.link.runtime, wait_seconds=30)


def wait_for(what: Callable[[], bool], *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.2)


@pytest.mark.parametrize("kill_after", ["advertise", "mask", "confirm"])
def test_a_coordinator_that_is_killed_goes_on_where_it_was(
    tmp_path: Path, kill_after: str
) -> None:
    """The sites keep waiting, answer what they stored, and pay once."""
    roster = make_consortium(tmp_path, SITES, hosts=[LOOPBACK])
    plan = plan_for(DistributedDP("0.5"), survivors=4, roster=roster)
    file = tmp_path / "plan.toml"
    file.write_text(dumps(plan))
    said = tmp_path / "coordinator.log"
    port = free_port()

    def coordinator() -> subprocess.Popen[bytes]:
        with said.open("ab") as log:
            return process(
                "coordinate", str(tmp_path), str(file), str(port), output=log
            )

    running = [coordinator()]
    try:
        for site in SITES:
            with (tmp_path / f"{site}.log").open("ab") as log:
                address = f"{LOOPBACK}:{port}"
                running.append(
                    process("site", str(tmp_path), site, address, output=log)
                )
        wait_for(lambda: SecureSum.titles[kill_after] in said.read_text(), seconds=240)
        running[0].kill()
        running[0].wait()
        running[0] = coordinator()
        assert running[0].wait(300) == 0, said.read_text()
    finally:
        for one in running:
            one.terminate()
        for one in running:
            one.wait(60)
    assert json.loads(said.read_text().splitlines()[-1]) == expected(plan)
    for site in SITES:
        with Ledger(tmp_path / site / "ledger.sqlite") as ledger:
            ledger.verify()
            assert ledger.spent("people").epsilon == Fraction(1, 2)


def test_a_superlink_that_dies_is_an_error_in_one_sentence(tmp_path: Path) -> None:
    with consortium(tmp_path) as running:
        plan = plan_for(DistributedDP("0.5"), survivors=3, roster=running.roster)
        watched = Watched(running)
        began = time.monotonic()

        def end_the_link(_: object) -> None:
            assert running.link.process is not None
            running.link.process.kill()
            running.link.process.wait()

        watched.watch = end_the_link  # type: ignore[method-assign]
        with pytest.raises(ProcessError, match=r"SuperLink (ended|does not answer)"):
            watched.run(plan)
        assert time.monotonic() - began < 240

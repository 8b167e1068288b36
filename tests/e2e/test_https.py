"""One HTTPS port, three sites: real commands, real keys, real TLS."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from discreet.models.distributed import DistributedDP
from discreet.models.label import LabelDP
from discreet.models.local import LocalDP
from discreet.models.secure_aggregation import SecureAggregation
from discreet.plan.cohort import PublicFacts
from discreet.plan.file import dumps
from discreet.plan.privacy_model import PrivacyModel
from e2e.https_consortium import SITES, Consortium, consortium, make

pytestmark = pytest.mark.long

MODELS = {
    "secure aggregation": SecureAggregation(),
    "distributed": DistributedDP("1"),
    "local": LocalDP("1", "laplace"),
    "label": LabelDP("1", mechanism="binned"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    make(folder)
    return folder


def finished(running: Consortium, *sites: str) -> None:
    """Every command has ended well, the sum is right, and each site paid once."""
    for command in running.commands:
        if command.process.poll() != -signal.SIGKILL:
            assert command.ends() == 0, command.said()
    assert running.revealed() == running.expected(*sites)
    for site in SITES:
        assert running.charges(site) == (site in (sites or SITES))


@pytest.mark.parametrize("privacy", MODELS.values(), ids=MODELS)
def test_commands_reveal_the_sum_of_the_sites_own_answers(
    made: Path, tmp_path: Path, privacy: PrivacyModel
) -> None:
    with consortium(made, tmp_path / "c", privacy) as running:
        coordinator = running.coordinate("--json", "r.json", "--log", "log.jsonl")
        sites = [running.site(site) for site in SITES]
        finished(running)
        said = coordinator.said()
        for site in SITES:
            assert f"{site} is connected: " in said
        assert "1 of 3 sites" in said
        assert "3 of 3 sites" in said
        for site in sites:
            assert "Done: the coordinator has revealed the result" in site.said()
        log = (tmp_path / "c" / "log.jsonl").read_text()
        events = [json.loads(line) for line in log.splitlines()]
        assert events[-1]["how"] == "revealed"
        claim = json.loads((tmp_path / "c" / "r.json").read_text())["claim"]
        assert claim["setting"] == "deployed"


LONGER = pytest.mark.slow


@pytest.mark.parametrize(
    "stored", [pytest.param(1, marks=LONGER), 3, pytest.param(5, marks=LONGER)]
)
def test_a_site_that_is_killed_before_it_sends_an_answer_goes_on(
    made: Path, tmp_path: Path, stored: int
) -> None:
    with consortium(made, tmp_path / "c", DistributedDP("1")) as running:
        running.coordinate()
        running.site("east")
        running.site("south")
        killed = running.site("north", env={"DIE_AFTER": str(stored)})
        assert killed.ends() == -signal.SIGKILL
        running.site("north")
        finished(running)


@pytest.mark.parametrize(
    "stored", [pytest.param(2, marks=LONGER), 9, pytest.param(11, marks=LONGER)]
)
def test_a_coordinator_that_is_killed_goes_on_with_the_same_command(
    made: Path, tmp_path: Path, stored: int
) -> None:
    with consortium(made, tmp_path / "c", DistributedDP("1")) as running:
        killed = running.coordinate(env={"DIE_AFTER": str(stored)})
        for site in SITES:
            running.site(site)
        assert killed.ends() == -signal.SIGKILL
        again = running.coordinate()
        finished(running)
        assert "Going on with the session" in again.said()


@LONGER
def test_an_absent_site_is_named_and_the_others_are_enough(
    made: Path, tmp_path: Path
) -> None:
    noisy = LocalDP("1", "laplace")
    with consortium(made, tmp_path / "c", noisy, survivors=2) as running:
        for site in ("east", "north"):
            running.site(site).wait_for("Waiting for")
        coordinator = running.coordinate(wait=6)
        finished(running, "east", "north")
        assert "south did not come" in coordinator.said()


@LONGER
def test_a_site_that_does_not_come_back_is_named_and_left_out(
    made: Path, tmp_path: Path
) -> None:
    """It had stored its answer, and so paid for it, when it died."""
    noisy = LocalDP("1", "laplace")
    with consortium(made, tmp_path / "c", noisy, survivors=2) as running:
        coordinator = running.coordinate("--step", "6")
        running.site("south", env={"DIE_AFTER": "1"})
        sites = [running.site("east"), running.site("north")]
        for command in (coordinator, *sites):
            assert command.ends() == 0, command.said()
        assert running.revealed() == running.expected("east", "north")
        assert "2 of 3 sites; missing: south" in coordinator.said()
        assert [running.charges(site) for site in SITES] == [1, 1, 1]


def test_too_few_sites_are_told_that_nothing_was_charged(
    made: Path, tmp_path: Path
) -> None:
    with consortium(made, tmp_path / "c", DistributedDP("1")) as running:
        sites = [running.site("east"), running.site("north")]
        for site in sites:
            site.wait_for("Waiting for")
        coordinator = running.coordinate(wait=6)
        assert coordinator.ends() == 1
        assert "south did not come" in coordinator.said()
        for site in sites:
            assert site.ends() == 1
            assert "Aborted: too few sites" in site.said()
            assert "nothing was charged." in site.said()
        assert not any(running.charges(site) for site in SITES)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=LONGER)]
)
def test_whoever_is_interrupted_reads_what_was_charged_and_how_to_go_on(
    made: Path, tmp_path: Path, number: int
) -> None:
    with consortium(made, tmp_path / "c", DistributedDP("1")) as running:
        coordinator, site = running.coordinate(), running.site("north")
        site.wait_for("connected to")
        coordinator.wait_for("north is connected: 1 of 3 sites")
        assert site.end(number) == 130
        assert "nothing was charged: run the same command again to go on." in (
            site.said()
        )
        began = time.monotonic()
        assert coordinator.end(number) == 130
        assert "Interrupted: run the same command again to go on" in coordinator.said()
        assert time.monotonic() - began < 10
        for command in (site, coordinator):
            last = command.said().splitlines()[-1]
            assert last.startswith("Interrupted"), command.said()


def test_a_charged_site_that_is_interrupted_says_so_and_goes_on(
    made: Path, tmp_path: Path
) -> None:
    with consortium(made, tmp_path / "c", DistributedDP("1")) as running:
        killed = running.coordinate(env={"DIE_AFTER": "9"})
        sites = {site: running.site(site) for site in SITES}
        assert killed.ends() == -signal.SIGKILL
        sites["north"].wait_for("send masked counts")
        assert sites["north"].end(signal.SIGTERM) == 130
        assert "this session is charged" in sites["north"].said()
        assert "without a second charge" in sites["north"].said()
        running.commands.remove(sites["north"])
        running.coordinate()
        running.site("north")
        finished(running)


def test_a_site_that_is_started_twice_is_refused_at_once(
    made: Path, tmp_path: Path
) -> None:
    with consortium(made, tmp_path / "c", DistributedDP("1")) as running:
        running.coordinate()
        running.site("north").wait_for("connected to")
        second = running.site("north")
        assert second.ends() == 2
        assert "this site takes part already" in second.said()
        running.commands.remove(second)
        running.site("east")
        running.site("south")
        finished(running)


def test_a_rehearsal_charges_nobody_and_a_site_that_does_not_rehearse_is_told(
    made: Path, tmp_path: Path
) -> None:
    with consortium(made, tmp_path / "c", DistributedDP("1")) as running:
        coordinator = running.coordinate("--rehearse")
        coordinator.wait_for("REHEARSAL")
        wrong = running.site("south")
        assert wrong.ends() == 2
        assert "only one of both rehearses" in wrong.said()
        assert "nothing was charged" in wrong.said()
        for site in SITES:
            running.site(site, "--rehearse")
        assert coordinator.ends() == 0, coordinator.said()
        assert not any(running.charges(site) for site in SITES)


def test_a_site_of_another_plan_is_told_and_may_fetch_the_right_one(
    made: Path, tmp_path: Path
) -> None:
    with consortium(made, tmp_path / "c", DistributedDP("1")) as running:
        running.coordinate()
        plan = running.folder / "plan.toml"
        agreed = plan.read_text()
        others = dumps(replace(running.plan, facts=PublicFacts(1300, 0.3)))
        east = running.site("east")
        east.wait_for("connected to")
        plan.write_text(others)
        other = running.site("north")
        assert other.ends() == 2
        assert "runs another plan" in other.said()
        plan.write_text(agreed)
        running.commands.remove(other)
        fetched = running.start(
            "site",
            "fetch",
            "--keys",
            "south",
            "--out",
            "got.toml",
            "--coordinator",
            f"127.0.0.1:{running.port}",
        )
        assert fetched.ends() == 0, fetched.said()
        assert (running.folder / "got.toml").read_text() == agreed
        running.site("north")
        running.site("south")
        finished(running)

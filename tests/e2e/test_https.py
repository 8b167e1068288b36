"""One HTTPS port, three sites: real commands, real keys, real TLS."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet.data.examples import Examples
from discreet.models.distributed import DistributedDP
from discreet.models.label import LabelDP
from discreet.models.local import LocalDP
from discreet.models.secure_aggregation import SecureAggregation
from discreet.plan.cohort import PublicFacts
from discreet.plan.file import dumps
from discreet.plan.privacy_model import PrivacyModel
from discreet.plan.rounds import Round
from discreet.report.verification import verify
from discreet.statistic import MultiLabel
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


def test_several_labels_are_planned_previewed_and_released_between_processes(
    made: Path, tmp_path: Path
) -> None:
    """One label of some rows is missing: these rows count for the other label."""
    names, scores = ["x", "y"], ["p", "q"]
    ordered = [word for name in scores for word in ("--score", name)]
    with consortium(made, tmp_path / "c", SecureAggregation()) as running:
        folder, rng = tmp_path / "c", np.random.default_rng(3)
        statistic = MultiLabel(running.plan.statistic.edges, tuple(names))
        plan = replace(running.plan, rounds=(Round(statistic),))
        (folder / "plan.toml").write_text(dumps(plan))
        expected = np.zeros(statistic.size, dtype=np.int64)
        for site in SITES:
            truth, risk = rng.random((300, 2)) < 0.4, rng.random((300, 2))
            columns = {
                n: pa.array(c.astype(int)) for n, c in zip(names, truth.T, strict=True)
            }
            columns["y"] = pa.array([None, *truth[1:, 1].astype(int).tolist()])
            columns |= {n: pa.array(c) for n, c in zip(scores, risk.T, strict=True)}
            pq.write_table(pa.table(columns), folder / f"{site}.parquet")
            labels = truth.astype(object)
            labels[0, 1] = None
            expected += statistic.count(Examples(risk, labels))
        preview = running.start("preview", "plan.toml", "east.parquet", *ordered)
        assert preview.ends() == 0, preview.said()
        assert "AUC of label y" in preview.said()
        wrong = running.start("preview", "plan.toml", "east.parquet", "--score", "p")
        assert wrong.ends() == 2
        assert "repeat --score for each" in wrong.said()
        running.commands.clear()
        coordinator = running.coordinate("--json", "r.json", "--report", "r.html")
        sites = [running.site(site, *ordered) for site in SITES]
        for command in (coordinator, *sites):
            assert command.ends() == 0, command.said()
        assert running.revealed() == expected.tolist()
        assert expected.reshape(2, -1).sum(axis=1).tolist() == [900, 897]
        assert "AUC macro" in coordinator.said()
        assert list(json.loads((folder / "r.json").read_text())["parts"]) == names
        assert verify((folder / "r.html").read_text(), trusted=plan).holds


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
        coordinator = running.coordinate(wait=2, env={"WAITS_WITH": "2"})
        finished(running, "east", "north")
        assert "south did not come" in coordinator.said()


@LONGER
def test_a_site_that_does_not_come_back_is_named_and_left_out(
    made: Path, tmp_path: Path
) -> None:
    """It had stored its answer, and so paid for it, when it died."""
    noisy = LocalDP("1", "laplace")
    with consortium(made, tmp_path / "c", noisy, survivors=2) as running:
        coordinator = running.coordinate("--step", "40")
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
        coordinator = running.coordinate(wait=2, env={"WAITS_WITH": "2"})
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
        assert coordinator.end(number) == 130
        assert "Interrupted: run the same command again to go on" in coordinator.said()
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

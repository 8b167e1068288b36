"""The doctor: every mistake has its finding, and no finding holds a value of the data."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from discreet.cli.files import read_plan
from discreet.cli.main import app
from discreet.data.edges import Warped
from discreet.errors import InputError
from discreet.models.distributed import DistributedDP
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.file import dumps
from discreet.plan.plan import recommend
from discreet.privacy.ledger import Ledger
from discreet.session import policy as policyfile
from discreet.session.checkup import ENOUGH_BYTES, check_room
from discreet.session.respond import admit, use_of
from discreet.session.state import Progress
from discreet.transport.addresses import LOOPBACK, free_port
from discreet.transport.joining import (
    JoiningSite,
    interrupted_session,
    kept_beside,
)
from discreet.transport.keys import make_consortium, new_coordinator
from policies import open_policy
from unit.transport.https.port import listening

SECRET = 0.123456789
POLICY = open_policy(
    population="people",
    privacy=("distributed",),
    epsilon_per_plan=Fraction(1),
    epsilon_total=Fraction(1),
    sessions_per_plan=1,
    sites=3,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    roster = make_consortium(folder, ["north", "south", "east"], hosts=[LOOPBACK])
    plan = recommend(
        PublicFacts(1200, 0.3),
        DistributedDP("1"),
        edges=Warped(16),
        cohort=Cohort(3),
    )
    (folder / "plan.toml").write_text(dumps(replace(plan, roster=roster)))
    scores, labels = np.full(200, SECRET), np.arange(200) % 2
    pq.write_table(
        pa.table({"y_true": labels, "y_score": scores}), folder / "north.parquet"
    )
    (folder / "north" / "policy.toml").write_text(policyfile.dumps(POLICY))
    Ledger.new(folder / "north" / "ledger.sqlite").close()
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "consortium"))


def site(folder: Path, *options: str, keys: str = "north") -> tuple[int, str]:
    words = [
        *("site", "doctor", str(folder / "plan.toml"), str(folder / "north.parquet")),
        *("--policy", str(folder / "north" / "policy.toml")),
        *("--keys", str(folder / keys)),
        *("--ledger", str(folder / "north" / "ledger.sqlite")),
        *("--coordinator", f"{LOOPBACK}:{free_port()}"),
    ]
    run = CliRunner().invoke(app, [*words, *options])
    return run.exit_code, run.output


def coordinator(folder: Path, *options: str) -> tuple[int, str]:
    words = ["coordinate", "doctor", str(folder / "plan.toml")]
    words += ["--keys", str(folder / "coordinator"), "--port", str(free_port())]
    run = CliRunner().invoke(app, [*words, *options])
    return run.exit_code, run.output


def test_a_healthy_site_has_nothing_in_its_way(folder: Path) -> None:
    code, said = site(folder)
    assert code == 0, said
    assert "Nothing stands in the way" in said
    assert "nobody listens" in said  # a note: the coordinator may come later


def swap_columns(folder: Path) -> None:
    table = pq.read_table(folder / "north.parquet")
    pq.write_table(
        table.rename_columns(["y_score", "y_true"]), folder / "north.parquet"
    )


def rename_column(folder: Path) -> None:
    table = pq.read_table(folder / "north.parquet")
    pq.write_table(table.rename_columns(["y_true", "risk"]), folder / "north.parquet")


def forbid(folder: Path) -> None:
    rules = replace(POLICY, epsilon_per_plan=Fraction(1, 2))
    (folder / "north" / "policy.toml").write_text(policyfile.dumps(rules))


MISTAKES: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "no plan": (lambda f: (f / "plan.toml").unlink(), "plan", "plan.toml"),
    "a plan that is data": (
        lambda f: (f / "plan.toml").write_bytes((f / "north.parquet").read_bytes()),
        "plan",
        "plan",
    ),
    "a policy that forbids": (forbid, "policy", "the policy allows"),
    "labels as scores": (swap_columns, "data", "labels"),
    "another column": (rename_column, "data", "no column y_score"),
    "no data": (lambda f: (f / "north.parquet").unlink(), "data", "north.parquet"),
    "identity for all to read": (
        lambda f: (f / "north" / "identity.key").chmod(0o640),
        "keys",
        "chmod",
    ),
    "no identity": (
        lambda f: (f / "north" / "identity.key").unlink(),
        "keys",
        "lacks identity.key",
    ),
    "another site's identity": (
        lambda f: shutil.copy(
            f / "south" / "identity.key", f / "north" / "identity.key"
        ),
        "roster",
        "is not the one in the roster",
    ),
    "no coordinator": (
        lambda f: (f / "north" / "coordinator.public.toml").unlink(),
        "trust",
        "discreet join",
    ),
    "another coordinator": (
        lambda f: (
            new_coordinator(f / "other", [LOOPBACK])
            and shutil.copy(f / "other" / "coordinator.public.toml", f / "north")
        ),
        "trust",
        "names another coordinator",
    ),
    "no ledger": (
        lambda f: (f / "north" / "ledger.sqlite").unlink(),
        "ledger",
        "ledger",
    ),
    "an old ledger": (
        lambda f: (f / "north" / "ledger.sqlite.head").unlink(),
        "ledger",
        "ledger",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_every_mistake_at_a_site_is_found_by_its_check(
    folder: Path, mistake: str
) -> None:
    make, check, words = MISTAKES[mistake]
    make(folder)
    code, said = site(folder)
    assert code == 1, said
    failed = [line for line in said.splitlines() if line.startswith("fails")]
    assert any(check in line.split()[1] and words in line for line in failed), said
    assert str(SECRET) not in said
    assert "Traceback" not in said


def invert(folder: Path) -> None:
    """Score patients well, and write 0 for 1: what passed every check of types."""
    rng = np.random.default_rng(1)
    died = rng.random(400) < 0.3
    scores = 1 / (1 + np.exp(-rng.normal(1.5 * died - 1, 1)))
    table = {"y_true": (~died).astype(int), "y_score": scores}
    pq.write_table(pa.table(table), folder / "north.parquet")


def test_inverted_labels_stop_the_doctor_until_the_operator_confirms_them(
    folder: Path,
) -> None:
    invert(folder)
    code, said = site(folder)
    assert code == 1, said
    assert "400 examples (the plan: 400 a site), " in said
    (failed,) = [line for line in said.splitlines() if line.startswith("fails")]
    assert "plausible" in failed
    assert "inverted labels" in failed
    assert "--confirmed" in failed
    code, said = site(folder, "--confirmed")
    assert code == 0, said
    assert "confirmed by the operator" in said


def test_inverted_labels_stop_a_site_before_it_connects_or_is_charged(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    invert(folder)
    connected: list[str] = []

    def connect(joining: JoiningSite, _: object, address: str, **__: object) -> object:
        del joining
        connected.append(address)
        raise KeyboardInterrupt

    monkeypatch.setattr(JoiningSite, "join", connect)
    words = [
        *("site", str(folder / "plan.toml"), str(folder / "north.parquet")),
        *("--policy", str(folder / "north" / "policy.toml")),
        *("--keys", str(folder / "north")),
        *("--coordinator", f"{LOOPBACK}:{free_port()}"),
    ]
    run = CliRunner().invoke(app, words)
    assert isinstance(run.exception, InputError)
    assert "inverted labels" in str(run.exception)
    assert not any(c.isdigit() for c in str(run.exception))
    assert connected == []
    with Ledger(folder / "north" / "ledger.sqlite") as ledger:
        assert ledger.entries() == ()
    CliRunner().invoke(app, [*words, "--confirmed"])
    assert len(connected) == 1


def test_the_folder_of_another_consortium_is_not_in_the_roster(
    folder: Path, tmp_path: Path
) -> None:
    make_consortium(tmp_path / "others", ["north"], hosts=[LOOPBACK])
    shutil.rmtree(folder / "south")
    shutil.copytree(tmp_path / "others" / "north", folder / "south")
    code, said = site(folder, keys="south")
    assert code == 1
    assert "is not in the plan's roster" in said


def test_what_fails_for_one_cause_is_told_once(folder: Path) -> None:
    (folder / "plan.toml").write_text("nonsense = ")
    _, said = site(folder)
    assert said.count("fails ") == 1, said
    assert "not looked at: mend the plan first" in said


def test_an_address_without_a_port_is_said_at_once(folder: Path) -> None:
    code, said = site(folder, "--coordinator", "hub")
    assert code == 1
    assert "host:port" in said


def test_a_proxy_of_the_environment_is_noted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:password@proxy:3128")
    _, said = site(folder)
    assert "HTTPS_PROXY is set" in said
    assert "is looked up by the proxy" in said
    assert "password" not in said
    monkeypatch.setenv("NO_PROXY", LOOPBACK)
    assert "none is set for this host" in site(folder)[1]


def test_a_healthy_coordinator_has_nothing_in_its_way(
    folder: Path, tmp_path: Path
) -> None:
    files = ["--json", str(tmp_path / "r.json"), "--plots", str(tmp_path / "a" / "b")]
    code, said = coordinator(folder, *files, "--report", str(tmp_path / "r.html"))
    assert code == 0, said
    assert not (tmp_path / "a").exists()  # nothing was changed


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--report", "missing/r.html", "there is no folder"),
        ("--json", ".", "is a folder"),
        ("--plots", "plan.toml", "is a file"),
        ("--port", "99999", "from 1 to 65535"),
        ("--host", "192.0.2.1", "cannot listen"),
    ],
)
def test_what_a_coordinator_could_not_do_later_is_said_now(
    folder: Path, option: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    code, said = coordinator(folder, option, value)
    assert code == 1, said
    assert words in said


def test_a_taken_port_is_said_in_one_line(folder: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        code, said = coordinator(folder, "--port", str(taken.getsockname()[1]))
    assert code == 1
    assert "cannot listen" in said


def test_a_plan_without_a_roster_needs_the_sites_public_files(folder: Path) -> None:
    plan = folder / "plan.toml"
    plan.write_text(dumps(replace(read_plan(plan), roster=None)))
    assert coordinator(folder)[0] == 1
    assert coordinator(folder, "--unauthenticated")[0] == 0
    shutil.rmtree(folder / "coordinator" / "sites")
    code, said = coordinator(folder, "--unauthenticated")
    assert code == 1
    assert "no site's public file" in said


def test_a_site_asks_its_coordinator_whether_clock_plan_and_signature_are_right(
    folder: Path,
) -> None:
    plan = read_plan(folder / "plan.toml")
    with listening(folder, plan) as port:
        address = f"{LOOPBACK}:{port.number}"
        code, said = site(folder, "--coordinator", address)
        assert code == 0, said
        assert "it runs this plan and accepts the signature; clocks differ by" in said
    others = replace(plan, facts=PublicFacts(1300, 0.3))
    with listening(folder, others, number=port.number):
        code, said = site(folder, "--coordinator", address)
        assert code == 1
        assert "runs another plan" in said


def test_a_certificate_of_another_authority_or_key_is_found(
    folder: Path, tmp_path: Path
) -> None:
    make_consortium(tmp_path / "others", ["x"], hosts=[LOOPBACK])
    other = tmp_path / "others" / "coordinator"
    shutil.copy(other / "server.key", folder / "coordinator" / "server.key")
    assert "does not belong to" in coordinator(folder)[1]
    shutil.copy(other / "server.pem", folder / "coordinator" / "server.pem")
    assert "is not signed by" in coordinator(folder)[1]


def test_another_coordinators_folder_is_not_the_rosters(
    folder: Path, tmp_path: Path
) -> None:
    make_consortium(tmp_path / "others", ["x"], hosts=[LOOPBACK])
    identity = tmp_path / "others" / "coordinator" / "identity.key"
    shutil.copy(identity, folder / "coordinator" / "identity.key")
    assert "names another coordinator" in coordinator(folder)[1]


def test_a_disk_that_is_nearly_full_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nearly(_: object) -> object:
        return type("Usage", (), {"free": ENOUGH_BYTES - 1})

    monkeypatch.setattr("shutil.disk_usage", nearly)
    with pytest.raises(Exception, match="make room"):
        check_room(tmp_path)


def test_a_site_goes_on_with_the_session_that_has_spent_its_budget(
    folder: Path,
) -> None:
    """It was killed after it was charged: to go on costs nothing more."""
    plan, path = read_plan(folder / "plan.toml"), folder / "north" / "ledger.sqlite"
    session = b"s" * 32
    with Ledger(path, limits=POLICY.limits()) as ledger:
        this = plan.resolve(0, [])
        ledger.reserve(use_of(plan, this, session=session, population="people"))
    assert "fails budget" in site(folder)[1]
    totals = np.zeros(0, np.int64)
    state = Progress(session, 0, session, 1, plan.digest(), totals, b"talk")
    kept_beside(path).path.write_bytes(state.encode())
    assert interrupted_session(plan, path) == session
    code, said = site(folder)
    assert code == 0, said
    assert "goes on with the session" in said
    with Ledger(path, limits=POLICY.limits()) as ledger:
        admit(plan, POLICY, ledger, session=session)

"""Exact areas by real processes: three parties, their engines, owners, an analyst.

Every process is a command line of ``discreet exact``. After each test no process of
it is left.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from discreet.mpc.fleet import (
    COMMAND,
    Fleet,
    local_session,
    simulate_owner_files,
)
from discreet.mpc.model import ExactMPC
from discreet.mpc.transport import EXIT_SESSION, default_names, make_certificates
from e2e.tutorials import execute

pytestmark = pytest.mark.mpc

SIZES = (5, 7, 4)
PATIENCE = 120.0
"""A test's own limit; what is asserted is who ended, how and why, not when."""


@pytest.fixture(scope="module")
def executables(tmp_path_factory):
    """Compile a program once a module, whatever the sessions are called."""
    made = {}

    def executable(model=None):
        key = model or ExactMPC()
        if key not in made:
            folder = tmp_path_factory.mktemp("compiled")
            with Fleet(local_session(SIZES, key), folder) as fleet:
                made[key] = fleet.compile()
        return str(made[key])

    return executable


@pytest.fixture
def files(tmp_path):
    return simulate_owner_files(tmp_path, SIZES, seed=3)


class Witness:
    """Remembers every process of a fleet, engines too, to see that all are gone."""

    def __init__(self, fleet):
        self.fleet = fleet
        self.pids = set()

    def watch(self):
        for member in self.fleet.members:
            self.pids |= {member.process.pid, *children(member.process.pid)}

    def await_line(self, member, text):
        deadline = time.monotonic() + PATIENCE
        while text not in member.output():
            assert time.monotonic() < deadline, member.output()
            assert member.process.poll() is None, member.output()
            self.watch()
            time.sleep(0.05)
        self.watch()

    def await_engine(self, member):
        deadline = time.monotonic() + PATIENCE
        while not children(member.process.pid):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        self.watch()
        return children(member.process.pid)[0]

    def assert_all_end(self, because, *, code=EXIT_SESSION, but=()):
        for member in self.fleet.members:
            if member in but:
                continue
            assert member.wait(PATIENCE) == code, (member.name, member.output())
            assert because in member.last_line(), (member.name, member.output())
        assert not (self.fleet.folder / "result.json").exists()
        self.assert_nobody_left()

    def assert_nobody_left(self):
        deadline = time.monotonic() + 10
        while any(running(pid) for pid in self.pids):
            assert time.monotonic() < deadline, [p for p in self.pids if running(p)]
            time.sleep(0.1)


def children(pid):
    """The ids of the processes that this one started (Linux)."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


def running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def scikit_learn(files):
    metrics = pytest.importorskip("sklearn.metrics")
    tables = [pq.read_table(file) for file in files]
    scores = np.concatenate([t["y_score"].to_numpy() for t in tables])
    labels = np.concatenate([t["y_true"].to_numpy() for t in tables])
    precision, recall, _ = metrics.precision_recall_curve(labels, scores)
    return {
        "auc": metrics.roc_auc_score(labels, scores),
        "average_precision": metrics.average_precision_score(labels, scores),
        "aupr": metrics.auc(recall, precision),
    }


def run_to_the_end(fleet, files, *options):
    witness = Witness(fleet)
    fleet.start_parties(*options)
    fleet.start_owners(files)
    fleet.start_analyst()
    for member in fleet.members:
        while member.process.poll() is None:
            witness.watch()
            time.sleep(0.1)
        assert member.wait(PATIENCE) == 0, (member.name, member.output())
    witness.assert_nobody_left()
    return fleet.result()


def assert_equals_scikit_learn(result, files):
    for metric, value in scikit_learn(files).items():
        assert result["metrics"][metric]["value"] == pytest.approx(value, abs=1e-12)


def test_seven_processes_find_what_scikit_learn_finds_on_the_pooled_rows(
    tmp_path, files, executables
):
    with Fleet(local_session(SIZES), tmp_path) as fleet:
        result = run_to_the_end(fleet, files, "--executable", executables())
        parties = [m.output() for m in fleet.members if m.name.startswith("party")]
    assert_equals_scikit_learn(result, files)
    assert result["claim"]["setting"] == "deployed"
    assert result["costs"]["bytes_between_parties"] > 0
    assert result["facts"]["rounds"] > 0
    value = repr(result["metrics"]["auc"]["value"])[:8]
    assert not any(value in text for text in parties), "a party printed the value"


def test_a_killed_party_ends_every_other_process_with_its_name(
    tmp_path, files, executables
):
    with Fleet(local_session(SIZES), tmp_path, timeout=30) as fleet:
        witness = Witness(fleet)
        parties = fleet.start_parties("--executable", executables())
        fleet.start_analyst()
        for party in parties:
            witness.await_engine(party)
        witness.await_line(fleet.members[3], "party-2: waiting")
        owner = fleet.start("owner", "owner-1", str(files[0]))
        assert owner.wait(PATIENCE) == 0
        parties[1].process.send_signal(signal.SIGKILL)
        # A party that was just calling it says that it hung up, the others that it left.
        witness.assert_all_end("party-1 ", but=(parties[1], owner))


def start_all(fleet, files, executable):
    witness = Witness(fleet)
    parties = fleet.start_parties("--executable", executable)
    analyst = fleet.start_analyst()
    witness.await_line(analyst, "party-2: waiting")
    owners = fleet.start_owners(files)
    for owner in owners:
        assert owner.wait(PATIENCE) == 0, owner.output()
    return witness, parties, owners


@pytest.mark.slow
@pytest.mark.parametrize("computing", [False, True])
def test_a_killed_engine_ends_the_session(tmp_path, files, executables, computing):
    with Fleet(local_session(SIZES), tmp_path) as fleet:
        sent = files if computing else files[:2]
        witness, parties, owners = start_all(fleet, sent, executables())
        if computing:
            witness.await_line(parties[2], "connecting the engines")
        os.kill(witness.await_engine(parties[2]), signal.SIGKILL)
        witness.assert_all_end("the engine of party-2 ended with signal 9", but=owners)


@pytest.mark.slow
def test_a_frozen_party_is_noticed_within_the_timeout(tmp_path, files, executables):
    with Fleet(local_session(SIZES), tmp_path, timeout=25) as fleet:
        witness, parties, owners = start_all(fleet, files[:1], executables())
        os.kill(parties[0].process.pid, signal.SIGSTOP)
        for member in (*parties[1:], fleet.members[3]):
            assert member.wait(PATIENCE) == EXIT_SESSION, member.output()
        os.kill(parties[0].process.pid, signal.SIGCONT)
        parties[0].wait(PATIENCE)
        assert owners[0].process.returncode == 0
        witness.assert_nobody_left()


@pytest.mark.slow
def test_parties_compile_for_themselves_and_keep_it(tmp_path, files, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "kept"))
    with Fleet(local_session(SIZES), tmp_path) as fleet:
        result = run_to_the_end(fleet, files)
    assert_equals_scikit_learn(result, files)
    (kept,) = (tmp_path / "kept" / "discreet" / "exact").iterdir()
    assert kept.read_bytes()[32:] == local_session(SIZES).program().compile()


@pytest.mark.slow
def test_sizes_can_be_hidden(tmp_path, executables):
    model = ExactMPC(hide_sizes=True)
    short = simulate_owner_files(tmp_path, (5, 3, 2), seed=4)
    with Fleet(local_session(SIZES, model), tmp_path) as fleet:
        result = run_to_the_end(fleet, short, "--executable", executables(model))
    assert_equals_scikit_learn(result, short)


@pytest.mark.slow
def test_an_auc_can_be_revealed_with_noise_only(tmp_path, files, executables):
    model = ExactMPC(epsilon="1000")
    with Fleet(local_session(SIZES, model), tmp_path) as fleet:
        result = run_to_the_end(fleet, files, "--executable", executables(model))
    assert set(result["metrics"]) == {"auc"}
    assert "1000-DP" in result["claim"]["loss"]
    expected = scikit_learn(files)["auc"]
    assert result["metrics"]["auc"]["value"] == pytest.approx(expected, abs=0.01)


@pytest.mark.slow
def test_a_terminated_demo_leaves_no_process_behind():
    demo = subprocess.Popen(  # noqa: S603 - our own command
        [*COMMAND, "demo"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + PATIENCE
    try:
        while len(pids := children(demo.pid)) < 4:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        demo.terminate()
    assert demo.wait(PATIENCE) == 128 + signal.SIGTERM
    assert not any(running(pid) for pid in pids)


ENGINE_LINK = """
import sys, pathlib
from discreet.mpc.session import MpcSession
from discreet.mpc.transport import MemberIdentity
from discreet.mpc.computing import open_link
session = MpcSession.read(pathlib.Path(sys.argv[1]))
identity = MemberIdentity.within(pathlib.Path(sys.argv[3]), "party-" + sys.argv[2])
link = open_link(session, int(sys.argv[2]), identity, timeout=10)
link.barrier()
link.stop_link()
"""


@pytest.mark.slow
@pytest.mark.parametrize("rogue", [False, True])
def test_the_engines_link_refuses_a_certificate_of_another_authority(tmp_path, rogue):
    names = default_names(1)
    make_certificates(tmp_path / "good", names)
    make_certificates(tmp_path / "rogue", names)
    path = tmp_path / "session.toml"
    path.write_text(local_session((3,)).to_toml(), "utf-8")
    folders = ["good", "good", "rogue" if rogue else "good"]
    engines = [
        subprocess.Popen(  # noqa: S603 - our own code
            [sys.executable, "-c", ENGINE_LINK, path, str(i), tmp_path / folder],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for i, folder in enumerate(folders)
    ]
    deadline = time.monotonic() + (30 if rogue else PATIENCE)
    try:
        while None in (codes := [engine.poll() for engine in engines]):
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
    finally:
        for engine in engines:
            engine.kill()
            engine.wait()
    # Refused engines call again and again; the party's watchdog ends them.
    assert 0 not in codes if rogue else codes == [0, 0, 0]


@pytest.mark.slow
@pytest.mark.page("docs/exact-processes.md")
def test_the_demo_of_the_page(tmp_path: Path) -> None:
    said = execute("discreet exact demo", tmp_path)
    assert "AUC" in said

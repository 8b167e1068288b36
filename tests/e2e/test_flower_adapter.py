"""The adapter on Flower's own messages, with a grid in this process."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.supercore.task_identity import TaskIdentity
from numpy.typing import NDArray

from discreet.codec.messages import MalformedMessageError
from discreet.data.edges import Warped
from discreet.data.examples import Examples
from discreet.entropy import Seeded
from discreet.errors import InputError
from discreet.flower import Evaluating, add_evaluation, evaluate, evaluation_mod
from discreet.models.distributed import DistributedDP
from discreet.models.label import LabelDP
from discreet.models.secure_aggregation import SecureAggregation
from discreet.plan.cohort import Cohort, Member, PublicFacts, Roster
from discreet.plan.plan import Plan, recommend
from discreet.plan.privacy_model import PrivacyModel
from discreet.privacy.ledger import Ledger
from discreet.report.evaluation import Evaluation
from discreet.secret_files import write_secret
from discreet.session import policy as policyfile
from discreet.session.coordinator import AbortedError
from discreet.session.messages import Kind, MessageError
from discreet.session.messages import Message as SessionMessage
from discreet.session.policy import Policy
from discreet.session.retrying import Retrying
from discreet.session.state import InFolder, UsedStateError
from discreet.transport.addresses import free_port
from discreet.transport.flower.records import (
    MESSAGE_TYPE,
    InContext,
    from_content,
    to_content,
)
from discreet.transport.flower.server import GridTransport
from flower_loop import LoopGrid, Node

pytestmark = pytest.mark.flower

POLICY = Policy(
    population="people",
    privacy=("secure-aggregation", "distributed", "local", "label"),
    coordinators=("*",),
    models=("*",),
    units=("example", "label"),
    epsilon_per_plan=Fraction(1),
    epsilon_total=Fraction(10),
    exact_sums=5,
    sessions_per_plan=5,
    sites=2,
    require_roster=False,
)
WEIGHTS = ArrayRecord([np.array([1.0, -0.5])])


def scored(
    model: ArrayRecord | None, context: Context
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    assert model is not None
    rng = np.random.default_rng(context.node_id)
    x = rng.normal(size=(400, 2))
    labels = rng.random(400) < 1 / (1 + np.exp(-x[:, 0]))
    return 1 / (1 + np.exp(-x @ model.to_numpy_ndarrays()[0])), labels


@pytest.fixture
def grid(tmp_path: Path) -> LoopGrid:
    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1
    nodes = {}
    for place in (11, 12, 13):
        app = ClientApp()
        add_evaluation(app, scored, entropy=Seeded(bytes([place])))
        policy = tmp_path / str(place) / "policy.toml"
        policy.parent.mkdir()
        policy.write_text(policyfile.dumps(POLICY))
        Ledger.new(policy.with_name("ledger.sqlite")).close()
        key = policy.with_name("identity.key")
        pem = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        write_secret(key, identity(place).private_bytes(*pem))
        config = {"discreet-policy": str(policy), "discreet-identity": str(key)}
        nodes[place] = Node(app, Context(1, place, config, RecordDict(), {}))
    return LoopGrid(nodes)


def identity(place: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes([place]) * 32)


def plan_for(privacy: PrivacyModel, survivors: int = 2) -> Plan:
    facts = PublicFacts(1200, 0.5)
    plan = recommend(facts, privacy, edges=Warped(16), cohort=Cohort(survivors))
    if not isinstance(privacy, SecureAggregation):
        return plan
    members = tuple(
        Member(f"node {k}", identity(k).public_key().public_bytes_raw())
        for k in (11, 12, 13)
    )
    return replace(plan, cohort=Cohort(3), roster=Roster(members))


def run(grid: LoopGrid, plan: Plan, **options: float) -> Evaluation:
    settings = {"wait_seconds": 1.0, "step_seconds": 0.5, **options}
    result = evaluate(grid, plan, model=WEIGHTS, sites=3, **settings)  # type: ignore[arg-type]
    assert isinstance(result, Evaluation)
    return result


PRIVACY = [SecureAggregation(), DistributedDP("1"), LabelDP("1", mechanism="response")]


@pytest.mark.parametrize("privacy", PRIVACY, ids=lambda p: p.name)
def test_the_global_model_is_evaluated_on_every_nodes_data(
    grid: LoopGrid, privacy: PrivacyModel
) -> None:
    result = run(grid, plan_for(privacy))
    assert result.source.releases[0].contributors == 3
    assert 0.6 < result.auc.value < 0.9
    assert result.plan.model.digest.startswith("sha256:")


def test_exact_counts_are_those_of_the_pooled_scores(grid: LoopGrid) -> None:
    result = run(grid, plan_for(SecureAggregation()))
    statistic = result.plan.rounds[0].statistic
    total = sum(
        statistic.count(Examples(*scored(WEIGHTS, node.context)))  # type: ignore[union-attr]
        for node in grid.nodes.values()
    )
    assert np.array_equal(result.source.releases[0].total, total)


def test_silent_and_failing_nodes_are_left_out(grid: LoopGrid) -> None:
    grid.failing = frozenset({12})
    assert run(grid, plan_for(DistributedDP("1"))).source.releases[0].contributors == 2
    grid.silent = frozenset({11})
    with pytest.raises(AbortedError, match="1 sites are left after the advertise"):
        run(grid, plan_for(DistributedDP("1")))


@pytest.mark.parametrize("forgotten", [1, 3])
def test_an_answer_that_flower_forgot_is_asked_for_again(
    grid: LoopGrid, tmp_path: Path, forgotten: int
) -> None:
    """Flower drops the answers of a node that was away when they were fetched."""
    grid.unavailable = {12: forgotten}
    plan = plan_for(DistributedDP("1"), survivors=3)
    result = run(grid, plan, step_seconds=20.0)
    assert result.source.releases[0].contributors == 3
    assert not grid.unavailable[12]
    with Ledger(tmp_path / "12" / "ledger.sqlite") as ledger:
        assert ledger.spent("people").epsilon == 1


def test_a_node_that_stays_away_is_left_out_when_the_step_is_over(
    grid: LoopGrid,
) -> None:
    grid.unavailable = {12: 1000}
    result = run(grid, plan_for(DistributedDP("1")), step_seconds=3.0)
    assert result.source.releases[0].contributors == 2
    assert grid.unavailable[12] < 997, "it was asked more than once"


def test_too_few_connected_nodes_are_asked_nothing(
    grid: LoopGrid, tmp_path: Path
) -> None:
    with pytest.raises(AbortedError, match="nothing was asked"):
        run(grid, plan_for(DistributedDP("1"), survivors=4), wait_seconds=0.1)
    assert not grid.replies
    assert not list(tmp_path.rglob("*.steps"))


def test_a_node_without_a_policy_declines(
    grid: LoopGrid, capsys: pytest.CaptureFixture[str]
) -> None:
    grid.nodes[11].context.node_config.clear()
    assert run(grid, plan_for(DistributedDP("1"))).source.releases[0].contributors == 2
    assert "this node has no policy" in capsys.readouterr().err


def test_a_node_without_a_ledger_declines_and_says_how_to_make_one(
    grid: LoopGrid, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (tmp_path / "11").glob("ledger.sqlite*"):
        file.unlink()
    assert run(grid, plan_for(DistributedDP("1"))).source.releases[0].contributors == 2
    assert "discreet ledger new" in capsys.readouterr().err


def test_a_model_that_the_plan_does_not_name_is_not_scored(
    grid: LoopGrid, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = replace(plan_for(DistributedDP("1")), model=plan_for(PRIVACY[0]).model)
    exchange = Retrying(GridTransport(grid, WEIGHTS), 0.5)  # type: ignore[arg-type]
    from discreet.session.coordinator import Coordinator

    with pytest.raises(AbortedError, match="3 declined"):
        Coordinator(plan, list(grid.nodes), exchange).run()
    assert "not the one that the plan names" in capsys.readouterr().err


def test_a_function_that_fails_tells_the_coordinator_nothing(
    grid: LoopGrid, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(model: ArrayRecord | None, context: Context) -> Examples:
        del model, context
        raise RuntimeError("row 17 of patient Smith")

    app = ClientApp()
    add_evaluation(app, broken)
    grid.nodes[11].app = app
    assert run(grid, plan_for(DistributedDP("1"))).source.releases[0].contributors == 2
    said = capsys.readouterr().err
    assert "RuntimeError" in said
    assert "Smith" not in said, "nor its own terminal"


def rehearsing(grid: LoopGrid, calls: list[int]) -> LoopGrid:
    """The same nodes, as they rehearse: without a policy, and with their function."""

    def noted(
        model: ArrayRecord | None, context: Context
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        calls.append(context.node_id)
        return scored(model, context)

    nodes = {}
    for place in grid.nodes:
        app = ClientApp()
        add_evaluation(app, noted, rehearsal=True)
        nodes[place] = Node(app, Context(1, place, {}, RecordDict(), {}))
    return LoopGrid(nodes)


def test_a_rehearsal_calls_the_function_and_sends_made_up_data(grid: LoopGrid) -> None:
    calls: list[int] = []
    plan = plan_for(DistributedDP("1"))
    result = run(rehearsing(grid, calls), plan, rehearsal=True)
    assert result.claim.setting == "REHEARSAL"
    assert set(calls) == {11, 12, 13}
    real = run(grid, plan).source.releases[0].total
    assert not np.array_equal(result.source.releases[0].total, real)


def test_in_a_rehearsal_nobody_learns_how_a_model_fared_on_real_rows(
    grid: LoopGrid, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is charged in it: a refusal would be a free question."""

    def fussy(
        model: ArrayRecord | None, context: Context
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        if context.node_id == 11:
            raise RuntimeError("Smith, 1950")
        return scored(model, context)

    for place in grid.nodes:
        app = ClientApp()
        add_evaluation(app, fussy, rehearsal=True)
        grid.nodes[place] = Node(app, Context(1, place, {}, RecordDict(), {}))
    result = run(grid, plan_for(DistributedDP("1")), rehearsal=True)
    assert result.source.releases[0].contributors == 3
    said = capsys.readouterr().err
    assert "RuntimeError" in said
    assert "Smith" not in said


@pytest.mark.parametrize("coordinator_rehearses", [True, False])
def test_a_rehearsal_of_one_end_alone_is_declined(
    grid: LoopGrid, tmp_path: Path, coordinator_rehearses: bool
) -> None:
    nodes = grid if coordinator_rehearses else rehearsing(grid, [])
    with pytest.raises(AbortedError, match="3 declined"):
        run(nodes, plan_for(DistributedDP("1")), rehearsal=coordinator_rehearses)
    for place in grid.nodes:
        with Ledger(tmp_path / str(place) / "ledger.sqlite") as ledger:
            assert not ledger.spent("people").epsilon


def test_a_strategy_evaluates_every_few_rounds_by_one_argument(grid: LoopGrid) -> None:
    options = {"sites": 3, "wait_seconds": 1.0, "step_seconds": 0.5}
    private = Evaluating(grid, plan_for(DistributedDP("1")), every=2, options=options)  # type: ignore[arg-type]
    logged = [private(k, WEIGHTS) for k in range(5)]
    assert [m is not None for m in logged] == [False, False, True, False, True]
    assert set(private.results) == {2, 4}
    last = logged[-1]
    assert last is not None
    assert last["auc"] == private.results[4].auc.value  # type: ignore[union-attr]
    with pytest.raises(InputError, match="every"):
        Evaluating(grid, plan_for(DistributedDP("1")), every=0)  # type: ignore[arg-type]


def test_a_mod_serves_an_app_that_has_other_queries(grid: LoopGrid) -> None:
    def other(message: Message, context: Context) -> Message:
        del context
        return Message(RecordDict({"other": ConfigRecord({"x": 1})}), reply_to=message)

    mod = evaluation_mod(scored)
    grid.nodes[11].app = lambda message, context: mod(message, context, other)
    assert run(grid, plan_for(DistributedDP("1"))).source.releases[0].contributors == 3
    message = Message(RecordDict(), dst_node_id=11, message_type="query.another")
    (identifier,) = grid.push_messages([message])
    (reply,) = grid.pull_messages([identifier])
    assert "other" in reply.content


def test_every_evaluation_is_charged_at_the_node(
    grid: LoopGrid, tmp_path: Path
) -> None:
    for _ in range(2):
        run(grid, plan_for(DistributedDP("1")))
    with Ledger(tmp_path / "11" / "ledger.sqlite") as ledger:
        assert ledger.spent("people").epsilon == 2


def test_a_letter_survives_flowers_records() -> None:
    numbers = np.array([-(2**63), 2**63 - 1, 0], dtype=np.int64)
    letter = SessionMessage(Kind.STEP, b"p" * 32, b"s" * 32, 0, 3, b"\0body", numbers)
    read = from_content(to_content(letter))
    assert read == letter
    assert np.array_equal(read.numbers, numbers)


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({"discreet.letter": ConfigRecord({"head": "text", "body": b""})}),
        RecordDict({"discreet.letter": ConfigRecord({"head": b"x", "body": b""})}),
    ],
)
def test_content_that_is_no_letter_is_refused(content: RecordDict) -> None:
    with pytest.raises(MalformedMessageError):
        from_content(content)


def test_numbers_that_are_no_integers_are_refused() -> None:
    letter = SessionMessage(
        Kind.STEP, b"p" * 32, b"s" * 32, 0, 3, numbers=np.ones(2, np.int64)
    )
    content = to_content(letter)
    content["discreet.numbers"] = ArrayRecord({"numbers": WEIGHTS["0"]})
    with pytest.raises(MessageError, match="64-bit integers"):
        from_content(content)


def test_the_state_is_kept_in_the_context() -> None:
    kept = InContext(Context(1, 1, {}, RecordDict(), {}))
    assert kept.load() == b""
    kept.save(b"state")
    assert kept.load() == b"state"


def test_a_message_type_is_the_query_of_its_name() -> None:
    assert MESSAGE_TYPE == "query.discreet"


def test_a_used_state_is_remembered_across_processes(tmp_path: Path) -> None:
    InFolder(tmp_path / "steps").take(b"name")
    with pytest.raises(UsedStateError):
        InFolder(tmp_path / "steps").take(b"name")
    InFolder(tmp_path / "steps").take(b"other")


@pytest.mark.parametrize("after", [0.0, 3.0])
def test_a_part_of_flower_whose_parent_is_killed_while_it_starts_ends_too(
    after: float,
) -> None:
    """It would keep the coordinator's port, and nobody could go on."""
    script = f"""
import os, signal, subprocess, sys, tempfile, time
from pathlib import Path
from discreet.transport.flower.link import GUESTS
from discreet.secret_files import write_secret
signal.signal(signal.SIGINT, signal.SIG_IGN)
secret = Path(tempfile.mkdtemp()) / "secret"
write_secret(secret, bytes(32))
(secret.parent / GUESTS).touch()
command = [sys.executable, "-m", "discreet.transport.flower.link"]
command += [str(os.getpid()), "1000", "--insecure", "--port", "{free_port()}"]
command += ["--superexec-auth-secret-file", str(secret), "--isolation", "process"]
child = subprocess.Popen(
    command,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
    start_new_session=True,
)
print(child.pid, flush=True)
time.sleep({after})
os.kill(os.getpid(), signal.SIGKILL)
"""
    parent = subprocess.run(  # noqa: S603 - the script above
        [sys.executable, "-c", script], capture_output=True, check=False
    )
    child = Path("/proc") / parent.stdout.decode().strip()
    deadline = time.monotonic() + 60
    while child.exists() and "discreet" in (child / "cmdline").read_text():
        assert time.monotonic() < deadline, "it is still there"
        time.sleep(0.2)

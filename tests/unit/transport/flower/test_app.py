"""Both ends in Flower apps, with a grid in this process."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from discreet.codec.messages import MalformedMessageError
from discreet.data.edges import Warped
from discreet.data.examples import Examples
from discreet.entropy import Seeded
from discreet.errors import InputError
from discreet.flower import Evaluating, Scored, add_evaluation, evaluate, evaluation_mod
from discreet.models.distributed import DistributedDP
from discreet.models.label import LabelDP
from discreet.models.local import LocalDP
from discreet.models.secure_aggregation import SecureAggregation
from discreet.plan.cohort import Cohort, Member, PublicFacts, Roster
from discreet.plan.file import dumps
from discreet.plan.plan import ModelRef, Plan, recommend
from discreet.plan.privacy_model import PrivacyModel
from discreet.plan.revocation import Revocation, RevokedKeys
from discreet.plan.rounds import Round
from discreet.privacy.ledger import Ledger
from discreet.report.evaluation import Evaluation
from discreet.session.coordinator import AbortedError, Coordinator
from discreet.session.messages import Kind, MessageError
from discreet.session.messages import Message as SessionMessage
from discreet.session.policy import Policy
from discreet.session.retrying import Lost, Retrying
from discreet.session.state import UsedStateError
from discreet.statistic import EquiDepthFrom, Hierarchy
from discreet.transport.flower.app import (
    GridTransport,
    _InContext,
    from_content,
    in_simulation,
    to_content,
)
from flower_loop import InMemoryGrid, LoopGrid, Node, equipped

pytestmark = pytest.mark.flower

REPOSITORY = Path(__file__).resolve().parents[4]
PLACES = (11, 12, 13)
POLICY = Policy(
    population="people",
    privacy=("secure-aggregation", "distributed", "label"),
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
MESSAGE = SessionMessage(
    Kind.STEP,
    b"p" * 32,
    b"s" * 32,
    0,
    3,
    b"\0body",
    np.array([-(2**63), 2**63 - 1, 0], dtype=np.int64),
)


def scored(model: ArrayRecord | None, context: Context) -> tuple[object, object]:
    assert model is not None
    rng = np.random.default_rng(context.node_id)
    x = rng.normal(size=(400, 2))
    labels = rng.random(400) < 1 / (1 + np.exp(-x[:, 0]))
    return 1 / (1 + np.exp(-x @ model.to_numpy_ndarrays()[0])), labels


def failing_at_11(model: ArrayRecord | None, context: Context) -> tuple[object, object]:
    if context.node_id == 11:
        raise RuntimeError("row 17 of patient Smith")
    return scored(model, context)


def identity(place: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes([place]) * 32)


def app_of(function: Scored, *, rehearsal: bool = False) -> ClientApp:
    app = ClientApp()
    add_evaluation(app, function, rehearsal=rehearsal)
    return app


@dataclass
class Clock:
    """Time passes while somebody sleeps, however long the nodes compute."""

    now: float = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    retrying = partial(Retrying, now=lambda: clock.now, sleep=clock.sleep)
    monkeypatch.setattr("discreet.transport.flower.app.Retrying", retrying)
    return clock


@pytest.fixture
def grid(tmp_path: Path) -> LoopGrid:
    """Three nodes with policies, ledgers and keys."""
    app = app_of(scored)
    folders = {place: tmp_path / str(place) for place in PLACES}
    return LoopGrid(
        {k: equipped(app, k, at, POLICY, identity(k)) for k, at in folders.items()}
    )


def bare(
    function: Scored = scored, *, rehearsal: bool = False, engine: bool = False
) -> LoopGrid:
    """Three nodes whose configuration names no policy."""
    app = app_of(function, rehearsal=rehearsal)
    nodes = {k: Node(app, Context(1, k, {}, RecordDict(), {})) for k in PLACES}
    return InMemoryGrid(nodes) if engine else LoopGrid(nodes)


def plan_for(privacy: PrivacyModel, survivors: int = 2) -> Plan:
    facts = PublicFacts(1200, 0.5)
    plan = recommend(facts, privacy, edges=Warped(16), cohort=Cohort(survivors))
    if not isinstance(privacy, SecureAggregation):
        return plan
    members = tuple(
        Member(f"node {k}", identity(k).public_key().public_bytes_raw()) for k in PLACES
    )
    return replace(plan, cohort=Cohort(3), roster=Roster(members))


NOISY = plan_for(DistributedDP("1"))


def run(grid: LoopGrid, plan: Plan = NOISY, **options: float) -> Evaluation:
    settings = {"wait_seconds": 1.0, "step_seconds": 20.0, **options}
    result = evaluate(grid, plan, model=WEIGHTS, sites=3, **settings)  # type: ignore[arg-type]
    assert isinstance(result, Evaluation)
    return result


def contributors(result: Evaluation) -> int:
    return result.source.releases[0].contributors


def spent(folder: Path, place: int) -> Fraction:
    with Ledger(folder / str(place) / "ledger.sqlite") as ledger:
        return ledger.spent("people").epsilon


def modules_of_flower(path: Path) -> Iterator[str]:
    source = path.read_text()
    for node in ast.walk(ast.parse(source)) if "flwr" in source else ():
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=str(module)):
                yield module


def test_no_module_of_flower_is_imported_but_the_three_public_ones() -> None:
    sources = set((REPOSITORY / "src" / "discreet").rglob("*.py"))
    sources |= set((REPOSITORY / "examples" / "flower").rglob("*.py"))
    names = {name for path in sources for name in modules_of_flower(path)}
    strategies = {"flwr.serverapp.strategy"}  # the example's, as Flower documents them
    assert {name for name in names if name.split(".")[0] == "flwr"} - strategies == {
        "flwr.app",
        "flwr.clientapp",
        "flwr.serverapp",
    }


@pytest.mark.parametrize(
    "privacy",
    [SecureAggregation(), DistributedDP("1"), LabelDP("1", mechanism="response")],
    ids=lambda p: p.name,
)
def test_the_global_model_is_evaluated_on_every_nodes_data(
    grid: LoopGrid, privacy: PrivacyModel
) -> None:
    result = run(grid, plan_for(privacy))
    assert contributors(result) == 3
    assert 0.6 < result.auc.value < 0.9
    assert result.claim.setting == "deployed"
    assert result.plan.model.digest.startswith("sha256:")
    if isinstance(privacy, SecureAggregation):
        count = result.plan.statistic.count  # type: ignore[union-attr]
        nodes = grid.nodes.values()
        own = [count(Examples(*scored(WEIGHTS, node.context))) for node in nodes]  # type: ignore[arg-type]
        assert np.array_equal(result.source.releases[0].total, np.sum(own, axis=0))


@pytest.mark.parametrize(("errors", "present"), [(3, 3), (1000, 2)])
def test_a_message_that_flower_lost_is_sent_again_until_the_step_is_over(
    grid: LoopGrid,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    errors: int,
    present: int,
) -> None:
    """Flower drops the answers of a node that was away when they were fetched."""
    monkeypatch.setattr("discreet.session.retrying.AGAIN_SECONDS", 0.02)
    grid.failing = {12: errors}
    step_seconds = 20.0 if present == 3 else 1.0
    assert contributors(run(grid, step_seconds=step_seconds)) == present
    assert grid.failing[12] < errors - 2, "it was asked again"
    assert spent(tmp_path, 12) == (1 if present == 3 else 0)


def test_silent_nodes_are_left_out_and_too_few_give_nothing(
    grid: LoopGrid, tmp_path: Path
) -> None:
    grid.silent = frozenset({11})
    assert contributors(run(grid, step_seconds=0.5)) == 2
    grid.silent = frozenset({11, 12})
    with pytest.raises(AbortedError, match="1 sites are left after the advertise"):
        run(grid, step_seconds=0.5)
    sent = next(grid.numbers)
    with pytest.raises(AbortedError, match="nothing was asked"):
        run(
            grid,
            plan_for(DistributedDP("1"), survivors=4),
            wait_seconds=0.1,
            step_seconds=0.5,
        )
    assert next(grid.numbers) <= sent + 4, "only how it ended was told"
    assert spent(tmp_path, 13) == 1


def test_a_node_without_policy_or_ledger_declines_and_says_what_to_do(
    grid: LoopGrid, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid.nodes[11].context.node_config.clear()
    assert contributors(run(grid)) == 2
    assert "this node has no policy" in capsys.readouterr().err
    (tmp_path / "12" / "ledger.sqlite").rename(tmp_path / "elsewhere")
    with pytest.raises(AbortedError, match="2 declined"):
        run(grid)
    assert "discreet ledger new" in capsys.readouterr().err


def test_a_node_without_an_identity_compares_the_revoked_keys_beside_its_policy(
    grid: LoopGrid, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = plan_for(LabelDP("1", mechanism="response"))
    plan = replace(labels, roster=plan_for(SecureAggregation()).roster)
    key = identity(13).public_key().public_bytes_raw()
    stolen = RevokedKeys((Revocation(name="node 13", key=key, since="2026-02-03"),))
    for place in PLACES:
        del grid.nodes[place].context.node_config["discreet-identity"]
    (tmp_path / "11" / "revoked.toml").write_text(stolen.dumps())
    assert contributors(run(grid, plan)) == 2
    assert "a key of node 13 that was revoked" in capsys.readouterr().err


def test_a_model_that_the_plan_does_not_name_is_not_scored(
    grid: LoopGrid, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = replace(NOISY, model=ModelRef("model", "sha256:00"))
    transport = Retrying(GridTransport(grid, WEIGHTS), 20.0)  # type: ignore[arg-type]
    with pytest.raises(AbortedError, match="3 declined"):
        Coordinator(plan, list(grid.nodes), transport).run()
    assert "not the one that the plan names" in capsys.readouterr().err


@pytest.mark.parametrize("rehearsal", [False, True])
def test_a_function_that_fails_tells_the_coordinator_nothing(
    grid: LoopGrid, capsys: pytest.CaptureFixture[str], rehearsal: bool
) -> None:
    """A rehearsal charges nothing: there a refusal would be a free question."""
    if rehearsal:
        grid = bare(failing_at_11, rehearsal=True)
    else:
        grid.nodes[11].app = app_of(failing_at_11)
    result = run(grid, rehearsal=rehearsal)
    assert contributors(result) == (3 if rehearsal else 2)
    told = capsys.readouterr().err
    assert "RuntimeError" in told
    assert "Smith" not in told, "nor its own terminal"
    assert grid.errors == [], "Flower would send the text of an exception"


def two_rounds(privacy: PrivacyModel) -> Plan:
    plan, half = plan_for(privacy, 3), Fraction(1, 2)
    tree = Hierarchy(plan.statistic.edges, 2)  # type: ignore[union-attr]
    adaptive = EquiDepthFrom(tree, 8, plan.thresholds)
    return replace(plan, rounds=(Round(tree, half), Round(adaptive, half)))


PLANS = {
    "distributed": plan_for(DistributedDP("1"), 3),
    "two rounds": two_rounds(DistributedDP("1")),
    "local": plan_for(LocalDP("1", "laplace"), 3),
    "label": plan_for(LabelDP("1", mechanism="response"), 3),
    "ranks": recommend(PublicFacts(), LabelDP(2), cohort=Cohort(3)),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_rehearsal_calls_the_function_and_sends_made_up_data(plan: Plan) -> None:
    calls: list[int] = []

    def noted(_: ArrayRecord | None, context: Context) -> tuple[object, object]:
        calls.append(context.node_id)
        return np.ones(400), np.ones(400)

    result = run(bare(noted, rehearsal=True), plan, rehearsal=True)  # type: ignore[arg-type]
    assert result.claim.setting == "REHEARSAL"
    assert set(calls) == set(PLACES)
    assert result.auc.value < 0.95, "of both classes, unlike what the function returned"


@pytest.mark.parametrize("coordinator_rehearses", [True, False])
def test_a_rehearsal_of_one_end_alone_is_declined(
    grid: LoopGrid, tmp_path: Path, coordinator_rehearses: bool
) -> None:
    nodes = grid if coordinator_rehearses else bare(rehearsal=True)
    with pytest.raises(AbortedError, match="3 declined"):
        run(nodes, rehearsal=coordinator_rehearses)
    assert not any(spent(tmp_path, place) for place in PLACES)


def test_a_strategy_evaluates_every_few_rounds_and_each_time_is_charged(
    grid: LoopGrid, tmp_path: Path
) -> None:
    options = {"sites": 3, "wait_seconds": 1.0}
    private = Evaluating(grid, NOISY, every=2, options=options)  # type: ignore[arg-type]
    logged = [private(k, WEIGHTS) for k in range(5)]
    assert [m is not None for m in logged] == [False, False, True, False, True]
    assert set(private.results) == {2, 4}
    last = logged[-1]
    assert last is not None
    assert last["auc"] == private.results[4].auc.value  # type: ignore[union-attr]
    assert spent(tmp_path, 11) == 2
    with pytest.raises(InputError, match="every"):
        Evaluating(grid, NOISY, every=0)  # type: ignore[arg-type]


def test_a_mod_leaves_other_queries_to_the_app(grid: LoopGrid) -> None:
    def other(message: Message, context: Context) -> Message:
        del context
        return Message(RecordDict({"other": ConfigRecord({"x": 1})}), reply_to=message)

    mod = evaluation_mod(scored, entropy=Seeded(b"11"))  # type: ignore[arg-type]
    grid.nodes[11].app = lambda message, context: mod(message, context, other)
    assert contributors(run(grid)) == 3
    message = Message(RecordDict(), dst_node_id=11, message_type="query.another")
    (identifier,) = grid.push_messages([message])
    (reply,) = grid.pull_messages([identifier])
    assert "other" in reply.content


def test_a_message_survives_flowers_records() -> None:
    read = from_content(to_content(MESSAGE))
    assert read == MESSAGE
    assert np.array_equal(read.numbers, MESSAGE.numbers)


RAW = MESSAGE.encode()
HOSTILE = {
    "nothing": RecordDict(),
    "arrays": RecordDict({"discreet.message": WEIGHTS}),
    "text": RecordDict({"discreet.message": ConfigRecord({"bytes": "text"})}),
    **{
        name: RecordDict({"discreet.message": ConfigRecord({"bytes": raw})})
        for name, raw in {
            "empty": b"",
            "short": RAW[:-1],
            "long": RAW + b"\0",
            "another version": b"\0" + RAW[1:],
            "four billion numbers": RAW[: -32 - 28] + b"\xff" * 4 + RAW[-32 - 24 :],
        }.items()
    },
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_content_that_is_no_message_ends_neither_end(
    grid: LoopGrid, content: RecordDict, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(MalformedMessageError):
        from_content(content)
    message = Message(content, dst_node_id=11, message_type="query.discreet")
    (identifier,) = grid.push_messages([message])
    (reply,) = grid.pull_messages([identifier])
    assert not reply.content
    assert not grid.errors
    assert capsys.readouterr().err
    grid.nodes[12].app = lambda message, _: Message(content, reply_to=message)
    transport = GridTransport(grid)  # type: ignore[arg-type]
    transport.send(12, MESSAGE, seconds=5)
    assert list(transport.receive()) == [(12, Lost(MESSAGE.digest(), for_good=True))]
    assert list(transport.receive()) == []


def test_what_flower_still_carries_is_not_sent_again(grid: LoopGrid) -> None:
    """The app would start twice at once, and the second would spoil the state."""
    grid.silent = frozenset({11})
    transport = GridTransport(grid)  # type: ignore[arg-type]
    for seconds in (20.0, 5.0):
        transport.send(11, MESSAGE, seconds=seconds)
        assert list(transport.receive()) == []
    assert next(grid.numbers) == 2


def test_what_a_grid_refuses_to_carry_is_lost(grid: LoopGrid) -> None:
    grid.push_messages = lambda _: [""]  # type: ignore[method-assign]
    transport = GridTransport(grid)  # type: ignore[arg-type]
    transport.send(12, MESSAGE, seconds=5)
    assert list(transport.receive()) == [(12, Lost(MESSAGE.digest()))]


def be_an_actor(monkeypatch: pytest.MonkeyPatch, actor: str | None) -> None:
    """Stand in for Ray, of which Flower's simulation engine makes its nodes."""
    ray = ModuleType("ray")
    ray.is_initialized = lambda: True  # type: ignore[attr-defined]
    runtime = SimpleNamespace(get_actor_id=lambda: actor)
    ray.get_runtime_context = lambda: runtime  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray", ray)


@pytest.mark.parametrize(
    "plan", [plan_for(SecureAggregation()), *PLANS.values()], ids=["exact", *PLANS]
)
def test_a_simulation_needs_no_policy_and_says_that_it_was_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, plan: Plan
) -> None:
    monkeypatch.chdir(tmp_path)
    be_an_actor(monkeypatch, "actor")
    result = run(bare(engine=True), plan)
    assert contributors(result) == 3
    assert result.claim.setting == "simulated"
    assert "Simulated" in str(result)
    assert not list(tmp_path.rglob("*")), "nobody was charged"


@pytest.mark.parametrize(
    ("actor", "engine", "reason"),
    [
        (None, True, "this node has no policy"),
        ("actor", False, "this node is simulated, and the server does not run"),
    ],
    ids=["declared by the server alone", "unknown to the server"],
)
def test_a_simulation_of_one_end_alone_is_declined(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    actor: str | None,
    engine: bool,
    reason: str,
) -> None:
    """Ray in the process is not enough: an app may use it for work of its own."""
    assert not in_simulation()
    be_an_actor(monkeypatch, actor)
    with pytest.raises(AbortedError, match="3 declined"):
        run(bare(engine=engine))
    assert reason in capsys.readouterr().err


def test_a_policy_holds_in_a_simulation_too(
    grid: LoopGrid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_an_actor(monkeypatch, "actor")
    run(InMemoryGrid(grid.nodes))
    assert spent(tmp_path, 11) == 1


def test_another_process_knows_the_state_the_plan_and_what_was_used() -> None:
    context = Context(1, 2, {}, RecordDict(), {})
    assert _InContext(context).load() == b""
    _InContext(context).save(b"state")
    _InContext(context).keep(NOISY, dumps(NOISY))
    _InContext(context).take(b"name")
    assert _InContext(context).load() == b"state"
    assert _InContext(context).plan(NOISY.digest()) == NOISY
    with pytest.raises(MessageError, match="not known here"):
        _InContext(context).plan(bytes(32))
    with pytest.raises(UsedStateError):
        _InContext(context).take(b"name")
    _InContext(context).take(b"other")

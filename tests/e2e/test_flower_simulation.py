"""Flower's own simulation engine, with threads in the place of Ray's actors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from flwr.app import ArrayRecord, Context, Message
from flwr.clientapp import ClientApp
from flwr.server.superlink.fleet.vce.backend import Backend
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation
from flwr.supercore.task_identity import TaskIdentity
from numpy.typing import NDArray

from discreet.data.edges import Warped
from discreet.models.distributed import DistributedDP
from discreet.models.label import LabelDP
from discreet.models.local import LocalDP
from discreet.models.secure_aggregation import SecureAggregation
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import recommend
from discreet.plan.privacy_model import PrivacyModel
from discreet.report.evaluation import Evaluation
from discreet.session.coordinator import AbortedError
from discreet.transport.flower.evaluate import evaluate
from discreet.transport.flower.mod import add_evaluation, in_simulation

pytestmark = pytest.mark.flower

WEIGHTS = ArrayRecord([np.array([1.0, -0.5])])


class Threads(Backend):
    """Runs a message in the thread that asks for it."""

    def __init__(self, backend_config: object) -> None:
        del backend_config

    @property
    def num_workers(self) -> int:
        return 2

    def build(self, app_fn: Callable[[], ClientApp]) -> None:
        self.app_fn = app_fn

    def is_worker_idle(self) -> bool:
        return True

    def terminate(self) -> None:
        pass

    def process_message(
        self, message: Message, context: Context
    ) -> tuple[Message, Context]:
        return self.app_fn()(message, context), context


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray cannot be installed everywhere: stand in for its actors."""
    backend = ModuleType("raybackend")
    backend.RayBackend = Threads  # type: ignore[attr-defined]
    place = "flwr.server.superlink.fleet.vce.backend.raybackend"
    monkeypatch.setitem(sys.modules, place, backend)
    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1


def pretend_actor(monkeypatch: pytest.MonkeyPatch, actor: str | None) -> None:
    ray = ModuleType("ray")
    ray.is_initialized = lambda: True  # type: ignore[attr-defined]
    runtime = SimpleNamespace(get_actor_id=lambda: actor)
    ray.get_runtime_context = lambda: runtime  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray", ray)
    engine = "flwr.simulation.ray_transport.ray_actor"
    monkeypatch.setitem(sys.modules, engine, ModuleType(engine))


def scored(
    model: ArrayRecord | None, context: Context
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    assert model is not None
    rng = np.random.default_rng(int(context.node_config["partition-id"]))
    x = rng.normal(size=(400, 2))
    labels = rng.random(400) < 1 / (1 + np.exp(-x[:, 0]))
    return 1 / (1 + np.exp(-x @ model.to_numpy_ndarrays()[0])), labels


def simulate(privacy: PrivacyModel) -> Evaluation:
    client, server = ClientApp(), ServerApp()
    add_evaluation(client, scored)
    found: list[Evaluation | Exception] = []

    @server.main()  # type: ignore[untyped-decorator]
    def main(grid: Grid, context: Context) -> None:
        del context
        plan = recommend(
            PublicFacts(1200, 0.5), privacy, edges=Warped(16), cohort=Cohort(3)
        )
        try:
            result = evaluate(grid, plan, model=WEIGHTS, sites=3, step_seconds=20)
        except AbortedError as error:
            found.append(error)
        else:
            assert isinstance(result, Evaluation)
            found.append(result)

    run_simulation(server, client, num_supernodes=3, backend_name="threads")
    (result,) = found
    if isinstance(result, Exception):
        raise result
    return result


@pytest.mark.parametrize(
    "privacy",
    [
        SecureAggregation(),
        DistributedDP("1"),
        LocalDP("1", "laplace"),
        LabelDP("1", mechanism="response"),
    ],
    ids=lambda p: p.name,
)
@pytest.mark.usefixtures("engine")
def test_a_simulation_needs_no_policy_and_says_that_it_was_one(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    privacy: PrivacyModel,
) -> None:
    monkeypatch.chdir(tmp_path)
    pretend_actor(monkeypatch, "actor")
    result = simulate(privacy)
    assert result.source.releases[0].contributors == 3
    assert result.claim.setting == "simulated"
    assert "Simulated" in str(result)
    assert not list(tmp_path.rglob("*.sqlite")), "nobody was charged"


@pytest.mark.usefixtures("engine")
def test_without_the_engine_a_node_without_a_policy_still_declines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ray in the process is not enough: an app may use it for work of its own."""
    pretend_actor(monkeypatch, None)
    with pytest.raises(AbortedError, match="3 declined"):
        simulate(DistributedDP("1"))
    assert "this node has no policy" in capsys.readouterr().err


def test_this_process_is_no_simulation() -> None:
    assert not in_simulation()

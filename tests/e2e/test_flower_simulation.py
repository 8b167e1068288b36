"""Flower's own simulation engine, with threads in the place of Ray's actors.

This alone reaches into Flower: it shows that the installed release still has the engine
that both ends detect, without Ray, which cannot be installed everywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
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

from discreet.flower import add_evaluation, evaluate
from discreet.models.distributed import DistributedDP
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import recommend
from discreet.report.evaluation import Evaluation

pytestmark = pytest.mark.flower


class Threads(Backend):
    """Runs a message in the thread that asks for it."""

    num_workers = 2

    def __init__(self, backend_config: object) -> None:
        del backend_config

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


def scored(
    model: ArrayRecord | None, context: Context
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    assert model is not None
    rng = np.random.default_rng(int(context.node_config["partition-id"]))
    labels = rng.random(400) < 0.5
    return 1 / (1 + np.exp(-model.to_numpy_ndarrays()[0] * labels)), labels


def test_both_ends_know_the_simulation_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, ray = ModuleType("raybackend"), ModuleType("ray")
    backend.RayBackend = Threads  # type: ignore[attr-defined]
    ray.is_initialized = lambda: True  # type: ignore[attr-defined]
    actor = SimpleNamespace(get_actor_id=lambda: "actor")
    ray.get_runtime_context = lambda: actor  # type: ignore[attr-defined]
    place = "flwr.server.superlink.fleet.vce.backend.raybackend"
    monkeypatch.setitem(sys.modules, place, backend)
    monkeypatch.setitem(sys.modules, "ray", ray)
    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1
    client, server = ClientApp(), ServerApp()
    add_evaluation(client, scored)
    results = []

    @server.main()  # type: ignore[untyped-decorator]
    def main(grid: Grid, context: Context) -> None:
        del context
        cohort, weights = Cohort(3), ArrayRecord([np.ones(1)])
        plan = recommend(PublicFacts(1200, 0.5), DistributedDP("1"), cohort=cohort)
        results.append(evaluate(grid, plan, model=weights, sites=3, step_seconds=20))

    run_simulation(server, client, num_supernodes=3, backend_name="threads")
    (result,) = results
    assert isinstance(result, Evaluation)
    assert result.source.releases[0].contributors == 3
    assert result.claim.setting == "simulated"

"""An app with a ``client_fn``, a mod and a strategy; its server feigns a simulation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from numpy.typing import NDArray

from discreet import Cohort, LocalDP, PublicFacts, recommend
from discreet.flower import Evaluating, evaluation_mod
from discreet.plan.plan import ModelRef
from discreet.session.coordinator import StepReport

NODES = 4


def scored(
    model: ArrayRecord | None, context: Context
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The scores of a model with one weight."""
    assert model is not None
    rng = np.random.default_rng(int(context.node_config["partition-id"]))
    labels = rng.random(1000) < 0.4
    logits = model.to_numpy_ndarrays()[0] * rng.normal(labels, 1.0)
    return 1 / (1 + np.exp(-logits)), labels


def client_fn(context: Context) -> Any:
    """Nothing is trained here."""
    raise NotImplementedError(f"node {context.node_id} was asked to train")


client = ClientApp(client_fn, mods=[evaluation_mod(scored)])
server = ServerApp()


class InMemoryGrid:
    """Another grid under the name that the simulation engine's has."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return getattr(self.grid, name)  # type: ignore[no-any-return]


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Evaluate by a strategy, and pretend to the nodes that they are simulated."""
    steps: list[StepReport] = []
    plan = recommend(
        PublicFacts(examples=3000, prevalence=0.4),
        LocalDP("1", "laplace"),
        cohort=Cohort(NODES - 1),
        model=ModelRef("private-fl"),
    )
    options = {"sites": NODES, "watch": steps.append}
    private = Evaluating(InMemoryGrid(grid), plan, every=2, options=options)  # type: ignore[arg-type]
    strategy = FedAvg(fraction_train=0.0, fraction_evaluate=0.0, min_available_nodes=0)
    arrays = ArrayRecord([np.ones(1)])
    strategy.start(grid, initial_arrays=arrays, num_rounds=3, evaluate_fn=private)
    results = private.results.values()
    told = {
        "rounds": list(private.results),
        "contributors": [each.source.releases[0].contributors for each in results],
        "auc": [each.auc.value for each in results],
        "declined": [step.declined for step in steps],
    }
    Path(str(context.run_config["result"])).write_text(json.dumps(told))

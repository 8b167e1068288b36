"""An app with a ``client_fn``, a mod and a strategy, for nodes some of which decline."""

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

from discreet import Cohort, DistributedDP, LocalDP, PublicFacts, recommend
from discreet.flower import Evaluating, evaluate, evaluation_mod
from discreet.plan.plan import ModelRef, Plan
from discreet.plan.privacy_model import PrivacyModel
from discreet.session.coordinator import AbortedError, StepReport

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


def plan_for(privacy: PrivacyModel, sites: int) -> Plan:
    return recommend(
        PublicFacts(examples=1000 * sites, prevalence=0.4),
        privacy,
        cohort=Cohort(sites),
        model=ModelRef("private-fl"),
    )


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Evaluate by a strategy, then pretend to the nodes that they are simulated."""
    steps: list[StepReport] = []
    options = {"sites": NODES, "watch": steps.append}
    private = Evaluating(
        grid, plan_for(LocalDP("1", "laplace"), NODES - 1), every=2, options=options
    )
    strategy = FedAvg(fraction_train=0.0, fraction_evaluate=0.0, min_available_nodes=0)
    arrays = ArrayRecord([np.ones(1)])
    strategy.start(grid, initial_arrays=arrays, num_rounds=3, evaluate_fn=private)
    pretended = ""
    try:
        evaluate(InMemoryGrid(grid), plan_for(DistributedDP("1"), NODES), model=arrays)  # type: ignore[arg-type]
    except AbortedError as error:
        pretended = str(error)
    result = {
        "rounds": list(private.results),
        "contributors": [
            each.source.releases[0].contributors for each in private.results.values()
        ],
        "auc": [each.auc.value for each in private.results.values()],
        "declined": [step.declined for step in steps],
        "pretended": pretended,
    }
    Path(str(context.run_config["result"])).write_text(json.dumps(result))

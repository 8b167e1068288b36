"""The coordinator's end: FedAvg as usual, and three lines for private evaluation."""

from __future__ import annotations

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from discreet import Cohort, DistributedDP, PublicFacts, recommend
from discreet.flower import evaluate
from discreet.plan.plan import ModelRef
from private_fl.task import initial_model

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train, then measure the trained model without seeing a patient."""
    config = context.run_config
    sites = int(config["sites"])
    strategy = FedAvg(
        fraction_train=1.0,
        fraction_evaluate=0.0,
        min_train_nodes=sites,
        min_available_nodes=sites,
    )
    trained = strategy.start(
        grid, initial_arrays=initial_model(), num_rounds=int(config["rounds"])
    )

    plan = recommend(
        PublicFacts(examples=2_000 * sites, prevalence=0.4),
        DistributedDP(str(config["epsilon"])),
        cohort=Cohort(min_survivors=sites),
        model=ModelRef("private-fl"),
    )
    result = evaluate(grid, plan, model=trained.arrays, sites=sites)
    print(result)  # noqa: T201 - the run's log shows it
    Path(str(config["result"])).write_text(result.to_json(indent=1), encoding="utf-8")

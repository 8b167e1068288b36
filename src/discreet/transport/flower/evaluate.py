"""Private evaluation from inside a Flower ServerApp."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp import Grid
from flwr.superlink.grid import InMemoryGrid

from discreet.entropy import SYSTEM, Entropy
from discreet.errors import InputError
from discreet.plan.plan import ModelRef, Plan
from discreet.report.build import Result
from discreet.report.evaluation import Evaluation
from discreet.session.coordinator import Coordinator, StepReport, evaluation_of
from discreet.session.rehearsal import check_agreed
from discreet.session.retrying import STEP_SECONDS, WAIT_SECONDS, Retrying
from discreet.transport.coordinating import connected
from discreet.transport.flower.records import model_digest
from discreet.transport.flower.server import GridTransport


def evaluate(  # noqa: PLR0913 - every public choice is a keyword
    grid: Grid,
    plan: Plan,
    *,
    model: ArrayRecord | None = None,
    sites: int | None = None,
    nodes: Collection[int] | None = None,
    wait_seconds: float = WAIT_SECONDS,
    step_seconds: float = STEP_SECONDS,
    identity: Ed25519PrivateKey | None = None,
    entropy: Entropy = SYSTEM,
    watch: Callable[[StepReport], None] | None = None,
    rehearsal: bool = False,
) -> Result:
    """Evaluate a model on the data of the nodes of a grid.

    It ends within ``wait_seconds`` and ``step_seconds`` for each of at most five
    steps a round, with the survivors' result or with ``AbortedError``. A node that
    is away for a moment is asked again until its step is over.

    Args:
        grid: the ServerApp's.
        plan: what is asked, under which privacy.
        model: the global model, sent to the sites that score with it; the plan is
            bound to it by its digest.
        sites: how many nodes to wait for; by default those of the roster, or as
            many as must survive.
        nodes: Flower's numbers of the nodes that may take part; no other is asked or
            counted. None for every node of the grid.
        wait_seconds: how long to wait for them; then go on with those present.
        step_seconds: how long each step waits for the slowest site.
        identity: the coordinator's key, when the roster names one.
        entropy: where nonces come from.
        watch: told after each step.
        rehearsal: ask for made-up data; only nodes that rehearse answer, nobody is
            charged, and the result is stamped REHEARSAL.
    """
    if rehearsal:
        plan = plan.rehearsed()
    check_agreed(plan, rehearsing=rehearsal)
    if model is not None:
        bound = ModelRef(plan.model.name, model_digest(model))
        plan = replace(plan, model=bound)
    wanted = sites or plan.cohort.min_survivors
    if sites is None and plan.roster is not None:
        wanted = len(plan.roster.sites)
    simulated = isinstance(grid, InMemoryGrid)
    transport = GridTransport(grid, model)
    session = Coordinator(
        plan,
        connected(
            transport.connected, wanted=wanted, wait_seconds=wait_seconds, among=nodes
        ),
        Retrying(transport, step_seconds),
        entropy=entropy,
        identity=identity,
        watch=watch,
        simulated=simulated,
    )
    return evaluation_of(plan, session.run(), entropy=entropy, simulated=simulated)


@dataclass
class Evaluating:
    """Evaluates the global model every few rounds of training.

    It is what a strategy of Flower takes as ``evaluate_fn``::

        private = Evaluating(grid, plan, every=5)
        strategy.start(grid, arrays, num_rounds=20, evaluate_fn=private)
        private.results[20].auc.interval()

    Each evaluation is charged at every node: with ``every=5`` and 20 rounds four
    times. The untrained model is not evaluated.

    Args:
        grid: the ServerApp's.
        plan: what is asked each time; it is bound to each model by its digest.
        every: evaluate after every so many rounds.
        options: further options of ``evaluate``, such as ``rehearsal=True``.
    """

    grid: Grid
    plan: Plan
    every: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    results: dict[int, Result] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if self.every < 1:
            raise InputError("evaluate after every round, or after every few of them")

    def __call__(self, server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
        """Evaluate, or leave it for this round; Flower logs the values."""
        if not server_round or server_round % self.every:
            return None
        result = evaluate(self.grid, self.plan, model=arrays, **self.options)
        self.results[server_round] = result
        if not isinstance(result, Evaluation):
            return MetricRecord()
        values = {name: result.metrics[name].value for name in sorted(result.metrics)}
        return MetricRecord({k: v for k, v in values.items() if math.isfinite(v)})

"""Seconds and bytes of each step over Flower, and what share is Flower's own.

Every site is a SuperNode and a process of its own on this machine, with TLS and node
authentication. An empty query, which our code answers with an empty message, takes the
time that Flower takes for any message; what a step takes beyond it is ours. Flower's
clients ask for messages every three seconds, so a step takes up to that long whatever
it carries.

    python bench/federation.py [--sites 3 10 30] [--bins 64]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from discreet.data.edges import Warped
from discreet.data.examples import Examples
from discreet.entropy import SYSTEM
from discreet.models.distributed import DistributedDP
from discreet.models.local import LocalDP
from discreet.plan.cohort import Cohort, PublicFacts, Roster
from discreet.plan.plan import Plan, recommend
from discreet.plan.privacy_model import PrivacyModel
from discreet.privacy.ledger import Ledger
from discreet.session.coordinator import Coordinator, StepReport
from discreet.session.messages import Message as SessionMessage
from discreet.session.policy import Policy
from discreet.session.retrying import Retrying
from discreet.session.site import Site
from discreet.session.state import memory_beside
from discreet.transport.addresses import LOOPBACK, free_port
from discreet.transport.coordinating import connected
from discreet.transport.flower.mod import handler
from discreet.transport.flower.processes import OFFLINE, superlink
from discreet.transport.flower.records import ACTION
from discreet.transport.flower.runtime import quiet
from discreet.transport.flower.server import GridTransport
from discreet.transport.flower.serving import serve
from discreet.transport.flower.tasks import coordinator_grid, register
from discreet.transport.keys import (
    CA,
    CoordinatorKeys,
    SiteKeys,
    make_consortium,
)

EMPTY = "query.empty"
EXAMPLES = 1_000
POLICY = Policy(
    population="people",
    privacy=("distributed", "local"),
    coordinators=("*",),
    models=("*",),
    epsilon_per_plan=Fraction(1),
    epsilon_total=Fraction(100),
    sessions_per_plan=100,
    sites=2,
    require_roster=False,
)


@dataclass
class Measured:
    """An exchange that notes the time and the bytes of each step."""

    carried: Retrying
    seconds: list[float] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    received: list[int] = field(default_factory=list)

    def __call__(
        self, messages: Mapping[int, SessionMessage], /
    ) -> Mapping[int, SessionMessage]:
        """Exchange messages under the clock."""
        began = time.perf_counter()
        answers = self.carried(messages)
        self.seconds.append(time.perf_counter() - began)
        self.sent.append(_mean_size(messages))
        self.received.append(_mean_size(answers))
        return answers


def _mean_size(messages: Mapping[int, SessionMessage]) -> int:
    return round(
        statistics.mean(len(message.encode()) for message in messages.values())
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, nargs="+", default=[3, 10, 30])
    parser.add_argument("--bins", type=int, default=64)
    chosen = parser.parse_args()
    os.environ.update(OFFLINE)
    quiet()
    print(f"{os.cpu_count()} cores; {chosen.bins} bins; seconds until the last site")
    print(
        f"{'sites':>5}  {'step':<22} {'seconds':>8} {'empty':>7} {'Flower':>7}"
        f" {'to a site':>10} {'from a site':>11}"
    )
    for sites in chosen.sites:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), sites, chosen.bins)


def measure(folder: Path, sites: int, bins: int) -> None:
    """Start a consortium, run two plans over it, print a line a step."""
    names = [f"site{k:02d}" for k in range(sites)]
    roster = make_consortium(folder, names, hosts=[LOOPBACK])
    keys = CoordinatorKeys(folder / "coordinator")
    authority = (keys.folder / CA).read_bytes()
    with ExitStack() as stack:
        port = free_port()
        link = stack.enter_context(superlink(keys, host=LOOPBACK, port=port))
        register(link, authority, keys.nodes())
        for k, name in enumerate(names):
            site = multiprocessing.get_context("fork").Process(
                target=_answer, args=(link.runtime, folder / name, k)
            )
            site.start()
            stack.callback(site.join)
            stack.callback(site.terminate)
        with coordinator_grid(link, authority) as grid:
            nodes = connected(grid.get_node_ids, wanted=sites, wait_seconds=600)
            if len(nodes) < sites:
                sys.exit(f"{len(nodes)} of {sites} sites connected")
            empty = statistics.median(_empty_query(grid, nodes) for _ in range(3))
            for name, plan in _plans(roster, sites, bins).items():
                signer = keys.identity() if plan.roster is not None else None
                exchange = Measured(Retrying(GridTransport(grid), 600))
                steps: list[StepReport] = []
                session = Coordinator(
                    plan, nodes, exchange, identity=signer, watch=steps.append
                )
                session.run()
                _show(sites, name, steps, exchange, empty)


def _plans(roster: Roster, sites: int, bins: int) -> dict[str, Plan]:
    def plan(privacy: PrivacyModel) -> Plan:
        return recommend(
            PublicFacts(EXAMPLES * sites, 0.3),
            privacy,
            edges=Warped(bins),
            cohort=Cohort(sites),
        )

    return {
        "distributed": replace(plan(DistributedDP(1)), roster=roster),
        "local": plan(LocalDP(1, "laplace")),
    }


def _show(
    sites: int, name: str, steps: list[StepReport], exchange: Measured, empty: float
) -> None:
    steps_and_end = [*(step.name for step in steps), "end"]
    lines = zip(
        steps_and_end, exchange.seconds, exchange.sent, exchange.received, strict=True
    )
    for step, seconds, sent, received in lines:
        share = min(1.0, empty / seconds)
        print(
            f"{sites:>5}  {name + ', ' + step:<22} {seconds:>8.2f} {empty:>7.2f}"
            f" {share:>7.0%} {sent:>10,} {received:>11,}",
            flush=True,
        )


def _empty_query(grid: Grid, nodes: list[int]) -> float:
    began = time.perf_counter()
    messages = [
        Message(RecordDict(), dst_node_id=node, message_type=EMPTY) for node in nodes
    ]
    waiting = set(grid.push_messages(messages))
    while waiting:
        for reply in grid.pull_messages(list(waiting)):
            waiting.discard(reply.metadata.reply_to_message_id)
        time.sleep(0.2)
    return time.perf_counter() - began


def _answer(address: str, folder: Path, place: int) -> None:
    """Be a site, in a process of its own."""
    rng = np.random.default_rng(place)
    labels = rng.random(EXAMPLES) < 0.3
    data = Examples(np.clip(rng.normal(0.4 + 0.3 * labels, 0.2), 0, 1), labels)
    ledger = folder / "ledger.sqlite"
    if not ledger.exists():
        Ledger.new(ledger).close()

    def site_of(message: Message, context: Context) -> Site:
        del message, context
        return Site(
            lambda _: data,
            POLICY,
            Ledger(ledger, limits=POLICY.limits()),
            SYSTEM,
            memory_beside(ledger),
            identity=SiteKeys(folder).identity(),
        )

    app = ClientApp()
    app.query(ACTION)(handler(site_of))

    @app.query("empty")
    def echo(message: Message, context: Context) -> Message:
        del context
        return Message(RecordDict(), reply_to=message)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    keys = SiteKeys(folder)
    serve(keys, address, app, until=lambda: False, wait_seconds=1800)


if __name__ == "__main__":
    main()

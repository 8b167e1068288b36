"""A whole end of a consortium: a site that joins, a coordinator that runs a plan."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Entropy
from discreet.plan.plan import Plan
from discreet.result.build import Result
from discreet.runtime.flower.client import (
    Report,
    flip_key,
    handler,
    once_beside,
    report_on_stderr,
)
from discreet.runtime.flower.evaluate import WAIT_SECONDS, evaluate
from discreet.runtime.flower.keys import CA, CoordinatorKeys, SiteKeys
from discreet.runtime.flower.processes import superlink
from discreet.runtime.flower.records import ACTION
from discreet.runtime.flower.server import STEP_SECONDS
from discreet.runtime.flower.tasks import coordinator_grid, register, serve
from discreet.runtime.session import Step, check_carried
from discreet.site.admission import admit
from discreet.site.ledger import Ledger
from discreet.site.letters import Kind, Letter
from discreet.site.policy import Policy
from discreet.site.session import Site

_FLOWER: Final = logging.getLogger("flwr")


@dataclass
class JoiningSite:
    """A site with its data, ready to join.

    Args:
        plan: the plan that the operator agreed to; no other is answered.
        examples: the data.
        policy: what the operator allows.
        ledger: the path of the ledger.
        keys: the site's folder of keys.
        entropy: where keys, masks and noise come from.
        report: told why the site declines.
        answered: told after each answer: which round it belongs to.
    """

    plan: Plan
    examples: Examples = field(repr=False)
    policy: Policy
    ledger: Path
    keys: SiteKeys
    entropy: Entropy = field(default=SYSTEM, repr=False)
    report: Report = report_on_stderr
    answered: Callable[[Letter], None] | None = None
    _last: Letter | None = field(default=None, init=False)
    _over: bool = field(default=False, init=False)

    def check(self) -> None:
        """Refuse now what would be refused later: policy, data, floors, caps."""
        check_carried(self.plan)
        with self._open_ledger() as ledger:
            admit(self.plan, self.policy, self.examples, ledger)

    def join(self, address: str, *, wait_seconds: float = WAIT_SECONDS) -> bool:
        """Connect and answer until the session is over; tell whether it took part.

        Raises:
            ProcessError: it could not connect, or the coordinator fell silent.
        """
        self.check()
        app = ClientApp()
        app.query(ACTION)(handler(self._site, report=self.report, answered=self._note))
        serve(
            self.keys,
            address,
            app,
            until=lambda: self._over,
            wait_seconds=wait_seconds,
        )
        return self._last is not None and self._last.kind is not Kind.DECLINED

    def _open_ledger(self) -> Ledger:
        return Ledger(self.ledger, limits=self.policy.limits())

    def _site(self, message: Message, context: Context) -> Site:
        del message, context
        return Site(
            lambda _: self.examples,
            self.policy,
            self._open_ledger(),
            self.entropy,
            once_beside(self.ledger),
            self.plan,
            self.keys.identity(),
            flip_key(self.ledger),
        )

    def _note(self, answer: Letter, over: bool) -> None:
        self._last, self._over = answer, over
        if self.answered is not None:
            self.answered(answer)


def coordinate(
    plan: Plan,
    keys: CoordinatorKeys,
    *,
    host: str,
    port: int,
    wait_seconds: float = WAIT_SECONDS,
    step_seconds: float = STEP_SECONDS,
    watch: Callable[[Step], None] | None = None,
) -> Result:
    """Start a SuperLink, wait for the sites, run the plan, end the SuperLink.

    Raises:
        AbortedError: too few sites came, or stayed; nothing was opened.
        ProcessError: the SuperLink did not start, or ended.
    """
    check_carried(plan)
    authority = (keys.folder / CA).read_bytes()
    nodes = keys.nodes()
    identity = keys.identity() if plan.roster is not None else None
    with superlink(keys, host=host, port=port) as link:
        register(link, authority, nodes)
        with coordinator_grid(link, authority) as grid:
            return evaluate(
                grid,
                plan,
                sites=len(nodes) if plan.roster is None else None,
                wait_seconds=wait_seconds,
                step_seconds=step_seconds,
                identity=identity,
                watch=watch,
            )


def quiet() -> None:
    """Keep Flower's own chatter off the terminal."""
    _FLOWER.setLevel(logging.ERROR)

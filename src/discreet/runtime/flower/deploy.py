"""A whole coordinator: it starts Flower, waits for the sites and runs a plan."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flwr.serverapp import Grid

from discreet.errors import InputError, PlanError
from discreet.plan.plan import Plan
from discreet.result.build import Result
from discreet.runtime.delivery import STEP_SECONDS, WAIT_SECONDS, Delivery
from discreet.runtime.flower.keys import CA, CoordinatorKeys
from discreet.runtime.flower.processes import MOST_BYTES, superlink, wait_until_free
from discreet.runtime.flower.server import GridCarrier, connected
from discreet.runtime.saved_session import Journal, SavedSession, binding
from discreet.runtime.session import (
    AbortedError,
    Exchange,
    Session,
    Step,
    opened_evaluation,
)
from discreet.site.carried import NO_ROSTER, check_carried
from discreet.site.letters import Kind, Letter

_FLOWER: Final = logging.getLogger("flwr")


def saved_session(
    plan: Plan, keys: CoordinatorKeys, path: Path | None = None
) -> SavedSession:
    """Return where a session of a plan is saved: by default beside the keys."""
    if path is None:
        path = keys.folder / f"session-{plan.digest().hex()[:16]}.sealed"
    return SavedSession(path, keys.secret(), binding(plan.digest(), list(keys.nodes())))


def coordinate(  # noqa: PLR0913 - every public choice is a keyword
    plan: Plan,
    keys: CoordinatorKeys,
    *,
    host: str,
    port: int,
    wait_seconds: float = WAIT_SECONDS,
    step_seconds: float = STEP_SECONDS,
    watch: Callable[[Step], None] | None = None,
    saved: SavedSession | None = None,
    unauthenticated: bool = False,
) -> Result:
    """Start a SuperLink, wait for the sites, run the plan, end the SuperLink.

    With ``saved`` the session is on disk after each step, and one that is there
    already is gone on with. It stays until it is aborted, or until the caller, who
    has the result in safety, discards it. A plan without a roster is refused unless
    it is said to be ``unauthenticated``: the claim then says so, too.

    Raises:
        AbortedError: too few sites came, or stayed; nothing was opened.
        ProcessError: the SuperLink did not start, or ended.
    """
    check_carried(plan)
    if plan.roster is None and not unauthenticated:
        raise PlanError(NO_ROSTER)
    journal = None if saved is None else _interrupted(saved)
    if journal is None or not journal.over:
        authority = (keys.folder / CA).read_bytes()
        admitted = keys.admitted(plan)
        wait_until_free(host, port)
        most = MOST_BYTES + 32 * sum(r.statistic.size for r in plan.rounds)
        with superlink(
            keys, host=host, port=port, most_bytes=most, nodes=admitted.values()
        ) as link:
            # Loaded while Flower's own process starts: both take seconds.
            from discreet.runtime.flower import tasks  # noqa: PLC0415

            numbers = tasks.register(link, authority, admitted)
            node_ids = dict(enumerate(numbers.values(), 1))
            with tasks.coordinator_grid(link, authority) as grid:
                delivery = Delivery(GridCarrier(grid, node_ids=node_ids), step_seconds)
                if journal is None:
                    present = connected(
                        grid,
                        wanted=_wanted(plan, node_ids),
                        wait_seconds=wait_seconds,
                        among=node_ids.values(),
                    )
                    places = [k for k, node in node_ids.items() if node in present]
                    journal = Journal(tuple(places))
                    exchange: Exchange = delivery
                else:
                    exchange = _Returning(delivery, grid, node_ids, wait_seconds)
                return _run(plan, keys, journal, exchange, watch, saved)
    return _run(plan, keys, journal, _nobody, watch, saved)


def _interrupted(saved: SavedSession) -> Journal | None:
    raw = saved.load()
    return None if raw is None else Journal.of(raw)


def _wanted(plan: Plan, nodes: Collection[int]) -> int:
    return len(nodes) if plan.roster is None else len(plan.roster.sites)


def _run(
    plan: Plan,
    keys: CoordinatorKeys,
    journal: Journal,
    exchange: Exchange,
    watch: Callable[[Step], None] | None,
    saved: SavedSession | None,
) -> Result:
    if saved is not None:
        journal.keep = saved.save
    session = Session(
        plan,
        journal.nodes,
        journal.through(exchange),
        entropy=journal.draw,
        identity=keys.identity() if plan.roster is not None else None,
        watch=watch,
    )
    try:
        return opened_evaluation(plan, session.run())
    except AbortedError:
        if saved is not None:
            saved.discard()
        raise


@dataclass
class _Returning:
    """Waits for the sites of a session that goes on, before they are asked again."""

    delivery: Delivery
    grid: Grid
    node_ids: Mapping[int, int]
    wait_seconds: float
    waited: bool = False

    def __call__(self, letters: Mapping[int, Letter], /) -> Mapping[int, Letter]:
        """Exchange letters with whoever is back."""
        over = all(letter.kind is Kind.END for letter in letters.values())
        if not self.waited and not over:
            asked = {self.node_ids[place] for place in letters}
            connected(
                self.grid,
                wanted=len(asked),
                wait_seconds=self.wait_seconds,
                among=asked,
            )
            self.waited = True
        return self.delivery(letters)


def _nobody(letters: Mapping[int, Letter], /) -> Mapping[int, Letter]:
    del letters
    raise InputError("a session that is over asks nobody")


def quiet() -> None:
    """Keep Flower's own chatter off the terminal."""
    _FLOWER.setLevel(logging.ERROR)

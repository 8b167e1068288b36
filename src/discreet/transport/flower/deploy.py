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
from discreet.report.build import Result
from discreet.session.board import Board
from discreet.session.coordinator import (
    NO_ROSTER,
    AbortedError,
    Coordinator,
    Transport,
    UnfinishedError,
    evaluation_of,
)
from discreet.session.journal import Journal, SavedSession, binding
from discreet.session.messages import Kind, Message
from discreet.session.retrying import STEP_SECONDS, WAIT_SECONDS, Retrying
from discreet.transport.flower.keys import CA, CoordinatorKeys
from discreet.transport.flower.processes import MOST_BYTES, superlink, wait_until_free
from discreet.transport.flower.server import GridTransport, connected

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
    board: Callable[[Mapping[int, str]], Board] = Board,
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
        UnfinishedError: an exact sum waits for signatures; go on with ``saved``.
        ProcessError: the SuperLink did not start, or ended.
    """
    plan.protocol.check(plan)
    if plan.roster is None and not unauthenticated:
        raise PlanError(NO_ROSTER)
    shown = board(dict(enumerate(keys.admitted(plan), 1)))
    journal = None if saved is None else _interrupted(saved)
    if journal is None or not journal.over:
        authority = (keys.folder / CA).read_bytes()
        admitted = keys.admitted(plan)
        wait_until_free(host, port)
        most = MOST_BYTES + 32 * sum(r.statistic.size for r in plan.rounds)
        with superlink(
            keys, host=host, port=port, most_bytes=most, nodes=admitted.values()
        ) as link:
            # Loaded while Flower's own process starts, which takes seconds: what speaks
            # to it, and what reads a release, for which somebody would wait at the end.
            import scipy.interpolate  # noqa: PLC0415
            import scipy.optimize  # noqa: F401, PLC0415

            from discreet.estimate import smooth_fit  # noqa: F401, PLC0415
            from discreet.transport.flower import tasks  # noqa: PLC0415

            numbers = tasks.register(link, authority, admitted)
            node_ids = dict(enumerate(numbers.values(), 1))
            with tasks.coordinator_grid(link, authority) as grid:
                single = GridTransport(grid, node_ids=node_ids)
                retrying = Retrying(single, step_seconds, waiting=shown.waiting)
                meeting = _Meeting(retrying, grid, node_ids, wait_seconds, shown)
                if journal is None:
                    journal = Journal(meeting.wait(node_ids))
                return _run(plan, keys, journal, meeting, shown, saved)
    return _run(plan, keys, journal, _nobody, shown, saved)


def _interrupted(saved: SavedSession) -> Journal | None:
    raw = saved.load()
    return None if raw is None else Journal.of(raw)


def _run(
    plan: Plan,
    keys: CoordinatorKeys,
    journal: Journal,
    exchange: Transport,
    shown: Board,
    saved: SavedSession | None,
) -> Result:
    if saved is not None:
        journal.keep = saved.save
    session = Coordinator(
        plan,
        journal.nodes,
        journal.through(exchange),
        entropy=journal.draw,
        identity=keys.identity() if plan.roster is not None else None,
        watch=shown.finished,
        resumable=saved is not None,
    )
    try:
        releases = session.run()
    except AbortedError:
        shown.log("ended", how="aborted")
        if saved is not None:
            saved.discard()
        raise
    except UnfinishedError:
        shown.log("ended", how="unfinished")
        journal.ask_again()
        raise
    shown.log("ended", how="revealed", sites=releases[-1].contributors)
    return evaluation_of(plan, releases)


@dataclass
class _Meeting:
    """Waits for the sites of a session, once, before they are asked."""

    retrying: Retrying
    grid: Grid
    node_ids: Mapping[int, int]
    wait_seconds: float
    board: Board
    waited: bool = False

    def wait(self, places: Collection[int]) -> tuple[int, ...]:
        """Wait until these sites are connected; return who is."""
        place_of = {node: place for place, node in self.node_ids.items()}
        present = connected(
            self.grid,
            wanted=len(places),
            wait_seconds=self.wait_seconds,
            among=[self.node_ids[place] for place in places],
            waiting=lambda nodes, left: self.board.connected(
                [place_of[node] for node in nodes], left
            ),
        )
        self.waited = True
        return tuple(sorted(place_of[node] for node in present))

    def __call__(self, messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        """Exchange messages; who was in an interrupted session may come back first."""
        over = all(message.kind is Kind.END for message in messages.values())
        if not self.waited and not over:
            self.wait(messages)
        return self.retrying(messages)


def _nobody(messages: Mapping[int, Message], /) -> Mapping[int, Message]:
    del messages
    raise InputError("a session that is over asks nobody")


def quiet() -> None:
    """Keep Flower's own chatter off the terminal."""
    _FLOWER.setLevel(logging.ERROR)

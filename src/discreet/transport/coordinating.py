"""A whole coordinator: it waits for the sites, runs a plan and can be resumed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from discreet.errors import InputError, PlanError
from discreet.plan.plan import Plan
from discreet.report.build import Result
from discreet.session.board import Board
from discreet.session.coordinator import (
    NO_ROSTER,
    AbortedError,
    Coordinator,
    ReliableTransport,
    UnfinishedError,
    evaluation_of,
)
from discreet.session.journal import Journal, SavedSession, binding
from discreet.session.messages import Kind, Message
from discreet.session.retrying import (
    STEP_SECONDS,
    WAIT_SECONDS,
    Retrying,
    Transport,
    Waiting,
    pause,
)
from discreet.transport.keys import CoordinatorKeys

_SAVED: Final = "session-{}.sealed"
SCORE_BYTES: Final = 2**26
"""Of the public scores of a site that are ranked: 8 million."""


class ListeningTransport(Transport, Protocol):
    """Carries messages to the sites that have connected."""

    def connected(self) -> Iterable[int]:
        """Return the places of the sites that are connected now."""
        ...

    def wait(self, seconds: float) -> None:
        """Wait until something has come, so many seconds at most."""
        ...


class CoordinatorRuntime(Protocol):
    """How a coordinator lets its sites connect; a transport implements it."""

    def listen(
        self,
        keys: CoordinatorKeys,
        plan: Plan,
        sites: Mapping[str, bytes],
        *,
        host: str,
        port: int,
        vector_bytes: int,
    ) -> AbstractContextManager[ListeningTransport]:
        """Let the sites with these identities connect, and no others.

        A site's place is its position among ``sites``, from 1. A request may be
        longer than ``vector_bytes`` only by what a message without numbers takes.

        Raises:
            TransportError: it did not start, or ended.
        """
        ...


def saved_session(
    plan: Plan, keys: CoordinatorKeys, path: Path | None = None
) -> SavedSession:
    """Return where a session of a plan is saved: by default beside the keys."""
    if path is None:
        path = keys.folder / _SAVED.format(plan.digest().hex()[:16])
    names = list(keys.admitted(plan))
    return SavedSession(path, keys.secret(), binding(plan.digest(), names))


def purge_sessions(keys: CoordinatorKeys, days: int) -> list[Path]:
    """Delete saved sessions that nobody went on with for so many days; return which.

    Also what a killed process left of one before it got its name. Sites that keep their
    answers no longer could not go on with them either.
    """
    oldest, saved = time.time() - days * 86_400, _SAVED.format("*")
    old = [
        path
        for name in (saved, f".{saved}.????????")
        for path in sorted(keys.folder.glob(name))
        if path.stat().st_mtime <= oldest
    ]
    for path in old:
        path.unlink()
    return old


def coordinate(  # noqa: PLR0913 - every public choice is a keyword
    plan: Plan,
    keys: CoordinatorKeys,
    runtime: CoordinatorRuntime,
    *,
    host: str,
    port: int,
    wait_seconds: float = WAIT_SECONDS,
    step_seconds: float = STEP_SECONDS,
    board: Callable[[Mapping[int, str]], Board] = Board,
    saved: SavedSession | None = None,
    unauthenticated: bool = False,
) -> Result:
    """Listen, wait for the sites, run the plan, and stop listening.

    With ``saved`` the session is on disk after each step, and one that is there
    already is resumed. It stays until it is aborted, or until the caller, who has
    stored the result, discards it. A plan without a roster is refused unless
    ``unauthenticated`` is set: the claim then says so, too.

    Raises:
        AbortedError: too few sites came, or stayed; nothing was revealed.
        UnfinishedError: an exact sum waits for signatures; resume with ``saved``.
        TransportError: the runtime did not start, or ended.
    """
    plan.protocol.check(plan)
    keys.revoked().check(plan)
    if plan.roster is None and not unauthenticated:
        raise PlanError(NO_ROSTER)
    sites = keys.admitted(plan)
    shown = board(dict(enumerate(sites, 1)))
    journal = None if saved is None else _interrupted(saved)
    if journal is not None and journal.over:
        return _run(plan, keys, journal, _nobody, shown, saved)
    vector_bytes = 32 * sum(each.statistic.size for each in plan.rounds)
    if not plan.protocol.counts_alone:  # scores travel, as many as a site has
        vector_bytes = SCORE_BYTES
    with runtime.listen(
        keys, plan, sites, host=host, port=port, vector_bytes=vector_bytes
    ) as transport:
        retrying = Retrying(
            transport, step_seconds, sleep=transport.wait, waiting=shown.waiting
        )
        meeting = _Meeting(transport, retrying, wait_seconds, shown)
        if journal is None:
            journal = Journal(meeting.wait(range(1, len(sites) + 1)))
        return _run(plan, keys, journal, meeting, shown, saved)


def _interrupted(saved: SavedSession) -> Journal | None:
    raw = saved.load()
    return None if raw is None else Journal.of(raw)


def _run(
    plan: Plan,
    keys: CoordinatorKeys,
    journal: Journal,
    transport: ReliableTransport,
    shown: Board,
    saved: SavedSession | None,
) -> Result:
    if saved is not None:
        journal.keep = saved.save
    session = Coordinator(
        plan,
        journal.nodes,
        journal.through(transport),
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


def connected(
    present: Callable[[], Iterable[int]],
    *,
    wanted: int,
    wait_seconds: float,
    among: Collection[int] | None = None,
    waiting: Waiting | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> list[int]:
    """Wait until ``wanted`` nodes are connected; return whoever is there in the end.

    With ``among`` only these nodes count; ``waiting`` is told who is there. ``sleep``
    may end early when somebody comes.
    """
    began = time.monotonic()
    while True:
        nodes = [n for n in sorted(present()) if among is None or n in among]
        waited = time.monotonic() - began
        if waiting is not None:
            waiting(nodes, wait_seconds - waited)
        if len(nodes) >= wanted or waited > wait_seconds:
            return nodes
        sleep(pause(waited))


@dataclass
class _Meeting:
    """Waits for the sites of a session, once, before they are asked."""

    transport: ListeningTransport
    retrying: Retrying
    wait_seconds: float
    board: Board
    waited: bool = False

    def wait(self, places: Collection[int]) -> tuple[int, ...]:
        """Wait until these sites are connected; return who is."""
        self.waited = True
        return tuple(
            connected(
                self.transport.connected,
                wanted=len(places),
                wait_seconds=self.wait_seconds,
                among=places,
                waiting=self.board.connected,
                sleep=self.transport.wait,
            )
        )

    def __call__(self, messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        """Carry messages; the sites of an interrupted session may come back first."""
        over = all(message.kind is Kind.END for message in messages.values())
        if not self.waited and not over:
            self.wait(messages.keys())
        return self.retrying(messages)


def _nobody(messages: Mapping[int, Message], /) -> Mapping[int, Message]:
    del messages
    raise InputError("a session that is over asks nobody")

"""A transport that loses, delays, doubles and reorders messages, on its own clock.

And sessions over it, with a coordinator that may be killed and goes on.
"""

from __future__ import annotations

import heapq
import itertools
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np

from discreet.data.edges import Warped
from discreet.data.examples import Examples
from discreet.entropy import SYSTEM
from discreet.models.distributed import DistributedDP
from discreet.models.local import LocalDP
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import recommend
from discreet.plan.rounds import Release
from discreet.privacy.ledger import Ledger
from discreet.session.coordinator import AbortedError, Coordinator
from discreet.session.journal import Journal
from discreet.session.messages import Message
from discreet.session.policy import Policy
from discreet.session.retrying import Lost, Retrying
from discreet.session.site import Site
from discreet.session.state import InMemory
from discreet.transport.in_process import InProcess

Answer = Callable[[int, Message], Message]
"""Hands a message to the site of a node, returns what it answers."""


@dataclass(frozen=True, slots=True)
class Faults:
    """How a transport fails, for each message and each answer on its own.

    Args:
        lost: the chance that it vanishes.
        reported: the chance that a loss is reported as an error; else it is silence.
        doubled: the chance that it comes twice.
        slowest: it takes up to so many seconds, and so overtakes others.
        away: the chance that a site is away for good, from some instant on.
    """

    lost: float = 0.1
    reported: float = 0.5
    doubled: float = 0.2
    slowest: float = 20.0
    away: float = 0.0


@dataclass
class Unreliable:
    """Carries messages to sites in this process through a bad network.

    The time stands still while nobody sleeps: ``now`` and ``sleep`` are the clock of
    whoever waits for answers.
    """

    answer: Answer
    rng: np.random.Generator
    faults: Faults = field(default_factory=Faults)
    time: float = 0.0
    gone: set[int] = field(default_factory=set)
    _order: Iterator[int] = field(default_factory=itertools.count)
    _to_sites: list[tuple[float, int, int, Message]] = field(default_factory=list)
    _to_coordinator: list[tuple[float, int, int, Message | Lost]] = field(
        default_factory=list
    )

    def now(self) -> float:
        """Return the time in seconds."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Let the time go on, and the sites answer what has reached them."""
        self.time += seconds
        while self._to_sites and self._to_sites[0][0] <= self.time:
            _, _, node, message = heapq.heappop(self._to_sites)
            if self.faults.away and self.rng.random() < self.faults.away:
                self.gone.add(node)
            if node not in self.gone:
                answer = self.answer(node, message)
                self._pass_on(self._to_coordinator, node, answer, answer.about)

    def send(self, node: int, message: Message, *, seconds: float) -> None:
        """Put a message on its way."""
        del seconds
        self._pass_on(self._to_sites, node, message, message.digest())

    def receive(self) -> Iterator[tuple[int, Message | Lost]]:
        """Return what has reached the coordinator by now."""
        while self._to_coordinator and self._to_coordinator[0][0] <= self.time:
            _, _, node, answer = heapq.heappop(self._to_coordinator)
            yield node, answer

    def _pass_on(
        self,
        queue: list[tuple[float, int, int, Message]]
        | list[tuple[float, int, int, Message | Lost]],
        node: int,
        message: Message,
        about: bytes,
    ) -> None:
        for _ in range(1 + (self.rng.random() < self.faults.doubled)):
            at = self.time + self.rng.random() ** 3 * self.faults.slowest
            place = next(self._order)
            if self.rng.random() >= self.faults.lost:
                heapq.heappush(queue, (at, place, node, message))  # type: ignore[misc]
            elif self.rng.random() < self.faults.reported:
                heapq.heappush(self._to_coordinator, (at, place, node, Lost(about)))


SITES = (1, 2, 3, 4)
SURVIVORS = 3
POLICY = Policy(
    population="people",
    privacy=("distributed", "local"),
    coordinators=("*",),
    models=("*",),
    epsilon_per_plan=Fraction(1),
    epsilon_total=Fraction(1),
    sessions_per_plan=1,
    sites=2,
    require_roster=False,
)
"""A site that is charged twice would exceed it, and decline."""
PLANS = [
    recommend(PublicFacts(400, 0.3), privacy, edges=Warped(8), cohort=Cohort(SURVIVORS))
    for privacy in (DistributedDP("1"), LocalDP("1", "laplace"))
]


class KilledError(Exception):
    """The coordinator's process is gone."""


def run_in_process(sessions: int, rng: np.random.Generator) -> Iterator[str]:
    """Run sessions over bad networks; yield how each ended."""
    began = time.monotonic()
    for number in range(1, sessions + 1):
        with tempfile.TemporaryDirectory(prefix="discreet-bench-") as place:
            yield _one_session(Path(place), rng)
        if not number % 100:
            took = time.monotonic() - began
            print(f"{number} sessions in {took:.0f} s", flush=True)


def _one_session(folder: Path, rng: np.random.Generator) -> str:
    plan = PLANS[rng.integers(len(PLANS))]
    faults = Faults(
        lost=rng.uniform(0, 0.3),
        reported=rng.random(),
        doubled=rng.uniform(0, 0.5),
        slowest=rng.uniform(0, 30),
        away=0.01 * (rng.random() < 0.3),
    )
    carrier = Unreliable(_sites(folder, rng).answer, rng, faults)
    exchange = Retrying(carrier, 120.0, carrier.now, carrier.sleep)
    saved = b""

    def keep(journal: bytes) -> None:
        nonlocal saved
        saved = journal

    kill_in = int(rng.integers(1, 12)) if rng.random() < 0.5 else 0
    calls = 0

    def mortal(messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        nonlocal calls
        calls += 1
        if calls == kill_in and rng.random() < 0.5:
            raise KilledError
        answers = exchange(messages)
        if calls == kill_in:
            raise KilledError
        return answers

    journal = Journal(SITES, keep=keep)
    while True:
        try:
            releases = Coordinator(
                plan, SITES, journal.through(mortal), journal.draw
            ).run()
        except AbortedError:
            enough = len(SITES) - len(carrier.gone) >= SURVIVORS
            return "aborted with enough sites" if enough else "aborted, as it must be"
        except KilledError:
            journal = Journal.of(saved, keep=keep)
        else:
            return _judged(folder, releases[0])


def _sites(folder: Path, rng: np.random.Generator) -> InProcess:
    onces = {place: InMemory() for place in SITES}
    data = {}
    for place in SITES:
        Ledger.new(folder / f"{place}.sqlite").close()
        labels = rng.random(100) < 0.3
        data[place] = Examples(rng.random(100), labels)

    def site(place: int) -> Site:
        return Site(
            lambda _: data[place],
            POLICY,
            _Keeping(folder / f"{place}.sqlite", limits=POLICY.limits()),
            SYSTEM,
            onces[place],
        )

    return InProcess({k: partial(site, k) for k in SITES}, lambda *_: None)


class _Keeping(Ledger):
    """A ledger that keeps its answers after the end, to be compared with the sum."""

    def purge(self, sessions: Iterable[bytes]) -> None:
        del sessions


def _judged(folder: Path, release: Release) -> str:
    """Find the sites that are in the sum among those that paid."""
    messages = []
    for place in SITES:
        path = folder / f"{place}.sqlite"
        if not path.exists():
            continue
        with Ledger(path) as ledger:
            sent = [
                np.frombuffer(message, "<i8")
                for use in ledger.uses("people")
                if (message := ledger.replay(use.session, use.round)) is not None
            ]
            if ledger.spent("people").epsilon < len(sent):
                return "WRONG: a charge"
            messages += sent
    for chosen in combinations(messages, release.contributors):
        if np.array_equal(np.sum(chosen, axis=0), release.total):
            return "revealed"
    return "WRONG: a sum"

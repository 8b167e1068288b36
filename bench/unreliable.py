"""A carrier that loses, delays, doubles and reorders letters, on a clock of its own."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from discreet.runtime.delivery import Lost
from discreet.site.letters import Letter

Answer = Callable[[int, Letter], Letter]
"""Hands a letter to the site of a node, returns what it answers."""


@dataclass(frozen=True, slots=True)
class Faults:
    """How a carrier fails, for each letter and each answer on its own.

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
    """Carries letters to sites in this process through a bad network.

    The time stands still while nobody sleeps: ``now`` and ``sleep`` are the clock of
    whoever waits for answers.
    """

    answer: Answer
    rng: np.random.Generator
    faults: Faults = field(default_factory=Faults)
    time: float = 0.0
    gone: set[int] = field(default_factory=set)
    _order: Iterator[int] = field(default_factory=itertools.count)
    _to_sites: list[tuple[float, int, int, Letter]] = field(default_factory=list)
    _to_coordinator: list[tuple[float, int, int, Letter | Lost]] = field(
        default_factory=list
    )

    def now(self) -> float:
        """Return the time in seconds."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Let the time go on, and the sites answer what has reached them."""
        self.time += seconds
        while self._to_sites and self._to_sites[0][0] <= self.time:
            _, _, node, letter = heapq.heappop(self._to_sites)
            if self.faults.away and self.rng.random() < self.faults.away:
                self.gone.add(node)
            if node not in self.gone:
                answer = self.answer(node, letter)
                self._pass_on(self._to_coordinator, node, answer, answer.about)

    def send(self, node: int, letter: Letter, *, seconds: float) -> None:
        """Put a letter on its way."""
        del seconds
        self._pass_on(self._to_sites, node, letter, letter.digest())

    def receive(self) -> Iterator[tuple[int, Letter | Lost]]:
        """Return what has reached the coordinator by now."""
        while self._to_coordinator and self._to_coordinator[0][0] <= self.time:
            _, _, node, answer = heapq.heappop(self._to_coordinator)
            yield node, answer

    def _pass_on(
        self,
        queue: list[tuple[float, int, int, Letter]]
        | list[tuple[float, int, int, Letter | Lost]],
        node: int,
        letter: Letter,
        about: bytes,
    ) -> None:
        for _ in range(1 + (self.rng.random() < self.faults.doubled)):
            at = self.time + self.rng.random() ** 3 * self.faults.slowest
            place = next(self._order)
            if self.rng.random() >= self.faults.lost:
                heapq.heappush(queue, (at, place, node, letter))  # type: ignore[misc]
            elif self.rng.random() < self.faults.reported:
                heapq.heappush(self._to_coordinator, (at, place, node, Lost(about)))

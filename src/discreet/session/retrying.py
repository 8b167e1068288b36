"""Retries, over a transport that loses, delays, doubles and reorders messages.

A site that does not answer is sent the same message again until the step is over. That
is safe because a site answers a known message with the very bytes of its first answer.
A message that the transport reports as lost is not silence: a node may have been away
for a moment, or the message may have expired.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from discreet.errors import InputError
from discreet.session.messages import Kind, Message

SHORTEST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 2.0
STEP_SECONDS: Final = 120.0
"""How long a step waits for a site; a later one counts as silent. Flower lets a site
that was killed and started again in within a third of it."""
WAIT_SECONDS: Final = 300.0
"""How long either end waits for the other to come."""
END_SECONDS: Final = 30.0
"""How long the last message waits: the result does not depend on who has read it, and
a site whose connection was cut is let in again within 20 s."""
AGAIN_SECONDS: Final = 1.0
"""How soon a message that was reported lost is sent again."""
SILENT_SECONDS: Final = 15.0
"""How soon a message is sent again of which nothing is known."""


def pause(waited: float) -> float:
    """Return how long to wait before asking again: a tenth of the time until now.

    So no answer is noticed later than a tenth of the time that it took, and a wait
    of hours asks every two seconds.

    >>> pause(0.0), pause(5.0), pause(3600.0)
    (0.05, 0.5, 2.0)
    """
    return min(max(waited / 10, SHORTEST_PAUSE), LONGEST_PAUSE)


@dataclass(frozen=True, slots=True)
class Lost:
    """The transport reports that a message will not be answered."""

    about: bytes
    """The message's digest."""
    for_good: bool = False
    """Whether sending it again is useless: the site's program failed on it."""


class Transport(Protocol):
    """Carries single messages, as well as it can: the port of a transport.

    It may lose, delay, double and reorder them; ``Retrying`` makes up for that.
    """

    def send(self, node: int, message: Message, *, seconds: float) -> None:
        """Pass a message on; nobody waits for its answer after so many seconds."""
        ...

    def receive(self) -> Iterable[tuple[int, Message | Lost]]:
        """Return what has arrived since the last call, by node."""
        ...


Waiting: TypeAlias = Callable[[Collection[int], float], None]
"""Told who is waited for, or who is there, and how many seconds are left."""


@dataclass
class Retrying:
    """A transport that sends a message until it is answered or its step is over.

    Args:
        transport: carries single messages.
        step_seconds: how long to wait for the slowest site.
        now: the time in seconds; any clock that does not go back.
        sleep: waits for some seconds.
        waiting: told before each wait.
    """

    transport: Transport
    step_seconds: float = STEP_SECONDS
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    waiting: Waiting | None = None
    _due: dict[int, float] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if not self.step_seconds > 0:
            raise InputError("a step must wait a positive number of seconds")

    def __call__(self, messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        """Return the answers by node; silent and late nodes are left out."""
        digests = {node: message.digest() for node, message in messages.items()}
        began = self.now()
        deadline = began + self._patience(messages)
        self._due = dict.fromkeys(messages, began)
        answers: dict[int, Message] = {}
        while self._due and self.now() <= deadline:
            self._send_what_is_due(messages, deadline)
            for node, answer in self.transport.receive():
                if node not in self._due or answer.about != digests[node]:
                    continue  # late, doubled, or of another step
                match answer:
                    case Message():
                        answers[node] = answer
                    case Lost(for_good=True):
                        answers[node] = messages[node].reply(Kind.DECLINED, site=0)
                    case Lost():
                        soon = self.now() + AGAIN_SECONDS
                        self._due[node] = min(self._due[node], soon)
                        continue
                del self._due[node]
            if self._due:
                if self.waiting is not None:
                    self.waiting(list(self._due), deadline - self.now())
                self.sleep(pause(self.now() - began))
        return answers

    def _patience(self, messages: Mapping[int, Message]) -> float:
        if all(message.kind is Kind.END for message in messages.values()):
            return min(self.step_seconds, END_SECONDS)
        return self.step_seconds

    def _send_what_is_due(
        self, messages: Mapping[int, Message], deadline: float
    ) -> None:
        now = self.now()
        for node, due in self._due.items():
            if due <= now < deadline:
                self.transport.send(node, messages[node], seconds=deadline - now)
                self._due[node] = now + SILENT_SECONDS

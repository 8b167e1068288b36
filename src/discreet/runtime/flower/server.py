"""The coordinator over a Flower grid: letters out, answers in, until a deadline."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from flwr.app import ArrayRecord, Message
from flwr.serverapp import Grid

from discreet.errors import DiscreetError, InputError
from discreet.runtime.flower.records import (
    MESSAGE_TYPE,
    MODEL,
    from_content,
    to_content,
)
from discreet.site.letters import Kind, Letter

POLL_SECONDS: Final = 0.2
STEP_SECONDS: Final = 60.0
"""How long a step waits for a site; who is later counts as silent."""


@dataclass(frozen=True)
class GridExchange:
    """Carries letters through a grid.

    Args:
        grid: reaches the nodes.
        step_seconds: how long to wait for the slowest of them.
        model: travels with the invitations, when sites score with it.
    """

    grid: Grid
    step_seconds: float = STEP_SECONDS
    model: ArrayRecord | None = None

    def __post_init__(self) -> None:
        if not self.step_seconds > 0:
            raise InputError("a step must wait a positive number of seconds")

    def __call__(self, letters: Mapping[int, Letter], /) -> Mapping[int, Letter]:
        """Send every letter; return the answers that came in time, by node."""
        messages = [self._message(node, letter) for node, letter in letters.items()]
        sent = list(self.grid.push_messages(messages))
        node_of = {
            identifier: node
            for identifier, node in zip(sent, letters, strict=False)
            if identifier
        }
        answers: dict[int, Letter] = {}
        deadline = time.monotonic() + self.step_seconds
        while node_of:
            for reply in self.grid.pull_messages(list(node_of)):
                node = node_of.pop(reply.metadata.reply_to_message_id, None)
                answer = _read(reply)
                if node is not None and answer is not None:
                    answers[node] = answer
            if not node_of or time.monotonic() > deadline:
                break
            time.sleep(POLL_SECONDS)
        return answers

    def _message(self, node: int, letter: Letter) -> Message:
        content = to_content(letter)
        if self.model is not None and letter.kind is Kind.INVITE:
            content[MODEL] = self.model
        return Message(
            content, dst_node_id=node, message_type=MESSAGE_TYPE, ttl=self.step_seconds
        )


def connected(grid: Grid, *, wanted: int, wait_seconds: float) -> list[int]:
    """Wait until so many nodes are connected; return whoever is there in the end."""
    deadline = time.monotonic() + wait_seconds
    while True:
        nodes = sorted(grid.get_node_ids())
        if len(nodes) >= wanted or time.monotonic() > deadline:
            return nodes
        time.sleep(POLL_SECONDS)


def _read(reply: Message) -> Letter | None:
    """Return the letter in a reply; an error or a foreign reply is silence."""
    if reply.has_error():
        return None
    try:
        return from_content(reply.content)
    except DiscreetError:
        return None

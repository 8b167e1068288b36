"""The coordinator over a Flower grid: messages out, answers and errors in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from flwr.app import ArrayRecord, Message
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from discreet.errors import DiscreetError
from discreet.session.messages import Kind
from discreet.session.messages import Message as SessionMessage
from discreet.session.retrying import Lost
from discreet.transport.flower.records import (
    MESSAGE_TYPE,
    MODEL,
    from_content,
    to_content,
)

_FOR_GOOD: Final = frozenset(
    {
        ErrorCode.LOAD_CLIENT_APP_EXCEPTION,
        ErrorCode.CLIENT_APP_RAISED_EXCEPTION,
        ErrorCode.MOD_FAILED_PRECONDITION,
        ErrorCode.INVALID_FAB,
    }
)
"""The site's program was reached and failed; every other error is the transport's."""


@dataclass
class GridTransport:
    """Carries single messages through a grid.

    Args:
        grid: reaches the nodes.
        model: travels with the invitations, when sites score with it.
        node_ids: the grid's own number of each node; the same number if not given.
    """

    grid: Grid
    model: ArrayRecord | None = None
    node_ids: Mapping[int, int] | None = None
    _sent: dict[str, tuple[int, bytes]] = field(default_factory=dict, init=False)
    _refused: list[tuple[int, Lost]] = field(default_factory=list, init=False)

    def send(self, node: int, outgoing: SessionMessage, *, seconds: float) -> None:
        """Push a message: one at a time, since a grid leaves out what it refuses."""
        content = to_content(outgoing)
        if self.model is not None and outgoing.kind is Kind.INVITE:
            content[MODEL] = self.model
        message = Message(
            content,
            dst_node_id=node if self.node_ids is None else self.node_ids[node],
            message_type=MESSAGE_TYPE,
            ttl=seconds,
        )
        pushed = [name for name in self.grid.push_messages([message]) if name]
        if not pushed:
            self._refused.append((node, Lost(outgoing.digest())))
        for name in pushed:
            self._sent[name] = node, outgoing.digest()

    def receive(self) -> Iterator[tuple[int, SessionMessage | Lost]]:
        """Pull what has come: messages, and what Flower reports about the others."""
        yield from self._refused
        self._refused.clear()
        if not self._sent:
            return
        for reply in self.grid.pull_messages(list(self._sent)):
            sent = self._sent.pop(reply.metadata.reply_to_message_id, None)
            if sent is not None:
                node, about = sent
                yield node, _read(reply, about)

    def connected(self) -> list[int]:
        """Return the nodes that are connected now."""
        present = set(self.grid.get_node_ids())
        if self.node_ids is None:
            return sorted(present)
        return [node for node, number in self.node_ids.items() if number in present]


def _read(reply: Message, about: bytes) -> SessionMessage | Lost:
    """Return the message in a reply; any other content counts as a failed site."""
    if reply.has_error():
        return Lost(about, for_good=reply.error.code in _FOR_GOOD)
    try:
        return from_content(reply.content)
    except DiscreetError:
        return Lost(about, for_good=True)

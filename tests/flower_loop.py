"""A grid in this process: Flower's messages, as bytes, between its apps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from flwr.app import Context, Error, Message
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents


@dataclass
class Node:
    """A SuperNode: what Flower keeps for it, and what its app does."""

    app: Callable[[Message, Context], Message]
    context: Context


@dataclass
class LoopGrid:
    """Hands messages to apps in this process, as Flower would."""

    nodes: dict[int, Node]
    silent: frozenset[int] = frozenset()
    failing: frozenset[int] = frozenset()
    unavailable: dict[int, int] = field(default_factory=dict)
    """Flower forgets this many more of a node's answers, as of one that has left."""
    replies: dict[str, Message] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def get_node_ids(self) -> list[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        identifiers = []
        for message in messages:
            identifier = f"message {next(self.numbers)}"
            message.metadata.__dict__["_message_id"] = identifier
            identifiers.append(identifier)
            place = message.metadata.dst_node_id
            if place in self.silent:
                continue
            if place in self.failing:
                reply = Message(Error(1, "secret detail"), reply_to=message)
            else:
                node = self.nodes[place]
                reply = travelled(node.app(travelled(message), node.context))
            if self.unavailable.get(place):
                self.unavailable[place] -= 1
                reply = Message(Error(5, "Node Unavailable"), reply_to=message)
            self.replies[identifier] = reply
        return identifiers

    def pull_messages(self, identifiers: Iterable[str]) -> list[Message]:
        return [self.replies.pop(i) for i in identifiers if i in self.replies]


def travelled(message: Message) -> Message:
    """Return a message as its receiver reads it, from the bytes that Flower sends."""
    parts = get_all_nested_objects(message)
    contents = {name: part.deflate() for name, part in parts.items()}
    read: Message = inflate_object_from_contents(message.object_id, contents)
    # What travels does not hold its own name.
    read.metadata.__dict__["_message_id"] = message.metadata.message_id
    return read

"""A grid in this process: Flower's messages between its apps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from flwr.app import Context, Error, Message, RecordDict

# A message names its sender, which Flower's processes set here and nowhere public.
from flwr.supercore.task_identity import TaskIdentity

from discreet.privacy.ledger import Ledger
from discreet.secret_files import write_secret
from discreet.session import policy as policyfile
from discreet.session.policy import Policy

TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1


@dataclass
class Node:
    """A SuperNode: what Flower keeps for it, and what its app does."""

    app: Callable[[Message, Context], Message]
    context: Context


def equipped(
    app: Callable[[Message, Context], Message],
    number: int,
    folder: Path,
    policy: Policy,
    identity: Ed25519PrivateKey,
) -> Node:
    """A node whose configuration names a policy, a ledger and a key in a folder."""
    folder.mkdir(exist_ok=True)
    (folder / "policy.toml").write_text(policyfile.dumps(policy))
    if not (folder / "ledger.sqlite").exists():
        Ledger.new(folder / "ledger.sqlite").close()
    pem = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    write_secret(folder / "identity.key", identity.private_bytes(*pem))
    config = {
        "discreet-policy": str(folder / "policy.toml"),
        "discreet-identity": str(folder / "identity.key"),
    }
    return Node(app, Context(1, number, config, RecordDict(), {}))  # type: ignore[arg-type]


@dataclass
class LoopGrid:
    """Hands messages to apps in this process, as Flower would."""

    nodes: dict[int, Node]
    silent: frozenset[int] = frozenset()
    failing: dict[int, int] = field(default_factory=dict)
    """Flower replies with an error to this many more messages of a node."""
    replies: dict[str, Message] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    """What the apps raised: Flower would tell the coordinator."""
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def get_node_ids(self) -> list[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        identifiers = []
        for message in messages:
            identifier = f"message {next(self.numbers)}"
            message.metadata.__dict__["_message_id"] = identifier
            identifiers.append(identifier)
            number = message.metadata.dst_node_id
            if number not in self.silent:
                self.replies[identifier] = self._reply(number, deepcopy(message))
        return identifiers

    def _reply(self, number: int, message: Message) -> Message:
        """Let the app answer; Flower may forget the answer of a node that went away."""
        node = self.nodes[number]
        try:
            reply = deepcopy(node.app(message, node.context))
        except Exception as error:  # noqa: BLE001 - as Flower does
            self.errors.append(str(error))
            return Message(Error(2, str(error)), reply_to=message)
        if self.failing.get(number):
            self.failing[number] -= 1
            return Message(Error(5, "Node Unavailable"), reply_to=message)
        return reply

    def pull_messages(self, identifiers: Iterable[str]) -> list[Message]:
        return [self.replies.pop(i) for i in identifiers if i in self.replies]


class InMemoryGrid(LoopGrid):
    """Called like the grid of Flower's simulation engine."""

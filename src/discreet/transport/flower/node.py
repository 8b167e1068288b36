"""A site as a node of Flower, in its own process: no SuperNode runs beside it.

Flower's SuperNode asks for messages every three seconds, hands them to another process
that would run the app which the coordinator sent along, and looks every half second
whether an answer has come. Here the site speaks the same protocol with its node key
and answers by itself, so that no code but its own meets its data, no process is left
behind, and every failure of the connection has its own sentence.
"""

from __future__ import annotations

import threading
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Self

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Message
from flwr.app.message import remove_content_from_message
from flwr.common.constant import HEARTBEAT_MIN_INTERVAL, TIMESTAMP_HEADER
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import ObjectTree
from flwr.proto.node_pb2 import Node
from flwr.supercore.constant import (
    FLEET_HTTP_PUBLIC_KEY_HEADER,
    FLEET_HTTP_SIGNATURE_HEADER,
)
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_protobuf_utils import (
    make_confirm_message_received_fn_protobuf,
    make_pull_object_fn_protobuf,
    make_push_object_fn_protobuf,
)
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    ObjectPushError,
    pull_and_inflate_object_from_tree,
)
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message
from flwr.supercore.protobuf.client import ProtobufCall, ProtobufRequestContext
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.fleet_http_client import FleetHttpClient

from discreet.transport.addresses import host_and_port
from discreet.transport.flower.reaching import (
    clock_ahead,
    explained,
    no_coordinator,
    tolerated,
    trusting,
)
from discreet.transport.keys import CA, SiteKeys

BEAT_SECONDS: Final = 4.0
REQUEST_SECONDS: Final = 30.0
PROBE_SECONDS: Final = 5.0
IDLE_SECONDS: Final = 3.0
LEAVE_SECONDS: Final = 2.0
PULL_SECONDS: Final = 20.0
FIRST_PULL_SECONDS: Final = 0.05
"""How soon a part of a message that is still being sent is asked for again."""


class _Signing:
    """Signs the time of every request with the node key, as Flower asks for it.

    Flower's own class for this loads a web framework, a second at every start.
    """

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        self._public = b64encode(public_key_to_bytes(key.public_key())).decode()

    def intercept(
        self, context: ProtobufRequestContext, call_next: ProtobufCall
    ) -> httpx.Response:
        """Add the three headers."""
        now = datetime.now(UTC).isoformat()
        signature = sign_message(self._key, now.encode())
        context.request.headers[FLEET_HTTP_PUBLIC_KEY_HEADER] = self._public
        context.request.headers[TIMESTAMP_HEADER] = now
        context.request.headers[FLEET_HTTP_SIGNATURE_HEADER] = b64encode(
            signature
        ).decode()
        return call_next(context)


@dataclass
class FleetNode:
    """A connection with a node key: a context that says goodbye when it fails.

    After a session it does not: Flower forgets the answers of a node that has left,
    and forgets the node by itself when its heartbeats end.
    """

    keys: SiteKeys
    address: str
    node: Node = field(default_factory=Node, init=False)
    _client: FleetHttpClient = field(init=False, repr=False)
    _left: threading.Event = field(default_factory=threading.Event, init=False)

    def __enter__(self) -> Self:
        """Connect."""
        key = self.keys.node_key()
        self._client = _client(self.keys, self.address, REQUEST_SECONDS)
        try:
            answer = self._client.ActivateNode(
                ActivateNodeRequest(
                    public_key=public_key_to_bytes(key.public_key()),
                    heartbeat_interval=HEARTBEAT_MIN_INTERVAL,
                )
            )
        except BaseException:
            self._client.close()
            raise
        self.node = Node(node_id=answer.node_id)
        threading.Thread(target=self._beat, daemon=True).start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Stop the heartbeats; leave at once when something went wrong."""
        self._left.set()
        if error is not None and not isinstance(error, httpx.TransportError):
            self._client._client.timeout = LEAVE_SECONDS  # noqa: SLF001 - it has no door
            with suppress(httpx.HTTPError, ValueError):
                leave = DeactivateNodeRequest(node_id=self.node.node_id)
                self._client.DeactivateNode(leave)
        self._client.close()

    def _beat(self) -> None:
        """Say that this node is there, also while an answer takes long."""
        beat = SendNodeHeartbeatRequest(
            node=self.node, heartbeat_interval=HEARTBEAT_MIN_INTERVAL
        )
        while not self._left.wait(BEAT_SECONDS):
            # Whoever answers letters finds out by itself that nobody is there.
            with suppress(httpx.HTTPError, ValueError, RuntimeError):
                self._client.SendNodeHeartbeat(beat)

    def receive(self) -> Message | None:
        """Return the next message, None if there is none."""
        pulled = self._client.PullMessages(PullMessagesRequest(node=self.node))
        if not pulled.messages_list:
            return None
        run_id = pulled.messages_list[0].metadata.run_id
        tree = pulled.message_object_trees[0]
        message = pull_parts(self._client, self.node, run_id, tree)
        if message is None:
            return None  # the coordinator sends it again
        # What travels does not hold its own name.
        message.metadata.__dict__["_message_id"] = tree.object_id
        return message

    def send(self, reply: Message) -> None:
        """Send an answer; one that is lost is asked for again."""
        reply.metadata.__dict__["_message_id"] = reply.object_id
        run_id = reply.metadata.run_id
        with no_object_id_recompute():
            pushed = self._client.PushMessages(
                PushMessagesRequest(
                    node=self.node,
                    messages_list=[
                        message_to_proto(remove_content_from_message(reply))
                    ],
                    message_object_trees=[get_object_tree(reply)],
                    clientapp_runtime_list=[0.0],
                )
            )
            push = make_push_object_fn_protobuf(
                self._client.PushObject, self.node, run_id, pushed.session_id
            )
            wanted = set(pushed.objects_to_push)
            with suppress(ObjectPushError):
                for name, part in get_all_nested_objects(reply).items():
                    if name in wanted:
                        push(name, part.deflate())


def pull_parts(
    client: FleetHttpClient | RuntimeHttpClient,
    node: Node,
    run_id: int,
    tree: ObjectTree,
) -> Message | None:
    """Pull the parts of a message; None when they do not all come soon.

    Flower waits a second, and up to two hours, for parts that were announced.
    """
    try:
        message: Message = pull_and_inflate_object_from_tree(
            tree,
            make_pull_object_fn_protobuf(client.PullObject, node, run_id),
            make_confirm_message_received_fn_protobuf(
                client.ConfirmMessageReceived, node, run_id
            ),
            return_type=Message,
            max_time=PULL_SECONDS,
            initial_backoff=FIRST_PULL_SECONDS,
            backoff_cap=1.0,
        )
    except ObjectPullError:
        return None
    return message


def _client(keys: SiteKeys, address: str, seconds: float) -> FleetHttpClient:
    host, port = host_and_port(address)
    client = FleetHttpClient(
        f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        interceptors=[_Signing(keys.node_key())],
        verify=(trusted := trusting(keys.folder / CA)),
        timeout=seconds,
    )
    # A SuperLink hangs up after five idle seconds, as httpx does by default: of two
    # that do so at the same time, one may just be sending. Flower's client has no
    # argument for it.
    client._client.close()  # noqa: SLF001
    client._client = httpx.Client(  # noqa: SLF001
        verify=trusted,
        timeout=seconds,
        limits=httpx.Limits(keepalive_expiry=IDLE_SECONDS),
    )
    return client


def probe(keys: SiteKeys, address: str) -> float | None:
    """Reach a coordinator without joining; return how far this clock is ahead.

    A heartbeat of no node is refused by everybody: by whoever is no coordinator, by
    the door when it does not know the node key, by Flower when the clock is wrong,
    and by Flower, too, when all is well.

    Raises:
        UnreachableError: it cannot be reached; nothing else was asked.
    """
    beat = SendNodeHeartbeatRequest(heartbeat_interval=HEARTBEAT_MIN_INTERVAL)
    client = _client(keys, address, PROBE_SECONDS)
    try:
        client.SendNodeHeartbeat(beat)
    except httpx.HTTPStatusError as error:
        why, ahead = explained(error, address), clock_ahead(error.response)
        welcome = error.response.status_code == httpx.codes.UNAUTHORIZED
        if welcome and (ahead is None or tolerated(ahead)):
            return ahead
        raise why from error
    except httpx.HTTPError as error:
        raise explained(error, address) from error
    except ValueError:
        raise no_coordinator(address, 200) from None
    finally:
        client.close()
    raise no_coordinator(address, 200)

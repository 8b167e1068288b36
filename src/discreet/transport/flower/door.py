"""The door of a coordinator's SuperLink: who may ask it for what, and how much.

Flower serves sites, executors and its control interface at one port, and the control
interface has no accounts: whoever reaches the port could register a node, stop the
run or strike a site off. This door stands before Flower. The control interface opens
to whoever shows the secret of the coordinator's own process; what sites need opens to
whoever names a node key of the roster, and behind it Flower checks that the key is his;
to executors it checks tokens.

A body is announced, and refused before a byte of it is read when it is longer than
any letter: Flower decodes a body before it asks who sent it.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final, TypeAlias

import httpx
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER
from flwr.supercore.protobuf.client import ProtobufCall, ProtobufRequestContext
from flwr.superlink import extensions
from starlette.middleware import Middleware

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Scope]]
Send: TypeAlias = Callable[[Scope], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADER: Final = "x-discreet-coordinator"
_NODE_KEY: Final = FLEET_HTTP_PUBLIC_KEY_HEADER.lower().encode()
_FLEET: Final = "/v1/fleet/"
_RUNTIME: Final = "/v1/runtime/"
_REFUSED: Final = {
    403: b"this is for the coordinator's own process and the node keys of its roster",
    411: b"announce the length of the body",
    413: b"the body is longer than any letter",
}


class Door:
    """ASGI middleware; ``secret`` is what the coordinator's process knows."""

    def __init__(
        self, app: App, secret: bytes, most_bytes: int, guests: frozenset[bytes]
    ) -> None:
        self._app = app
        self._guests = guests
        self._secret = proof(secret).encode()
        self._most = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it unread."""
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        status = self._refusal(scope) if scope["type"] == "http" else 403
        if status is None:
            return await self._app(scope, receive, send)
        body = _REFUSED[status]
        headers = [(b"content-type", b"text/plain"), (b"connection", b"close")]
        await send(
            {"type": "http.response.start", "status": status, "headers": headers}
        )
        return await send({"type": "http.response.body", "body": body})

    def _refusal(self, scope: Scope) -> int | None:
        headers = dict(scope["headers"])
        shown = headers.get(HEADER.encode(), b"")
        known = hmac.compare_digest(shown, self._secret)
        if not known and not self._is_guest(scope["path"], headers):
            return 403
        if b"transfer-encoding" in headers:
            return 411
        announced = headers.get(b"content-length", b"0")
        short = announced.isdigit() and len(announced) <= len(str(self._most))
        return None if short and int(announced) <= self._most else 413

    def _is_guest(self, path: str, headers: Mapping[bytes, bytes]) -> bool:
        if path.startswith(_FLEET):
            return headers.get(_NODE_KEY, b"") in self._guests
        return path.startswith(_RUNTIME)


def guests(keys: bytes) -> frozenset[bytes]:
    """Return how public node keys, one after the other in PEM form, are shown."""
    end = b"-----END PUBLIC KEY-----\n"
    return frozenset(b64encode(key + end) for key in keys.split(end) if key)


def proof(secret: bytes) -> str:
    """Return what is shown at the door; it says nothing about the secret."""
    return hmac.digest(secret, b"discreet coordinator", "sha256").hex()


def put_up(secret: bytes, most_bytes: int, admitted: frozenset[bytes]) -> None:
    """Put the door before the SuperLink that this process is about to become.

    Flower asks its extensions for what stands before everything else.
    """
    doors = (Middleware(Door, secret, most_bytes, admitted),)
    extensions.get_middleware = lambda: doors


class Knocking:
    """Shows at the door that a request is the coordinator's own."""

    def __init__(self, secret: bytes) -> None:
        self._proof = proof(secret)

    def intercept(
        self, context: ProtobufRequestContext, call_next: ProtobufCall
    ) -> httpx.Response:
        """Add the proof to a request of Flower's client."""
        context.request.headers[HEADER] = self._proof
        return call_next(context)

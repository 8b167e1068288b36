"""The door of a coordinator's SuperLink: who may ask it for what, and how much.

Flower serves sites, executors and its control interface at one port, and the control
interface has no accounts: whoever reaches the port could register a node, stop the
run or strike a site off. This door stands before Flower. The control interface opens
to whoever shows the secret of the coordinator's own process; what sites need is open
to all, and there Flower checks node keys, and to executors it checks tokens.

A body is announced, and refused before a byte of it is read when it is longer than
any letter: Flower decodes a body before it asks who sent it.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

import httpx
from flwr.supercore.protobuf.client import ProtobufCall, ProtobufRequestContext
from flwr.superlink import extensions
from starlette.middleware import Middleware

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Scope]]
Send: TypeAlias = Callable[[Scope], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADER: Final = "x-discreet-coordinator"
_OPEN: Final = ("/v1/fleet/", "/v1/runtime/")
_REFUSED: Final = {
    403: b"only the coordinator's own process may ask for this",
    411: b"announce the length of the body",
    413: b"the body is longer than any letter",
}


class Door:
    """ASGI middleware; ``secret`` is what the coordinator's process knows."""

    def __init__(self, app: App, secret: bytes, most_bytes: int) -> None:
        self._app = app
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
        if not known and not scope["path"].startswith(_OPEN):
            return 403
        if b"transfer-encoding" in headers:
            return 411
        announced = headers.get(b"content-length", b"0")
        short = announced.isdigit() and len(announced) <= len(str(self._most))
        return None if short and int(announced) <= self._most else 413


def proof(secret: bytes) -> str:
    """Return what is shown at the door; it says nothing about the secret."""
    return hmac.digest(secret, b"discreet coordinator", "sha256").hex()


def put_up(secret: bytes, most_bytes: int) -> None:
    """Put the door before the SuperLink that this process is about to become.

    Flower asks its extensions for what stands before everything else.
    """
    doors = (Middleware(Door, secret=secret, most_bytes=most_bytes),)
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

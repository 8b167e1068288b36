"""The coordinator's end: one port, where every site waits for its next message.

    POST /v1/messages   the site's last answer, or nothing; the reply is the site's next
                        message (200), or 204 when none came in time
    GET /v1/plan        the plan that this coordinator runs
    GET /v1/model       the model file that the plan names, where it serves one
    GET /v1/check       204: this site's signature, clock and plan are accepted

A site holds one request open (long polling): its answer goes up, the next message comes
down. A message stays in the site's slot until it is answered, so that a site whose
connection broke, or whose process was killed, gets it again with its next request.

A request costs nothing before its headers are signed by a site of the roster: a stranger's
body is not read, and a connection that sends no request is closed.
"""

from __future__ import annotations

import asyncio
import asyncio.sslproto
import queue
import resource
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from discreet import failures
from discreet.codec.messages import MalformedMessageError
from discreet.plan import file as planfile
from discreet.plan.plan import Plan
from discreet.session.messages import Kind, Message
from discreet.session.retrying import Lost
from discreet.transport.addresses import TransportError, listening_socket
from discreet.transport.https.signing import (
    CHECK,
    MESSAGES,
    MODEL_PATH,
    PLAN_PATH,
    Admitted,
    Gate,
    SignatureError,
    SignedRequest,
)
from discreet.transport.keys import CERTIFICATE, SERVER_KEY, CoordinatorKeys

LONGEST_WAIT: Final = 30.0
"""Seconds that a request may wait for a message; proxies cut requests after a minute."""
HEAD_SECONDS: Final = 15.0
"""Seconds in which a connection must send the head of a request."""
BODY_SECONDS: Final = 30.0
SLOWEST_BYTES: Final = 20_000.0
"""Bytes a second that a body may take at least, beyond its first seconds."""
PIECE_BYTES: Final = 2**16
"""Of a long reply that are sent at once."""
IDLE_SECONDS: Final = 75
"""Seconds that a connection is kept between two requests."""
GONE_SECONDS: Final = 10.0
"""Seconds without a request after which a site counts as not connected."""
MESSAGE_BYTES: Final = 2**20
"""Room for a message without its numbers: keys, shares, signatures of the sites."""
MOST_AT_ONCE: Final = 8
"""Requests of one site that are open: a site has one, and some that were abandoned."""
MOST_HEADLESS: Final = 500
"""Connections without a request that are kept open; the oldest are closed."""
GREETING_SECONDS: Final = 2.0
"""Seconds in which a TLS handshake ends, when there are too many."""
CLOSE_SECONDS: Final = 0.5
"""Seconds in which the other side closes a connection that was ended."""
STOP_SECONDS: Final = 5.0
_CONNECTION: Final = "discreet.connection"
"""Under which the state of a request (ASGI) has its connection."""


@dataclass
class _Slot:
    """What a coordinator keeps of one site."""

    place: int
    outgoing: bytes | None = None
    about: bytes = b""
    """The digest of the message that the site has not answered."""
    poll: asyncio.Future[None] | None = None
    """The site's open request."""
    seen: float = float("-inf")
    waiting: int = 0

    def wake(self) -> None:
        if self.poll is not None and not self.poll.done():
            self.poll.set_result(None)

    def is_connected(self, now: float) -> bool:
        return self.waiting > 0 or now - self.seen < GONE_SECONDS


_Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


class Mailbox:
    """Carries messages to the sites that have connected.

    It implements ``ListeningTransport``: ``send``, ``receive`` and ``wait`` are called by
    the session's thread, the rest runs in the server's.

    Args:
        sites: the identities that may connect, by name.
        plan: the plan that they may ask about.
        most_bytes: of the body of a request.
        model: the model file that they may fetch.
    """

    def __init__(
        self,
        sites: Mapping[str, bytes],
        plan: Plan,
        most_bytes: int,
        model: bytes | None = None,
    ) -> None:
        self._gate = Gate(sites, plan.digest().hex())
        self._plan = planfile.dumps(plan).encode()
        self._model = model
        self._most = most_bytes
        self._slots = {name: _Slot(place) for place, name in enumerate(sites, 1)}
        self._by_place = {slot.place: slot for slot in self._slots.values()}
        self._arrived: queue.SimpleQueue[tuple[int, Message | Lost]] = (
            queue.SimpleQueue()
        )
        self._news = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    # The session's thread.

    def send(self, node: int, message: Message, *, seconds: float) -> None:
        """Put a message into a site's slot; it stays there until it is answered."""
        del seconds  # a later message replaces it
        raw, digest = message.encode(), message.digest()

        def put() -> None:
            slot = self._by_place[node]
            slot.outgoing, slot.about = raw, digest
            slot.wake()

        self._in_loop(put)

    def receive(self) -> Iterator[tuple[int, Message | Lost]]:
        """Return the answers that have come since the last call."""
        with suppress(queue.Empty):
            while True:
                yield self._arrived.get_nowait()

    def wait(self, seconds: float) -> None:
        """Wait until an answer or a site comes, so many seconds at most."""
        self._news.wait(seconds)
        self._news.clear()

    def connected(self) -> list[int]:
        """Return the places of the sites that are connected now."""
        now = time.monotonic()
        return [s.place for s in self._slots.values() if s.is_connected(now)]

    def close(self) -> None:
        """Let every open request go, and take no other."""

        def wake_all() -> None:
            self._closed = True
            for slot in self._slots.values():
                slot.wake()

        self._in_loop(wake_all)

    def _in_loop(self, action: Callable[[], Any]) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the server has ended
                self._loop.call_soon_threadsafe(action)

    # The server's thread.

    def app(self) -> Starlette:
        """Return the server's application."""
        routes = [
            Route(MESSAGES, self._guarded(self._exchange), methods=["POST"]),
            Route(PLAN_PATH, self._guarded(self._show_plan), methods=["GET"]),
            Route(MODEL_PATH, self._guarded(self._show_model), methods=["GET"]),
            Route(CHECK, self._guarded(self._accept), methods=["GET"]),
        ]
        app = Starlette(routes=routes)
        app.router.redirect_slashes = False  # to the host that a request names
        return app

    def start(self) -> None:
        """Note the loop that serves."""
        self._loop = asyncio.get_running_loop()

    def _guarded(self, handler: _Handler) -> _Handler:
        async def guarded(request: Request) -> Response:
            try:
                return await handler(request)
            except SignatureError as refused:
                status, word = refused.status, refused.word
            except Exception as error:  # noqa: BLE001 - nothing of it leaves
                failures.record(error, doing="serving a request")
                status, word = 500, "failed"
            return Response(word, status, {"connection": "close"})

        return guarded

    def _admit(self, request: Request, *, any_plan: bool = False) -> Admitted:
        if self._closed:
            raise SignatureError(503, "closing")
        pairs = [
            (k.decode("latin-1"), v.decode("latin-1")) for k, v in request.headers.raw
        ]
        headers = dict(pairs)
        if len(headers) != len(pairs):
            raise SignatureError(400, "doubled-header")
        # Not request.url, in which a Host header is parsed, too.
        signed = SignedRequest(request.method, request.scope["path"], headers)
        return self._gate.admit(signed, any_plan=any_plan)

    async def _show_plan(self, request: Request) -> Response:
        self._admit(request, any_plan=True)
        return Response(self._plan, media_type="application/toml")

    async def _show_model(self, request: Request) -> Response:
        self._admit(request, any_plan=True)
        if self._model is None:
            raise SignatureError(404, "no-model")
        return _LongResponse(self._model, media_type="application/octet-stream")

    async def _accept(self, request: Request) -> Response:
        self._admit(request)
        return Response(status_code=204)

    async def _exchange(self, request: Request) -> Response:
        announced = request.headers.get("content-length", "")
        if not announced.isdecimal() or "transfer-encoding" in request.headers:
            raise SignatureError(411, "length")
        if len(announced) > 12 or int(announced) > self._most:
            raise SignatureError(413, "too-large")
        admitted = self._admit(request)
        self._gate.check_order(admitted)
        slot = self._slots[admitted.site]
        if slot.waiting >= MOST_AT_ONCE:
            raise SignatureError(429, "too-many")
        slot.waiting += 1
        try:
            body = await _body(request, int(announced))
            self._gate.check_body(admitted, body)
            slot.wake()  # an abandoned request, or one of an earlier process
            slot.poll = None
            self._news.set()  # the site is connected
            over = body and self._accept_answer(slot, body) is Kind.END
            return (
                Response(status_code=204) if over else await self._next(slot, request)
            )
        finally:
            slot.waiting -= 1
            slot.seen = time.monotonic()

    def _accept_answer(self, slot: _Slot, body: bytes) -> Kind:
        """Keep the answer to the site's message; late and doubled ones cost nothing."""
        try:
            answer = Message.decode(body)
        except MalformedMessageError:
            self._answered(slot, Lost(slot.about, for_good=True))
            raise SignatureError(400, "malformed") from None
        if answer.about == slot.about:
            self._answered(slot, answer)
        return answer.kind

    def _answered(self, slot: _Slot, answer: Message | Lost) -> None:
        if slot.outgoing is not None:
            slot.outgoing = None
            self._arrived.put((slot.place, answer))
            self._news.set()

    async def _next(self, slot: _Slot, request: Request) -> Response:
        """Return the site's next message, as soon as there is one."""
        poll = slot.poll = asyncio.get_running_loop().create_future()
        if slot.outgoing is None:
            left = asyncio.ensure_future(request.receive())  # its connection broke
            await asyncio.wait(
                (poll, left),
                timeout=_wish(request),
                return_when=asyncio.FIRST_COMPLETED,
            )
            left.cancel()
        if slot.poll is not poll or slot.outgoing is None:
            return Response(status_code=204)
        return Response(slot.outgoing, media_type="application/octet-stream")


class _LongResponse(Response):
    """A long body, sent in pieces as the other side takes them in, and fast enough.

    Whole, it would lie in the connection's buffer while the time for the next request
    runs, and be cut off when that ends.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the body."""
        del scope, receive
        head = {"status": self.status_code, "headers": self.raw_headers}
        async with asyncio.timeout(BODY_SECONDS + len(self.body) / SLOWEST_BYTES):
            await send({"type": "http.response.start", **head})
            for start in range(0, len(self.body), PIECE_BYTES):
                piece = bytes(self.body[start : start + PIECE_BYTES])
                more = start + PIECE_BYTES < len(self.body)
                body = {"body": piece, "more_body": more}
                await send({"type": "http.response.body", **body})


def _wish(request: Request) -> float:
    """Return how long a request may wait: what it prefers (RFC 7240), bounded."""
    name, _, seconds = request.headers.get("prefer", "").partition("=")
    if name != "wait" or not (seconds.isdecimal() and len(seconds) < 4):
        return LONGEST_WAIT
    return min(float(seconds), LONGEST_WAIT)


async def _body(request: Request, announced: int) -> bytes:
    """Read a body of the announced length, which the server holds it to, in time."""
    try:
        async with asyncio.timeout(BODY_SECONDS + announced / SLOWEST_BYTES):
            return await request.body()
    except TimeoutError:
        raise SignatureError(408, "slow") from None
    except ClientDisconnect:
        raise SignatureError(400, "left") from None


class _Connection(asyncio.Protocol):
    """Hands a connection to uvicorn, and ends it when it sends no request in time.

    uvicorn gives a connection that has sent one byte as long as it likes. Here the time
    runs from the first byte, and ``_telling`` says when a request has come.

    Args:
        protocol: makes uvicorn's own connection, given the state of its requests.
        headless: all connections of this port that have sent no request.
    """

    def __init__(
        self,
        protocol: Callable[[dict[str, Any]], asyncio.Protocol],
        headless: dict[_Connection, None],
    ) -> None:
        self._http = protocol({_CONNECTION: self})
        self._headless = headless
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    # What asyncio calls: uvicorn's connection gets all of it.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the time for the first request."""
        self._transport = cast("asyncio.Transport", transport)
        self._http.connection_made(transport)
        self._expect_head(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time."""
        self._transport = None
        self._got_head()
        self._http.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass on what came."""
        self._http.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass on that no more comes."""
        return self._http.eof_received()

    def pause_writing(self) -> None:
        """Pass on that the other side does not keep up."""
        self._http.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the other side keeps up again."""
        self._http.resume_writing()

    # What the application's wrapper calls.

    def begin(self) -> None:
        """Stop the time: there is a request."""
        self._got_head()

    def end(self) -> None:
        """Start the time for the next request."""
        self._expect_head(IDLE_SECONDS)

    def _expect_head(self, seconds: float) -> None:
        self._got_head()
        if self._transport is None:  # it was closed by the other side
            return
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(seconds, self._transport.abort)
        self._headless[self] = None
        if len(self._headless) > MOST_HEADLESS:
            next(iter(self._headless))._abort()  # noqa: SLF001 - of this class

    def _got_head(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._headless.pop(self, None)

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _telling(app: ASGIApp) -> ASGIApp:
    """Return an application that tells a connection when its requests begin and end."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        connection: _Connection = scope["state"][_CONNECTION]
        connection.begin()
        try:
            await app(scope, receive, send)
        finally:
            connection.end()

    return served


class GuardedServer:
    """Accepts connections itself, so that TLS handshakes are few and end in time.

    asyncio's own server waits a minute for each of any number of them. uvicorn gets no
    socket to listen at; it serves the connections that are made here.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        self._config = config
        self._server = uvicorn.Server(config)
        self._headless: dict[_Connection, None] = {}

    @property
    def started(self) -> bool:
        """Whether connections are served."""
        return self._server.started

    def stop(self) -> None:
        """Let ``serve`` end soon; another thread may call it."""
        self._server.should_exit = True

    async def serve(self, listener: socket.socket) -> None:
        """Serve what connects to a socket, until ``stop`` or a signal; then close it."""
        accepting = asyncio.create_task(self._accept(listener))
        try:
            await self._server.serve(sockets=[])
        finally:
            accepting.cancel()
            listener.close()

    async def _accept(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        loop = asyncio.get_running_loop()
        greeting: dict[asyncio.Task[None], float] = {}
        while True:
            while len(greeting) >= MOST_HEADLESS:  # others wait in the system's queue
                oldest, began = next(iter(greeting.items()))
                if loop.time() - began > GREETING_SECONDS:
                    oldest.cancel()
                await asyncio.sleep(0.01)
            try:
                accepted, _ = await loop.sock_accept(listener)
            except OSError:  # it left already, or too many files are open
                await asyncio.sleep(0.01)
                continue
            if self._server.should_exit:
                accepted.close()
                return
            task = loop.create_task(self._greet(accepted))
            greeting[task] = loop.time()
            task.add_done_callback(greeting.pop)

    async def _greet(self, accepted: socket.socket) -> None:
        tls = self._config.ssl
        with suppress(OSError):  # of its handshake
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _Connection(self._protocol, self._headless),
                accepted,
                ssl=tls,
                ssl_handshake_timeout=HEAD_SECONDS if tls else None,
                ssl_shutdown_timeout=CLOSE_SECONDS if tls else None,
            )

    def _protocol(self, state: dict[str, Any]) -> asyncio.Protocol:
        """Return uvicorn's protocol, made as ``uvicorn.Server`` makes one."""
        made: Callable[..., asyncio.Protocol] = self._config.http_protocol_class
        return made(
            config=self._config, server_state=self._server.server_state, app_state=state
        )


@dataclass(frozen=True, slots=True)
class HttpsCoordinator:
    """A coordinator's HTTPS port; it implements ``CoordinatorRuntime``.

    Args:
        tls: whether the port speaks TLS; without it, a reverse proxy in front does.
        model: the model file that the sites of the plan may fetch.
    """

    tls: bool = True
    model: bytes | None = None

    @contextmanager
    def listen(
        self,
        keys: CoordinatorKeys,
        plan: Plan,
        sites: Mapping[str, bytes],
        *,
        host: str,
        port: int,
        vector_bytes: int,
    ) -> Iterator[Mailbox]:
        """Serve the sites of a plan at one port, in a thread, and stop on leaving."""
        mailbox = Mailbox(sites, plan, MESSAGE_BYTES + vector_bytes, self.model)
        pair = (keys.folder / CERTIFICATE, keys.folder / SERVER_KEY)
        server = guarded_server(mailbox.app(), pair if self.tls else None)
        listener = listening_socket(host, port)

        async def serve() -> None:
            mailbox.start()
            await server.serve(listener)

        thread = threading.Thread(
            target=asyncio.run, args=(serve(),), name="port", daemon=True
        )
        thread.start()
        try:
            while not server.started:
                if not thread.is_alive():
                    raise TransportError("the coordinator's port could not be served")
                time.sleep(0.005)
            yield mailbox
        finally:
            mailbox.close()
            server.stop()
            thread.join(STOP_SECONDS)


def guarded_server(app: Starlette, tls: tuple[Path, Path] | None) -> GuardedServer:
    """Return a server that logs nothing and takes as many connections as it may.

    Args:
        app: what it serves.
        tls: files of the certificate and its key; None where a proxy ends TLS.
    """
    _allow_connections()
    # asyncio fills a buffer of 256 KB for each TLS connection, and no public name
    # makes it smaller. Where this one is gone, only memory is lost.
    asyncio.sslproto.SSLProtocol.max_size = 2**15
    certificate, key = tls or (None, None)
    config = uvicorn.Config(
        _telling(app),
        http="h11",  # whatever else is installed
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",  # what fails is recorded without data
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=1,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    config.load()
    if config.ssl is not None:
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
    return GuardedServer(config)


def _allow_connections() -> None:
    """Let this process open as many connections as the system allows it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

"""A small collector of clients' reports: one unsigned path, durable, keeping no addresses.

    POST /v1/reports      one report of 26 bytes, or up to a thousand; 204 once they are on
                          disk. A report with an id that is there already changes nothing.
    GET /v1/parameters    the plan's parameters, for clients

A reply says nothing about what was stored: a new report, a repeated one and one of another
plan get the same 204. Reports wait for one commit together, with an fsync, and are answered
after it; a killed collector has lost nothing that it acknowledged, and clients send the rest
again. The table has id and symbol, ordered by the random id: neither an address nor a time nor
the order of arrival is kept in it, and nothing is logged. What was written last can be seen in
SQLite's own log until it is merged.
"""

from __future__ import annotations

import asyncio
import queue
import secrets
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from discreet import failures
from discreet.errors import InputError
from discreet.phone import REPORT_SIZE, VERSION
from discreet.plan.plan import Plan
from discreet.transport.addresses import listening_socket
from discreet.transport.collecting import parameters_of
from discreet.transport.https.server import IDLE_SECONDS, GuardedServer

REPORTS: Final = "/v1/reports"
PARAMETERS: Final = "/v1/parameters"
MOST_TOGETHER: Final = 1000
"""Reports of one request: a gateway's that sends for many."""
MOST_WAITING: Final = 200_000
"""Reports that wait for the disk; beyond it requests are asked to come again."""
BODY_SECONDS: Final = 10.0
BURST: Final = 4
"""Times its requests of a minute that an address may send at once."""
MOST_ADDRESSES: Final = 100_000
_ANYWHERE: Final = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "POST, GET",
    "access-control-allow-headers": "content-type",
    "access-control-max-age": "86400",
    "cache-control": "no-store",
}
"""Browsers ask whether a page of another origin may send here."""

_Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
_Row: TypeAlias = tuple[str, str, int]


class ReportStore:
    """Reports on disk, each id once; commits whatever waits, together.

    Args:
        path: the SQLite file, made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting: queue.SimpleQueue[tuple[list[_Row], Callable[[bool], None]]] = (
            queue.SimpleQueue()
        )
        self._pending = 0
        self._lock = threading.Lock()
        with self._opened() as database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS reports (plan TEXT NOT NULL, id TEXT NOT "
                "NULL, symbol INTEGER NOT NULL, PRIMARY KEY (id)) WITHOUT ROWID"
            )
        threading.Thread(target=self._write, name="reports", daemon=True).start()

    def _opened(self) -> sqlite3.Connection:
        try:
            database = sqlite3.connect(self._path, check_same_thread=False)
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error as error:
            raise InputError(
                f"{self._path.name}: reports cannot be stored there "
                f"({type(error).__name__})"
            ) from None
        return database

    def add(self, rows: list[_Row], done: Callable[[bool], None]) -> bool:
        """Store reports soon, then call ``done``; False when too many wait."""
        with self._lock:
            if self._pending + len(rows) > MOST_WAITING:
                return False
            self._pending += len(rows)
        self._waiting.put((rows, done))
        return True

    def _write(self) -> None:
        database = self._opened()
        while True:
            batch = [self._waiting.get()]
            while not self._waiting.empty():
                batch.append(self._waiting.get())
            rows = [row for some, _ in batch for row in some]
            try:
                with database:  # one transaction, one fsync
                    database.executemany(
                        "INSERT OR IGNORE INTO reports VALUES (?, ?, ?)", rows
                    )
                stored = True
            except sqlite3.Error as error:
                failures.record(error, doing="storing reports")
                stored = False
            with self._lock:
                self._pending -= len(rows)
            for _, done in batch:
                done(stored)


class RateLimit:
    """A token bucket for each network address, kept in memory under a random key.

    The oldest addresses are forgotten, and all of them when the process ends.
    """

    def __init__(
        self, per_minute: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = per_minute / 60.0
        self._most = float(max(BURST * per_minute, 1))
        self._clock = clock
        self._salt = secrets.token_bytes(16)
        self._seen: dict[int, tuple[float, float]] = {}

    def allows(self, address: str) -> bool:
        """Take one request from an address's bucket, if it has one left."""
        now, name = self._clock(), hash((self._salt, address))
        left, at = self._seen.pop(name, (self._most, now))
        left = min(left + (now - at) * self._rate, self._most)
        allowed = left >= 1.0
        self._seen[name] = (left - 1.0 if allowed else left, now)
        if len(self._seen) > MOST_ADDRESSES:
            del self._seen[next(iter(self._seen))]
        return allowed


class ReportServer:
    """Serves one plan's path for reports.

    Args:
        plan: a plan of reports.
        store: the SQLite file.
        per_minute: requests of an address; None behind a proxy.
        certificate: PEM file; None without TLS.
        key: its key.
    """

    def __init__(
        self,
        plan: Plan,
        store: Path,
        *,
        per_minute: int | None = 60,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        parameters = parameters_of(plan)
        self._head = bytes([VERSION]) + bytes.fromhex(parameters.plan[:16])
        self._plan = parameters.plan[:16]
        self._symbols = parameters.cells
        self._text = parameters.write()
        self._limit = None if per_minute is None else RateLimit(per_minute)
        self._store = ReportStore(store)
        self._tls = (certificate, key)

    def app(self) -> Starlette:
        """Return the server's application."""
        preflight = Response(status_code=204, headers=_ANYWHERE)

        async def allow(request: Request) -> Response:
            del request
            return preflight

        routes = [
            Route(REPORTS, self._guarded(self._receive), methods=["POST"]),
            Route(REPORTS, allow, methods=["OPTIONS"]),
            Route(PARAMETERS, self._guarded(self._show), methods=["GET"]),
        ]
        app = Starlette(routes=routes)
        app.router.redirect_slashes = False
        return app

    def run(self, host: str, port: int) -> None:
        """Serve until the process is interrupted."""
        certificate, key = self._tls
        config = uvicorn.Config(
            self.app(),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=2,
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )
        config.load()
        server = GuardedServer(config)
        listener = listening_socket(host, port)
        asyncio.run(server.serve(sockets=[listener]))

    def _guarded(self, handler: _Handler) -> _Handler:
        async def guarded(request: Request) -> Response:
            address = request.client.host if request.client else ""
            if self._limit is not None and not self._limit.allows(address):
                return Response("too-many", 429, _ANYWHERE | {"retry-after": "60"})
            try:
                return await handler(request)
            except Exception as error:  # noqa: BLE001 - nothing of it leaves
                failures.record(error, doing="receiving reports")
                return Response("failed", 500, _ANYWHERE | {"connection": "close"})

        return guarded

    async def _show(self, request: Request) -> Response:
        del request
        return Response(self._text, 200, _ANYWHERE, "application/json")

    async def _receive(self, request: Request) -> Response:  # noqa: C901, PLR0911 - a word each
        announced = request.headers.get("content-length", "")
        if not announced.isdecimal() or "transfer-encoding" in request.headers:
            return _refusal(411, "length")
        size = int(announced) if len(announced) < 8 else -1
        if not 0 < size <= MOST_TOGETHER * REPORT_SIZE or size % REPORT_SIZE:
            return _refusal(413, "size")
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await request.body()
        except (TimeoutError, ClientDisconnect):
            return _refusal(408, "slow")
        rows = self._rows(body)
        if rows is None:
            return _refusal(400, "malformed")
        if not rows:
            return Response(status_code=204, headers=_ANYWHERE)
        loop = asyncio.get_running_loop()
        stored: asyncio.Future[bool] = loop.create_future()

        def settle(kept: bool) -> None:
            if not stored.done():
                stored.set_result(kept)

        def tell(kept: bool) -> None:
            loop.call_soon_threadsafe(settle, kept)

        if not self._store.add(rows, tell):
            return Response("busy", 503, _ANYWHERE | {"retry-after": "5"})
        if not await stored:
            return _refusal(503, "not-stored")
        return Response(status_code=204, headers=_ANYWHERE)

    def _rows(self, body: bytes) -> list[_Row] | None:
        """Return the plan's reports in a body; None where it holds no reports."""
        rows = []
        for start in range(0, len(body), REPORT_SIZE):
            raw = body[start : start + REPORT_SIZE]
            if raw[0] != VERSION:
                return None
            if raw.startswith(self._head) and raw[-1] < self._symbols:
                rows.append((self._plan, raw[9:-1].hex(), raw[-1]))
        return rows


def _refusal(status: int, word: str) -> Response:
    return Response(word, status, _ANYWHERE | {"connection": "close"})

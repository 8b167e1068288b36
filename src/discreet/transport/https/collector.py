"""A small collector of clients' reports: one unsigned path, durable, keeping no addresses.

    POST /v1/reports      one report of 26 bytes, or up to a thousand; 204 once they are on
                          disk. A report with an id that is there already changes nothing.
    GET /v1/parameters    the plan's parameters, for clients

A reply says nothing about what was stored: a new report, a repeated one and one of another
plan get the same 204. Reports wait for one commit together, with an fsync, and are answered
after it; a killed collector has lost nothing that it acknowledged, and clients send the rest
again.

The table has id and symbol, ordered by the random id: neither an address nor a time is kept in
it, and nothing is logged. While the collector runs, SQLite's file and its write-ahead log show
an order of arrival to whoever reads their bytes. So the log is emptied whenever no report came
for a while, and the whole file is written again, in the order of ids, when the collector ends
or starts.
"""

from __future__ import annotations

import asyncio
import os
import queue
import secrets
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from ipaddress import ip_address, ip_network
from operator import itemgetter
from pathlib import Path
from typing import Final, TypeAlias

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
from discreet.transport.https.server import guarded_server

REPORTS: Final = "/v1/reports"
PARAMETERS: Final = "/v1/parameters"
MOST_TOGETHER: Final = 1000
"""Reports of one request: a gateway's that sends for many."""
MOST_WAITING: Final = 200_000
"""Reports that wait for the disk; beyond it requests are asked to come again."""
BODY_SECONDS: Final = 10.0
QUIET_SECONDS: Final = 2.0
"""Without a report, after which SQLite's log is merged and emptied."""
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

_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS reports (plan TEXT NOT NULL, id TEXT NOT NULL, symbol "
    "INTEGER NOT NULL, PRIMARY KEY (id)) WITHOUT ROWID"
)

_Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
_Row: TypeAlias = tuple[str, str, int]
_Waiting: TypeAlias = tuple[list[_Row], Callable[[bool], None]]


class ReportStore:
    """Reports on disk, each id once; commits whatever waits, together.

    Args:
        path: the SQLite file, made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._pending = 0
        self._stores = True
        """Whether the last commit succeeded."""
        self._lock = threading.Lock()
        path = path.absolute()  # ":memory:" is a file like any other
        try:
            # The owner's alone, as are SQLite's files beside it.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._database = sqlite3.connect(path, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.execute(_TABLE)
            table = self._database.execute(
                "SELECT sql FROM sqlite_schema WHERE name = 'reports'"
            ).fetchone()
        except (OSError, sqlite3.Error) as error:
            raise InputError(
                f"{path.name}: reports cannot be stored there ({type(error).__name__}); "
                "name a new file in a folder that this account may write to"
            ) from None
        if table != (_TABLE.replace("IF NOT EXISTS ", ""),):
            self._database.close()
            raise InputError(
                f"{path.name} has a table of reports that no collector made; name "
                "another file"
            )
        self._writer = threading.Thread(target=self._write, name="reports", daemon=True)
        self._writer.start()

    def add(self, rows: list[_Row], done: Callable[[bool], None]) -> bool:
        """Store reports soon, then call ``done``; False when too many wait."""
        with self._lock:
            if self._pending + len(rows) > MOST_WAITING:
                return False
            self._pending += len(rows)
        self._waiting.put((rows, done))
        return True

    def close(self) -> None:
        """Store what waits, and leave no trace of the order in which it came."""
        self._waiting.put(None)
        self._writer.join()

    def _write(self) -> None:
        self._tidy("VACUUM")  # whoever wrote it last may have been killed
        quiet, closing = True, False
        while not closing:
            try:
                batch = [self._waiting.get(timeout=None if quiet else QUIET_SECONDS)]
            except queue.Empty:
                self._tidy()
                quiet = True
                continue
            while not self._waiting.empty():
                batch.append(self._waiting.get())
            closing, quiet = None in batch, False
            self._commit([waiting for waiting in batch if waiting is not None])
        self._tidy("VACUUM")
        self._database.close()

    def _commit(self, batch: list[_Waiting]) -> None:
        rows = sorted((row for some, _ in batch for row in some), key=itemgetter(1))
        try:
            with self._database:  # one transaction, one fsync
                self._database.executemany(
                    "INSERT OR IGNORE INTO reports VALUES (?, ?, ?)", rows
                )
            stored = True
        except sqlite3.Error as error:
            stored = False
            if self._stores:  # of a full disk, one line and one log
                failures.record(error, doing="storing reports")
                failures.tell(
                    f"reports cannot be stored ({type(error).__name__}): is the disk "
                    "full? Clients are asked to send them again"
                )
        if stored and not self._stores:
            failures.tell("reports are stored again")
        self._stores = stored
        with self._lock:
            self._pending -= len(rows)
        for _, done in batch:
            with suppress(RuntimeError):  # its loop has ended
                done(stored)

    def _tidy(self, *first: str) -> None:
        """Merge SQLite's log into the file and empty it."""
        try:
            for statement in (*first, "PRAGMA wal_checkpoint(TRUNCATE)"):
                self._database.execute(statement)
        except sqlite3.Error as error:  # no room for it, or another program reads
            failures.record(error, doing="tidying reports")
            if first:
                failures.tell(
                    f"the file still shows an order of arrival ({type(error).__name__}): "
                    "do not copy it; make room, end other programs that read it, and "
                    "start and end the collector again"
                )


class RateLimit:
    """A token bucket for each network address, kept in memory under a random key.

    An IPv6 network of 64 bits counts as one address: a subscriber has them all. The oldest
    are forgotten, and all of them when the process ends.
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
        now, name = self._clock(), hash((self._salt, _subscriber(address)))
        left, at = self._seen.pop(name, (self._most, now))
        left = min(left + (now - at) * self._rate, self._most)
        allowed = left >= 1.0
        self._seen[name] = (left - 1.0 if allowed else left, now)
        if len(self._seen) > MOST_ADDRESSES:
            del self._seen[next(iter(self._seen))]
        return allowed


def _subscriber(address: str) -> str:
    """Return the address, or its network where a subscriber has a whole one."""
    if ":" not in address:
        return address
    found = ip_address(address.partition("%")[0])
    if found.version == 4 or found.ipv4_mapped is not None:
        return address
    return str(ip_network((found, 64), strict=False))


class ReportServer:
    """Serves one plan's path for reports.

    Args:
        plan: a plan of reports.
        store: the SQLite file.
        per_minute: requests of an address; None behind a proxy.
        tls: PEM files of the certificate and its key; None behind a proxy.
    """

    def __init__(
        self,
        plan: Plan,
        store: Path,
        *,
        per_minute: int | None = 60,
        tls: tuple[Path, Path] | None = None,
    ) -> None:
        parameters = parameters_of(plan)
        self._head = bytes([VERSION]) + bytes.fromhex(parameters.plan[:16])
        self._plan = parameters.plan[:16]
        self._symbols = parameters.cells
        self._text = parameters.write()
        self._limit = None if per_minute is None else RateLimit(per_minute)
        self._store = ReportStore(store)
        self._tls = tls

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
        try:
            try:
                server = guarded_server(self.app(), self._tls)
            except OSError as error:  # of the files, and of what OpenSSL finds in them
                raise InputError(
                    f"the certificate and its key cannot be used ({type(error).__name__}): "
                    "give two PEM files that this account may read and that belong "
                    "together"
                ) from None
            listener = listening_socket(host, port)
            asyncio.run(server.serve(listener))
        finally:
            self._store.close()

    def _guarded(self, handler: _Handler) -> _Handler:
        async def guarded(request: Request) -> Response:
            address = request.client.host if request.client else ""
            if self._limit is not None and not self._limit.allows(address):
                return _refusal(429, "too-many", {"retry-after": "60"})
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
            return _refusal(503, "busy", {"retry-after": "5"})
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


def _refusal(status: int, word: str, more: Mapping[str, str] | None = None) -> Response:
    """Answer without reading what else comes over this connection."""
    return Response(
        word, status, _ANYWHERE | {"connection": "close"} | dict(more or {})
    )

"""A coordinator's port in this process, and callers that are not its client."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPException, HTTPSConnection
from pathlib import Path

from discreet.data.edges import Warped
from discreet.models.distributed import DistributedDP
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import Plan, recommend
from discreet.session.messages import Kind, Message
from discreet.transport.addresses import LOOPBACK, free_port
from discreet.transport.https.server import HttpsCoordinator, Mailbox
from discreet.transport.https.signing import MESSAGES, Signer
from discreet.transport.keys import CA, CoordinatorKeys, SiteKeys, make_consortium

SITES = ("north", "south", "west")
"""In the order of a roster: the first has place 1."""
ROOM = 1000
"""Bytes of numbers that a message may carry."""
PATIENCE = 240
"""Seconds that a request waits here: whoever replies much sooner was woken."""


def make(folder: Path) -> Plan:
    """Make everybody's keys, and a plan with their roster."""
    roster = make_consortium(folder, SITES, hosts=[LOOPBACK])
    facts, model = PublicFacts(1200, 0.3), DistributedDP("1")
    plan = recommend(facts, model, edges=Warped(16), cohort=Cohort(3))
    return replace(plan, roster=roster)


@dataclass
class Port:
    """A port that listens, and what its callers need."""

    folder: Path
    plan: Plan
    number: int
    mailbox: Mailbox
    opened: list[socket.socket] = field(default_factory=list)

    def trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.folder / "coordinator" / CA)

    def process(self, site: str = "north", plan: str | None = None) -> Process:
        """Start a process of a site."""
        identity = SiteKeys(self.folder / site).identity()
        agreed = self.plan.digest().hex() if plan is None else plan
        return Process(self, Signer(identity, agreed))

    def connection(self, *, tls: bool = True) -> socket.socket:
        """Open a connection, and send nothing; it is closed with the port."""
        opened = socket.create_connection((LOOPBACK, self.number), timeout=PATIENCE)
        if tls:
            opened = self.trusting().wrap_socket(opened, server_hostname=LOOPBACK)
        self.opened.append(opened)
        return opened

    def message(self, kind: Kind = Kind.STEP, body: bytes = b"") -> Message:
        return Message(kind, self.plan.digest(), bytes(32), 0, body=body)


@dataclass
class Process:
    """Signs requests as a site's process, and sends them over connections of its own."""

    port: Port
    signer: Signer
    said: list[tuple[int, bytes]] = field(default_factory=list)

    def head(
        self,
        method: str = "POST",
        path: str = MESSAGES,
        body: bytes = b"",
        **others: str,
    ) -> bytes:
        """Return the signed head of a request; ``others`` replace its headers."""
        headers = {
            "host": "coordinator",
            "content-length": str(len(body)),
            **self.signer.headers(method, path, body),
            **{name.replace("_", "-"): value for name, value in others.items()},
        }
        lines = [f"{k}: {v}" for k, v in headers.items() if v]
        return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode()

    def ask(
        self,
        method: str = "POST",
        path: str = MESSAGES,
        body: bytes = b"",
        *,
        wait: int = 0,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Send a request; return the status and the body of the reply."""
        called = HTTPSConnection(
            LOOPBACK, self.port.number, context=self.port.trusting(), timeout=PATIENCE
        )
        signed = {**self.signer.headers(method, path, body), "prefer": f"wait={wait}"}
        try:
            called.request(method, path, body, {**signed, **(headers or {})})
            reply = called.getresponse()
            return reply.status, reply.read()
        finally:
            called.close()

    def asking(self, body: bytes = b"", *, wait: int = PATIENCE) -> threading.Thread:
        """Hold a request open in a thread; the reply, if any, goes into ``said``."""
        head = self.signer.headers("POST", MESSAGES, body)

        def hold() -> None:
            called = HTTPSConnection(
                LOOPBACK,
                self.port.number,
                context=self.port.trusting(),
                timeout=2 * PATIENCE,
            )
            with suppress(OSError, HTTPException):  # the port may close before
                called.request(
                    "POST", MESSAGES, body, {**head, "prefer": f"wait={wait}"}
                )
                reply = called.getresponse()
                self.said.append((reply.status, reply.read()))
            called.close()

        thread = threading.Thread(target=hold, daemon=True)
        thread.start()
        return thread


@contextmanager
def listening(
    folder: Path,
    plan: Plan,
    *,
    tls: bool = True,
    number: int | None = None,
    model: bytes | None = None,
) -> Iterator[Port]:
    """Listen as the coordinator of a consortium."""
    keys, number = CoordinatorKeys(folder / "coordinator"), number or free_port()
    with HttpsCoordinator(tls=tls, model=model).listen(
        keys,
        plan,
        keys.admitted(plan),
        host=LOOPBACK,
        port=number,
        vector_bytes=ROOM,
    ) as mailbox:
        port = Port(folder, plan, number, mailbox)
        try:
            yield port
        finally:
            for connection in port.opened:
                connection.close()


def status_of(reply: bytes) -> int:
    """Return the status of a raw reply, 0 when the connection was closed without one."""
    return int(reply.split(b" ", 2)[1]) if reply else 0

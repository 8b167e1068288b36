"""Where a coordinator listens, and how reaching it fails."""

from __future__ import annotations

import os
import socket
from typing import Final

from discreet.errors import DiscreetError, InputError

LOOPBACK: Final = "127.0.0.1"
EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared
BACKLOG: Final = 1024
"""Connections that wait to be accepted: a consortium may come at once."""


class TransportError(DiscreetError):
    """A coordinator and a site cannot be connected, or no longer are."""


class UnreachableError(TransportError):
    """The coordinator cannot be reached; the sentence says why and what to do.

    Args:
        sentence: for the operator.
        worth_seconds: how long it makes sense to try again.
    """

    def __init__(self, sentence: str, worth_seconds: float = 0.0) -> None:
        super().__init__(sentence)
        self.worth_seconds = worth_seconds


class SilenceError(TransportError):
    """No message of the coordinator came for as long as a site waits."""


def host_and_port(address: str) -> tuple[str, int]:
    """Take apart where a coordinator listens.

    >>> host_and_port("hub.example.org:9443")
    ('hub.example.org', 9443)
    """
    host, _, port = address.removeprefix("https://").rstrip("/").rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        host.encode("idna")
    except UnicodeError:
        host = ""
    if not host or not port.isdigit() or not 0 < int(port) < 2**16 or "/" in host:
        raise InputError(
            "the coordinator is given as host:port, such as hub.example.org:9443"
        )
    return host, int(port)


def check_known(host: str, port: int) -> None:
    """Refuse a name that this machine's DNS does not know."""
    try:
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        raise InputError(
            f"this machine's DNS does not know {host}: is it spelt right?"
        ) from None


def listening_socket(host: str, port: int) -> socket.socket:
    """Listen at an address.

    Raises:
        TransportError: another program does, or this machine may not.
    """
    if not 0 < port < 2**16:
        raise TransportError("a port is a number from 1 to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        # Of getaddrinfo, whose error socket made a plain one.
        if (error.errno or 0) < 0:
            why = "no address of this machine"
        raise TransportError(
            f"cannot listen at {host}:{port} ({why}): end the program that does, or "
            "choose another --host or --port"
        ) from error


def free_port() -> int:
    """Return a port that nobody uses, and that nobody else is given for a minute.

    A connection to the port itself is opened and closed from the port's side: the system
    then keeps the port in TIME_WAIT and gives it to no other program that asks for any
    port, while a server that names it can listen there (all set SO_REUSEADDR).
    """
    with socket.socket() as server:
        server.bind((LOOPBACK, 0))
        # Only now: with it, the system may choose a port that is kept for somebody.
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.listen(1)
        address = server.getsockname()
        with socket.create_connection(address):
            accepted, _ = server.accept()
            accepted.close()
        port: int = address[1]
        return port

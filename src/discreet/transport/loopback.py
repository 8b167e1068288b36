"""Free ports of the loopback address, for sessions in which everybody is on one machine."""

from __future__ import annotations

import socket
from typing import Final

LOOPBACK: Final = "127.0.0.1"


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

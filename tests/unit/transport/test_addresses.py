"""Free ports stay free for whoever asked for them."""

import socket

from discreet.transport.addresses import LOOPBACK, free_port


def test_a_port_is_given_to_nobody_else_and_a_server_can_listen_there():
    ports = [free_port() for _ in range(300)]
    assert len(set(ports)) == len(ports)
    for _ in range(300):
        with socket.socket() as other:
            other.bind((LOOPBACK, 0))
            assert other.getsockname()[1] not in ports
    for port in ports[-20:]:
        with socket.create_server((LOOPBACK, port)) as server:
            socket.create_connection(server.getsockname()).close()

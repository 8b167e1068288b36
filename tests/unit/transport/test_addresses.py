"""Addresses are host and port; free ports stay free for whoever asked for them."""

import socket

import pytest

from discreet.errors import InputError
from discreet.transport.addresses import (
    LOOPBACK,
    TransportError,
    free_port,
    host_and_port,
    listening_socket,
)


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


@pytest.mark.parametrize(
    "address",
    ["hub", "hub:", ":9443", "hub:99999", "hub:x", "hub/plan:9443", "a..b:9443"],
)
def test_an_address_is_a_host_and_a_port(address: str) -> None:
    with pytest.raises(InputError, match="host:port"):
        host_and_port(address)


@pytest.mark.parametrize(
    ("address", "host"), [("[::1]:9443", "::1"), ("https://hub:9443/", "hub")]
)
def test_an_address_may_be_of_version_six_or_one_of_a_browser(
    address: str, host: str
) -> None:
    assert host_and_port(address) == (host, 9443)


@pytest.mark.parametrize("port", [-1, 0, 2**16])
def test_a_port_beyond_the_last_one_is_refused(port: int) -> None:
    with pytest.raises(TransportError, match="1 to 65535"):
        listening_socket(LOOPBACK, port)


def test_a_host_that_is_no_address_of_this_machine_is_named_as_the_cause() -> None:
    with pytest.raises(TransportError, match="no address of this machine"):
        listening_socket("nobody.invalid", free_port())

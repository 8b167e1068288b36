"""Sessions through what stands in front of a coordinator, and between a site and it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from discreet.models.distributed import DistributedDP
from discreet.transport.addresses import LOOPBACK, free_port
from discreet.transport.keys import make_authority, make_server
from e2e.https_consortium import SITES, consortium, make

pytestmark = pytest.mark.long

NGINX = """
daemon off; master_process off; pid nginx.pid; error_log error.log;
events {{ worker_connections 256; }}
http {{
  access_log access.log;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server {{
    listen {host}:{port} ssl;
    ssl_certificate front.pem; ssl_certificate_key front.key;
    client_max_body_size 64m;
    location / {{ proxy_pass http://{host}:{behind}; }}
  }}
}}
"""
TINYPROXY = """
Port {port}
Listen {host}
Timeout 600
MaxClients 20
LogFile "{folder}/proxy.log"
LogLevel Connect
PidFile "{folder}/proxy.pid"
Allow {host}
ConnectPort {behind}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    make(folder)
    return folder


@contextmanager
def program(name: str, *words: str, folder: Path, port: int) -> Iterator[None]:
    """Run a program of Debian until it is no longer needed; end it by its pid."""
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])
    found = shutil.which(name, path=path)
    if found is None:
        pytest.skip(f"no {name}: run tests/proxies/install.sh")
    with (folder / f"{name}.txt").open("wb") as output:
        running = subprocess.Popen(  # noqa: S603 - Debian's program, our own arguments
            [found, *words], stdout=output, stderr=subprocess.STDOUT
        )
    try:
        deadline = time.monotonic() + 60
        while True:
            output = (folder / f"{name}.txt").read_text()
            assert running.poll() is None, output
            assert time.monotonic() < deadline, output
            with suppress(OSError), socket.create_connection((LOOPBACK, port)):
                break
            time.sleep(0.02)
        yield
    finally:
        running.terminate()
        running.wait(20)


def test_a_reverse_proxy_ends_tls_in_front_of_the_coordinator(
    made: Path, tmp_path: Path
) -> None:
    key, ca = make_authority("hospital")
    server_key, certificate = make_server(key, ca, [LOOPBACK])
    plain = server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "front.key").write_bytes(plain)
    (tmp_path / "front.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    (tmp_path / "ca.pem").write_bytes(ca.public_bytes(Encoding.PEM))
    front = free_port()
    with consortium(made, tmp_path / "c", DistributedDP("1")) as running:
        text = NGINX.format(host=LOOPBACK, port=front, behind=running.port)
        (tmp_path / "nginx.conf").write_text(text)
        words = ("-p", str(tmp_path), "-c", "nginx.conf", "-e", "error.log")
        with program("nginx", *words, folder=tmp_path, port=front):
            early = running.site("east", "--authority", "../ca.pem", port=front)
            early.wait_for("cannot take requests now (status 502)")
            coordinator = running.coordinate("--behind-proxy")
            for site in SITES[1:]:
                running.site(site, "--authority", "../ca.pem", port=front)
            for command in running.commands:
                assert command.ends() == 0, command.said()
        assert running.revealed() == running.expected()
        assert [running.charges(site) for site in SITES] == [1, 1, 1]
        assert "3 of 3 sites" in coordinator.said()
    assert "POST /v1/messages" in (tmp_path / "access.log").read_text()


def test_sites_connect_through_the_proxy_of_their_environment(
    made: Path, tmp_path: Path
) -> None:
    port = free_port()
    with consortium(made, tmp_path / "c", DistributedDP("1")) as running:
        config = tmp_path / "proxy.conf"
        config.write_text(
            TINYPROXY.format(
                host=LOOPBACK, port=port, behind=running.port, folder=tmp_path
            )
        )
        proxy = {"HTTPS_PROXY": f"http://{LOOPBACK}:{port}"}
        with program("tinyproxy", "-d", "-c", str(config), folder=tmp_path, port=port):
            running.coordinate()
            running.site("east", env=proxy)
            running.site("north", env=proxy)
            running.site("south", env={**proxy, "NO_PROXY": LOOPBACK})
            for command in running.commands:
                assert command.ends() == 0, command.said()
        assert running.revealed() == running.expected()
        assert [running.charges(site) for site in SITES] == [1, 1, 1]
    asked = (tmp_path / "proxy.log").read_text().count(f"CONNECT {LOOPBACK}:")
    assert asked >= 2
    assert "/v1/messages" not in (tmp_path / "proxy.log").read_text()

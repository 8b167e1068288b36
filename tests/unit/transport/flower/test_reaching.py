"""A site that cannot connect: every cause has its own sentence, and its own patience."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from discreet.transport import keys
from discreet.transport.addresses import (
    LOOPBACK,
    UnreachableError,
    free_port,
)
from discreet.transport.flower.serving import serve
from discreet.transport.keys import (
    CERTIFICATE,
    SERVER_KEY,
    SiteKeys,
    make_consortium,
)

pytestmark = pytest.mark.flower


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("consortium")
    make_consortium(made, ["north"], hosts=[LOOPBACK])
    return made


@contextmanager
def listening(
    keys: Path, status: int = 404, body: bytes = b"", ahead: float = 0.0
) -> Iterator[str]:
    """A server with the coordinator's certificate that answers everything alike."""

    class Alike(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response_only(status)
            theirs = datetime.now(UTC) - timedelta(seconds=ahead)
            self.send_header("date", format_datetime(theirs, usegmt=True))
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Quiet(HTTPServer):
        def handle_error(self, *_: object) -> None:
            pass  # whoever does not trust us hangs up

    with Quiet((LOOPBACK, 0), Alike) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(keys / CERTIFICATE, keys / SERVER_KEY)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"{LOOPBACK}:{server.server_port}"
        server.shutdown()


PATIENCE = 300.0
"""So long a site would try again: whoever says why before that did not wait."""


def join(folder: Path, address: str, *, seconds: float = PATIENCE) -> tuple[str, float]:
    """Return why a site cannot connect, and after how long it says so."""
    began = time.monotonic()
    with pytest.raises(UnreachableError) as found:
        serve(
            SiteKeys(folder / "north"),
            address,
            lambda message, _: message,
            until=lambda: False,
            wait_seconds=seconds,
        )
    return str(found.value), time.monotonic() - began


def test_a_certificate_of_another_authority_is_named_at_once(
    folder: Path, tmp_path: Path
) -> None:
    make_consortium(tmp_path, ["north"], hosts=[LOOPBACK])
    with listening(tmp_path / "coordinator") as address:
        why, took = join(folder, address)
    assert "signed by another authority" in why
    assert "discreet keys trust" in why
    assert took < PATIENCE


def test_a_certificate_for_another_host_is_named_at_once(tmp_path: Path) -> None:
    make_consortium(tmp_path, ["north"], hosts=["hub.example.org"])
    with listening(tmp_path / "coordinator") as address:
        why, took = join(tmp_path, address)
    assert "is for other names" in why
    assert took < PATIENCE


def test_a_certificate_that_has_ended_is_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class LongAgo(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:
            del tz
            return datetime.now(UTC) - timedelta(days=100)

    with monkeypatch.context() as patch:
        patch.setattr(keys, "datetime", LongAgo)
        make_consortium(tmp_path, ["north"], hosts=[LOOPBACK])
    with listening(tmp_path / "coordinator") as address:
        why, took = join(tmp_path, address)
    assert "has ended" in why
    assert "discreet keys renew" in why
    assert took < PATIENCE


def test_a_clock_that_is_wrong_is_measured(folder: Path) -> None:
    with listening(folder / "coordinator", 401, ahead=90.0) as address:
        why, took = join(folder, address)
    assert "this machine's clock is 9" in why
    assert "s ahead of the coordinator's" in why
    assert took < PATIENCE


def test_a_node_key_that_nobody_knows_is_named_at_once(folder: Path) -> None:
    with listening(folder / "coordinator", 403) as address:
        why, took = join(folder, address)
    assert "does not know this site's node key" in why
    assert took < PATIENCE


def test_somebody_else_at_the_port_is_no_coordinator(folder: Path) -> None:
    with listening(folder / "coordinator", 404) as address:
        why, took = join(folder, address)
    assert "not as a coordinator" in why
    assert took < PATIENCE


def test_a_reply_that_is_none_of_flowers_messages_is_no_coordinators(
    folder: Path,
) -> None:
    with listening(folder / "coordinator", 200, b"<html>") as address:
        why, _ = join(folder, address)
    assert "not as a coordinator" in why


def test_a_site_that_is_connected_already_waits_for_its_other_self(
    folder: Path,
) -> None:
    body = json.dumps({"code": 2004, "detail": "no"}).encode()
    with listening(folder / "coordinator", 412, body) as address:
        why, took = join(folder, address, seconds=1.0)
    assert "connected already" in why
    assert took > 1


def test_a_port_that_does_not_speak_tls_is_named_at_once(folder: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]

        def speak() -> None:
            caller, _ = server.accept()
            caller.sendall(b"SSH-2.0-OpenSSH\r\n")
            caller.recv(4096)
            caller.close()

        threading.Thread(target=speak, daemon=True).start()
        why, took = join(folder, f"{LOOPBACK}:{port}")
    assert "does not speak TLS" in why
    assert took < PATIENCE


def test_a_name_that_does_not_exist_is_named_at_once(folder: Path) -> None:
    why, _ = join(folder, "no-such-host.invalid:9443", seconds=1.0)
    assert "not known to this machine's DNS" in why


def test_a_coordinator_that_is_not_there_yet_is_waited_for(folder: Path) -> None:
    why, took = join(folder, f"{LOOPBACK}:{free_port()}", seconds=1.0)
    assert "nobody listens" in why
    assert took > 1


def test_trouble_that_lasts_is_told_once_with_the_time_left(folder: Path) -> None:
    said: list[str] = []
    with pytest.raises(UnreachableError):
        serve(
            SiteKeys(folder / "north"),
            f"{LOOPBACK}:{free_port()}",
            lambda message, _: message,
            until=lambda: False,
            wait_seconds=4.0,
            tell=said.append,
        )
    assert len(said) == 1
    assert "trying again for" in said[0]

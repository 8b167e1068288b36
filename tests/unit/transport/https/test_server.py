"""The coordinator's port: messages until they are answered, and nothing for strangers."""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from discreet.plan.file import loads
from discreet.plan.plan import Plan
from discreet.session.messages import Kind
from discreet.session.retrying import Lost
from discreet.transport.addresses import (
    LOOPBACK,
    TransportError,
    free_port,
    listening_socket,
)
from discreet.transport.https import server
from discreet.transport.https.server import MESSAGE_BYTES
from discreet.transport.https.signing import (
    CHECK,
    MESSAGES,
    MODEL_PATH,
    PLAN_PATH,
    Signer,
)
from unit.transport.https.port import (
    PATIENCE,
    ROOM,
    Port,
    Process,
    listening,
    make,
    status_of,
)


@pytest.fixture(scope="module")
def consortium(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Plan]:
    folder = tmp_path_factory.mktemp("consortium")
    return folder, make(folder)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LONGEST_WAIT", float(PATIENCE))


@pytest.fixture
def port(consortium: tuple[Path, Plan]) -> Iterator[Port]:
    with listening(*consortium) as started:
        yield started


def wait_for(what: Callable[[], object], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def closes(connection: socket.socket, seconds: float = PATIENCE) -> bool:
    """Whether the other side closes a connection."""
    connection.settimeout(seconds)
    try:
        while connection.recv(4096):
            pass
    except OSError as error:
        return not isinstance(error, TimeoutError)
    return True


def test_a_message_is_given_again_until_it_is_answered(port: Port) -> None:
    message, north = port.message(), port.process()
    port.mailbox.send(1, message, seconds=1)
    for _ in range(2):
        assert north.ask() == (200, message.encode())
    restarted = port.process()
    assert restarted.ask() == (200, message.encode())
    assert port.process("south").ask() == (204, b"")
    answer = message.reply(Kind.STEP, site=1)
    assert restarted.ask(body=answer.encode()) == (204, b"")
    assert restarted.ask() == (204, b"")
    ((place, arrived),) = port.mailbox.receive()
    assert (place, arrived) == (1, answer)


def test_a_message_comes_down_at_once_to_a_request_that_waits(port: Port) -> None:
    north, message = port.process(), port.message()
    held = north.asking()
    wait_for(lambda: port.mailbox.connected() == [1])
    port.mailbox.wait(PATIENCE)  # the site came
    port.mailbox.send(1, message, seconds=1)
    held.join(PATIENCE / 2)
    assert north.said == [(200, message.encode())]
    began = time.monotonic()
    answering = north.asking(message.reply(Kind.STEP, site=1).encode())
    arrived: list[object] = []
    while not arrived:  # woken for the site first, and for its answer
        port.mailbox.wait(PATIENCE)
        arrived = list(port.mailbox.receive())
        assert time.monotonic() - began < PATIENCE / 2
    assert len(arrived) == 1
    port.mailbox.close()
    answering.join(PATIENCE / 2)
    assert north.said[1:] == [(204, b"")]


def test_late_doubled_and_unasked_answers_cost_no_memory(port: Port) -> None:
    """A site of the roster may send what it likes, while nobody receives."""
    north, first, second = port.process(), port.message(), port.message(body=b"2")
    unasked = first.reply(Kind.STEP, site=1).encode()
    assert north.ask(body=unasked) == (204, b"")
    port.mailbox.send(1, first, seconds=1)
    port.mailbox.send(1, second, seconds=1)
    assert north.ask(body=unasked) == (200, second.encode())
    for _ in range(3):
        north.ask(body=second.reply(Kind.STEP, site=1).encode())
        north.ask(body=b"no message")
    arrived = list(port.mailbox.receive())
    assert [answer.about for _, answer in arrived] == [second.digest()]


def test_an_answer_that_is_no_message_counts_as_refused_for_good(port: Port) -> None:
    north, message = port.process(), port.message()
    port.mailbox.send(1, message, seconds=1)
    for _ in range(2):
        assert north.ask(body=b"no message") == (400, b"malformed")
    assert list(port.mailbox.receive()) == [(1, Lost(message.digest(), for_good=True))]


def test_an_abandoned_request_lets_its_site_go(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "GONE_SECONDS", 0.2)
    connection, north = port.connection(), port.process()
    connection.sendall(north.head(prefer=f"wait={PATIENCE}"))
    wait_for(lambda: port.mailbox.connected() == [1])
    time.sleep(0.3)
    assert port.mailbox.connected() == [1], "it waits"
    connection.close()
    wait_for(lambda: port.mailbox.connected() == [])


def test_a_second_process_supersedes_the_first(port: Port) -> None:
    first = port.process()
    held = first.asking()
    wait_for(port.mailbox.connected)
    assert port.process().ask() == (204, b"")
    held.join(PATIENCE / 2)
    assert first.said == [(204, b"")]
    assert first.ask() == (409, b"superseded")


def test_a_check_or_the_plan_ends_no_process(port: Port) -> None:
    north, beside = port.process(), port.process()
    assert north.ask() == (204, b"")
    assert beside.ask("GET", CHECK) == (204, b"")
    status, text = port.process(plan="none").ask("GET", PLAN_PATH)
    assert status == 200
    assert loads(text.decode()) == port.plan
    assert north.ask() == (204, b"")


def test_the_end_is_acknowledged_at_once(port: Port) -> None:
    north, end = port.process(), port.message(Kind.END)
    port.mailbox.send(1, end, seconds=1)
    assert north.ask() == (200, end.encode())
    began = time.monotonic()
    understood = end.reply(Kind.END, site=1).encode()
    assert north.ask(body=understood, wait=PATIENCE) == (204, b"")
    assert time.monotonic() - began < PATIENCE / 2


TOO_LARGE = MESSAGE_BYTES + ROOM + 1
REFUSED = {
    "too large": ({"content_length": str(TOO_LARGE)}, 413),
    "far too large": ({"content_length": "9" * 15}, 413),
    "of no length": ({"content_length": ""}, 411),
    "of a length that is none": ({"content_length": "-1"}, 400),
    "chunked": ({"content_length": "", "transfer_encoding": "chunked"}, 411),
    "chunked, of a length": ({"transfer_encoding": "chunked"}, 411),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_body_beyond_the_limit_is_refused_before_it_is_sent(
    port: Port, case: str
) -> None:
    """Even of a site whose signature is right."""
    headers, status = REFUSED[case]
    connection = port.connection()
    connection.sendall(port.process().head(**headers))
    assert status_of(connection.recv(4096)) == status
    assert closes(connection)


def test_a_body_within_the_limit_is_read(port: Port) -> None:
    body = bytes(TOO_LARGE - 1)
    assert port.process().ask(body=body) == (400, b"malformed")


def stranger(port: Port) -> Process:
    identity = Ed25519PrivateKey.generate()
    return Process(port, Signer(identity, port.plan.digest().hex()))


STRANGERS: dict[str, tuple[Callable[[Port], bytes], int, bytes]] = {
    "no signature": (lambda p: p.process().head(signature=""), 401, b"signature"),
    "no plan": (lambda p: p.process().head(discreet_plan=""), 401, b"signature"),
    "another plan": (lambda p: p.process(plan="ab" * 32).head(), 409, b"plan"),
    "a stranger": (lambda p: stranger(p).head(), 403, b"stranger"),
    "a strangers check": (lambda p: stranger(p).head("GET", CHECK), 403, b"stranger"),
    "the plan, for a stranger": (
        lambda p: stranger(p).head("GET", PLAN_PATH),
        403,
        b"stranger",
    ),
    "a check of another plan": (
        lambda p: p.process(plan="none").head("GET", CHECK),
        409,
        b"plan",
    ),
    "a doubled header": (
        lambda p: p.process().head(x="1\r\nDiscreet-Plan: 00"),
        400,
        b"doubled-header",
    ),
    "another path": (lambda p: p.process().head(path="/v1/message"), 404, b""),
    "a slash more": (lambda p: p.process().head(path=MESSAGES + "/"), 404, b""),
    "another method": (lambda p: p.process().head("PUT"), 405, b""),
    "no HTTP": (lambda _: b"\x16\x03\x01 hello\r\n\r\n", 400, b""),
}


@pytest.mark.parametrize("case", STRANGERS)
def test_what_nobody_of_the_roster_signed_for_this_plan_is_refused(
    port: Port, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    made, status, word = STRANGERS[case]
    request = made(port).replace(b"content-length: 0", b"content-length: 100000")
    connection = port.connection()
    connection.sendall(request)  # and none of its body
    reply = connection.recv(4096)
    while word not in reply and (more := connection.recv(4096)):
        reply += more
    assert status_of(reply) == status
    assert reply.endswith(word)
    assert port.mailbox.connected() == []
    assert not caplog.records, "strangers write nothing on the coordinator's screen"


@pytest.mark.parametrize("host", ["[", "a/v1/plan?", "evil.example", "a b"])
def test_a_host_header_is_nobodys_business(port: Port, host: str) -> None:
    connection = port.connection()
    connection.sendall(port.process().head("GET", CHECK, host=host))
    assert status_of(connection.recv(4096)) == 204


def test_a_body_that_another_one_replaced_is_refused(port: Port) -> None:
    north = port.process()
    connection = port.connection()
    connection.sendall(north.head(body=b"signed") + b"forged")
    reply = connection.recv(4096)
    assert status_of(reply) == 401
    assert north.ask() == (204, b"")


def test_a_slow_body_is_given_up(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BODY_SECONDS", 0.2)
    connection = port.connection()
    connection.sendall(port.process().head(body=b"slow body") + b"slow")
    assert status_of(connection.recv(4096)) == 408
    assert closes(connection)


def test_a_site_has_few_bodies_open_at_once(port: Port) -> None:
    """One of the roster cannot fill the memory with bodies that never end."""
    north = port.process()
    for _ in range(server.MOST_AT_ONCE):
        connection = port.connection()
        connection.sendall(north.head(body=b"slow body") + b"slow")
        wait_for(port.mailbox.connected)
    wait_for(lambda: north.ask() == (429, b"too-many"))
    assert port.process("south").ask() == (204, b"")
    for connection in port.opened:
        connection.close()
    wait_for(lambda: north.ask() == (204, b""))


def test_a_body_that_breaks_off_ends_its_request_alone(port: Port) -> None:
    connection, north = port.connection(), port.process()
    connection.sendall(north.head(body=b"whole") + b"wh")
    connection.close()
    assert north.ask() == (204, b"")


def greeted(port: Port) -> socket.socket:
    """Return a connection whose handshake ended in time, if not the first one's did."""
    while True:
        with suppress(OSError):
            return port.connection()


def test_slow_heads_and_idle_connections_are_closed(
    consortium: tuple[Path, Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "IDLE_SECONDS", 1)
    with listening(*consortium) as port:
        idle, north = port.connection(), port.process()
        idle.sendall(north.head("GET", CHECK))
        assert status_of(idle.recv(4096)) == 204
        monkeypatch.setattr(server, "HEAD_SECONDS", 0.3)
        silent, slow = greeted(port), greeted(port)
        bare = port.connection(tls=False)  # no handshake
        with suppress(OSError):  # closed already: this end was slower still
            slow.sendall(north.head()[:-2])
        for connection in (silent, slow, idle, bare):
            assert closes(connection)


def test_a_head_is_given_up_however_slowly_it_comes(
    consortium: tuple[Path, Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte now and then keeps neither a first nor a later request alive."""
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(server, "IDLE_SECONDS", 1)
    with listening(*consortium) as port:
        first, second = port.connection(), port.connection()
        second.sendall(port.process().head("GET", CHECK))
        assert status_of(second.recv(4096)) == 204
        for connection in (first, second):
            began = time.monotonic()
            connection.settimeout(0.1)
            with pytest.raises(OSError, match=r"reset|closed|EOF|Broken"):  # noqa: PT012
                while time.monotonic() - began < PATIENCE:
                    connection.sendall(b"G")
                    with suppress(TimeoutError):
                        if not connection.recv(4096):
                            raise ConnectionResetError("closed")


def test_a_request_that_waits_is_not_taken_for_a_slow_head(
    consortium: tuple[Path, Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(server, "IDLE_SECONDS", 1)
    with listening(*consortium) as port:
        alone, after = port.connection(), port.connection()
        alone.sendall(port.process("south").head(prefer="wait=20"))
        north = port.process()  # two requests in one packet
        after.sendall(north.head("GET", CHECK) + north.head(prefer="wait=20"))
        assert status_of(after.recv(4096)) == 204
        time.sleep(1.5)  # longer than either time
        assert port.mailbox.connected() == [1, 2]
        message = port.message()
        for place, connection in ((1, after), (2, alone)):
            port.mailbox.send(place, message, seconds=1.0)
            assert status_of(connection.recv(4096)) == 200


def test_a_connection_that_is_gone_is_forgotten(
    consortium: tuple[Path, Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its request or before it: none is kept until its time would be up."""
    made: list[server.GuardedServer] = []
    original = server.guarded_server
    monkeypatch.setattr(
        server, "guarded_server", lambda *a: made.append(original(*a)) or made[-1]
    )
    with listening(*consortium) as port:
        headless = made[0]._headless
        silent, asking = port.connection(), port.connection()
        wait_for(lambda: len(headless) == 2)
        asking.sendall(port.process().head(prefer="wait=20"))
        wait_for(lambda: len(headless) == 1)
        for connection in (silent, asking):
            connection.close()
        wait_for(lambda: port.mailbox._slots["north"].waiting == 0)
        wait_for(lambda: not headless)
        time.sleep(0.2)
        assert not headless


@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize("reads", [True, False])
def test_a_long_reply_is_sent_to_whoever_reads_it(
    consortium: tuple[Path, Plan],
    tls: bool,
    reads: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A model file may take longer on its way than a connection may be idle."""
    monkeypatch.setattr(server, "IDLE_SECONDS", 1)
    if not reads:
        monkeypatch.setattr(server, "BODY_SECONDS", 0.5)
        monkeypatch.setattr(server, "SLOWEST_BYTES", 1e9)
    model = bytes(30_000_000)
    with listening(*consortium, model=model, tls=tls) as port:
        connection = port.connection(tls=tls)
        connection.sendall(port.process(plan="none").head("GET", MODEL_PATH))
        slow_until, got = time.monotonic() + 3.0, 0
        if not reads:
            time.sleep(3.0)
        with suppress(ConnectionError, ssl.SSLEOFError):
            while got < len(model) and (part := connection.recv(2**16)):
                got += len(part)
                if time.monotonic() < slow_until:
                    time.sleep(0.02)
        assert (got >= len(model)) is reads


def test_a_port_that_ends_takes_no_new_request() -> None:
    began = threading.Event()

    async def slow(request: Request) -> Response:
        del request
        began.set()
        await asyncio.sleep(0.8)  # the port waits a second for it
        return Response("late")

    guarded = server.guarded_server(Starlette(routes=[Route("/", slow)]), None)
    listener = listening_socket(LOOPBACK, number := free_port())
    thread = threading.Thread(target=asyncio.run, args=(guarded.serve(listener),))
    thread.start()
    request = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
    with (
        socket.create_connection((LOOPBACK, number)) as first,
        socket.create_connection((LOOPBACK, number)) as second,
    ):
        first.sendall(request)
        assert began.wait(PATIENCE)
        guarded.stop()
        time.sleep(0.3)
        with socket.create_connection((LOOPBACK, number)) as late:
            late.sendall(request)
            assert closes(late)
        assert status_of(first.recv(4096)) == 200
        assert closes(second)
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_an_idle_connection_holds_little_memory(port: Port) -> None:
    """asyncio keeps 256 KB for each TLS connection, unless its buffer is made smaller."""
    context = port.trusting()  # of one context, whose own memory is counted once
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(20):
            bare = socket.create_connection((LOOPBACK, port.number))
            port.opened.append(context.wrap_socket(bare, server_hostname=LOOPBACK))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / 20 < 100_000


def test_of_many_connections_without_a_request_the_oldest_are_closed(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_HEADLESS", 3)
    monkeypatch.setattr(server, "GREETING_SECONDS", PATIENCE)
    held = port.process("south").asking()
    wait_for(port.mailbox.connected)
    opened = [port.connection() for _ in range(5)]
    assert all(closes(each) for each in opened[:2])
    opened[4].sendall(port.process().head("GET", CHECK))
    assert status_of(opened[4].recv(4096)) == 204
    assert held.is_alive(), "a site that waits is not closed"
    port.mailbox.close()
    held.join(PATIENCE / 2)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_the_port_does_not_speak_an_old_version_of_tls(port: Port) -> None:
    context = port.trusting()
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection((LOOPBACK, port.number)) as bare,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        context.wrap_socket(bare, server_hostname=LOOPBACK)


def test_behind_a_proxy_the_port_speaks_plain_http(
    consortium: tuple[Path, Plan],
) -> None:
    with listening(*consortium, tls=False) as port:
        connection = port.connection(tls=False)
        connection.sendall(port.process().head("GET", CHECK))
        assert status_of(connection.recv(4096)) == 204


def test_a_port_that_is_taken_is_said(port: Port) -> None:
    with (
        pytest.raises(TransportError, match="cannot listen"),
        listening(port.folder, port.plan, number=port.number),
    ):
        pass


def test_whoever_does_not_close_a_connection_that_was_ended_is_left(
    port: Port, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused caller that keeps its end open costs nothing, and stops nobody."""
    connection = port.connection()
    connection.sendall(stranger(port).head())
    assert status_of(connection.recv(4096)) == 403
    # TLS alone waits 30 s for whoever does not close: that is seen, and no busy machine.
    monkeypatch.setattr(server, "STOP_SECONDS", 20.0)
    with listening(port.folder, port.plan) as other:
        idle = other.connection()
        idle.sendall(other.process().head("GET", CHECK))
        assert status_of(idle.recv(4096)) == 204
        other.opened.clear()  # it stays open
    serving = [thread for thread in threading.enumerate() if thread.name == "port"]
    assert len(serving) == 1, "the other port's has ended"
    assert closes(idle)
    idle.close()
    assert not caplog.records


def test_a_port_is_free_again_as_soon_as_it_is_left(
    consortium: tuple[Path, Plan],
) -> None:
    with listening(*consortium) as port:
        held = port.process().asking()
        wait_for(port.mailbox.connected)
    held.join(PATIENCE)
    with listening(*consortium, number=port.number) as again:
        assert again.process().ask() == (204, b"")


def test_handshakes_that_nobody_finishes_do_not_keep_others_out(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_HEADLESS", 3)
    monkeypatch.setattr(server, "GREETING_SECONDS", 0.2)
    bare = [port.connection(tls=False) for _ in range(10)]
    assert port.process().ask() == (204, b"")
    assert all(closes(each) for each in bare[:7])


def test_the_port_may_open_as_many_files_as_the_system_allows(port: Port) -> None:
    del port
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == hard

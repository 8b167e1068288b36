"""A site's end: every failure has its own sentence and patience, and is mended if it can."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import DiscreetError, InputError
from discreet.plan.file import dumps
from discreet.plan.plan import Plan
from discreet.session.messages import Kind, Message
from discreet.transport import keys
from discreet.transport.addresses import (
    LOOPBACK,
    SilenceError,
    TransportError,
    UnreachableError,
    free_port,
)
from discreet.transport.https import client
from discreet.transport.https.client import HttpsSite
from discreet.transport.keys import (
    CERTIFICATE,
    SERVER_KEY,
    SiteKeys,
    make_consortium,
    trust,
)
from unit.transport.https.port import listening, make

PATIENCE = 300.0
"""Seconds in which whatever is waited for happens, on any machine that is busy."""
THEIRS = "\x1b[2Jtext of the server"
"""What somebody else wrote, and nobody may be shown."""


@pytest.fixture(scope="module")
def consortium(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Plan]:
    folder = tmp_path_factory.mktemp("consortium")
    return folder, make(folder)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine's late answer counts as an answer."""
    monkeypatch.setattr(client, "CONNECT_SECONDS", PATIENCE)
    monkeypatch.setattr(client, "SLACK_SECONDS", PATIENCE)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@contextmanager
def answering(
    own: Path,
    status: int,
    body: bytes = b"",
    *,
    ahead: float = 0.0,
    headers: tuple[tuple[str, str], ...] = (),
) -> Iterator[str]:
    """A server with the coordinator's certificate that answers everything alike."""

    class Alike(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"] or 0))
            self.send_response_only(status, "text of the server")
            theirs = datetime.now(UTC) - timedelta(seconds=ahead)
            if "date" not in dict(headers):
                self.send_header("date", format_datetime(theirs, usegmt=True))
            self.send_header("content-length", str(len(body)))
            for name, value in headers:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST  # noqa: N815 - http.server's name

        def log_message(self, *_: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            pass  # whoever does not trust us hangs up

    with Quiet((LOOPBACK, 0), Alike) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(own / CERTIFICATE, own / SERVER_KEY)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"{LOOPBACK}:{server.server_port}"
        finally:
            server.shutdown()


def serve(
    folder: Path,
    address: str,
    *,
    plan: bytes = bytes(32),
    seconds: float = PATIENCE,
    site: HttpsSite | None = None,
    answer: Callable[[Message], Message] = lambda m: m.reply(Kind.STEP, site=1),
    until: Callable[[], bool] = lambda: False,
    tell: Callable[[str], None] = lambda _: None,
    report: Callable[[str], None] = lambda _: None,
) -> None:
    """Connect as the site north."""
    (site or HttpsSite()).serve(
        SiteKeys(folder / "north"),
        address,
        answer,
        plan=plan,
        until=until,
        wait_seconds=seconds,
        tell=tell,
        report=report,
    )


def serve_at_once(folder: Path, address: str) -> None:
    """Connect, and fail without trying again."""

    def again(_: float) -> float:
        pytest.fail("it waits, and tries again")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "pause", again)
        serve(folder, address)


def why_not(folder: Path, address: str, *, seconds: float = PATIENCE) -> str:
    """Return why a site cannot connect."""
    with pytest.raises(UnreachableError) as error:
        serve(folder, address, seconds=seconds)
    assert "text of the server" not in str(error.value)
    return str(error.value)


REFUSALS: dict[str, tuple[int, bytes, float, str]] = {
    "clock ahead": (401, b"signature", 400, r"is 4\d\d s ahead of the coordinator's"),
    "clock behind": (401, b"signature", -999, "s behind the coordinator's"),
    "signature": (401, b"signature", 0, "does not accept this site's signature"),
    "digest": (401, b"digest", 0, "does not accept this site's signature"),
    "stranger": (403, b"stranger", 0, "not in the roster"),
    "superseded": (409, b"superseded", 0, "another process of this site"),
    "plan": (409, b"plan", 0, "runs another plan"),
    "malformed": (400, b"malformed", 0, "cannot read this site's answer"),
    "too large": (413, b"too-large", 0, "too large"),
    "another 403": (403, THEIRS.encode(), 0, "not as a coordinator"),
    "another 409": (409, THEIRS.encode(), 0, "not as a coordinator"),
    "not found": (404, THEIRS.encode(), 0, r"not as a coordinator.*\(status 404\)"),
    "redirect": (301, b"", 0, "not as a coordinator"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_that_nothing_mends_is_said_at_once(
    consortium: tuple[Path, Plan], case: str
) -> None:
    status, word, ahead, sentence = REFUSALS[case]
    folder, _ = consortium
    elsewhere = (("location", "https://text-of-the-server.invalid/"),)
    with (
        answering(
            folder / "coordinator", status, word, ahead=ahead, headers=elsewhere
        ) as address,
        pytest.raises(UnreachableError, match=sentence) as error,
    ):
        serve_at_once(folder, address)
    assert "text of the server" not in str(error.value)


@pytest.mark.parametrize(
    ("status", "word", "sentence"),
    [
        (503, THEIRS.encode(), "cannot take requests now"),
        (429, b"too-many", "cannot take requests now"),
        (408, b"slow", "cannot take requests now"),
        (401, b"replay", "had this request before"),
    ],
)
def test_a_refusal_that_may_pass_is_waited_for(
    consortium: tuple[Path, Plan], status: int, word: bytes, sentence: str
) -> None:
    folder, _ = consortium
    began = time.monotonic()
    with answering(folder / "coordinator", status, word) as address:
        assert sentence in why_not(folder, address, seconds=0.5)
    assert time.monotonic() - began > 0.5


def another_authority(folder: Path) -> str:
    make_consortium(folder / "others", ["north"], hosts=[LOOPBACK])
    trust(
        folder / "north",
        keys.public_file_in(folder / "others" / "coordinator"),
    )
    return "signed by another authority.*discreet keys trust"


def other_names(folder: Path) -> str:
    keys.renew(folder / "coordinator", ["hub.example.org"])
    return "is for other names.*discreet keys renew"


def shifted(days: int) -> type[datetime]:
    class Shifted(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:
            del tz
            return datetime.now(UTC) + timedelta(days=days)

    return Shifted


def expired(folder: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "datetime", shifted(-100))
        patch.setattr(keys, "check_dates", lambda *_, **__: None)
        keys.renew(folder / "coordinator", days=90)
    return "has expired.*discreet keys renew"


def not_yet_valid(folder: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "datetime", shifted(3))
        keys.renew(folder / "coordinator")
    return "is not valid yet: this machine's clock says 2.*NTP"


@pytest.mark.parametrize(
    "make_wrong", [another_authority, other_names, expired, not_yet_valid]
)
def test_a_certificate_that_is_not_trusted_is_said_at_once(
    tmp_path: Path, make_wrong: Callable[[Path], str]
) -> None:
    make_consortium(tmp_path, ["north"], hosts=[LOOPBACK])
    sentence = make_wrong(tmp_path)
    with (
        answering(tmp_path / "coordinator", 204) as address,
        pytest.raises(UnreachableError, match=sentence),
    ):
        serve_at_once(tmp_path, address)


@contextmanager
def speaking(*words: bytes) -> Iterator[str]:
    """A port that says something to its first callers, and hangs up."""
    with socket.create_server((LOOPBACK, 0)) as server:

        def speak() -> None:
            with suppress(OSError):  # the test is over
                for text in words:
                    caller, _ = server.accept()
                    with caller:
                        caller.sendall(text)
                        caller.settimeout(PATIENCE)
                        caller.recv(65536)

        thread = threading.Thread(target=speak, daemon=True)
        thread.start()
        try:
            yield f"{LOOPBACK}:{server.getsockname()[1]}"
        finally:  # or it would accept the callers of whoever gets this descriptor next
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE)


def test_a_port_that_does_not_speak_tls_is_said_at_once(
    consortium: tuple[Path, Plan],
) -> None:
    with speaking(b"SSH-2.0-OpenSSH\r\n") as address:
        assert "does not speak TLS" in why_not(consortium[0], address)


def test_a_name_that_does_not_exist_is_said(consortium: tuple[Path, Plan]) -> None:
    why = why_not(consortium[0], "no-such-host.invalid:9443", seconds=0.3)
    assert "not known to this machine's DNS" in why


def test_a_coordinator_that_is_not_there_yet_is_waited_for(
    consortium: tuple[Path, Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    began = now = time.monotonic()

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    clock = SimpleNamespace(monotonic=lambda: now, sleep=sleep, time=time.time)
    monkeypatch.setattr(client, "time", clock)
    told: list[str] = []
    with pytest.raises(UnreachableError, match="nobody listens at"):
        serve(consortium[0], f"{LOOPBACK}:{free_port()}", seconds=60, tell=told.append)
    assert now - began > 60
    assert len(told) == 1, "trouble that lasts is told once"
    assert "trying again for" in told[0]


def test_a_host_that_never_answers_is_told_from_one_that_refuses(
    consortium: tuple[Path, Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "CONNECT_SECONDS", 0.2)
    monkeypatch.setattr(client, "SLACK_SECONDS", 0.2)
    with socket.create_server((LOOPBACK, 0)) as silent:
        address = f"{LOOPBACK}:{silent.getsockname()[1]}"
        assert "does not answer: is a firewall" in why_not(
            consortium[0], address, seconds=0.1
        )


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (b"HTTP/1.1 403 text of the server\r\n\r\n", "the proxy of the environment"),
        (b"", r"broke.*HTTPS_PROXY is set"),
        (None, r"not known to this machine's DNS.*HTTPS_PROXY is set"),
    ],
)
def test_a_proxy_that_does_not_pass_on_is_named(
    consortium: tuple[Path, Plan],
    reply: bytes | None,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with speaking(*[reply or b""] * 50) as address:
        proxy = "no-such-proxy.invalid:3128" if reply is None else address
        monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy}")
        with pytest.raises(UnreachableError, match=sentence) as error:
            serve(consortium[0], "hub.example.org:9443", seconds=0.2)
    assert "text of the server" not in str(error.value)


@pytest.mark.parametrize("named", [LOOPBACK, "hub, 127.0.0.0/8", "::/0, 127.0.0.1/32"])
def test_a_host_of_no_proxy_is_reached_directly(
    consortium: tuple[Path, Plan], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, plan = consortium
    monkeypatch.setenv("HTTPS_PROXY", f"http://{LOOPBACK}:{free_port()}")
    with listening(folder, plan) as port:
        address, north = f"{LOOPBACK}:{port.number}", SiteKeys(folder / "north")
        with pytest.raises(UnreachableError, match="HTTPS_PROXY is set"):
            HttpsSite().probe(north, address, plan=plan.digest())
        monkeypatch.setenv("NO_PROXY", "10.0.0.0/8, 127.0.0.0/33, hub, [")
        with pytest.raises(UnreachableError, match="HTTPS_PROXY is set"):
            HttpsSite().probe(north, address, plan=plan.digest())
        monkeypatch.setenv("NO_PROXY", named)
        HttpsSite().probe(north, address, plan=plan.digest())
    with pytest.raises(UnreachableError) as error:
        HttpsSite().probe(north, address, plan=plan.digest())
    assert "PROXY" not in str(error.value)


@pytest.mark.parametrize("proxy", ["socks5://hub:1080", "ftp://hub", "http://hub:port"])
def test_a_proxy_that_cannot_be_used_is_said_in_a_sentence(
    consortium: tuple[Path, Plan], proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(InputError, match="a proxy is given as"):
        serve(consortium[0], "hub.example.org:9443")


@pytest.mark.parametrize("address", ["a b:9443", "hub..example:9443", "ü\x00:9443"])
def test_a_host_that_is_none_is_said_in_a_sentence(
    consortium: tuple[Path, Plan], address: str
) -> None:
    with pytest.raises(DiscreetError):
        serve(consortium[0], address, seconds=0.1)


def test_a_file_that_holds_no_authority_is_said(
    consortium: tuple[Path, Plan], tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_text("text")
    for file in ("ca.pem", "missing.pem"):
        site = HttpsSite(str(tmp_path / file))
        with pytest.raises(InputError, match="holds no certificate"):
            serve(consortium[0], "hub.example.org:9443", site=site)


def test_another_authority_is_trusted_when_it_is_named(
    consortium: tuple[Path, Plan], tmp_path: Path
) -> None:
    """A reverse proxy has a certificate of its own; the system's does not know it."""
    folder, plan = consortium
    make_consortium(tmp_path, ["north"], hosts=[LOOPBACK])
    north = SiteKeys(folder / "north")
    with answering(tmp_path / "coordinator", 204) as address:
        named = HttpsSite(str(tmp_path / "coordinator" / "ca.pem"))
        assert named.probe(north, address, plan=plan.digest()) is not None
        for other in (HttpsSite(), HttpsSite("system")):
            with pytest.raises(UnreachableError, match="another authority"):
                other.probe(north, address, plan=plan.digest())


@settings(max_examples=40)
@given(
    st.sampled_from([200, 204, 301, 400, 401, 403, 404, 409, 418, 500]),
    st.binary(max_size=60),
    st.sampled_from(["x", "Mon, 01 Jan 0001 00:00:00 -0000", "999", ""]),
)
def test_no_reply_of_a_server_is_more_than_a_sentence(
    consortium: tuple[Path, Plan], status: int, body: bytes, date: str
) -> None:
    folder, plan = consortium
    own, north = folder / "coordinator", SiteKeys(folder / "north")
    body = b"" if status == 204 else body
    told = [""]
    with answering(own, status, body, headers=(("date", date),)) as address:
        try:
            HttpsSite().fetch_plan(north, address)
            HttpsSite().probe(north, address, plan=plan.digest())
        except UnreachableError as error:
            told.append(str(error))
    assert told[-1].isprintable()


def test_a_message_that_cannot_be_read_ends_a_site_with_nothing_sent(
    consortium: tuple[Path, Plan],
) -> None:
    reported: list[str] = []
    with (
        answering(consortium[0] / "coordinator", 200, THEIRS.encode()) as address,
        pytest.raises(TransportError, match="Nothing was sent") as error,
    ):
        serve(consortium[0], address, report=reported.append)
    assert "text of the server" not in str(error.value) + "".join(reported)


def test_a_reply_beyond_the_limit_is_not_read(
    consortium: tuple[Path, Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MOST_BYTES", 1000)
    with answering(consortium[0] / "coordinator", 200, bytes(1001)) as address:
        assert "not as a coordinator" in why_not(consortium[0], address)


def test_a_silent_coordinator_is_left_after_a_while(
    consortium: tuple[Path, Plan],
) -> None:
    with (
        answering(consortium[0] / "coordinator", 204) as address,
        pytest.raises(SilenceError, match="no message from the coordinator for"),
    ):
        serve(consortium[0], address, seconds=0.3)


def test_a_probe_measures_the_clock_and_a_plan_is_fetched(
    consortium: tuple[Path, Plan],
) -> None:
    folder, plan = consortium
    with listening(folder, plan) as port:
        address, north = (
            f"https://{LOOPBACK}:{port.number}/",
            SiteKeys(folder / "north"),
        )
        with pytest.MonkeyPatch.context() as patch:
            later = SimpleNamespace(time=lambda: time.time() + 5000)
            patch.setattr(client, "time", later)
            ahead = HttpsSite().probe(north, address, plan=plan.digest())
        assert ahead is not None
        assert 4999 < ahead < 5000 + PATIENCE
        assert HttpsSite().fetch_plan(north, address) == dumps(plan)


def test_an_answer_reaches_a_coordinator_that_was_away(
    consortium: tuple[Path, Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port is closed while the site answers; the next one gets the same bytes."""
    found_nobody, back = threading.Event(), threading.Event()

    def pause(_: float) -> float:
        found_nobody.set()
        return float(not back.wait(PATIENCE))

    monkeypatch.setattr(client, "pause", pause)
    folder, plan = consortium
    number, told, asked = free_port(), [], []
    over, asked_once = threading.Event(), threading.Event()

    def answer(message: Message) -> Message:
        asked.append(message)
        asked_once.set()
        if message.kind is Kind.END:
            over.set()
            return message.reply(Kind.END, site=1)
        gone.wait(PATIENCE)
        return message.reply(Kind.STEP, site=1, body=b"answer")

    gone = threading.Event()
    site = threading.Thread(
        target=serve,
        args=(folder, f"{LOOPBACK}:{number}"),
        daemon=True,
        kwargs={
            "plan": plan.digest(),
            "answer": answer,
            "until": over.is_set,
            "tell": told.append,
        },
    )
    with listening(folder, plan, number=number) as port:
        site.start()
        message = port.message()
        port.mailbox.send(1, message, seconds=1)
        assert asked_once.wait(PATIENCE)
    gone.set()
    assert found_nobody.wait(PATIENCE)
    with listening(folder, plan, number=number) as port:
        port.mailbox.send(1, message, seconds=1)
        back.set()
        arrived: list[Message] = []
        while not arrived:
            port.mailbox.wait(5.0)
            arrived = [a for _, a in port.mailbox.receive() if isinstance(a, Message)]
        assert arrived[0].body == b"answer"
        assert len(asked) == 1, "it was not asked again"
        end = port.message(Kind.END)
        port.mailbox.send(1, end, seconds=1)
        site.join(PATIENCE)
        assert not site.is_alive()
        ((_, last),) = port.mailbox.receive()
        assert last.about == end.digest(), "the end was acknowledged"
    assert told == [f"connected to {LOOPBACK}:{number}"]

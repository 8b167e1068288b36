"""A site's end: it connects outwards, answers messages, and tries again when the line is gone.

Why a coordinator cannot be reached is known exactly where it fails (the name, the port, the
certificate, the clock, the signature), and nowhere else. Each failure is told apart by its
type, never by its text, and nothing that the other side wrote is shown.
"""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Final, Self

import httpx2

from discreet.codec.messages import MalformedMessageError
from discreet.data.scoring import MOST_BYTES as MOST_MODEL_BYTES
from discreet.errors import InputError
from discreet.session.checkup import proxy_of
from discreet.session.messages import Message
from discreet.session.retrying import pause
from discreet.transport.addresses import (
    SilenceError,
    TransportError,
    UnreachableError,
    host_and_port,
)
from discreet.transport.https.signing import (
    CHECK,
    CLOCK_SECONDS,
    MESSAGES,
    MODEL_PATH,
    PLAN_PATH,
    Signer,
)
from discreet.transport.joining import Answering, Report
from discreet.transport.keys import SiteKeys

SYSTEM_AUTHORITIES: Final = "system"
"""Trust the authorities of the operating system: a reverse proxy has their certificate."""
CONNECT_SECONDS: Final = 10.0
BODY_SECONDS: Final = 120.0
SLACK_SECONDS: Final = 5.0
"""How much longer than it was asked to wait an answer may take on its way."""
SHORTEST_WAIT, LONGEST_WAIT = 2.0, 20.0
"""Seconds that a request waits for a message: short after a message, when the next one is
near and a stalled connection would delay everybody, longer when a site waits for hours."""
TROUBLE_SECONDS: Final = 2.0
"""How long a failure must last before it is told."""
MOST_BYTES: Final = 2**26
"""Of one message of the coordinator."""
_SOON: Final = 20.0
_ALWAYS: Final = float("inf")


class _Line:
    """Sends the signed requests of one process over connections that are kept open."""

    def __init__(self, address: str, signer: Signer, context: ssl.SSLContext) -> None:
        host, port = host_and_port(address)
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._signer = signer
        try:
            self._http = httpx2.Client(
                base_url=f"https://{self.address}", verify=context
            )
        except (ImportError, ValueError, httpx2.InvalidURL):
            raise InputError(
                f"the host in {self.address}, or a proxy of the environment, cannot be "
                "used: a proxy is given as http://host:port"
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        wait: float = 0.0,
        most: int | None = None,
    ) -> httpx2.Response:
        """Send a request, and read its reply up to a limit.

        Raises:
            UnreachableError: it failed, or was refused.
        """
        wished = {"prefer": f"wait={wait:.0f}"} if wait else {}
        timeout = httpx2.Timeout(
            CONNECT_SECONDS, read=wait + SLACK_SECONDS, write=BODY_SECONDS
        )
        headers = self._signer.headers(method, path, body) | wished
        try:
            with self._http.stream(
                method, path, content=body, headers=headers, timeout=timeout
            ) as reply:
                content = bytearray()
                for part in reply.iter_raw():
                    content += part
                    if len(content) > (most or MOST_BYTES):
                        raise _no_coordinator(self.address, reply.status_code)
        except httpx2.HTTPError as error:
            raise _explained(error, self.address) from error
        if reply.status_code not in {200, 204}:
            raise _refused(reply, bytes(content[:80]), self.address)
        return httpx2.Response(
            reply.status_code, headers=reply.headers, content=bytes(content)
        )


@dataclass(frozen=True, slots=True)
class HttpsSite:
    """How a site reaches its coordinator over HTTPS; it implements ``SiteRuntime``.

    Args:
        authority: whose certificates it trusts: by default the coordinator's own
            authority, "system" for the operating system's, or a file of certificates.
    """

    authority: str | None = None

    def serve(
        self,
        keys: SiteKeys,
        address: str,
        answer: Answering,
        *,
        plan: bytes,
        until: Callable[[], bool],
        wait_seconds: float,
        tell: Callable[[str], None],
        report: Report,
    ) -> None:
        """Connect, and answer messages about a plan until ``until`` holds.

        A coordinator may be about to start: a site that finds nobody tries again. A
        site that was connected tries again whatever happens, as long as it waits for a
        message: the coordinator may come back and resume. What cannot mend itself (a
        certificate, a name, a key, a clock) ends a first attempt at once.
        """
        with self._line(keys, address, plan.hex()) as line:
            patience = _Patience(line.address, wait_seconds, tell)
            outgoing = b""
            while not until():
                try:
                    reply = line.request(
                        "POST", MESSAGES, outgoing, wait=patience.wait()
                    )
                except UnreachableError as error:
                    patience.failed(error)
                    continue  # with the same answer: the coordinator may not have it
                patience.connected(heard=bool(reply.content))
                outgoing = b""
                if reply.content:
                    outgoing = _answered(reply.content, answer, report)
                    patience.last = time.monotonic()
            if outgoing:  # tells the coordinator that the end was understood
                _send_last(line, outgoing)

    def probe(self, keys: SiteKeys, address: str, *, plan: bytes) -> float | None:
        """Let a coordinator check signature, clock and plan, without joining.

        Returns how far this clock is ahead of the coordinator's, in seconds.
        """
        with self._line(keys, address, plan.hex()) as line:
            return _clock_ahead(line.request("GET", CHECK))

    def fetch_plan(self, keys: SiteKeys, address: str) -> str:
        """Return the plan that a coordinator runs, as its file."""
        with self._line(keys, address, "none") as line:
            reply = line.request("GET", PLAN_PATH)
            try:
                return reply.content.decode()
            except UnicodeDecodeError:
                raise _no_coordinator(line.address, reply.status_code) from None

    def fetch_model(self, keys: SiteKeys, address: str) -> bytes:
        """Return the model file that a coordinator serves; the caller checks it."""
        with self._line(keys, address, "none") as line:
            return line.request("GET", MODEL_PATH, most=MOST_MODEL_BYTES).content

    def _line(self, keys: SiteKeys, address: str, plan: str) -> _Line:
        return _Line(address, Signer(keys.identity(), plan), self._trusting(keys))

    def _trusting(self, keys: SiteKeys) -> ssl.SSLContext:
        """Return the terms of a connection: TLS 1.2 or newer, and whom to trust."""
        try:
            if self.authority is None:
                own = keys.coordinator().authority
                context = ssl.create_default_context(cadata=own)
            else:
                system = self.authority == SYSTEM_AUTHORITIES
                file = None if system else self.authority
                context = ssl.create_default_context(cafile=file)
        except OSError:  # the ssl module's errors are of this kind
            raise InputError(
                f"{self.authority} holds no certificate of an authority in PEM form"
            ) from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context


def _answered(raw: bytes, answer: Answering, report: Report) -> bytes:
    try:
        message = Message.decode(raw)
    except MalformedMessageError as error:
        report(str(error))
        raise TransportError(
            "a message of the coordinator cannot be read: do both ends run the same "
            "release? Nothing was sent"
        ) from None
    return answer(message).encode()


def _send_last(line: _Line, answer: bytes) -> None:
    for _ in range(3):
        try:
            line.request("POST", MESSAGES, answer)
        except UnreachableError:
            time.sleep(0.2)
        else:
            return


@dataclass
class _Patience:
    """How long a site goes on waiting for its coordinator."""

    address: str
    wait_seconds: float
    tell: Callable[[str], None]
    last: float = field(default_factory=time.monotonic)
    """When a message came, or was answered, last."""
    known: bool = False
    trouble: str = ""
    since: float = 0.0
    """What the connection fails with, and since when."""
    told: str = ""

    def wait(self) -> float:
        """Return how long the next request waits for a message."""
        if not self.known:
            return SHORTEST_WAIT
        silent = time.monotonic() - self.last
        return min(max(silent, SHORTEST_WAIT), LONGEST_WAIT)

    def connected(self, *, heard: bool) -> None:
        """Note a reply; give up after a long silence."""
        if self.told or not self.known:
            self.tell(f"connected to {self.address}")
        self.known, self.trouble, self.told = True, "", ""
        if heard:
            self.last = time.monotonic()
        elif time.monotonic() - self.last > self.wait_seconds:
            raise SilenceError(
                f"no message from the coordinator for {self.wait_seconds:.0f} s"
            )

    def failed(self, error: UnreachableError) -> None:
        """Wait before the next attempt, or give up."""
        now = time.monotonic()
        if str(error) != self.trouble:
            self.trouble, self.since = str(error), now
        failing, silent = now - self.since, now - self.last
        hopeless = not self.known and failing >= error.worth_seconds
        if hopeless or error.worth_seconds < 0 or silent > self.wait_seconds:
            raise error
        if failing > TROUBLE_SECONDS and self.told != self.trouble:
            left = min(self.wait_seconds - silent, error.worth_seconds)
            self.tell(f"{error} (trying again for {left:.0f} s)")
            self.told = self.trouble
        time.sleep(max(0.1, pause(failing)))


def _clock_ahead(reply: httpx2.Response) -> float | None:
    """Return by how many seconds this clock is ahead, to a second; None if unknown."""
    try:
        theirs = parsedate_to_datetime(reply.headers["date"]).timestamp()
    except (KeyError, ValueError, OverflowError):
        return None
    return time.time() - theirs


def _explained(error: httpx2.HTTPError, address: str) -> UnreachableError:
    """Say why a request failed."""
    why, worth = f"the connection to {address} broke ({type(error).__name__})", _ALWAYS
    if isinstance(error, httpx2.TimeoutException):
        why = f"{address} does not answer: is a firewall in between, or the host wrong?"
    cause: BaseException = error
    for cause in _causes(error):
        match cause:
            case ssl.SSLCertVerificationError():
                why, worth = f"the certificate at {address} {_untrusted(cause)}", 0.0
            case ssl.SSLEOFError() | ssl.SSLZeroReturnError():
                continue
            case ssl.SSLError():
                worth = 0.0
                why = (
                    f"{address} does not speak TLS as a coordinator does: is the port "
                    "right, and is no gateway in between?"
                )
            case socket.gaierror():
                worth = _SOON if cause.errno == socket.EAI_AGAIN else 0.0
                why = (
                    f"the name in {address} is not known to this machine's DNS: is it "
                    "spelt right?"
                )
            case ConnectionRefusedError():
                why = (
                    f"nobody listens at {address}: is the coordinator started, and the "
                    "port right?"
                )
            case httpx2.ProxyError():
                worth = _SOON
                why = (
                    f"the proxy of the environment does not pass on to {address}: ask "
                    "for an exception, or name the host in NO_PROXY"
                )
            case _:
                continue
        break
    proxy = proxy_of(os.environ, host_and_port(address)[0])
    if proxy is not None and not isinstance(cause, ssl.SSLError):
        why = f"{why} ({proxy} is set: is it the proxy that does not answer?)"
    return UnreachableError(why, worth)


def _causes(error: BaseException) -> list[BaseException]:
    causes: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and len(causes) < 10:
        causes.append(one)
        one = one.__cause__ or one.__context__
    return causes


def _untrusted(error: ssl.SSLCertVerificationError) -> str:
    match error.verify_code:
        case 62 | 64:  # X509_V_ERR_HOSTNAME_MISMATCH, _IP_ADDRESS_MISMATCH
            return (
                "is for other names: use one of those that the coordinator gave to "
                "`discreet keys`, or let it run `discreet keys renew --host`"
            )
        case 10:  # X509_V_ERR_CERT_HAS_EXPIRED
            return (
                "has expired, or this machine's clock is ahead: the coordinator runs "
                "`discreet keys renew`"
            )
        case 9:  # X509_V_ERR_CERT_NOT_YET_VALID
            return (
                f"is not valid yet: this machine's clock says {time.strftime('%Y-%m-%d %H:%M')}; "
                "set both clocks by NTP"
            )
        case _:
            return (
                "is signed by another authority than this site trusts: run `discreet "
                "keys trust` with the coordinator's public file, and look for a "
                "gateway that opens TLS"
            )


def _refused(  # noqa: C901 - one case a refusal
    reply: httpx2.Response, word: bytes, address: str
) -> UnreachableError:
    """Say why the coordinator refuses a request; ``word`` is compared, never shown."""
    worth = 0.0
    match reply.status_code, word:
        case 401, _ if abs(ahead := _clock_ahead(reply) or 0.0) > CLOCK_SECONDS:
            way = "ahead of" if ahead > 0 else "behind"
            why = (
                f"this machine's clock is {abs(ahead):.0f} s {way} the coordinator's, "
                f"and {CLOCK_SECONDS} s are tolerated: set both by NTP"
            )
        case 401, b"replay":  # a request that took another way arrived first
            why, worth = f"{address} had this request before", _SOON
        case 401, _:
            why = (
                f"the coordinator at {address} does not accept this site's signature: "
                "is a gateway changing requests in between?"
            )
        case 403, b"stranger":
            why = (
                "this site's identity is not in the roster of the plan that the "
                f"coordinator at {address} runs: send it the site's public file, which "
                "it adds with `discreet roster`"
            )
        case 409, b"superseded":
            worth = -1.0  # not even a connected site tries again
            why = "another process of this site has connected: this one ends"
        case 409, b"plan":
            why = (
                f"the coordinator at {address} runs another plan than this site agreed "
                "to, or only one of both rehearses: compare the digests"
            )
        case 400, b"malformed":
            worth = -1.0
            why = (
                f"the coordinator at {address} cannot read this site's answer: do both "
                "ends run the same release?"
            )
        case 404, b"no-model":
            why = (
                f"the coordinator at {address} serves no model file: ask for it, or for "
                "`discreet coordinate --serve-model`"
            )
        case 413, _:
            why = f"this site's answer is too large for {address}"
        case ((408 | 429 | 500 | 502 | 503 | 504), _):
            why = f"{address} cannot take requests now (status {reply.status_code})"
            worth = _ALWAYS
        case _:
            return _no_coordinator(address, reply.status_code)
    return UnreachableError(why, worth)


def _no_coordinator(address: str, status: int) -> UnreachableError:
    """Say that somebody else answers."""
    return UnreachableError(
        f"{address} answers, and not as a coordinator of discreet: are host and port "
        f"right? (status {status})"
    )

"""Why a coordinator cannot be reached: one sentence, and how long to try again.

What a connection fails with is known exactly where it fails (the name, the port, the
certificate, the clock, the key), and nowhere else. Here each failure is told apart by
its type, never by its text.
"""

from __future__ import annotations

import os
import socket
import ssl
import time
from email.utils import parsedate_to_datetime
from enum import IntEnum
from pathlib import Path
from typing import Final

import httpx

from discreet.errors import InputError
from discreet.session.checkup import proxy_of
from discreet.transport.addresses import UnreachableError

CLOCK_AHEAD_SECONDS: Final = 5.0
CLOCK_BEHIND_SECONDS: Final = 305.0
"""How far a site's clock may be from the coordinator's: Flower signs the time."""
ONLINE_SECONDS: Final = 20.0
"""How long Flower takes a node for connected that was killed: two heartbeats."""


class ErrorOfFlower(IntEnum):
    """Two of ``ApiErrorCode``; importing that loads a web framework."""

    NOT_ACTIVATED = 2004
    RUN_IS_OVER = 2007


_ALWAYS: Final = float("inf")


def trusting(authority: Path) -> ssl.SSLContext:
    """Return the terms of a connection: TLS 1.2 or newer, and one authority."""
    try:
        context = ssl.create_default_context(cafile=authority)
    except ssl.SSLError:
        raise InputError(
            f"{authority} is no certificate of an authority: run `discreet keys trust` "
            "with the coordinator's public file"
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def clock_ahead(response: httpx.Response) -> float | None:
    """Return by how many seconds this clock is ahead, to a second; None if unknown."""
    try:
        theirs = parsedate_to_datetime(response.headers["date"]).timestamp()
    except (KeyError, ValueError):
        return None
    return time.time() - theirs


def tolerated(ahead: float) -> bool:
    """Whether Flower accepts what was signed by a clock that far ahead."""
    return -CLOCK_BEHIND_SECONDS < ahead < CLOCK_AHEAD_SECONDS


def clock_sentence(ahead: float) -> str:
    """Say how far the clocks are apart."""
    way = "ahead of" if ahead > 0 else "behind"
    return (
        f"this machine's clock is {abs(ahead):.0f} s {way} the coordinator's, and at "
        f"most {CLOCK_AHEAD_SECONDS:.0f} s ahead are tolerated: set both by NTP"
    )


def explained(error: httpx.HTTPError, address: str) -> UnreachableError:
    """Say why a request failed."""
    if isinstance(error, httpx.HTTPStatusError):
        return _refused(error.response, address)
    kind, worth = type(error).__name__, _ALWAYS
    why = f"the connection to {address} broke ({kind})"
    if isinstance(error, httpx.TimeoutException):
        why = f"{address} does not answer: is a firewall in between, or the host wrong?"
    for cause in _causes(error):
        match cause:
            case ssl.SSLCertVerificationError():
                why, worth = f"the certificate at {address} {_untrusted(cause)}", 0.0
            case ssl.SSLError():
                worth = 0.0
                why = (
                    f"{address} does not speak TLS as a coordinator does: is the port "
                    "right, and is no gateway in between?"
                )
            case socket.gaierror():
                worth = ONLINE_SECONDS if cause.errno == socket.EAI_AGAIN else 0.0
                why = (
                    f"the name in {address} is not known to this machine's DNS: is it "
                    "spelt right?"
                )
            case ConnectionRefusedError():
                why = (
                    f"nobody listens at {address}: is the coordinator started, and the "
                    "port right?"
                )
            case httpx.ProxyError():
                worth = ONLINE_SECONDS
                why = (
                    f"the proxy of the environment does not pass on to {address}: ask "
                    "for an exception, or name the host in NO_PROXY"
                )
            case _:
                continue
        break
    proxy = proxy_of(os.environ)
    if proxy is not None and worth:
        why = f"{why} ({proxy} is set: is it the proxy that does not answer?)"
    return UnreachableError(why, worth)


def _causes(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and len(found) < 10:
        found.append(one)
        one = one.__cause__ or one.__context__
    return found


def _untrusted(error: ssl.SSLCertVerificationError) -> str:
    match error.verify_code:
        case 62 | 64:  # X509_V_ERR_HOSTNAME_MISMATCH, _IP_ADDRESS_MISMATCH
            return (
                "is for other names: use one of those that the coordinator gave to "
                "`discreet keys`, or let it run `discreet keys renew --host`"
            )
        case 10:  # X509_V_ERR_CERT_HAS_EXPIRED
            return (
                "has ended, or this machine's clock is wrong: the coordinator runs "
                "`discreet keys renew`"
            )
        case 9:  # X509_V_ERR_CERT_NOT_YET_VALID
            return "is not valid yet: set both clocks by NTP"
        case _:
            return (
                "is signed by another authority than this site trusts: run `discreet "
                "keys trust` with the coordinator's public file, and look for a "
                "gateway that opens TLS"
            )


def _refused(response: httpx.Response, address: str) -> UnreachableError:
    """Say why the coordinator's side answered with an error."""
    ahead = clock_ahead(response) or 0.0
    worth = 0.0
    match response.status_code, _code(response):
        case 401, _ if not tolerated(ahead):
            why = clock_sentence(ahead)
        case 401, _:  # a SuperLink that was started again has other numbers for nodes
            worth = ONLINE_SECONDS
            why = f"the coordinator at {address} does not accept this node's signature"
        case _, ErrorOfFlower.RUN_IS_OVER:
            why, worth = f"the coordinator at {address} has ended its run", _ALWAYS
        case 403, _:
            why = (
                f"the coordinator at {address} does not know this site's node key: "
                "send it the site's public file, which it adds with `discreet roster`"
            )
        case _, ErrorOfFlower.NOT_ACTIVATED:
            worth = 2 * ONLINE_SECONDS
            why = (
                "this site is connected already: end its other process; one that was "
                f"killed is forgotten after {ONLINE_SECONDS:.0f} s"
            )
        case ((500 | 502 | 503 | 504), _):
            worth = _ALWAYS
            why = f"the coordinator at {address} failed on a request"
        case _:
            return no_coordinator(address, response.status_code)
    return UnreachableError(why, worth)


def _code(response: httpx.Response) -> object:
    """Return Flower's number of an error."""
    try:
        payload = response.json()
    except ValueError:
        return None
    return payload.get("code") if isinstance(payload, dict) else None


def no_coordinator(address: str, status: int) -> UnreachableError:
    """Say that somebody else answers."""
    return UnreachableError(
        f"{address} answers, and not as a coordinator of discreet: are host and port "
        f"right? (status {status})"
    )

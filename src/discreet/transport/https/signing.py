"""Signed requests: who asks, about which plan, when, and each only once.

A site signs every request with its identity in the roster, as HTTP Message Signatures
(RFC 9421) with Ed25519. The signature covers the method, the path, the digest of the body
(RFC 9530) and the plan's digest, and carries the time, the key and a nonce. Host and scheme
are not covered: a reverse proxy may change both, and the plan's digest already binds a
request to one consortium.

A nonce is the name of a process and a number that grows with each of its requests. So a
coordinator refuses replays by remembering one number per site, however many requests come.
Requests that change nothing (the plan, a check) may come twice and out of order.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from http_message_signatures import (
    HTTPMessageSigner,
    HTTPMessageVerifier,
    HTTPSignatureKeyResolver,
    VerifyResult,
    algorithms,
)
from http_message_signatures.exceptions import HTTPMessageSignaturesException

from discreet.entropy import SYSTEM, Entropy
from discreet.plan.cohort import key_text

MESSAGES: Final = "/v1/messages"
PLAN_PATH: Final = "/v1/plan"
MODEL_PATH: Final = "/v1/model"
CHECK: Final = "/v1/check"
PLAN: Final = "discreet-plan"
"""The header with the digest of the plan that a request is about."""
TAG: Final = "discreet"
CLOCK_SECONDS: Final = 300
"""How far the clocks of a site and a coordinator may be apart."""
MOST_PROCESSES: Final = 1000
"""Processes of one site that a coordinator remembers within the clocks' tolerance."""
_COVERED: Final = ("@method", "@path", "content-digest", PLAN)
_ORIGIN: Final = "https://coordinator.invalid"
"""Stands for scheme and host, which no signature covers."""
_PROCESS_HEX: Final = 32


@dataclass
class SignedRequest:
    """A request as its signature sees it; signing adds to the headers."""

    method: str
    path: str
    headers: dict[str, str]

    @property
    def url(self) -> str:
        """Where it goes, with a stand-in for scheme and host."""
        return _ORIGIN + self.path


class SignatureError(Exception):
    """A request is refused: an HTTP status, and one word of why."""

    def __init__(self, status: int, word: str) -> None:
        super().__init__(word)
        self.status, self.word = status, word


class _OneKey(HTTPSignatureKeyResolver):
    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    def resolve_private_key(self, key_id: str) -> Ed25519PrivateKey:
        del key_id
        return self._key


class Signer:
    """Signs the requests of one process of a site."""

    def __init__(
        self, identity: Ed25519PrivateKey, plan: str, *, entropy: Entropy = SYSTEM
    ) -> None:
        self._name = key_text(identity.public_key().public_bytes_raw())
        self._plan = plan
        self._process, self._number = entropy(_PROCESS_HEX // 2).hex(), 0
        self._signer = HTTPMessageSigner(
            signature_algorithm=algorithms.ED25519, key_resolver=_OneKey(identity)
        )

    def headers(
        self, method: str, path: str, body: bytes, *, created: float | None = None
    ) -> dict[str, str]:
        """Return the headers that sign a request now, or at another time."""
        self._number += 1
        headers = {PLAN: self._plan}
        self._signer.sign(
            SignedRequest(method, path, headers),
            key_id=self._name,
            created=datetime.fromtimestamp(created or time.time(), UTC),
            nonce=f"{self._process}.{self._number}",
            tag=TAG,
            covered_component_ids=_COVERED,
            label=TAG,
            body=body,
        )
        return {name.lower(): value for name, value in headers.items()}


class _Roster(HTTPSignatureKeyResolver):
    def __init__(self, keys: Iterable[bytes]) -> None:
        self._keys = {key_text(k): Ed25519PublicKey.from_public_bytes(k) for k in keys}

    def resolve_public_key(self, key_id: str) -> Ed25519PublicKey:
        if key_id not in self._keys:
            raise SignatureError(403, "stranger")
        return self._keys[key_id]


class _Verifier(HTTPMessageVerifier):
    max_clock_skew = timedelta(seconds=CLOCK_SECONDS)


@dataclass
class _Processes:
    """Whose requests of one site are fresh: those of its latest process, in order."""

    current: str = ""
    last: int = 0
    ended: dict[str, float] = field(default_factory=dict)

    def check(self, process: str, number: int, now: float) -> None:
        if process in self.ended:
            raise SignatureError(409, "superseded")
        if process != self.current:
            self.ended = {p: t for p, t in self.ended.items() if t > now}
            if len(self.ended) >= MOST_PROCESSES:
                raise SignatureError(429, "too-many")
            if self.current:
                self.ended[self.current] = now + 2 * CLOCK_SECONDS
            self.current, self.last = process, 0
        if number <= self.last:
            raise SignatureError(401, "replay")
        self.last = number


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request whose headers a site of the roster has signed."""

    site: str
    request: SignedRequest
    result: VerifyResult


class Gate:
    """Decides which requests a coordinator reads.

    Args:
        sites: the identities of the roster, by name.
        plan: the digest of the plan, in hex.
    """

    def __init__(self, sites: Mapping[str, bytes], plan: str) -> None:
        self._names = {key_text(key): name for name, key in sites.items()}
        self._plan = plan
        self._verifier = _Verifier(
            signature_algorithm=algorithms.ED25519, key_resolver=_Roster(sites.values())
        )
        self._processes = {name: _Processes() for name in sites}

    def admit(self, request: SignedRequest, *, any_plan: bool = False) -> Admitted:
        """Return who signed a request's headers; its body is not read yet.

        Raises:
            SignatureError: nobody of the roster signed it, or not now, or for another
                plan.
        """
        try:
            (result,) = self._verifier.verify(
                request,
                max_age=timedelta(0),
                expect_tag=TAG,
                require_components=_COVERED,
            )
        except HTTPMessageSignaturesException as error:
            if isinstance(error.__context__, SignatureError):
                raise error.__context__ from None
            raise SignatureError(401, "signature") from None
        except ValueError:
            raise SignatureError(401, "signature") from None
        name = self._names[str(result.parameters["keyid"])]
        if not any_plan and request.headers[PLAN] != self._plan:
            raise SignatureError(409, "plan")
        return Admitted(name, request, result)

    def check_order(self, admitted: Admitted) -> None:
        """Refuse a request that came before, or of an earlier process of its site.

        Only for requests that change something: so that a site can be checked, by a
        second process, while it takes part.
        """
        process, number = _nonce(admitted.result.nonce or "")
        processes = self._processes[admitted.site]
        processes.check(process, number, time.monotonic())

    def check_body(self, admitted: Admitted, body: bytes) -> None:
        """Refuse a body that is not the signed one."""
        try:
            self._verifier.verify_body(admitted.request, [admitted.result], body)
        except HTTPMessageSignaturesException:
            raise SignatureError(401, "digest") from None


def _nonce(text: str) -> tuple[str, int]:
    process, _, number = text.partition(".")
    if len(process) != _PROCESS_HEX or not (number.isdecimal() and len(number) < 17):
        raise SignatureError(401, "signature")
    return process, int(number)

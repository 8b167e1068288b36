# ruff: noqa: INP001 - a script beside its data, not a package
"""Write the test vectors of signed requests into ``vectors/requests``.

    python vectors/generate_requests.py

Ed25519 signatures are deterministic and the clock is fixed, so that the files come out the
same each time. A change in them is a change of the wire and needs a new path (``/v2``).

    request_*.json    requests that a coordinator accepts, in this order
    bad_*.json        requests of which the last is refused, with this status and word
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from http_message_signatures import ContentDigest, HTTPMessageSigner, algorithms

from discreet.entropy import Seeded
from discreet.plan.cohort import key_text
from discreet.transport.https import signing
from discreet.transport.https.signing import (
    CHECK,
    CLOCK_SECONDS,
    MESSAGES,
    PLAN,
    PLAN_PATH,
    TAG,
    SignedRequest,
    Signer,
)

HERE = Path(__file__).resolve().parent / "requests"
NOW = 1_800_000_000
AGREED = bytes(range(32)).hex()
OTHER = bytes(range(1, 33)).hex()
BODY = b"an answer"
COVERED = ("@method", "@path", "content-digest", PLAN)
Document = dict[str, Any]


def identity(name: str) -> Ed25519PrivateKey:
    """Return the signing key of a site; a test key, known to everybody."""
    return Ed25519PrivateKey.from_private_bytes(name.encode().ljust(32, b"."))


def roster() -> dict[str, bytes]:
    """Return the identities that the coordinator of the vectors knows."""
    names = ("north", "south")
    return {name: identity(name).public_key().public_bytes_raw() for name in names}


def signer(name: str = "north", plan: str = AGREED, process: bytes = b"one") -> Signer:
    """Return what signs the requests of one process of a site."""
    return Signer(identity(name), plan, entropy=Seeded(process))


def signed(
    by: Signer,
    method: str = "POST",
    path: str = MESSAGES,
    body: bytes = BODY,
    created: int = NOW,
) -> Document:
    """Return a request as the files hold it."""
    headers = by.headers(method, path, body, created=created)
    return {"method": method, "path": path, "headers": headers, "body": body.hex()}


def by_hand(
    covered: tuple[str, ...] = COVERED,
    *,
    tag: str = TAG,
    key: str = "north",
    name: str = "north",
    nonce: str | None = "0" * 32 + ".1",
) -> Document:
    """Return a request that the library signs otherwise than a site would."""
    headers = {PLAN: AGREED, "content-digest": ContentDigest.create(b"")}
    made = HTTPMessageSigner(
        signature_algorithm=algorithms.ED25519,
        key_resolver=signing._OneKey(identity(key)),  # noqa: SLF001 - the same key
    )
    made.sign(
        SignedRequest("POST", MESSAGES, headers),
        key_id=key_text(identity(name).public_key().public_bytes_raw()),
        created=datetime.fromtimestamp(NOW, UTC),
        nonce=nonce,
        tag=tag,
        covered_component_ids=covered,
        label=TAG,
        use_existing_digest=True,
    )
    lowered = {header.lower(): value for header, value in headers.items()}
    return {"method": "POST", "path": MESSAGES, "headers": lowered, "body": ""}


def changed(part: str, value: str) -> Document:
    """Return a signed request of which one part was changed on the way."""
    request = signed(signer())
    place = request if part in request else request["headers"]
    place[part] = value
    return request


def _without(header: str) -> Document:
    request = signed(signer())
    del request["headers"][header]
    return request


def _doubled() -> Document:
    request = signed(signer())
    again = signed(signer("south"))["headers"]
    for header in ("signature", "signature-input"):
        second = again[header].replace(f"{TAG}=", "second=", 1)
        request["headers"][header] += f", {second}"
    return request


def bad_cases() -> dict[str, Document]:
    """Damage requests, and send them at the wrong time, twice, or out of order."""
    cases: dict[str, Document] = {}

    def case(name: str, status: int, word: str, *requests: Document) -> None:
        cases[f"bad_{name}"] = _document(*requests, status=status, word=word)

    def broken(name: str, request: Document) -> None:
        case(name, 401, "signature", request)

    broken("unsigned", _without("signature"))
    broken("no_parameters", _without("signature-input"))
    broken("method", changed("method", "PUT"))
    broken("path", changed("path", CHECK))
    broken("plan_header", changed(PLAN, OTHER))
    broken("digest_header", changed("content-digest", "sha-256=:" + "A" * 43 + "=:"))
    broken("signature", changed("signature", f"{TAG}=:{'A' * 86}==:"))
    broken("key", by_hand(key="south"))
    broken("tag", by_hand(tag="other"))
    for component in COVERED:
        name = component.strip("@").replace("-", "_")
        left = tuple(c for c in COVERED if c != component)
        broken(f"uncovered_{name}", by_hand(left))
    broken("two_signatures", _doubled())
    for name, nonce in {
        "no_nonce": None,
        "short_nonce": "0.1",
        "no_number": "0" * 32 + ".x",
        "negative_number": "0" * 32 + ".-1",
        "long_number": "0" * 32 + "." + "1" * 17,
    }.items():
        broken(name, by_hand(nonce=nonce))
    broken("expired", signed(signer(), created=NOW - CLOCK_SECONDS - 1))
    broken("future", signed(signer(), created=NOW + CLOCK_SECONDS + 1))
    case("body", 401, "digest", changed("body", b"another".hex()))
    case("empty_body", 401, "digest", changed("body", ""))
    case("stranger", 403, "stranger", signed(signer("stranger")))
    case("other_plan", 409, "plan", signed(signer(plan=OTHER)))
    one, two = signer(), signer(process=b"two")
    first, second, later = signed(one), signed(one), signed(two)
    case("replayed", 401, "replay", first, first)
    case("out_of_order", 401, "replay", second, first)
    case("superseded", 409, "superseded", first, later, second)
    case("replayed_later", 409, "superseded", first, later, first)
    return cases


def _document(*requests: Document, **refusal: object) -> Document:
    return {
        "now": NOW,
        "plan": AGREED,
        "roster": {name: key_text(key) for name, key in roster().items()},
        "requests": list(requests),
        **refusal,
    }


def build() -> dict[str, Document]:
    """Return every file by its name."""
    one, south = signer(), signer("south")
    edges = [
        signed(signer(process=bytes([i])), created=NOW + seconds)
        for i, seconds in enumerate((-CLOCK_SECONDS, CLOCK_SECONDS))
    ]
    return {
        "request_messages": _document(
            signed(one), signed(south), signed(one, body=b"")
        ),
        "request_clocks": _document(*edges),
        "request_check": _document(signed(one, "GET", CHECK, b"")),
        "request_plan": _document(signed(signer(plan="none"), "GET", PLAN_PATH, b"")),
        **bad_cases(),
    }


def main() -> None:
    """Write the files."""
    HERE.mkdir(exist_ok=True)
    for name, document in build().items():
        text = json.dumps(document, indent=1, sort_keys=True) + "\n"
        (HERE / f"{name}.json").write_text(text)


if __name__ == "__main__":
    main()

"""Signed requests: the committed vectors, and any change of a covered part is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from http_message_signatures import signatures
from hypothesis import given
from hypothesis import strategies as st

from discreet.entropy import Seeded
from discreet.transport.https import signing
from discreet.transport.https.signing import (
    CLOCK_SECONDS,
    MESSAGES,
    MOST_PROCESSES,
    PLAN,
    PLAN_PATH,
    Admitted,
    Gate,
    SignatureError,
    SignedRequest,
    Signer,
)
from vectors import generate_requests as generator

FILES = sorted(generator.HERE.glob("*.json"))
GOOD = [path for path in FILES if path.stem.startswith("request_")]
BAD = [path for path in FILES if path.stem.startswith("bad_")]


class _Then(datetime):
    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return datetime.fromtimestamp(generator.NOW, tz)


@pytest.fixture(autouse=True, scope="module")
def at_the_time_of_the_vectors() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        then = SimpleNamespace(datetime=_Then, timedelta=timedelta, timezone=timezone)
        patch.setattr(signatures, "datetime", then)
        yield


def admitted(gate: Gate, request: dict[str, Any]) -> Admitted:
    """Check a request as the coordinator's port does."""
    method, path = request["method"], request["path"]
    headers = dict(request["headers"])
    found = gate.admit(SignedRequest(method, path, headers), any_plan=path == PLAN_PATH)
    if path == MESSAGES:
        gate.check_order(found)
    gate.check_body(found, bytes.fromhex(request["body"]))
    return found


def test_the_generator_writes_the_committed_files() -> None:
    built = json.loads(json.dumps(generator.build()))
    assert built == {path.stem: json.loads(path.read_text()) for path in FILES}


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p.stem)
def test_the_requests_of_a_vector_are_accepted(path: Path) -> None:
    vector = json.loads(path.read_text())
    gate = Gate(generator.roster(), vector["plan"])
    for request in vector["requests"]:
        assert admitted(gate, request).site in vector["roster"]


@pytest.mark.parametrize("path", BAD, ids=lambda p: p.stem)
def test_the_last_request_of_a_bad_vector_is_refused(path: Path) -> None:
    vector = json.loads(path.read_text())
    gate = Gate(generator.roster(), vector["plan"])
    *before, last = vector["requests"]
    for request in before:
        admitted(gate, request)
    with pytest.raises(SignatureError) as refused:
        admitted(gate, last)
    assert (refused.value.status, refused.value.word) == (
        vector["status"],
        vector["word"],
    )


SIGNER = generator.signer()
SIGNED, NEXT = generator.signed(SIGNER), generator.signed(SIGNER)
PARTS = {
    "method": SIGNED["method"].encode(),
    "path": SIGNED["path"].encode(),
    "body": generator.BODY,
    "content-digest": SIGNED["headers"]["content-digest"].encode(),
    PLAN: SIGNED["headers"][PLAN].encode(),
    "signature-input": SIGNED["headers"]["signature-input"].encode(),
}


@given(st.data())
def test_any_one_changed_byte_of_what_is_covered_is_refused(
    data: st.DataObject,
) -> None:
    part = data.draw(st.sampled_from(sorted(PARTS)))
    raw = bytearray(PARTS[part])
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    request = json.loads(json.dumps(SIGNED))
    if part == "body":
        request["body"] = raw.hex()
    elif part in request:
        request[part] = raw.decode("latin-1")
    else:
        request["headers"][part] = raw.decode("latin-1")
    gate = Gate(generator.roster(), generator.AGREED)
    with pytest.raises(SignatureError) as refused:
        admitted(gate, request)
    assert refused.value.status in {401, 403}
    admitted(gate, NEXT)  # its site goes on


@given(
    st.dictionaries(
        st.sampled_from(["signature", "signature-input", "content-digest", PLAN]),
        st.text(st.characters(codec="latin-1")),
    )
)
def test_headers_of_any_text_are_refused_and_nothing_else_happens(
    headers: dict[str, str],
) -> None:
    gate = Gate(generator.roster(), generator.AGREED)
    with pytest.raises(SignatureError):
        gate.admit(SignedRequest("POST", MESSAGES, headers))


def test_a_checks_requests_end_no_process_that_takes_part() -> None:
    """A doctor, beside a running site, is another process of the same identity."""
    gate = Gate(generator.roster(), generator.AGREED)
    running = generator.signer()
    admitted(gate, generator.signed(running))
    doctor = generator.signer(process=b"doctor")
    admitted(gate, generator.signed(doctor, "GET", signing.CHECK, b""))
    admitted(gate, generator.signed(doctor, "GET", PLAN_PATH, b""))
    admitted(gate, generator.signed(running))


def test_the_processes_that_are_remembered_are_bounded_and_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr(
        signing, "time", SimpleNamespace(monotonic=lambda: clock[0], time=lambda: 0.0)
    )
    gate = Gate(generator.roster(), generator.AGREED)

    def start(number: int) -> None:
        process = Signer(
            generator.identity("north"),
            generator.AGREED,
            entropy=Seeded(number.to_bytes(4, "big")),
        )
        admitted(gate, generator.signed(process))

    for number in range(MOST_PROCESSES + 1):
        start(number)
    with pytest.raises(SignatureError, match="too-many"):
        start(MOST_PROCESSES + 1)
    assert len(gate._processes["north"].ended) == MOST_PROCESSES
    admitted(gate, generator.signed(generator.signer("south")))  # nobody else's limit
    clock[0] += 2 * CLOCK_SECONDS + 1  # no signature of theirs is valid any more
    start(MOST_PROCESSES + 2)
    assert len(gate._processes["north"].ended) == 1

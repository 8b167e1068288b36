"""Hostile plans, policies, ledger entries and messages: one sentence, in little time.

Known good documents are spoilt: bits turned, parts cut, doubled and swapped, numbers
and brackets put in that would take a careless reader hours or gigabytes. Whatever
comes out is read, or refused by an error of this project.
"""

from __future__ import annotations

import re
import resource
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.data.edges import Warped
from discreet.errors import DiscreetError
from discreet.models.distributed import DistributedDP
from discreet.models.local import LocalDP
from discreet.mpc.fleet import local_session
from discreet.mpc.session import MpcSession
from discreet.plan import file as planfile
from discreet.plan.cohort import Cohort, Member, PublicFacts, Roster
from discreet.plan.file import dumps
from discreet.plan.plan import ModelRef, Plan, recommend
from discreet.privacy import ledger_entries
from discreet.privacy.account import Use
from discreet.privacy.loss import PureDP
from discreet.privacy.unit import Unit
from discreet.session import policy as policyfile
from discreet.session.messages import Invitation, Kind, Message, session_of
from discreet.session.policy import Policy

MOST_SECONDS = 2.0
MOST_GROWTH = 200 * 2**20
TOKENS = [
    *(b"1e999999999", b"1e-100000", b"9" * 5000, b"inf", b"nan", b"true", b"-1"),
    *(b"3.5", b"300000000", b"1000000000000", b"18446744073709551616", b"0x7f"),
    *(b"[" * 4000, b"{" * 4000, b"a=" + b"[" * 999 + b"]" * 999, b'"', b"'''"),
    *(b"\x00", b"\x1b[2J", b"\xff\xfe", b"\xed\xa0\x80", b"\\ud800", b"../../x"),
    *(b"2020-01-01T00:00:00Z", b"[[round]]", b"[roster]\n", b"", b"\n", b","),
    b"." * 3000,
    b"".join(b"a%d." % i for i in range(500)) + b"z = 1\n",
]
_NUMBER = re.compile(rb"[0-9][0-9.e+-]*")


def _plan(*, signed: bool = True) -> Plan:
    cohort = Cohort(3)
    plan = recommend(
        PublicFacts(1000, 0.3), DistributedDP("1"), edges=Warped(16), cohort=cohort
    )
    keys = [Ed25519PrivateKey.from_private_bytes(bytes([k]) * 32) for k in range(4)]
    public = [key.public_key().public_bytes_raw() for key in keys]
    sites = tuple(Member(f"site {k}", key) for k, key in enumerate(public[1:]))
    return replace(
        plan,
        model=ModelRef("model", "sha256:00"),
        roster=Roster(sites, public[0]) if signed else None,
    )


def _seeds() -> dict[str, list[bytes]]:
    plan = _plan()
    local = recommend(PublicFacts(1000, 0.3), LocalDP("1"), edges=Warped(16))
    policy = Policy(population="people", privacy=("distributed",), models=("a-*",))
    use = Use(
        "people", bytes(32), 0, PureDP(Fraction(1)), unit=Unit("example", "add_remove")
    )
    at = "2026-01-01T00:00:00+00:00"
    entries = [
        ledger_entries.Charge(at, use),
        ledger_entries.Stored(at, bytes(32), 0, bytes(32)),
        ledger_entries.Settled(at, bytes(32), 0, (("a", "b"), ("c",))),
        ledger_entries.Released(at, bytes(32), 0, (("a", bytes(64)),)),
        ledger_entries.Refused(at),
    ]
    nonce = bytes(32)
    message = Message(
        Kind.INVITE,
        plan.digest(),
        session_of(plan, nonce),
        0,
        body=Invitation(dumps(plan), nonce, b"opening", b"s" * 64).encode(),
        numbers=np.arange(5, dtype=np.int64),
    )
    return {
        "plan": [
            b"\n".join(
                line
                for line in planfile.dumps(p).encode().split(b"\n")
                if not line.startswith(b"digest = ")  # else the digest ends it all
            )
            for p in (plan, local)
        ],
        "policy": [policyfile.dumps(policy).encode()],
        "entry": [ledger_entries.encode(entry) for entry in entries],
        "message": [message.encode()],
        "session": [local_session((3, 4)).to_toml().encode()],
    }


def _message(raw: bytes) -> None:
    Invitation.decode(Message.decode(raw).body)


def _text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    """Read a document as its readers get it: a text, or refused before."""
    return lambda raw: read(raw.decode("utf-8", errors="replace"))


READERS: dict[str, Callable[[bytes], object]] = {
    "plan": _text(planfile.loads),
    "policy": _text(policyfile.loads),
    "entry": ledger_entries.decode,
    "message": _message,
    "session": _text(MpcSession.from_toml),
}


def spoilt(raw: bytes, rng: np.random.Generator) -> bytes:
    """Spoil a document in one to four ways."""
    for _ in range(int(rng.integers(1, 5))):
        at, to = sorted(int(k) for k in rng.integers(0, len(raw) + 1, 2))
        token = TOKENS[int(rng.integers(len(TOKENS)))]
        numbers = list(_NUMBER.finditer(raw))
        match int(rng.integers(8)):
            case 0 if raw:
                k = int(rng.integers(len(raw)))
                raw = (
                    raw[:k]
                    + bytes([raw[k] ^ (1 << int(rng.integers(8)))])
                    + raw[k + 1 :]
                )
            case 1:
                raw = raw[:at] + token + raw[at:]
            case 2:
                raw = raw[:at] + raw[to:] if to - at < 200 else raw[:at]
            case 3 if to - at < 500:
                raw = raw[:to] + raw[at:to] + raw[to:]
            case 4:
                raw = raw[:at] + rng.bytes(int(rng.integers(1, 40))) + raw[to:]
            case 5 if raw:
                lines = raw.split(b"\n")
                rng.shuffle(lines)  # type: ignore[arg-type]
                raw = b"\n".join(lines)
            case _ if numbers:  # the most telling: a number becomes another thing
                found = numbers[int(rng.integers(len(numbers)))]
                raw = raw[: found.start()] + token + raw[found.end() :]
    return raw


def fuzz(count: int, seed: int) -> Counter[str]:
    """Read so many spoilt documents; return how many were read and refused."""
    rng, seeds, seen = np.random.default_rng(seed), _seeds(), Counter[str]()
    for kind, read in READERS.items():  # what a first reading loads is no growth
        for good in seeds[kind]:
            read(good)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kinds = list(READERS)
    for k in range(count):
        kind = kinds[k % len(kinds)]
        good = seeds[kind][int(rng.integers(len(seeds[kind])))]
        raw = spoilt(good, rng)
        start = time.process_time()
        try:
            READERS[kind](raw)
            seen[f"{kind} read"] += 1
        except DiscreetError:
            seen[f"{kind} refused"] += 1
        except BaseException as error:  # noqa: BLE001 - that is the question
            pytest.fail(f"{kind} number {k}: {error!r} for {raw[:2000]!r}")
        took = time.process_time() - start
        assert took < MOST_SECONDS, f"{kind} number {k} took {took:.1f} s"
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert 1024 * (after - before) < MOST_GROWTH
    return seen


def test_two_thousand_hostile_documents_are_read_or_refused_in_a_sentence() -> None:
    seen = fuzz(2_000, seed=1)
    assert seen.total() == 2_000
    for kind in READERS:  # the power twin: a fuzzer that spoils all or nothing is none
        assert seen[f"{kind} refused"] > 50


@pytest.mark.slow
def test_a_hundred_thousand_hostile_documents_are_read_or_refused() -> None:
    assert fuzz(100_000, seed=2).total() == 100_000

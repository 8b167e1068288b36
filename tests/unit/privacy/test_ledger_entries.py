"""The ledger's entries as bytes."""

import json

import pytest

from discreet.privacy.account import Use
from discreet.privacy.ledger_entries import (
    Charge,
    LedgerError,
    Released,
    Settled,
    decode,
    encode,
)
from discreet.privacy.loss import Unbounded

SITES = tuple(f"site-{i}" for i in range(10))


def exact(session, **more):
    signed = more.pop("signed", True)
    return Use(
        "icu", session, 0, Unbounded(), plan=b"p", sites=SITES, signed=signed, **more
    )


def test_entries_come_back_from_their_bytes():
    entries = [
        Charge("2026-01-01T00:00:00+00:00", exact(b"a")),
        Settled("2026-01-01T00:00:00+00:00", b"a", 0, (SITES[:3], SITES[3:])),
        Released("2026-01-01T00:00:00+00:00", b"a", 0, (("site-3", b"s"),)),
        Released("2026-01-01T00:00:00+00:00", b"a", 0),
    ]
    for entry in entries:
        assert decode(encode(entry)) == entry
    charge = decode(encode(entries[0]))
    assert isinstance(charge, Charge)
    assert charge.use.signed


@pytest.mark.parametrize("signed", [0, "yes", None, "missing"])
def test_a_charge_that_does_not_say_clearly_whether_it_waits_is_refused(signed):
    charge = json.loads(encode(Charge("now", exact(b"a"))))
    changed = charge["use"] | {"signed": signed}
    if signed == "missing":
        del changed["signed"]
    with pytest.raises(LedgerError, match="signed"):
        decode(json.dumps(charge | {"use": changed}).encode())

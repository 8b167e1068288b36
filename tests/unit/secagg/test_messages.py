"""Every message comes back from its bytes; the kinds of fields: unit/codec."""

import numpy as np
import pytest

from discreet.codec.messages import MalformedMessageError
from discreet.secagg.keys import RECEIPT_SIZE
from discreet.secagg.messages import (
    BOX_SIZE,
    Advert,
    BoxDelivery,
    Confirmation,
    KeyRoster,
    MaskedVector,
    RevealedShares,
    RevealRequest,
    SealedShares,
    SumInvitation,
    Survivors,
)

A, B = b"a" * 32, b"b" * 32
BOX, SIG, SHARE = b"x" * BOX_SIZE, b"s" * 64, bytes(33)
RECEIPT = b"x" * RECEIPT_SIZE
MESSAGES = [
    SumInvitation(A, B),
    Advert(A, B),
    Advert(A, B, SIG),
    SealedShares(A, B, {2: BOX, 9: BOX}),
    BoxDelivery(A, (1, 2, 9), {2: BOX}),
    Survivors(A, (1, 2, 9)),
    Survivors(A, ()),
    Survivors(A, (1, 2, 9), {2: RECEIPT, 9: RECEIPT}),
    Confirmation(A, SIG),
    RevealRequest(A, (1, 2)),
    RevealRequest(A, (1, 2), {2: SIG}),
    RevealedShares(A, {2: SHARE}, {7: SHARE, 8: SHARE}),
]
IDS = [f"{type(m).__name__}-{i}" for i, m in enumerate(MESSAGES)]


@pytest.mark.parametrize("message", MESSAGES, ids=IDS)
def test_a_message_comes_back_from_its_bytes(message):
    assert type(message).decode(message.encode()) == message


@pytest.mark.parametrize("message", MESSAGES, ids=IDS)
def test_bytes_missing_or_left_over_are_refused(message):
    raw = message.encode()
    for end in range(len(raw)):
        if isinstance(message, Advert) and end == 66:
            continue  # a signed advert cut here is an unsigned one
        with pytest.raises(MalformedMessageError):
            type(message).decode(raw[:end])
    with pytest.raises(MalformedMessageError):
        type(message).decode(raw + b"\0")


def test_masked_vectors_come_back_from_their_bytes():
    words = np.array([0, 1, 2**64 - 1], dtype=np.uint64)
    back = MaskedVector.decode(MaskedVector(A, {7: RECEIPT}, words).encode())
    assert (back.session, back.receipts) == (A, {7: RECEIPT})
    np.testing.assert_array_equal(back.words, words)


class TestRoster:
    @pytest.mark.parametrize("signed", [False, True])
    def test_lookups_agree_with_what_was_put_in(self, signed):
        adverts = {
            s: Advert(bytes([s]) * 32, bytes([s + 100]) * 32, SIG if signed else b"")
            for s in (3, 7, 90)
        }
        roster = KeyRoster(KeyRoster.of(adverts, signed=signed).raw)
        assert roster.sites == (3, 7, 90)
        assert len(roster) == 3
        assert {s: roster.advert(s) for s in roster.sites} == adverts
        assert [s for s in range(100) if s in roster] == [3, 7, 90]
        assert 2**31 not in roster
        for stranger in (1, 8, 91):
            with pytest.raises(KeyError, match="not in the roster"):
                roster.advert(stranger)
        keys = [k for a in adverts.values() for k in (a.channel_key, a.mask_key)]
        assert sorted(roster.keys()) == sorted(keys)

    def test_signatures_do_not_enter_what_the_session_binds(self):
        plain = KeyRoster.of({1: Advert(A, B), 2: Advert(B, A)}, signed=False)
        signed = KeyRoster.of({1: Advert(A, B, SIG), 2: Advert(B, A, SIG)}, signed=True)
        assert plain.identified() == signed.identified()

    def test_malformed_rosters_are_refused(self):
        raw = KeyRoster.of({1: Advert(A, B), 2: Advert(B, A)}, signed=False).raw
        for bad in (raw[:-1], raw + b"\0", raw[:2] + b"\2" + raw[3:], raw[:5], b""):
            with pytest.raises(MalformedMessageError):
                KeyRoster(bad)
        swapped = raw[:7] + raw[75:] + raw[7:75]
        with pytest.raises(MalformedMessageError, match="do not increase"):
            KeyRoster(swapped)


def test_reprs_show_sites_and_no_payload():
    for message in (MESSAGES[3], MESSAGES[4], MESSAGES[7], MESSAGES[-1]):
        assert "xxx" not in repr(message)
        assert "x00" not in repr(message)


def test_keys_of_many_sites_are_those_that_each_advertised():
    adverts = {
        s: Advert(bytes([s % 256]) * 32, bytes([s % 251]) * 32)
        for s in (2, 7, 300, 9000)
    }
    roster = KeyRoster.of(adverts, signed=False)
    for some in ([], [7], [9000, 2, 300], [2, 7, 300, 9000]):
        assert roster.keys_of(some, "channel_key") == {
            s: adverts[s].channel_key for s in some
        }
        assert roster.keys_of(some, "mask_key") == {
            s: adverts[s].mask_key for s in some
        }
    for stranger in (1, 8, 9001):
        with pytest.raises(KeyError, match="not in the roster"):
            roster.keys_of([2, stranger], "mask_key")

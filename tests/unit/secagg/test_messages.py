"""Rosters of keys, read in place; all other bytes: properties/test_message_bytes."""

import pytest

from discreet.codec.messages import MalformedMessageError
from discreet.secagg.keys import RECEIPT_SIZE
from discreet.secagg.messages import (
    BOX_SIZE,
    Advert,
    BoxDelivery,
    KeyRoster,
    RevealedShares,
    SealedShares,
    Survivors,
)

A, B = b"a" * 32, b"b" * 32
BOX, SIG, SHARE = b"x" * BOX_SIZE, b"s" * 64, b"x" * 33
RECEIPT = b"x" * RECEIPT_SIZE


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
        for some in ([], [7], [90, 3], [3, 7, 90]):
            for kind in ("channel_key", "mask_key"):
                expected = {s: getattr(adverts[s], kind) for s in some}
                assert roster.keys_of(some, kind) == expected
        for stranger in (1, 8, 91):
            with pytest.raises(KeyError, match="not in the roster"):
                roster.keys_of([3, stranger], "mask_key")

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
    for message in (
        SealedShares(A, B, {2: BOX, 9: BOX}),
        BoxDelivery(A, (1, 2, 9), {2: BOX}),
        Survivors(A, (1, 2, 9), {2: RECEIPT, 9: RECEIPT}),
        RevealedShares(A, {2: SHARE}, {7: SHARE, 8: SHARE}),
    ):
        assert "xxx" not in repr(message)

"""What the coordinator refuses, and whom it blames."""

from dataclasses import replace

import numpy as np
import pytest

from discreet.entropy import Seeded
from discreet.errors import InputError
from discreet.secagg.coordinator import invite
from discreet.secagg.errors import (
    ConsumedStateError,
    FaultySiteError,
    UnknownFaultySiteError,
)
from discreet.secagg.messages import (
    Advert,
    Confirmation,
    MaskedVector,
    RevealedShares,
    SealedShares,
)
from discreet.secagg.shamir import PRIME, SHARE_SIZE

SIGNED = {"n": 5, "min_survivors": 4, "signed": True}
STEPS = ["advertise", "share", "mask", "confirm", "reveal"]


def refuses(f, site, raw, match):
    with pytest.raises(FaultySiteError, match=match) as caught:
        f.coordinator.receive(site, raw)
    assert caught.value.site == site


@pytest.mark.parametrize("step", STEPS)
def test_a_second_answer(federation, step):
    f = federation(**SIGNED).until(step).answer(step)
    f.coordinator.receive(1, f.answers[1])
    refuses(f, 1, f.answers[1], "has already answered")


@pytest.mark.parametrize("step", STEPS)
def test_an_answer_from_a_stranger(federation, step):
    f = federation(**SIGNED).until(step).answer(step)
    refuses(f, 77, f.answers[1], "is not expected")


@pytest.mark.parametrize("step", STEPS)
def test_malformed_bytes(federation, malformed, step):
    f = federation(**SIGNED).until(step).answer(step)
    raw = f.answers[1]
    for bad in malformed(raw):
        with pytest.raises(FaultySiteError):
            f.coordinator.receive(1, bad)
    f.coordinator.receive(1, raw)  # a refused message does not count


@pytest.mark.parametrize("step", STEPS[1:])
def test_an_answer_of_another_session(federation, step):
    other = federation(**SIGNED, seed=b"other").until(step).answer(step)
    f = federation(**SIGNED).until(step)
    refuses(f, 1, other.answers[1], "another session")


class TestAdvert:
    def test_with_a_key_of_another_site(self, federation):
        f = federation().answer("advertise")
        f.coordinator.receive(1, f.answers[1])
        refuses(f, 2, f.answers[1], "already taken")

    def test_with_one_key_for_both_uses(self, federation):
        f = federation().answer("advertise")
        advert = Advert.decode(f.answers[1])
        forged = replace(advert, mask_key=advert.channel_key)
        refuses(f, 1, forged.encode(), "already taken")

    def test_with_a_key_of_low_order(self, federation):
        f = federation().answer("advertise")
        forged = replace(Advert.decode(f.answers[1]), mask_key=bytes(32))
        refuses(f, 1, forged.encode(), "low order")

    def test_that_its_site_did_not_sign(self, federation):
        f = federation(**SIGNED).answer("advertise")
        forged = replace(Advert.decode(f.answers[1]), signature=bytes(64))
        refuses(f, 1, forged.encode(), "did not sign its keys")
        unsigned = replace(Advert.decode(f.answers[1]), signature=b"")
        refuses(f, 1, unsigned.encode(), "did not sign its keys")

    def test_that_is_signed_where_nobody_has_an_identity(self, federation):
        f = federation().answer("advertise")
        forged = replace(Advert.decode(f.answers[1]), signature=bytes(64))
        refuses(f, 1, forged.encode(), "no identities")


class TestShares:
    def forge(self, federation, change):
        f = federation().until("share").answer("share")
        message = SealedShares.decode(f.answers[1])
        return f, replace(message, boxes=change(dict(message.boxes))).encode()

    def test_for_itself(self, federation):
        f, raw = self.forge(federation, lambda b: {**b, 1: b[2]})
        refuses(f, 1, raw, "to itself or to an unlisted site")

    def test_for_a_stranger(self, federation):
        f, raw = self.forge(federation, lambda b: {**b, 9: b[2]})
        refuses(f, 1, raw, "to itself or to an unlisted site")

    def test_for_too_few_holders(self, federation):
        f, raw = self.forge(federation, lambda b: {2: b[2], 3: b[3]})
        refuses(f, 1, raw, "dealt to 2 holders, not to 4")


def test_a_vector_of_another_length(federation):
    f = federation().until("mask").answer("mask")
    session = MaskedVector.decode(f.answers[1]).session
    short = MaskedVector(session, {}, np.zeros(2, dtype=np.uint64)).encode()
    refuses(f, 1, short, "sent 2 words, the terms say 3")


def test_a_signature_on_something_else(federation):
    f = federation(**SIGNED).until("confirm").answer("confirm")
    session = Confirmation.decode(f.answers[1]).session
    refuses(f, 1, Confirmation(session, bytes(64)).encode(), "did not sign the surv")
    refuses(f, 1, f.answers[2], "did not sign the survivors")


class TestRevealed:
    @pytest.fixture
    def f(self, federation):
        f = federation(n=6, min_survivors=4)
        return f.until("reveal", silent=[("mask", 2)]).answer("reveal", without={2})

    def test_other_seed_shares_than_asked_for(self, f):
        message = RevealedShares.decode(f.answers[1])
        shares = dict(message.seed_shares)
        del shares[3]
        forged = replace(message, seed_shares=shares)
        refuses(f, 1, forged.encode(), "other seed shares")

    def test_other_key_shares_than_asked_for(self, f):
        message = RevealedShares.decode(f.answers[1])
        both = {**message.key_shares, 3: message.seed_shares[3]}
        refuses(f, 1, replace(message, key_shares=both).encode(), "other key shares")

    def test_numbers_outside_the_field(self, f):
        message = RevealedShares.decode(f.answers[1])
        shares = {**message.seed_shares, 3: PRIME.to_bytes(SHARE_SIZE, "big")}
        refuses(f, 1, replace(message, seed_shares=shares).encode(), "no shares")

    @pytest.mark.parametrize(
        ("kind", "dealer"), [("seed_shares", 3), ("key_shares", 2)]
    )
    def test_shares_that_do_not_reconstruct_open_nothing(self, f, kind, dealer):
        message = RevealedShares.decode(f.answers[1])
        shares = dict(getattr(message, kind))
        shares[dealer] = bytes(SHARE_SIZE - 1) + b"\5"
        f.answers[1] = replace(message, **{kind: shares}).encode()
        for site, answer in f.answers.items():
            f.coordinator.receive(site, answer)
        with pytest.raises(UnknownFaultySiteError, match="nothing was revealed") as e:
            f.advance()
        assert e.value.dealer == dealer
        assert 1 in e.value.holders


@pytest.mark.parametrize("step", STEPS)
def test_a_round_is_closed_once(federation, step):
    f = federation(**SIGNED).until(step).answer(step)
    for site, answer in f.answers.items():
        f.coordinator.receive(site, answer)
    f.coordinator.advance()
    with pytest.raises(ConsumedStateError):
        f.coordinator.advance()


class TestInvitations:
    def test_to_too_few_sites(self, federation):
        terms = federation().terms
        with pytest.raises(InputError, match="3 sites are invited"):
            invite([1, 2, 3], terms=terms, entropy=Seeded(b"i"))

    def test_to_a_site_without_identity(self, federation):
        terms = federation(**SIGNED).terms
        with pytest.raises(InputError, match="roster of identities lacks"):
            invite([1, 2, 3, 4, 9], terms=terms, entropy=Seeded(b"i"))

    def test_to_a_site_with_a_number_out_of_range(self, federation):
        terms = federation().terms
        with pytest.raises(InputError, match="between 1 and"):
            invite([0, 1, 2, 3, 4], terms=terms, entropy=Seeded(b"i"))

"""What a site refuses, and whom it blames."""

from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.errors import InputError
from discreet.secagg import site as steps
from discreet.secagg.errors import (
    ConsumedStateError,
    FaultyCoordinatorError,
    FaultySiteOrCoordinatorError,
)
from discreet.secagg.keys import Purpose, derive_key, public_of, seal
from discreet.secagg.messages import (
    Advert,
    BoxDelivery,
    KeyRoster,
    RevealRequest,
    SealedShares,
    SumInvitation,
    Survivors,
)
from discreet.secagg.shamir import PRIME, SHARE_SIZE

SIGNED = {"n": 5, "min_survivors": 4, "signed": True}


def adverts_of(raw):
    roster = KeyRoster(raw)
    return {s: roster.advert(s) for s in roster.sites}


def blames_the_coordinator(match):
    return pytest.raises(FaultyCoordinatorError, match=match)


def test_an_invitation_to_other_terms(federation):
    f = federation()
    forged = replace(SumInvitation.decode(f.messages[1]), terms_digest=bytes(32))
    with blames_the_coordinator("other terms"):
        f.act("advertise", 1, forged.encode())


class TestRoster:
    def refuses(self, f, adverts, match, *, signed=False):
        raw = KeyRoster.of(adverts, signed=signed).raw
        with blames_the_coordinator(match):
            f.act("share", 1, raw)

    def test_below_this_sites_floor(self, federation):
        f = federation(min_survivors=4).until("share")
        adverts = adverts_of(f.messages[1])
        few = {s: adverts[s] for s in (1, 2, 3)}
        self.refuses(f, few, "lists 3 sites, this site agreed to at least 4")

    def test_without_this_site(self, federation):
        f = federation().until("share")
        adverts = adverts_of(f.messages[1])
        del adverts[1]
        self.refuses(f, adverts, "does not list this site")

    @pytest.mark.parametrize("changed", ["channel_key", "mask_key"])
    def test_with_a_changed_key_of_this_site(self, federation, changed):
        f = federation().until("share")
        adverts = adverts_of(f.messages[1])
        adverts[1] = replace(adverts[1], **{changed: public_of(b"x" * 32)})
        self.refuses(f, adverts, "keys this site never sent")

    def test_with_a_key_listed_for_two_sites(self, federation):
        f = federation().until("share")
        adverts = adverts_of(f.messages[1])
        adverts[3] = replace(adverts[3], mask_key=adverts[2].mask_key)
        self.refuses(f, adverts, "lists a key twice")

    def test_with_one_key_for_both_uses(self, federation):
        f = federation().until("share")
        adverts = adverts_of(f.messages[1])
        adverts[3] = replace(adverts[3], mask_key=adverts[3].channel_key)
        self.refuses(f, adverts, "lists a key twice")

    def test_with_a_key_of_low_order(self, federation):
        f = federation().until("share")
        adverts = adverts_of(f.messages[1])
        adverts[3] = replace(adverts[3], channel_key=bytes(32))
        self.refuses(f, adverts, "low order for site 3")

    def test_with_a_key_that_its_site_did_not_sign(self, federation):
        f = federation(**SIGNED).until("share")
        adverts = adverts_of(f.messages[1])
        adverts[3] = replace(adverts[3], mask_key=public_of(b"x" * 32))
        self.refuses(f, adverts, "site 3 did not sign", signed=True)

    def test_with_a_signed_advert_of_an_earlier_session(self, federation):
        earlier = federation(**SIGNED, seed=b"earlier").until("share")
        f = federation(**SIGNED).until("share")
        adverts = adverts_of(f.messages[1])
        adverts[3] = adverts_of(earlier.messages[1])[3]
        self.refuses(f, adverts, "site 3 did not sign", signed=True)

    def test_without_the_signatures_that_the_terms_ask_for(self, federation):
        f = federation(**SIGNED).until("share")
        adverts = {
            s: replace(a, signature=b"") for s, a in adverts_of(f.messages[1]).items()
        }
        self.refuses(f, adverts, "signatures do not fit")

    def test_with_a_site_that_has_no_identity(self, federation):
        f = federation(**SIGNED).until("share")
        adverts = adverts_of(f.messages[1])
        adverts[9] = Advert(public_of(b"x" * 32), public_of(b"y" * 32), bytes(64))
        self.refuses(f, adverts, "without an identity", signed=True)


class TestDelivery:
    def refuses(self, f, match, **changes):
        forged = replace(BoxDelivery.decode(f.messages[1]), **changes)
        with blames_the_coordinator(match):
            f.act("mask", 1, forged.encode())

    def test_of_another_session(self, federation):
        f = federation().until("mask")
        self.refuses(f, "another session", session=bytes(32))

    def test_that_names_a_stranger(self, federation):
        f = federation().until("mask")
        self.refuses(f, "outside the roster", sharers=(1, 2, 3, 4, 5, 77))

    def test_that_leaves_this_site_out(self, federation):
        f = federation().until("mask")
        self.refuses(f, "leaves out this site", sharers=(2, 3, 4, 5))

    def test_with_too_few_sharers(self, federation):
        f = federation().until("mask")
        boxes = BoxDelivery.decode(f.messages[1]).boxes
        few = {s: boxes[s] for s in (2, 3)}
        self.refuses(f, "3 sites shared", sharers=(1, 2, 3), boxes=few)

    def test_with_shares_of_a_site_that_did_not_share(self, federation):
        f = federation().until("mask")
        self.refuses(f, "did not share", sharers=(1, 2, 3, 4))

    def test_that_holds_back_a_share_of_a_complete_graph(self, federation):
        f = federation().until("mask")
        boxes = dict(BoxDelivery.decode(f.messages[1]).boxes)
        del boxes[4]
        self.refuses(f, "shares of 3 sites came, 4 have dealt", boxes=boxes)

    def test_with_a_share_that_does_not_open(self, federation):
        f = federation().until("mask")
        delivery = BoxDelivery.decode(f.messages[1])
        box = bytearray(delivery.boxes[3])
        box[-1] ^= 1
        forged = replace(delivery, boxes={**delivery.boxes, 3: bytes(box)})
        with pytest.raises(FaultySiteOrCoordinatorError, match="site 3, or the") as e:
            f.act("mask", 1, forged.encode())
        assert e.value.site == 3

    @pytest.mark.parametrize("place", [0, SHARE_SIZE])
    def test_with_a_number_that_is_no_share(self, federation, place):
        """The dealer itself sealed it, and no holder keeps what restores nothing."""
        f = federation().until("mask")
        delivery = BoxDelivery.decode(f.messages[1])
        session = delivery.session
        key = derive_key(f.states[3].agreed[1], Purpose.SHARE_BOX, session, 3, 1)
        packet = bytearray(2 * SHARE_SIZE)
        packet[place : place + SHARE_SIZE] = PRIME.to_bytes(SHARE_SIZE, "big")
        box = seal(key, bytes(packet), bound_to=session, entropy=f.entropy)
        forged = replace(delivery, boxes={**delivery.boxes, 3: box})
        with pytest.raises(FaultySiteOrCoordinatorError, match="are no shares"):
            f.act("mask", 1, forged.encode())

    def test_with_shares_swapped_between_two_dealers(self, federation):
        f = federation().until("mask")
        delivery = BoxDelivery.decode(f.messages[1])
        swapped = {**delivery.boxes, 3: delivery.boxes[4], 4: delivery.boxes[3]}
        forged = replace(delivery, boxes=swapped)
        with pytest.raises(FaultySiteOrCoordinatorError, match="do not open"):
            f.act("mask", 1, forged.encode())

    def test_with_a_share_that_was_meant_for_another_site(self, federation):
        f = federation().until("mask")
        delivery = BoxDelivery.decode(f.messages[1])
        other = BoxDelivery.decode(f.messages[2]).boxes
        forged = replace(delivery, boxes={**delivery.boxes, 3: other[3]})
        with pytest.raises(FaultySiteOrCoordinatorError, match="do not open"):
            f.act("mask", 1, forged.encode())


def test_sites_that_saw_different_rosters_cannot_read_each_others_shares(federation):
    f = federation(n=6).until("share")
    adverts = adverts_of(f.messages[1])
    f.messages[1] = KeyRoster.of(
        {s: adverts[s] for s in (1, 2, 3, 4, 5)}, signed=False
    ).raw
    f.answer("share")
    with pytest.raises(Exception, match="site 1 answered for another session"):
        f.coordinator.receive(1, f.answers[1])


def test_a_single_key_of_a_third_site_makes_another_session(federation):
    """A coordinator that shows one site other keys splits it from all the others."""
    f = federation(n=6).until("share")
    adverts = adverts_of(f.messages[1])
    adverts[5] = replace(adverts[5], mask_key=public_of(b"x" * 32))
    f.messages[1] = KeyRoster.of(adverts, signed=False).raw
    f.answer("share")
    assert f.states[1].session != f.states[2].session
    swapped = BoxDelivery(
        f.states[2].session,
        tuple(f.sites),
        {s: SealedShares.decode(f.answers[s]).boxes[2] for s in f.sites if s != 2},
    )
    with pytest.raises(FaultySiteOrCoordinatorError, match="site 1, or the"):
        f.act("mask", 2, swapped.encode())


def test_a_vector_of_another_length_is_the_callers_fault(federation):
    f = federation().until("mask")
    with pytest.raises(InputError, match="3 64-bit integers"):
        steps.mask(f.states[1], f.messages[1], lambda: np.zeros(2, dtype=np.int64))


def test_no_vector_is_asked_for_before_the_delivery_is_found_good(federation):
    f = federation().until("mask")
    with pytest.raises(FaultyCoordinatorError):
        steps.mask(f.states[1], f.messages[1][:-1], lambda: pytest.fail("asked for"))


class TestSurvivors:
    """The same checks guard the list that is signed and the one that is opened."""

    @pytest.fixture(params=["confirm", "reveal"])
    def refuses(self, request, federation):
        step = request.param
        f = federation(**SIGNED) if step == "confirm" else federation()
        f.until(step)
        message = Survivors if step == "confirm" else RevealRequest

        def refuses(match, **changes):
            forged = replace(message.decode(f.messages[1]), **changes)
            with blames_the_coordinator(match):
                f.act(step, 1, forged.encode())

        return refuses

    def test_of_another_session(self, refuses):
        refuses("another session", session=bytes(32))

    def test_below_the_survivors_that_the_noise_was_sized_for(self, refuses):
        refuses("3 sites survive, .* at least 4", survivors=(1, 2, 3))

    def test_without_this_site(self, refuses):
        refuses("leave out this site", survivors=(2, 3, 4, 5))

    def test_with_a_site_that_never_shared(self, refuses):
        refuses("never shared", survivors=(1, 2, 3, 4, 5, 6))


class TestSignedRequest:
    @pytest.fixture
    def f(self, federation):
        return federation(n=6, min_survivors=5, signed=True).until("reveal")

    def refuses(self, f, match, **changes):
        forged = replace(RevealRequest.decode(f.messages[1]), **changes)
        with blames_the_coordinator(match):
            f.act("reveal", 1, forged.encode())

    def test_for_other_survivors_than_this_site_signed(self, f):
        self.refuses(f, "differ from those this site signed", survivors=(1, 2, 3, 4, 5))

    def test_with_too_few_signatures(self, f):
        signatures = dict(RevealRequest.decode(f.messages[1]).signatures)
        del signatures[2]
        self.refuses(f, "4 sites signed .* 5 are needed", signatures=signatures)

    def test_with_a_false_signature(self, f):
        signatures = dict(RevealRequest.decode(f.messages[1]).signatures)
        signatures[2] = signatures[3]
        self.refuses(f, "site 2 did not sign", signatures=signatures)

    def test_with_the_signature_of_a_site_that_did_not_survive(self, federation):
        f = federation(n=6, min_survivors=5, signed=True)
        f.until("reveal", silent=[("mask", 6)])
        signatures = dict(RevealRequest.decode(f.messages[1]).signatures)
        signatures[6] = bytes(64)
        self.refuses(f, "a site that is silent", signatures=signatures)


def test_a_signed_request_where_nobody_can_sign_is_refused(federation):
    f = federation().until("reveal")
    forged = replace(RevealRequest.decode(f.messages[1]), signatures={2: bytes(64)})
    with blames_the_coordinator("nobody can sign"):
        f.act("reveal", 1, forged.encode())


@pytest.mark.parametrize("step", ["share", "mask", "confirm", "reveal"])
def test_a_state_serves_one_step_only(federation, step):
    f = federation(**SIGNED).until(step)
    f.act(step, 1)
    with pytest.raises(ConsumedStateError, match="already used"):
        f.act(step, 1)


def test_no_site_ever_reveals_both_shares_of_one_victim(federation):
    f = federation(n=6, min_survivors=4).until("reveal", silent=[("mask", 2)])
    first, _ = f.act("reveal", 1)
    # The same site is asked again, now with the victim on the other side.
    second = RevealRequest(first.session, (1, 2, 3, 4)).encode()
    with pytest.raises(ConsumedStateError):
        f.act("reveal", 1, second)


class TestIdentity:
    def test_is_needed_when_the_terms_name_one(self, federation):
        f = federation(**SIGNED)
        f.keys = {}
        with pytest.raises(InputError, match="own key is needed"):
            f.act("advertise", 1)

    def test_must_be_the_one_in_the_terms(self, federation):
        f = federation(**SIGNED)
        f.keys = {1: Ed25519PrivateKey.from_private_bytes(b"z" * 32)}
        with pytest.raises(InputError, match="not the key that the roster names"):
            f.act("advertise", 1)

    def test_is_refused_when_the_terms_have_none(self, federation):
        f = federation()
        f.keys = {1: Ed25519PrivateKey.from_private_bytes(b"z" * 32)}
        with pytest.raises(InputError, match="no identities"):
            f.act("advertise", 1)

    def test_a_stranger_cannot_join(self, federation):
        f = federation(**SIGNED)
        with pytest.raises(InputError, match="site 9 is not in the roster"):
            steps.advertise(f.messages[1], site=9, terms=f.terms, entropy=f.entropy)


@pytest.mark.parametrize("step", ["advertise", "share", "mask", "confirm", "reveal"])
def test_malformed_bytes_are_the_coordinators_fault(federation, malformed, step):
    raw = federation(**SIGNED).until(step).messages[1]
    for bad in malformed(raw):
        f = federation(**SIGNED).until(step)
        with pytest.raises(FaultyCoordinatorError):
            f.act(step, 1, bad)


@pytest.mark.parametrize("step", ["share", "mask", "confirm", "reveal"])
def test_a_repr_shows_no_secret(federation, step):
    f = federation(**SIGNED).until(step)
    text = repr(f.states[1])
    assert "secret" not in text
    state = f.states[1]
    hidden = [
        getattr(state, name, b"") for name in ("mask_secret", "channel_secret", "seed")
    ]
    hidden += list(getattr(state, "held", {}).values())
    assert any(hidden)
    for secret in filter(None, hidden):
        assert repr(secret)[2:-1] not in text
        assert secret.hex() not in text

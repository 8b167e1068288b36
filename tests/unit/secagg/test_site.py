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


def changed(site, **keys):
    """Change what the roster lists for one site."""
    return lambda adverts: {**adverts, site: replace(adverts[site], **keys)}


ROSTERS = {
    "below this site's floor": (
        lambda adverts: {s: adverts[s] for s in (1, 2, 3)},
        "lists 3 sites, this site agreed to at least 4",
    ),
    "without this site": (
        lambda adverts: {s: a for s, a in adverts.items() if s != 1},
        "does not list this site",
    ),
    "another channel key of this site": (
        changed(1, channel_key=public_of(b"x" * 32)),
        "keys this site never sent",
    ),
    "another mask key of this site": (
        changed(1, mask_key=public_of(b"x" * 32)),
        "keys this site never sent",
    ),
    "one key for two sites": (
        lambda adverts: changed(3, mask_key=adverts[2].mask_key)(adverts),
        "lists a key twice",
    ),
    "one key for both uses": (
        lambda adverts: changed(3, mask_key=adverts[3].channel_key)(adverts),
        "lists a key twice",
    ),
    "a key of low order": (changed(3, channel_key=bytes(32)), "low order for site 3"),
}
NEW = Advert(public_of(b"x" * 32), public_of(b"y" * 32), bytes(64))
SIGNED_ROSTERS = {
    "a key that its site did not sign": (
        changed(3, mask_key=public_of(b"x" * 32)),
        "site 3 did not sign",
    ),
    "a site without an identity": (
        lambda adverts: {**adverts, 9: NEW},
        "without an identity",
    ),
}


@pytest.mark.parametrize(
    ("terms", "forge", "match"),
    [
        *(({}, *case) for case in ROSTERS.values()),
        *((SIGNED, *case) for case in SIGNED_ROSTERS.values()),
    ],
    ids=[*ROSTERS, *SIGNED_ROSTERS],
)
def test_a_false_roster(federation, terms, forge, match):
    f = federation(**terms).until("share")
    adverts = forge(adverts_of(f.messages[1]))
    with blames_the_coordinator(match):
        f.act("share", 1, KeyRoster.of(adverts, signed=f.signed).raw)


def test_a_roster_with_a_signed_advert_of_an_earlier_session(federation):
    earlier = federation(**SIGNED, seed=b"earlier").until("share")
    f = federation(**SIGNED).until("share")
    adverts = {**adverts_of(f.messages[1]), 3: adverts_of(earlier.messages[1])[3]}
    with blames_the_coordinator("site 3 did not sign"):
        f.act("share", 1, KeyRoster.of(adverts, signed=True).raw)


def test_a_roster_without_the_signatures_that_the_terms_ask_for(federation):
    f = federation(**SIGNED).until("share")
    adverts = adverts_of(f.messages[1]).items()
    unsigned = {s: replace(advert, signature=b"") for s, advert in adverts}
    with blames_the_coordinator("signatures do not fit"):
        f.act("share", 1, KeyRoster.of(unsigned, signed=False).raw)


def without(boxes, *sites):
    return {s: box for s, box in boxes.items() if s not in sites}


@pytest.mark.parametrize(
    ("match", "forge"),
    [
        ("another session", lambda d: replace(d, session=bytes(32))),
        ("outside the roster", lambda d: replace(d, sharers=(1, 2, 3, 4, 5, 77))),
        ("leaves out this site", lambda d: replace(d, sharers=(2, 3, 4, 5))),
        (
            "3 sites shared",
            lambda d: replace(d, sharers=(1, 2, 3), boxes=without(d.boxes, 4, 5)),
        ),
        ("did not share", lambda d: replace(d, sharers=(1, 2, 3, 4))),
        (
            "shares of 3 sites came, 4 have dealt",
            lambda d: replace(d, boxes=without(d.boxes, 4)),
        ),
    ],
)
def test_a_false_delivery(federation, match, forge):
    f = federation().until("mask")
    with blames_the_coordinator(match):
        f.act("mask", 1, forge(BoxDelivery.decode(f.messages[1])).encode())


@pytest.fixture
def box_of_3(federation):
    """Let site 1 get another box in the name of site 3; it must not decrypt."""
    f = federation().until("mask")
    delivery = BoxDelivery.decode(f.messages[1])

    def refuses(boxes, match):
        forged = replace(delivery, boxes={**delivery.boxes, **boxes})
        with pytest.raises(FaultySiteOrCoordinatorError, match=match) as caught:
            f.act("mask", 1, forged.encode())
        assert caught.value.site == 3

    return f, delivery, refuses


def test_a_share_that_does_not_open(box_of_3):
    _, delivery, refuses = box_of_3
    box = delivery.boxes[3]
    changed_box = box[:-1] + bytes([box[-1] ^ 1])
    refuses({3: changed_box}, "site 3, or the coordinator .* do not open")


@pytest.mark.parametrize("place", [0, SHARE_SIZE])
def test_a_number_that_is_no_share(box_of_3, place):
    """The dealer itself sealed it, and no holder keeps what restores nothing."""
    f, delivery, refuses = box_of_3
    session = delivery.session
    key = derive_key(f.states[3].agreed[1], Purpose.SHARE_BOX, session, 3, 1)
    packet = bytearray(2 * SHARE_SIZE)
    packet[place : place + SHARE_SIZE] = PRIME.to_bytes(SHARE_SIZE, "big")
    box = seal(key, bytes(packet), bound_to=session, entropy=f.entropy)
    refuses({3: box}, "are no shares")


def test_shares_swapped_between_two_dealers(box_of_3):
    _, delivery, refuses = box_of_3
    refuses({3: delivery.boxes[4], 4: delivery.boxes[3]}, "do not open")


def test_a_share_that_was_meant_for_another_site(box_of_3):
    f, _, refuses = box_of_3
    refuses({3: BoxDelivery.decode(f.messages[2]).boxes[3]}, "do not open")


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


@pytest.mark.parametrize("step", ["confirm", "reveal"])
@pytest.mark.parametrize(
    ("match", "changes"),
    [
        ("another session", {"session": bytes(32)}),
        ("3 sites survive, .* at least 4", {"survivors": (1, 2, 3)}),
        ("leave out this site", {"survivors": (2, 3, 4, 5)}),
        ("never shared", {"survivors": (1, 2, 3, 4, 5, 6)}),
    ],
)
def test_false_survivors(federation, step, match, changes):
    """The same checks guard the list that is signed and the one that is revealed."""
    f = federation(signed=step == "confirm").until(step)
    message = Survivors if step == "confirm" else RevealRequest
    forged = replace(message.decode(f.messages[1]), **changes)
    with blames_the_coordinator(match):
        f.act(step, 1, forged.encode())


@pytest.mark.parametrize(
    ("silent", "match", "forge"),
    [
        (
            (),
            "differ from those this site signed",
            lambda r: replace(r, survivors=(1, 2, 3, 4, 5)),
        ),
        (
            (),
            "4 sites signed .* 5 are needed",
            lambda r: replace(r, signatures=without(r.signatures, 2)),
        ),
        (
            (),
            "site 2 did not sign",
            lambda r: replace(r, signatures={**r.signatures, 2: r.signatures[3]}),
        ),
        (
            [("mask", 6)],
            "a site that is silent",
            lambda r: replace(r, signatures={**r.signatures, 6: bytes(64)}),
        ),
    ],
)
def test_a_false_signed_request(federation, silent, match, forge):
    f = federation(n=6, min_survivors=5, signed=True).until("reveal", silent=silent)
    with blames_the_coordinator(match):
        f.act("reveal", 1, forge(RevealRequest.decode(f.messages[1])).encode())


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


STRANGE = Ed25519PrivateKey.from_private_bytes(b"z" * 32)


@pytest.mark.parametrize(
    ("terms", "keys", "match"),
    [
        (SIGNED, {}, "own key is needed"),
        (SIGNED, {1: STRANGE}, "not the key that the roster names"),
        ({}, {1: STRANGE}, "no identities"),
    ],
)
def test_an_identity_that_does_not_fit_the_terms(federation, terms, keys, match):
    f = federation(**terms)
    f.keys = keys
    with pytest.raises(InputError, match=match):
        f.act("advertise", 1)


def test_a_site_outside_the_roster_cannot_join(federation):
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

"""What the coordinator refuses, and whom it blames."""

from dataclasses import replace

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
MESSAGES = [Advert, SealedShares, MaskedVector, Confirmation, RevealedShares]


def refuses(f, site, raw, match):
    with pytest.raises(FaultySiteError, match=match) as caught:
        f.coordinator.receive(site, raw)
    assert caught.value.site == site


@pytest.mark.parametrize("step", STEPS)
def test_malformed_bytes_a_stranger_and_a_second_answer(federation, malformed, step):
    f = federation(**SIGNED).until(step).answer(step)
    raw = f.answers[1]
    for bad in malformed(raw):
        refuses(f, 1, bad, "sent bytes that cannot be read")
    refuses(f, 77, raw, "is not expected")
    f.coordinator.receive(1, raw)  # a refused message does not count
    refuses(f, 1, raw, "has already answered")


@pytest.mark.parametrize("step", STEPS[1:])
def test_an_answer_of_another_session(federation, step):
    other = federation(**SIGNED, seed=b"other").until(step).answer(step)
    f = federation(**SIGNED).until(step)
    refuses(f, 1, other.answers[1], "another session")


def with_boxes(change):
    return lambda message: replace(message, boxes=change(dict(message.boxes)))


SILENT_2 = {"n": 6, "min_survivors": 4}
NO_SHARE = PRIME.to_bytes(SHARE_SIZE, "big")
FORGERIES = [
    ("advertise", {}, lambda m: replace(m, mask_key=m.channel_key), "already taken"),
    ("advertise", {}, lambda m: replace(m, mask_key=bytes(32)), "low order"),
    ("advertise", {}, lambda m: replace(m, signature=bytes(64)), "no identities"),
    ("advertise", SIGNED, lambda m: replace(m, signature=bytes(64)), "sign its keys"),
    ("advertise", SIGNED, lambda m: replace(m, signature=b""), "sign its keys"),
    ("share", {}, with_boxes(lambda b: {**b, 1: b[2]}), "to itself or to an unlisted"),
    ("share", {}, with_boxes(lambda b: {**b, 9: b[2]}), "to itself or to an unlisted"),
    ("share", {}, with_boxes(lambda b: {2: b[2]}), "dealt to 1 holders, not to 4"),
    ("mask", {}, lambda m: replace(m, words=m.words[:2]), "sent 2 words, the terms"),
    ("confirm", SIGNED, lambda m: replace(m, signature=bytes(64)), "sign the surviv"),
    (
        "reveal",
        SILENT_2,
        lambda m: replace(m, seed_shares={4: m.seed_shares[4]}),
        "other seed shares",
    ),
    (
        "reveal",
        SILENT_2,
        lambda m: replace(m, key_shares={**m.key_shares, 3: m.seed_shares[3]}),
        "other key shares",
    ),
    (
        "reveal",
        SILENT_2,
        lambda m: replace(m, seed_shares={**m.seed_shares, 3: NO_SHARE}),
        "no shares",
    ),
]


def answered(federation, step, terms):
    """All have answered but for site 2, which has been silent where terms say so."""
    silent = [("mask", 2)] if terms is SILENT_2 else []
    f = federation(**terms).until(step, silent=silent)
    return f.answer(step, without={site for _, site in silent})


@pytest.mark.parametrize(("step", "terms", "forge", "match"), FORGERIES)
def test_a_false_answer(federation, step, terms, forge, match):
    f = answered(federation, step, terms)
    kind = dict(zip(STEPS, MESSAGES, strict=True))[step]
    refuses(f, 1, forge(kind.decode(f.answers[1])).encode(), match)


def test_the_answer_of_another_site(federation):
    f = federation().answer("advertise")
    f.coordinator.receive(1, f.answers[1])
    refuses(f, 2, f.answers[1], "already taken")
    f = federation(**SIGNED).until("confirm").answer("confirm")
    refuses(f, 1, f.answers[2], "did not sign the survivors")


@pytest.mark.parametrize(("kind", "dealer"), [("seed_shares", 3), ("key_shares", 2)])
def test_shares_that_do_not_reconstruct_open_nothing(federation, kind, dealer):
    f = answered(federation, "reveal", SILENT_2)
    message = RevealedShares.decode(f.answers[1])
    wrong = {**getattr(message, kind), dealer: bytes(SHARE_SIZE - 1) + b"\5"}
    f.answers[1] = replace(message, **{kind: wrong}).encode()
    with pytest.raises(UnknownFaultySiteError, match="nothing was revealed") as e:
        f.deliver().advance()
    assert e.value.dealer == dealer
    assert 1 in e.value.holders


@pytest.mark.parametrize("step", STEPS)
def test_a_round_is_closed_once(federation, step):
    f = federation(**SIGNED).until(step).answer(step).deliver()
    f.coordinator.advance()
    with pytest.raises(ConsumedStateError):
        f.coordinator.advance()


@pytest.mark.parametrize(
    ("sites", "terms", "match"),
    [
        ([1, 2, 3], {}, "3 sites are invited"),
        ([1, 2, 3, 4, 9], SIGNED, "roster of identities lacks"),
        ([0, 1, 2, 3, 4], {}, "between 1 and"),
    ],
)
def test_invitations_that_no_session_can_begin_with(federation, sites, terms, match):
    with pytest.raises(InputError, match=match):
        invite(sites, terms=federation(**terms).terms, entropy=Seeded(b"i"))

"""What a malicious coordinator tries, against signed and unsigned sessions."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from discreet.errors import InputError
from discreet.secagg import shamir
from discreet.secagg.errors import FaultyCoordinatorError
from discreet.secagg.keys import KeyAgreement, Purpose, derive_key, pair_mask_key
from discreet.secagg.masks import add_masks
from discreet.secagg.messages import (
    BoxDelivery,
    Confirmation,
    KeyRoster,
    MaskedVector,
    RevealedShares,
    RevealRequest,
    Survivors,
)
from discreet.secagg.terms import Terms, survivor_statement

SIGNED = {"n": 6, "min_survivors": 5, "colluders": 1, "signed": True}


def open_alone(f, victim, vector, seed, secret):
    """Unmask one vector with both secrets of its site: what must never happen."""
    words, session = vector.words.copy(), vector.session
    add_masks(words, minus=[derive_key(seed, Purpose.SELF_MASK, session, victim)])
    for peer in set(f.sites) - {victim}:
        shared = KeyAgreement(secret).with_peer(f.roster.advert(peer).mask_key)
        pair = [pair_mask_key(shared, session, victim, peer)]
        add_masks(words, **{"minus" if victim < peer else "plus": pair})
    return words.view(np.int64)


def test_without_identities_a_lying_coordinator_opens_a_single_vector(federation):
    """Why the claim says curious: two stories about one victim, and no signatures."""
    f = federation(n=7, min_survivors=4).until("share")
    f.roster = KeyRoster(f.messages[1])
    f.play("share").answer("mask")
    vector = MaskedVector.decode(f.answers[1])
    f.deliver().advance()
    alive = RevealRequest(vector.session, (1, 2, 3, 4)).encode()
    silent = RevealRequest(vector.session, (2, 5, 6, 7)).encode()
    seeds = {
        s: RevealedShares.decode(f.act("reveal", s, alive)[1]).seed_shares[1]
        for s in (2, 3, 4)
    }
    keys = {
        s: RevealedShares.decode(f.act("reveal", s, silent)[1]).key_shares[1]
        for s in (5, 6, 7)
    }
    seed, secret = shamir.restore(seeds), shamir.restore(keys)
    stolen = open_alone(f, 1, vector, seed, secret)
    np.testing.assert_array_equal(stolen, f.vectors[1])


def test_terms_under_which_that_attack_works_cannot_be_signed(federation):
    with pytest.raises(InputError, match="at least 5 of 8 sites"):
        federation(n=8, min_survivors=4, signed=True)
    with pytest.raises(InputError, match="min_survivors is 4"):
        federation(n=7, min_survivors=4, signed=True)


def test_no_accepted_terms_let_colluders_have_two_survivor_lists_signed():
    """Colluders sign both lists, each honest site one: both must not reach the floor.

    Nor may the holders of a complete graph give up both secrets of one site: the
    colluding ones answer both questions, each honest one only one of them.
    """
    accepted = 0
    for sites, colluders in product(range(3, 16), range(5)):
        for floor in range(2, sites + 1):
            keys = {s: bytes([s]) * 32 for s in range(1, sites + 1)}
            try:
                terms = Terms(bytes(32), 3, floor, colluders, keys)
            except InputError:
                continue
            accepted += 1
            honest = sites - colluders
            for first in range(honest + 1):
                lists = (first + colluders, honest - first + colluders)
                assert min(lists) < floor
            holders = sites - 1 - colluders
            for asked in range(holders + 1):
                shares = (asked + colluders, holders - asked + colluders)
                assert min(shares) < terms.parameters(sites).threshold
    assert accepted > 100


def signed(f, stories):
    """Tell each site its story of who survived; return the signatures."""
    signatures = {}
    for site, story in stories.items():
        raw = Survivors(Survivors.decode(f.messages[2]).session, story).encode()
        f.states[site], answer = f.act("confirm", site, raw)
        signatures[site] = Confirmation.decode(answer).signature
    return signatures


def nobody_reveals(f, stories, signatures, match):
    for site, story in stories.items():
        request = RevealRequest(f.states[2].session, story, signatures(story)).encode()
        with pytest.raises(FaultyCoordinatorError, match=match):
            f.act("reveal", site, request)


def test_a_colluder_that_signs_two_lists_opens_neither_beside_the_other(federation):
    f = federation(**SIGNED).until("confirm")
    stories = {s: (1, 2, 3, 4, 6) if s <= 2 else (2, 3, 4, 5, 6) for s in range(1, 6)}
    honest, sharers = signed(f, stories), f.states[1].sharers

    def shown(story):
        own = f.keys[6].sign(survivor_statement(f.states[1].session, sharers, story))
        return {s: x for s, x in honest.items() if stories[s] == story} | {6: own}

    nobody_reveals(f, stories, shown, "signed the survivors, 5")


def test_two_survivor_sets_do_not_both_find_enough_signatures(federation):
    f = federation(**SIGNED).until("confirm")
    stories = {s: (1, 2, 3, 4, 5) if s <= 3 else (2, 3, 4, 5, 6) for s in f.sites}
    signatures = signed(f, stories)

    def shown(story):
        return {s: x for s, x in signatures.items() if s in story}

    nobody_reveals(f, stories, shown, "did not sign")


def test_sites_that_were_told_of_different_sharers_do_not_unmask(federation):
    """Different sharers mean different masks: parts of the sum could be opened."""
    f = federation(**SIGNED).until("mask")
    told = BoxDelivery.decode(f.messages[1])
    boxes = {s: box for s, box in told.boxes.items() if s != 6}
    f.messages[1] = replace(told, sharers=(1, 2, 3, 4, 5), boxes=boxes).encode()
    f.play("mask")
    # Site 1 does not believe in survivors that never shared with it ...
    with pytest.raises(FaultyCoordinatorError, match="never shared"):
        f.act("confirm", 1)
    f.unused(1)
    # ... and a list that it does believe in fails at everybody's signature check.
    stories = dict.fromkeys((1, 2, 3, 4, 5), (1, 2, 3, 4, 5))
    signatures = signed(f, stories)
    nobody_reveals(f, stories, lambda _: signatures, "did not sign these sharers")


def test_signatures_of_an_earlier_session_count_for_nothing(federation):
    earlier = federation(**SIGNED, seed=b"earlier").until("reveal")
    old = RevealRequest.decode(earlier.messages[1]).signatures
    f = federation(**SIGNED).until("reveal")
    request = RevealRequest.decode(f.messages[1])
    with pytest.raises(FaultyCoordinatorError, match="did not sign"):
        f.act("reveal", 1, replace(request, signatures=old).encode())


def test_two_runs_of_one_plan_share_no_key_and_no_session(federation):
    one = federation(seed=b"one").until("share")
    two = federation(seed=b"two").until("share")
    assert one.terms.digest == two.terms.digest
    keys = [set(KeyRoster(f.messages[1]).keys()) for f in (one, two)]
    assert not keys[0] & keys[1]
    sessions = {f.play("share").states[1].session for f in (one, two)}
    assert len(sessions) == 2


def test_a_masked_vector_alone_is_not_the_vector(federation):
    f = federation().until("mask").answer("mask")
    for site in f.sites:
        words = MaskedVector.decode(f.answers[site]).words.view(np.int64)
        assert not set(words.tolist()) & set(f.vectors[site].tolist())


def test_keys_of_those_who_chose_a_site_are_verified_when_their_shares_come(federation):
    """In a sparse graph a site learns only then whom it deals with."""
    f = federation(n=101, min_survivors=98, length=1, signed=True).until("mask")
    state = f.states[1]
    assert len(state.agreed) < 100
    dealers = set(BoxDelivery.decode(f.messages[1]).boxes) - set(state.agreed)
    dealer = min(dealers)
    adverts = {s: state.roster.advert(s) for s in state.roster.sites}
    adverts[dealer] = replace(adverts[dealer], signature=bytes(64))
    # The session does not cover signatures: this roster passes for the true one.
    f.states[1] = replace(state, roster=KeyRoster.of(adverts, signed=True))
    with pytest.raises(FaultyCoordinatorError, match=f"site {dealer} did not sign"):
        f.act("mask", 1)

"""Exact sums: no share is given before each listed site has signed."""

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.errors import InputError
from discreet.secagg import site as steps
from discreet.secagg.errors import (
    FaultyCoordinatorError,
    FaultySiteError,
    UnsignedError,
)
from discreet.secagg.messages import (
    BoxDelivery,
    Confirmation,
    RevealRequest,
    Survivors,
    Withdrawal,
)
from discreet.secagg.site import withdrawn_by
from discreet.secagg.site_state import restore_site
from discreet.secagg.terms import Terms, survivor_statement


@pytest.fixture
def exact(federation):
    return lambda **more: federation(signed=True, everyone_signs=True, **more)


@pytest.mark.parametrize(
    ("silent", "inside"),
    [
        ([], [1, 2, 3, 4, 5]),
        ([("mask", 3)], [1, 2, 4, 5]),
        ([("reveal", 3)], [1, 2, 3, 4, 5]),
    ],
    ids=["everybody there", "silent before it masks", "silent after everyone signed"],
)
def test_the_sum_is_of_those_who_masked_once_each_of_them_has_signed(
    exact, silent, inside
):
    run = exact()
    opened = run.through(silent=silent)
    assert opened.contributors == tuple(inside)
    assert opened.total.tolist() == run.sum_of(inside)


def test_one_missing_signature_stops_the_coordinator(exact):
    run = exact().until("confirm")
    with pytest.raises(UnsignedError, match="1 of the 5 listed sites did not sign"):
        run.play("confirm", without={3})


@pytest.mark.parametrize("shown", [[], [1], [1, 2, 4, 5], [1, 2, 3, 4]])
def test_no_site_gives_a_share_on_fewer_signatures_than_listed_sites(exact, shown):
    """Four of five would do under noise: min_survivors is four."""
    run = exact().until("reveal")
    request = RevealRequest.decode(run.messages[1])
    few = {site: request.signatures[site] for site in shown}
    forged = replace(request, signatures=few).encode()
    for site in run.sites:
        with pytest.raises(FaultyCoordinatorError, match="signed the survivors"):
            run.act("reveal", site, forged)


def test_neither_a_forged_signature_nor_a_list_without_the_one_that_refused(exact):
    run = exact().until("reveal")
    request = RevealRequest.decode(run.messages[1])
    statement = survivor_statement(
        run.states[1].signing.session, run.states[1].sharers, request.survivors
    )
    strange = Ed25519PrivateKey.from_private_bytes(bytes([9]) * 32).sign(statement)
    forged = replace(request, signatures={**request.signatures, 3: strange})
    with pytest.raises(FaultyCoordinatorError, match="site 3 did not sign"):
        run.act("reveal", 1, forged.encode())
    run.unused(1)
    without = tuple(s for s in request.survivors if s != 3)
    signatures = {s: request.signatures[s] for s in without}
    forged = RevealRequest(request.session, without, signatures)
    with pytest.raises(FaultyCoordinatorError, match="differ from those"):
        run.act("reveal", 1, forged.encode())


def test_everyone_signs_only_where_there_are_identities():
    with pytest.raises(InputError, match="identities"):
        Terms(bytes(32), 1, 3, everyone_signs=True)


def test_the_terms_of_both_kinds_of_sums_differ(federation, exact):
    assert federation(signed=True).terms.digest != exact().terms.digest


def test_a_withdrawal_is_taken_in_place_of_a_signature_and_a_forged_one_is_not(exact):
    run = exact().until("confirm")
    word = steps.withdraw(run.states[3], identity=run.keys[3])
    for site, forged in ((4, word), (3, word[:-1] + bytes([word[-1] ^ 1]))):
        with pytest.raises(FaultySiteError):
            run.coordinator.receive(site, forged)
    run.coordinator.receive(3, word)
    with pytest.raises(FaultySiteError, match="already answered"):
        run.coordinator.receive(3, word)
    assert run.coordinator.withdrawals == {3: Withdrawal.decode(word).signature}
    with pytest.raises(UnsignedError):
        run.play("confirm", without={3})


def test_nobody_withdraws_from_a_sum_with_noise(federation):
    run = federation(signed=True).until("confirm")
    with pytest.raises(InputError, match="everyone signs"):
        steps.withdraw(run.states[3], identity=run.keys[3])


def withdrawals(run, sites):
    signed = {}
    for site in sites:
        run.unused(site)
        word = steps.withdraw(run.states[site], identity=run.keys[site])
        signed[site] = Withdrawal.decode(word).signature
    return signed


@pytest.mark.parametrize(
    ("colluders", "withdrawing", "dead"),
    [(0, [3], True), (1, [3], False), (1, [3, 4], True), (0, [], False)],
)
def test_it_takes_one_withdrawal_more_than_there_are_colluders(
    exact, colluders, withdrawing, dead
):
    run = exact(n=6, min_survivors=5, colluders=colluders).until("confirm")
    state, _ = run.act("confirm", 1)
    found = withdrawals(run, withdrawing)
    assert withdrawn_by(state, found) == (found if dead else {})


def test_false_withdrawals_count_for_nothing(exact):
    run = exact().until("confirm", silent=[("mask", 5)])
    other = exact(seed=b"another session").until("confirm")
    state, _ = run.act("confirm", 1)
    (true,) = withdrawals(run, [3]).values()
    for false in (
        {4: true},  # of another site
        {5: true},  # of a site that is not listed
        {99: true},
        {1: withdrawals(run, [1])[1]},  # its own
        withdrawals(other, [3]),
        {3: bytes(64)},
    ):
        assert withdrawn_by(state, false) == {}
    assert withdrawn_by(state, {3: true, 4: bytes(64)}) == {3: true}


@pytest.fixture
def grouped(exact):
    """Nine signed sites in three groups, whose exact sums are revealed together."""

    def build(**more):
        return exact(**{"n": 9, "min_survivors": 3, "length": 1, "groups": 3, **more})

    return build


def test_grouped_exact_sums_are_those_of_the_groups(grouped):
    run = grouped()
    sums = run.through()
    assert [each.contributors for each in sums] == run.members
    assert all(s.total.tolist() == run.sum_of(s.contributors) for s in sums)


@pytest.mark.parametrize("everyone_signs", [True, False])
def test_a_site_signs_for_the_sums_of_all_groups_where_all_are_exact(
    federation, everyone_signs
):
    run = federation(9, 3, 0, 1, True, everyone_signs, groups=3).until("confirm")
    own = run.members[0]
    sums = run.states[own[0]].signing.sums(run.sites if everyone_signs else own)
    assert sums[0] == own
    assert sorted(sums) == sorted(run.members if everyone_signs else [own])
    told = Survivors.decode(run.messages[own[0]]).survivors
    assert told == tuple(sorted(s for group in sums for s in group))


def test_one_refusal_in_another_group_reveals_nothing_in_this_one(grouped):
    run = grouped().until("confirm")
    with pytest.raises(UnsignedError, match="1 of the 9"):
        run.play("confirm", without={run.members[2][0]})


def test_signatures_of_ones_own_group_are_not_enough(grouped):
    run = grouped().until("reveal")
    own = run.members[0]
    request = RevealRequest.decode(run.messages[own[0]])
    few = {s: request.signatures[s] for s in own}
    with pytest.raises(FaultyCoordinatorError, match="3 of the 9 listed sites signed"):
        run.act("reveal", own[0], replace(request, signatures=few).encode())


@pytest.mark.parametrize(
    ("step", "kind", "field", "match"),
    [
        ("mask", BoxDelivery, "sharers", "0 sites shared"),
        ("confirm", Survivors, "survivors", "0 sites survive"),
    ],
)
def test_a_list_that_leaves_out_another_group_is_refused(
    grouped, step, kind, field, match
):
    """Its sum would be revealed, and this site's ledger would not know of it."""
    run = grouped().until(step)
    own = run.members[0]
    told = kind.decode(run.messages[own[0]])
    for listed in (own, tuple(sorted({*own, *run.members[1]}))):
        run.unused(own[0])
        with pytest.raises(FaultyCoordinatorError, match=match):
            run.act(step, own[0], replace(told, **{field: listed}).encode())


def test_groups_that_were_told_different_lists_get_no_common_signatures(grouped):
    """One group is told that a site of another is in its sum, the others are not."""
    run = grouped(n=12).until("confirm")
    one, away = run.members[0], run.members[2][0]
    signatures = {}
    for site in run.sites:
        told = Survivors.decode(run.messages[site])
        believes = site in one or site == away
        listed = tuple(s for s in run.sites if believes or s != away)
        raw = replace(told, survivors=listed).encode()
        run.states[site], word = run.act("confirm", site, raw)
        signatures[site] = Confirmation.decode(word).signature
    for site in set(run.sites) - {away}:
        listed = run.states[site].confirmed
        shown = {s: signatures[s] for s in listed}
        request = RevealRequest(run.states[site].session, listed, shown).encode()
        with pytest.raises(FaultyCoordinatorError, match="did not sign these"):
            run.act("reveal", site, request)


def test_states_with_their_groups_come_back_from_their_bytes(grouped):
    for step in ("mask", "confirm", "reveal"):
        run = grouped().until(step)
        for state in run.states.values():
            again = restore_site(state.encode(), run.terms)
            assert again.signing == state.signing
            assert len(again.signing.others) == 2

"""Exact sums: no share is given before each listed site has signed."""

from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.entropy import Seeded
from discreet.errors import InputError
from discreet.secagg import site as steps
from discreet.secagg.coordinator import RevealedSum, advance_all, invite
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


def test_the_sum_is_revealed_when_everyone_has_signed(exact):
    run = exact()
    opened = run.through()
    assert opened.total.tolist() == run.sum_of(run.sites)


def test_a_site_that_is_silent_before_it_masks_is_not_listed(exact):
    run = exact()
    opened = run.through(silent=[("mask", 3)])
    assert opened.contributors == (1, 2, 4, 5)
    assert opened.total.tolist() == run.sum_of([1, 2, 4, 5])


def test_a_site_that_is_silent_after_everyone_signed_is_in_the_sum(exact):
    run = exact()
    assert run.through(silent=[("reveal", 3)]).contributors == (1, 2, 3, 4, 5)


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


def test_a_forged_signature_of_the_one_that_refused_is_seen(exact):
    run = exact().until("reveal")
    request = RevealRequest.decode(run.messages[1])
    statement = survivor_statement(
        run.states[1].signing.session, run.states[1].sharers, request.survivors
    )
    strange = Ed25519PrivateKey.from_private_bytes(bytes([9]) * 32).sign(statement)
    forged = replace(request, signatures={**request.signatures, 3: strange}).encode()
    with pytest.raises(FaultyCoordinatorError, match="site 3 did not sign"):
        run.act("reveal", 1, forged)


def test_a_list_without_the_one_that_refused_is_another_list(exact):
    run = exact().until("reveal")
    request = RevealRequest.decode(run.messages[1])
    without = tuple(s for s in request.survivors if s != 3)
    signatures = {s: request.signatures[s] for s in without}
    forged = RevealRequest(request.session, without, signatures).encode()
    with pytest.raises(FaultyCoordinatorError, match="differ from those"):
        run.act("reveal", 1, forged)


def test_everyone_signs_only_where_there_are_identities():
    with pytest.raises(InputError, match="identities"):
        Terms(bytes(32), 1, 3, everyone_signs=True)


def test_the_terms_of_both_kinds_of_sums_differ(federation, exact):
    assert federation(signed=True).terms.digest != exact().terms.digest


def test_a_withdrawal_is_taken_in_place_of_a_signature(exact):
    run = exact().until("confirm")
    word = steps.withdraw(run.states[3], identity=run.keys[3])
    run.coordinator.receive(3, word)
    with pytest.raises(FaultySiteError, match="already answered"):
        run.coordinator.receive(3, word)
    assert run.coordinator.withdrawals == {3: Withdrawal.decode(word).signature}
    with pytest.raises(UnsignedError):
        run.play("confirm", without={3})


def test_a_forged_withdrawal_is_not_taken(exact):
    run = exact().until("confirm")
    word = steps.withdraw(run.states[3], identity=run.keys[3])
    with pytest.raises(FaultySiteError):
        run.coordinator.receive(4, word)
    with pytest.raises(FaultySiteError):
        run.coordinator.receive(3, word[:-1] + bytes([word[-1] ^ 1]))


def test_nobody_withdraws_from_a_sum_with_noise(federation):
    run = federation(signed=True).until("confirm")
    with pytest.raises(InputError, match="everyone signs"):
        steps.withdraw(run.states[3], identity=run.keys[3])


def withdrawals(run, sites):
    signed = {}
    for site in sites:
        state = restore_site(run.states[site].encode(), run.terms)
        word = steps.withdraw(state, identity=run.keys[site])
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


SITES = 9
GROUPS = 3


class Grouped:
    """Nine signed sites in three groups, whose exact sums are revealed together."""

    def __init__(self, *, sites=SITES, everyone_signs=True):
        self.keys = {
            s: Ed25519PrivateKey.from_private_bytes(bytes([s]) * 32)
            for s in range(1, sites + 1)
        }
        public = {s: k.public_key().public_bytes_raw() for s, k in self.keys.items()}
        self.terms = Terms(bytes(32), 1, 3, 0, public, GROUPS, everyone_signs)
        self.entropy = Seeded(b"grouped")
        state, messages = invite(public, terms=self.terms, entropy=self.entropy)
        self.states = {}
        for site, raw in messages.items():
            self.states[site], advert = steps.advertise(
                raw,
                site=site,
                terms=self.terms,
                entropy=self.entropy,
                identity=self.keys[site],
            )
            state.receive(site, advert)
        self.groups = state.split()
        self.members = [tuple(messages) for _, messages in self.groups]

    def act(self, step, site, raw):
        state = restore_site(self.states[site].encode(), self.terms)
        match step:
            case "share":
                return steps.share(state, raw, entropy=self.entropy)
            case "mask":
                return steps.mask(state, raw, lambda: np.array([10**site]))
            case "confirm":
                return steps.confirm(state, raw, identity=self.keys[site])
            case _:
                return steps.reveal(state, raw)

    def play(self, *names, without=()):
        for step in names:
            for collecting, messages in self.groups:
                for site, raw in messages.items():
                    if site not in without:
                        self.states[site], answer = self.act(step, site, raw)
                        collecting.receive(site, answer)
            self.groups = advance_all([group for group, _ in self.groups])
        return self

    def message(self, site):
        return next(sent[site] for _, sent in self.groups if site in sent)


def test_grouped_exact_sums_are_those_of_the_groups():
    sums = Grouped().play("share", "mask", "confirm", "reveal").groups
    assert all(isinstance(each, RevealedSum) for each in sums)
    totals = {each.contributors: int(each.total[0]) for each in sums}
    assert totals == {g: sum(10**s for s in g) for g in Grouped().members}


def test_a_site_signs_for_the_sums_of_all_groups():
    run = Grouped().play("share", "mask")
    first = run.members[0]
    sums = run.states[first[0]].signing.sums(range(1, SITES + 1))
    assert sums[0] == first
    assert sorted(sums) == sorted(run.members)
    assert Survivors.decode(run.message(first[0])).survivors == tuple(range(1, 10))


def test_under_noise_a_site_signs_for_its_own_group():
    run = Grouped(everyone_signs=False).play("share", "mask")
    first = run.members[0]
    assert run.states[first[0]].signing.others == ()
    assert Survivors.decode(run.message(first[0])).survivors == first


def test_one_refusal_in_another_group_reveals_nothing_in_this_one():
    run = Grouped().play("share", "mask")
    with pytest.raises(UnsignedError, match="1 of the 9"):
        run.play("confirm", without={run.members[2][0]})


def test_signatures_of_ones_own_group_are_not_enough():
    run = Grouped().play("share", "mask", "confirm")
    own = run.members[0]
    request = RevealRequest.decode(run.message(own[0]))
    few = {s: request.signatures[s] for s in own}
    with pytest.raises(FaultyCoordinatorError, match="3 of the 9 listed sites signed"):
        run.act("reveal", own[0], replace(request, signatures=few).encode())


def test_a_list_that_leaves_out_another_group_is_refused():
    """Its sum would be revealed, and this site's ledger would not know of it."""
    run = Grouped().play("share", "mask")
    own = run.members[0]
    told = Survivors.decode(run.message(own[0]))
    for listed in (own, tuple(sorted({*own, *run.members[1]}))):
        forged = replace(told, survivors=listed).encode()
        with pytest.raises(FaultyCoordinatorError, match="0 sites survive"):
            run.act("confirm", own[0], forged)


def test_a_delivery_that_leaves_out_another_group_is_refused():
    run = Grouped().play("share")
    own = run.members[0]
    told = BoxDelivery.decode(run.message(own[0]))
    forged = replace(told, sharers=own).encode()
    with pytest.raises(FaultyCoordinatorError, match="0 sites shared"):
        run.act("mask", own[0], forged)


def test_groups_that_were_told_different_lists_get_no_common_signatures():
    """One group is told that a site of another is in its sum, the others are not."""
    run = Grouped(sites=12).play("share", "mask")
    one, away = run.members[0], run.members[2][0]
    everybody = tuple(range(1, 13))
    signatures = {}
    for site in everybody:
        told = Survivors.decode(run.message(site))
        listed = everybody if site in one else set(everybody) - {away}
        if site != away:
            forged = replace(told, survivors=tuple(sorted(listed))).encode()
            run.states[site], word = run.act("confirm", site, forged)
            signatures[site] = Confirmation.decode(word).signature
    _, word = run.act("confirm", away, run.message(away))
    signatures[away] = Confirmation.decode(word).signature
    for site in everybody:
        if site != away:
            listed = run.states[site].confirmed
            shown = {s: signatures[s] for s in listed}
            request = RevealRequest(run.states[site].session, listed, shown).encode()
            with pytest.raises(FaultyCoordinatorError, match="did not sign these"):
                run.act("reveal", site, request)


def test_states_with_their_groups_come_back_from_their_bytes():
    run = Grouped()
    for step in ("share", "mask", "confirm"):
        run.play(step)
        for state in run.states.values():
            again = restore_site(state.encode(), run.terms)
            assert again.signing == state.signing
            assert len(again.signing.others) == GROUPS - 1

"""The floor holds against a coordinator that leaves sites out of the sum.

The attack, on a sparse graph: withhold a victim's boxes, so that none of its
holders masks with it; call silent all who chose it as a holder; list it among the
survivors all the same. The others' masks then cancel without the victim's vector,
and a sum over fewer sites than were agreed on opens; a second session gives the
victim's vector as the difference. Receipts are what stops it.
"""

from dataclasses import replace

import numpy as np
import pytest

from discreet.secagg.errors import (
    FaultyCoordinatorError,
    FaultySiteError,
    SingleUse,
    TooFewHoldersError,
)
from discreet.secagg.keys import RECEIPT_SIZE
from discreet.secagg.masks import Dealt, MaskedSum, unmask
from discreet.secagg.messages import (
    BoxDelivery,
    Confirmation,
    MaskedVector,
    RevealedShares,
    RevealRequest,
    SealedShares,
    Survivors,
)
from discreet.secagg.shamir import SHARE_SIZE

pytestmark = pytest.mark.long


class FalseReceipts:
    """A coordinator that leaves the site which fewest others chose out of the sum."""

    def __init__(self, f):
        f.until("share")
        self.f = f.answer("share")
        self.shares = {s: SealedShares.decode(raw) for s, raw in f.answers.items()}
        f.deliver().advance()
        admirers = {s: [] for s in f.sites}
        for dealer, dealt in self.shares.items():
            for holder in dealt.boxes:
                admirers[holder].append(dealer)
        self.victim = min(admirers, key=lambda s: len(admirers[s]))
        others = set(f.sites) - {self.victim, *admirers[self.victim]}
        self.others = tuple(sorted(others)[: f.min_survivors - 1])
        self.survivors = tuple(sorted({*self.others, self.victim}))
        self._mask()

    def _mask(self):
        """Withhold the victim's boxes; collect vectors and receipts."""
        f = self.f
        for site in f.sites:
            delivery = BoxDelivery.decode(f.messages[site])
            boxes = {d: b for d, b in delivery.boxes.items() if d != self.victim}
            f.messages[site] = replace(delivery, boxes=boxes).encode()
        f.answer("mask")
        self.masked = {s: MaskedVector.decode(raw) for s, raw in f.answers.items()}
        self.session = self.masked[1].session

    def receipts(self, dealer):
        """Return what the dealer's listed holders really sent back to it."""
        return {
            holder: self.masked[holder].receipts[dealer]
            for holder in self.shares[dealer].boxes
            if holder in self.survivors and dealer in self.masked[holder].receipts
        }

    def confirm(self, site, receipts=None):
        """Ask one site to sign that the victim is in the sum."""
        shown = self.receipts(site) if receipts is None else receipts
        raw = Survivors(self.session, self.survivors, shown).encode()
        self.f.states[site], answer = self.f.act("confirm", site, raw)
        return Confirmation.decode(answer).signature

    def open(self):
        """Add up everybody but the victim with what the sites would reveal."""
        revealed = {
            site: RevealedShares(
                self.session,
                {d: x[SHARE_SIZE:] for d, x in self.f.states[site].held.items()},
                {d: x[:SHARE_SIZE] for d, x in self.f.states[site].held.items()},
            )
            for site in self.others
        }
        dealt = {s: m for s, m in self.shares.items() if s != self.victim}
        boxes = {s: tuple(m.boxes) for s, m in dealt.items()}
        dealt = Dealt(boxes, {s: m.commitment for s, m in dealt.items()})
        words = np.add.reduce([self.masked[s].words for s in self.others])
        roll = self.f.coordinator.roll
        masked = MaskedSum(roll, dealt, frozenset(self.others), words)
        return unmask(masked, revealed).view(np.int64)


@pytest.fixture(scope="module")
def forger(sparse_federation):
    return FalseReceipts(sparse_federation())


@pytest.fixture
def fresh(forger):
    """Let every test find the states unused."""
    kept = dict(forger.f.states)
    forger.f.states = {s: replace(x, once=SingleUse()) for s, x in kept.items()}
    yield forger
    forger.f.states = kept


def test_without_receipts_a_sum_below_the_floor_would_open(fresh):
    """The masks do cancel without the victim: its signature is what is missing."""
    assert len(fresh.others) == fresh.f.min_survivors - 1
    assert fresh.open().tolist() == fresh.f.sum_of(fresh.others)
    victim = fresh.f.states[fresh.victim]
    fresh.f.states[fresh.victim] = replace(victim, needed=0)
    fresh.confirm(fresh.victim)


def test_a_site_whose_boxes_are_withheld_does_not_sign(fresh):
    with pytest.raises(TooFewHoldersError, match="0 of the sites that hold") as e:
        fresh.confirm(fresh.victim)
    assert e.value.needed == fresh.f.terms.parameters(fresh.f.n).threshold


def test_the_others_sign_but_do_not_unmask_without_its_signature(fresh):
    signatures = {s: fresh.confirm(s) for s in fresh.others}
    request = RevealRequest(fresh.session, fresh.survivors, signatures).encode()
    for site in fresh.others[:3]:
        with pytest.raises(FaultyCoordinatorError, match="203 sites signed"):
            fresh.f.act("reveal", site, request)


def test_nobody_can_write_a_receipt_in_a_holders_name(fresh):
    holders = [h for h in fresh.shares[fresh.victim].boxes if h in fresh.survivors]
    other = fresh.receipts(fresh.others[0])
    for forged in (
        {h: bytes(RECEIPT_SIZE) for h in holders},
        {h: fresh.masked[h].receipts[min(fresh.masked[h].receipts)] for h in holders},
        dict(zip(holders, other.values(), strict=False)),
    ):
        fresh.f.states[fresh.victim] = replace(
            fresh.f.states[fresh.victim], once=SingleUse()
        )
        with pytest.raises(TooFewHoldersError):
            fresh.confirm(fresh.victim, forged)


def test_a_site_signs_with_as_many_receipts_as_restore_its_mask(fresh):
    site = fresh.others[0]
    state = fresh.f.states[site]
    true = fresh.receipts(site)
    enough = dict(list(true.items())[: state.needed])
    fresh.confirm(site, enough)
    # One of them false: it is not counted, and blames nobody.
    fresh.f.states[site] = replace(state, once=SingleUse())
    with pytest.raises(TooFewHoldersError):
        fresh.confirm(site, {**enough, min(enough): bytes(RECEIPT_SIZE)})


def test_receipts_of_sites_that_owe_none_are_the_coordinators_lie(fresh):
    site = fresh.others[0]
    true, state = fresh.receipts(site), fresh.f.states[site]
    owing = fresh.shares[site].boxes
    stranger = next(s for s in fresh.survivors if s not in owing and s != site)
    silent = next(s for s in owing if s not in fresh.survivors)
    for forger in (stranger, silent):
        fresh.f.states[site] = replace(state, once=SingleUse())
        with pytest.raises(FaultyCoordinatorError, match="holds no shares or did not"):
            fresh.confirm(site, {**true, forger: bytes(RECEIPT_SIZE)})


def test_a_coordinator_blames_a_site_that_returns_other_receipts(federation):
    f = federation(n=101, min_survivors=100, length=1, signed=True).until("mask")
    f.answer("mask")
    message = MaskedVector.decode(f.answers[1])
    few = dict(list(message.receipts.items())[1:])
    for receipts in (few, {}, {**message.receipts, 1: bytes(RECEIPT_SIZE)}):
        with pytest.raises(FaultySiteError, match="other receipts than it owes"):
            f.coordinator.receive(1, replace(message, receipts=receipts).encode())
    f.coordinator.receive(1, f.answers[1])


def test_receipts_reach_a_site_that_was_bytes_in_between(federation):
    f = federation(n=101, min_survivors=100, length=1, signed=True).until("confirm")
    held = f.states[1].encode()
    f.unused(1)
    assert f.states[1].encode() == held
    assert len(Survivors.decode(f.messages[1]).receipts) == len(f.states[1].due) > 0
    f.act("confirm", 1)


@pytest.mark.parametrize("signed", [True, False])
def test_no_receipts_travel_where_nobody_can_be_left_out(federation, signed):
    """In a complete graph all mask with all; a curious coordinator leaves nobody out."""
    f = federation(n=6, min_survivors=5, signed=signed).until("mask").answer("mask")
    assert all(not MaskedVector.decode(raw).receipts for raw in f.answers.values())
    message = replace(
        MaskedVector.decode(f.answers[1]), receipts={2: bytes(RECEIPT_SIZE)}
    )
    with pytest.raises(FaultySiteError, match="other receipts"):
        f.coordinator.receive(1, message.encode())

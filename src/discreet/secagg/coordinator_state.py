"""The coordinator's states as bytes, so that each message may find a new process.

They hold no site's secret until shares are revealed; still, keep them private.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import TypeAlias

import numpy as np

from discreet.errors import InputError
from discreet.secagg.coordinator import (
    CollectingAdverts,
    CollectingConfirmations,
    CollectingMasked,
    CollectingRevealed,
    CollectingShares,
)
from discreet.secagg.errors import MalformedMessageError, SavedStateError
from discreet.secagg.keys import SIGNATURE_SIZE
from discreet.secagg.masks import Dealt, MaskedSum
from discreet.secagg.messages import (
    Advert,
    Masked,
    Revealed,
    Roster,
    Shares,
)
from discreet.secagg.terms import Roll, Terms
from discreet.secagg.wire import DIGEST_SIZE, NONCE_SIZE, Reader, Writer, listed

CoordinatorState: TypeAlias = (
    CollectingAdverts
    | CollectingShares
    | CollectingMasked
    | CollectingConfirmations
    | CollectingRevealed
)


class StateTag(IntEnum):
    """The second byte of a saved coordinator state; no message has these."""

    ADVERTS = 65
    SHARES = 66
    MASKED = 67
    CONFIRMATIONS = 68
    REVEALED = 69


def save_coordinator(state: CoordinatorState) -> bytes:
    """Save a state between two messages."""
    match state:
        case CollectingAdverts():
            out = Writer(StateTag.ADVERTS).fixed(state.terms.digest, DIGEST_SIZE)
            out.fixed(state.nonce, NONCE_SIZE).sites(state.invited)
            adverts = ((s, a.encode()) for s, a in state.adverts.items())
            return out.blobs(adverts).done()
        case CollectingShares():
            out = _write_roll(StateTag.SHARES, state.roll)
            shares = ((s, m.encode()) for s, m in state.shares.items())
            return out.blobs(shares).done()
        case CollectingMasked():
            out = _write_roll(StateTag.MASKED, state.roll)
            _write_dealt(out, state.dealt)
            out.sites(state.survivors).blobs(_receipts(state))
            return out.rest(state.words.astype("<u8").tobytes()).done()
        case CollectingConfirmations():
            out = _write_roll(StateTag.CONFIRMATIONS, state.roll)
            _write_dealt(out, state.masked.dealt)
            out.sites(state.masked.survivors)
            out.records(state.signatures.items(), SIGNATURE_SIZE)
            return out.rest(state.masked.words.astype("<u8").tobytes()).done()
        case CollectingRevealed():
            out = _write_roll(StateTag.REVEALED, state.roll)
            _write_dealt(out, state.masked.dealt)
            out.sites(state.masked.survivors).sites(state.asked)
            out.blobs((s, m.encode()) for s, m in state.revealed.items())
            return out.rest(state.masked.words.astype("<u8").tobytes()).done()


def restore_coordinator(raw: bytes, terms: Terms) -> CoordinatorState:
    """Restore a saved state under the terms that it was made under."""
    try:
        return _restore(raw, terms)
    except (MalformedMessageError, InputError) as error:
        raise SavedStateError(str(error)) from error


def _restore(raw: bytes, terms: Terms) -> CoordinatorState:
    known = frozenset(int(tag) for tag in StateTag)
    if len(raw) < 2 or raw[1] not in known:
        raise SavedStateError("these bytes are not the state of a coordinator")
    tag = StateTag(raw[1])
    read = Reader(raw, tag, "a saved state")
    if read.fixed(DIGEST_SIZE) != terms.digest:
        raise SavedStateError("this state was saved under other terms")
    nonce = read.fixed(NONCE_SIZE)
    if tag is StateTag.ADVERTS:
        invited = frozenset(read.sites())
        adverts = {s: Advert.decode(m) for s, m in read.blobs().items()}
        read.done()
        return CollectingAdverts(terms, nonce, invited, adverts)
    everybody = Roster(read.fixed(read.number()))
    groups = terms.split(everybody, nonce)
    place = read.number() if terms.groups > 1 else 0
    if place >= len(groups):
        raise SavedStateError("this state is of a group that there is not")
    roll = Roll(terms, nonce, groups[place], everybody)
    if tag is StateTag.SHARES:
        shares = {s: Shares.decode(m) for s, m in read.blobs().items()}
        read.done()
        return CollectingShares(roll, shares)
    return _restore_sum(tag, read, roll)


def _restore_sum(tag: StateTag, read: Reader, roll: Roll) -> CoordinatorState:
    holders = {site: _holders(raw) for site, raw in read.blobs().items()}
    dealt = Dealt(holders, read.records(DIGEST_SIZE))
    survivors = read.sites()
    signatures: dict[int, bytes] = {}
    asked: tuple[int, ...] = ()
    revealed: dict[int, Revealed] = {}
    if tag is StateTag.CONFIRMATIONS:
        signatures = read.records(SIGNATURE_SIZE)
    if tag is StateTag.REVEALED:
        asked = read.sites()
        revealed = {s: Revealed.decode(m) for s, m in read.blobs().items()}
    receipts: dict[int, Mapping[int, bytes]] = {}
    if tag is StateTag.MASKED:
        answers = read.blobs().items()
        receipts = {s: Masked.decode(m).receipts for s, m in answers}
    rest = read.rest()
    if len(rest) != 8 * roll.terms.length:
        raise SavedStateError("the saved sum has another length than the terms say")
    words = np.frombuffer(rest, dtype="<u8").astype(np.uint64)
    if tag is StateTag.MASKED:
        return CollectingMasked(roll, dealt, words, survivors, receipts)
    masked = MaskedSum(
        session=roll.session,
        threshold=roll.chosen.threshold,
        roster=roll.roster,
        dealt=dealt,
        survivors=frozenset(survivors),
        words=words,
    )
    if tag is StateTag.CONFIRMATIONS:
        return CollectingConfirmations(roll, masked, signatures)
    return CollectingRevealed(roll, masked, frozenset(asked), revealed)


def _receipts(state: CollectingMasked) -> Iterator[tuple[int, bytes]]:
    """Yield the receipts of each site, as its message without a vector."""
    empty = np.zeros(0, dtype=np.uint64)
    for site, receipts in state.receipts.items():
        yield site, Masked(state.roll.session, empty, receipts).encode()


def _holders(raw: bytes) -> tuple[int, ...]:
    if len(raw) % 4:
        raise SavedStateError("a saved list of holders is cut short")
    return tuple(np.frombuffer(raw, dtype=">u4").tolist())


def _write_roll(tag: StateTag, roll: Roll) -> Writer:
    out = Writer(tag).fixed(roll.terms.digest, DIGEST_SIZE)
    out.fixed(roll.nonce, NONCE_SIZE)
    raw = roll.everybody.raw
    out.number(len(raw)).fixed(raw, len(raw))
    if roll.terms.groups > 1:
        groups = roll.terms.split(roll.everybody, roll.nonce)
        out.number([group.raw for group in groups].index(roll.roster.raw))
    return out


def _write_dealt(out: Writer, dealt: Dealt) -> None:
    out.blobs((site, listed(holders)) for site, holders in dealt.holders.items())
    out.records(dealt.commitments.items(), DIGEST_SIZE)

"""The states of a site, one type each, and their bytes.

A step consumes its state. The bytes of a state hold secrets: keep them as safe as
the data, and overwrite them with the next state *before* its message is sent.
Whoever restores an old state and answers twice gives away what the masks protect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from discreet.secagg.errors import (
    MalformedMessageError,
    SavedStateError,
    SingleUse,
)
from discreet.secagg.keys import KEY_SIZE, RECEIPT_SIZE
from discreet.secagg.messages import PACKET_SIZE, Roster
from discreet.secagg.shamir import SECRET_SIZE
from discreet.secagg.terms import Signing, Terms
from discreet.secagg.wire import (
    DIGEST_SIZE,
    NONCE_SIZE,
    SESSION_SIZE,
    Reader,
    Writer,
)


class StateTag(IntEnum):
    """The second byte of a saved site state; no message has these."""

    AWAITING_ROSTER = 33
    AWAITING_DELIVERY = 34
    AWAITING_SURVIVORS = 35
    AWAITING_REQUEST = 36
    FINISHED = 37


@dataclass(frozen=True, kw_only=True)
class _Begun:
    """What every state of a site knows: its number and the terms."""

    site: int
    terms: Terms
    once: SingleUse = field(default_factory=SingleUse, repr=False, compare=False)

    def consume(self) -> None:
        """Mark this state as used; a second use raises ``ConsumedStateError``."""
        self.once.spend(self)

    def _header(self, tag: StateTag) -> Writer:
        out = Writer(tag).fixed(self.terms.digest, DIGEST_SIZE)
        return out.number(self.site)


def _write_signing(out: Writer, signing: Signing) -> Writer:
    out.fixed(signing.session, SESSION_SIZE).number(len(signing.others))
    for group in signing.others:
        out.sites(group)
    return out


def _read_signing(read: Reader) -> Signing:
    session = read.fixed(SESSION_SIZE)
    # An empty group takes four bytes, so a count that fits is no more than the bytes.
    return Signing(session, tuple(read.sites() for _ in range(read.count(4))))


@dataclass(frozen=True, kw_only=True)
class AwaitingRoster(_Begun):
    """The site has advertised its keys."""

    nonce: bytes
    channel_secret: bytes = field(repr=False)
    mask_secret: bytes = field(repr=False)

    def to_bytes(self) -> bytes:
        """Save the state; the bytes are secret."""
        out = self._header(StateTag.AWAITING_ROSTER).fixed(self.nonce, NONCE_SIZE)
        out.fixed(self.channel_secret, KEY_SIZE)
        return out.fixed(self.mask_secret, KEY_SIZE).done()


@dataclass(frozen=True, kw_only=True)
class AwaitingDelivery(_Begun):
    """The site has dealt shares of its mask key and of its seed."""

    nonce: bytes
    session: bytes
    signing: Signing
    threshold: int
    roster: Roster = field(repr=False)
    channel_secret: bytes = field(repr=False)
    mask_secret: bytes = field(repr=False)
    seed: bytes = field(repr=False)
    agreed: Mapping[int, bytes] = field(repr=False)
    """The channel secret agreed with each holder."""

    @property
    def everybody_holds(self) -> bool:
        """Whether the graph is complete."""
        return len(self.agreed) == len(self.roster) - 1

    def to_bytes(self) -> bytes:
        """Save the state; the bytes are secret."""
        out = self._header(StateTag.AWAITING_DELIVERY).fixed(self.nonce, NONCE_SIZE)
        out.fixed(self.session, SESSION_SIZE)
        _write_signing(out, self.signing).number(self.threshold)
        out.fixed(self.channel_secret, KEY_SIZE).fixed(self.mask_secret, KEY_SIZE)
        out.fixed(self.seed, SECRET_SIZE).records(self.agreed.items(), KEY_SIZE)
        return out.rest(self.roster.raw).done()


@dataclass(frozen=True, kw_only=True)
class AwaitingSurvivors(_Begun):
    """The site has sent its masked vector and will sign who survived.

    It signs once ``needed`` surviving holders have returned what is ``due``.
    """

    session: bytes
    signing: Signing
    sharers: tuple[int, ...]
    needed: int
    due: Mapping[int, bytes] = field(repr=False)
    """The receipt of each holder; none in a complete graph."""
    held: Mapping[int, bytes] = field(repr=False)
    """The shares that other sites dealt to this one."""

    def to_bytes(self) -> bytes:
        """Save the state; the bytes are secret."""
        out = self._header(StateTag.AWAITING_SURVIVORS)
        out.fixed(self.session, SESSION_SIZE)
        _write_signing(out, self.signing).sites(self.sharers)
        out.number(self.needed).records(self.due.items(), RECEIPT_SIZE)
        return out.records(self.held.items(), PACKET_SIZE).done()


@dataclass(frozen=True, kw_only=True)
class AwaitingRequest(_Begun):
    """The site will reveal one share of each dealer, once.

    ``confirmed`` are the survivors that it signed; empty without identities.
    """

    session: bytes
    signing: Signing
    sharers: tuple[int, ...]
    confirmed: tuple[int, ...]
    held: Mapping[int, bytes] = field(repr=False)

    def to_bytes(self) -> bytes:
        """Save the state; the bytes are secret."""
        out = self._header(StateTag.AWAITING_REQUEST)
        out.fixed(self.session, SESSION_SIZE)
        _write_signing(out, self.signing).sites(self.sharers)
        out.sites(self.confirmed)
        return out.records(self.held.items(), PACKET_SIZE).done()


@dataclass(frozen=True, kw_only=True)
class Finished(_Begun):
    """The site has answered the request and answers nothing more."""

    session: bytes

    def to_bytes(self) -> bytes:
        """Save the state; nothing secret is left."""
        out = self._header(StateTag.FINISHED)
        return out.fixed(self.session, SESSION_SIZE).done()


SiteState: TypeAlias = (
    AwaitingRoster | AwaitingDelivery | AwaitingSurvivors | AwaitingRequest | Finished
)


def restore_site(raw: bytes, terms: Terms) -> SiteState:
    """Restore a saved state under the terms that it was made under."""
    try:
        return _restore(raw, terms)
    except MalformedMessageError as error:
        raise SavedStateError(str(error)) from error


def _restore(raw: bytes, terms: Terms) -> SiteState:
    known = frozenset(int(tag) for tag in StateTag)
    if len(raw) < 2 or raw[1] not in known:
        raise SavedStateError("these bytes are not the state of a site")
    tag = StateTag(raw[1])
    read = Reader(raw, tag, "a saved state")
    if read.fixed(DIGEST_SIZE) != terms.digest:
        raise SavedStateError("this state was saved under other terms")
    site = read.number()
    state: SiteState
    match tag:
        case StateTag.AWAITING_ROSTER:
            state = AwaitingRoster(
                site=site,
                terms=terms,
                nonce=read.fixed(NONCE_SIZE),
                channel_secret=read.fixed(KEY_SIZE),
                mask_secret=read.fixed(KEY_SIZE),
            )
        case StateTag.AWAITING_DELIVERY:
            state = AwaitingDelivery(
                site=site,
                terms=terms,
                nonce=read.fixed(NONCE_SIZE),
                session=read.fixed(SESSION_SIZE),
                signing=_read_signing(read),
                threshold=read.number(),
                channel_secret=read.fixed(KEY_SIZE),
                mask_secret=read.fixed(KEY_SIZE),
                seed=read.fixed(SECRET_SIZE),
                agreed=read.records(KEY_SIZE),
                roster=Roster(read.rest()),
            )
        case StateTag.AWAITING_SURVIVORS:
            state = AwaitingSurvivors(
                site=site,
                terms=terms,
                session=read.fixed(SESSION_SIZE),
                signing=_read_signing(read),
                sharers=read.sites(),
                needed=read.number(),
                due=read.records(RECEIPT_SIZE),
                held=read.records(PACKET_SIZE),
            )
        case StateTag.AWAITING_REQUEST:
            state = AwaitingRequest(
                site=site,
                terms=terms,
                session=read.fixed(SESSION_SIZE),
                signing=_read_signing(read),
                sharers=read.sites(),
                confirmed=read.sites(),
                held=read.records(PACKET_SIZE),
            )
        case StateTag.FINISHED:
            state = Finished(site=site, terms=terms, session=read.fixed(SESSION_SIZE))
    read.done()
    return state

"""The states of a site, one type each, and their bytes.

A step consumes its state. The bytes of a state hold secrets: keep them as safe as
the data, and overwrite them with the next state *before* its message is sent.
Whoever restores an old state and answers twice gives away what the masks protect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, ClassVar, Final, TypeAlias

from discreet.codec.messages import (
    BinaryMessage,
    Known,
    MalformedMessageError,
    Nested,
    Number,
    SiteMap,
    Sites,
    Whole,
)
from discreet.secagg.errors import SavedStateError, SingleUse
from discreet.secagg.keys import KEY_SIZE
from discreet.secagg.messages import (
    PACKET_SIZE,
    Digest,
    Key,
    KeyRoster,
    Nonce,
    Receipts,
)
from discreet.secagg.terms import Signing, Terms

_Packets: TypeAlias = Annotated[Mapping[int, bytes], SiteMap(PACKET_SIZE)]


class StateTag(IntEnum):
    """The second byte of a saved site state; no message has these."""

    AWAITING_ROSTER = 33
    AWAITING_DELIVERY = 34
    AWAITING_SURVIVORS = 35
    AWAITING_REQUEST = 36
    FINISHED = 37


@dataclass(frozen=True, kw_only=True)
class _Begun(BinaryMessage):
    """What every state of a site knows: the terms, and its number."""

    called: ClassVar = "a saved state"
    terms: Annotated[Terms, Known("terms")]
    site: Annotated[int, Number()]
    once: SingleUse = field(default_factory=SingleUse, repr=False, compare=False)

    def consume(self) -> None:
        """Mark this state as used; a second use raises ``ConsumedStateError``."""
        self.once.spend(self)


@dataclass(frozen=True, kw_only=True)
class AwaitingRoster(_Begun):
    """The site has advertised its keys."""

    tag: ClassVar = StateTag.AWAITING_ROSTER
    nonce: Nonce
    channel_secret: Key = field(repr=False)
    mask_secret: Key = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class AwaitingDelivery(_Begun):
    """The site has dealt shares of its mask key and of its seed."""

    tag: ClassVar = StateTag.AWAITING_DELIVERY
    nonce: Nonce
    session: Digest
    signing: Annotated[Signing, Nested(Signing)]
    threshold: Annotated[int, Number()]
    channel_secret: Key = field(repr=False)
    mask_secret: Key = field(repr=False)
    seed: Key = field(repr=False)
    agreed: Annotated[Mapping[int, bytes], SiteMap(KEY_SIZE)] = field(repr=False)
    """The channel secret agreed with each holder."""
    roster: Annotated[KeyRoster, Whole(KeyRoster)] = field(repr=False)

    @property
    def everybody_holds(self) -> bool:
        """Whether the graph is complete."""
        return len(self.agreed) == len(self.roster) - 1


@dataclass(frozen=True, kw_only=True)
class AwaitingSurvivors(_Begun):
    """The site has sent its masked vector and will sign who survived.

    It signs once ``needed`` surviving holders have returned what is ``due``.
    """

    tag: ClassVar = StateTag.AWAITING_SURVIVORS
    session: Digest
    signing: Annotated[Signing, Nested(Signing)]
    sharers: Sites
    needed: Annotated[int, Number()]
    due: Receipts = field(repr=False)
    """The receipt of each holder; none in a complete graph."""
    held: _Packets = field(repr=False)
    """The shares that other sites dealt to this one."""


@dataclass(frozen=True, kw_only=True)
class AwaitingRequest(_Begun):
    """The site will reveal one share of each dealer, once.

    ``confirmed`` are the survivors that it signed; empty without identities.
    """

    tag: ClassVar = StateTag.AWAITING_REQUEST
    session: Digest
    signing: Annotated[Signing, Nested(Signing)]
    sharers: Sites
    confirmed: Sites
    held: _Packets = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Finished(_Begun):
    """The site has answered the request and answers nothing more."""

    tag: ClassVar = StateTag.FINISHED
    session: Digest


SiteState: TypeAlias = (
    AwaitingRoster | AwaitingDelivery | AwaitingSurvivors | AwaitingRequest | Finished
)
_STATES: Final[dict[int, type[SiteState]]] = {
    state.tag: state
    for state in (
        AwaitingRoster,
        AwaitingDelivery,
        AwaitingSurvivors,
        AwaitingRequest,
        Finished,
    )
}


def restore_site(raw: bytes, terms: Terms) -> SiteState:
    """Restore a saved state under the terms that it was made under."""
    if len(raw) < 2 or raw[1] not in _STATES:
        raise SavedStateError("these bytes are not the state of a site")
    try:
        return _STATES[raw[1]].decode(raw, known=terms)
    except MalformedMessageError as error:
        raise SavedStateError(str(error)) from error

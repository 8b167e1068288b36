"""The coordinator's end: it collects, relays, adds, and reveals only the sum.

    CollectingAdverts -> CollectingShares -> CollectingMasked
        (-> CollectingConfirmations) -> CollectingRevealed -> RevealedSum

In each state ``receive`` takes one site's message and ``advance`` closes the round
with the sites that have answered. A message that a correct site would not send
raises ``FaultySiteError`` and is not counted: the coordinator may go on, and the
site is treated as silent. When too few are left, ``advance`` stops the session.

Random groups take each step together, by ``advance_all``: where everyone signs, the
lists of each group name the sites of all groups.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from discreet.arrays import IntVector
from discreet.codec.messages import (
    MAX_ENTRIES,
    MAX_SITE,
    BinaryMessage,
    MalformedMessageError,
)
from discreet.entropy import Entropy
from discreet.errors import InputError
from discreet.secagg import shamir
from discreet.secagg.errors import (
    FaultySiteError,
    SingleUse,
    TooFewSitesError,
    UnsignedError,
)
from discreet.secagg.keys import NONCE_SIZE, PROBE, WeakKeyError, signature_holds
from discreet.secagg.masks import Dealt, MaskedSum, unmask
from discreet.secagg.messages import (
    Advert,
    BoxDelivery,
    Confirmation,
    KeyRoster,
    MaskedVector,
    MessageTag,
    RevealedShares,
    RevealRequest,
    SealedShares,
    SumInvitation,
    Survivors,
    Withdrawal,
)
from discreet.secagg.terms import (
    Roll,
    Terms,
    advert_statement,
    survivor_statement,
    withdrawal_statement,
)

MessageT = TypeVar("MessageT", bound=BinaryMessage)
KeptT = TypeVar("KeptT")
AnswerT = TypeVar(
    "AnswerT",
    bound=SealedShares | MaskedVector | Confirmation | Withdrawal | RevealedShares,
)


@dataclass(frozen=True)
class RevealedSum:
    """The sum, and the sites that are in it."""

    session: bytes
    total: IntVector = field(repr=False)
    contributors: tuple[int, ...]


def invite(
    sites: Iterable[int], *, terms: Terms, entropy: Entropy
) -> tuple[CollectingAdverts, dict[int, bytes]]:
    """Begin a session with a fresh nonce."""
    invited = frozenset(sites)
    if not terms.least_sites <= len(invited) <= MAX_ENTRIES:
        raise InputError(
            f"{len(invited)} sites are invited, between {terms.least_sites} and "
            f"{MAX_ENTRIES} are needed"
        )
    if not all(1 <= site <= MAX_SITE for site in invited):
        raise InputError(f"site numbers lie between 1 and {MAX_SITE}")
    if terms.identities is not None and not invited <= terms.identities.keys():
        raise InputError("a site is invited that the roster of identities lacks")
    state = CollectingAdverts(terms, entropy(NONCE_SIZE), invited)
    message = SumInvitation(terms.digest, state.nonce).encode()
    return state, dict.fromkeys(sorted(invited), message)


class CollectingAdverts:
    """Waits for the sites' keys."""

    def __init__(self, terms: Terms, nonce: bytes, invited: frozenset[int]) -> None:
        self.terms = terms
        self.nonce = nonce
        self.invited = invited
        self.adverts: dict[int, Advert] = {}
        self._keys: set[bytes] = set()
        self._use = SingleUse()

    def receive(self, site: int, raw: bytes) -> None:
        """Take one site's advert."""
        advert = _read(Advert, site, raw, self.invited, self.adverts)
        keys = {advert.channel_key, advert.mask_key}
        if len(keys) < 2 or keys & self._keys:
            raise FaultySiteError(site, "advertised a key that is already taken")
        try:
            for key in keys:
                PROBE.with_peer(key)
        except WeakKeyError as error:
            raise FaultySiteError(site, "advertised a key of low order") from error
        self._check_signature(site, advert)
        self._keys |= keys
        self.adverts[site] = advert

    def advance(self) -> tuple[CollectingShares, dict[int, bytes]]:
        """Close the roster and send it to everybody in it."""
        (only,) = self.split()
        return only

    def split(self) -> list[tuple[CollectingShares, dict[int, bytes]]]:
        """Close the roster, draw the groups, and send everybody the whole of it."""
        self._use.spend(self)
        least = self.terms.least_sites
        if len(self.adverts) < least:
            raise TooFewSitesError("advertise", len(self.adverts), least)
        everybody = KeyRoster.of(self.adverts, signed=self.terms.identities is not None)
        return [
            (
                CollectingShares(Roll(self.terms, self.nonce, group, everybody)),
                dict.fromkeys(group.sites, everybody.raw),
            )
            for group in self.terms.split(everybody, self.nonce)
        ]

    def _check_signature(self, site: int, advert: Advert) -> None:
        identities = self.terms.identities
        if identities is None:
            if advert.signature:
                raise FaultySiteError(site, "signed, but the terms have no identities")
            return
        statement = advert_statement(self.terms, self.nonce, site, advert)
        if not advert.signature or not signature_holds(
            identities[site], advert.signature, statement
        ):
            raise FaultySiteError(site, "did not sign its keys")


class _Round(Generic[KeptT]):
    """A round once the roster is closed: what each site's answer leaves, by site."""

    def __init__(self, roll: Roll, expected: Container[int]) -> None:
        self.roll = roll
        self.heard: dict[int, KeptT] = {}
        self._expected = expected
        self._use = SingleUse()

    def _read(self, kind: type[AnswerT], site: int, raw: bytes) -> AnswerT:
        """Read an answer that is due, of this session."""
        message = _read(kind, site, raw, self._expected, self.heard)
        if message.session != self.roll.session:
            raise FaultySiteError(site, "answered for another session")
        return message

    def _close(self, during: str) -> tuple[int, ...]:
        """End the round and return who has answered, if they are enough."""
        self._use.spend(self)
        needed = self.roll.terms.min_survivors
        if len(self.heard) < needed:
            raise TooFewSitesError(during, len(self.heard), needed)
        return tuple(sorted(self.heard))


class CollectingShares(_Round[SealedShares]):
    """Waits for the encrypted shares."""

    def __init__(self, roll: Roll) -> None:
        self._listed = frozenset(roll.roster.sites)
        super().__init__(roll, self._listed)

    def receive(self, site: int, raw: bytes) -> None:
        """Take the shares that one site deals."""
        message = self._read(SealedShares, site, raw)
        holders = message.boxes.keys()
        if site in holders or not holders <= self._listed:
            raise FaultySiteError(site, "dealt shares to itself or to an unlisted site")
        degree = self.roll.chosen.degree
        if len(holders) != degree:
            raise FaultySiteError(
                site, f"dealt to {len(holders)} holders, not to {degree}"
            )
        self.heard[site] = message

    def advance(
        self, everywhere: Mapping[int, Any] | None = None
    ) -> tuple[CollectingMasked, dict[int, bytes]]:
        """Deliver to each sharer who shared and what was dealt to it."""
        sharers = self._close("share")
        boxes: dict[int, dict[int, bytes]] = {site: {} for site in sharers}
        for dealer in sharers:
            for holder, box in self.heard[dealer].boxes.items():
                if holder in boxes:
                    boxes[holder][dealer] = box
        listed = tuple(sorted({*sharers, *(everywhere or ())}))
        deliveries = {
            site: BoxDelivery(self.roll.session, listed, boxes[site]).encode()
            for site in sharers
        }
        dealt = Dealt(
            {site: tuple(self.heard[site].boxes) for site in sharers},
            {site: self.heard[site].commitment for site in sharers},
        )
        return CollectingMasked(self.roll, dealt, listed), deliveries


class CollectingMasked(_Round[Mapping[int, bytes]]):
    """Adds the masked vectors as they come; keeps each site's receipts."""

    def __init__(self, roll: Roll, dealt: Dealt, sharers: tuple[int, ...]) -> None:
        super().__init__(roll, dealt.holders)
        self.dealt = dealt
        self.sharers = sharers
        self.words = np.zeros(roll.terms.length, dtype=np.uint64)
        self._dealers = dealt.to_holder() if roll.receipted else {}

    def receive(self, site: int, raw: bytes) -> None:
        """Add one site's masked vector."""
        message = self._read(MaskedVector, site, raw)
        length = self.roll.terms.length
        if message.words.size != length:
            raise FaultySiteError(
                site, f"sent {message.words.size} words, the terms say {length}"
            )
        if message.receipts.keys() != self._dealers.get(site, frozenset()):
            raise FaultySiteError(site, "returned other receipts than it owes")
        self.words += message.words
        self.heard[site] = message.receipts

    def advance(
        self, everywhere: Mapping[int, Any] | None = None
    ) -> tuple[CollectingConfirmations | CollectingRevealed, dict[int, bytes]]:
        """Tell the survivors who survived; with identities, ask them to sign it."""
        survivors = self._close("mask")
        masked = MaskedSum(self.roll, self.dealt, frozenset(survivors), self.words)
        session = self.roll.session
        if self.roll.terms.identities is None:
            request = RevealRequest(session, survivors).encode()
            revealing = CollectingRevealed(masked, masked.survivors)
            return revealing, dict.fromkeys(survivors, request)
        listed = tuple(sorted({*survivors, *(everywhere or ())}))
        surveys = {
            site: Survivors(session, listed, self._returned(site)).encode()
            for site in survivors
        }
        return CollectingConfirmations(masked, self.sharers, listed), surveys

    def _returned(self, dealer: int) -> dict[int, bytes]:
        """Return what the surviving holders of one site's shares sent back to it."""
        return {
            holder: self.heard[holder][dealer]
            for holder in self.dealt.holders[dealer]
            if dealer in self.heard.get(holder, ())
        }


class CollectingConfirmations(_Round[bytes]):
    """Waits for the survivors' signatures on who shared and who survived.

    ``withdrawals`` are those of sites that never sign; only where everyone must.
    """

    def __init__(
        self, masked: MaskedSum, sharers: tuple[int, ...], survivors: tuple[int, ...]
    ) -> None:
        super().__init__(masked.roll, masked.survivors)
        self.masked = masked
        self.survivors = survivors
        self.withdrawals: dict[int, bytes] = {}
        signed = masked.roll.signing.session
        self._statement = survivor_statement(signed, sharers, survivors)

    def receive(self, site: int, raw: bytes) -> None:
        """Take one survivor's signature, or that it never signs."""
        kind: type[Confirmation | Withdrawal] = Confirmation
        statement, answers = self._statement, self.heard
        withdraws = raw[1:2] == bytes([MessageTag.WITHDRAWAL])
        if withdraws and self.roll.terms.everyone_signs:
            kind, answers = Withdrawal, self.withdrawals
            statement = withdrawal_statement(self.roll.signing.session, site)
        if site in self.withdrawals:
            raise FaultySiteError(site, "has already answered in this round")
        message = self._read(kind, site, raw)
        identities = self.roll.terms.identities or {}
        if not signature_holds(identities[site], message.signature, statement):
            raise FaultySiteError(site, "did not sign the survivors that it was told")
        answers[site] = message.signature

    def advance(
        self, everywhere: Mapping[int, Any] | None = None
    ) -> tuple[CollectingRevealed, dict[int, bytes]]:
        """Ask those who signed to unmask, and show them enough signatures."""
        if self.roll.terms.everyone_signs:
            self._use.spend(self)
            signers = sorted(self.heard)
            shown = {**self.heard, **(everywhere or {})}
            missing = [site for site in self.survivors if site not in shown]
            if missing:
                raise UnsignedError(tuple(missing), len(self.survivors))
        else:
            signers = sorted(self._close("confirm"))
            needed = self.roll.terms.min_survivors
            shown = {site: self.heard[site] for site in signers[:needed]}
        request = RevealRequest(self.roll.session, self.survivors, shown).encode()
        following = CollectingRevealed(self.masked, frozenset(signers))
        return following, dict.fromkeys(signers, request)


class CollectingRevealed(_Round[RevealedShares]):
    """Waits for the shares that unmask the sum."""

    def __init__(self, masked: MaskedSum, expected: frozenset[int]) -> None:
        super().__init__(masked.roll, expected)
        self.masked = masked
        self._dealers = masked.dealt.to_holder()

    def receive(self, site: int, raw: bytes) -> None:
        """Take the shares that one site reveals."""
        message = self._read(RevealedShares, site, raw)
        dealers = self._dealers[site]
        alive = dealers & self.masked.survivors
        if message.seed_shares.keys() != alive:
            raise FaultySiteError(site, "revealed other seed shares than requested")
        if message.key_shares.keys() != dealers - alive:
            raise FaultySiteError(site, "revealed other key shares than requested")
        shares = (*message.seed_shares.values(), *message.key_shares.values())
        if not all(shamir.is_share(share) for share in shares):
            raise FaultySiteError(site, "revealed numbers that are no shares")
        self.heard[site] = message

    def advance(self) -> RevealedSum:
        """Reveal the sum of the survivors, or nothing."""
        self._close("reveal")
        words = unmask(self.masked, self.heard)
        contributors = tuple(sorted(self.masked.survivors))
        return RevealedSum(self.roll.session, words.view(np.int64), contributors)


def _read(
    message: type[MessageT],
    site: int,
    raw: bytes,
    expected: Container[int],
    answered: Container[int],
) -> MessageT:
    """Read a site's message, if one is expected and has not come yet."""
    if site not in expected:
        raise FaultySiteError(site, "is not expected to answer in this round")
    if site in answered:
        raise FaultySiteError(site, "has already answered in this round")
    try:
        return message.decode(raw)
    except MalformedMessageError as error:
        raise FaultySiteError(
            site, f"sent bytes that cannot be read: {error}"
        ) from error


_Listing: TypeAlias = CollectingShares | CollectingMasked | CollectingConfirmations
"""The states whose next message lists sites."""
CoordinatorState: TypeAlias = (
    CollectingAdverts
    | CollectingShares
    | CollectingMasked
    | CollectingConfirmations
    | CollectingRevealed
)


def advance_all(
    groups: Sequence[CoordinatorState],
) -> list[tuple[CoordinatorState, dict[int, bytes]] | RevealedSum]:
    """Close one round in every group; if one of them cannot go on, none does.

    Where everyone signs, lists run over all groups: each is told what all have heard.
    """
    everywhere: dict[int, Any] = {}
    for group in groups:
        if isinstance(group, _Listing) and group.roll.terms.everyone_signs:
            everywhere |= group.heard
    return [
        group.advance(everywhere) if isinstance(group, _Listing) else group.advance()
        for group in groups
    ]

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
from typing import TypeAlias, TypeVar

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
from discreet.secagg.keys import (
    NONCE_SIZE,
    WeakKeyError,
    check_strong,
    signature_holds,
)
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
                check_strong(key)
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
        signed = self.terms.identities is not None
        everybody = KeyRoster.of(self.adverts, signed=signed)
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


class CollectingShares:
    """Waits for the encrypted shares."""

    def __init__(self, roll: Roll) -> None:
        self.roll = roll
        self.shares: dict[int, SealedShares] = {}
        self._listed = frozenset(roll.roster.sites)
        self._use = SingleUse()

    def receive(self, site: int, raw: bytes) -> None:
        """Take the shares that one site deals."""
        message = _read(SealedShares, site, raw, self._listed, self.shares)
        _same_session(site, self.roll.session, message.session)
        holders = message.boxes.keys()
        if site in holders or not holders <= self._listed:
            raise FaultySiteError(site, "dealt shares to itself or to an unlisted site")
        degree = self.roll.chosen.degree
        if len(holders) != degree:
            raise FaultySiteError(
                site, f"dealt to {len(holders)} holders, not to {degree}"
            )
        self.shares[site] = message

    @property
    def heard(self) -> dict[int, bytes]:
        """Who has shared."""
        return dict.fromkeys(self.shares, b"")

    def advance(
        self, heard: Mapping[int, bytes] | None = None
    ) -> tuple[CollectingMasked, dict[int, bytes]]:
        """Deliver to each sharer who shared and what was dealt to it.

        ``heard`` is what all groups have heard, where their lists run over all.
        """
        self._use.spend(self)
        _enough(self.roll.terms, "share", len(self.shares))
        sharers = tuple(sorted(self.shares))
        boxes: dict[int, dict[int, bytes]] = {site: {} for site in sharers}
        for dealer in sharers:
            for holder, box in self.shares[dealer].boxes.items():
                if holder in boxes:
                    boxes[holder][dealer] = box
        listed = tuple(sorted({*sharers, *(heard or ())}))
        deliveries = {
            site: BoxDelivery(self.roll.session, listed, boxes[site]).encode()
            for site in sharers
        }
        dealt = Dealt(
            {site: tuple(self.shares[site].boxes) for site in sharers},
            {site: self.shares[site].commitment for site in sharers},
        )
        return CollectingMasked(self.roll, dealt, listed), deliveries


class CollectingMasked:
    """Adds the masked vectors as they come."""

    def __init__(self, roll: Roll, dealt: Dealt, sharers: tuple[int, ...]) -> None:
        self.roll = roll
        self.dealt = dealt
        self.sharers = sharers
        self.words = np.zeros(roll.terms.length, dtype=np.uint64)
        self.survivors: set[int] = set()
        self.receipts: dict[int, Mapping[int, bytes]] = {}
        self._dealers = dealt.to_holder() if roll.receipted else {}
        self._use = SingleUse()

    def receive(self, site: int, raw: bytes) -> None:
        """Add one site's masked vector."""
        message = _read(MaskedVector, site, raw, self.dealt.holders, self.survivors)
        _same_session(site, self.roll.session, message.session)
        length = self.roll.terms.length
        if message.words.size != length:
            raise FaultySiteError(
                site, f"sent {message.words.size} words, the terms say {length}"
            )
        if message.receipts.keys() != self._dealers.get(site, frozenset()):
            raise FaultySiteError(site, "returned other receipts than it owes")
        self.words += message.words
        self.survivors.add(site)
        self.receipts[site] = message.receipts

    @property
    def heard(self) -> dict[int, bytes]:
        """Who has sent a masked vector."""
        return dict.fromkeys(self.survivors, b"")

    def advance(
        self, heard: Mapping[int, bytes] | None = None
    ) -> tuple[CollectingConfirmations | CollectingRevealed, dict[int, bytes]]:
        """Tell the survivors who survived; with identities, ask them to sign it.

        ``heard`` is what all groups have heard, where their lists run over all.
        """
        self._use.spend(self)
        _enough(self.roll.terms, "mask", len(self.survivors))
        survivors = tuple(sorted(self.survivors))
        session = self.roll.session
        masked = MaskedSum(
            session=session,
            threshold=self.roll.chosen.threshold,
            roster=self.roll.roster,
            dealt=self.dealt,
            survivors=frozenset(survivors),
            words=self.words,
        )
        if self.roll.terms.identities is None:
            request = RevealRequest(session, survivors).encode()
            revealing = CollectingRevealed(self.roll, masked, masked.survivors)
            return revealing, dict.fromkeys(survivors, request)
        listed = tuple(sorted({*survivors, *(heard or ())}))
        surveys = {
            site: Survivors(session, listed, self._returned(site)).encode()
            for site in survivors
        }
        signing = CollectingConfirmations(self.roll, masked, self.sharers, listed)
        return signing, surveys

    def _returned(self, dealer: int) -> dict[int, bytes]:
        """Return what the surviving holders of one site's shares sent back to it."""
        return {
            holder: self.receipts[holder][dealer]
            for holder in self.dealt.holders[dealer]
            if dealer in self.receipts.get(holder, ())
        }


class CollectingConfirmations:
    """Waits for the survivors' signatures on who shared and who survived.

    ``withdrawals`` are those of sites that never sign; only where everyone must.
    """

    def __init__(
        self,
        roll: Roll,
        masked: MaskedSum,
        sharers: tuple[int, ...],
        survivors: tuple[int, ...],
    ) -> None:
        self.roll = roll
        self.masked = masked
        self.survivors = survivors
        self.signatures: dict[int, bytes] = {}
        self.withdrawals: dict[int, bytes] = {}
        self._statement = survivor_statement(roll.signing.session, sharers, survivors)
        self._use = SingleUse()

    def receive(self, site: int, raw: bytes) -> None:
        """Take one survivor's signature, or that it never signs."""
        withdraws = raw[1:2] == bytes([MessageTag.WITHDRAWAL])
        kind: type[Confirmation | Withdrawal] = Confirmation
        statement, answers = self._statement, self.signatures
        if withdraws and self.roll.terms.everyone_signs:
            kind, answers = Withdrawal, self.withdrawals
            statement = withdrawal_statement(self.roll.signing.session, site)
        answered = {**self.signatures, **self.withdrawals}
        message = _read(kind, site, raw, self.masked.survivors, answered)
        _same_session(site, self.masked.session, message.session)
        identities = self.roll.terms.identities or {}
        if not signature_holds(identities[site], message.signature, statement):
            raise FaultySiteError(site, "did not sign the survivors that it was told")
        answers[site] = message.signature

    @property
    def heard(self) -> dict[int, bytes]:
        """Who has signed, and the signatures."""
        return self.signatures

    def advance(
        self, heard: Mapping[int, bytes] | None = None
    ) -> tuple[CollectingRevealed, dict[int, bytes]]:
        """Ask those who signed to unmask, and show them enough signatures.

        ``heard`` is what all groups have heard, where their lists run over all.
        """
        self._use.spend(self)
        signers = sorted(self.signatures)
        if self.roll.terms.everyone_signs:
            shown = {**self.signatures, **(heard or {})}
            missing = [site for site in self.survivors if site not in shown]
            if missing:
                raise UnsignedError(tuple(missing), len(self.survivors))
        else:
            _enough(self.roll.terms, "confirm", len(signers))
            needed = self.roll.terms.min_survivors
            shown = {site: self.signatures[site] for site in signers[:needed]}
        request = RevealRequest(self.masked.session, self.survivors, shown).encode()
        following = CollectingRevealed(self.roll, self.masked, frozenset(signers))
        return following, dict.fromkeys(signers, request)


class CollectingRevealed:
    """Waits for the shares that unmask the sum."""

    def __init__(self, roll: Roll, masked: MaskedSum, expected: frozenset[int]) -> None:
        self.roll = roll
        self.masked = masked
        self.expected = expected
        self.revealed: dict[int, RevealedShares] = {}
        self._dealers = masked.dealt.to_holder()
        self._use = SingleUse()

    def receive(self, site: int, raw: bytes) -> None:
        """Take the shares that one site reveals."""
        message = _read(RevealedShares, site, raw, self.expected, self.revealed)
        _same_session(site, self.masked.session, message.session)
        dealers = self._dealers[site]
        alive = dealers & self.masked.survivors
        if message.seed_shares.keys() != alive:
            raise FaultySiteError(site, "revealed other seed shares than requested")
        if message.key_shares.keys() != dealers - alive:
            raise FaultySiteError(site, "revealed other key shares than requested")
        shares = (*message.seed_shares.values(), *message.key_shares.values())
        if not all(shamir.is_share(share) for share in shares):
            raise FaultySiteError(site, "revealed numbers that are no shares")
        self.revealed[site] = message

    def advance(self) -> RevealedSum:
        """Reveal the sum of the survivors, or nothing."""
        self._use.spend(self)
        _enough(self.roll.terms, "reveal", len(self.revealed))
        words = unmask(self.masked, self.revealed)
        contributors = tuple(sorted(self.masked.survivors))
        return RevealedSum(self.masked.session, words.view(np.int64), contributors)


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


def _same_session(site: int, expected: bytes, got: bytes) -> None:
    if got != expected:
        raise FaultySiteError(site, "answered for another session")


def _enough(terms: Terms, during: str, present: int) -> None:
    if present < terms.min_survivors:
        raise TooFewSitesError(during, present, terms.min_survivors)


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
    """Close one round in every group; if one of them cannot go on, none does."""
    heard: dict[int, bytes] = {}
    for group in groups:
        if isinstance(group, _Listing) and group.roll.terms.everyone_signs:
            heard |= group.heard
    return [
        group.advance(heard) if isinstance(group, _Listing) else group.advance()
        for group in groups
    ]

"""A site's end of the protocol: bytes in, bytes out, one function a step.

    advertise -> share -> mask -> (confirm ->) reveal
                                   | withdraw

Each step takes the state that the last one returned and what the coordinator sent,
and returns the next state and the answer. Nothing that the coordinator says is
taken on trust: each step refuses what a correct coordinator would never send.
The protocol is that of Bonawitz et al. (2017) on the graph of Bell et al. (2020).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from hmac import compare_digest
from typing import TypeVar

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from discreet.arrays import IntVector
from discreet.codec.messages import MAX_SITE, BinaryMessage, MalformedMessageError
from discreet.entropy import Entropy
from discreet.errors import InputError
from discreet.secagg import shamir
from discreet.secagg.errors import (
    FaultyCoordinatorError,
    FaultySiteOrCoordinatorError,
    TooFewHoldersError,
)
from discreet.secagg.graph import choose_holders
from discreet.secagg.keys import (
    KeyAgreement,
    Purpose,
    WeakKeyError,
    derive_key,
    forged,
    pair_mask_key,
    public_of,
    receipt,
    seal,
    seed_commitment,
    signature_holds,
    unseal,
)
from discreet.secagg.masks import add_masks, into_ring
from discreet.secagg.messages import (
    Advert,
    BoxDelivery,
    Confirmation,
    KeyRoster,
    MaskedVector,
    RevealedShares,
    RevealRequest,
    SealedShares,
    SumInvitation,
    Survivors,
    Withdrawal,
)
from discreet.secagg.shamir import SECRET_SIZE, SHARE_SIZE
from discreet.secagg.site_state import (
    AwaitingDelivery,
    AwaitingRequest,
    AwaitingRoster,
    AwaitingSurvivors,
    Finished,
)
from discreet.secagg.terms import (
    Roll,
    Terms,
    advert_statement,
    survivor_statement,
    withdrawal_statement,
)

MessageT = TypeVar("MessageT", bound=BinaryMessage)


def advertise(
    invitation: bytes,
    *,
    site: int,
    terms: Terms,
    entropy: Entropy,
    identity: Ed25519PrivateKey | None = None,
) -> tuple[AwaitingRoster, bytes]:
    """Join: draw fresh keys for this session and send their public halves."""
    if not 1 <= site <= MAX_SITE:
        raise InputError(f"site numbers lie between 1 and {MAX_SITE}")
    _check_identity(terms, site, identity)
    invited = _read(SumInvitation, invitation)
    if invited.terms_digest != terms.digest:
        raise FaultyCoordinatorError("the invitation is to other terms than agreed")
    state = AwaitingRoster(
        site=site,
        terms=terms,
        nonce=invited.nonce,
        channel_secret=entropy(SECRET_SIZE),
        mask_secret=entropy(SECRET_SIZE),
    )
    advert = Advert(public_of(state.channel_secret), public_of(state.mask_secret))
    if identity is not None:
        statement = advert_statement(terms, invited.nonce, site, advert)
        advert = Advert(advert.channel_key, advert.mask_key, identity.sign(statement))
    return state, advert.encode()


def share(
    state: AwaitingRoster, roster: bytes, *, entropy: Entropy
) -> tuple[AwaitingDelivery, bytes]:
    """Choose holders and deal them shares of the mask key and of a fresh seed."""
    state.consume()
    terms, site = state.terms, state.site
    listed = _read(KeyRoster, roster)
    channel = KeyAgreement(state.channel_secret)
    own = (channel.public(), public_of(state.mask_secret))
    _check_roster(listed, terms, site, own)
    if terms.groups > 1:  # an invented key anywhere would move the draw
        _check_adverts(listed, terms, state.nonce, listed.sites)
    group = next(g for g in terms.split(listed, state.nonce) if site in g)
    roll = Roll(terms, state.nonce, group, listed)
    chosen, session = roll.chosen, roll.session
    others = tuple(other for other in group.sites if other != site)
    holders = choose_holders(others, chosen.degree, entropy)
    _check_adverts(group, terms, state.nonce, holders)
    public = group.keys_of(holders, "channel_key")
    agreed = {holder: _agree(channel, holder, public[holder]) for holder in holders}
    seed = entropy(SECRET_SIZE)
    boxes = _deal(
        (state.mask_secret, seed),
        agreed,
        session=session,
        site=site,
        threshold=chosen.threshold,
        entropy=entropy,
    )
    message = SealedShares(session, seed_commitment(seed, session, site), boxes)
    following = AwaitingDelivery(
        site=site,
        terms=terms,
        nonce=state.nonce,
        session=session,
        signing=roll.signing,
        threshold=chosen.threshold,
        roster=group,
        channel_secret=state.channel_secret,
        mask_secret=state.mask_secret,
        seed=seed,
        agreed=agreed,
    )
    return following, message.encode()


def mask(
    state: AwaitingDelivery,
    delivery: bytes,
    vector: Callable[[], IntVector],
    *,
    check: Callable[[tuple[int, ...]], None] | None = None,
) -> tuple[AwaitingSurvivors | AwaitingRequest, bytes]:
    """Hide the vector under the site's own mask and one for each neighbour.

    The vector is asked for, and so charged for, once the delivery is valid. ``check``
    is told before that which sites shared, and may refuse by raising.
    """
    terms, site = state.terms, state.site
    state.consume()
    delivered = _read(BoxDelivery, delivery)
    _check_delivery(state, delivered)
    sharers = frozenset(state.signing.sums(delivered.sharers)[0])
    holders = [holder for holder in state.agreed if holder in sharers]
    if len(holders) < state.threshold:
        raise TooFewHoldersError("share", len(holders), state.threshold)
    unseen = [dealer for dealer in delivered.boxes if dealer not in state.agreed]
    _check_adverts(state.roster, terms, state.nonce, unseen)
    channels = _channels(state, delivered.boxes)
    held = _open_boxes(state, delivered, channels)
    if check is not None:
        check(delivered.sharers)
    words = into_ring(vector(), length=terms.length, sites=len(state.roster))
    _add_masks(words, state, sorted({*holders, *delivered.boxes}))
    if terms.identities is None:
        following = AwaitingRequest(
            site=site,
            terms=terms,
            session=state.session,
            signing=state.signing,
            sharers=delivered.sharers,
            confirmed=(),
            held=held,
        )
        return following, MaskedVector(state.session, {}, words).encode()
    needed, due, receipts = 0, {}, {}
    if not state.everybody_holds:
        needed, session = state.threshold, state.session
        due = {h: receipt(state.agreed[h], session, site, h) for h in holders}
        receipts = {d: receipt(channels[d], session, d, site) for d in held}
    signing = AwaitingSurvivors(
        site=site,
        terms=terms,
        session=state.session,
        signing=state.signing,
        sharers=delivered.sharers,
        needed=needed,
        due=due,
        held=held,
    )
    return signing, MaskedVector(state.session, receipts, words).encode()


def confirm(
    state: AwaitingSurvivors, survivors: bytes, *, identity: Ed25519PrivateKey
) -> tuple[AwaitingRequest, bytes]:
    """Sign who shared and who survived; only with identities."""
    _check_identity(state.terms, state.site, identity)
    state.consume()
    told = _read(Survivors, survivors)
    _check_survivors(state, told.session, told.survivors)
    _check_receipts(state, told)
    statement = survivor_statement(state.signing.session, state.sharers, told.survivors)
    message = Confirmation(state.session, identity.sign(statement))
    following = AwaitingRequest(
        site=state.site,
        terms=state.terms,
        session=state.session,
        signing=state.signing,
        sharers=state.sharers,
        confirmed=told.survivors,
        held=state.held,
    )
    return following, message.encode()


def withdraw(state: AwaitingSurvivors, *, identity: Ed25519PrivateKey) -> bytes:
    """Sign that this site never signs the sum, where everyone must.

    Make that durable first: the others take their charges back on the strength of it.
    """
    _check_identity(state.terms, state.site, identity)
    if not state.terms.everyone_signs:
        raise InputError("a site withdraws only from a sum that everyone signs")
    state.consume()
    statement = withdrawal_statement(state.signing.session, state.site)
    return Withdrawal(state.session, identity.sign(statement)).encode()


def reveal(state: AwaitingRequest, request: bytes) -> tuple[Finished, bytes]:
    """Answer the one unmask request: a seed share or a key share of each dealer."""
    state.consume()
    requested = _read(RevealRequest, request)
    _check_survivors(state, requested.session, requested.survivors)
    _check_signatures(state, requested)
    survivors = frozenset(requested.survivors)
    seed_shares = {d: s[SHARE_SIZE:] for d, s in state.held.items() if d in survivors}
    key_shares = {
        d: s[:SHARE_SIZE] for d, s in state.held.items() if d not in survivors
    }
    message = RevealedShares(state.session, seed_shares, key_shares)
    finished = Finished(site=state.site, terms=state.terms, session=state.session)
    return finished, message.encode()


def _check_identity(
    terms: Terms, site: int, identity: Ed25519PrivateKey | None
) -> None:
    """The caller must bring the key that the terms name, and none otherwise."""
    if terms.identities is None:
        if identity is not None:
            raise InputError("these terms have no identities: nothing is signed")
        return
    if site not in terms.identities:
        raise InputError(f"site {site} is not in the roster of identities")
    if identity is None:
        raise InputError("these terms have identities: the site's own key is needed")
    if identity.public_key().public_bytes_raw() != terms.identities[site]:
        raise InputError(f"this is not the key that the roster names for site {site}")


def _check_roster(
    roster: KeyRoster, terms: Terms, site: int, own: tuple[bytes, bytes]
) -> None:
    """Refuse a roster that is too small, or that lists false keys or members."""
    if roster.signed != (terms.identities is not None):
        raise FaultyCoordinatorError("the roster's signatures do not fit the terms")
    if len(roster) < terms.least_sites:
        raise FaultyCoordinatorError(
            f"the roster lists {len(roster)} sites, this site agreed to at least "
            f"{terms.least_sites}"
        )
    if terms.identities is not None and not terms.identities.keys() >= set(
        roster.sites
    ):
        raise FaultyCoordinatorError("the roster lists a site without an identity")
    if site not in roster:
        raise FaultyCoordinatorError("the roster does not list this site")
    advert = roster.advert(site)
    if (advert.channel_key, advert.mask_key) != own:
        raise FaultyCoordinatorError("the roster lists keys this site never sent")
    if len(set(roster.keys())) != 2 * len(roster):
        raise FaultyCoordinatorError("the roster lists a key twice")


def _check_adverts(
    roster: KeyRoster, terms: Terms, nonce: bytes, sites: Iterable[int]
) -> None:
    """Verify the signatures under the keys of those whom this site deals with."""
    if terms.identities is None:
        return
    claims = []
    for site in sites:
        advert = roster.advert(site)
        statement = advert_statement(terms, nonce, site, advert)
        claims.append((site, terms.identities[site], advert.signature, statement))
    if (unsigned := forged(claims)) is not None:
        raise FaultyCoordinatorError(
            f"the roster lists keys that site {unsigned} did not sign"
        )


def _check_delivery(state: AwaitingDelivery, delivered: BoxDelivery) -> None:
    """Refuse a delivery of another session or with too few or false senders."""
    if delivered.session != state.session:
        raise FaultyCoordinatorError("the delivery belongs to another session")
    sums = state.signing.sums(delivered.sharers)
    sharers = frozenset(sums[0])
    if not sharers <= frozenset(state.roster.sites):
        raise FaultyCoordinatorError("the delivery names a site outside the roster")
    if state.site not in sharers:
        raise FaultyCoordinatorError("the delivery leaves out this site's own shares")
    fewest = min(len(each) for each in sums)
    if fewest < state.terms.min_survivors:
        raise FaultyCoordinatorError(
            f"{fewest} sites shared, this site agreed to at least "
            f"{state.terms.min_survivors}"
        )
    others = sharers - {state.site}
    if not delivered.boxes.keys() <= others:
        raise FaultyCoordinatorError("shares come from a site that did not share")
    if state.everybody_holds and len(delivered.boxes) != len(others):
        raise FaultyCoordinatorError(
            f"shares of {len(delivered.boxes)} sites came, {len(others)} have dealt"
        )


def _check_survivors(
    state: AwaitingSurvivors | AwaitingRequest,
    session: bytes,
    survivors: tuple[int, ...],
) -> None:
    """Refuse survivors that are too few, never shared, or lack this site."""
    if session != state.session:
        raise FaultyCoordinatorError("the request belongs to another session")
    if not frozenset(survivors) <= frozenset(state.sharers):
        raise FaultyCoordinatorError("the survivors include a site that never shared")
    if state.site not in survivors:
        raise FaultyCoordinatorError("the survivors leave out this site, which answers")
    fewest = min(len(each) for each in state.signing.sums(survivors))
    if fewest < state.terms.min_survivors:
        raise FaultyCoordinatorError(
            f"{fewest} sites survive, this site agreed to unmask at least "
            f"{state.terms.min_survivors}"
        )


def _check_receipts(state: AwaitingSurvivors, told: Survivors) -> None:
    """Sign only when enough surviving holders have masked with this site.

    A holder returns a receipt with the vector that carries their common mask.
    Without them a coordinator could keep this site's boxes from its holders, list
    it as a survivor, and reveal the sum of the others (docs/threat-model.md). In a
    complete graph everybody masks with everybody who shared, and none are due.
    """
    if not told.receipts.keys() <= state.due.keys() & set(told.survivors):
        raise FaultyCoordinatorError(
            "a receipt comes from a site that holds no shares or did not survive"
        )
    returned = sum(
        compare_digest(state.due[holder], receipt)
        for holder, receipt in told.receipts.items()
    )
    if returned < state.needed:
        raise TooFewHoldersError("mask", returned, state.needed)


def _check_signatures(state: AwaitingRequest, requested: RevealRequest) -> None:
    """Enough sites must have signed exactly what this site signed.

    Two sets with min_survivors signatures each would need an honest site that
    signed both, because 2 min_survivors > identities + colluders; none does.

    Where everyone signs, a site whose ledger refuses the sum stops it by not signing:
    no honest site reveals a share without the signature of each listed survivor.
    """
    identities = state.terms.identities
    if identities is None:
        if requested.signatures:
            raise FaultyCoordinatorError("the request is signed but nobody can sign")
        return
    if requested.survivors != state.confirmed:
        raise FaultyCoordinatorError("the survivors differ from those this site signed")
    if not requested.signatures.keys() <= frozenset(requested.survivors):
        raise FaultyCoordinatorError("the request is signed by a site that is silent")
    signed, listed = len(requested.signatures), len(requested.survivors)
    if signed < state.terms.min_survivors:
        raise FaultyCoordinatorError(
            f"{signed} sites signed the survivors, {state.terms.min_survivors} are "
            "needed"
        )
    if state.terms.everyone_signs and signed < listed:
        raise FaultyCoordinatorError(
            f"{signed} of the {listed} listed sites signed the survivors, and an exact "
            "sum needs each of them"
        )
    statement = survivor_statement(
        state.signing.session, state.sharers, requested.survivors
    )
    claims = [
        (signer, identities[signer], signature, statement)
        for signer, signature in requested.signatures.items()
    ]
    if (unsigned := forged(claims)) is not None:
        raise FaultyCoordinatorError(
            f"site {unsigned} did not sign these sharers and survivors"
        )


def withdrawn_by(
    state: AwaitingRequest, withdrawals: Mapping[int, bytes]
) -> dict[int, bytes]:
    """Return listed sites' withdrawals if the sum that this site signed is dead.

    A site that works with the coordinator may withdraw and sign all the same. So it
    takes one withdrawal more than there may be colluders: then an honest site, which
    never signs, is among them. With fewer the result is empty.
    """
    identities = state.terms.identities
    if identities is None or not state.terms.everyone_signs:
        return {}
    session = state.signing.session
    listed = frozenset(state.confirmed) - {state.site}
    withdrawn = {
        site: signature
        for site, signature in withdrawals.items()
        if site in listed
        and signature_holds(
            identities[site], signature, withdrawal_statement(session, site)
        )
    }
    return withdrawn if len(withdrawn) > state.terms.colluders else {}


def _read(message: type[MessageT], raw: bytes) -> MessageT:
    try:
        return message.decode(raw)
    except MalformedMessageError as error:
        raise FaultyCoordinatorError(str(error)) from error


def _agree(agreement: KeyAgreement, peer: int, public: bytes) -> bytes:
    try:
        return agreement.with_peer(public)
    except WeakKeyError as error:
        # A correct coordinator refuses such a key when it is advertised.
        raise FaultyCoordinatorError(
            f"the roster lists a key of low order for site {peer}"
        ) from error


def _deal(
    secrets: tuple[bytes, bytes],
    agreed: dict[int, bytes],
    *,
    session: bytes,
    site: int,
    threshold: int,
    entropy: Entropy,
) -> dict[int, bytes]:
    """Share the mask key and the seed, and seal each holder's packet."""
    keys, seeds = (
        shamir.deal(secret, to=list(agreed), threshold=threshold, entropy=entropy)
        for secret in secrets
    )
    boxes = {}
    for holder, secret in agreed.items():
        key = derive_key(secret, Purpose.SHARE_BOX, session, site, holder)
        packet = keys[holder] + seeds[holder]
        boxes[holder] = seal(key, packet, bound_to=session, entropy=entropy)
    return boxes


def _channels(state: AwaitingDelivery, dealers: Collection[int]) -> dict[int, bytes]:
    """Return the secret agreed with each dealer; holders' are known already."""
    channel = KeyAgreement(state.channel_secret)
    unseen = [dealer for dealer in dealers if dealer not in state.agreed]
    public = state.roster.keys_of(unseen, "channel_key")
    new = {dealer: _agree(channel, dealer, key) for dealer, key in public.items()}
    return {dealer: new.get(dealer) or state.agreed[dealer] for dealer in dealers}


def _open_boxes(
    state: AwaitingDelivery, delivered: BoxDelivery, channels: Mapping[int, bytes]
) -> dict[int, bytes]:
    """Decrypt the packets that other sites dealt to this one."""
    held = {}
    for dealer, box in delivered.boxes.items():
        key = derive_key(
            channels[dealer], Purpose.SHARE_BOX, state.session, dealer, state.site
        )
        packet = unseal(key, box, bound_to=state.session)
        if packet is None:
            raise FaultySiteOrCoordinatorError(dealer, "sent shares that do not open")
        both = packet[:SHARE_SIZE], packet[SHARE_SIZE:]
        if not all(map(shamir.is_share, both)):
            raise FaultySiteOrCoordinatorError(
                dealer, "sent numbers that are no shares"
            )
        held[dealer] = packet
    return held


def _add_masks(
    words: NDArray[np.uint64], state: AwaitingDelivery, peers: Collection[int]
) -> None:
    """Add, in place, the site's own mask; add or subtract that of each pair."""
    site, session, pair = state.site, state.session, KeyAgreement(state.mask_secret)
    public = state.roster.keys_of(peers, "mask_key")
    keys = {
        peer: pair_mask_key(_agree(pair, peer, public[peer]), session, site, peer)
        for peer in peers
    }
    own = derive_key(state.seed, Purpose.SELF_MASK, session, site)
    add_masks(
        words,  # both ends of a pair must agree on the sign
        plus=[own, *(key for peer, key in keys.items() if site < peer)],
        minus=(key for peer, key in keys.items() if site > peer),
    )

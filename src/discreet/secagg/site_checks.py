"""What a site refuses: everything that a correct coordinator would never send."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hmac import compare_digest

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.errors import InputError
from discreet.secagg.errors import FaultyCoordinatorError, TooFewHoldersError
from discreet.secagg.keys import forged, signature_holds
from discreet.secagg.messages import BoxDelivery, KeyRoster, RevealRequest, Survivors
from discreet.secagg.site_state import (
    AwaitingDelivery,
    AwaitingRequest,
    AwaitingSurvivors,
)
from discreet.secagg.terms import (
    Terms,
    advert_statement,
    survivor_statement,
    withdrawal_statement,
)


def check_identity(terms: Terms, site: int, identity: Ed25519PrivateKey | None) -> None:
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


def check_roster(
    roster: KeyRoster, terms: Terms, site: int, own: tuple[bytes, bytes]
) -> None:
    """Refuse a roster that is too small, or that lies about keys or members."""
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


def check_adverts(
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
    unsigned = forged(claims)
    if unsigned is not None:
        raise FaultyCoordinatorError(
            f"the roster lists keys that site {unsigned} did not sign"
        )


def check_delivery(state: AwaitingDelivery, delivered: BoxDelivery) -> None:
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


def check_survivors(
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


def check_receipts(state: AwaitingSurvivors, told: Survivors) -> None:
    """Sign only when enough surviving holders have masked with this site.

    A holder returns a receipt with the vector that carries their common mask.
    Without them a coordinator could keep this site's boxes from its holders, list
    it as a survivor, and open the sum of the others (docs/threat-model.md). In a
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


def check_signatures(state: AwaitingRequest, asked: RevealRequest) -> None:
    """Enough sites must have signed exactly what this site signed.

    Two sets with min_survivors signatures each would need an honest site that
    signed both, because 2 min_survivors > identities + colluders; none does.

    Where everyone signs, a site whose ledger refuses the sum stops it by not signing:
    no honest site reveals a share without the signature of each listed survivor.
    """
    identities = state.terms.identities
    if identities is None:
        if asked.signatures:
            raise FaultyCoordinatorError("the request is signed but nobody can sign")
        return
    if asked.survivors != state.confirmed:
        raise FaultyCoordinatorError("the survivors differ from those this site signed")
    if not asked.signatures.keys() <= frozenset(asked.survivors):
        raise FaultyCoordinatorError("the request is signed by a site that is silent")
    if len(asked.signatures) < state.terms.min_survivors:
        raise FaultyCoordinatorError(
            f"{len(asked.signatures)} sites signed the survivors, "
            f"{state.terms.min_survivors} are needed"
        )
    if state.terms.everyone_signs and len(asked.signatures) < len(asked.survivors):
        raise FaultyCoordinatorError(
            f"{len(asked.signatures)} of the {len(asked.survivors)} listed sites signed "
            "the survivors, and an exact sum needs each of them"
        )
    statement = survivor_statement(
        state.signing.session, state.sharers, asked.survivors
    )
    unsigned = forged(
        [
            (signer, identities[signer], signature, statement)
            for signer, signature in asked.signatures.items()
        ]
    )
    if unsigned is not None:
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
    found = {
        site: signature
        for site, signature in withdrawals.items()
        if site in listed
        and signature_holds(
            identities[site], signature, withdrawal_statement(session, site)
        )
    }
    return found if len(found) > state.terms.colluders else {}

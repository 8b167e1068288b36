"""Exact sums that every listed site signs, as a site's ledger sees them.

A masked vector leaves before anybody knows who survives. What it adds to a sum can be
revealed only after this site has signed the list of that sum. So a list that shows too
much together with earlier sums is refused by not signing it, and a charge is given back
in two cases:

- this site never signed: its counts are in no sum that can be revealed;
- more listed sites than may collude have signed that they never sign: the list that
  this site signed cannot be completed, and this site has revealed no share for it.

In both the release is on disk first. ``Ledger.settle`` refuses a released sum, and it is
asked before a signature and before a share leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from discreet.plan.plan import Plan
from discreet.plan.roster import key_text
from discreet.plan.rounds import ResolvedRound
from discreet.privacy.account import Account, Permit, Use
from discreet.privacy.ledger import Ledger
from discreet.secagg.messages import RevealRequest, Survivors
from discreet.secagg.site_checks import withdrawn_by
from discreet.secagg.site_state import (
    AwaitingDelivery,
    AwaitingRequest,
    AwaitingSurvivors,
    SiteState,
    restore_site,
)
from discreet.secagg.terms import Terms
from discreet.session.carried import secure_terms
from discreet.session.progress import Progress

Tell: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SignedSums:
    """The ledger, charged for sums that are revealed only if this site signs."""

    ledger: Ledger

    def reserve(self, use: Use) -> Permit:
        """Charge for a use."""
        return self.ledger.reserve(replace(use, signed=True))

    def record(self, permit: Permit, message: bytes) -> None:
        """Store the outgoing numbers."""
        self.ledger.record(permit, message)

    def replay(self, session: bytes, round: int) -> bytes | None:  # noqa: A002
        """Return the stored numbers of an earlier answer."""
        return self.ledger.replay(session, round)


def account_for(ledger: Ledger, this: ResolvedRound) -> Account:
    """Return who pays for an exact sum, and whether an unsigned one is given back.

    Where a site may stay out for what it counted, that it went on is an answer in itself:
    such a charge stands, or a coordinator could ask again and again for nothing.
    """
    return ledger if this.statistic.chooses_sites else SignedSums(ledger)


def terms_of(progress: Progress, this: ResolvedRound) -> Terms:
    """Return the terms of the secure sum that a site is in."""
    return secure_terms(
        progress.plan,
        progress.session,
        progress.round,
        progress.totals,
        this.statistic.size,
    )


def sums_of(plan: Plan, state: SiteState, listed: Collection[int]) -> list[list[str]]:
    """Return the keys of the sites in each sum that a site signs for."""
    if plan.roster is None or not isinstance(
        state, AwaitingDelivery | AwaitingSurvivors | AwaitingRequest
    ):
        return []
    keys = plan.roster.identities()
    sums = state.signing.sums(listed)
    return [[key_text(keys[site]) for site in sites] for sites in sums]


def settle(
    ledger: Ledger, progress: Progress, before: SiteState, message: bytes
) -> None:
    """Tell the ledger who is in the sums, before this site helps to reveal them."""
    if progress.plan.roster is None:
        return
    match before:
        case AwaitingSurvivors():
            listed = Survivors.decode(message).survivors
        case AwaitingRequest():
            listed = RevealRequest.decode(message).survivors
        case _:
            return
    sums = sums_of(progress.plan, before, listed)
    ledger.settle(progress.charged_as, progress.round, sums)


def release_unsigned(
    ledger: Ledger, progress: Progress, tell: Tell | None
) -> AwaitingSurvivors | None:
    """Release the charge of a sum whose list this site was still to sign.

    Return the state that it waited in, or None where there is nothing to release.
    """
    waiting = _conversing(progress)
    if not isinstance(waiting, AwaitingSurvivors) or not waiting.terms.everyone_signs:
        return None
    ledger.release(progress.charged_as, progress.round)
    if tell is not None:
        tell(
            "this site did not sign: its counts are in no sum that can be revealed, and "
            "its charge was released"
        )
    return waiting


def release_withdrawn(
    ledger: Ledger,
    progress: Progress,
    withdrawals: Mapping[int, bytes],
    tell: Tell | None,
) -> None:
    """Release the charge of a sum that this site signed and enough others never will.

    A site that has revealed its shares waits for nothing and releases nothing: the
    sum may be revealed already.
    """
    signed, roster = _conversing(progress), progress.plan.roster
    if roster is None or not isinstance(signed, AwaitingRequest):
        return
    found = withdrawn_by(signed, withdrawals)
    if not found:
        return
    keys = roster.identities()
    proof = {key_text(keys[site]): signature for site, signature in found.items()}
    ledger.release(progress.charged_as, progress.round, withdrawn=proof)
    if tell is not None:
        tell(
            "listed sites withdrew: the sum cannot be revealed, and this site's charge "
            "was released"
        )


def _conversing(progress: Progress) -> SiteState | None:
    """Return the state of a secure sum that goes on, None if there is none."""
    if progress.plan.privacy.route != "secure sum" or progress.finished:
        return None
    return restore_site(progress.conversation, terms_of(progress, progress.resolve()))

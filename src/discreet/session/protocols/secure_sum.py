"""Secure sum: masked vectors, of which only the sum is revealed.

The cryptography is ``discreet.secagg``; here it meets the plan, the account and the
messages. Under a roster every site signs who is in the sum.

**Exact sums that every listed site signs.** A masked vector leaves before anybody knows
who survives. What it adds to a sum can be revealed only after this site has signed the
list of that sum. So a list that shows too much together with earlier sums is refused by
not signing it, and a charge is released in two cases:

- this site never signed: its counts are in no sum that can be revealed;
- more listed sites than may collude have signed that they never sign: the list that
  this site signed cannot be completed, and this site has revealed no share for it.

In both the release is on disk first. ``Ledger.settle`` refuses a released sum, and it is
asked before a signature and before a share leaves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, cast

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.arrays import IntVector
from discreet.entropy import Entropy
from discreet.errors import DiscreetError, InputError, PlanError
from discreet.plan.cohort import key_text
from discreet.plan.plan import Plan
from discreet.plan.rounds import ResolvedRound
from discreet.privacy.ledger import Ledger
from discreet.privacy.loss import Unbounded
from discreet.secagg import site as steps
from discreet.secagg.coordinator import (
    CollectingConfirmations,
    CoordinatorState,
    RevealedSum,
    advance_all,
    invite,
)
from discreet.secagg.errors import (
    FaultyCoordinatorError,
    FaultySiteError,
    SavedStateError,
    UnsignedError,
)
from discreet.secagg.graph import fewest_against
from discreet.secagg.site import withdrawn_by
from discreet.secagg.site_state import (
    AwaitingDelivery,
    AwaitingRequest,
    AwaitingRoster,
    AwaitingSurvivors,
    SiteState,
    restore_site,
)
from discreet.secagg.terms import Terms
from discreet.session.messages import (
    DIGEST_SIZE,
    Message,
    pack,
    round_digest,
    to_bytes,
    to_numbers,
)
from discreet.session.policy import PolicyError
from discreet.session.protocols import (
    Ask,
    CoordinatorRound,
    GroupSum,
    Protocol,
    Sent,
    SiteRound,
    sent_numbers,
)
from discreet.session.state import Progress

ADVERTISE, SHARE, MASK, CONFIRM, REVEAL = (
    *("advertise", "share", "mask", "confirm", "reveal"),
)
EXACT_WITHOUT_ROSTER: Final = (
    "an exact sum needs a roster, because every site in it must sign: add one with "
    "`discreet roster`, or use a privacy model with noise"
)


class MissingSignaturesError(DiscreetError):
    """Listed sites did not sign an exact sum, so that it is not revealed."""

    def __init__(
        self, reason: str, nodes: Collection[int], withdrawals: Mapping[int, bytes]
    ) -> None:
        super().__init__(reason)
        self.nodes = frozenset(nodes)
        """Who did not sign."""
        self.withdrawals = withdrawals
        """The signatures of those who never will."""


@dataclass(frozen=True)
class SecureSum(Protocol):
    """Secure aggregation between sites of a plan.

    ``simulated``: one machine holds the data of all sites, so that nobody signs and two
    sites suffice.
    """

    simulated: bool = False

    name: ClassVar[str] = "secure sum"
    masked: ClassVar[bool] = True
    titles: ClassVar[Mapping[str, str]] = {
        ADVERTISE: "join",
        SHARE: "exchange shares of keys",
        MASK: "send masked counts",
        CONFIRM: "confirm who is in the sum",
        REVEAL: "help to reveal the sum",
    }

    def unsigned(self) -> SecureSum:
        """Return the protocol of a simulation, where nobody signs."""
        return SecureSum(simulated=True)

    def steps(self, plan: Plan) -> tuple[str, ...]:
        """Return the steps; with a roster the sites also sign."""
        signed = () if self.simulated or plan.roster is None else (CONFIRM,)
        return (ADVERTISE, SHARE, MASK, *signed, REVEAL)

    def check(self, plan: Plan) -> None:
        """Refuse a sum that no site could stop, or of one site alone."""
        if not self.simulated:
            if _is_exact(plan) and plan.roster is None:
                raise PlanError(EXACT_WITHOUT_ROSTER)
            if plan.cohort.min_survivors < 2:
                raise PlanError(
                    "a secure sum needs min_survivors of at least 2: one site alone "
                    "has no cover"
                )
        # The terms know which rosters and cohorts go together.
        self._terms(plan, bytes(DIGEST_SIZE), 1)

    def _terms(self, plan: Plan, digest: bytes, length: int) -> Terms:
        """Return the terms of the secure sum of a named round, the same at both ends."""
        roster = None if self.simulated else plan.roster
        least = plan.cohort.min_survivors
        return Terms(
            digest,
            length=length,
            min_survivors=max(least, 2) if self.simulated else least,
            colluders=plan.privacy.masked_from(plan.cohort),
            identities=None if roster is None else roster.identities(),
            groups=plan.cohort.random_groups,
            everyone_signs=_is_exact(plan) and roster is not None,
        )

    def assumptions(self, plan: Plan, sites: int) -> tuple[str, ...]:
        """How few conspirators suffice to take another site's masks off an exact sum.

        Noisy counts stay noisy without masks: their privacy model says what it needs.
        """
        if not _is_exact(plan):
            return ()
        listed = sites if plan.roster is None else len(plan.roster.sites)
        colluders = plan.privacy.masked_from(plan.cohort)
        try:
            few = fewest_against(
                -(-listed // plan.cohort.random_groups),
                corrupt=colluders,
                survivors=plan.cohort.min_survivors,
            )
        except InputError:  # a simulation of what separate sites would refuse
            return ()
        held = "no site conspires" if few == 1 else f"fewer than {few} sites conspire"
        return (f"{held} with the coordinator: {few} could work out another's counts",)

    # -- the coordinator's half --------------------------------------------

    def reveal(self, current: CoordinatorRound, ask: Ask) -> list[GroupSum]:
        """Reveal the sum of the sites' vectors, or one per random group.

        All groups take each step together; if one of them fails, none is revealed.
        """
        digest = round_digest(
            current.plan, current.session, current.round.index, current.totals
        )
        terms = self._terms(current.plan, digest, current.length)
        return self.collect(current.nodes, terms, ask, entropy=current.entropy)

    def collect(
        self, nodes: Sequence[int], terms: Terms, ask: Ask, *, entropy: Entropy
    ) -> list[GroupSum]:
        """Carry out a secure sum on given terms; steps are those of the protocol."""
        signed = terms.identities is not None
        sites = terms.identities or range(1, len(nodes) + 1)
        state, openings = invite(sites, terms=terms, entropy=entropy)
        opening = next(iter(openings.values()))
        invited = {
            node: Sent(0 if signed else place, opening)
            for place, node in enumerate(nodes, 1)
        }
        node_of = _admitted(state, ask(ADVERTISE, invited), invited)
        revealed: list[RevealedSum] = []
        running: list[tuple[CoordinatorState, dict[int, bytes]]] = [*state.split()]
        members = [tuple(bodies) for _, bodies in running]
        try:
            for name in (SHARE, MASK, *((CONFIRM,) if signed else ()), REVEAL):
                taking = {s: group for group, bodies in running for s in bodies}
                sent = {
                    node_of[site]: Sent(site, body)
                    for _, bodies in running
                    for site, body in bodies.items()
                }
                for answer in ask(name, sent).values():
                    _take(taking[answer.site], answer)
                advanced = advance_all([group for group, _ in running])
                revealed = [each for each in advanced if isinstance(each, RevealedSum)]
                running = [each for each in advanced if isinstance(each, tuple)]
        except UnsignedError as error:
            withdrawals: dict[int, bytes] = {}
            for group, _ in running:
                if isinstance(group, CollectingConfirmations):
                    withdrawals |= group.withdrawals
            missing = {node_of[site] for site in error.missing}
            raise MissingSignaturesError(str(error), missing, withdrawals) from error
        alone = len(members) == 1
        return [
            GroupSum(
                each.total,
                [node_of[site] for site in each.contributors],
                () if alone else group,
            )
            for each, group in zip(revealed, members, strict=True)
        ]

    # -- a site's half -----------------------------------------------------

    def join(
        self, current: SiteRound, opening: bytes, charged_before: bytes | None
    ) -> tuple[Progress, Message]:
        """Join with fresh keys.

        The keys name this joining in the account: whoever joins again is charged again,
        because the same noisy vector in two different sums could be told apart.
        """
        number = self._number(current)
        state, advert = steps.advertise(
            opening,
            site=number,
            terms=self._terms_of(current),
            entropy=current.site.entropy,
            identity=current.signer,
        )
        joined = hashlib.sha256(
            b"discreet joined\0" + pack(current.progress.session, advert)
        ).digest()
        progress = replace(
            current.progress, charged_as=charged_before or joined, site=number
        )
        return replace(current, progress=progress).reply(
            body=advert, state=state.encode()
        )

    def step(self, current: SiteRound) -> tuple[Progress, Message]:
        """Answer a message of the sum; the account hears of it before it leaves."""
        terms = self._terms_of(current)

        def vector() -> IntVector:
            return current.answer(
                signed=terms.everyone_signs and can_release(current.round)
            )

        def check(sharers: tuple[int, ...]) -> None:
            current.admit()
            if terms.everyone_signs:
                # Refused here, the site is not listed, and the others' sum goes on.
                sums = _sums_of(current.plan, before, sharers)
                _ledger(current).check_sums(current.use(), sums)

        before = restore_site(current.progress.conversation, terms)
        following, body = answer_of(
            before,
            current.message.body,
            site=current.progress.site,
            vector=vector,
            check=check,
            entropy=current.site.entropy,
            identity=current.signer,
        )
        self._settle(current, before, following)
        over = isinstance(before, AwaitingRequest)
        kept = b"" if over else following.encode()
        if not isinstance(before, AwaitingDelivery):
            return current.reply(body=body, state=kept)
        # A runtime has a place of its own for arrays: the masked words go there.
        head, words = body[: -8 * terms.length], body[-8 * terms.length :]
        return current.reply(body=head, numbers=to_numbers(words), state=kept)

    def withdraw(
        self, current: SiteRound, tell: Callable[[str], None]
    ) -> tuple[Progress, Message] | None:
        """Leave an exact sum for good that this site did not sign; None elsewhere.

        The release is on disk before the withdrawal leaves: from then on the ledger
        refuses to sign, whatever state a runtime may offer.
        """
        signer = current.signer
        waiting = None if signer is None else self._release_unsigned(current, tell)
        if signer is None or waiting is None:
            return None
        return current.reply(body=steps.withdraw(waiting, identity=signer))

    def ended(self, current: SiteRound, withdrawals: Mapping[int, bytes]) -> None:
        """Release the charge of a sum that cannot be revealed any more.

        A site that has revealed its shares waits for nothing and releases nothing: the
        sum may be revealed already.
        """
        tell = current.site.log
        if self._release_unsigned(current, tell) is not None:
            return
        signed, roster = self._state(current), current.plan.roster
        if roster is None or not isinstance(signed, AwaitingRequest):
            return
        proofs = withdrawn_by(signed, withdrawals)
        if not proofs:
            return
        keys = roster.identities()
        _ledger(current).release(
            current.progress.charged_as,
            current.progress.round,
            withdrawn={key_text(keys[site]): proof for site, proof in proofs.items()},
        )
        tell(
            "listed sites withdrew: the sum cannot be revealed, and this site's charge "
            "was released"
        )

    def _terms_of(self, current: SiteRound) -> Terms:
        progress = current.progress
        digest = round_digest(
            current.plan, progress.session, progress.round, progress.totals
        )
        length = sent_numbers(current.plan, current.round)
        return self._terms(current.plan, digest, length)

    def _number(self, current: SiteRound) -> int:
        """Return this site's number: its place in the roster, or the assigned one."""
        signer, roster = current.signer, current.plan.roster
        if roster is None or signer is None:
            return current.message.site
        own = signer.public_key().public_bytes_raw()
        return roster.numbered()[roster.name_of(own)]

    def _state(self, current: SiteRound) -> SiteState | None:
        if current.progress.finished:
            return None
        return restore_site(current.progress.conversation, self._terms_of(current))

    def _settle(
        self, current: SiteRound, before: SiteState, following: SiteState
    ) -> None:
        """Tell the account who is in the sums, before this site helps to reveal them."""
        if current.signer is None:
            return
        match before:
            case AwaitingSurvivors():
                listed = cast("AwaitingRequest", following).confirmed
            case AwaitingRequest():
                listed = before.confirmed
            case _:
                return
        sums = _sums_of(current.plan, before, listed)
        progress = current.progress
        _ledger(current).settle(progress.charged_as, progress.round, sums)

    def _release_unsigned(
        self, current: SiteRound, tell: Callable[[str], None]
    ) -> AwaitingSurvivors | None:
        """Release the charge of a sum whose list this site was still to sign.

        Return the state that it waited in, or None where there is nothing to release.
        """
        waiting = self._state(current)
        if (
            not isinstance(waiting, AwaitingSurvivors)
            or not waiting.terms.everyone_signs
        ):
            return None
        _ledger(current).release(current.progress.charged_as, current.progress.round)
        tell(
            "this site did not sign: its counts are in no sum that can be revealed, and "
            "its charge was released"
        )
        return waiting


def answer_of(
    state: SiteState,
    body: bytes,
    *,
    site: int,
    vector: Callable[[], IntVector],
    check: Callable[[tuple[int, ...]], None] | None = None,
    entropy: Entropy,
    identity: Ed25519PrivateKey | None = None,
) -> tuple[SiteState, bytes]:
    """Take one message of a secure sum; the state says which step it is.

    ``vector`` is called once, when it is about to be masked: by then enough others take
    part, and the message is valid.
    """
    if state.site != site:
        raise SavedStateError(f"this is a state of site {state.site}")
    match state:
        case AwaitingRoster():
            return steps.share(state, body, entropy=entropy)
        case AwaitingDelivery():
            return steps.mask(state, body, vector, check=check)
        case AwaitingSurvivors():
            if identity is None:
                raise SavedStateError("this state needs the site's identity")
            return steps.confirm(state, body, identity=identity)
        case AwaitingRequest():
            return steps.reveal(state, body)
        case _:
            raise FaultyCoordinatorError(
                "a message came after this site had unmasked; it answers once"
            )


def can_release(resolved: ResolvedRound) -> bool:
    """Whether the charge of an exact sum is released when this site does not sign.

    Where a site may stay out for what it counted, that it went on is an answer in itself:
    such a charge stands, or a coordinator could ask again and again for nothing.
    """
    return not resolved.statistic.chooses_sites


def _is_exact(plan: Plan) -> bool:
    """Whether a plan's secure sums are revealed without noise."""
    return plan.protocol.masked and isinstance(plan.privacy.loss, Unbounded)


def _ledger(current: SiteRound) -> Ledger:
    """Return the ledger of a site that signs sums: it outlives the process."""
    account = current.site.account
    if not isinstance(account, Ledger):
        raise PolicyError("a site that signs sums needs a ledger file")
    return account


def _sums_of(plan: Plan, state: SiteState, listed: Collection[int]) -> list[list[str]]:
    """Return the keys of the sites in each sum that a site signs for."""
    if plan.roster is None or not isinstance(
        state, AwaitingDelivery | AwaitingSurvivors | AwaitingRequest
    ):
        return []
    keys = plan.roster.identities()
    sums = state.signing.sums(listed)
    return [[key_text(keys[site]) for site in sites] for sites in sums]


def _admitted(
    state: CoordinatorState,
    answers: Mapping[int, Message],
    invited: Mapping[int, Sent],
) -> dict[int, int]:
    """Take the advertised keys; return which node each site answers through."""
    node_of: dict[int, int] = {}
    for node, answer in answers.items():
        assigned = invited[node].site
        if assigned and assigned != answer.site:
            continue
        if _take(state, answer):
            node_of[answer.site] = node
    return node_of


def _take(state: CoordinatorState, answer: Message) -> bool:
    """Give an answer to the secure sum; a faulty one counts as silence."""
    try:
        state.receive(answer.site, answer.body + to_bytes(answer.numbers))
    except FaultySiteError:
        return False
    return True

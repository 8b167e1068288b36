"""A site's side of a session: letters in, letters out, the state as bytes.

Here the plan, the policy, the ledger, the data and the conversation of a round
meet. Everything that can be refused is refused at the invitation, before the site
shows a key; later every failure looks the same from outside. A state is used once:
masks must not be used twice, even when a runtime restarts and offers an old state.
A letter that comes again gets the very bytes that it was answered with; another
letter for the same state is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.arrays import IntVector
from discreet.data.examples import Examples
from discreet.entropy import Entropy
from discreet.errors import DiscreetError, PlanError
from discreet.failures import sentence
from discreet.label.route import RankSite
from discreet.noise.response import ResponseKey
from discreet.plan.plan import Plan
from discreet.plan.rounds import ResolvedRound
from discreet.privacy.account import Account
from discreet.privacy.ledger import Ledger
from discreet.secagg.conversation import SiteConversation
from discreet.secagg.keys import signature_holds
from discreet.secagg.messages import BoxDelivery
from discreet.secagg.site import withdraw
from discreet.secagg.site_state import (
    AwaitingDelivery,
    AwaitingRequest,
    SiteState,
    restore_site,
)
from discreet.session.admission import admit
from discreet.session.carried import check_signed
from discreet.session.label import rank_site, ranked
from discreet.session.messages import (
    Ending,
    Invitation,
    Kind,
    Message,
    MessageError,
    pack,
    session_of,
    to_numbers,
    withdrawals_in,
)
from discreet.session.policy import Policy, PolicyError
from discreet.session.progress import (
    Once,
    Progress,
    after_refusal,
    progress_in,
    was_refused,
)
from discreet.session.rehearsal import check_agreed
from discreet.session.respond import respond, stored_answer, use_of
from discreet.session.signed_sums import (
    account_for,
    release_unsigned,
    release_withdrawn,
    settle,
    sums_of,
    terms_of,
)


@dataclass(frozen=True)
class Site:
    """What a site brings to a session.

    Args:
        examples: returns the data that a plan asks about; called at each step that
            needs it, since every letter may find a new process.
        policy: what the operator allows.
        ledger: charged before anything is sent.
        entropy: where keys, masks and noise come from.
        once: which states were used.
        plan: the plan that the operator agreed to; without it the policy alone
            decides about the plan in the invitation.
        identity: this site's key in the plan's roster.
        response_key: the key of this site's label flips, for plans that flip labels.
        log: told at the site, and nowhere else, how many rows did not fit and which
            charges were released.
        rehearsal: whether the data is made up; no other plan is answered.
        simulated: whether one machine plays all sites; exact sums then need no roster.
    """

    examples: Callable[[Plan], Examples] = field(repr=False)
    policy: Policy
    ledger: Ledger
    entropy: Entropy = field(repr=False)
    once: Once = field(repr=False)
    plan: Plan | None = None
    identity: Ed25519PrivateKey | None = field(default=None, repr=False)
    response_key: ResponseKey | None = field(default=None, repr=False)
    log: Callable[[str], None] | None = field(default=None, repr=False)
    rehearsal: bool = False
    simulated: bool = False

    def receive(self, state: bytes, message: Message) -> tuple[bytes, Message]:
        """Take a letter; return the next state and the answer.

        Raises:
            DiscreetError: the site declines; the reason is for its operator alone.
        """
        before = progress_in(state, message.session)
        if before is not None and (stored := before.reply_to(message)) is not None:
            return state, stored
        late = before is not None and before.ending is not None
        if message.kind is not Kind.END and (late or was_refused(state, message)):
            return state, self._no(message)
        match message.kind:
            case Kind.INVITE:
                following, reply = self._join(before, message)
            case Kind.STEP:
                following, reply = self._step(before, message)
            case Kind.END:
                return self._end(state, before, message)
            case _:
                raise MessageError("a coordinator does not decline")
        return following.replied(message, reply).to_bytes(), reply

    def answer(
        self, state: bytes, message: Message, *, report: Callable[[str], None]
    ) -> tuple[bytes, Message]:
        """Take a letter; decline with a constant whatever the reason, and report it."""
        try:
            return self.receive(state, message)
        except Exception as error:  # noqa: BLE001 - a failure must not tell about data
            report(sentence(error, doing="answering a letter"))
        withdrawn = None
        with suppress(DiscreetError):  # the ledger may be why it declines
            self.ledger.note_refusal()
            withdrawn = self._withdraw(state, message, report)
        return withdrawn or (after_refusal(state, message), self._no(message))

    def _withdraw(
        self, state: bytes, message: Message, report: Callable[[str], None]
    ) -> tuple[bytes, Message] | None:
        """Leave an exact sum for good that this site did not sign; None elsewhere.

        The release is on disk before the withdrawal leaves: from then on the ledger
        refuses to sign, whatever state a runtime may offer.
        """
        progress = progress_in(state, message.session)
        signer = None if progress is None else self._signer(progress.plan)
        if progress is None or signer is None:
            return None
        waiting = release_unsigned(self.ledger, progress, report)
        if waiting is None:
            return None
        body = withdraw(waiting, identity=signer)
        reply = message.reply(Kind.STEP, site=progress.site, body=body)
        over = replace(progress, conversation=b"").replied(message, reply)
        return over.to_bytes(), reply

    def _no(self, message: Message) -> Message:
        """Decline in the same words, whatever the reason."""
        words = self.policy.when_declining.encode()
        return message.reply(Kind.DECLINED, site=0, body=words)

    def _join(
        self, before: Progress | None, message: Message
    ) -> tuple[Progress, Message]:
        invitation = self._check_invitation(message)
        plan = invitation.plan
        began = Progress(
            message.session,
            message.round,
            message.session,
            0,
            plan,
            message.numbers,
            replies={} if before is None else before.replies,
        )
        if plan.privacy.route != "ranks":  # there the answer comes after public scores
            stored = stored_answer(self.ledger, message.session, message.round)
            if stored is not None:  # looked up before any data is read
                return _sent(began, message, stored)
        if before is not None and message.round <= before.round:
            raise MessageError("a second invitation to a round that was joined came")
        self.ledger.check_patience()
        charged_before = None
        if message.round:
            charged_before = self._continued(before, message)
        this = began.resolve()
        admit(plan, self.policy, self.ledger, session=charged_before)
        match plan.privacy.route:
            case "relay":
                return _sent(began, message, self._respond(plan, this, message.session))
            case "ranks":
                joined = replace(began, site=message.site)
                return ranked(self._rank_site(joined, this), joined, message)
            case "secure sum":
                return self._advertise(
                    invitation.opening, this, began, message, charged_before
                )
            case _:
                raise PlanError("this runtime does not carry the plan's privacy model")

    def _check_invitation(self, message: Message) -> Invitation:
        if self.plan is not None and self.plan.digest() != message.plan_digest:
            raise PolicyError(
                "the coordinator invites to another plan than this site agreed to"
            )
        # What was agreed to is at hand: nothing that a coordinator wrote is parsed.
        invitation = Invitation.decode(message.body, agreed=self.plan)
        plan = invitation.plan
        if plan.digest() != message.plan_digest:
            raise MessageError("the invitation's plan is not the one that it names")
        check_agreed(plan, rehearsing=self.rehearsal)
        if not self.simulated:
            check_signed(plan)
        if session_of(plan, invitation.nonce) != message.session:
            raise MessageError("the invitation's session does not fit its plan")
        if not 0 <= message.round < len(plan.rounds):
            raise MessageError("the invitation is to a round that the plan lacks")
        key = None if plan.roster is None else plan.roster.coordinator
        if key is not None:
            statement = invitation.statement(message)
            if not invitation.signature or not signature_holds(
                key, invitation.signature, statement
            ):
                raise PolicyError(
                    "the invitation is not signed by the coordinator of the roster"
                )
        return invitation

    def _continued(self, before: Progress | None, message: Message) -> bytes:
        """Return how the round before this one was charged; it must be over.

        It is continued once: joining a later round a second time would put the same
        noisy vector into two sums.
        """
        if before is None:
            raise MessageError("a later round came without the one before it")
        if (
            before.plan.digest() != message.plan_digest
            or before.round + 1 != message.round
            or not before.finished
        ):
            raise MessageError("a later round does not follow the one before it")
        shown = message.numbers[: before.totals.size]
        if not np.array_equal(shown, before.totals):
            raise MessageError("an earlier sum was broadcast with other numbers")
        joined = pack(before.session, bytes([before.round]), before.charged_as)
        self.once.take(hashlib.sha256(b"discreet continued\0" + joined).digest())
        return before.charged_as

    def _respond(
        self,
        plan: Plan,
        this: ResolvedRound,
        session: bytes,
        account: Account | None = None,
    ) -> IntVector:
        """Answer one round: charged, counted, stored, and then to be sent."""
        return respond(
            lambda: self.examples(plan),
            account or self.ledger,
            plan,
            this,
            session=session,
            population=self.policy.population,
            entropy=self.entropy,
            policy=self.policy,
            response_key=self.response_key,
            log=self.log,
        )

    def _rank_site(self, progress: Progress, this: ResolvedRound) -> RankSite:
        return rank_site(
            self.examples(progress.plan).fitted(),
            self.ledger,
            progress.plan,
            this,
            session=progress.charged_as,
            population=self.policy.population,
            entropy=self.entropy,
        )

    def _advertise(
        self,
        opening: bytes,
        this: ResolvedRound,
        began: Progress,
        message: Message,
        charged_before: bytes | None,
    ) -> tuple[Progress, Message]:
        """Join a secure sum with fresh keys."""
        number = self._number(began.plan, message.site)
        talk = SiteConversation(
            number,
            terms_of(began, this),
            _nothing,
            self.entropy,
            self._signer(began.plan),
        )
        conversation, advert = talk.join(opening)
        # Fresh keys name this joining: whoever joins again pays again, because the
        # same noisy vector in two different sums could be told from the others.
        joined = hashlib.sha256(
            b"discreet joined\0" + pack(message.session, advert)
        ).digest()
        progress = replace(
            began,
            charged_as=charged_before or joined,
            site=number,
            conversation=conversation,
        )
        return progress, message.reply(Kind.STEP, site=number, body=advert)

    def _number(self, plan: Plan, assigned: int) -> int:
        """Return this site's number: its place in the roster, or the assigned one."""
        signer = self._signer(plan)
        if plan.roster is None or signer is None:
            return assigned
        own = signer.public_key().public_bytes_raw()
        return plan.roster.numbered()[plan.roster.name_of(own)]

    def _signer(self, plan: Plan) -> Ed25519PrivateKey | None:
        if plan.roster is None:
            return None
        if self.identity is None:
            raise PolicyError("the plan has a roster: give this site's identity key")
        return self.identity

    def _step(
        self, progress: Progress | None, message: Message
    ) -> tuple[Progress, Message]:
        if progress is None:
            raise MessageError("a step of a session came that this site is not in")
        if message.round != progress.round:
            raise MessageError("a step of another round came")
        if message.plan_digest != progress.plan.digest():
            raise MessageError("a step of another plan came")
        if progress.finished:
            raise MessageError("a step came after the round's last one")
        self.once.take(hashlib.sha256(progress.conversation).digest())
        this = progress.resolve()
        if progress.plan.privacy.route == "ranks":
            admit(progress.plan, self.policy, self.ledger, session=progress.charged_as)
            return ranked(self._rank_site(progress, this), progress, message)
        terms = terms_of(progress, this)
        before = restore_site(progress.conversation, terms)

        def vector() -> IntVector:
            admit(progress.plan, self.policy, self.ledger, session=progress.charged_as)
            if not terms.everyone_signs:
                return self._respond(progress.plan, this, progress.charged_as)
            sharers = BoxDelivery.decode(message.body).sharers
            use = use_of(
                progress.plan,
                this,
                session=progress.charged_as,
                population=self.policy.population,
            )
            # Refused here, it is left out of the list, and the others' sum goes on.
            self.ledger.check_sums(use, sums_of(progress.plan, before, sharers))
            account = account_for(self.ledger, this)
            return self._respond(progress.plan, this, progress.charged_as, account)

        talk = SiteConversation(
            progress.site, terms, vector, self.entropy, self._signer(progress.plan)
        )
        conversation, answer = talk.receive(progress.conversation, message.body)
        settle(self.ledger, progress, before, message.body)
        following = replace(
            progress,
            conversation=b"" if isinstance(before, AwaitingRequest) else conversation,
        )
        return following, _split(message, progress, before, answer)

    def _end(
        self, state: bytes, before: Progress | None, message: Message
    ) -> tuple[bytes, Message]:
        """Acknowledge how a session ended; also one that this site is not in."""
        ending = Ending.decode(message.body)
        reply = message.reply(Kind.END, site=0)
        if before is None:
            return state, reply
        with suppress(DiscreetError):  # what cannot be released stays charged
            if release_unsigned(self.ledger, before, self.log) is None:
                release_withdrawn(
                    self.ledger, before, withdrawals_in(message.body), self.log
                )
        return before.ended(ending).replied(message, reply).to_bytes(), reply


def _sent(
    began: Progress, message: Message, vector: IntVector
) -> tuple[Progress, Message]:
    """Answer at once with a vector that is private on its own.

    The ledger knows it by the coordinator's session: a repeated invitation gets the
    stored bytes again.
    """
    answer = message.reply(Kind.STEP, site=message.site, numbers=vector)
    return began, answer


def _nothing() -> IntVector:
    raise MessageError("no vector is sent while joining")


def _split(
    message: Message, progress: Progress, before: SiteState, answer: bytes
) -> Message:
    """Put the words of a masked vector where a runtime keeps its arrays."""
    if not isinstance(before, AwaitingDelivery):
        return message.reply(Kind.STEP, site=progress.site, body=answer)
    words = 8 * before.terms.length
    return message.reply(
        Kind.STEP,
        site=progress.site,
        body=answer[:-words],
        numbers=to_numbers(answer[-words:]),
    )

"""A site's side of a session: messages in, messages out, the state as bytes.

Here the plan, the policy, the account, the data and the protocol of a round meet.
Everything that can be refused is refused at the invitation, before the site shows a
key; later every failure looks the same from outside. A state is used once: masks must
not be used twice, even when a runtime restarts and offers an old state. A message that
comes again gets the very bytes that it was answered with; another message for the same
state is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.data.examples import Examples
from discreet.entropy import Entropy
from discreet.errors import DiscreetError
from discreet.failures import sentence
from discreet.noise.response import ResponseKey
from discreet.plan.plan import Plan
from discreet.plan.revocation import RevokedKeys
from discreet.privacy.account import SiteAccount
from discreet.privacy.ledger import Ledger
from discreet.secagg.keys import signature_holds
from discreet.session.messages import (
    EndNotice,
    Invitation,
    Kind,
    Message,
    MessageError,
    pack,
    session_of,
)
from discreet.session.policy import Policy, PolicyError
from discreet.session.protocols import Protocol, SiteRound, protocol_of
from discreet.session.rehearsal import check_agreed
from discreet.session.respond import admit
from discreet.session.state import (
    Progress,
    SiteMemory,
    after_refusal,
    progress_in,
    was_refused,
)


@dataclass(frozen=True)
class Site:
    """What a site brings to a session.

    Args:
        examples: returns the data that a plan asks about; called at each step that
            needs it, since every message may find a new process.
        policy: what the operator allows.
        account: charged before anything is sent; deployed, a ``Ledger``.
        entropy: where keys, masks and noise come from.
        memory: which states were used, and the plans of joined sessions.
        plan: the plan that the operator agreed to; without it the policy alone
            decides about the plan in the invitation.
        identity: this site's key in the plan's roster.
        response_key: the key of this site's randomized responses.
        log: told at the site alone of rows that did not fit and released charges.
        rehearsal: whether the data is made up; no other plan is answered.
        simulated: whether one machine plays all sites, so that nobody signs.
        strict: whether rows that do not fit the plan are an error.
        protocol: how a simulation adds vectors up; otherwise the plan decides.
        revoked: keys that count no longer; no plan of theirs is answered.
    """

    examples: Callable[[Plan], Examples] = field(repr=False)
    policy: Policy
    account: SiteAccount
    entropy: Entropy = field(repr=False)
    memory: SiteMemory = field(repr=False)
    plan: Plan | None = None
    identity: Ed25519PrivateKey | None = field(default=None, repr=False)
    response_key: ResponseKey | None = field(default=None, repr=False)
    log: Callable[[str], None] = field(default=lambda _: None, repr=False)
    rehearsal: bool = False
    simulated: bool = False
    strict: bool = False
    protocol: Protocol | None = None
    revoked: RevokedKeys = field(default_factory=RevokedKeys, repr=False)

    def receive(
        self, before: Progress | None, message: Message
    ) -> tuple[Progress | None, Message]:
        """Take a message; return how far this site is then, and the answer.

        ``before`` is how far it is in the message's session, None if it is not in it.

        Raises:
            DiscreetError: the site declines; the reason is for its operator alone.
        """
        if before is not None:
            stored = before.replies.get(message.digest())
            if stored is not None:
                return before, stored
            if before.ending is not None and message.kind is not Kind.END:
                return before, self._no(message)
        following: Progress | None
        match message.kind:
            case Kind.INVITE:
                following, reply = self._join(before, message)
            case Kind.STEP:
                following, reply = self._step(before, message)
            case Kind.END:
                following, reply = self._end(before, message)
            case _:
                raise MessageError("a coordinator does not decline")
        return following and following.replied(message, reply), reply

    def answer(
        self, state: bytes, message: Message, *, report: Callable[[str], None]
    ) -> tuple[bytes, Message]:
        """Take a message; decline with a constant whatever the reason, and report it."""
        before = left = None
        try:
            if message.kind is not Kind.END and was_refused(state, message):
                return state, self._no(message)
            before = progress_in(state, message.session)
            following, reply = self.receive(before, message)
            return following.encode() if following else state, reply
        except Exception as error:  # noqa: BLE001 - a failure must not tell about data
            report(sentence(error, doing="answering a message"))
        with suppress(DiscreetError):  # the ledger may be why it declines
            self.account.note_refusal()
            if before is not None:
                current = self._current(before, message)
                left = self._protocol(current.plan).withdraw(current, report)
        if left is None:
            return after_refusal(state, message), self._no(message)
        following, reply = left
        return following.replied(message, reply).encode(), reply

    def close(self) -> None:
        """Close the ledger's file, where there is one."""
        if isinstance(self.account, Ledger):
            self.account.close()

    def admit(self, plan: Plan, *, session: bytes | None) -> None:
        """Check policy and caps; read no data, charge nothing, send nothing."""
        if not self.simulated:  # there the charge itself decides
            admit(plan, self.policy, self.account, session=session)

    def _no(self, message: Message) -> Message:
        """Decline in the same words, whatever the reason."""
        words = self.policy.when_declining.encode()
        return message.reply(Kind.DECLINED, site=0, body=words)

    def _protocol(self, plan: Plan) -> Protocol:
        return self.protocol or protocol_of(plan, simulated=self.simulated)

    def _current(self, progress: Progress, message: Message) -> SiteRound:
        plan = self.plan
        if plan is None or plan.digest() != progress.plan_digest:
            plan = self.memory.plan(progress.plan_digest)
        return SiteRound(self, plan, progress, message)

    def _join(
        self, before: Progress | None, message: Message
    ) -> tuple[Progress, Message]:
        invitation, plan = self._invitation(message)
        began = Progress(
            message.session,
            message.round,
            message.session,
            message.site,
            message.plan_digest,
            message.numbers,
            replies={} if before is None else before.replies,
        )
        current = SiteRound(self, plan, began, message)
        protocol = self._protocol(plan)
        stored = protocol.stored(current)  # looked up before any data is read
        if stored is not None:
            return current.reply(numbers=stored)
        if before is not None and message.round <= before.round:
            raise MessageError("a second invitation to a round that was joined came")
        self.account.check_patience()
        if before is None:  # a later round goes on with its own session
            self.account.purge_old()
        charged_before = self._continued(before, message) if message.round else None
        current.round  # noqa: B018 - refused here when the broadcast sums do not fit
        self.admit(plan, session=charged_before)
        if self.plan is None:  # once it is allowed: a refused plan leaves no file
            self.memory.keep(plan, invitation.text)
        return protocol.join(current, invitation.opening, charged_before)

    def _invitation(self, message: Message) -> tuple[Invitation, Plan]:
        """Check an invitation; return it and the plan that it invites to."""
        if self.plan is not None and self.plan.digest() != message.plan_digest:
            raise PolicyError(
                "the coordinator invites to another plan than this site agreed to"
            )
        invitation = Invitation.decode(message.body)
        # What was agreed to is at hand: nothing that a coordinator wrote is parsed.
        plan = self.plan or invitation.plan()
        if plan.digest() != message.plan_digest:
            raise MessageError("the invitation's plan is not the one that it names")
        check_agreed(plan, rehearsing=self.rehearsal)
        self.revoked.check(plan)
        if not self.simulated:
            self._protocol(plan).check(plan)
        if session_of(plan, invitation.nonce) != message.session:
            raise MessageError("the invitation's session does not fit its plan")
        if not 0 <= message.round < len(plan.rounds):
            raise MessageError("the invitation is to a round that the plan lacks")
        key = None if plan.roster is None else plan.roster.coordinator
        if key is not None and not self.simulated:
            statement = invitation.statement(message)
            if not invitation.signature or not signature_holds(
                key, invitation.signature, statement
            ):
                raise PolicyError(
                    "the invitation is not signed by the coordinator of the roster"
                )
        return invitation, plan

    def _continued(self, before: Progress | None, message: Message) -> bytes:
        """Return how the round before this one was charged; it must be over.

        It is continued once: joining a later round a second time would put the same
        noisy vector into two sums.
        """
        if before is None:
            raise MessageError("a later round came without the one before it")
        if (
            before.plan_digest != message.plan_digest
            or before.round + 1 != message.round
            or not before.finished
        ):
            raise MessageError("a later round does not follow the one before it")
        shown = message.numbers[: before.totals.size]
        if not np.array_equal(shown, before.totals):
            raise MessageError("an earlier sum was broadcast with other numbers")
        joined = pack(before.session, bytes([before.round]), before.charged_as)
        self.memory.take(hashlib.sha256(b"discreet continued\0" + joined).digest())
        return before.charged_as

    def _step(
        self, progress: Progress | None, message: Message
    ) -> tuple[Progress, Message]:
        if progress is None:
            raise MessageError("a step of a session came that this site is not in")
        if message.round != progress.round:
            raise MessageError("a step of another round came")
        if message.plan_digest != progress.plan_digest:
            raise MessageError("a step of another plan came")
        if progress.finished:
            raise MessageError("a step came after the round's last one")
        name = hashlib.sha256(progress.conversation).digest()
        self.memory.check(name)
        current = self._current(progress, message)
        self.revoked.check(current.plan)  # a key may be revoked meanwhile
        answered = self._protocol(current.plan).step(current)
        # Marked before the answer leaves, not before it is made: a process that is
        # killed while it counts has sent nothing and makes the answer anew.
        self.memory.take(name)
        return answered

    def _end(
        self, before: Progress | None, message: Message
    ) -> tuple[Progress | None, Message]:
        """Acknowledge how a session ended; also one that this site is not in."""
        notice = EndNotice.decode(message.body)
        reply = message.reply(Kind.END, site=0)
        if before is None:
            return None, reply
        with suppress(DiscreetError):  # what cannot be released stays charged
            current = self._current(before, message)
            self._protocol(current.plan).ended(current, notice.withdrawals)
        try:
            self.account.purge([before.charged_as])
        except DiscreetError as error:
            self.log(f"the session has ended, and {error}")
        return before.ended(notice.ending), reply

"""One round of a session as the coordinator writes it: what its letters share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.arrays import IntVector
from discreet.plan.file import dumps
from discreet.plan.plan import Plan
from discreet.plan.rounds import ResolvedRound
from discreet.session.messages import Invitation, Kind, Message


@dataclass(frozen=True)
class OpenRound:
    """What every letter of one round has in common."""

    plan: Plan
    this: ResolvedRound
    session: bytes
    nonce: bytes
    totals: IntVector = field(repr=False)

    @cached_property
    def text(self) -> str:
        """The plan as every invitation holds it, written once."""
        return dumps(self.plan)

    @cached_property
    def length(self) -> int:
        """How many numbers each site contributes."""
        mechanism = self.plan.privacy.mechanism_for(self.this, self.plan.cohort)
        return mechanism.sent(self.this.statistic.size)

    def invitation(
        self, opening: bytes, site: int, identity: Ed25519PrivateKey | None
    ) -> Message:
        """Invite one node, signed when there is a key to sign with."""
        body = Invitation(self.plan, self.nonce, opening)
        message = Message(
            Kind.INVITE,
            self.plan.digest(),
            self.session,
            self.this.index,
            site,
            numbers=self.totals,
        )
        if identity is not None:
            body = replace(body, signature=identity.sign(body.statement(message)))
        return replace(message, body=body.encode(self.text))

    def step(self, message: bytes, site: int) -> Message:
        """Carry one message of the conversation."""
        return Message(
            Kind.STEP, self.plan.digest(), self.session, self.this.index, site, message
        )

    def owns(self, message: Message) -> bool:
        """Whether an answer belongs to this plan, session and round."""
        return (message.plan_digest, message.session, message.round) == (
            self.plan.digest(),
            self.session,
            self.this.index,
        )

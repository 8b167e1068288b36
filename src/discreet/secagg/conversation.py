"""A site's part as a conversation over bytes: state in, state out.

A runtime that starts a new process for every message keeps only the bytes of the
state between two of them; the kind of the state says which step comes next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.arrays import IntVector
from discreet.entropy import Entropy
from discreet.secagg import site as steps
from discreet.secagg.errors import FaultyCoordinatorError, SavedStateError
from discreet.secagg.site_state import (
    AwaitingDelivery,
    AwaitingRequest,
    AwaitingRoster,
    AwaitingSurvivors,
    Finished,
    SiteState,
    restore_site,
)
from discreet.secagg.terms import Terms


@dataclass(frozen=True)
class SiteConversation:
    """A site's part: what it brings along apart from the state.

    ``vector`` is called once, when the vector is about to be masked: by then the
    site knows that enough others take part, and that the message is in order.
    """

    site: int
    terms: Terms
    vector: Callable[[], IntVector] = field(repr=False)
    entropy: Entropy = field(repr=False)
    identity: Ed25519PrivateKey | None = field(default=None, repr=False)

    def join(self, invitation: bytes) -> tuple[bytes, bytes]:
        """Answer an invitation; return the first state and the advert."""
        state, message = steps.advertise(
            invitation,
            site=self.site,
            terms=self.terms,
            entropy=self.entropy,
            identity=self.identity,
        )
        return state.encode(), message

    def receive(self, state: bytes, message: bytes) -> tuple[bytes, bytes]:
        """Take a message; return the next state and the answer.

        Store the state durably before the answer is sent.
        """
        current = restore_site(state, self.terms)
        if current.site != self.site:
            raise SavedStateError(f"this is a state of site {current.site}")
        following, answer = self._step(current, message)
        return following.encode(), answer

    def _step(self, state: SiteState, message: bytes) -> tuple[SiteState, bytes]:
        match state:
            case AwaitingRoster():
                return steps.share(state, message, entropy=self.entropy)
            case AwaitingDelivery():
                return steps.mask(state, message, self.vector)
            case AwaitingSurvivors():
                if self.identity is None:
                    raise SavedStateError("this state needs the site's identity")
                return steps.confirm(state, message, identity=self.identity)
            case AwaitingRequest():
                return steps.reveal(state, message)
            case Finished():
                raise FaultyCoordinatorError(
                    "a message came after this site had unmasked; it answers once"
                )

"""Who broke the protocol. The type of an error says who is at fault.

No message holds a key, a share or a word of a vector: an error may be logged or
travel to the other end.
"""

from __future__ import annotations

from discreet.errors import DiscreetError


class ProtocolError(DiscreetError):
    """Base class: this end stops, and the session must be abandoned or reduced."""


class SavedStateError(ProtocolError):
    """Saved bytes are not the state that this step needs. The caller is at fault."""


class ConsumedStateError(ProtocolError):
    """A state was used twice. The caller is at fault: masks must not be reused."""

    def __init__(self, state: str) -> None:
        super().__init__(
            f"this {state} was already used; a step consumes its state, because "
            "repeating it would reuse masks or answer a second request"
        )


class SingleUse:
    """A mark on a state: spending it twice raises ``ConsumedStateError``."""

    __slots__ = ("_spent",)

    def __init__(self) -> None:
        self._spent = False

    def spend(self, state: object) -> None:
        """Mark the state as used, or refuse if it already was."""
        if self._spent:
            raise ConsumedStateError(type(state).__name__)
        self._spent = True


class FaultyCoordinatorError(ProtocolError):
    """The coordinator deviated from the protocol. Raised only at a site."""


class FaultySiteError(ProtocolError):
    """One site deviated from the protocol. Raised only at the coordinator.

    The coordinator may go on without the site: its message was not counted.
    """

    def __init__(self, site: int, what: str) -> None:
        self.site = site
        super().__init__(f"site {site} {what}")


class FaultySiteOrCoordinatorError(ProtocolError):
    """A site or the coordinator deviated, and a site cannot tell which of them.

    What another site sends passes through the coordinator; without a signature
    on it either may have changed it. Raised only at a site.
    """

    def __init__(self, site: int, what: str) -> None:
        self.site = site
        super().__init__(f"site {site}, or the coordinator in its name, {what}")


class UnknownFaultySiteError(ProtocolError):
    """Shares do not give back the secret: one of the named sites is at fault.

    Either ``dealer`` dealt wrong shares or one of ``holders`` returned a wrong
    one. Raised only at the coordinator; nothing was revealed.
    """

    def __init__(self, dealer: int, holders: tuple[int, ...]) -> None:
        self.dealer = dealer
        self.holders = holders
        super().__init__(
            f"the {len(holders)} shares of site {dealer} do not reconstruct its "
            "secret: it dealt wrong ones, or a holder returned a wrong one; "
            "nothing was revealed"
        )


class TooFewHoldersError(ProtocolError):
    """Too few of a site's holders are there to take its mask off the sum.

    They went silent, or the coordinator keeps this site's shares from them to
    leave it out of the sum. Raised only at a site, which then signs nothing.
    """

    def __init__(self, during: str, present: int, needed: int) -> None:
        self.during = during
        self.present = present
        self.needed = needed
        super().__init__(
            f"{present} of the sites that hold shares of this one are left after the "
            f"{during} round and {needed} are needed; nothing was revealed, start again"
        )


class UnsignedError(ProtocolError):
    """Listed sites did not sign a sum that every listed site must sign.

    They went silent or refused; nobody is at fault. Raised only at the coordinator;
    no share that could reveal the sum was given.
    """

    def __init__(self, missing: tuple[int, ...], listed: int) -> None:
        self.missing = missing
        self.listed = listed
        super().__init__(
            f"{len(missing)} of the {listed} listed sites did not sign, and an exact "
            "sum is revealed only when each of them has; nothing was revealed"
        )


class TooFewSitesError(ProtocolError):
    """More sites went silent than the terms allow; nobody is at fault.

    Nothing beyond the round's masked messages was revealed.
    """

    def __init__(self, during: str, present: int, needed: int) -> None:
        self.during = during
        self.present = present
        self.needed = needed
        super().__init__(
            f"{present} sites are left after the {during} round and {needed} are "
            "needed; nothing was revealed, start again with the sites that answer"
        )

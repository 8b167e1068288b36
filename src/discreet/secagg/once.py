"""A mark that lets a state be used once."""

from __future__ import annotations

from discreet.secagg.errors import ConsumedStateError


class Once:
    """Raises ``ConsumedStateError`` when its state is used a second time."""

    __slots__ = ("_spent",)

    def __init__(self) -> None:
        self._spent = False

    def spend(self, state: object) -> None:
        """Mark the state as used, or refuse if it already was."""
        if self._spent:
            raise ConsumedStateError(type(state).__name__)
        self._spent = True

"""Errors of a computation between processes, and the exit code each one means."""

from __future__ import annotations

from typing import Final

from discreet.errors import DiscreetError

EXIT_INPUT: Final = 2
"""Something that this process was given is wrong; nothing was sent."""
EXIT_SESSION: Final = 3
"""The session failed, here or elsewhere; nothing was opened."""


class SessionFailedError(DiscreetError):
    """The session ended without a result; the sentence says at whom and why."""


class HungUpError(SessionFailedError):
    """A peer closed the connection before it said a word."""

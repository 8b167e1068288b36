"""Engine: whoever computes a program on owners' rows and opens its one result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from discreet.arrays import IntVector
from discreet.errors import InputError
from discreet.exact.encode import Encoded
from discreet.exact.program import PARTIES, Program

Progress: TypeAlias = Callable[[str], None]
"""Called with a few words at the start of each phase."""


@dataclass(frozen=True, eq=False)
class Opened:
    """What a computation opened, and what it cost.

    ``bytes_sent`` is the sum over the parties; ``rounds`` the messages that one
    party sends on average, which bounds how often they wait for each other.
    """

    values: IntVector
    bytes_sent: int
    rounds: int
    seconds: float


class Engine(Protocol):
    """One narrow door: rows in, one small vector of integers out."""

    @property
    def name(self) -> str:
        """What the result says about who computed it."""
        ...

    def run(
        self,
        program: Program,
        owners: Sequence[Encoded],
        *,
        noise: Sequence[IntVector] = (),
        progress: Progress | None = None,
    ) -> Opened:
        """Compute and open; ``noise`` is one share a party in a noisy program."""
        ...


def check_inputs(
    program: Program, owners: Sequence[Encoded], noise: Sequence[IntVector]
) -> None:
    """Refuse rows or noise that the program did not ask for."""
    if tuple(owner.rows for owner in owners) != program.sizes:
        raise InputError("the owners' rows do not have the sizes that were agreed on")
    if not program.padded and any(owner.count != owner.rows for owner in owners):
        raise InputError("padding rows in a program without padding would be counted")
    wanted = PARTIES if program.noisy else 0
    if len(noise) != wanted or any(share.shape != (2,) for share in noise):
        raise InputError(
            f"{wanted} shares of noise, two integers each, belong to this program"
        )

"""What the engine's log says about the messages between the parties.

The engine reports totals in its log only. How a total is split between the parties
varies from run to run (some steps of ABY3 give the parties random roles); the sum
over the three is the same for every run of a program.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_LINE: Final = re.compile(
    r"Link details: total send bytes (\d+), recv bytes \d+, "
    r"send actions (\d+), recv actions \d+"
)


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one party sent during one run."""

    bytes_sent: int
    messages: int


def read_traffic(log: str) -> list[Traffic]:
    """Return what each run in a log sent.

    >>> read_traffic("Link details: total send bytes 24, recv bytes 16, "
    ...              "send actions 3, recv actions 2")
    [Traffic(bytes_sent=24, messages=3)]
    """
    return [Traffic(int(sent), int(count)) for sent, count in _LINE.findall(log)]


def total_bytes(parties: Sequence[Traffic]) -> int:
    """Add up what the parties sent."""
    return sum(party.bytes_sent for party in parties)


def rounds(parties: Sequence[Traffic]) -> int:
    """Return the messages a party sends on average, rounded up.

    In a round of ABY3 a party sends at most one message to each other party; what
    runs at once counts once for each.
    """
    messages = sum(party.messages for party in parties)
    return -(-messages // len(parties)) if parties else 0

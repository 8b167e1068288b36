"""Relay: every site sends one vector, and the coordinator adds them.

Each vector is private on its own, as under local and label privacy. A simulation adds
the vectors of other models the same way: whoever simulates holds all the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import numpy as np

from discreet.arrays import IntVector
from discreet.errors import InputError
from discreet.plan.plan import Plan
from discreet.secagg.errors import TooFewSitesError
from discreet.secagg.graph import drawn_groups
from discreet.secagg.keys import NONCE_SIZE
from discreet.session.messages import Message, MessageError, to_numbers
from discreet.session.protocols import (
    Ask,
    CoordinatorRound,
    GroupSum,
    Protocol,
    Sent,
    SiteRound,
)
from discreet.session.state import Progress

ANSWER: Final = "answer"
_MOST: Final = 2**63 - 1


class Relay(Protocol):
    """Vectors in the clear, each private on its own."""

    name: ClassVar[str] = "relay"
    titles: ClassVar[Mapping[str, str]] = {ANSWER: "send protected counts"}

    def steps(self, plan: Plan) -> tuple[str, ...]:
        """One step: the answer."""
        del plan
        return (ANSWER,)

    def check(self, plan: Plan) -> None:
        """Every mechanism that protects a vector can be relayed."""
        plan.privacy.mechanism_for(plan.resolve(0, []), plan.cohort)

    def reveal(self, current: CoordinatorRound, ask: Ask) -> list[GroupSum]:
        """Add the vectors, or those of each random group."""
        asked = {node: Sent(k, b"") for k, node in enumerate(current.nodes, 1)}
        vectors = {
            node: answer.numbers
            for node, answer in ask(ANSWER, asked).items()
            if answer.numbers.size == current.length and not answer.body
        }
        least = current.plan.cohort.least_sites
        if len(vectors) < least:
            raise TooFewSitesError(ANSWER, len(vectors), least)
        groups = current.plan.cohort.random_groups
        if groups == 1:
            return [GroupSum(added(list(vectors.values())), list(vectors))]
        # Relayed answers show no keys: what decides the groups is drawn for them.
        drawn = {node: current.entropy(NONCE_SIZE) for node in vectors}
        return [
            GroupSum(added([vectors[node] for node in group]), list(group), group)
            for group in drawn_groups(current.session, drawn, groups)
        ]

    def join(
        self, current: SiteRound, opening: bytes, charged_before: bytes | None
    ) -> tuple[Progress, Message]:
        """Answer at once.

        The account knows the answer by the coordinator's session: a repeated invitation
        gets the stored bytes again.
        """
        del opening, charged_before
        return current.reply(numbers=current.answer())

    def step(self, current: SiteRound) -> tuple[Progress, Message]:
        """Refuse: a relayed round has one step."""
        del current
        raise MessageError("a step came after the round's last one")

    def stored(self, current: SiteRound) -> IntVector | None:
        """Return the stored answer, looked up before any data is read."""
        session, place = current.progress.session, current.progress.round
        message = current.site.account.replay(session, place)
        return None if message is None else to_numbers(message)


def added(vectors: Sequence[IntVector]) -> IntVector:
    """Add vectors, refusing a sum that 64 bits cannot hold.

    It is the oracle that every protocol must equal.
    """
    total = np.zeros(vectors[0].shape, dtype=np.int64)
    reach = 0
    for vector in vectors:
        if vector.shape != total.shape or vector.dtype != np.int64:
            raise InputError(f"a site's vector must be {total.size} 64-bit integers")
        # |x| of the most negative integer does not fit either: use Python's.
        reach += max(abs(int(vector.max())), abs(int(vector.min())))
        if reach > _MOST:
            raise InputError("the sum of the sites' counts does not fit 64 bits")
        total += vector
    return total

"""A session protocol: every site sends its protected vector in a message's body.

It reveals what ``relay`` reveals, with both halves written out: ``reveal`` is the
coordinator's, ``join`` and ``step`` are a site's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from discreet.plan.plan import Plan
from discreet.plan.protocol import PROTOCOLS
from discreet.secagg.errors import TooFewSitesError
from discreet.session.messages import Message, MessageError, to_bytes, to_numbers
from discreet.session.protocols import (
    Ask,
    CoordinatorRound,
    GroupSum,
    Protocol,
    Sent,
    SiteRound,
)
from discreet.session.protocols.relay import added
from discreet.session.state import Progress


class InBodies(Protocol):
    """Two steps: a site joins, then sends its vector."""

    name: ClassVar[str] = "in bodies"
    titles: ClassVar[Mapping[str, str]] = {"join": "join", "vector": "send counts"}

    def steps(self, plan: Plan) -> tuple[str, ...]:
        """Name the steps of a round, in order; the first is the invitation."""
        del plan
        return ("join", "vector")

    def check(self, plan: Plan) -> None:
        """Refuse a plan whose vectors are not private on their own."""
        plan.privacy.mechanism_for(plan.resolve(0, []), plan.cohort)

    def reveal(self, current: CoordinatorRound, ask: Ask) -> list[GroupSum]:
        """Ask every site twice, and add the vectors."""
        sent = {node: Sent(k, b"") for k, node in enumerate(current.nodes, 1)}
        joined = ask("join", sent)
        answers = ask("vector", {node: sent[node] for node in joined})
        vectors = {
            node: to_numbers(answer.body)
            for node, answer in answers.items()
            if len(answer.body) == 8 * current.length
        }
        least = current.plan.cohort.least_sites
        if len(vectors) < least:
            raise TooFewSitesError("vector", len(vectors), least)
        return [GroupSum(added(list(vectors.values())), list(vectors))]

    def join(
        self, current: SiteRound, opening: bytes, charged_before: bytes | None
    ) -> tuple[Progress, Message]:
        """Join without reading data; a state that is not empty means: more follows.

        A state is used once, so that no two sessions may have the same.
        """
        del opening, charged_before
        return current.reply(state=current.progress.session)

    def step(self, current: SiteRound) -> tuple[Progress, Message]:
        """Send the vector: ``answer`` charges, counts, protects and stores it."""
        if current.message.body:
            raise MessageError("the coordinator asks with an empty body")
        current.admit()
        return current.reply(body=to_bytes(current.answer()))


def register() -> None:
    """Let a privacy model name it: ``carried_by = "in-bodies"``."""
    PROTOCOLS.add("in-bodies", InBodies)

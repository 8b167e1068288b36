"""Sites in this process: as they are deployed, and simulated.

A simulation is a session like any other: the same ``Site`` and ``Coordinator``, a policy
that allows everything and accounts in memory. Its vectors are added plainly unless the
real secure sum is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Entropy, child
from discreet.errors import InputError
from discreet.label.response_keys import ResponseKeys
from discreet.plan.plan import Plan
from discreet.plan.rounds import Release
from discreet.privacy.account import MemoryAccount
from discreet.session.coordinator import Coordinator
from discreet.session.messages import Kind, Message
from discreet.session.policy import AllowAll
from discreet.session.protocols import Protocol, protocol_of
from discreet.session.protocols.relay import Relay
from discreet.session.protocols.secure_sum import SecureSum
from discreet.session.site import Site
from discreet.session.state import InMemory, Progress

Aggregation: TypeAlias = Literal["plain", "secagg"]
"""How a simulation adds vectors up."""
AGGREGATIONS: Final[Mapping[Aggregation, Protocol]] = {
    "plain": Relay(),
    "secagg": SecureSum(simulated=True),
}


@dataclass
class InProcess:
    """Deployed sites in this process, behind the bytes that would travel.

    ``sites`` returns the site of a node anew for every message, as a runtime does that
    starts a process a message.
    """

    sites: Mapping[int, Callable[[], Site]]
    report: Callable[[int, str], None]
    states: dict[int, bytes] = field(default_factory=dict)

    def __call__(self, messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        """Let each site answer, through the bytes that would travel."""
        return {
            node: self.answer(node, Message.decode(message.encode()))
            for node, message in messages.items()
        }

    def answer(self, node: int, message: Message) -> Message:
        """Let one site answer one message."""
        state = self.states.get(node, b"")
        self.states[node], answer = self.sites[node]().answer(
            state, message, report=lambda reason: self.report(node, reason)
        )
        return Message.decode(answer.encode())


@dataclass
class Simulated:
    """Simulated sites: a failure of one is an error of the whole simulation.

    ``progress`` is called with the number of sites that have sent their counts.
    """

    sites: Mapping[int, Site]
    progress: Callable[[int], None] | None = None
    states: dict[int, Progress | None] = field(default_factory=dict)

    def __call__(self, messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        """Let each site answer, in order."""
        answers = {}
        for done, (node, message) in enumerate(messages.items(), 1):
            if message.kind is Kind.END:
                continue  # nobody waits for the end
            state = self.states.get(node)
            self.states[node], answers[node] = self.sites[node].receive(state, message)
            if self.progress is not None and answers[node].numbers.size:
                self.progress(done)
        return answers


def simulate(
    plan: Plan,
    sites: Sequence[Examples],
    *,
    entropy: Entropy = SYSTEM,
    aggregation: Aggregation = "plain",
    response_keys: Sequence[ResponseKeys] | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Release]:
    """Run a session of the plan over sites in this process; return its releases.

    ``response_keys`` are what each site keeps from one session to the next.
    """
    if len(sites) < plan.cohort.least_sites:
        raise InputError(
            f"the plan asks for at least {plan.cohort.least_sites} sites, got "
            f"{len(sites)}"
        )
    if response_keys is not None and len(response_keys) != len(sites):
        raise InputError(
            f"{len(sites)} sites need as many response keys, got {len(response_keys)}"
        )
    if aggregation not in AGGREGATIONS:
        raise InputError("aggregation is 'plain' or 'secagg'")
    if aggregation == "secagg" and len(sites) < 2:
        raise InputError("secure aggregation needs 2 sites or more, got 1")
    protocol = AGGREGATIONS[aggregation]
    if not plan.protocol.counts_alone:
        protocol = protocol_of(plan)

    def site(place: int, examples: Examples) -> Site:
        kept = None if response_keys is None else response_keys[place - 1]
        return Site(
            lambda _: examples,
            AllowAll(population=examples.name or f"site {place}", privacy=()),
            MemoryAccount() if kept is None else kept.account,
            child(entropy, f"site {place}"),
            InMemory(),
            plan,
            response_key=None if kept is None else kept.key,
            simulated=True,
            strict=True,
            rehearsal=plan.rehearsal,
            protocol=protocol,
        )

    simulated = {place: site(place, each) for place, each in enumerate(sites, 1)}
    return Coordinator(
        plan,
        simulated.keys(),
        Simulated(simulated, progress),
        entropy=entropy,
        simulated=True,
        protocol=protocol,
    ).run()

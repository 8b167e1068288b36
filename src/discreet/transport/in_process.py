"""Sites of a session in this process: as they are deployed, and simulated.

A simulation is a session like any other; only what carries the letters differs. Its
sites have no policy and answer with vectors in the clear, which the session adds up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, TypeAlias, TypeVar

import numpy as np

from discreet.arrays import IntVector
from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Entropy, child
from discreet.errors import InputError
from discreet.label.response_keys import ResponseKeys
from discreet.label.route import RankSite
from discreet.plan.plan import Plan
from discreet.plan.release import Release
from discreet.plan.rounds import ResolvedRound
from discreet.privacy.account import Account, MemoryAccount
from discreet.secagg.in_process import secure_sum
from discreet.session.coordinator import Session
from discreet.session.label import rank_site
from discreet.session.messages import Kind, Message, earlier_releases
from discreet.session.respond import respond
from discreet.session.site import Site

Answer = TypeVar("Answer")
_ROOM: Final = 2**63 - 1
Aggregation: TypeAlias = Literal["plain", "secagg"]
"""How a simulation adds vectors up."""


@dataclass
class InProcess:
    """Deployed sites in this process, behind the bytes that would travel.

    ``sites`` returns the site of a node anew for every letter, as a runtime does
    that starts a process a letter.
    """

    sites: Mapping[int, Callable[[], Site]]
    report: Callable[[int, str], None]
    states: dict[int, bytes] = field(default_factory=dict)

    def __call__(self, messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        """Let each site answer, through the bytes that would travel."""
        answers = {}
        for node, message in messages.items():
            answers[node] = self.answer(node, Message.decode(message.encode()))
        return answers

    def answer(self, node: int, message: Message) -> Message:
        """Let one site answer one letter."""
        state = self.states.get(node, b"")
        self.states[node], answer = self.sites[node]().answer(
            state, message, report=lambda reason: self.report(node, reason)
        )
        return Message.decode(answer.encode())


@dataclass
class SimulatedSites:
    """Sites that were never deployed: whoever simulates holds all the data.

    Args:
        plan: what they agreed to; no letter has to be believed.
        sites: their examples; node k is place k - 1.
        entropy: where noise comes from.
        custody: what each keeps from one session to the next, if anything.
        progress: called with the number of sites that have answered a round.
    """

    plan: Plan
    sites: Sequence[Examples] = field(repr=False)
    entropy: Entropy = field(repr=False)
    response_keys: Sequence[ResponseKeys] | None = field(default=None, repr=False)
    progress: Callable[[int], None] | None = None
    _accounts: list[MemoryAccount] = field(init=False, repr=False)
    _ranking: dict[int, tuple[RankSite, bytes]] = field(
        default_factory=dict, init=False, repr=False
    )
    """Each site's half of the ranks conversation, and its state."""

    def __post_init__(self) -> None:
        if self.response_keys is not None and len(self.response_keys) != len(
            self.sites
        ):
            raise InputError(
                f"{len(self.sites)} sites need as many response keys, got "
                f"{len(self.response_keys)}"
            )
        self._accounts = [MemoryAccount() for _ in self.sites]

    def __call__(self, messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        """Let each site answer, in the order of their places."""
        first = next(iter(messages.values()))
        if first.kind is Kind.END:
            return {
                node: message.reply(Kind.END, site=0)
                for node, message in messages.items()
            }
        earlier = earlier_releases(self.plan, first.session, first.round, first.numbers)
        this = self.plan.resolve(first.round, earlier)
        answer = self._ranked if self.plan.privacy.route == "ranks" else self._counted
        answers = {}
        for done, (node, message) in enumerate(messages.items(), 1):
            answers[node] = answer(node, this, message)
            if self.progress is not None:
                self.progress(done)
        return answers

    def _counted(self, node: int, this: ResolvedRound, message: Message) -> Message:
        """Answer with a vector in the clear, noise and all."""
        response_key = (
            None if self.response_keys is None else self.response_keys[node - 1].key
        )
        vector = self._asked(respond, node, this, message, response_key=response_key)
        return message.reply(Kind.STEP, site=message.site, numbers=vector)

    def _ranked(self, node: int, this: ResolvedRound, message: Message) -> Message:
        """Answer an invitation with the scores, and their ranks with protected sums."""
        if message.kind is Kind.INVITE:
            half, state = self._asked(rank_site, node, this, message), b""
        else:
            half, state = self._ranking[node]
        state, body = half.receive(state, message.body)
        self._ranking[node] = half, state
        return message.reply(Kind.STEP, site=message.site, body=body)

    def _asked(
        self,
        what: Callable[..., Answer],
        node: int,
        this: ResolvedRound,
        message: Message,
        **more: Any,
    ) -> Answer:
        """Let a site's data meet its account, as at a site that is deployed."""
        site = self.sites[node - 1]
        account: Account = self._accounts[node - 1]
        if self.response_keys is not None:
            account = self.response_keys[node - 1].account
        return what(
            site,
            account,
            self.plan,
            this,
            session=message.session,
            population=site.name or f"site {node}",
            entropy=child(self.entropy, f"site {node}"),
            **more,
        )


def simulate(
    plan: Plan,
    sites: Sequence[Examples],
    *,
    entropy: Entropy = SYSTEM,
    aggregation: Aggregation = "plain",
    response_keys: Sequence[ResponseKeys] | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Release]:
    """Run a session of the plan over sites in this process; return what was opened."""
    if len(sites) < plan.cohort.least_sites:
        raise InputError(
            f"the plan asks for at least {plan.cohort.least_sites} sites, got "
            f"{len(sites)}"
        )
    session = Session(
        plan,
        range(1, len(sites) + 1),
        SimulatedSites(plan, sites, entropy, response_keys, progress),
        entropy=entropy,
        open_sum=partial(opened_sum, plan, aggregation, entropy),
    )
    return session.run()


def opened_sum(
    plan: Plan, aggregation: Aggregation, entropy: Entropy, vectors: Sequence[IntVector]
) -> IntVector:
    """Return the sum of the sites' vectors, plainly added or by the real protocol."""
    match aggregation:
        case "plain":
            return add(vectors, vectors[0].size)
        case "secagg":
            return secure_sum(
                vectors,
                plan_digest=plan.digest(),
                min_survivors=max(plan.cohort.min_survivors, 2),
                colluders=plan.privacy.masked_from(plan.cohort),
                entropy=entropy,
            ).total
        case _:
            raise InputError("aggregation is 'plain' or 'secagg'")


def add(vectors: Iterable[IntVector], size: int) -> IntVector:
    """Add vectors plainly, refusing a sum that 64 bits cannot hold.

    It is the oracle that every protocol must equal.
    """
    total = np.zeros(size, dtype=np.int64)
    reach = 0
    for vector in vectors:
        if vector.shape != (size,) or vector.dtype != np.int64:
            raise InputError(f"a site's vector must be {size} 64-bit integers")
        # |x| of the most negative integer does not fit either: use Python's.
        reach += max(abs(int(vector.max())), abs(int(vector.min())))
        if reach > _ROOM:
            raise InputError("the sum of the sites' counts does not fit 64 bits")
        total += vector
    return total

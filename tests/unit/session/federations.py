"""Consortia in one process, each site with a ledger on disk, for tests of sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.arrays import IntVector
from discreet.data.edges import Warped
from discreet.data.examples import Examples
from discreet.entropy import Entropy, Seeded
from discreet.models.distributed import DistributedDP
from discreet.models.label import LabelDP
from discreet.noise.response import ResponseKey
from discreet.plan.cohort import Cohort, Member, PublicFacts, Roster
from discreet.plan.file import dumps
from discreet.plan.plan import ModelRef, Plan, recommend
from discreet.plan.privacy_model import PrivacyModel
from discreet.plan.rounds import ResolvedRound, Round
from discreet.privacy.account import MemoryAccount
from discreet.privacy.ledger import Ledger
from discreet.session.coordinator import Coordinator, ReliableTransport
from discreet.session.messages import (
    Invitation,
    Kind,
    Message,
    session_of,
)
from discreet.session.policy import Policy
from discreet.session.site import Site
from discreet.session.state import InMemory
from discreet.statistic import EquiDepthFrom, Hierarchy
from discreet.transport.in_process import InProcess
from policies import open_policy, respond

Kept = TypeVar("Kept", bound=InProcess)

POLICY = open_policy(
    population="people",
    privacy=("secure-aggregation", "distributed", "local", "label"),
    units=("example", "label"),
    epsilon_per_plan=Fraction(4),
    epsilon_total=Fraction(8),
    delta_total=Fraction(1, 1000),
    exact_sums=2,
    sessions_per_plan=2,
    sites=1,
)


COORDINATOR = Ed25519PrivateKey.from_private_bytes(bytes(31) + b"c")


def identity(place: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes(31) + bytes([place]))


def roster(places: Iterable[int]) -> Roster:
    members = tuple(
        Member(f"site {k}", identity(k).public_key().public_bytes_raw()) for k in places
    )
    return Roster(members, COORDINATOR.public_key().public_bytes_raw())


def fresh() -> Callable[[int], Entropy]:
    """Return entropy that differs at every call: whatever repeats was stored."""
    drawn = iter(range(10**6))
    return lambda _: Seeded(b"%d" % next(drawn))


def examples(place: int) -> Examples:
    rng = np.random.default_rng(place)
    labels = rng.random(300) < 0.3
    scores = np.clip(rng.normal(0.4 + 0.3 * labels, 0.2), 0, 1)
    return Examples(scores, labels, subjects=range(len(labels)))


def own_answer(
    plan: Plan, place: int, resolved: ResolvedRound | None = None
) -> IntVector:
    """Return what a site of ``Federation`` answers to a plan, the first round or one."""
    return respond(
        examples(place),
        MemoryAccount(),
        plan,
        resolved or plan.resolve(0, []),
        session=b"",
        population="",
        entropy=Seeded(bytes([place])),
    )


def plan_for(
    privacy: PrivacyModel,
    *,
    survivors: int = 2,
    signed_by: int = 0,
    floor: int = 0,
) -> Plan:
    cohort = Cohort(survivors, min_examples_per_site=floor)
    plan = recommend(PublicFacts(1000, 0.3), privacy, edges=Warped(16), cohort=cohort)
    plan = replace(plan, model=ModelRef("model", "sha256:00"))
    return replace(plan, roster=roster(range(1, signed_by + 1))) if signed_by else plan


@dataclass
class Federation:
    """Sites with their ledgers on disk; each message finds a new ``Site``."""

    folder: Path
    sites: int = 3
    plans: Mapping[int, Plan] = field(default_factory=dict)
    data: Callable[[int], Examples] = examples
    policy: Policy = POLICY
    entropy: Callable[[int], Entropy] = lambda place: Seeded(bytes([place]))
    onces: dict[int, InMemory] = field(default_factory=dict)
    reasons: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)

    def ledger(self, place: int) -> Ledger:
        path = self.folder / f"{place}.sqlite"
        opened = Ledger if path.exists() else Ledger.new
        return opened(path, limits=self.policy.limits())

    def site(self, place: int) -> Site:
        return Site(
            lambda _: self.data(place),
            self.policy,
            self.ledger(place),
            self.entropy(place),
            self.onces.setdefault(place, InMemory()),
            self.plans.get(place),
            identity(place),
            ResponseKey(bytes([place]) * 32),
        )

    def transport(self, kind: type[Kept] = InProcess, **more: Any) -> Kept:  # type: ignore[assignment]
        """Return a transport between these sites, by default one that only carries."""
        return kind(
            {k: lambda k=k: self.site(k) for k in range(1, self.sites + 1)},  # type: ignore[misc]
            lambda place, reason: self.reasons.append((place, reason)),
            **more,
        )

    def spent(self, place: int = 1) -> Fraction:
        """Return the epsilon that a site's population was charged."""
        return self.ledger(place).spent("people").epsilon

    def session(
        self, plan: Plan, transport: ReliableTransport | None = None
    ) -> Coordinator:
        signer = COORDINATOR if plan.roster is not None else None
        return Coordinator(
            plan,
            range(1, self.sites + 1),
            transport or self.transport(),
            Seeded(b"coordinator"),
            signer,
        )


@dataclass
class Losing(InProcess):
    """A transport in which some sites fall silent from a given turn on."""

    silent: Mapping[int, int] = field(default_factory=dict)
    turn: int = 0

    def __call__(self, messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        self.turn += 1
        gone = {node for node, turn in self.silent.items() if self.turn >= turn}
        return super().__call__({n: x for n, x in messages.items() if n not in gone})


def rank_plan(*, survivors: int = 3, signed_by: int = 0, epsilon: str = "2") -> Plan:
    plan = recommend(
        PublicFacts(900), LabelDP(epsilon), cohort=Cohort(min_survivors=survivors)
    )
    return replace(plan, roster=roster(range(1, signed_by + 1)) if signed_by else None)


def two_rounds() -> Plan:
    plan = plan_for(DistributedDP("2"), survivors=3)
    histogram = plan_for(DistributedDP("2"), survivors=3).rounds[0].statistic
    tree = Hierarchy(histogram.edges, 2)  # type: ignore[union-attr]
    half = Fraction(1, 2)
    adaptive = EquiDepthFrom(tree, 8, plan.thresholds)
    return replace(plan, rounds=(Round(tree, half), Round(adaptive, half)))


@dataclass
class Altering(InProcess):
    """Changes what travels: the messages to each site, or its answers."""

    message: Callable[[int, Message], Message] = lambda _, message: message
    reply: Callable[[int, Message], Message] = lambda _, reply: reply

    def answer(self, node: int, message: Message) -> Message:
        return self.reply(node, super().answer(node, self.message(node, message)))


@dataclass
class AskingAgain(InProcess):
    """Offers site 1 its old state again, with the message that ``again`` returns."""

    again: Callable[[Message], Message | None] = lambda message: message
    seen: list[Message] = field(default_factory=list)

    def __call__(self, messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        before = self.states.get(1, b"")
        answers = super().__call__(messages)
        message = self.again(messages[1])
        if message is not None:
            after, self.states[1] = self.states[1], before
            self.seen.append(self.answer(1, message))
            self.states[1] = after
        return answers


def invitation_to(plan: Plan) -> Message:
    body = Invitation(dumps(plan), bytes(32), b"")
    session = session_of(plan, body.nonce)
    return Message(Kind.INVITE, plan.digest(), session, 0, 1, body.encode())


class KilledError(Exception):
    """The coordinator's process is gone."""


@dataclass
class Dying(InProcess):
    """Kills the coordinator in its n-th turn: before or after the sites answer."""

    kill_in: int = 0
    sites_answer: bool = True
    calls: int = 0
    heard: dict[bytes, set[bytes]] = field(default_factory=dict)

    def __call__(self, messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        self.calls += 1
        killed = self.calls == self.kill_in
        if killed and not self.sites_answer:
            raise KilledError
        answers = super().__call__(messages)
        if killed:
            raise KilledError
        return answers

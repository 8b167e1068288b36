"""The coordinator's side of a session: from a plan to its releases.

What carries the messages is an argument. The coordinator keeps its state in memory;
``discreet.session.journal`` makes a session that outlives its process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final
from typing import Protocol as Port

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.entropy import SYSTEM, Entropy, Seeded
from discreet.errors import DiscreetError, PlanError
from discreet.plan.file import dumps
from discreet.plan.plan import Plan
from discreet.plan.rounds import Release
from discreet.privacy.claim import Setting
from discreet.report.build import Result, result_of
from discreet.secagg.errors import FaultySiteError, TooFewSitesError
from discreet.secagg.keys import NONCE_SIZE
from discreet.session.messages import (
    DIGEST_SIZE,
    NO_NUMBERS,
    Ending,
    EndNotice,
    Invitation,
    Kind,
    Message,
    session_of,
)
from discreet.session.policy import legible
from discreet.session.protocols import (
    CoordinatorRound,
    GroupSum,
    Protocol,
    Sent,
    protocol_of,
)
from discreet.session.protocols.secure_sum import MissingSignaturesError

NO_ROSTER: Final = (
    "the plan has no roster, so nobody can tell which sites are in the sum: add one "
    "with `discreet roster`, or say --unauthenticated"
)


class AbortedError(DiscreetError):
    """The session ended without a result; nothing was revealed."""


class UnfinishedError(DiscreetError):
    """An exact sum waits for signatures; the session can be resumed later."""


class ReliableTransport(Port):
    """Carries messages to nodes and returns what they answer in time."""

    def __call__(self, messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        """Return the answers by node; who is silent or too late is left out."""
        ...


@dataclass(frozen=True, slots=True)
class StepReport:
    """What is reported as a session goes on."""

    round: int
    name: str
    title: str
    """What a site does in it, for people."""
    number: int
    """Which step of the round it is, from 1 on."""
    of: int
    heard: tuple[int, ...]
    refused: tuple[int, ...]
    missing: tuple[int, ...]
    """The nodes that answered, that declined, and that did neither in time."""
    words: Mapping[int, str] = field(default_factory=dict)
    """What those who declined let their coordinators know, if they do."""

    @property
    def asked(self) -> int:
        """How many nodes were asked."""
        return len(self.heard) + len(self.refused) + len(self.missing)

    @property
    def answered(self) -> int:
        """How many answered."""
        return len(self.heard)

    @property
    def declined(self) -> int:
        """How many declined."""
        return len(self.refused)


@dataclass
class Coordinator:
    """One run of a plan over some nodes.

    Args:
        plan: what is asked.
        nodes: whom the transport can reach.
        transport: how messages travel.
        entropy: where nonces come from.
        identity: signs the invitations when the roster names a coordinator.
        watch: told after each step.
        resumable: whether the session is kept, so that an exact sum can wait for the
            signatures of silent sites.
        simulated: whether one machine plays all sites, so that nobody signs.
        protocol: how a simulation adds vectors up; otherwise the plan decides.
    """

    plan: Plan
    nodes: Collection[int]
    transport: ReliableTransport
    entropy: Entropy = field(default=SYSTEM, repr=False)
    identity: Ed25519PrivateKey | None = field(default=None, repr=False)
    watch: Callable[[StepReport], None] | None = None
    resumable: bool = False
    simulated: bool = False
    protocol: Protocol | None = None
    _protocol: Protocol = field(init=False, repr=False)
    _declined: int = field(default=0, init=False)
    _silent: frozenset[int] = field(default=frozenset(), init=False)
    _withdrawals: Mapping[int, bytes] = field(
        default_factory=dict, init=False, repr=False
    )
    _text: str = field(default="", init=False, repr=False)
    _nonce: bytes = field(default=b"", init=False, repr=False)
    _session: bytes = field(default=bytes(DIGEST_SIZE), init=False, repr=False)

    def __post_init__(self) -> None:
        self._protocol = self.protocol or protocol_of(
            self.plan, simulated=self.simulated
        )
        self._text = dumps(self.plan)
        if self.simulated:
            return  # an unsigned invitation deceives nobody
        self._protocol.check(self.plan)
        roster = self.plan.roster
        if roster is not None and roster.coordinator is not None:
            if self.identity is None:
                raise PlanError("the roster names a coordinator: give its identity key")
            own = self.identity.public_key().public_bytes_raw()
            if own != roster.coordinator:
                raise PlanError(
                    "the identity key is not the coordinator's in the roster"
                )

    def run(self) -> list[Release]:
        """Carry out every round, tell the sites how it ended, return the releases.

        After any other failure the sites are told nothing: the session may go on.

        Raises:
            AbortedError: too few sites came or stayed, or one refused an exact sum.
            UnfinishedError: listed sites are silent that must sign an exact sum; the
                sites are told nothing, and the session goes on when it is resumed.
        """
        try:
            releases = self._rounds()
        except AbortedError:
            self._tell(Ending.TOO_FEW_SITES)
            raise
        except UnfinishedError:
            raise
        except DiscreetError:
            self._tell(Ending.FAILED)
            raise
        self._tell(Ending.REVEALED)
        return releases

    def _tell(self, ending: Ending) -> None:
        """Send everybody the last message; no deployed site leaves before it."""
        body = EndNotice(ending, self._withdrawals).encode()
        last = Message(Kind.END, self.plan.digest(), self._session, 0, body=body)
        self.transport(dict.fromkeys(sorted(self.nodes), last))

    def _rounds(self) -> list[Release]:
        least = self.plan.cohort.least_sites
        if len(self.nodes) < least:
            raise AbortedError(
                f"{len(self.nodes)} sites are connected and the plan needs {least}; "
                "nothing was asked"
            )
        self._nonce = self.entropy(NONCE_SIZE)
        self._session = session_of(self.plan, self._nonce)
        nodes = sorted(self.nodes)
        roster = self.plan.roster
        expected = len(nodes) if roster is None else len(roster.sites)
        releases: list[Release] = []
        for i in range(len(self.plan.rounds)):
            current = CoordinatorRound(
                self.plan,
                self.plan.resolve(i, releases),
                self._session,
                np.concatenate([NO_NUMBERS, *(r.total for r in releases)]),
                nodes,
                self.entropy,
            )
            sums = self._reveal(current)
            nodes = sorted(node for each in sums for node in each.nodes)
            releases += [
                Release(
                    self.plan.digest(),
                    self._session,
                    i,
                    each.total,
                    len(each.nodes),
                    len(each.members) or expected,
                    current.round.loss,
                    each.members,
                )
                for each in sums
            ]
        return releases

    def _reveal(self, current: CoordinatorRound) -> list[GroupSum]:
        """Let the protocol reveal a round's sums; say in one sentence why it cannot."""
        try:
            return self._protocol.reveal(current, partial(self._ask, current))
        except TooFewSitesError as error:
            raise AbortedError(
                f"{error.present} sites are left after the {error.during} step, "
                f"{self._declined} declined, and {error.needed} are needed; nothing "
                "was revealed"
            ) from error
        except FaultySiteError as error:
            raise AbortedError(f"{error}; nothing was revealed") from error
        except MissingSignaturesError as error:
            self._withdrawals = error.withdrawals
            if self.resumable and error.nodes <= self._silent:
                raise UnfinishedError(
                    f"{error}; run the same command again when every site is back, and "
                    "nobody is charged twice"
                ) from error
            raise AbortedError(str(error)) from error

    def _message(
        self, current: CoordinatorRound, sent: Sent, *, first: bool
    ) -> Message:
        """Return a message of a round: an invitation if it is the first."""
        message = Message(
            Kind.INVITE if first else Kind.STEP,
            self.plan.digest(),
            current.session,
            current.round.index,
            sent.site,
            sent.body,
        )
        if not first:
            return message
        message = replace(message, body=b"", numbers=current.totals)
        invitation = Invitation(self._text, self._nonce, sent.body)
        if self.identity is not None:
            signature = self.identity.sign(invitation.statement(message))
            invitation = replace(invitation, signature=signature)
        return replace(message, body=invitation.encode())

    def _ask(
        self, current: CoordinatorRound, name: str, sent: Mapping[int, Sent]
    ) -> dict[int, Message]:
        """Send a step's messages; leave out who declined or answered something else."""
        steps = self._protocol.steps(self.plan)
        first = name == steps[0]
        messages = {
            node: self._message(current, each, first=first)
            for node, each in sent.items()
        }
        answers: dict[int, Message] = {}
        refused: dict[int, str] = {}
        for node, answer in self.transport(messages).items():
            message = messages.get(node)
            if message is None or not answer.answers(message):
                continue
            if answer.kind is Kind.DECLINED:
                refused[node] = legible(answer.body.decode(errors="replace"))
            elif answer.kind is Kind.STEP and message.site in (0, answer.site):
                answers[node] = answer
        self._declined += len(refused)
        missing = [n for n in messages if n not in answers and n not in refused]
        self._silent = frozenset(missing)
        if self.watch is not None:
            self.watch(
                StepReport(
                    current.round.index,
                    name,
                    self._protocol.titles[name],
                    steps.index(name) + 1,
                    len(steps),
                    tuple(answers),
                    tuple(refused),
                    tuple(missing),
                    {node: words for node, words in refused.items() if words},
                )
            )
        return answers


def evaluation_of(
    plan: Plan,
    releases: Sequence[Release],
    *,
    entropy: Entropy = SYSTEM,
    simulated: bool = False,
) -> Result:
    """Estimate everything that the releases allow; the claim says where it was run."""
    setting: Setting = "simulated" if simulated else "deployed"
    if isinstance(entropy, Seeded):
        setting = "seeded"
    claim = plan.claim(setting, sites=min(r.contributors for r in releases))
    return result_of(plan, releases, claim)

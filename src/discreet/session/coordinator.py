"""The coordinator's side of a session: from a plan to its releases.

What carries the letters is an argument: sites in this process, or Flower. The
coordinator keeps its state in memory; one that is killed starts a new session.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.arrays import IntVector
from discreet.entropy import SYSTEM, Entropy, Seeded
from discreet.errors import DiscreetError, PlanError
from discreet.label.rank_terms import RankSumTerms
from discreet.label.route import JOIN, collect
from discreet.plan.plan import Plan
from discreet.plan.release import Release
from discreet.privacy.claim import Setting
from discreet.report.build import Result, result_of
from discreet.secagg.coordinator import (
    CollectingConfirmations,
    CoordinatorState,
    RevealedSum,
    advance_all,
    invite,
)
from discreet.secagg.errors import FaultySiteError, TooFewSitesError, UnsignedError
from discreet.secagg.keys import NONCE_SIZE
from discreet.secagg.random_groups import drawn_groups
from discreet.session.carried import check_carried, secure_terms, steps_of
from discreet.session.messages import (
    DIGEST_SIZE,
    Ending,
    Kind,
    Message,
    joined_totals,
    session_of,
)
from discreet.session.open_round import OpenRound
from discreet.session.policy import legible


class AbortedError(DiscreetError):
    """The session ended without a result; nothing was opened."""


class UnfinishedError(DiscreetError):
    """An exact sum waits for signatures; the session can be gone on with later."""


class Transport(Protocol):
    """Carries letters to nodes and brings back what they answer in time."""

    def __call__(self, messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        """Return the answers by node; who is silent or too late is left out."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """What is reported as a session goes on."""

    round: int
    name: str
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
        """How many said no."""
        return len(self.refused)


class GroupSum(NamedTuple):
    """An opened sum, the nodes in it, and, of a random group, its sites' numbers."""

    total: IntVector
    nodes: list[int]
    members: tuple[int, ...] = ()


Watch = Callable[[Step], None]
OpenSum = Callable[[Sequence[IntVector]], IntVector]


@dataclass
class Session:
    """One run of a plan over some nodes.

    Args:
        plan: what is asked.
        nodes: whom the exchange can reach.
        exchange: how letters travel.
        entropy: where nonces come from.
        identity: signs the invitations when the roster names a coordinator.
        watch: told after each step.
        resumable: whether the session is kept, so that an exact sum can wait for the
            signatures of silent sites.
        simulated: whether one machine plays all sites; exact sums then need no roster.
        open_sum: in a simulation, adds up vectors that came in the clear instead of
            under masks; sites elsewhere answer no such invitation.
    """

    plan: Plan
    nodes: Collection[int]
    exchange: Transport
    entropy: Entropy = field(default=SYSTEM, repr=False)
    identity: Ed25519PrivateKey | None = field(default=None, repr=False)
    watch: Watch | None = None
    resumable: bool = False
    simulated: bool = False
    open_sum: OpenSum | None = field(default=None, repr=False)
    _declined: int = field(default=0, init=False)
    _silent: frozenset[int] = field(default=frozenset(), init=False)
    _withdrawals: dict[int, bytes] = field(default_factory=dict, init=False, repr=False)
    _session: bytes = field(default=bytes(DIGEST_SIZE), init=False, repr=False)

    def __post_init__(self) -> None:
        if self.open_sum is not None:
            return  # a simulation: nobody is deceived by an unsigned invitation
        check_carried(self.plan, simulated=self.simulated)
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
        """Carry out every round, tell the sites how it ended, return what was opened.

        Whatever else goes wrong tells the sites nothing: the session may go on.

        Raises:
            AbortedError: too few sites came or stayed, or one refused an exact sum.
            UnfinishedError: listed sites are silent that must sign an exact sum; the
                sites are told nothing, and the session goes on when it is resumed.
        """
        if len(self.nodes) < self.plan.cohort.least_sites:
            self._tell(Ending.TOO_FEW_SITES)
            raise AbortedError(
                f"{len(self.nodes)} sites are connected and the plan needs "
                f"{self.plan.cohort.least_sites}; nothing was asked"
            )
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
        self._tell(Ending.OPENED)
        return releases

    def _tell(self, ending: Ending) -> None:
        """Send everybody the last letter; nobody leaves before it."""
        body = ending.encode(self._withdrawals)
        last = Message(Kind.END, self.plan.digest(), self._session, 0, body=body)
        self.exchange(dict.fromkeys(sorted(self.nodes), last))

    def _rounds(self) -> list[Release]:
        nonce = self.entropy(NONCE_SIZE)
        session = self._session = session_of(self.plan, nonce)
        nodes = sorted(self.nodes)
        roster = self.plan.roster
        expected = len(nodes) if roster is None else len(roster.sites)
        releases: list[Release] = []
        for i in range(len(self.plan.rounds)):
            this = self.plan.resolve(i, releases)
            open_round = OpenRound(
                self.plan, this, session, nonce, joined_totals(releases)
            )
            match self.plan.privacy.route:
                case "ranks":
                    sums = [self._ranks(open_round, nodes)]
                case route if route == "relay" or self.open_sum is not None:
                    sums = self._relay(open_round, nodes)
                case _:
                    sums = self._secure_sum(open_round, nodes)
            nodes = sorted(node for each in sums for node in each.nodes)
            releases += [
                Release(
                    self.plan.digest(),
                    session,
                    i,
                    each.total,
                    len(each.nodes),
                    len(each.members) or expected,
                    this.loss,
                    each.members,
                )
                for each in sums
            ]
        return releases

    def _relay(self, current: OpenRound, nodes: Sequence[int]) -> list[GroupSum]:
        """Add up vectors that are private on their own, or of a simulation."""
        messages = {
            node: current.invitation(b"", site, self.identity)
            for site, node in enumerate(nodes, 1)
        }
        answers = {
            node: answer.numbers
            for node, answer in self._ask("answer", current, messages).items()
            if answer.numbers.size == current.length and not answer.body
        }
        least = self.plan.cohort.least_sites
        if len(answers) < least:
            raise AbortedError(
                f"{len(answers)} sites answered, {self._declined} declined, and the "
                f"plan needs {least}; nothing was opened"
            )
        add_up = self.open_sum or _added
        groups = self.plan.cohort.random_groups
        if groups == 1:
            return [GroupSum(add_up(list(answers.values())), list(answers))]
        # Simulated sites show no keys: what they would have said is drawn for them.
        said = {node: self.entropy(NONCE_SIZE) for node in answers}
        return [
            GroupSum(add_up([answers[node] for node in group]), list(group), group)
            for group in drawn_groups(current.session, said, groups)
        ]

    def _ranks(self, current: OpenRound, nodes: Sequence[int]) -> GroupSum:
        """Rank the sites' scores, and take every ranked site's protected sums."""
        node_of = dict(enumerate(nodes, 1))

        def ask(step: str, bodies: Mapping[int, bytes]) -> dict[int, bytes]:
            messages = {
                node_of[site]: current.invitation(body, site, self.identity)
                if step == JOIN
                else current.step(body, site)
                for site, body in bodies.items()
            }
            answers = self._ask(step, current, messages)
            return {answer.site: answer.body for answer in answers.values()}

        this, cohort = current.this, self.plan.cohort
        told = self.plan.privacy.colluders_in(cohort)
        terms = RankSumTerms.of(this.statistic, this.loss, colluders=told)
        try:
            total, present = collect(ask, node_of, terms, least=cohort.min_survivors)
        except TooFewSitesError as error:
            raise self._too_few(error) from error
        except FaultySiteError as error:
            raise AbortedError(f"{error}; nothing was opened") from error
        return GroupSum(total, [node_of[site] for site in present])

    def _too_few(self, error: TooFewSitesError) -> AbortedError:
        return AbortedError(
            f"{error.present} sites are left after the {error.during} step, "
            f"{self._declined} declined, and {error.needed} are needed; nothing "
            "was opened"
        )

    def _secure_sum(self, current: OpenRound, nodes: Sequence[int]) -> list[GroupSum]:
        """Open the sum of the sites' vectors, or one a random group, and nothing else.

        All groups take each step together; if one of them fails, none is opened.
        """
        roster = self.plan.roster
        terms = secure_terms(
            self.plan,
            current.session,
            current.this.index,
            current.totals,
            current.length,
        )
        sites = range(1, len(nodes) + 1) if roster is None else roster.identities()
        state, openings = invite(sites, terms=terms, entropy=self.entropy)
        opening = next(iter(openings.values()))
        messages = {
            node: current.invitation(opening, 0 if roster else place, self.identity)
            for place, node in enumerate(nodes, 1)
        }
        answers = self._ask("advertise", current, messages)
        node_of = self._admit(state, answers, messages)
        signed = () if roster is None else ("confirm",)
        opened: list[RevealedSum] = []
        try:
            running: list[tuple[CoordinatorState, dict[int, bytes]]] = [*state.split()]
            members = [tuple(bodies) for _, bodies in running]
            for name in ("share", "mask", *signed, "reveal"):
                messages = {
                    node_of[site]: current.step(body, site)
                    for _, bodies in running
                    for site, body in bodies.items()
                }
                taking = {s: group for group, sent in running for s in sent}
                for answer in self._ask(name, current, messages).values():
                    _take(taking[answer.site], answer)
                advanced = advance_all([group for group, _ in running])
                opened = [each for each in advanced if isinstance(each, RevealedSum)]
                running = [each for each in advanced if isinstance(each, tuple)]
        except TooFewSitesError as error:
            raise self._too_few(error) from error
        except UnsignedError as error:
            groups = [group for group, _ in running]
            raise self._unsigned(error, groups, node_of) from error
        alone = len(members) == 1
        return [
            GroupSum(
                each.total,
                [node_of[site] for site in each.contributors],
                () if alone else group,
            )
            for each, group in zip(opened, members, strict=True)
        ]

    def _unsigned(
        self,
        error: UnsignedError,
        groups: Sequence[CoordinatorState],
        node_of: Mapping[int, int],
    ) -> AbortedError | UnfinishedError:
        """Say that signatures are missing, and whether they can still come."""
        for group in groups:
            if isinstance(group, CollectingConfirmations):
                self._withdrawals |= group.withdrawals
        if self.resumable and {node_of[s] for s in error.missing} <= self._silent:
            return UnfinishedError(
                f"{error}; run the same command again when every site is back, and "
                "nobody is charged twice"
            )
        return AbortedError(str(error))

    def _admit(
        self,
        state: CoordinatorState,
        answers: Mapping[int, Message],
        messages: Mapping[int, Message],
    ) -> dict[int, int]:
        """Take the adverts; return which node each site speaks through."""
        node_of: dict[int, int] = {}
        for node, answer in answers.items():
            assigned = messages[node].site
            if assigned and assigned != answer.site:
                continue
            if _take(state, answer):
                node_of[answer.site] = node
        return node_of

    def _ask(
        self, name: str, current: OpenRound, messages: Mapping[int, Message]
    ) -> dict[int, Message]:
        """Exchange letters; leave out who declined or answered something else."""
        answers = {}
        refused: dict[int, str] = {}
        for node, answer in self.exchange(messages).items():
            sent = messages.get(node)
            if (
                sent is None
                or answer.about != sent.digest()
                or not current.owns(answer)
            ):
                continue
            if answer.kind is Kind.DECLINED:
                refused[node] = legible(answer.body.decode(errors="replace"))
            elif answer.kind is Kind.STEP and (
                not sent.site or answer.site == sent.site
            ):
                answers[node] = answer
        self._declined += len(refused)
        missing = [n for n in messages if n not in answers and n not in refused]
        self._silent = frozenset(missing)
        if self.watch is not None:
            steps = steps_of(self.plan)
            self.watch(
                Step(
                    current.this.index,
                    name,
                    steps.index(name) + 1,
                    len(steps),
                    tuple(answers),
                    tuple(refused),
                    tuple(missing),
                    {node: said for node, said in refused.items() if said},
                )
            )
        return answers


def _added(vectors: Sequence[IntVector]) -> IntVector:
    total: IntVector = np.sum(vectors, axis=0, dtype=np.int64)
    return total


def _take(state: CoordinatorState, answer: Message) -> bool:
    """Give an answer to the secure sum; a faulty one counts as silence."""
    raw = answer.body + answer.numbers.astype("<i8").tobytes()
    try:
        state.receive(answer.site, raw)
    except FaultySiteError:
        return False
    return True


def opened_evaluation(
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

"""Private evaluation of the global model in a Flower app: its nodes and its server.

What the site allows is set by its operator, in the node's own configuration, never
by the run that the coordinator starts::

    flower-supernode ... --node-config 'discreet-policy="/site/policy.toml"'

Flower runs the app that the run brings along: here the sites trust that code, as
they do for training. ``discreet site`` runs no code but its own.

In Flower's simulation engine one machine plays all the nodes, with the developer's own
data: they need no policy and charge no ledger, and the claim says "simulated". Each end
detects the engine by itself: a coordinator that could declare a simulation to a real
node would get around that node's policy.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import (
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from numpy.typing import ArrayLike

from discreet.codec.messages import MalformedMessageError
from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Entropy
from discreet.errors import InputError
from discreet.failures import sentence
from discreet.noise.response import ResponseKey
from discreet.plan import file as planfile
from discreet.plan.plan import ModelRef, Plan
from discreet.plan.revocation import RevokedKeys
from discreet.privacy.account import MemoryAccount, SiteAccount
from discreet.privacy.ledger import Ledger
from discreet.report.build import Result
from discreet.report.evaluation import Evaluation
from discreet.session import policy as policyfile
from discreet.session.coordinator import Coordinator, StepReport, evaluation_of
from discreet.session.messages import Kind, MessageError
from discreet.session.messages import Message as SessionMessage
from discreet.session.policy import PolicyError
from discreet.session.rehearsal import PERMISSIVE, check_agreed, made_up
from discreet.session.retrying import STEP_SECONDS, WAIT_SECONDS, Lost, Retrying
from discreet.session.site import Site
from discreet.session.state import SiteMemory, UsedStateError, memory_beside
from discreet.transport.coordinating import connected
from discreet.transport.joining import (
    answer_once,
    limits_of,
    report_on_stderr,
    response_key_beside,
)
from discreet.transport.keys import read_identity

POLICY: Final = "discreet-policy"
"""Key of the node's configuration: the path of the site's policy."""
LEDGER: Final = "discreet-ledger"
"""The path of the ledger; by default ``ledger.sqlite`` beside the policy."""
IDENTITY: Final = "discreet-identity"
"""The path of the site's key in the roster; needed when the plan has one."""

_QUERY: Final = "discreet"
_MESSAGE, _MODEL, _KEPT = "discreet.message", "discreet.model", "discreet.kept"
"""The records of a session's message, of the global model, of what a site keeps."""

Scored: TypeAlias = Callable[
    [ArrayRecord | None, Context], Examples | tuple[ArrayLike, ArrayLike]
]
"""From the global model to this site's scores and labels.

It should not fail because of a row: whoever picks the model would learn of it. Rows
that do not fit the plan are handled later; make an ``Examples`` with ``check=False``."""

Handler: TypeAlias = Callable[[Message, Context], Message]
Mod: TypeAlias = Callable[[Message, Context, Handler], Message]
"""Wraps an app's functions, as Flower's own mods do."""


def add_evaluation(
    app: ClientApp,
    scored: Scored,
    *,
    entropy: Entropy = SYSTEM,
    rehearsal: bool = False,
) -> None:
    """Let an app with ``@app.train()`` functions take part in private evaluations.

    Args:
        app: the app.
        scored: gets the model that the server sent along and the node's context;
            returns scores and labels, the same ones each time.
        entropy: where keys, masks and noise come from.
        rehearsal: answer rehearsals, and nothing else: ``scored`` is called, so that
            its faults show, and what it returns is thrown away for made-up data; no
            policy is needed, and no ledger is charged.
    """
    app.query(_QUERY)(Node(scored, entropy, rehearsal).answer)


def evaluation_mod(
    scored: Scored, *, entropy: Entropy = SYSTEM, rehearsal: bool = False
) -> Mod:
    """Return the same as a mod, for an app that is made with a ``client_fn``."""
    node = Node(scored, entropy, rehearsal)

    def mod(message: Message, context: Context, call_next: Handler) -> Message:
        if message.metadata.message_type == f"query.{_QUERY}":
            return node.answer(message, context)
        return call_next(message, context)

    return mod


@dataclass(frozen=True, slots=True)
class Node:
    """Answers a session's messages; its fields are arguments of ``add_evaluation``."""

    scored: Scored
    entropy: Entropy = field(default=SYSTEM, repr=False)
    rehearsal: bool = False

    def answer(self, message: Message, context: Context) -> Message:
        """Return the reply to one of Flower's messages.

        Flower sends the text of an exception to the coordinator, so none is raised:
        a site that fails declines, and content without a message is answered with none.
        """
        try:
            received = from_content(message.content)
        except MalformedMessageError as error:
            report_on_stderr(str(error))
            return Message(RecordDict(), reply_to=message)
        site, kept = partial(self._site, message, context), _InContext(context)
        reply = answer_once(site, received, kept=kept, report=report_on_stderr)
        return Message(to_content(reply), reply_to=message)

    def _site(self, message: Message, context: Context) -> Site:
        """Return what the site brings, anew for every message."""
        if _MODEL in message.content.array_records:  # it comes with the invitation
            context.state[_MODEL] = message.content.array_records[_MODEL]
        model = context.state.array_records.get(_MODEL)
        key = _path(context, IDENTITY)
        identity = None if key is None else read_identity(key)
        own = key or _path(context, POLICY)
        revoked = RevokedKeys() if own is None else RevokedKeys.beside(own.parent)
        path = None if self.rehearsal else _path(context, POLICY)
        if path is not None:
            policy = policyfile.load(path)
            ledger = _path(context, LEDGER) or path.with_name("ledger.sqlite")
            response_key = response_key_beside(ledger)
            memory: SiteMemory = memory_beside(ledger)
            # The ledger is opened when nothing else can fail: the site closes it.
            account: SiteAccount = Ledger(ledger, limits=limits_of(policy, revoked))
        else:
            if not self.rehearsal:
                _check_simulated(message)
            policy, account, memory = PERMISSIVE, MemoryAccount(), _InContext(context)
            response_key = ResponseKey(self.entropy(32))
        return Site(
            partial(self.examples, model, context),
            policy,
            account,
            self.entropy,
            memory,
            identity=identity,
            response_key=response_key,
            rehearsal=self.rehearsal,
            simulated=path is None and not self.rehearsal,
            revoked=revoked,
        )

    def examples(
        self, model: ArrayRecord | None, context: Context, plan: Plan
    ) -> Examples:
        """Score with the model that the plan names, and no other.

        A rehearsal answers with made-up data, whatever the app's function does: it
        charges nothing, so a refusal would tell for free how a model fared on real rows.
        """
        if model is not None and model_digest(model) != plan.model.digest:
            raise PolicyError("the model that came is not the one that the plan names")
        if self.rehearsal:
            try:
                self.scored(model, context)
            except Exception as error:  # noqa: BLE001 - told at this node alone
                told = sentence(error, doing="scoring in the rehearsal")
                sys.stderr.write(f"discreet: {told}\n")
            return made_up(plan, np.random.default_rng(context.node_id))
        own = self.scored(model, context)
        if isinstance(own, Examples):
            return own
        scores, labels = own
        kind = plan.facts.scores
        limits = (kind.low, kind.high) if kind.kind == "other" else (None, None)
        # Not checked: a coordinator who picks the plan, or the model, would learn from
        # a refusal that a row does not fit.
        return Examples(
            scores, labels, kind=kind.kind, low=limits[0], high=limits[1], check=False
        )


@dataclass(frozen=True, slots=True)
class _InContext:
    """A ``StateStore`` with Flower, which starts an app anew for every message.

    Where there is no ledger, it is the ``SiteMemory`` too: no folder outlives a process.
    """

    context: Context

    @property
    def _record(self) -> ConfigRecord:
        if _KEPT not in self.context.state:
            self.context.state[_KEPT] = ConfigRecord()
        return self.context.state.config_records[_KEPT]

    def load(self) -> bytes:
        state = self._record.get("state")
        return state if isinstance(state, bytes) else b""

    def save(self, state: bytes) -> None:
        self._record["state"] = state

    def check(self, name: bytes) -> None:
        if name.hex() in self._record:
            raise UsedStateError

    def take(self, name: bytes) -> None:
        self.check(name)
        self._record[name.hex()] = True

    def keep(self, plan: Plan, text: str) -> None:
        del plan
        self._record["plan"] = text

    def plan(self, digest: bytes) -> Plan:
        plan = planfile.loads(str(self._record.get("plan", "")))
        if plan.digest() != digest:
            raise MessageError("the plan of this session is not known here")
        return plan


def _path(context: Context, key: str) -> Path | None:
    value = context.node_config.get(key)
    return None if value is None else Path(str(value))


def _check_simulated(message: Message) -> None:
    """Refuse to answer without a policy, unless both ends detected a simulation.

    The coordinator's word alone counts for nothing. Without it the claim would call
    the answer a deployed site's.
    """
    if not in_simulation():
        raise PolicyError(
            f"this node has no policy: start its SuperNode with {POLICY} in "
            "--node-config"
        )
    if message.content.config_records[_MESSAGE].get("simulated") is not True:
        raise PolicyError(
            "this node is simulated, and the server does not run in Flower's simulation "
            "engine, or in one that this release of discreet does not know"
        )


def in_simulation() -> bool:
    """Whether this process is an actor of Ray, as in Flower's simulation engine.

    A node that is deployed runs its app in a process of Flower, never in an actor.
    """
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return False
    return ray.get_runtime_context().get_actor_id() is not None


def to_content(message: SessionMessage, *, simulated: bool = False) -> RecordDict:
    """Return a session's message as the content of one of Flower's."""
    record = ConfigRecord({"bytes": message.encode(), "simulated": simulated})
    return RecordDict({_MESSAGE: record})


def from_content(content: RecordDict) -> SessionMessage:
    """Read a session's message from the content of one of Flower's."""
    raw = content.config_records.get(_MESSAGE, ConfigRecord()).get("bytes")
    if not isinstance(raw, bytes):
        raise MessageError("Flower's message holds none of a session")
    return SessionMessage.decode(raw)


def model_digest(model: ArrayRecord) -> str:
    """Identify a model by its arrays: names, types, shapes and bytes.

    >>> zeros, ones = ArrayRecord([np.zeros(2)]), ArrayRecord([np.ones(2)])
    >>> model_digest(zeros) == model_digest(ones)
    False
    """
    whole = sha256()
    for name, array in model.items():
        values = array.numpy()
        header = f"{name}\0{values.dtype.str}\0{values.shape}\0"
        whole.update(header.encode() + values.tobytes())
    return f"sha256:{whole.hexdigest()}"


def evaluate(  # noqa: PLR0913 - every public choice is a keyword
    grid: Grid,
    plan: Plan,
    *,
    model: ArrayRecord | None = None,
    sites: int | None = None,
    nodes: Collection[int] | None = None,
    wait_seconds: float = WAIT_SECONDS,
    step_seconds: float = STEP_SECONDS,
    identity: Ed25519PrivateKey | None = None,
    entropy: Entropy = SYSTEM,
    watch: Callable[[StepReport], None] | None = None,
    rehearsal: bool = False,
) -> Result:
    """Evaluate a model on the data of the nodes of a grid.

    It ends within ``wait_seconds`` and ``step_seconds`` for each of at most five
    steps a round, with the survivors' result or with ``AbortedError``. A node that
    is away for a moment is asked again until its step is over.

    Args:
        grid: the ServerApp's.
        plan: what is asked, under which privacy.
        model: the global model, sent to the sites that score with it; the plan is
            bound to it by its digest.
        sites: how many nodes to wait for; by default those of the roster, or as
            many as must survive.
        nodes: Flower's numbers of the nodes that may take part; no other is asked or
            counted. None for every node of the grid.
        wait_seconds: how long to wait for them; then go on with those present.
        step_seconds: how long each step waits for the slowest site.
        identity: the coordinator's key, when the roster names one.
        entropy: where nonces come from.
        watch: told after each step.
        rehearsal: ask for made-up data; only nodes that rehearse answer, nobody is
            charged, and the result is stamped REHEARSAL.
    """
    plan = plan.rehearsed() if rehearsal else plan
    check_agreed(plan, rehearsing=rehearsal)
    if model is not None:
        plan = replace(plan, model=ModelRef(plan.model.name, model_digest(model)))
    roster, simulated = plan.roster, in_engine(grid)
    named = plan.cohort.min_survivors if roster is None else len(roster.sites)
    present = connected(
        grid.get_node_ids, wanted=sites or named, wait_seconds=wait_seconds, among=nodes
    )
    session = Coordinator(
        plan,
        present,
        Retrying(GridTransport(grid, model, simulated), step_seconds),
        entropy=entropy,
        identity=identity,
        watch=watch,
        simulated=simulated,
    )
    return evaluation_of(plan, session.run(), entropy=entropy, simulated=simulated)


@dataclass
class Evaluating:
    """Evaluates the global model every few rounds of training.

    It is what a strategy of Flower takes as ``evaluate_fn``::

        private = Evaluating(grid, plan, every=5)
        strategy.start(grid, arrays, num_rounds=20, evaluate_fn=private)
        private.results[20].auc.interval()

    Each evaluation is charged at every node: with ``every=5`` and 20 rounds four
    times. The untrained model is not evaluated.

    Args:
        grid: the ServerApp's.
        plan: what is asked each time; it is bound to each model by its digest.
        every: evaluate after every so many rounds.
        options: further options of ``evaluate``, such as ``rehearsal=True``.
    """

    grid: Grid
    plan: Plan
    every: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    results: dict[int, Result] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if self.every < 1:
            raise InputError("evaluate after every round, or after every few of them")

    def __call__(self, server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
        """Evaluate, or leave it for this round; Flower logs the values."""
        if not server_round or server_round % self.every:
            return None
        result = evaluate(self.grid, self.plan, model=arrays, **self.options)
        self.results[server_round] = result
        if not isinstance(result, Evaluation):
            return MetricRecord()
        values = {name: result.metrics[name].value for name in sorted(result.metrics)}
        return MetricRecord({k: v for k, v in values.items() if math.isfinite(v)})


@dataclass
class GridTransport:
    """Carries single messages through a grid; ``model`` goes with the invitations.

    An error of Flower is a lost message, whatever its code: the node may be away, and
    a site that is asked again answers with the bytes of its first answer. A reply that
    holds no message is final. What Flower still carries is not pushed again: it would
    start the app twice at once, with one state for both.
    """

    grid: Grid
    model: ArrayRecord | None = None
    simulated: bool = False
    _sent: dict[str, tuple[int, bytes]] = field(default_factory=dict, init=False)
    _refused: list[tuple[int, Lost]] = field(default_factory=list, init=False)

    def send(self, node: int, outgoing: SessionMessage, *, seconds: float) -> None:
        """Push a message: one at a time, since a grid leaves out what it refuses."""
        if (node, outgoing.digest()) in self._sent.values():
            return
        content = to_content(outgoing, simulated=self.simulated)
        if self.model is not None and outgoing.kind is Kind.INVITE:
            content[_MODEL] = self.model
        message = Message(
            content, dst_node_id=node, message_type=f"query.{_QUERY}", ttl=seconds
        )
        pushed = [name for name in self.grid.push_messages([message]) if name]
        if not pushed:
            self._refused.append((node, Lost(outgoing.digest())))
        for name in pushed:
            self._sent[name] = node, outgoing.digest()

    def receive(self) -> Iterator[tuple[int, SessionMessage | Lost]]:
        """Pull what has come: messages, and what Flower reports about the others."""
        yield from self._refused
        self._refused.clear()
        if not self._sent:
            return
        for reply in self.grid.pull_messages(list(self._sent)):
            sent = self._sent.pop(reply.metadata.reply_to_message_id, None)
            if sent is None:
                continue
            node, about = sent
            if reply.has_error():
                yield node, Lost(about)
            else:
                try:
                    yield node, from_content(reply.content)
                except MalformedMessageError:
                    yield node, Lost(about, for_good=True)


def in_engine(grid: Grid) -> bool:
    """Whether a grid is the simulation engine's, for which Flower has no public name."""
    return any(each.__name__ == "InMemoryGrid" for each in type(grid).__mro__)

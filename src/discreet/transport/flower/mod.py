"""Private evaluation of the current global model, added to a Flower ClientApp.

What the site allows is set by its operator, in the node's own configuration, never
by the run that the coordinator starts::

    flower-supernode ... --node-config 'discreet-policy="/site/policy.toml"'

Flower runs the app that the run brings along: here the sites trust that code, as
they do for training. ``discreet site`` runs no code but its own.

In Flower's simulation engine one machine plays all the nodes. The data is the
developer's own: a simulated node needs no policy and charges no ledger, and the result
states that it was simulated. Each end detects the engine by itself: a coordinator that
could declare a simulation to a real node would get around that node's policy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from flwr.app import ArrayRecord, Context, Message
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable, Mod
from numpy.typing import ArrayLike

from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Entropy
from discreet.errors import InputError
from discreet.failures import sentence
from discreet.plan.plan import Plan
from discreet.privacy.ledger import Ledger
from discreet.session import policy as policyfile
from discreet.session.messages import Message as SessionMessage
from discreet.session.policy import Policy, PolicyError
from discreet.session.rehearsal import (
    PERMISSIVE,
    made_up,
    throwaway_folder,
    throwaway_ledger,
)
from discreet.session.site import Site
from discreet.session.state import memory_beside
from discreet.transport.flower.records import (
    ACTION,
    MESSAGE_TYPE,
    InContext,
    MemoryInContext,
    keep_model,
    model_digest,
    reply_with,
)
from discreet.transport.joining import (
    Report,
    StateStore,
    answer_once,
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

Scored: TypeAlias = Callable[
    [ArrayRecord | None, Context], Examples | tuple[ArrayLike, ArrayLike]
]
"""From the global model to this site's scores and labels.

It should not fail because of a row: whoever picks the model would learn of it. Rows
that do not fit the plan are handled later, row by row; an ``Examples`` that it makes
by itself is made with ``check=False`` for the same reason."""


SiteOf: TypeAlias = Callable[[Message, Context], Site]
"""Returns what the site brings, anew for every message."""


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
    app.query(ACTION)(handler(_site_of(scored, entropy, rehearsal=rehearsal)))


def evaluation_mod(
    scored: Scored, *, entropy: Entropy = SYSTEM, rehearsal: bool = False
) -> Mod:
    """Return the same as a mod, for an app that is made with a ``client_fn``."""
    answer = handler(_site_of(scored, entropy, rehearsal=rehearsal))

    def mod(
        message: Message, context: Context, call_next: ClientAppCallable
    ) -> Message:
        if message.metadata.message_type == MESSAGE_TYPE:
            return answer(message, context)
        return call_next(message, context)

    return mod


def handler(
    site_of: SiteOf,
    *,
    report: Report = report_on_stderr,
    kept: StateStore | None = None,
) -> Callable[[Message, Context], Message]:
    """Return the function that turns one of Flower's messages into its reply.

    Args:
        site_of: what the site brings.
        report: told why the site declines.
        kept: where the state is between two messages; by default with Flower.
    """

    def reply(message: Message, context: Context) -> Message:
        store = InContext(context) if kept is None else kept

        def answer(received: SessionMessage) -> SessionMessage:
            site = partial(site_of, message, context)
            return answer_once(site, received, kept=store, report=report)

        return reply_with(answer, message, report=report)

    return reply


def _site_of(scored: Scored, entropy: Entropy, *, rehearsal: bool) -> SiteOf:
    simulated = cache(throwaway_folder)

    def rules_of(context: Context) -> tuple[Policy, Path]:
        path = None if rehearsal else _path(context, POLICY)
        if path is not None:
            ledger = _path(context, LEDGER) or path.with_name("ledger.sqlite")
            return policyfile.load(path), ledger
        if rehearsal or in_simulation():
            own = simulated() / f"{context.node_id}.sqlite"
            return PERMISSIVE, throwaway_ledger(own)
        raise PolicyError(
            f"this node has no policy: start its SuperNode with {POLICY} in "
            "--node-config"
        )

    def site_of(message: Message, context: Context) -> Site:
        policy, ledger = rules_of(context)
        path = _path(context, IDENTITY)
        identity = None if path is None else read_identity(path)
        response_key = response_key_beside(ledger)
        model = keep_model(message, context)
        used = memory_beside(ledger)
        # The ledger is opened when nothing else can fail: the site closes it.
        return Site(
            lambda plan: _examples(scored, model, plan, context, rehearsal=rehearsal),
            policy,
            Ledger(ledger, limits=policy.limits()),
            entropy,
            MemoryInContext(context, used) if policy is PERMISSIVE else used,
            identity=identity,
            response_key=response_key,
            rehearsal=rehearsal,
            simulated=policy is PERMISSIVE and not rehearsal,
        )

    return site_of


def _examples(
    scored: Scored,
    model: ArrayRecord | None,
    plan: Plan,
    context: Context,
    *,
    rehearsal: bool,
) -> Examples:
    """Score with the model that the plan names, and no other."""
    if model is not None and model_digest(model) != plan.model.digest:
        raise PolicyError("the model that came is not the one that the plan names")
    if rehearsal:
        return _rehearsed(scored, model, plan, context)
    own = scored(model, context)
    if isinstance(own, Examples):
        return own
    scores, labels = own
    kind = plan.facts.scores
    limits = (kind.low, kind.high) if kind.kind == "other" else (None, None)
    # Not checked: a coordinator who picks the plan, or the model, would learn from a
    # refusal that a row does not fit.
    return Examples(
        scores, labels, kind=kind.kind, low=limits[0], high=limits[1], check=False
    )


def _rehearsed(
    scored: Scored, model: ArrayRecord | None, plan: Plan, context: Context
) -> Examples:
    """Try the app's function on the node's data, and answer with made-up data.

    Whatever the function does, the answer is the same: nothing is charged here, so
    whoever sends the model must not learn from a refusal how it fared on real rows.
    """
    try:
        scored(model, context)
    except Exception as error:  # noqa: BLE001 - told at this node, and nowhere else
        told = sentence(error, doing="scoring in the rehearsal")
        sys.stderr.write(f"discreet: {told}\n")
    return made_up(plan, np.random.default_rng(context.node_id))


def _path(context: Context, key: str) -> Path | None:
    value = context.node_config.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InputError(f"{key} in the node's configuration is a path")
    return Path(value)


def in_simulation() -> bool:
    """Whether this process is an actor of Flower's simulation engine.

    A node that is deployed runs its app in a process of Flower, never in an actor.
    """
    ray = sys.modules.get("ray")
    engine = "flwr.simulation.ray_transport.ray_actor"
    if ray is None or engine not in sys.modules or not ray.is_initialized():
        return False
    return ray.get_runtime_context().get_actor_id() is not None

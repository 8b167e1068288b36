"""Policies of tests: anybody may ask about any model, unless a test says otherwise."""

from __future__ import annotations

from typing import Any

from discreet.arrays import IntVector
from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Entropy
from discreet.plan.plan import Plan
from discreet.plan.rounds import ResolvedRound
from discreet.privacy.account import SiteAccount
from discreet.session import respond as answering
from discreet.session.policy import AllowAll, Policy
from discreet.session.site import Site
from discreet.session.state import InMemory


def open_policy(**said: Any) -> Policy:
    """Return a policy that leaves coordinators, models and rosters open."""
    allowed = {"coordinators": ("*",), "models": ("*",), "require_roster": False}
    return Policy(**{**allowed, **said})


def respond(
    examples: Examples,
    account: SiteAccount,
    plan: Plan,
    resolved: ResolvedRound,
    *,
    session: bytes,
    population: str = "",
    entropy: Entropy = SYSTEM,
    policy: Policy | None = None,
    **more: Any,
) -> IntVector:
    """Let a site answer one round; without a policy, as a simulated one does."""
    site = Site(
        lambda _: examples,
        policy or AllowAll(population=population, privacy=()),
        account,
        entropy,
        InMemory(),
        strict=policy is None,
        **more,
    )
    return answering.respond(site, plan, resolved, session=session)

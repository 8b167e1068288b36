"""Both ends joined by a fake wire, stopped before any step a test asks for."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.entropy import Seeded
from discreet.secagg import site as steps
from discreet.secagg.coordinator import (
    CollectingAdverts,
    RevealedSum,
    advance_all,
    invite,
)
from discreet.secagg.errors import TooFewHoldersError
from discreet.secagg.site_state import restore_site
from discreet.secagg.terms import Terms

STEPS = ("advertise", "share", "mask", "confirm", "reveal")


@dataclass
class Federation:
    """Sites 1 to n and a coordinator; ``messages`` hold what each site got last."""

    n: int = 5
    min_survivors: int = 4
    colluders: int = 0
    length: int = 3
    signed: bool = False
    everyone_signs: bool = False
    seed: bytes = b"federation"
    groups: int = 1
    states: dict = field(default_factory=dict)
    answers: dict = field(default_factory=dict)

    def __post_init__(self):
        self.entropy = Seeded(self.seed)
        self.sites = range(1, self.n + 1)
        self.keys = {
            s: Ed25519PrivateKey.from_private_bytes(s.to_bytes(32, "big"))
            for s in self.sites
            if self.signed
        }
        public = {s: k.public_key().public_bytes_raw() for s, k in self.keys.items()}
        self.terms = Terms(
            bytes(range(32)),
            length=self.length,
            min_survivors=self.min_survivors,
            colluders=self.colluders,
            identities=public or None,
            groups=self.groups,
            everyone_signs=self.everyone_signs,
        )
        entries = [1, -10, 2**40][: self.length]
        if self.length > 3:
            entries = [1] * self.length
        self.vectors = {s: s * np.array(entries, dtype=np.int64) for s in self.sites}
        state, self.messages = invite(
            self.sites, terms=self.terms, entropy=self.entropy
        )
        self.coordinators, self.members = [state], [tuple(self.sites)]

    @property
    def coordinator(self):
        """The only group's coordinator."""
        (only,) = self.coordinators
        return only

    @property
    def steps(self):
        return STEPS if self.signed else tuple(s for s in STEPS if s != "confirm")

    def act(self, step, site, message=None):
        """Let one site take a step; return its next state and its answer."""
        raw = self.messages[site] if message is None else message
        if step == "advertise":
            return steps.advertise(
                raw,
                site=site,
                terms=self.terms,
                entropy=self.entropy,
                identity=self.keys.get(site),
            )
        state = self.states[site]
        if step == "share":
            return steps.share(state, raw, entropy=self.entropy)
        if step == "mask":
            return steps.mask(state, raw, lambda: self.vectors[site])
        if step == "confirm":
            return steps.confirm(state, raw, identity=self.keys[site])
        return steps.reveal(state, raw)

    def answer(self, step, *, without=()):
        """All sites but some take a step and answer; the round stays open."""
        self.answers = {}
        for site in self.messages:
            if site not in without:
                with suppress(TooFewHoldersError):  # such a site goes silent
                    self.states[site], self.answers[site] = self.act(step, site)
        return self

    def play(self, step, *, without=()):
        """Play one round to its end."""
        return self.answer(step, without=without).deliver().advance()

    def deliver(self, *, without=()):
        """Hand the answers to the coordinators of their sites' groups."""
        for coordinator, members in zip(self.coordinators, self.members, strict=True):
            for site in members:
                if site in self.answers and site not in without:
                    coordinator.receive(site, self.answers[site])
        return self

    def advance(self):
        """Close the round; return the sum or sums, or the federation itself."""
        first = self.coordinators[0]
        if isinstance(first, CollectingAdverts):
            results = first.split()
        else:
            results = advance_all(self.coordinators)
        if isinstance(results[0], RevealedSum):
            return results[0] if self.groups == 1 else results
        self.coordinators = [state for state, _ in results]
        self.members = [tuple(messages) for _, messages in results]
        self.messages = {s: raw for _, sent in results for s, raw in sent.items()}
        return self

    def unused(self, site):
        """Let a site take its last step again, as if from its stored state."""
        self.states[site] = restore_site(self.states[site].encode(), self.terms)

    def until(self, step, *, silent=()):
        """Play every round before ``step``; ``silent`` pairs (step, site) drop out."""
        gone = set()
        for earlier in self.steps[: self.steps.index(step)]:
            gone |= {site for when, site in silent if when == earlier}
            self.play(earlier, without=gone)
        return self

    def through(self, *, silent=()):
        self.until("reveal", silent=silent)
        gone = {site for when, site in silent if when in self.steps}
        return self.play("reveal", without=gone)

    def sum_of(self, sites):
        return sum(self.vectors[s] for s in sites).tolist()
